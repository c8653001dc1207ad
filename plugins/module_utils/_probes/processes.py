# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# This module util is PRIVATE to the collection.
"""Processes of this host, read from /proc: which belong to a member, by the marker in their environment, and when they started."""

from __future__ import annotations

import os
import pwd
import typing as t
from dataclasses import dataclass

# Put into the environment of every member, and inherited by whatever it starts, in whatever session.
MEMBER = "INFEROPS_PD_MEMBER"
STATE = "INFEROPS_PD_STATE"
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
        return _boot_time() + self.start / _TICKS


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
    return Process(pid, int(fields[1]), int(fields[2]), int(fields[3]), int(fields[19]), head.partition("(")[2])


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


def marker(pid: int, root: str = "/proc") -> tuple[str, str] | None:
    """(member id, state directory) of a process that belongs to a member."""
    block = environ(pid, root)
    if not block or MEMBER.encode() not in block:
        return None
    values = dict(entry.split(b"=", 1) for entry in block.split(b"\0") if b"=" in entry)
    name = values.get(MEMBER.encode())
    return (os.fsdecode(name), os.fsdecode(values.get(STATE.encode(), b""))) if name else None


def marked(
    state_dir: str, processes: t.Mapping[int, Process] | None = None, root: str = "/proc"
) -> dict[str, list[Process]]:
    """Every process of every member of one state directory, by member id."""
    found: dict[str, list[Process]] = {}
    for process in (processes if processes is not None else table(root)).values():
        mark = marker(process.pid, root)
        if mark and mark[1] == state_dir:
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
            text = stream.read(4096).replace(b"\0", b" ").decode("utf-8", "replace").strip()
    except OSError:
        return None
    return " ".join(text.split())[:limit] or None


def user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _boot_time() -> float:
    with open("/proc/stat", encoding="utf-8") as stream:
        for line in stream:
            if line.startswith("btime "):
                return float(line.split()[1])
    return 0.0
