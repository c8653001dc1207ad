# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A stand-in for vllm-router 0.1.17: its registry, its health, and a completion led through both hops, round robin.

    vllm-router --kv-connector=nixl --host=127.0.0.1 --port=8000 --enable-igw
    vllm-router ... --vllm-pd-disaggregation --prefill http://127.0.0.1:1 --decode http://127.0.0.1:2

As measured of the real one: with --enable-igw the peers of the command line count for nothing and the worker API takes them; without it
they are fixed, and POST /workers answers 400. It checks no health, retries nothing and knows no policy.

Environment:
  STANDIN_ROUTER_FAIL  a failure:
    exit_at_start      an argparse error
    deaf               POST /workers is answered with 200 and forgotten
    registry500:FILE   /workers answers 500, while FILE is there
    registry_hangs:FILE  /workers is never answered, while FILE is there
    late:SECONDS       a member is admitted so long after its POST
"""

from __future__ import annotations

import argparse
import http.client
import itertools
import json
import os
import signal
import sys
import threading
import time
import urllib.error
import urllib.request
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote

FAIL, _COLON, FAIL_HOW = os.environ.get("STANDIN_ROUTER_FAIL", "").partition(":")
TIMEOUT = 60
OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def registry_fails(how: str) -> bool:
    return how == FAIL and os.path.exists(FAIL_HOW)


class Registry:
    """The workers, and whose turn it is."""

    def __init__(self, dynamic: bool) -> None:
        self.dynamic = dynamic
        self.workers: dict[str, dict] = {}
        self.turns = itertools.count()
        self.counts: dict[str, int] = {}
        self.lock = threading.Lock()

    def count(self, what: str) -> None:
        with self.lock:
            self.counts[what] = self.counts.get(what, 0) + 1

    def put(self, url: str, kind: str, model: str) -> None:
        told = {"url": url, "worker_type": kind, "model_id": model, "is_healthy": True, "id": str(uuid.uuid4())}
        self.workers.setdefault(url, told)

    def pick(self, kind: str, turn: int, model: str | None) -> str | None:
        fits = [w["url"] for w in self.workers.values() if w["worker_type"] == kind]
        if self.dynamic:
            fits = [u for u in fits if model in (None, self.workers[u]["model_id"])]
        return fits[turn % len(fits)] if fits else None


def ask(url: str, path: str, body: dict) -> tuple[int, bytes]:
    """One hop. As the real one: what the client showed counts for nothing, the engines see the router's own variable, empty or not."""
    shown = {"Content-Type": "application/json", "Authorization": f"Bearer {os.environ.get('OPENAI_API_KEY', '')}"}
    request = urllib.request.Request(url + path, json.dumps(body).encode(), shown)
    try:
        with OPENER.open(request, timeout=TIMEOUT) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as exc:
        return exc.code, exc.read()
    except (OSError, http.client.HTTPException) as exc:
        return 502, json.dumps({"error": f"{url}: {exc}"}).encode()


class Handler(BaseHTTPRequestHandler):
    registry: Registry
    protocol_version = "HTTP/1.1"

    def disturbed(self) -> bool:
        """Whether the registry fails, and the request is dealt with by that."""
        if not self.path.startswith("/workers"):
            return False
        while registry_fails("registry_hangs"):
            time.sleep(0.2)
        if registry_fails("registry500"):
            self.say(500, {"error": "internal error: lock poisoned"})
            return True
        return False

    def do_GET(self) -> None:
        if self.disturbed():
            return
        if self.path in ("/health", "/liveness", "/readiness"):
            self.send(200, b"OK")
        elif self.path == "/workers":
            workers = list(self.registry.workers.values())
            self.say(200, {"workers": workers, "total": len(workers)})
        elif self.path == "/v1/models":
            models = sorted({w["model_id"] for w in self.registry.workers.values()})
            self.say(200, {"object": "list", "data": [{"id": model, "object": "model"} for model in models]})
        else:
            self.say(404, {"error": "Not Found"})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"{}")
        if self.disturbed():
            return
        if self.path == "/workers":
            self.admit(body)
        elif self.path in ("/v1/completions", "/v1/chat/completions"):
            self.send(*self.complete(body))
        else:
            self.say(404, {"error": "Not Found"})

    def do_DELETE(self) -> None:
        if self.disturbed():
            return
        url = unquote(self.path[len("/workers/") :])
        if not self.path.startswith("/workers/") or self.registry.workers.pop(url, None) is None:
            self.say(400, {"error": f"worker {url} not found", "code": "WORKER_NOT_FOUND"})
        else:
            self.say(200, {"message": f"Worker {url} removed successfully"})

    def admit(self, body: dict) -> None:
        if not self.registry.dynamic:
            why = "PD router requires specific add_prefill_server or add_decode_server methods"
            self.say(400, {"error": why, "code": "ADD_WORKER_FAILED"})
            return
        if FAIL != "deaf":
            kind = body.get("worker_type")
            kind = kind if kind in ("prefill", "decode") else "regular"
            put = (body["url"], kind, body.get("model_id") or "unknown")
            if FAIL == "late":
                threading.Timer(float(FAIL_HOW), self.registry.put, put).start()
            else:
                self.registry.put(*put)
        self.say(200, {"success": True, "message": f"Worker {body['url']} added successfully"})

    def complete(self, body: dict) -> tuple[int, bytes]:
        """Prefill with one token, then decode with what prefill says about the blocks that it holds."""
        turn = next(self.registry.turns)
        self.registry.count("requests")
        chosen = [self.registry.pick(kind, turn, body.get("model")) for kind in ("prefill", "decode")]
        if None in chosen:
            return 503, b'{"error": "No available workers (all circuits open or unhealthy)"}'
        asked = {"do_remote_decode": True, "do_remote_prefill": False}
        first = {k: v for k, v in body.items() if k not in ("max_completion_tokens", "stream_options")}
        first |= {"max_tokens": 1, "stream": False, "kv_transfer_params": asked}
        status, told = ask(str(chosen[0]), self.path, first)
        if status != 200:
            self.registry.count("prefill_errors")
            return status, told
        params = json.loads(told).get("kv_transfer_params")
        status, told = ask(str(chosen[1]), self.path, {**body, "stream": False, "kv_transfer_params": params})
        if status != 200:
            self.registry.count("decode_errors")
        return status, told

    def say(self, status: int, value: object) -> None:
        self.send(status, json.dumps(value).encode())

    def send(self, status: int, data: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        print(f"INFO vllm_router: {format % args}", flush=True)


class Metrics(BaseHTTPRequestHandler):
    """What the real one counts of clients' requests. A counter is there from its first use on."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        counts = dict(Handler.registry.counts)
        lines = [f'vllm_router_pd_{what}_total{{route="/v1/completions"}} {count}' for what, count in counts.items()]
        self.wfile.write("".join(f"{line}\n" for line in lines).encode())

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request: object, client_address: object) -> None:
        pass


def run(argv: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="vllm-router", allow_abbrev=False)
    parser.add_argument("--host", default="0.0.0.0")
    parser.add_argument("--port", type=int, default=30000)
    parser.add_argument("--prometheus-host", default="0.0.0.0")
    parser.add_argument("--prometheus-port", type=int)
    parser.add_argument("--enable-igw", action="store_true")
    parser.add_argument("--vllm-pd-disaggregation", action="store_true")
    parser.add_argument("--prefill", action="append", nargs="+", default=[])
    parser.add_argument("--decode", action="append", default=[])
    args, _others = parser.parse_known_args(argv)
    if FAIL == "exit_at_start":
        parser.error("unrecognized arguments: --no-such-flag")
    registry = Handler.registry = Registry(args.enable_igw)
    if not args.enable_igw:
        if not (args.prefill and args.decode):
            sys.exit("PD disaggregation mode requires --prefill and --decode")
        for url, *_bootstrap in args.prefill:
            registry.put(url.rstrip("/"), "prefill", "unknown")
        for url in args.decode:
            registry.put(url.rstrip("/"), "decode", "unknown")
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    if args.prometheus_port:
        metrics = Server((args.prometheus_host, args.prometheus_port), Metrics)
        threading.Thread(target=metrics.serve_forever, daemon=True).start()
    server = Server((args.host, args.port), Handler)
    print(f"INFO vllm_router::server: Starting server on {args.host}:{args.port} (stand-in)", flush=True)
    server.serve_forever(poll_interval=0.1)


if __name__ == "__main__":
    run(sys.argv[1:])
