# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Groups that are disturbed: their inventory, their runs, and the client that asks them something all the while."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import threading
import typing as t
import urllib.request
from pathlib import Path

import yaml
from faults.model import Fault, Play
from integration import support_runtime
from integration.conftest import Life, alive
from released.unpack import collections
from standin import who
from support import ROOT, Run, playbook_command

HERE = Path(__file__).parent
SECRET = "hunter2-correct-horse"
GRACE = 60.0


class Background:
    """A run that is going on."""

    def __init__(self, process: subprocess.Popen[str], out: Path) -> None:
        self.process, self.out = process, out
        self.killed = False

    def finish(self, timeout: float = 600) -> Run:
        self.process.wait(timeout)
        return Run(self.process.returncode, self.out.read_text(errors="replace"))


class Disturbed(Life):
    """A site whose runs meet the test at points of theirs, and whose hosts can be cut off."""

    folder: Path

    def begin(self, name: str) -> None:
        """Make it ready for a trial of that name."""
        self.meeting = self.folder / f"meeting-{name}"
        self.meeting.mkdir()
        self.runs: list[Background] = []
        self.undo: list[t.Callable[[], t.Any]] = []
        self.complaints: list[str] = []

    # -- runs ----------------------------------------------------------------------------------------------------------------------

    def start(self, play: Play, point: str = "") -> Background:
        """A playbook in the background, in a session of its own, as from another terminal. `point` is where it meets the test."""
        for name in ("reached", "go"):
            (self.meeting / name).unlink(missing_ok=True)
        book = self.own_play(play) if play.keys else f"inferops.pd.{play.book}"
        command = [playbook_command(), "-i", str(self.folder / "hosts.yml"), book, *play.words]
        for key, value in play.extra.items():
            command += ["-e", f"{key}={value}"]
        plugins = HERE / "plugins"
        environment = {
            **os.environ,
            "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
            "ANSIBLE_NOCOLOR": "1",
            "ANSIBLE_FORCE_COLOR": "0",
            "ANSIBLE_PIPELINING": "1",
            "ANSIBLE_CONNECTION_PLUGINS": str(plugins / "connection"),
            "ANSIBLE_CALLBACK_PLUGINS": str(plugins / "callback"),
            "ANSIBLE_CALLBACKS_ENABLED": "fault_points",
            "PYTHONPATH": str(ROOT / "tests"),
            "PATH": f"{Path(playbook_command()).parent}{os.pathsep}{os.environ['PATH']}",
            "PD_FAULTS": str(self.meeting),
            "PD_FAULT_POINT": point,
            **play.environment,
        }
        if play.version:
            environment["ANSIBLE_COLLECTIONS_PATH"] = str(collections(play.version, self.folder.parent))
        out = self.meeting / f"run-{len(self.runs)}-{play.book}.out"
        with out.open("w") as stream:
            process = subprocess.Popen(
                command, cwd=ROOT, env=environment, text=True, start_new_session=True,
                stdin=subprocess.DEVNULL, stdout=stream, stderr=subprocess.STDOUT,
            )  # fmt: skip
        self.runs.append(Background(process, out))
        return self.runs[-1]

    def own_play(self, play: Play) -> str:
        """A playbook of the user's: the collection's play, with keys of their own."""
        (theirs,) = yaml.safe_load((ROOT / "playbooks" / f"{play.book}.yml").read_text())
        file = self.folder / f"own-{play.book}.yml"
        file.write_text(yaml.safe_dump([{**theirs, **play.keys}], sort_keys=False))
        return str(file)

    def do_play(self, play: Play) -> Run:
        return self.start(play).finish()

    def must(self, play: Play) -> Run:
        """A run that is a part of a history, and has to end well."""
        return self.do_play(play).ok()

    def said(self, pattern: str, run: Run | None = None) -> None:
        """The run, or the last one, says it; white space counts as one blank."""
        text = run.out if run else self.runs[-1].out.read_text(errors="replace")
        with self.going_on():
            assert re.search(pattern, " ".join(text.split())), f"it does not say {pattern!r}:\n{text[-6000:]}"

    @contextlib.contextmanager
    def going_on(self) -> t.Iterator[None]:
        """With PD_FAULTS_GO_ON a row's history goes on after what fails, and all of it is told at its end: who served whom, for one."""
        try:
            yield
        except AssertionError as exc:
            if not os.environ.get("PD_FAULTS_GO_ON"):
                raise
            self.complaints.append(_shortened(str(exc)))

    def reached(self, run: Background) -> None:
        """Wait until the run is at its point."""
        there = self.meeting / "reached"
        support_runtime.wait_for(lambda: there.exists() or run.process.poll() is not None, 300, "the run at its point")
        assert there.exists(), f"the run ended before it came to its point:\n{run.out.read_text()[-4000:]}"

    def go(self) -> None:
        (self.meeting / "go").touch()

    # -- hosts ---------------------------------------------------------------------------------------------------------------------

    def down(self, host: str) -> None:
        (self.meeting / f"down-{host}").touch()

    def cut(self, host: str, phase: str) -> None:
        """The connection breaks in that phase: its module works, its answer is lost."""
        (self.meeting / f"cut-{host}").write_text(phase)

    def skew(self, host: str, seconds: float) -> None:
        (self.meeting / f"skew-{host}").write_text(str(seconds))

    def reachable(self) -> None:
        for what in ("down", "cut", "fall"):
            for file in self.meeting.glob(f"{what}-*"):
                file.unlink()

    def fall_over(self, host: str, phase: str) -> None:
        """The module of that phase is killed there, and says nothing."""
        (self.meeting / f"fall-{host}").write_text(phase)

    def state_of(self, host: str) -> Path:
        return Path(self.hosts[host].get("pd_state_dir", self.state))

    # -- members -------------------------------------------------------------------------------------------------------------------

    def running(self) -> dict[str, int]:
        """The pid of each member that lives."""
        return self.pids()

    def locks(self) -> list[Path]:
        """The locks that somebody has."""
        found = [file for state in self.states for file in state.glob("groups/*/lock.json")]
        return [file for file in found if json.loads(file.read_text() or "null")]

    def left(self) -> list[str]:
        """What is left on the hosts: processes, and files of the group."""
        found = [f"process {pid}" for state in self.states for pid in support_runtime.marked(str(state))]
        for state in self.states:
            found += [f"supervisord {pid} of {state}" for pid in support_runtime.supervisords(str(state))]
            found += [str(p) for p in state.rglob("*") if p.is_file() and "groups" in p.relative_to(state).parts]
        return found

    def clean(self) -> None:
        for undo in reversed(self.undo):
            undo()
        self.go()
        for run in self.runs:
            if run.process.poll() is None:
                os.kill(run.process.pid, signal.SIGKILL)
                run.process.wait(10)
        super().clean()


class Case(Disturbed):
    """One site for one row."""

    fault: Fault

    def prepare(self, fault: Fault) -> None:
        """Make it ready for a row; one that another row has left is as new."""
        self.fault = fault
        self.begin(fault.name)
        self.cause = self.folder / "cause"
        self.written = self.told()
        # A host that is in no inventory any more still runs what it ran.
        self.every_state = super().states
        self.before: dict[str, int] = {}
        # What a row's functions keep from one to the other.
        self.keep: dict[str, t.Any] = {}
        self.known_routers: dict[str, str] = {}

    def told(self) -> str:
        """The inventory, but for what `edit` changes."""
        engine = {**self.group["engine"], "args": []}
        groups = {**self.groups, "g": {**self.group, "engine": engine}}
        return json.dumps([groups, self.hosts], sort_keys=True)

    def records(self) -> list[dict[str, t.Any]]:
        """What each host has written of the group."""
        return [json.loads(file.read_text()) for state in self.states for file in state.glob("groups/g/record.json")]

    def places(self) -> set[tuple[str, str]]:
        """Which member is on which host, by its state folder."""
        return {
            (str(state), file.parent.name)
            for state in self.states
            for file in state.glob("groups/*/members/*/label.json")
        }

    @property
    def group(self) -> dict[str, t.Any]:
        return t.cast("dict[str, t.Any]", self.groups["g"])

    @property
    def states(self) -> list[Path]:
        return getattr(self, "every_state", None) or super().states

    @property
    def address(self) -> str:
        return str(next(iter(self.hosts.values())).get("pd_address", "127.0.0.1"))

    def edit(self) -> None:
        """A change of the spec that makes another revision."""
        now = self.group["engine"]["args"]
        self.group["engine"]["args"] = [
            "--max-model-len=4096" if "--max-model-len=8192" in now else "--max-model-len=8192"
        ]
        self.write()

    def serves(self) -> None:
        def asked() -> bool:
            return any(Client.ask(url)[0] == 200 for url, group in self.urls().items() if group == "g")

        support_runtime.wait_for(asked, 10, "an answer of the group")

    @property
    def url(self) -> str:
        return completions(self.address, self.port)

    @property
    def addresses(self) -> list[str]:
        return [str(host.get("pd_address", "127.0.0.1")) for host in self.hosts.values()]

    def urls(self) -> dict[str, str]:
        """Wherever a router may live, or has lived since the row began, with the group that its clients think they ask: one that no run
        reaches any more still answers those who know its address."""
        for name, group in list(self.groups.items()):
            port = group["roles"]["router"]["port"]
            if port:
                self.known_routers |= {completions(address, port): name for address in self.addresses}
        for state in self.states:
            for file in state.glob("groups/*/members/*-router-0/label.json"):
                # It may be written, damaged or removed at this moment.
                with contextlib.suppress(OSError, ValueError, LookupError):
                    label = json.loads(file.read_text())
                    self.known_routers[f"{label['url']}/v1/completions"] = label["group"]
        return dict(self.known_routers)

    def peers(self, address: str, port: int | None = None) -> list[str]:
        """The URLs in the registry of the router there."""
        url = f"http://{address}:{port or self.port}/workers"
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(url, timeout=10) as answer:
            return sorted(worker["url"] for worker in json.load(answer)["workers"])

    def labels(self, member: str) -> list[dict[str, t.Any]]:
        """What each host says of a member of that id."""
        files = [file for state in self.states for file in state.glob(f"groups/*/members/{member}/label.json")]
        return [json.loads(file.read_text()) for file in files]

    @property
    def model(self) -> Path:
        return Path(self.group["model"])


def _shortened(text: str) -> str:
    """What failed, and the end of what was said: there it is told."""
    return text if len(text) < 3000 else text[:400] + "\n[...]\n" + text[-2500:]


def end(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    support_runtime.wait_for(lambda: not alive(pid), 10, f"the end of {pid}")


def completions(address: str, port: int) -> str:
    return f"http://{address}:{port}/v1/completions"


class Client:
    """Asks every router that a client may know all the time, and keeps who made each answer."""

    EVERY = 0.3

    def __init__(self, urls: t.Callable[[], t.Mapping[str, str]]) -> None:
        self.urls = urls
        # How many answers a pair gave through the router of a group.
        self.pairs: dict[tuple[str, str], int] = {}
        self.statuses: dict[int, int] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Client:
        self._thread.start()
        return self

    def __exit__(self, *_: t.Any) -> None:
        self._stop.set()
        self._thread.join(30)

    def _run(self) -> None:
        while not self._stop.wait(self.EVERY):
            for url, group in self.urls().items():
                status, pair = self.ask(url)
                self.statuses[status] = self.statuses.get(status, 0) + 1
                if pair:
                    self.pairs[group, pair] = self.pairs.get((group, pair), 0) + 1

    def mixed(self) -> list[str]:
        """The answers that two made who must not serve together, or that came from another group than the one that was asked."""
        found = []
        for (group, pair), count in self.pairs.items():
            strangers = {side["group"] for side in who.read(pair)} - {group, who.UNKNOWN}
            why = who.mixed(pair) or (f"asked was group {group}" if strangers else "")
            if why:
                found.append(f"{count} answers ({why}): {pair}")
        return sorted(found)

    @staticmethod
    def ask(url: str, timeout: float = 5) -> tuple[int, str]:
        """(status, the pair that served): status 0 when nobody answers."""
        body = json.dumps({"model": "tiny", "prompt": "once upon a time", "max_tokens": 4}).encode()
        request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
        try:
            with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=timeout) as answer:
                return answer.status, str(json.load(answer).get("system_fingerprint") or "")
        except urllib.error.HTTPError as exc:
            return exc.code, ""
        except (OSError, ValueError):
            return 0, ""


class Load:
    """Several clients at once, each with its next request as soon as the last is answered. None of them may fail."""

    def __init__(self, url: str, clients: int) -> None:
        self.url = url
        self.statuses: dict[int, int] = {}
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(number,), daemon=True) for number in range(clients)]
        for thread in self._threads:
            thread.start()

    def _run(self, number: int) -> None:
        # Spread, so that at any time some request is at each stage of its way.
        self._stop.wait(number * 0.4)
        while not self._stop.is_set():
            status, _pair = Client.ask(self.url, timeout=60)
            self.statuses[status] = self.statuses.get(status, 0) + 1

    def end(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(90)
