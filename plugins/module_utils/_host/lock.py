# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lock of a group, taken, checked, renewed and given back on every host that a run rests on: two runs never change one group at a
time."""

from __future__ import annotations

import time
import typing as t

from .._core.facts.lock import Lock, name
from .._core.facts.stands import other_of
from .._probes import runs
from .._runtimes.errors import BusyError, HostError
from .._runtimes.store import Store

DEFAULT_TTL = 300


def same(lock: Lock | None, holder: Lock) -> bool:
    """Whether a lock was taken by this very run."""
    return bool(lock and holder.get("run") and lock.get("run") == holder["run"])


def taken(lock: Lock | None, holder: Lock, group: str, now: float, break_lock: bool = False) -> dict[str, t.Any]:
    """The lock as it is once `holder` has it, taken or renewed. Raises BusyError while another run holds it."""
    held = lock and not same(lock, holder) and float(lock.get("expires") or 0) > now
    held = held and lock and not runs.died(lock.get("process")) and name(lock) not in (holder.get("dead") or ())
    if lock and held and not break_lock:
        raise BusyError(
            f"Locking group {group}",
            f"{lock.get('who')} is changing it since {_clock(lock.get('since'))}, and may until {_clock(lock.get('expires'))}",
            "Wait for that run, or, if it is dead, break its lock: -e pd_break_lock=true.",
        )
    since = lock.get("since") if lock and same(lock, holder) else round(now, 3)
    expires = round(now + float(holder.get("ttl") or DEFAULT_TTL), 3)
    return {
        "run": holder.get("run"),
        "who": holder["who"],
        "since": since,
        "expires": expires,
        "process": holder.get("process"),
    }


def apart(store: Store, group: str, holder: Lock, now: float, break_lock: bool = False) -> None:
    """Raises BusyError while another run has the lock of the other stand of the group: what one of them gives to clients the other one
    takes away."""
    other = other_of(group)
    taken(store.group_lock(other), holder, other, now, break_lock)


def check(store: Store, group: str, holder: Lock) -> None:
    """Raise when this run does not hold the group's lock any more. Asked under the host's lock, right before a change: a module that
    outlives its controller, or was overtaken, changes nothing."""
    lock = store.group_lock(group)
    if not same(lock, holder):
        who = f"{lock.get('who')} has it since {_clock(lock.get('since'))}" if lock else "nobody has it"
        raise HostError(
            f"Changing group {group}",
            f"this run does not hold the group's lock any more: {who}",
            "Nothing more was changed here. Run the same playbook again.",
        )


def hold(store: Store, group: str, holder: Lock, now: float | None = None) -> None:
    """Renew the group's lock, if this run has it: a wait may take longer than a lock lives."""
    with store.lock():
        lock = store.group_lock(group)
        if same(lock, holder):
            store.write_lock(group, taken(lock, holder, group, time.time() if now is None else now))


def release(store: Store, group: str, holder: Lock) -> bool:
    """Give the lock back, if this run has it. Whether it had."""
    with store.lock():
        mine = same(store.group_lock(group), holder)
        if mine:
            store.write_lock(group, None)
        return mine


def _clock(moment: t.Any) -> str:
    if isinstance(moment, (int, float)):
        return time.strftime("%Y-%m-%d %H:%M:%S %Z", time.localtime(moment))
    return str(moment)
