# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runtime supervisor: one supervisord per host and user, one program per member. It needs neither root nor containers."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import typing as t
import xmlrpc.client

from .._core.base import json_text
from .._core.base.errors import PdError
from .._core.base.printable import printable
from .._probes import logs, processes
from . import boot, gone, guard, supervisor_conf, supervisor_daemon, unlabelled
from .batch import one_by_one
from .errors import HostError
from .folder import Folder, not_here
from .protocol import Admit, Availability, Created, Facts, Live, Wanted
from .state import State, make_dirs, remove_tree, write
from .supervisor_rpc import ALREADY_ADDED, BAD_NAME, NOT_RUNNING, STILL_RUNNING, Rpc

START_WAIT = 15.0
FORGET_WAIT = 15.0
# A supervisord that has lost its files may be between two attempts to start what it ran.
HIDDEN_WAIT = 3.0
# What a member inherits of the environment that Ansible ran in: nothing else, or it would depend on who deployed first.
INHERITED = ("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "TZ", "TMPDIR", "LD_LIBRARY_PATH")
_STATES = {
    "STARTING": "running",
    "RUNNING": "running",
    "STOPPING": "running",
    "BACKOFF": "restarting",
    "STOPPED": "exited",
    "EXITED": "exited",
    "FATAL": "exited",
}


# Of getAllProcessInfo, what is read and what each is.
_PROGRAM: json_text.Readers = {
    **dict.fromkeys(("name", "statename"), json_text.text),
    **dict.fromkeys(("pid", "start", "stop"), lambda value: json_text.count(value) or 0),
    "exitstatus": lambda value: value if isinstance(value, int) else 0,
    "spawnerr": lambda value: printable(json_text.text(value)),
}


class Supervisor:
    """Implements protocol.Driver."""

    name = "supervisor"

    def __init__(self, state: State, supervisord: str | None = None) -> None:
        self.state = state
        self.directory = os.path.join(state.root, "supervisor")
        self.socket = supervisor_conf.socket_path(self.directory, os.geteuid())
        self._wanted = supervisord
        self._rpc = Rpc(self.socket)

    # -- is it there ---------------------------------------------------------------------------------------------------------------

    def available(self) -> Availability:
        if self._find():
            return {"available": True, "why": "", "hint": ""}
        if self._wanted:
            return {
                "available": False,
                "why": f"pd_supervisord is {self._wanted}, which is not there, or not executable",
                "hint": "Correct pd_supervisord, or leave it out to use the one beside Ansible's Python or on PATH.",
            }
        return {
            "available": False,
            "why": f"there is no supervisord beside {sys.executable} nor on PATH",
            "hint": f"Install it: {sys.executable} -m pip install supervisor; or set pd_supervisord to its path.",
        }

    def facts(self, _images: t.Sequence[str], /) -> Facts:
        return {"available": self.available(), "images": {}, "elsewhere": []}

    def _find(self) -> str | None:
        if self._wanted:
            return self._wanted if os.path.isfile(self._wanted) and os.access(self._wanted, os.X_OK) else None
        for folder in (os.path.join(sys.prefix, "bin"), os.path.dirname(sys.executable)):
            path = os.path.join(folder, "supervisord")
            if os.path.isfile(path) and os.access(path, os.X_OK):
                return path
        return shutil.which("supervisord")

    # -- looking -------------------------------------------------------------------------------------------------------------------

    def members(self) -> list[Live]:
        lost = unlabelled.members(self.state, self.name)
        labels = [label for label in self.state.labels() if label.get("runtime") == self.name]
        if not labels:
            return [*lost]
        programs = self._programs()
        marks = processes.marked(self.state.root)
        return [*(self._live(label, programs, marks.get(label["member"], [])) for label in labels), *lost]

    def _programs(self) -> dict[str, dict[str, t.Any]] | None:
        """What supervisord says of its programs, by name; None when there is no supervisord."""
        try:
            listed = json_text.objects(self._rpc.call("supervisor.getAllProcessInfo"))
        except ConnectionError:
            return None
        programs = (json_text.fields(one, _PROGRAM) for one in listed)
        return {program["name"]: program for program in programs}

    def _live(
        self, label: dict[str, t.Any], programs: dict[str, dict[str, t.Any]] | None, marked: list[processes.Process]
    ) -> Live:
        program = (programs or {}).get(label["member"])
        starts = Folder(self.state, label["group"], label["member"]).starts()
        live: Live = {
            "label": label,
            "state": _STATES.get(program["statename"], "missing") if program else "missing",
            "pid": (program["pid"] or None) if program else None,
            "since": None,
            "restarts": max(0, len(starts) - 1),
            "exit": None,
            "why": "",
            "log": self.state.log_path(label["group"], label["member"]),
        }
        if program and live["state"] == "running":
            live["since"] = float(program["start"])
            return live
        main = next((p for p in marked if starts and p.pid == starts[-1][0]), None)
        if main:
            live["state"], live["pid"], live["since"] = "running", main.pid, main.since
            live["why"] = "it runs without supervision: supervisord did not start it, or has ended since"
            return live
        if starts and boot.since(starts[-1].since, starts[-1].boot):
            live["why"] = boot.told()
            return live
        if program:
            self._explain(live, program, len(starts))
        else:
            live["why"] = (
                "no supervisord runs, so nothing runs it" if programs is None else "supervisord does not know it"
            )
        if marked:
            live["why"] += f"; {gone.left_of(len(marked))}"
        return live

    def _explain(self, live: Live, program: dict[str, t.Any], starts: int) -> None:
        """Why a member that supervisord knows does not run."""
        if not program["stop"] and not program["start"]:
            live["why"] = "it has not been started since supervisord was"
            return
        restarts = live["label"].get("restart", True)
        if live["state"] == "restarting" and not restarts:
            live["state"] = "exited"  # supervisord gives it up in its next round
        elif restarts and program["statename"] == "EXITED" and program["exitstatus"] not in supervisor_conf.EXPECTED:
            live["state"] = "restarting"  # and such a one it starts again in its next round
        last = self.logs(live["label"]["group"], live["label"]["member"], 1)
        refused = guard.refusal(last)
        if refused:
            # supervisord may try again, and each start is refused alike.
            live["state"], live["exit"], live["why"] = "exited", guard.REFUSED, refused
            return
        live["exit"], how = self._end_of(program["name"])
        live["why"] = how + (f", started {starts} times" if starts > 1 else "")
        if live["state"] == "restarting":
            live["why"] += "; supervisord starts it again"
        elif program["statename"] == "STOPPED":
            live["why"] = f"it was stopped by hand, {live['why']}"
        if program["spawnerr"] and "too quickly" not in program["spawnerr"]:
            live["why"] += f" ({program['spawnerr']})"
        live["log_line"] = last[0][:200] if last else ""

    def _end_of(self, name: str) -> tuple[int | None, str]:
        """(exit status, in words) of a member's last end. Of signals and of early ends supervisord tells in its log only."""
        try:
            lines = logs.tail(os.path.join(self.directory, "supervisord.log"), 64).lines
        except PdError:
            lines = []
        pattern = re.compile(rf" (?:exited|stopped): {re.escape(name)} \((?:exit status (\d+)|terminated by (\w+))")
        found = [m for m in map(pattern.search, lines) if m]
        if not found:
            return None, "it ended"
        status, signal = found[-1].groups()
        if status is not None:
            return int(status), f"exited with status {status}"
        return None, f"was ended by {signal}" + (" (out of memory? see dmesg)" if signal == "SIGKILL" else "")

    def logs(self, group: str, member: str, lines: int) -> list[str]:
        found = logs.tail(self.state.log_path(group, member)).lines[-lines:]
        return Folder(self.state, group, member).masked(found, self.state.label(group, member))

    # -- creating ------------------------------------------------------------------------------------------------------------------

    def refusals(self, batch: t.Sequence[Wanted]) -> list[str]:
        return not_here(batch)

    def create(self, batch: t.Sequence[Wanted], admit: Admit) -> list[Created]:
        return one_by_one(batch, admit, self.create_one)

    def create_one(self, wanted: Wanted, label: dict[str, t.Any]) -> list[str]:
        """Create and start one member; what was begun is taken back when that fails. Returns warnings."""
        member, part, secrets = wanted
        name, group = member.id, label["group"]
        directory = self.state.member_dir(group, name)
        warnings = [
            f"{name}: {kind} are for containers; runtime supervisor ignores them."
            for kind, given in (("mounts", part.mounts), ("devices", part.devices))
            if given
        ]
        if part.limits:
            warnings.append(f"{name}: resources are limits that runtime supervisor cannot set; it ignores them.")
        with self.state.lock():
            self._ensure()
            self._forget_program(name)
            remove_tree(directory)
            self.state.write_label(label)
            try:
                Folder(self.state, group, name).write(part, label, secrets)
                conf = supervisor_conf.render_member(
                    name,
                    directory,
                    self.state.log_path(group, name),
                    member.restart,
                    member.stop.patience,
                )
                write(self._conf(name), conf)
                self._start(name)
            except BaseException:
                self._undo(group, name)
                raise
        return warnings

    def _start(self, name: str) -> None:
        try:
            self._rpc.call("supervisor.reloadConfig")
            try:
                self._rpc.call("supervisor.addProcessGroup", name)
            except xmlrpc.client.Fault as fault:
                if fault.faultCode != ALREADY_ADDED:
                    raise
            self._rpc.call("supervisor.startProcess", name, False)
        except xmlrpc.client.Fault as fault:
            raise self._refused(f"Starting member {name}", fault, name) from fault
        except ConnectionError as exc:
            raise HostError(
                f"Starting member {name}", "supervisord has ended", f"See {self.directory}/supervisord.log.", name
            ) from exc

    def _undo(self, group: str, name: str) -> None:
        """Take back a member that could not be created; what led here is what is told."""
        with contextlib.suppress(HostError):
            self.remove(group, name, 1)

    # -- removing ----------------------------------------------------------------------------------------------------------------

    def remove(self, group: str, member: str, grace: float) -> None:
        program = (self._programs() or {}).get(member)
        folder = Folder(self.state, group, member)
        starts = folder.starts()
        last = starts[-1] if starts else None
        pid = (program["pid"] or None) if program else None
        seeds = gone.of_member(member, self.state.root, pid, last)
        stopping = program is not None and self._stop_program(member)
        if program is None and self._hidden():
            # Nobody can tell that one to leave it alone: without the script it cannot start it again.
            with contextlib.suppress(FileNotFoundError):
                os.unlink(os.path.join(folder.path, "run"))
        gone.end(
            member, seeds, lambda: gone.of_member(member, self.state.root, None, last), grace, pid if stopping else None
        )
        with self.state.lock():
            self._forget_program(member)
            self.state.delete_member(group, member)
            self._end_hidden()

    def _stop_program(self, name: str) -> bool:
        """Have supervisord send SIGTERM to a member's process group and not start it again. Returns whether it did."""
        try:
            self._rpc.call("supervisor.stopProcess", name, False)
        except xmlrpc.client.Fault as fault:
            if fault.faultCode in (NOT_RUNNING, BAD_NAME):
                return False
            raise self._refused(f"Stopping member {name}", fault, name) from fault
        except ConnectionError:
            return False
        return True

    def _forget_program(self, name: str) -> None:
        """Take a member out of supervisord and out of its configuration. It has been stopped; supervisord may not have noticed yet."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._conf(name))
        deadline = time.monotonic() + FORGET_WAIT
        while True:
            try:
                self._rpc.call("supervisor.removeProcessGroup", name)
                return
            except ConnectionError:
                return
            except xmlrpc.client.Fault as fault:
                if fault.faultCode == BAD_NAME:
                    return
                if fault.faultCode != STILL_RUNNING or time.monotonic() > deadline:
                    raise self._refused(f"Taking member {name} out of supervisord", fault, name) from fault
            # It had just been started again after a crash, or its end has not been read yet.
            self._stop_program(name)
            time.sleep(0.1)

    def sweep(self) -> None:
        with self.state.lock():
            if any(label.get("runtime") == self.name for label in self.state.labels()):
                return
            if unlabelled.members(self.state, self.name):
                return
            self._shut_down()
            for daemon in self._hidden():
                table = processes.table()
                supervisor_daemon.kill([daemon, *supervisor_daemon.children(daemon, table)])
            remove_tree(self.directory)
            if os.path.dirname(self.socket) != self.directory:
                remove_tree(os.path.dirname(self.socket))
            self.state.clear()

    # -- supervisord itself --------------------------------------------------------------------------------------------------------

    def _conf(self, name: str) -> str:
        return os.path.join(self.directory, "members.d", f"{name}.conf")

    def _refused(self, doing: str, fault: xmlrpc.client.Fault, member: str | None = None) -> HostError:
        return HostError(
            doing, f"supervisord answered {fault.faultString}", f"See {self.directory}/supervisord.log.", member
        )

    @property
    def _main_conf(self) -> str:
        return os.path.join(self.directory, "supervisord.conf")

    def _hidden(self) -> list[processes.Process]:
        """Every supervisord of this directory but the one that answers. What it ran it starts again when that ends."""
        found = supervisor_daemon.find(self.state.root, self._main_conf, processes.table())
        if not found:
            return []
        try:
            answering = json_text.count(self._rpc.call("supervisor.getPID"))
        except (ConnectionError, xmlrpc.client.Fault):
            return found
        return [daemon for daemon in found if daemon.pid != answering]

    def _end_hidden(self) -> list[processes.Process]:
        """End those that run nothing any more. Returns the others."""
        left = []
        for daemon in self._hidden():
            if supervisor_daemon.children(daemon, processes.table()):
                left.append(daemon)
            else:
                supervisor_daemon.kill([daemon])
        return left

    def _ensure(self) -> None:
        """Have a supervisord running, and one alone: two would start each other's members. Called with the lock held."""
        deadline = time.monotonic() + HIDDEN_WAIT
        hidden = self._end_hidden()
        while hidden and time.monotonic() < deadline:
            time.sleep(0.2)
            hidden = self._end_hidden()
        if hidden:
            raise self._cannot_start_beside(hidden[0])
        if self._rpc.up():
            self._write_own()
            return
        program = self._find()
        if program is None:
            how = self.available()
            raise HostError("Starting supervisord", how["why"], how["hint"])
        self._write_own()
        self._make_socket_dir()
        self._drop_stale()
        write(self._main_conf, supervisor_conf.render_main(self.directory, self.socket))
        self._launch([program, "-c", self._main_conf])
        deadline = time.monotonic() + START_WAIT
        while not self._rpc.up():
            if time.monotonic() > deadline:
                raise HostError(
                    "Starting supervisord",
                    f"it does not listen on {self.socket} after {START_WAIT:g} s",
                    f"See {self.directory}/supervisord.log.",
                )
            time.sleep(0.05)

    def _write_own(self) -> None:
        """What a supervisord reads again when it is told of another member; it may have been deleted while it ran."""
        make_dirs(os.path.join(self.directory, "members.d"))
        if not os.path.exists(self._main_conf):
            write(self._main_conf, supervisor_conf.render_main(self.directory, self.socket))

    def _cannot_start_beside(self, daemon: processes.Process) -> HostError:
        its = supervisor_daemon.members(daemon, processes.table())
        runs = f"still runs {', '.join(its)}" if its else "still runs something"
        return HostError(
            "Starting supervisord",
            f"an earlier one for {self.directory} (pid {daemon.pid}) cannot be asked, since its socket or files were deleted, and {runs}",
            "Remove or restart the groups of these members, which ends it; a second one would start them again beside the new ones.",
        )

    def _launch(self, argv: list[str]) -> None:
        """Start the daemon: own session, no descriptor of ours but /dev/null, so that Ansible's pipes close when the module ends."""
        env = {k: v for k, v in os.environ.items() if k in INHERITED or k.startswith("LC_")}
        env.setdefault("PATH", "/usr/local/bin:/usr/bin:/bin")
        env.setdefault("HOME", os.path.expanduser("~"))
        # By this it is found when its files are gone.
        env[processes.STATE] = self.state.root
        with tempfile.TemporaryFile(dir=self.directory) as output:
            try:
                done = subprocess.run(  # pylint: disable=ansible-bad-function
                    argv, stdin=subprocess.DEVNULL, stdout=output, stderr=output, cwd="/", env=env,
                    start_new_session=True, close_fds=True, umask=0o077, timeout=START_WAIT, check=False,
                )  # fmt: skip
            except (OSError, subprocess.TimeoutExpired) as exc:
                raise HostError(
                    f"Starting {argv[0]}", str(exc), "Check that it runs by hand: supervisord --version."
                ) from exc
            if done.returncode:
                output.seek(0)
                said = output.read(2000).decode("utf-8", "replace").strip()
                raise HostError(
                    f"Starting {argv[0]}",
                    f"it said: {said or f'exit status {done.returncode}'}",
                    f"See {self.directory}/supervisord.log.",
                )

    def _make_socket_dir(self) -> None:
        folder = os.path.dirname(self.socket)
        if folder == self.directory:
            return
        with contextlib.suppress(FileExistsError):
            os.mkdir(folder, 0o700)
        found = os.lstat(folder)
        if not os.path.isdir(folder) or os.path.islink(folder) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
            raise HostError(
                f"Using {folder} for supervisord's socket",
                "it is not a directory of this user alone",
                f"Delete it, or set pd_state_dir to a path of at most {supervisor_conf.SOCKET_LIMIT - 28} characters.",
            )

    def _drop_stale(self) -> None:
        """Forget programs of members that are no more; their files would make the new supervisord know them."""
        known = {label["member"] for label in self.state.labels()}
        folder = os.path.join(self.directory, "members.d")
        for entry in os.listdir(folder):
            if entry.rpartition(".conf")[0] not in known:
                os.unlink(os.path.join(folder, entry))

    def _shut_down(self) -> None:
        try:
            pid = json_text.count(self._rpc.call("supervisor.getPID"))
            daemon = processes.read(pid) if pid else None
            self._rpc.call("supervisor.shutdown")
        except ConnectionError:
            return
        except xmlrpc.client.Fault as fault:
            raise self._refused("Shutting down supervisord", fault) from fault
        deadline = time.monotonic() + START_WAIT
        while daemon and processes.alive(daemon):
            if time.monotonic() > deadline:
                raise HostError(
                    "Shutting down supervisord",
                    f"pid {pid} is still there after {START_WAIT:g} s",
                    f"See {self.directory}/supervisord.log.",
                )
            time.sleep(0.05)
