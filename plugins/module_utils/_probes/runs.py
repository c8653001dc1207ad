# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs as processes of this machine: which ansible-playbook this process belongs to, and whether another one has died."""

from __future__ import annotations

import hashlib
import os
import typing as t

from . import processes


def own() -> dict[str, t.Any]:
    """The run that this process belongs to, so that its lock can be told dead on the same machine: pid and start, boot, pid namespace.
    Called on the controller, in a worker of ansible-playbook."""
    pid = os.getppid()
    found = processes.read(pid)
    return {"pid": pid, "started": found.start if found else None, "machine": _machine()}


def died(run: t.Mapping[str, t.Any] | None) -> bool:
    """Whether a run was a process of this machine that is gone. Of one elsewhere nothing is known."""
    told, here = run or {}, _machine()
    pid = told.get("pid")
    if not here or told.get("machine") != here or not isinstance(pid, int):
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False  # it is there, and another user's
    now = processes.read(pid)
    return bool(now and told.get("started") and now.start != told["started"])


def mark() -> str:
    """A name for a process that this run leaves on a host, short enough for the kernel (15 letters): of the machine, and of the run."""
    return f"{_of_machine()}{_digest(own(), 8)}"


def living() -> dict[str, t.Any]:
    """{machine, marks}: how the marks of this machine's runs begin, and those of the runs that live, which have Ansible's name in their
    command line."""
    marks = []
    for pid, found in processes.table().items():
        if "ansible" in (processes.command_line(pid, limit=4096) or ""):
            run = {"pid": pid, "started": found.start, "machine": _machine()}
            marks.append(f"{_of_machine()}{_digest(run, 8)}")
    return {"machine": _of_machine(), "marks": sorted(marks)}


def _of_machine() -> str:
    return f"pd-{_digest(_machine(), 4)}"


def _digest(value: object, length: int) -> str:
    return hashlib.sha256(repr(value).encode()).hexdigest()[:length]


def _machine() -> str | None:
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as stream:
            return f"{stream.read().strip()} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return None
