# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# This module util is PRIVATE to the collection.
"""The lock of a group: written in its record on every host, so that two runs never change one group at a time."""

from __future__ import annotations

import os
import time
import typing as t

from .._runtimes.errors import HostError
from .._runtimes.state import State

DEFAULT_TTL = 300


def same(lock: t.Mapping[str, t.Any] | None, holder: t.Mapping[str, t.Any]) -> bool:
    """Whether a lock was taken by this very run."""
    if not lock or lock.get("who") != holder["who"]:
        return False
    return holder.get("since") is None or lock.get("since") == holder["since"]


def taken(
    lock: t.Mapping[str, t.Any] | None, holder: t.Mapping[str, t.Any], group: str, now: float, break_lock: bool = False
) -> dict[str, t.Any]:
    """The lock as it is once `holder` has it, taken or renewed. Raises HostError while another run holds it."""
    held = lock and not same(lock, holder) and float(lock.get("expires") or 0) > now
    held = held and lock and not died(lock) and not _known_dead(lock, holder)
    if lock and held and not break_lock:
        raise HostError(
            f"Locking group {group}",
            f"{lock.get('who')} is changing it since {_clock(lock.get('since'))}, and may until {_clock(lock.get('expires'))}",
            "Wait for that run, or, if it is dead, break its lock: -e pd_break_lock=true.",
        )
    since = lock.get("since") if lock and same(lock, holder) else (holder.get("since") or round(now, 3))
    expires = round(now + float(holder.get("ttl") or DEFAULT_TTL), 3)
    return {"who": holder["who"], "since": since, "expires": expires, "process": holder.get("process")}


def hold(state: State, group: str, holder: t.Mapping[str, t.Any]) -> None:
    """Renew the group's lock, if this run has it: a wait may take longer than a lock lives."""
    with state.lock():
        record = state.record(group)
        if record and same(record.get("lock"), holder):
            state.write_record(group, {**record, "lock": taken(record["lock"], holder, group, time.time())})


def process() -> dict[str, t.Any]:
    """The run that this process belongs to, so that its lock can be told dead on the same machine: pid, boot, and pid namespace. Called on
    the controller, in a worker of ansible-playbook."""
    return {"pid": os.getppid(), "machine": _machine()}


def died(lock: t.Mapping[str, t.Any]) -> bool:
    """Whether the holder of a lock was a process of this machine that is gone. Of a holder elsewhere nothing is known but its time."""
    run = lock.get("process") or {}
    here = _machine()
    return bool(here and run.get("machine") == here and not os.path.exists(f"/proc/{run.get('pid')}"))


def of_dead(locks: t.Iterable[t.Mapping[str, t.Any] | None]) -> list[dict[str, t.Any]]:
    """Those locks whose run was one of this machine, and is gone. The controller asks: a host knows nothing of the processes there."""
    return [{"who": lock.get("who"), "since": lock.get("since")} for lock in locks if lock and died(lock)]


def _known_dead(lock: t.Mapping[str, t.Any], holder: t.Mapping[str, t.Any]) -> bool:
    """Whether the controller of this run knows that the lock's run is gone."""
    return {"who": lock.get("who"), "since": lock.get("since")} in (holder.get("dead") or ())


def _machine() -> str | None:
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as stream:
            return f"{stream.read().strip()} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return None


def _clock(moment: t.Any) -> str:
    if isinstance(moment, (int, float)):
        return time.strftime("%Y-%m-%d %H:%M:%S %Z", time.localtime(moment))
    return str(moment)
