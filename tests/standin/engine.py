# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A stand-in for vLLM: speaks as much of its command line, HTTP and metrics as the collection uses, and computes nothing.

    vllm serve MODEL --host 127.0.0.1 --port 8000 --served-model-name tiny --kv-transfer-config '{"kv_role": "kv_producer"}'

What it stands in for is named here, so that no test takes it for more: the KV handshake is a TCP connection to prefill's side channel, the
"KV cache" is a count of tokens and of requests whose blocks prefill holds, and the text depends on the prompt alone. A token is 4
characters.

`system_fingerprint` of an answer tells what served it, prefill and decode with a ">" between: revision and generation by the label that
each found beside it when it started, its --max-model-len, its model's files, and group and formation (who.py). One that served without a
transfer tells of itself.

Environment:
  VLLM_NIXL_SIDE_CHANNEL_HOST, _PORT   the side channel, opened while loading, as vLLM does
  STANDIN_LOAD      seconds of loading (0.3)
  STANDIN_DELAY     seconds that each request takes (0)
  STANDIN_GARBAGE   1: decode's text from a transferred cache is wrong, with 200 and healthy counters
  STANDIN_BUILD     what another content of an image is told by, in system_fingerprint
  STANDIN_RECOMPUTE 1: decode ignores kv_transfer_params and computes the prompt itself
  STANDIN_FAIL      a failure, or several with commas:
    exit_at_load        an argparse error, exit 2 at once
    die_at_load         loads, then a traceback with a ValueError, exit 1
    die_while:FILE      the same, but only while FILE is there
    die_telling:NAME    the same, and the ValueError holds the value of the variable NAME
    crash_once:FILE     the same with a RuntimeError, but only while FILE is not there (it is made)
    hang_while:FILE     not ready while FILE is there, its process lives, no reason logged
    hang_at_load        never ready, its process lives, no reason logged
    block_size          never ready, and logs the block size that the platform refuses
    side_channel_taken  never ready, and logs that the side channel's port is taken (as it really does when it is)
    no_side_channel     ready, but nothing listens on the side channel
    ignore_term         SIGTERM has no effect
    http500             every completion answers 500
    die_at_request:FILE exits at the first completion, while FILE is there
    no_chat             a model without a chat template: chats are refused
    no_kv               completions come without kv_transfer_params (no connector)
    die_after:N         exits N seconds after it is ready
    child               an engine process as a child of the API server
    child_dies:N        the same, killed N seconds after it is ready: /health then says 503
    orphan              leaves a child in a session of its own behind when it ends
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import signal
import socket
import sys
import threading
import time
import typing as t
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

if __package__:
    from . import who
else:
    # Run as a program, from wherever it lies.
    import who

VERSION = "0.32.0"
BYTES_PER_TOKEN = 1024
LAYOUT = "ValueError: VLLM_KV_CACHE_LAYOUT=NHD does not satisfy every supported set; valid layouts: ['LBHNC']"
WORDS = [
    *("lorem", "ipsum", "dolor", "sit", "amet", "sed", "do", "ut", "labore"),
    *("et", "magna", "aliqua", "enim", "ad", "minim", "veniam", "quis"),
]

TTFT_BOUNDS = ("0.01", "0.1", "0.5", "1.0", "2.5", "+Inf")
COUNTERS = [
    *(
        "prompt_tokens_total",
        "generation_tokens_total",
        "request_success_total",
        "num_requests_running",
        "num_requests_waiting",
        "kv_cache_usage_perc",
    ),
    *(
        "nixl_bytes_transferred_sum",
        "nixl_bytes_transferred_count",
        "nixl_xfer_time_seconds_sum",
        "nixl_xfer_time_seconds_count",
    ),
    *("nixl_num_failed_transfers_total", "nixl_num_failed_notifications_total", "nixl_num_kv_expired_reqs_total"),
    "external_prefix_cache_hits_total",
]


def log(level: str, source: str, text: str, who: str = "EngineCore") -> None:
    print(f"({who} pid={os.getpid()}) {level} {time.strftime('%m-%d %H:%M:%S')} [{source}] {text}", flush=True)


def fail_words() -> dict[str, str]:
    words = (w.partition(":") for w in os.environ.get("STANDIN_FAIL", "").split(",") if w)
    return {name: value for name, _colon, value in words}


class Metrics:
    """Counters as vLLM names them, with its labels."""

    def __init__(self, model: str) -> None:
        self.model = model
        self.lock = threading.Lock()
        self.values: dict[tuple[str, str], float] = {}
        for source in ("local_compute", "local_cache_hit", "external_kv_transfer"):
            self.add("vllm:prompt_tokens_by_source_total", 0, source=source)
        for name in COUNTERS:
            self.add(f"vllm:{name}", 0)

    def add(self, name: str, value: float, **labels: str) -> None:
        text = "".join(f',{k}="{v}"' for k, v in labels.items())
        with self.lock:
            self.values[(name, text)] = self.values.get((name, text), 0.0) + value

    def put(self, name: str, value: float) -> None:
        with self.lock:
            self.values[(name, "")] = value

    def page(self) -> str:
        with self.lock:
            rows = sorted(self.values.items())
        return "".join(
            f'{name}{{engine="0",model_name="{self.model}"{text}}} {value}\n' for (name, text), value in rows
        )


class Engine:
    """What the process knows: its arguments, its role, its counters and the blocks that prefill holds."""

    def __init__(self, args: argparse.Namespace, fails: dict[str, str]) -> None:
        self.args, self.fails = args, fails
        self.model = args.served_model_name or args.model
        self.role = (args.kv_transfer_config or {}).get("kv_role")
        self.id = str(uuid.uuid4())
        self.metrics = Metrics(self.model)
        self.side = (
            os.environ.get("VLLM_NIXL_SIDE_CHANNEL_HOST", "localhost"),
            int(os.environ.get("VLLM_NIXL_SIDE_CHANNEL_PORT", "5600")),
        )
        self.self = who.Self(args.model, args.max_model_len)
        # Prefill's blocks that no decode has fetched yet, by request, with the time at which their lease ends.
        self.held: dict[str, float] = {}
        extra = (args.kv_transfer_config or {}).get("kv_connector_extra_config") or {}
        self.lease = float(extra.get("kv_lease_duration") or 30)
        self.seen: set[str] = set()
        self.child: int | None = None
        self.dead = False

    # -- starting ----------------------------------------------------------------------------------------------------------------

    def load(self) -> None:
        """Everything between the start and the first answer. May never return, or end the process."""
        log(
            "INFO",
            "core.py:112",
            f"Initializing a V1 LLM engine (v{VERSION}) with model={self.args.model!r} (stand-in)",
        )
        if "block_size" in self.fails:
            log("ERROR", "core.py:1124", "ValueError: No common block size for 16 (CPU_ATTN: [MultipleOf(32)])")
            hang()
        time.sleep(float(os.environ.get("STANDIN_LOAD", "0.3")))
        if "hang_at_load" in self.fails:
            hang()
        while os.path.exists(self.fails.get("hang_while", "")):
            time.sleep(0.2)
        self.die_for_a_reason()
        once = self.fails.get("crash_once")
        if "die_at_load" in self.fails or (once and not os.path.exists(once)):
            if once:
                open(once, "w").close()
            die_at_load("RuntimeError: NCCL error: unhandled system error" if once else LAYOUT)
        if self.role:
            self.open_side_channel()
        if "child" in self.fails or "child_dies" in self.fails:
            self.fork_child()
        log("INFO", "gpu_model_runner.py:2000", "Model loading took 0.01 GiB and 0.1 seconds")

    def die_for_a_reason(self) -> None:
        secret, cause = self.fails.get("die_telling"), self.fails.get("die_while")
        if secret:
            die_at_load(f"ValueError: the token {os.environ.get(secret)} was refused")
        if cause and os.path.exists(cause):
            die_at_load(LAYOUT)

    def open_side_channel(self) -> None:
        """vLLM's listener is a thread: when it cannot bind, the thread dies and the engine waits for it for ever."""
        host, port = self.side
        try:
            if "side_channel_taken" in self.fails:
                raise OSError(98, "Address already in use")
            if "no_side_channel" in self.fails:
                return
            family = socket.AF_INET6 if ":" in host else socket.AF_INET
            listener = socket.create_server((host, port), family=family, backlog=64)
        except OSError as exc:
            text = {98: "Address already in use", 99: "Cannot assign requested address"}.get(exc.errno or 0, str(exc))
            print("Exception in thread nixl_handshake_listener:\nTraceback (most recent call last):", flush=True)
            print('  File "zmq/backend/cython/_zmq.py", line 1009, in zmq.backend.cython._zmq.Socket.bind', flush=True)
            print(f"zmq.error.ZMQError: {text} (addr='tcp://{host}:{port}')", flush=True)
            hang()
        threading.Thread(target=accept, args=(listener, self.release), daemon=True).start()
        log("INFO", "nixl_connector.py:700", f"NIXL side channel listening on {host}:{port}")

    def fork_child(self) -> None:
        pid = os.fork()
        if pid == 0:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            hang()
        self.child = pid
        threading.Thread(target=self.reap, args=(pid,), daemon=True).start()

    def reap(self, pid: int) -> None:
        os.waitpid(pid, 0)
        self.dead = True
        log(
            "ERROR",
            "core_client.py:908",
            "Engine core proc EngineCore_DP0 died unexpectedly, shutting down client.",
            "APIServer",
        )

    # -- serving -----------------------------------------------------------------------------------------------------------------

    def rendered(self, body: dict) -> str:
        """A chat as this engine's template makes a prompt of it; the template is its file's name here."""
        return f"{self.args.chat_template or 'the model'}: {json.dumps(body.get('messages'))}"

    def tokenize(self, body: dict) -> tuple[int, dict]:
        if "messages" in body and "no_chat" in self.fails:
            return 400, error(NO_TEMPLATE, "BadRequestError", 400)
        text = self.rendered(body) if "messages" in body else str(body.get("prompt", ""))
        tokens = [sum(text[at : at + 4].encode()) for at in range(0, max(1, len(text) // 4 * 4), 4)]
        return 200, {"count": len(tokens), "max_model_len": self.args.max_model_len, "tokens": tokens}

    def complete(self, body: dict, chat: bool) -> tuple[int, dict]:
        if chat and "no_chat" in self.fails:
            return 400, error(NO_TEMPLATE, "BadRequestError", 400)
        prompt = self.rendered(body) if chat else body.get("prompt", "")
        prompt = prompt if isinstance(prompt, str) else json.dumps(prompt)
        tokens = max(1, len(prompt) // 4)
        if tokens + 1 > self.args.max_model_len:
            text = f"This model's maximum context length is {self.args.max_model_len} tokens. "
            text += f"However, your prompt contains at least {tokens} input tokens."
            return 400, error(text, "BadRequestError", 400)
        if "http500" in self.fails:
            log("ERROR", "serving.py:300", "EngineGenerateError: request failed", "APIServer")
            return 500, error("Internal server error", "InternalServerError", 500)
        cause = self.fails.get("die_at_request")
        if cause and os.path.exists(cause):
            log(
                "ERROR",
                "core.py:1300",
                "EngineCore encountered a fatal error. torch.AcceleratorError: an illegal memory access",
            )
            os._exit(1)
        params = body.get("kv_transfer_params") or {}
        limit = int(body.get("max_completion_tokens") or body.get("max_tokens") or 16)
        time.sleep(float(os.environ.get("STANDIN_DELAY", "0")))
        wrong = False
        if (
            params.get("do_remote_prefill")
            and self.role != "kv_producer"
            and os.environ.get("STANDIN_RECOMPUTE") != "1"
        ):
            failed = self.fetch(params, tokens)
            if failed:
                return failed
            wrong = os.environ.get("STANDIN_GARBAGE") == "1"
        else:
            self.compute(prompt, tokens)
        words = text_for(prompt + ("?" if wrong else ""), limit)
        self.metrics.add("vllm:generation_tokens_total", len(words))
        return 200, self.answer(body, chat, words, tokens, params)

    def compute(self, prompt: str, tokens: int) -> None:
        hit = tokens - tokens % 16 if prompt in self.seen and tokens % 16 else tokens - 16 if prompt in self.seen else 0
        hit = max(0, hit)
        self.seen.add(prompt)
        self.metrics.add("vllm:prompt_tokens_by_source_total", tokens - hit, source="local_compute")
        self.metrics.add("vllm:prompt_tokens_by_source_total", hit, source="local_cache_hit")
        self.metrics.add("vllm:prompt_tokens_total", tokens)

    def fetch(self, params: dict, tokens: int) -> tuple[int, dict] | None:
        """Decode reads the blocks: here, a connection to the side channel of the prefill that holds them."""
        started = time.monotonic()
        try:
            with socket.create_connection((params["remote_host"], int(params["remote_port"])), timeout=5) as channel:
                channel.sendall(
                    (
                        json.dumps({"engine": params["remote_engine_id"], "request": params["remote_request_id"]})
                        + "\n"
                    ).encode()
                )
        except (OSError, KeyError, ValueError) as exc:
            self.metrics.add("vllm:nixl_num_failed_transfers_total", 1)
            log(
                "ERROR",
                "nixl_connector.py:1900",
                f"NIXL transfer failure: handshake_failed | Context: {params} ({exc})",
            )
            log(
                "ERROR",
                "scheduler.py:2100",
                f"Failing 1 request(s) due to KV load failure (failure_policy=fail, {tokens} tokens affected)",
            )
            return 500, error("Internal server error", "InternalServerError", 500)
        self.metrics.add("vllm:prompt_tokens_by_source_total", tokens, source="external_kv_transfer")
        self.metrics.add("vllm:prompt_tokens_total", tokens)
        self.metrics.add("vllm:external_prefix_cache_hits_total", tokens)
        self.metrics.add("vllm:nixl_bytes_transferred_sum", tokens * BYTES_PER_TOKEN)
        self.metrics.add("vllm:nixl_bytes_transferred_count", 1)
        self.metrics.add("vllm:nixl_xfer_time_seconds_sum", max(1e-4, time.monotonic() - started))
        self.metrics.add("vllm:nixl_xfer_time_seconds_count", 1)
        return None

    def done(self, status: int, seconds: float) -> None:
        """Count a request that was answered, and when its first token came."""
        if status in (200, 500):
            self.metrics.add("vllm:request_success_total", 1, finished_reason="length" if status == 200 else "error")
        if status == 200:
            for bound in TTFT_BOUNDS:
                reached = bound == "+Inf" or seconds <= float(bound)
                self.metrics.add("vllm:time_to_first_token_seconds_bucket", 1 if reached else 0, le=bound)

    def hold(self) -> str:
        """Keep a request's blocks until a decode has them, or their lease is over."""
        request = uuid.uuid4().hex
        self.held[request] = time.monotonic() + self.lease
        return request

    def release(self, request: str) -> None:
        self.held.pop(request, None)

    def page(self) -> str:
        """The metrics, as they are now."""
        for request, until in list(self.held.items()):
            if until < time.monotonic() and self.held.pop(request, None):
                self.metrics.add("vllm:nixl_num_kv_expired_reqs_total", 1)
        self.metrics.put("vllm:kv_cache_usage_perc", min(1.0, len(self.held) / 1000))
        return self.metrics.page()

    def answer(self, body: dict, chat: bool, words: list[str], tokens: int, params: dict) -> dict:
        text = " ".join(words)
        choice: dict = {"index": 0, "finish_reason": "length", "logprobs": None}
        if chat:
            choice["message"] = {"role": "assistant", "content": text}
        else:
            choice["text"] = text
        if body.get("logprobs") and not chat:
            choice["logprobs"] = {
                "tokens": words, "token_logprobs": [-0.1] * len(words), "top_logprobs": [{w: -0.1, w + "x": -3.0} for w in words],
            }  # fmt: skip
        given = None
        if params.get("do_remote_decode") and self.role and "no_kv" not in self.fails:
            given = {
                "do_remote_prefill": True, "do_remote_decode": False, "remote_block_ids": [[1, 2]], "remote_engine_id": self.id,
                "remote_request_id": self.hold(), "remote_host": self.side[0], "remote_port": self.side[1], "tp_size": 1,
                "remote_num_tokens": tokens, "transfer_mode": "pull", "standin": self.self.text(),
            }  # fmt: skip
        return {
            "id": f"{'chatcmpl' if chat else 'cmpl'}-{uuid.uuid4().hex}", "object": "chat.completion" if chat else "text_completion",
            "created": int(time.time()), "model": self.model, "choices": [choice], "kv_transfer_params": given,
            "system_fingerprint": ">".join(filter(None, [params.get("standin"), self.self.text()])),
            "usage": {"prompt_tokens": tokens, "completion_tokens": len(words), "total_tokens": tokens + len(words)},
        }  # fmt: skip


NO_TEMPLATE = (
    "As of transformers v4.44, default chat template is no longer allowed, so you must provide a chat template."
)


def text_for(prompt: str, limit: int) -> list[str]:
    """Words that follow from the prompt alone."""
    digest = hashlib.sha256(prompt.encode()).digest()
    return [WORDS[digest[i % 32] % len(WORDS)] for i in range(max(1, min(limit, 64)))]


def error(message: str, kind: str, code: int) -> dict:
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


def accept(listener: socket.socket, release: t.Callable[[str], None]) -> None:
    while True:
        channel, _address = listener.accept()
        channel.settimeout(5)
        try:
            release(json.loads(channel.recv(4096))["request"])
        except (OSError, ValueError, LookupError):
            continue
        finally:
            channel.close()


def hang() -> None:
    while True:
        time.sleep(3600)


def die_at_load(reason: str) -> None:
    log("ERROR", "core.py:1124", "EngineCore failed to start.")
    print(
        'Traceback (most recent call last):\n  File "vllm/v1/engine/core.py", line 1115, in run_engine_core', flush=True
    )
    print(reason, flush=True)
    print("RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}", flush=True)
    sys.stdout.flush()
    os._exit(1)


# vllm/entrypoints/serve/middleware/authenticate.py
GUARDED = ("/v1", "/v2", "/inference", "/cohere")


class Handler(BaseHTTPRequestHandler):
    engine: Engine
    protocol_version = "HTTP/1.1"

    def setup(self) -> None:
        super().setup()
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def refused(self) -> bool:
        """As vLLM 0.32 does: whoever shows none of its keys gets 401 below the paths that are guarded, and all else is open."""
        keys = [f"Bearer {key}" for key in self.engine.args.api_key or [os.environ.get("VLLM_API_KEY", "")] if key]
        if not keys or not self.path.startswith(GUARDED) or self.headers.get("Authorization") in keys:
            return False
        self.send_json(401, {"error": "Unauthorized"})
        return True

    def do_GET(self) -> None:
        engine, path = self.engine, self.path.partition("?")[0]
        if self.refused():
            return
        if path == "/health":
            self.send(503 if engine.dead else 200, b"")
        elif path == "/version":
            self.send_json(200, {"version": VERSION})
        elif path == "/v1/models":
            card = {
                "id": engine.model,
                "object": "model",
                "owned_by": "vllm",
                "root": engine.args.model,
                "max_model_len": engine.args.max_model_len,
            }
            self.send_json(200, {"object": "list", "data": [card]})
        elif path == "/metrics":
            self.send(200, engine.page().encode(), "text/plain; version=0.0.4; charset=utf-8")
        else:
            self.send_json(404, {"detail": "Not Found"})

    def do_POST(self) -> None:
        data = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        path = self.path.partition("?")[0]
        if self.refused():
            return
        if path not in ("/v1/completions", "/v1/chat/completions", "/tokenize"):
            self.send_json(404, {"detail": "Not Found"})
            return
        try:
            body = json.loads(data)
        except ValueError as exc:
            self.send_json(400, error(str(exc), "BadRequestError", 400))
            return
        if body.get("model") not in (None, self.engine.model):
            self.send_json(404, error(f"The model `{body['model']}` does not exist.", "NotFoundError", 404))
            return
        if path == "/tokenize":
            self.send_json(*self.engine.tokenize(body))
            return
        self.engine.metrics.add("vllm:num_requests_running", 1)
        began = time.monotonic()
        try:
            status, answer = self.engine.complete(body, path.endswith("chat/completions"))
            # As the real one: every request that ends is counted, a prefill's after its one token.
            self.engine.done(status, time.monotonic() - began)
        finally:
            self.engine.metrics.add("vllm:num_requests_running", -1)
        if status == 200 and body.get("stream"):
            self.stream(answer)
        else:
            self.send_json(status, answer)

    def stream(self, answer: dict) -> None:
        choice = answer["choices"][0]
        words = (choice.get("text") or choice["message"]["content"]).split(" ")
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for number, word in enumerate(words):
            text = word if number == 0 else f" {word}"
            part = {"index": 0, "finish_reason": None if number + 1 < len(words) else "length"}
            part |= {"delta": {"content": text}} if "message" in choice else {"text": text}
            self.chunk({k: answer[k] for k in ("id", "object", "created", "model")} | {"choices": [part]})
        self.raw(b"data: [DONE]\n\n")
        self.raw(b"")

    def chunk(self, value: dict) -> None:
        self.raw(f"data: {json.dumps(value)}\n\n".encode())

    def raw(self, data: bytes) -> None:
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        self.wfile.flush()

    def send_json(self, status: int, value: dict) -> None:
        self.send(status, json.dumps(value).encode())

    def send(self, status: int, data: bytes, kind: str = "application/json") -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_request(self, code: object = "-", size: object = "-") -> None:
        host, port = self.client_address[:2]
        print(
            f'(APIServer pid={os.getpid()}) INFO:     {host}:{port} - "{self.requestline}" {int(code)} OK', flush=True
        )

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        print(f"(APIServer pid={os.getpid()}) INFO:     {format % args}", flush=True)


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def server_bind(self) -> None:
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = self.server_address[:2]

    def handle_error(self, request: object, client_address: object) -> None:
        pass


def parse(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="vllm serve", allow_abbrev=False)
    parser.add_argument("model")
    parser.add_argument("--host", default="0.0.0.0")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--served-model-name")
    parser.add_argument("--kv-transfer-config", type=json.loads)
    parser.add_argument("--max-model-len", type=int, default=4096)
    parser.add_argument("--chat-template")
    parser.add_argument("--api-key", nargs="*")
    args, _others = parser.parse_known_args(argv)
    return args


def run(argv: list[str]) -> None:
    if argv[:1] == ["--version"]:
        print(VERSION)
        return
    if argv[:1] != ["serve"]:
        sys.exit(f"usage: vllm serve MODEL ...; {argv[:1]} is not known to the stand-in")
    fails = fail_words()
    if "exit_at_load" in fails:
        print(
            "usage: vllm serve [model_tag] [options]\nvllm serve: error: unrecognized arguments: --no-such-flag",
            file=sys.stderr,
            flush=True,
        )
        sys.exit(2)
    args = parse(argv[1:])
    engine = Engine(args, fails)
    Handler.engine = engine
    signal.signal(signal.SIGTERM, signal.SIG_IGN if "ignore_term" in fails else lambda *_: stop(engine))
    Server.address_family = socket.AF_INET6 if ":" in args.host else socket.AF_INET
    # vLLM binds its port first and listens when the model is loaded: nothing answers until then.
    server = Server((args.host, args.port), Handler, bind_and_activate=False)
    server.server_bind()
    engine.load()
    if "orphan" in fails and os.fork() == 0:
        os.setsid()
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        server.socket.close()
        hang()
    server.server_activate()
    log("INFO", "launcher.py:40", f"Starting vLLM server on http://{args.host}:{args.port}", "APIServer")
    for name, action in (
        ("die_after", lambda: os._exit(1)),
        ("child_dies", lambda: os.kill(engine.child or 0, signal.SIGKILL)),
    ):
        if name in fails:
            timer = threading.Timer(float(fails[name] or 1), action)
            timer.daemon = True
            timer.start()
    print(f"(APIServer pid={os.getpid()}) INFO:     Application startup complete.", flush=True)
    server.serve_forever(poll_interval=0.1)


def stop(engine: Engine) -> None:
    print(f"(APIServer pid={os.getpid()}) INFO:     Shutting down", flush=True)
    if engine.child and not engine.dead:
        os.kill(engine.child, signal.SIGKILL)
    os._exit(0)


if __name__ == "__main__":
    run(sys.argv[1:])
