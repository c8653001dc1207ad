# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runtime systemd: one unit per member, of the system or of a user, for engines that are installed on the host itself."""

from __future__ import annotations

import contextlib
import glob
import os
import pwd
import time
import typing as t

from .._core.base.errors import PdError
from .._core.work.member import Member
from .._probes import logs, processes
from .._probes.logs import TAIL_LINES
from . import boot, gone, guard, systemd_unit, unlabelled
from .batch import one_by_one
from .errors import HostError
from .folder import Folder, not_here
from .protocol import Admit, Availability, Created, Facts, Live, Wanted
from .state import State, make_dirs, remove_tree, write
from .systemd_manager import Manager, cgroup_processes, locked_memory

SCOPES = ("system", "user")
SYSTEM_UNITS = "/etc/systemd/system"
# What systemd needs beyond the grace to kill what is left and to say so.
STOP_MARGIN = 15.0
_SHOWN = "Id,LoadState,ActiveState,SubState,Result,MainPID,ExecMainCode,ExecMainStatus,ExecMainStartTimestampMonotonic,ControlGroup"
_SIGNALS = {"6": "SIGABRT", "9": "SIGKILL", "11": "SIGSEGV", "15": "SIGTERM"}
_KILLED, _DUMPED = "2", "3"


class Systemd:
    """Implements protocol.Driver."""

    name = "systemd"

    def __init__(self, state: State, scope: str | None = None) -> None:
        """`scope` is for members that are created; one that is there is of the scope that its label says."""
        self.state = state
        self.scope = scope or "system"
        if self.scope not in SCOPES:
            raise HostError("Reading option scope", f"{scope!r} is neither system nor user", "Correct pd_scope.")
        self._managers = {name: Manager(name == "user") for name in SCOPES}

    @property
    def user(self) -> bool:
        return self.scope == "user"

    @property
    def manager(self) -> Manager:
        return self._managers[self.scope]

    def _as_created(self, label: t.Mapping[str, t.Any] | None) -> Systemd:
        """The same for a member that is there."""
        scope = (label or {}).get("scope") or self.scope
        if scope == self.scope:
            return self
        other = Systemd(self.state, scope)
        other._managers = self._managers
        return other

    @property
    def units_dir(self) -> str:
        if not self.user:
            return SYSTEM_UNITS
        return os.path.join(pwd.getpwuid(os.geteuid()).pw_dir, ".config", "systemd", "user")

    # -- is it there ---------------------------------------------------------------------------------------------------------------

    def available(self) -> Availability:
        why, hint = self._unavailable()
        return {"available": not why, "why": why, "hint": hint}

    def facts(self, _images: t.Sequence[str], /) -> Facts:
        return {"available": self.available(), "images": {}, "elsewhere": []}

    def _unavailable(self) -> tuple[str, str]:
        if not os.path.isdir("/run/systemd/system"):
            with open("/proc/1/comm", encoding="utf-8", errors="replace") as stream:
                first = stream.read().strip()
            return (
                f"systemd does not run this host (process 1 is {first})",
                "Use runtime docker or supervisor here.",
            )
        if not self.user and os.geteuid() != 0:
            return (
                f"units of the system need root, and Ansible is user {_user()} here",
                "Set ansible_become: true; or, for units of that user alone, pd_scope: user.",
            )
        if self.user and not os.path.exists(f"/var/lib/systemd/linger/{_user()}"):
            return (
                f"user {_user()} does not linger: its services would end when Ansible logs out",
                f"Once, as root: loginctl enable-linger {_user()}.",
            )
        silent = self.manager.answers()
        if silent:
            whose = f"systemd of user {_user()}" if self.user else "systemd"
            return f"{whose} does not answer ({silent})", "See systemctl status and journalctl -b -u dbus on the host."
        return "", ""

    # -- looking -------------------------------------------------------------------------------------------------------------------

    def members(self) -> list[Live]:
        lost = self._unlabelled()
        labels = [label for label in self.state.labels() if label.get("runtime") == self.name]
        if not labels:
            return [*lost]
        marks = processes.marked(self.state.root)
        found: list[Live] = [*lost]
        for scope in sorted({label.get("scope") or self.scope for label in labels}):
            mine = [label for label in labels if (label.get("scope") or self.scope) == scope]
            runtime = self._as_created(mine[0])
            units = runtime._show([label["member"] for label in mine])
            for label in mine:
                unit = units.get(systemd_unit.unit_name(label["member"])) or {}
                found.append(runtime._live(label, unit, marks.get(label["member"], [])))
        return found

    def _unlabelled(self) -> list[unlabelled.Unlabelled]:
        """Members without a label: those that run, and those of which a unit is left, which somebody may start."""
        found = unlabelled.members(self.state, self.name)
        runs = {live["label"]["member"] for live in found}
        # Units before labels: a member's label is written first, and deleted last.
        units = [(runtime, runtime._labels_of_units()) for runtime in (self._as_created({"scope": s}) for s in SCOPES)]
        known = (
            runs | {str(label.get("member")) for label in self.state.labels()}
            if any(its for _r, its in units)
            else runs
        )
        for runtime, labels in units:
            lost = [label for label in labels if label["member"] not in known]
            shown = runtime._show([label["member"] for label in lost]) if lost else {}
            for label in lost:
                unit = shown.get(systemd_unit.unit_name(label["member"])) or {}
                found.append(_of_unit(label, unit, runtime._unit_path(label["member"])))
        return found

    def _labels_of_units(self) -> list[dict[str, t.Any]]:
        """What the unit files that belong to this state directory say of their members."""
        found = []
        prefix, suffix = os.path.join(self.units_dir, systemd_unit.PREFIX), ".service"
        for path in sorted(glob.glob(f"{glob.escape(prefix)}*{suffix}")):
            try:
                with open(path, encoding="utf-8", errors="replace") as stream:
                    told = systemd_unit.marks_of(stream.read())
            except OSError:
                continue
            member = path[len(prefix) : -len(suffix)]
            if told.get("State") != self.state.root or told.get("Member") != member:
                continue
            label = unlabelled.label_of(member, {processes.GROUP: told.get("Group", "")}, self.name)
            if label:
                found.append({**label, "scope": self.scope})
        return found

    def _show(self, members: t.Iterable[str]) -> dict[str, dict[str, str]]:
        """What systemd says of the units of members, in one call."""
        names = [systemd_unit.unit_name(member) for member in members]
        said = self.manager.call("show", f"--property={_SHOWN}", *names, doing="Asking systemd for its units")
        return systemd_unit.parse_show(said)

    def _live(self, label: dict[str, t.Any], unit: t.Mapping[str, str], marked: list[processes.Process]) -> Live:
        folder = Folder(self.state, label["group"], label["member"])
        starts = folder.starts()
        live: Live = {
            "label": label,
            "state": state_of(unit),
            "pid": int(unit.get("MainPID") or 0) or None,
            "since": None,
            "restarts": max(0, len(starts) - 1),
            "exit": None,
            "why": "",
            "log": self._log(label["group"], label["member"]),
        }
        if live["state"] == "running":
            live["since"] = since_of(unit)
            return live
        main = next((p for p in marked if starts and p.pid == starts[-1][0]), None)
        if main:
            live["state"], live["pid"], live["since"] = "running", main.pid, main.since
            live["why"] = "it runs without supervision: systemd did not start it"
            return live
        if starts and boot.since(starts[-1].since, starts[-1].boot):
            live["why"] = boot.told()
            return live
        live["exit"], live["why"] = ended(unit, [start.since for start in starts], int(label.get("restart") or 0))
        with contextlib.suppress(PdError):
            last = self.logs(label["group"], label["member"], 1) if unit.get("LoadState") == "loaded" else []
            refused = guard.refusal(last)
            if refused:
                live["why"] = refused
                return live
            live["log_line"] = last[0][:200] if last else ""
        if marked:
            live["why"] += f"; {gone.left_of(len(marked))}"
        return live

    def _log(self, group: str, member: str) -> str:
        """Where a person finds its log: a command, or a file."""
        path = self.state.log_path(group, member)
        if os.path.exists(path):
            return path
        return f"journalctl{' --user' if self.user else ''} -u {systemd_unit.unit_name(member)}"

    def logs(self, group: str, member: str, lines: int) -> list[str]:
        label = self.state.label(group, member)
        path = self.state.log_path(group, member)
        if os.path.exists(path):
            found = logs.tail(path).lines[-lines:]
        else:
            # A member of that name that was before it has written into the same journal.
            since = float((label or {}).get("created") or 0) or None
            found = self.manager.journal(systemd_unit.PREFIX + member, since, lines)
        return Folder(self.state, group, member).masked(found, label)

    # -- creating ------------------------------------------------------------------------------------------------------------------

    def refusals(self, batch: t.Sequence[Wanted]) -> list[str]:
        return not_here(batch)

    def create(self, batch: t.Sequence[Wanted], admit: Admit) -> list[Created]:
        return one_by_one(batch, admit, self.create_one)

    def create_one(self, wanted: Wanted, label: dict[str, t.Any]) -> list[str]:
        """Create and start one member; what was begun is taken back when that fails. Returns warnings."""
        member, part, secrets = wanted
        name, group = member.id, label["group"]
        warnings = [
            f"{name}: {kind} are for containers; runtime systemd ignores them."
            for kind, given in (("mounts", part.mounts), ("devices", part.devices))
            if given
        ]
        folder = Folder(self.state, group, name)
        log = None if self.manager.journal_readable() else self.state.log_path(group, name)
        if log:
            warnings.append(
                f"{name}: user {_user()} cannot read what its services write to the journal, so the log is {log}, which grows without"
                " bounds. Make the journal persistent (mkdir /var/log/journal), or add the user to group systemd-journal."
            )
        with self.state.lock():
            self._refuse_foreign(name)
            remove_tree(folder.path)
            label["scope"] = self.scope
            self.state.write_label(label)
            try:
                label = folder.write(part, label, secrets)
                if log:
                    write(log, "")
                text = systemd_unit.render(member, part, group, folder.path, self.state.root, self.user, log)
                self._start(name, text)
            except BaseException:
                self._undo(group, name)
                raise
        return warnings + self._short_of_memlock(member)

    def _refuse_foreign(self, name: str) -> None:
        """A unit of that name that is not ours stays as it is."""
        path = self._unit_path(name)
        try:
            with open(path, encoding="utf-8", errors="replace") as stream:
                owner = systemd_unit.belongs_to(stream.read())
        except FileNotFoundError:
            return
        except OSError as exc:
            raise HostError(f"Reading {path}", str(exc.strerror), "Look what it is.", name) from exc
        if owner != self.state.root:
            whose = f"a member whose state is in {owner}" if owner else "somebody else"
            raise HostError(
                f"Writing {path}",
                f"it belongs to {whose}",
                "Remove that one first, or name this group differently.",
                name,
            )

    def _start(self, name: str, text: str) -> None:
        make_dirs(self.units_dir)
        # A unit that systemd has never seen is read when it is started.
        if systemd_unit.put(self._unit_path(name), text):
            self.manager.try_call("stop", systemd_unit.unit_name(name))
            self.manager.reload()
        doing = f"Starting member {name}"
        self.manager.call("start", systemd_unit.unit_name(name), doing=doing, member=name, timeout=60)

    def _short_of_memlock(self, member: Member) -> list[str]:
        """What systemd could not grant of locked memory, which RDMA registers the KV cache in."""
        if member.role == "router":
            return []
        unit = next(iter(self._show([member.id]).values()), {})
        granted = systemd_unit.memlock(locked_memory(int(unit.get("MainPID") or 0)))
        if granted is None:
            return []
        how = (
            f"Raise it: LimitMEMLOCK=infinity in a drop-in of user@{os.geteuid()}.service"
            if self.user
            else "Raise what started this systemd may have (the container or VM that it is in)"
        )
        told = f"{member.id}: locked memory is limited to {granted / 2**20:g} MiB although unlimited was asked for."
        return [f"{told} KV over RDMA registers more; over TCP it does not matter. {how}."]

    def _undo(self, group: str, name: str) -> None:
        """Take back a member that could not be created; what led here is what is told."""
        with contextlib.suppress(HostError):
            self.remove(group, name, 1)

    # -- removing ----------------------------------------------------------------------------------------------------------------

    def remove(self, group: str, member: str, grace: float) -> None:
        label = self.state.label(group, member)
        if label is None:
            its = (live["label"] for live in self._unlabelled())
            label = next((found for found in its if found["member"] == member), None)
        self._as_created(label)._remove(group, member, grace)

    def _remove(self, group: str, member: str, grace: float) -> None:
        unit_name, folder = systemd_unit.unit_name(member), Folder(self.state, group, member)
        unit = self._show([member]).get(unit_name) or {}
        starts = folder.starts()
        last = starts[-1] if starts else None
        cgroup = unit.get("ControlGroup") or ""

        def left() -> list[processes.Process]:
            found = {p.pid: p for p in gone.of_member(member, self.state.root, None, last)}
            for pid in cgroup_processes(cgroup) - set(found):
                process = processes.read(pid)
                if process:
                    found[pid] = process
            return list(found.values())

        seeds = gone.of_member(member, self.state.root, int(unit.get("MainPID") or 0) or None, last)
        if unit.get("ActiveState") not in (None, "inactive", "failed"):
            self._stop(member, grace)
        gone.end(member, seeds, left, grace)
        self._keep_log(group, member, folder)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._unit_path(member))
        if unit.get("LoadState") not in (None, "not-found"):
            self.manager.try_call("reset-failed", unit_name)
            self.manager.reload()
        with self.state.lock():
            self.state.delete_member(group, member)

    def _stop(self, member: str, grace: float) -> None:
        """Have systemd stop it: SIGTERM to all of its cgroup, after the grace SIGKILL. What it cannot end is told by who looks next."""
        try:
            self.manager.call(
                "stop",
                systemd_unit.unit_name(member),
                doing=f"Stopping member {member}",
                member=member,
                timeout=grace + STOP_MARGIN,
            )
        except HostError:
            if self.manager.answers():
                raise

    def _keep_log(self, group: str, member: str, folder: Folder) -> None:
        """Its last lines go where those of every runtime are found when somebody asks why a member was replaced."""
        path = self.state.log_path(group, member)
        if os.path.exists(path) or not os.path.isdir(folder.path):
            return
        with contextlib.suppress(PdError):
            found = self.logs(group, member, TAIL_LINES)
            if found:
                write(path, "\n".join(found) + "\n")

    def sweep(self) -> None:
        with self.state.lock():
            if any(label.get("runtime") == self.name for label in self.state.labels()) or self._unlabelled():
                return
            self.state.clear()

    def _unit_path(self, member: str) -> str:
        return os.path.join(self.units_dir, systemd_unit.unit_name(member))


# -- reading what systemd says -------------------------------------------------------------------------------------------------------


def state_of(unit: t.Mapping[str, str]) -> str:
    """The state of a member by its unit."""
    if unit.get("LoadState", "not-found") == "not-found":
        return "missing"
    if unit.get("SubState") == "auto-restart":
        return "restarting"
    return "exited" if unit.get("ActiveState") in ("inactive", "failed") else "running"


def _of_unit(label: dict[str, t.Any], unit: t.Mapping[str, str], path: str) -> unlabelled.Unlabelled:
    """A member of which only its unit file is left."""
    return {
        "label": label,
        "state": state_of(unit),
        "pid": int(unit.get("MainPID") or 0) or None,
        "since": since_of(unit),
        "restarts": 0,
        "exit": None,
        "why": f"its label is gone: what the state directory had of it was deleted, and its unit is left ({path})",
        "log": None,
        "unlabelled": True,
    }


def since_of(unit: t.Mapping[str, str]) -> float | None:
    """When its process was started, in seconds of the epoch."""
    micro = int(unit.get("ExecMainStartTimestampMonotonic") or 0)
    return round(time.time() - (time.monotonic() - micro / 1e6), 3) if micro else None


def ended(unit: t.Mapping[str, str], started: t.Sequence[float], attempts: int) -> tuple[int | None, str]:
    """(exit status, in words) of why a member does not run. `started` are the times of its starts."""
    if state_of(unit) == "missing":
        return None, "systemd does not know it: its unit file is gone"
    if not since_of(unit):
        # systemd forgets a unit that ended well, as it forgets all at a boot.
        if started and started[-1] > time.time() - time.monotonic():
            return None, "it ended without an error: it was stopped by hand (systemctl stop), or exited with status 0"
        return None, "it has not been started since the host booted"
    status = unit.get("ExecMainStatus") or ""
    code: int | None = None
    if unit.get("Result") == "oom-kill":
        how = "was ended for memory, the kernel's or its limit's"
    elif unit.get("ExecMainCode") in (_KILLED, _DUMPED):
        how = f"was ended by {_SIGNALS.get(status, f'signal {status}')}"
        how += " (out of memory? see dmesg)" if status == "9" else ""
    else:
        code = int(status) if status.isdigit() else None
        how = f"exited with status {status}"
    how += f", started {len(started)} times" if len(started) > 1 else ""
    if state_of(unit) == "restarting":
        return code, f"{how}; systemd starts it again"
    if attempts and len(started) > attempts:
        how += "; systemd gave it up"
    return code, how


def _user() -> str:
    return processes.user_name(os.geteuid())
