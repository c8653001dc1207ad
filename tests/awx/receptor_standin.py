# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A stand-in for receptor on one node: its control socket, and nothing of its mesh. receptor_standin.py SOCKET NODE SPOOL

AWX speaks with receptor through this socket, by the package receptorctl. What it asks for jobs on its own node is here: status, reload,
and work submit, list, status, results, cancel, release. Work is `ansible-runner worker PARAMS`, as in the entries that AWX writes into
receptor's own configuration. Asked to end, it ends the work that goes on, too.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import shutil
import signal
import socketserver
import subprocess
import sys
import threading
import time
import typing as t
import uuid
from dataclasses import dataclass
from pathlib import Path

STATES = ("Pending", "Running", "Succeeded", "Failed", "Canceled")
ACTIVE = ("Pending", "Running")
WORK_TYPES = ("local", "ansible-runner")


@dataclass
class Unit:
    """One piece of work."""

    folder: Path
    worktype: str
    params: str
    state: str = "Pending"
    detail: str = ""
    process: subprocess.Popen[bytes] | None = None

    @property
    def stdout(self) -> Path:
        return self.folder / "stdout"

    @property
    def over(self) -> bool:
        return self.state not in ACTIVE and (self.process is None or self.process.poll() is not None)

    def start(self) -> None:
        command = ["ansible-runner", "worker", *self.params.split()]
        with contextlib.ExitStack() as files:
            given = files.enter_context((self.folder / "stdin").open("rb"))
            out = files.enter_context(self.stdout.open("wb"))
            err = files.enter_context((self.folder / "stderr").open("wb"))
            self.process = subprocess.Popen(command, stdin=given, stdout=out, stderr=err, start_new_session=True)
        self.state, self.detail = "Running", f"Running: PID {self.process.pid}"
        threading.Thread(target=self._wait, args=(self.process,), daemon=True).start()

    def _wait(self, process: subprocess.Popen[bytes]) -> None:
        code = process.wait()
        if self.state == "Canceled":
            return
        told = (self.folder / "stderr").read_bytes()[-1000:].decode(errors="replace").strip()
        self.detail = f"exit status {code}" + (f", stderr: {told}" if code and told else "")
        self.state = "Failed" if code else "Succeeded"

    def cancel(self) -> None:
        if self.state in ACTIVE and self.process:
            self.state = self.detail = "Canceled"
            # As from receptor: the worker ends its playbook, and says so in its last lines.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGTERM)

    def status(self) -> dict[str, t.Any]:
        return {
            "State": STATES.index(self.state),
            "StateName": self.state,
            "Detail": self.detail,
            "StdoutSize": self.stdout.stat().st_size if self.stdout.exists() else 0,
            "WorkType": self.worktype,
            "ExtraData": {"Params": self.params},
        }


class Node:
    """All work of a node, by its id."""

    def __init__(self, name: str, spool: Path) -> None:
        self.name, self.spool = name, spool
        self.units: dict[str, Unit] = {}

    def unit(self, name: str) -> Unit:
        if name not in self.units:
            raise LookupError(f"unknown work unit {name}")
        return self.units[name]

    def create(self, worktype: str, params: str) -> str:
        if worktype not in WORK_TYPES:
            raise ValueError(f"unknown work type {worktype}")
        name = uuid.uuid4().hex[:8]
        folder = self.spool / self.name / name
        folder.mkdir(mode=0o700, parents=True)
        self.units[name] = Unit(folder, worktype, params)
        return name

    def release(self, name: str) -> None:
        unit = self.unit(name)
        unit.cancel()
        del self.units[name]
        shutil.rmtree(unit.folder, ignore_errors=True)

    def end(self) -> None:
        """End all work, and wait for it a little: a worker stops its playbook first."""
        units = list(self.units.values())
        for unit in units:
            unit.cancel()
        for unit in units:
            if unit.process:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    unit.process.wait(10)

    def mesh(self) -> dict[str, t.Any]:
        advertisement = {
            "NodeID": self.name,
            "Service": "control",
            "Time": datetime.datetime.now(datetime.timezone.utc).isoformat(),
            "ConnType": 1,
            "Tags": {"type": "Control Service"},
            "WorkCommands": [{"WorkType": name, "Secure": False} for name in WORK_TYPES],
        }
        return {
            "Version": "1.4.9+standin",
            "SystemCPUCount": os.cpu_count(),
            "SystemMemoryMiB": 4096,
            "NodeID": self.name,
            "Connections": [],
            "RoutingTable": {},
            "Advertisements": [advertisement],
            "KnownConnectionCosts": {self.name: {}},
        }


class Control(socketserver.StreamRequestHandler):
    """One connection: commands, a line each, as words or as JSON."""

    server: Server

    def say(self, answer: t.Any) -> None:
        text = answer if isinstance(answer, str) else json.dumps(answer)
        self.wfile.write(text.encode() + b"\n")
        self.wfile.flush()

    def handle(self) -> None:
        self.say(f"Receptor Control, node {self.server.node.name}")
        while True:
            line = self.rfile.readline().decode().strip()
            if not line:
                return
            try:
                if not self.command(line):
                    return
            except Exception as error:  # whatever it was: the client is told, and the socket lives on
                self.say(f"ERROR: {error}")

    def command(self, line: str) -> bool:
        """Whether another command may follow."""
        if line.startswith("{"):
            request = json.loads(line)
        else:
            keys = ("command", "subcommand", "unitid", "startpos")
            request = dict(zip(keys, line.split()))
        name = request["command"].lower()
        if name == "work":
            return self.work(request.get("subcommand", ""), request)
        if name not in ("status", "reload"):
            raise ValueError(f"Unknown command {name}")
        self.say(self.server.node.mesh() if name == "status" else {"Success": True})
        return True

    def work(self, what: str, request: dict[str, t.Any]) -> bool:
        node, name = self.server.node, request.get("unitid", "")
        if what == "submit":
            return self.submit(request)
        if what == "results":
            return self.results(name, int(request.get("startpos") or 0))
        if what == "list":
            self.say({each: unit.status() for each, unit in list(node.units.items())})
        elif what == "status":
            self.say(node.unit(name).status())
        elif what == "cancel":
            node.unit(name).cancel()
            self.say({"cancelled": name})
        elif what in ("release", "force-release"):
            node.release(name)
            self.say({"released": name})
        else:
            raise ValueError(f"unknown work subcommand {what}")
        return True

    def submit(self, request: dict[str, t.Any]) -> bool:
        node = self.server.node
        name = node.create(request["worktype"], request.get("params", ""))
        self.say(f"Work unit created with ID {name}. Send stdin data and EOF.")
        with (node.unit(name).folder / "stdin").open("wb") as given:
            shutil.copyfileobj(self.rfile, given)
        node.unit(name).start()
        self.say({"unitid": name, "result": "Job Started"})
        return False

    def results(self, name: str, start: int) -> bool:
        unit = self.server.node.unit(name)
        self.say(f"Streaming results for work unit {name}")
        with unit.stdout.open("rb") as out:
            out.seek(start)
            while True:
                over = unit.over  # before what is read: nothing is written after it
                data = out.read(65536)
                if data:
                    self.wfile.write(data)
                    self.wfile.flush()
                elif over:
                    return False
                else:
                    time.sleep(0.1)


class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True

    def __init__(self, path: str, node: Node) -> None:
        self.node = node
        super().__init__(path, Control)


def main(path: str, name: str, spool: str) -> None:
    Path(path).unlink(missing_ok=True)
    node = Node(name, Path(spool))
    server = Server(path, node)
    signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=server.shutdown).start())
    server.serve_forever()
    node.end()


if __name__ == "__main__":
    main(*sys.argv[1:4])
