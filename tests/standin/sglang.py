# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A stand-in for SGLang under prefill/decode disaggregation: as much of its command line, HTTP and metrics as sglang-router and the
collection use.

    sglang -m sglang.launch_server --model-path M --host 127.0.0.1 --port 8000 --disaggregation-mode prefill

The router sends a request to both roles at once, with a room at prefill's bootstrap server, where they meet. Here the bootstrap server
answers a decode's connection when prefill has computed the room's request, and prefill answers its own request when decode has come: who
goes away in between fails both. Over NIXL a decode keeps the agent that it met at an address, and fails with whoever answers there next,
as nixl 795 has it. The proof's hand-off of one exact pair is not there.

Environment:
  STANDIN_LOAD    seconds of loading (0.3)
  STANDIN_DELAY   seconds that prefill takes for each request, and decode after it (0)
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import sys
import threading
import time
import uuid
from http.server import BaseHTTPRequestHandler

from engine import Server, text_for

VERSION = "0.5.23"
MEET = 30.0


class Rooms:
    """Requests that prefill has computed and decode has yet to fetch. Whoever comes first waits for the other."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.computed: set[int] = set()
        self.fetched: set[int] = set()

    def hand_over(self, room: int) -> bool:
        """Prefill's side: whether a decode came for it."""
        with self.changed:
            self.computed.add(room)
            self.changed.notify_all()
            came = self.changed.wait_for(lambda: room in self.fetched, MEET)
            self.computed.discard(room)
            self.fetched.discard(room)
        return came

    def fetch(self, room: int) -> bool:
        with self.changed:
            there = self.changed.wait_for(lambda: room in self.computed, MEET)
            if there:
                self.fetched.add(room)
                self.changed.notify_all()
        return there


class Engine:
    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args
        self.model = args.served_model_name or args.model_path
        self.rooms = Rooms()
        self.running, self.failed = 0, 0
        self.agent = uuid.uuid4().hex
        # Of a decode, whom it has met where.
        self.agents: dict[tuple[str, int], str] = {}
        self.lock = threading.Lock()

    def load(self) -> None:
        print(f"[{time.strftime('%Y-%m-%d %H:%M:%S')}] server_args={self.args} (stand-in)", flush=True)
        time.sleep(float(os.environ.get("STANDIN_LOAD", "0.3")))
        if self.args.disaggregation_mode == "prefill":
            listener = socket.create_server((self.args.host, self.args.disaggregation_bootstrap_port), backlog=128)
            threading.Thread(target=self.meet, args=(listener,), daemon=True).start()

    def meet(self, listener: socket.socket) -> None:
        while True:
            channel, _address = listener.accept()
            threading.Thread(target=self.guest, args=(channel,), daemon=True).start()

    def guest(self, channel: socket.socket) -> None:
        with channel:
            try:
                channel.settimeout(MEET)
                room = json.loads(channel.recv(4096))["room"]
                channel.sendall(self.agent.encode() if self.rooms.fetch(room) else b"none")
            except (OSError, ValueError, LookupError):
                pass

    def complete(self, body: dict) -> tuple[int, dict]:
        mode, room = self.args.disaggregation_mode, body.get("bootstrap_room")
        if mode == "prefill":
            time.sleep(float(os.environ.get("STANDIN_DELAY", "0")))
            good = room is not None and self.rooms.hand_over(room)
        else:
            good = mode == "null" or self.came(body)
        if not good:
            self.failed += 1
            return 500, {"error": {"message": f"room {room}: the other side did not come", "code": 500}}
        if mode == "decode":
            time.sleep(float(os.environ.get("STANDIN_DELAY", "0")))
        text = " ".join(text_for(str(body.get("prompt", "")), int(body.get("max_tokens") or 16)))
        choice = {"index": 0, "text": text, "logprobs": None, "finish_reason": "length"}
        card = {"id": uuid.uuid4().hex, "object": "text_completion", "created": int(time.time()), "model": self.model}
        return 200, {
            **card,
            "choices": [choice],
            "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
        }

    def came(self, body: dict) -> bool:
        """Decode's side: whether prefill had computed the request."""
        try:
            where = (str(body["bootstrap_host"]), int(body["bootstrap_port"]))
            with socket.create_connection(where, timeout=5) as channel:
                channel.settimeout(MEET + 5)
                channel.sendall(json.dumps({"room": body["bootstrap_room"]}).encode())
                agent = channel.recv(64).decode()
            known = (
                self.agents.setdefault(where, agent) if self.args.disaggregation_transfer_backend == "nixl" else agent
            )
            if agent != known:
                print(f"agent at {where} is {agent}, and {known} is known there", flush=True)
            return agent == known != "none"
        except (OSError, ValueError, LookupError) as exc:
            print(f"bootstrap of room {body.get('bootstrap_room')} failed: {exc!r}", flush=True)
            return False

    def page(self) -> str:
        values = {
            "num_running_reqs": self.running,
            "num_queue_reqs": 0,
            "num_prefill_inflight_queue_reqs": len(self.rooms.computed),
            "num_transfer_failed_reqs": self.failed,
            "num_bootstrap_failed_reqs": 0,
        }
        return "".join(f'sglang:{name}{{model_name="{self.model}"}} {value}\n' for name, value in values.items())


class Handler(BaseHTTPRequestHandler):
    engine: Engine
    protocol_version = "HTTP/1.1"

    def setup(self) -> None:
        super().setup()
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def refused(self) -> bool:
        """As SGLang 0.5.23 does: with a key, all is guarded but health, readiness and metrics."""
        key = self.engine.args.api_key
        open_to_all = self.path.startswith(("/health", "/ready", "/metrics"))
        if not key or open_to_all or self.headers.get("Authorization") == f"Bearer {key}":
            return False
        self.send(401, b'{"error": "Unauthorized"}')
        return True

    def do_GET(self) -> None:
        engine, path = self.engine, self.path.partition("?")[0]
        if self.refused():
            return
        told = {"served_model_name": engine.model, "model_path": engine.args.model_path, "tp_size": 1, "dp_size": 1}
        told |= {"version": VERSION, "disaggregation_mode": engine.args.disaggregation_mode, "is_generation": True}
        if path in ("/health", "/health_generate"):
            self.send(200, b"")
        elif path in ("/server_info", "/get_server_info", "/model_info", "/get_model_info"):
            self.send(200, json.dumps(told).encode())
        elif path == "/v1/models":
            card = {"id": engine.model, "object": "model", "owned_by": "sglang", "root": engine.args.model_path}
            self.send(200, json.dumps({"object": "list", "data": [card]}).encode())
        elif path == "/metrics":
            self.send(200, engine.page().encode())
        else:
            self.send(404, b'{"detail": "Not Found"}')

    def do_POST(self) -> None:
        engine = self.engine
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"{}")
        if self.refused():
            return
        if self.path != "/v1/completions":
            self.send(404, b'{"detail": "Not Found"}')
            return
        with engine.lock:
            engine.running += 1
        try:
            status, answer = engine.complete(body)
        finally:
            with engine.lock:
                engine.running -= 1
        self.send(status, json.dumps(answer).encode())

    def send(self, status: int, data: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        print(f"INFO: {format % args}", flush=True)


def parse(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="sglang.launch_server", allow_abbrev=False)
    parser.add_argument("--model-path", required=True)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=30000)
    parser.add_argument("--served-model-name")
    parser.add_argument("--disaggregation-mode", choices=["null", "prefill", "decode"], default="null")
    parser.add_argument("--disaggregation-transfer-backend", default="mooncake")
    parser.add_argument("--disaggregation-bootstrap-port", type=int, default=8998)
    parser.add_argument("--api-key")
    args, _others = parser.parse_known_args(argv)
    return args


def run(argv: list[str]) -> None:
    if argv[:2] != ["-m", "sglang.launch_server"]:
        sys.exit(f"usage: -m sglang.launch_server ...; {argv[:2]} is not known to the stand-in")
    engine = Handler.engine = Engine(parse(argv[2:]))
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    engine.load()
    server = Server((engine.args.host, engine.args.port), Handler)
    print("The server is fired up and ready to roll!", flush=True)
    server.serve_forever(poll_interval=0.1)


if __name__ == "__main__":
    run(sys.argv[1:])
