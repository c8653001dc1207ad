# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The end of a member: every process that it ever started, in whatever session, and proof of it."""

from __future__ import annotations

import os
import signal
import time
import typing as t

from .._core.base.words import by_number, counted
from .._probes import processes
from .errors import HostError
from .folder import Start

POLL = 0.1
# Children that outlive the member's own process had their chance to end with it.
ORPHAN_GRACE = 5.0
KILL_WAIT = 10.0
Find = t.Callable[[], list[processes.Process]]


def left_of(count: int) -> str:
    """Of a member that does not run, what of its processes does."""
    return f"{counted(count, 'process', 'processes')} that it started {by_number(count, 'is', 'are')} left"


def of_member(
    member: str, state_dir: str, running: int | None, last: Start | None, within: str = ""
) -> list[processes.Process]:
    """All processes of a member: those marked as its own (`within` is a cgroup's name), the pid that its runtime vouches for, and the very
    process that it was last started as. A pid alone proves nothing: it may be anybody's by now."""
    table = processes.table()
    seeds = processes.marked(state_dir, table, within=within).get(member, [])
    if running and running in table:
        seeds.append(table[running])
    started = last.process(table) if last else None
    if started:
        # Whatever title it gave itself, over the marker: with it goes its process group.
        seeds.append(started)
    return processes.family(seeds, table)


def end(
    member: str,
    seeds: t.Iterable[processes.Process],
    find: Find,
    grace: float,
    stopping: int | None = None,
) -> None:
    """End the processes in `seeds` and all that `find` finds: SIGTERM, after `grace` seconds SIGKILL, and see that nothing is left.

    `stopping` is the process group that its runtime has sent SIGTERM to already: it gets the grace, what it leaves behind a shorter one.
    Raises HostError with what is left."""
    seen = {p.pid: p for p in seeds}
    deadline = time.monotonic() + grace
    if stopping:
        while time.monotonic() < deadline and any(p.group == stopping for p in _left(seen, find)):
            time.sleep(POLL)
        deadline = min(deadline, time.monotonic() + ORPHAN_GRACE)
    if not _signal_all(seen, find, signal.SIGTERM, deadline):
        _signal_all(seen, find, signal.SIGKILL, time.monotonic() + KILL_WAIT)
    left = _left(seen, find)
    if left:
        told = ", ".join(f"{p.command} (pid {p.pid})" for p in left[:8])
        raise HostError(
            f"Stopping member {member}",
            f"still there after SIGKILL: {told}",
            "They wait for a device or a file system (state D in ps). Find out for which; its GPUs are not free before they end.",
            member,
        )


def _signal_all(seen: dict[int, processes.Process], find: Find, number: int, deadline: float) -> bool:
    """Signal everything, also what appears meanwhile, and wait until nothing is left."""
    told: set[tuple[int, int]] = set()
    while True:
        left = _left(seen, find)
        if not left:
            return True
        for process in left:
            if (process.pid, process.start) not in told:
                told.add((process.pid, process.start))
                _signal(process, number)
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL)


def _left(seen: dict[int, processes.Process], find: Find) -> list[processes.Process]:
    seen.update((p.pid, p) for p in find())
    return [p for p in seen.values() if processes.alive(p)]


def _signal(process: processes.Process, number: int) -> None:
    if not processes.alive(process):
        return
    try:
        os.kill(process.pid, number)
    except ProcessLookupError:
        return
    except PermissionError as exc:
        raise HostError(
            f"Signalling {process.command} (pid {process.pid})",
            "it belongs to another user",
            "Run as the user who deployed the group.",
        ) from exc
