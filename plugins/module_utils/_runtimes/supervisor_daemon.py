# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The supervisord of a directory, found as a process: it lives on when its socket and files are deleted, and starts its members again."""

from __future__ import annotations

import contextlib
import os
import signal
import time
import typing as t

from .._probes import processes
from .errors import HostError

KILL_WAIT = 10.0
_NAMES = ("supervisord", "supervisor.supervisord")
Table = t.Mapping[int, processes.Process]


def find(state_dir: str, conf: str, table: Table) -> list[processes.Process]:
    """Every supervisord that was started on this configuration, by a user who may run members here."""
    may = processes.owners(state_dir)
    found = {
        process.pid: process
        for process in table.values()
        if processes.owner(process.pid) in may and _is_one(process.pid, state_dir, conf)
    }
    # What it has just forked looks like itself until it has become a member's shell.
    return [process for process in found.values() if process.parent not in found]


def _is_one(pid: int, state_dir: str, conf: str) -> bool:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as stream:
            words = [os.fsdecode(word) for word in stream.read().split(b"\0")]
    except OSError:
        return False
    if conf not in words:
        return False
    marks = processes.marks(pid)
    marked = marks.get(processes.STATE) == state_dir and processes.MEMBER not in marks
    # An earlier version did not mark it.
    return marked or any(os.path.basename(word) in _NAMES for word in words)


def children(daemon: processes.Process, table: Table) -> list[processes.Process]:
    """What a supervisord runs: members, and shells that are about to become one."""
    return [process for process in table.values() if process.parent == daemon.pid]


def members(daemon: processes.Process, table: Table) -> list[str]:
    """The ids of the members that a supervisord runs."""
    marks = (processes.marker(process.pid) for process in processes.family([daemon], table))
    return sorted({mark[0] for mark in marks if mark})


def kill(victims: t.Sequence[processes.Process]) -> None:
    """End processes at once. SIGTERM would have a supervisord delete socket and files, which may be another one's by now."""
    deadline = time.monotonic() + KILL_WAIT
    left = [process for process in victims if processes.alive(process)]
    while left:
        for process in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)
        if time.monotonic() > deadline:
            told = ", ".join(f"{process.command} (pid {process.pid})" for process in left)
            raise HostError(
                "Ending a supervisord whose files are gone", f"still there after SIGKILL: {told}", "End it by hand."
            )
        time.sleep(0.05)
        left = [process for process in left if processes.alive(process)]
