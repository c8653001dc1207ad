# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The wait for the members of this host, of one workload or of several: brings together the runtimes, the symptoms that each program can
show, and the workloads' locks."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field

from .._core.base.errors import PdError
from .._core.watch.readiness import Memory
from .._core.watch.symptom import Symptom, cut, diagnose, spoiled
from .._engines.symptoms import of_engine
from .._probes.logs import TAIL_LINES
from .._probes.symptoms import SYMPTOMS as GENERIC
from .._routers.symptoms import SYMPTOMS as ROUTER
from .._runtimes.protocol import Driver
from .._runtimes.store import Store
from . import lock
from .watch import Lives, Watch, Watched, of_this_start

LONGEST_SLICE = 30
# Members that answer from a KV cache.
ENGINE_ROLES = ("prefill", "decode")


Result = dict[str, t.Any]
# Makes the driver of a runtime, by its name.
Drivers = t.Callable[[str], Driver]


@dataclass
class Request:
    """One slice of the wait for the members of a workload, of at most `seconds`. `members` are {id, role, probe, label} of the plan:
    without any the lock alone is renewed. `memory` is what the slice before returned. `holder` is who holds the lock; None leaves it
    alone."""

    group: str
    runtime: str
    members: t.Sequence[t.Mapping[str, t.Any]]
    seconds: int
    memory: t.Mapping[str, t.Any] = field(default_factory=dict)
    holder: t.Mapping[str, t.Any] | None = None
    explain: bool = False


def symptoms_of(role: str, backend: str | None) -> tuple[Symptom, ...]:
    """What the log of a member can show: what its own program says first, then what any program may say."""
    if role == "router":
        return (*ROUTER, *GENERIC)
    return (*of_engine(backend), *GENERIC)


def wait(request: Request, store: Store, driver: Drivers) -> Result:
    """The slice of one workload: {members, memory}. Raises what kept it from being looked at."""
    (found,) = wait_for_all([request], store, driver).values()
    if isinstance(found, Exception):
        raise found
    return found


def wait_for_all(requests: t.Sequence[Request], store: Store, driver: Drivers) -> dict[str, Result | Exception]:
    """One slice for the members of several workloads, side by side, until something changes or it is over: {members, memory} of each, by
    its name. `driver` makes that of a runtime. One that could not be looked at has the exception instead, and takes nothing from the
    others."""
    failed: dict[str, Exception] = _hold(requests, store)
    live: dict[str, t.Callable[[], Lives]] = {}
    drivers: dict[str, Driver] = {}
    members: list[Watched] = []
    for one in requests:
        if one.group in failed or not one.members:
            continue
        try:
            if one.runtime not in drivers:
                drivers[one.runtime] = driver(one.runtime)
                live[one.runtime] = _lives(drivers[one.runtime])
            members += _watched(one)
        except Exception as exc:  # noqa: BLE001 - a runtime that this host cannot have, or a member that is none
            failed[one.group] = exc
    watch = Watch(
        members,
        live,
        lambda member: drivers[member.runtime].logs(member.group, member.id, TAIL_LINES),
        any(one.explain for one in requests),
    )
    # One that has failed is told at once, and the others are looked at once. The caller hears it: it gives no members of that one any more.
    news = any(one.members for one in requests if one.group in failed)
    seconds = 0.0 if news else min(LONGEST_SLICE, max([1, *(one.seconds for one in requests)]))
    seen = watch.until(seconds)
    failed.update(watch.failed)
    return {one.group: failed.get(one.group) or _found(one.group, members, seen) for one in requests}


def _hold(requests: t.Sequence[Request], store: Store) -> dict[str, Exception]:
    """Renew the lock of each workload. Why that could not be done, by name."""
    held = [(one.group, one.holder) for one in requests if one.holder]
    failed: dict[str, Exception] = {}
    if not held:
        return failed
    try:
        # The host's lock is waited for once, not by each.
        with store.lock():
            for group, holder in held:
                try:
                    lock.hold(store, group, holder)
                except (PdError, OSError) as exc:
                    failed[group] = exc
    except (PdError, OSError) as exc:
        failed.update((group, exc) for group, _holder in held)
    return failed


def _lives(driver: Driver) -> t.Callable[[], Lives]:
    return lambda: {one["label"]["member"]: one for one in driver.members()}


def _watched(request: Request) -> list[Watched]:
    return [
        Watched(
            m["id"],
            m["role"],
            m["probe"],
            m.get("label") or {},
            symptoms_of(m["role"], m["probe"].get("backend")),
            Memory.of(request.memory.get(m["id"])),
            request.group,
            request.runtime,
        )
        for m in request.members
    ]


def _found(group: str, members: t.Sequence[Watched], seen: t.Mapping[str, Result]) -> Result:
    mine = [m for m in members if m.group == group]
    return {"members": {m.id: seen[m.id] for m in mine}, "memory": {m.id: m.memory.to_plain() for m in mine}}


def ended(live: t.Mapping[str, t.Any], lines: list[str]) -> str:
    """Why a member has ended, or ends over and over, by its log: what the wait for it told as well. Empty when nothing says so."""
    label = live["label"]
    found = diagnose(lines, symptoms_of(label["role"], label.get("backend")))
    if found is None:
        return ""
    return f"{found.symptom.meaning}: {cut(found.line)}" if found.symptom else cut(found.line)


def doomed(live: t.Mapping[str, t.Any], lines: list[str]) -> str:
    """Why a member that runs and does not answer never will, by what it has logged since its start; empty when nothing says so.

    Such a process lives for ever (an engine whose side channel could not be opened, an API server without its engine): to a plan it must
    count as down, or no deploy would ever replace it."""
    label = live["label"]
    found = diagnose(of_this_start(lines, live), symptoms_of(label["role"], label.get("backend")), fatal_only=True)
    return f"{found.symptom.meaning}: {cut(found.line)}" if found and found.symptom else ""


def doubts(live: t.Mapping[str, t.Any], lines: list[str]) -> dict[str, t.Any] | None:
    """Why answers of a member that serves may be wrong, by what it has logged since its start: {name, meaning, advice, line, count}, of the
    last line that says so. None when none does.

    Some engines answer 200 from KV blocks that never came, and no counter of theirs shows it: the log is all that does."""
    label = live["label"]
    found = spoiled(of_this_start(lines, live), symptoms_of(label["role"], label.get("backend")))
    if not found or found[-1].symptom is None:
        return None
    last = found[-1].to_plain()
    return {**{key: last[key] for key in ("name", "meaning", "advice", "line")}, "count": len(found)}
