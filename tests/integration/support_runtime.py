# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A group without an engine: slices of a plan written by hand, whose members are small Python programs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import typing as t

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

# A member that serves /health and /metrics. Its behaviour is set by variables of its environment:
#   IGNORE_TERM     it does not end on SIGTERM
#   FORK_SESSION    it starts a child in a session of its own, which ignores SIGTERM when this is "stubborn"
#   DIE             it ends at once with that status
#   DUMP            it writes its environment to that file, as JSON
#   BUSY            the value of its metric busy for so many seconds
SERVER = r"""
import http.server, json, os, signal, subprocess, sys, time
started = time.time()
if os.environ.get("DUMP"):
    with open(os.environ["DUMP"], "w") as f:
        json.dump({"env": dict(os.environ), "argv": sys.argv}, f)
print("hello from", os.environ.get("INFEROPS_PD_MEMBER"), flush=True)
if os.environ.get("SAY"):
    print(os.environ["SAY"], file=sys.stderr, flush=True)
if os.environ.get("DIE"):
    sys.exit(int(os.environ["DIE"]))
if os.environ.get("IGNORE_TERM"):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
fork = os.environ.get("FORK_SESSION")
if fork:
    code = "import signal,time\n" + ("signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" if fork == "stubborn" else "") + "time.sleep(600)"
    subprocess.Popen([sys.executable, "-c", code], start_new_session=True)
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        busy = time.time() - started < float(os.environ.get("BUSY", "0"))
        body = ("busy %d\n" % busy).encode()
        self.send_response(200)
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *args):
        pass
address, port = sys.argv[1], int(sys.argv[2])
http.server.ThreadingHTTPServer((address, port), Handler).serve_forever()
"""


def member(
    group: str,
    role: str,
    index: int,
    port: int,
    *,
    generation: int = 1,
    revision: str = "r1",
    env: t.Mapping[str, str] | None = None,
    gpus: t.Sequence[str] = (),
    grace: float = 5,
    drain: float = 0,
    attempts: int = 0,
    **part: t.Any,
) -> dict[str, t.Any]:
    """One member as a plan has it."""
    name = f"{group}-{role}-{index}"
    url = f"http://127.0.0.1:{port}"
    labels = {
        "group": group,
        "member": name,
        "role": role,
        "index": index,
        "revision": revision,
        "generation": generation,
        "port": port,
        "ports": {},
        "gpus": list(gpus),
        "address": "127.0.0.1",
        "kv_address": "127.0.0.1",
        "url": url,
        "health": "/health",
        "backend": "vLLM",
        "dialect": None,
        "policy": None,
    }
    return {
        "id": name,
        "role": role,
        "index": index,
        "revision": revision,
        "address": "127.0.0.1",
        "url": url,
        "parts": [
            {
                "host": "h1",
                "rank": 0,
                "gpus": list(gpus),
                "port": port,
                "ports": {},
                "image": None,
                "executable": sys.executable,
                "argv": [sys.executable, "-c", SERVER, "127.0.0.1", str(port)],
                "env": dict(env or {}),
                "secrets": [],
                "files": [],
                "mounts": [],
                "devices": [],
                "limits": {},
                "labels": labels,
                **part,
            }
        ],
        "probe": {
            "url": url,
            "health": "/health",
            "busy": ["busy"] if drain else [],
            "held": [],
            "metrics": "/metrics",
        },
        "stop": {"grace": grace, "drain": drain},
        "restart": {"attempts": attempts, "window": 2},
        "identity": {"engine": "1", "model": "m"},
    }


# Who changes things: a lock is known by its nonce, `run`.
ME = {"run": "run-of-me", "who": "me@test pid 1", "ttl": 60}
OTHER = {"run": "run-of-another", "who": "other@test pid 2", "ttl": 60}


def slice_of(
    group: str,
    members: t.Sequence[dict[str, t.Any]],
    *,
    create: t.Sequence[str] | None = None,
    absent: t.Sequence[str] = (),
    observed: str | None = None,
    action: str = "deploy",
    generation: int = 1,
    serial: int = 1,
) -> dict[str, t.Any]:
    """A host's slice of a plan, of the formation that its first member's label names. `observed` is the digest of all labels of the host
    that the plan was made from."""
    ids = [m["id"] for m in members]
    formation = members[0]["parts"][0]["labels"].get("formation") if members else None
    record = {
        "schema": 2 if formation else 1,
        "group": group,
        "formation": formation,
        "generation": generation,
        "serial": serial,
        "revision": "r1",
        "members": [{"id": m["id"], "role": m["role"], "index": m["index"], "host": "h1"} for m in members],
        "endpoint": {"url": "http://127.0.0.1:1", "served_model_name": group, "registered": False},
        "state": "partial",
    }
    return {
        "group": group,
        "runtime": "supervisor",
        "run": ME["run"],
        "formation": formation,
        "generation": generation,
        "revision": "r1",
        "action": action,
        "members": list(members),
        "hosts": {
            "h1": {
                "part": True,
                "present": ids,
                "absent": list(absent),
                "create": ids if create is None else list(create),
                "adopt": [],
                "runtimes": [],
                "hold": False,
                "holds": [],
                "observed": {"group": None, "host": observed},
            }
        },
        "record": record,
        "steps": [],
    }


def module(
    name: str, arguments: dict[str, t.Any], check: bool = False, python: str = sys.executable
) -> dict[str, t.Any]:
    """Run a module as Ansible runs it, ad hoc on this machine, and return its result. An action plugin of the same name is run."""
    command = [
        sys.executable, "-m", "ansible", "adhoc", "localhost", "-m", f"inferops.pd.{name}",
        "-a", json.dumps(arguments), "-e", f"ansible_python_interpreter={python}", *(["--check"] if check else []),
    ]  # fmt: skip
    env = {
        **os.environ,
        "ANSIBLE_CONFIG": os.path.join(ROOT, "ansible.cfg"),
        "ANSIBLE_LOAD_CALLBACK_PLUGINS": "1",
        "ANSIBLE_STDOUT_CALLBACK": "ansible.builtin.oneline",
        "ANSIBLE_LOCALHOST_WARNING": "0",
        "ANSIBLE_INVENTORY_UNPARSED_WARNING": "0",
    }
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=180, env=env, check=False)
    line = next((text for text in done.stdout.splitlines() if "=> {" in text), None)
    if line is None:
        raise AssertionError(f"no result: {done.stdout}\n{done.stderr}")
    return t.cast("dict[str, t.Any]", json.loads(line[line.index("=> {") + 3 :]))


def module_direct(name: str, arguments: dict[str, t.Any], check: bool = False) -> dict[str, t.Any]:
    """Run a module's main() as its host does, past its action plugin: arguments on stdin, output through pipes."""
    given = {"ANSIBLE_MODULE_ARGS": {**arguments, "_ansible_check_mode": check}}
    code = f"from ansible_collections.inferops.pd.plugins.modules.{name} import main; main()"
    profile = (
        "import sys\n"
        "from ansible.module_utils import basic\n"
        "basic._ANSIBLE_ARGS = sys.stdin.buffer.read()\n"
        "basic._ANSIBLE_PROFILE = 'legacy'\n"
    )
    path = os.pathsep.join([p for p in sys.path if p])
    done = subprocess.run(
        [sys.executable, "-c", profile + code],
        input=json.dumps(given),
        capture_output=True,
        text=True,
        timeout=180,
        env={**os.environ, "PYTHONPATH": path},
        check=False,
    )
    try:
        return t.cast("dict[str, t.Any]", json.loads(done.stdout.splitlines()[-1]))
    except (ValueError, IndexError) as exc:
        raise AssertionError(f"no result: {done.stdout}\n{done.stderr}") from exc


def orders(phase: str, *plans: dict[str, t.Any], **call: t.Any) -> dict[str, t.Any]:
    """The arguments of module members for one phase of some workloads."""
    return {"orders": [{"plan": plan, "phase": phase} for plan in plans], "holder": ME, **call}


def wait_for(what: t.Callable[[], t.Any], seconds: float = 10, why: str = "") -> t.Any:
    """What a callable returns once it is true."""
    end = time.monotonic() + seconds
    while True:
        value = what()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"{why or what} did not come true within {seconds} s")
        time.sleep(0.05)


def marked(state_dir: str, title: bytes = b"") -> list[int]:
    """The pids of all processes that carry the marker of a state directory, and show `title` in their command line."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/environ", "rb") as stream:
                    block = stream.read().split(b"\0")
                with open(f"/proc/{name}/cmdline", "rb") as stream:
                    command = stream.read()
            except OSError:
                continue
            ours = any(entry.startswith(b"INFEROPS_PD_MEMBER=") for entry in block)
            if ours and f"INFEROPS_PD_STATE={state_dir}".encode() in block and title in command:
                found.append(int(name))
    return found


def supervisord_of(state_dir: str) -> int | None:
    """The pid of a state directory's supervisord."""
    try:
        with open(os.path.join(state_dir, "supervisor", "supervisord.pid"), encoding="ascii") as stream:
            return int(stream.read())
    except FileNotFoundError:
        return None


def supervisords(state_dir: str) -> list[int]:
    """The pids of all supervisords of a state directory, also of those whose pid file is gone or names another."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/cmdline", "rb") as stream:
                    words = stream.read().split(b"\0")
            except OSError:
                continue
            conf = os.fsencode(os.path.join(state_dir, "supervisor", ""))
            if any(b"supervisord" in word for word in words[:3]) and any(word.startswith(conf) for word in words):
                found.append(int(name))
    return sorted(found)


def clean_up(state_dir: str) -> None:
    """End everything that a test left: only processes of its own state directory."""
    for victim in [*supervisords(state_dir), *marked(state_dir)]:
        try:
            os.kill(victim, signal.SIGKILL)
        except ProcessLookupError:
            continue
