# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lock of a group, on every host that a run rests on: two runs never change one group at a time. It is a nonce of the run: names and
pids are for people, and may be another's."""

from __future__ import annotations

import os
import time
import typing as t

from .._probes import processes
from .._runtimes.errors import HostError
from .._runtimes.store import Store

DEFAULT_TTL = 300
Lock = t.Mapping[str, t.Any]


def same(lock: Lock | None, holder: Lock) -> bool:
    """Whether a lock was taken by this very run."""
    return bool(lock and holder.get("run") and lock.get("run") == holder["run"])


def taken(lock: Lock | None, holder: Lock, group: str, now: float, break_lock: bool = False) -> dict[str, t.Any]:
    """The lock as it is once `holder` has it, taken or renewed. Raises HostError while another run holds it."""
    held = lock and not same(lock, holder) and float(lock.get("expires") or 0) > now
    held = held and lock and not died(lock) and not _known_dead(lock, holder)
    if lock and held and not break_lock:
        raise HostError(
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


def process() -> dict[str, t.Any]:
    """The run that this process belongs to, so that its lock can be told dead on the same machine: pid and start, boot, pid namespace.
    Called on the controller, in a worker of ansible-playbook."""
    pid = os.getppid()
    found = processes.read(pid)
    return {"pid": pid, "started": found.start if found else None, "machine": _machine()}


def died(lock: Lock) -> bool:
    """Whether the holder of a lock was a process of this machine that is gone. Of a holder elsewhere nothing is known but its time."""
    run, here = lock.get("process") or {}, _machine()
    pid = run.get("pid")
    if not here or run.get("machine") != here or not isinstance(pid, int):
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False  # it is there, and another user's
    now = processes.read(pid)
    return bool(now and run.get("started") and now.start != run["started"])


def of_dead(locks: t.Iterable[Lock | None]) -> list[str]:
    """The nonces of those locks whose run was one of this machine, and is gone. The controller asks: a host knows nothing of the processes
    there."""
    return [_name(lock) for lock in locks if lock and died(lock)]


def _known_dead(lock: Lock, holder: Lock) -> bool:
    """Whether the controller of this run knows that the lock's run is gone."""
    return _name(lock) in (holder.get("dead") or ())


def _name(lock: Lock) -> str:
    """What a lock is known by; one of an earlier version has no nonce."""
    return str(lock.get("run") or f"{lock.get('who')} {lock.get('since')}")


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
