# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Processes of this host, read from /proc: which belong to a member, by the marker in their environment, and when they started."""

from __future__ import annotations

import os
import pwd
import re
import typing as t
from dataclasses import dataclass

from .._core.base.printable import printable

# Put into the environment of every member, and inherited by whatever it starts, in whatever session.
MEMBER = "INFEROPS_PD_MEMBER"
STATE = "INFEROPS_PD_STATE"
GROUP = "INFEROPS_PD_GROUP"
FORMATION = "INFEROPS_PD_FORMATION"
_MARKS = (MEMBER, STATE, GROUP, FORMATION)
# The id of a container, in the name of its cgroup.
_CONTAINER = re.compile(r"[0-9a-f]{64}")
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Process:
    """One process. `start` is in clock ticks since boot: with the pid it names a process for good."""

    pid: int
    parent: int
    group: int
    session: int
    start: int
    command: str

    @property
    def since(self) -> float:
        """When it started, as seconds of the epoch."""
        return boot_time() + self.start / _TICKS


def read(pid: int, root: str = "/proc") -> Process | None:
    """A process; None when it is gone or a zombie, which holds nothing any more."""
    try:
        with open(f"{root}/{pid}/stat", encoding="utf-8", errors="replace") as stream:
            text = stream.read()
    except OSError:
        return None
    head, _paren, tail = text.rpartition(")")
    fields = tail.split()
    if len(fields) < 20 or fields[0] in ("Z", "X", "x"):
        return None
    return Process(
        pid, int(fields[1]), int(fields[2]), int(fields[3]), int(fields[19]), printable(head.partition("(")[2])
    )


def table(root: str = "/proc") -> dict[int, Process]:
    """All processes, by pid."""
    found = (read(int(name), root) for name in os.listdir(root) if name.isdigit())
    return {p.pid: p for p in found if p}


def environ(pid: int, root: str = "/proc") -> bytes | None:
    """A process's environment as it was started with; None when it is gone or another user's."""
    try:
        with open(f"{root}/{pid}/environ", "rb") as stream:
            return stream.read()
    except OSError:
        return None


def marks(pid: int, root: str = "/proc") -> dict[str, str]:
    """What a process carries of the variables that mark members, by name; nothing of a process that carries none, or cannot be read."""
    block = environ(pid, root)
    if not block or b"INFEROPS_PD_" not in block:
        return {}
    values = dict(entry.split(b"=", 1) for entry in block.split(b"\0") if b"=" in entry)
    return {name: os.fsdecode(values[name.encode()]) for name in _MARKS if values.get(name.encode())}


def marker(pid: int, root: str = "/proc") -> tuple[str, str] | None:
    """(member id, state directory) of a process that belongs to a member."""
    found = marks(pid, root)
    return (found[MEMBER], found.get(STATE, "")) if MEMBER in found else None


def formation_of(pid: int, root: str = "/proc") -> str | None:
    """The formation that a process was started for; None when it cannot be read, or an earlier version started it."""
    return marks(pid, root).get(FORMATION)


def owners(state_dir: str) -> frozenset[int]:
    """The users whose processes can be members of a state directory: whoever looks, and whoever the directory belongs to. Anybody can put
    a member's variables into the environment of a process of his own."""
    try:
        return frozenset({os.geteuid(), os.stat(state_dir).st_uid})
    except OSError:
        return frozenset({os.geteuid()})


def owner(pid: int, root: str = "/proc") -> int | None:
    """The user that a process runs as; None when it is gone."""
    try:
        return os.stat(f"{root}/{pid}").st_uid
    except OSError:
        return None


def cgroup(pid: int, root: str = "/proc") -> str:
    """What /proc says of a process's cgroups; empty when it is gone."""
    try:
        with open(f"{root}/{pid}/cgroup", encoding="utf-8", errors="replace") as stream:
            return stream.read()
    except OSError:
        return ""


def in_container(pid: int, root: str = "/proc") -> bool:
    """Whether a process is in a container, by its cgroup. Where this itself runs in one, its id is in everybody's."""
    return bool(set(_CONTAINER.findall(cgroup(pid, root))) - set(_CONTAINER.findall(cgroup(os.getpid(), root))))


def is_believed(pid: int, root: str = "/proc") -> bool:
    """Whether it counts what a process carries: anybody can give one of his own the variables of a member. Root's and those of whoever
    looks are believed, and what is in a container, where a member is whom its image says. Below user.slice a user names cgroups as he
    likes."""
    if owner(pid, root) in (0, os.geteuid()):
        return True
    return in_container(pid, root) and "/user.slice/" not in cgroup(pid, root)


def boot_id(root: str = "/proc") -> str | None:
    """What tells this boot of the host from every other."""
    try:
        with open(f"{root}/sys/kernel/random/boot_id", encoding="ascii") as stream:
            return stream.read().strip() or None
    except OSError:
        return None


def marked(
    state_dir: str, processes: t.Mapping[int, Process] | None = None, root: str = "/proc", within: str = ""
) -> dict[str, list[Process]]:
    """Every process of every member of one state directory, by member id: marked as such, and run by a user who may run members there, or
    in the cgroup that has `within` in its name (in a container a member is whom its image says)."""
    found: dict[str, list[Process]] = {}
    may = owners(state_dir)
    for process in (processes if processes is not None else table(root)).values():
        mark = marker(process.pid, root)
        if not mark or mark[1] != state_dir:
            continue
        if owner(process.pid, root) in may or (within and within in cgroup(process.pid, root)):
            found.setdefault(mark[0], []).append(process)
    return found


def family(seeds: t.Iterable[Process], processes: t.Mapping[int, Process]) -> list[Process]:
    """The processes in `seeds`, all that descend from them, and what shares a process group with a group leader among these."""
    children: dict[int, list[Process]] = {}
    groups: dict[int, list[Process]] = {}
    for process in processes.values():
        children.setdefault(process.parent, []).append(process)
        groups.setdefault(process.group, []).append(process)
    found: dict[int, Process] = {}
    todo = list(seeds)
    while todo:
        process = todo.pop()
        if process.pid in found or process.pid <= 1:
            continue
        found[process.pid] = process
        todo += children.get(process.pid, ())
        if process.group == process.pid:
            todo += groups.get(process.pid, ())
    return list(found.values())


def alive(process: Process, root: str = "/proc") -> bool:
    """Whether this very process is still there: a pid that was given to another one is not."""
    now = read(process.pid, root)
    return now is not None and now.start == process.start


def command_line(pid: int, root: str = "/proc", limit: int = 200) -> str | None:
    """What a process runs, as one line without its environment. Not for members: their arguments are in the plan."""
    try:
        with open(f"{root}/{pid}/cmdline", "rb") as stream:
            text = printable(stream.read(4096).replace(b"\0", b" "), limit)
    except OSError:
        return None
    return text or None


def user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def boot_time() -> float:
    """When this host was booted, in seconds of the epoch; 0 where it cannot be told."""
    with open("/proc/stat", encoding="utf-8") as stream:
        for line in stream:
            if line.startswith("btime "):
                return float(line.split()[1])
    return 0.0
