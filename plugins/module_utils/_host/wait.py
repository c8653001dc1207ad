# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The wait for the members of this host: brings together the runtime, the symptoms that each program can show, and the group's lock."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field

from .. import _runtimes
from .._core.watch.readiness import Memory
from .._core.watch.symptom import Symptom, cut, diagnose, spoiled
from .._engines.symptoms import of_engine
from .._probes.logs import TAIL_LINES
from .._probes.symptoms import SYMPTOMS as GENERIC
from .._routers.symptoms import SYMPTOMS as ROUTER
from .._runtimes.state import State
from . import lock
from .watch import Watch, Watched, of_this_start

LONGEST_SLICE = 30
# Members that answer from a KV cache.
ENGINE_ROLES = ("prefill", "decode")


@dataclass
class Request:
    """One slice of a wait. `members` are {id, role, probe, label} of the plan; `memory` is what the slice before returned."""

    group: str
    runtime: str
    members: t.Sequence[t.Mapping[str, t.Any]]
    seconds: int
    memory: t.Mapping[str, t.Any] = field(default_factory=dict)
    holder: t.Mapping[str, t.Any] | None = None
    runtime_options: t.Mapping[str, t.Any] | None = None
    explain: bool = False


def symptoms_of(role: str, backend: str | None) -> tuple[Symptom, ...]:
    """What the log of a member can show: what its own program says first, then what any program may say."""
    if role == "router":
        return (*ROUTER, *GENERIC)
    return (*of_engine(backend), *GENERIC)


def wait(request: Request, state: State) -> dict[str, t.Any]:
    """Look at the members until something changes, or the slice is over."""
    if request.holder:
        lock.hold(state, request.group, request.holder)
    driver = _runtimes.driver(request.runtime, state, request.runtime_options)
    members = [
        Watched(
            m["id"],
            m["role"],
            m["probe"],
            m.get("label") or {},
            symptoms_of(m["role"], m["probe"].get("backend")),
            Memory.of(request.memory.get(m["id"])),
        )
        for m in request.members
    ]
    wanted = {m.id for m in members}

    def live() -> dict[str, t.Mapping[str, t.Any]]:
        return {one["label"]["member"]: one for one in driver.members() if one["label"]["member"] in wanted}

    def read(member: str) -> list[str]:
        return driver.logs(request.group, member, TAIL_LINES)

    found = Watch(members, live, read, request.explain).until(min(LONGEST_SLICE, max(1, request.seconds)))
    return {"members": found, "memory": {m.id: m.memory.to_plain() for m in members}}


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
