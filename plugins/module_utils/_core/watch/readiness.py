# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Readiness: from what is seen of a member at one moment, and what was seen before, to ready, loading or failed, and why.

Ready means: its process lives, its health path says 200, and every port that it needs is listened on by itself. Failed means: it will
not be ready however long one waits. All else is loading."""

from __future__ import annotations

import re
import typing as t
from dataclasses import dataclass, field

from .symptom import Diagnosis, cut

State = t.Literal["ready", "loading", "failed"]

# A side channel opens before the API does; a look may still fall between the two.
PORT_GRACE = 5.0
# vLLM's /health says 503 only when its engine process has died. Other engines say so while they load.
DEAD_AFTER = {"vLLM": 8.0}
DEAD_AFTER_READY = 3.0
# A member that its runtime starts again and again without it ever having served is not waited for to the limit; one that ended over its own
# configuration not once more.
LOOP_RESTARTS = 3
LOOP_SECONDS = 300.0
# Workloads that one line names.
MOST_NAMED = 8
_CONFIGURATION = re.compile(
    r"\b(?:(?:Value|Type|Attribute|Key|Index|Name|Import|ModuleNotFound|NotImplemented|Assertion|Syntax|FileNotFound)Error|ValidationError)\b"
)


@dataclass(frozen=True)
class Port:
    """A port that the member must itself listen on. `owner` is self, other, none, or unknown (it cannot be told who listens)."""

    name: str
    port: int
    owner: str
    holder: str = ""


@dataclass(frozen=True)
class Sight:
    """One look at a member. `process` is coming (it has not been started yet), running, restarting, exited or missing; `health` the HTTP
    status, None without an answer."""

    process: str
    pid: int | None = None
    restarts: int = 0
    process_why: str = ""
    health: int | None = None
    health_why: str = ""
    health_url: str = ""
    ports: tuple[Port, ...] = ()
    fatal: Diagnosis | None = None
    reason: Diagnosis | None = None
    last_line: str = ""
    backend: str | None = None


@dataclass
class Memory:
    """What earlier looks left: carried from slice to slice as a plain dictionary."""

    pid: int | None = None
    restarts: int | None = None
    was_ready: bool = False
    unhealthy_since: float | None = None
    ports_since: float | None = None
    # Whether it was ever ready, whichever process; and when it was seen to have been started again.
    served: bool = False
    again: list[float] = field(default_factory=list)
    counted: int = 0
    state: str = ""
    why: str = ""

    @classmethod
    def of(cls, plain: t.Mapping[str, t.Any] | None) -> Memory:
        known = {k: v for k, v in (plain or {}).items() if k in cls.__dataclass_fields__}
        return cls(**known)

    def to_plain(self) -> dict[str, t.Any]:
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


@dataclass(frozen=True)
class Judgement:
    """`why` is a sentence without its member's name; `diagnosis` the line of the log that says it, if one does."""

    state: State
    why: str
    diagnosis: Diagnosis | None = None
    advice: str = field(default="")


def judge(sight: Sight, memory: Memory, now: float) -> Judgement:
    """The state of a member now. `memory` is updated."""
    if memory.restarts is None:
        memory.restarts = sight.restarts
    _count_restarts(sight, memory, now)
    if sight.pid != memory.pid:
        memory.pid, memory.unhealthy_since, memory.ports_since, memory.was_ready = sight.pid, None, None, False
    found = (
        _process(sight, memory)
        or _foreign_port(sight)
        or (_logged(sight) if sight.health != 200 else None)
        or _health(sight, memory, now)
        or _own_ports(sight, memory, now)
        or Judgement("ready", "")
    )
    memory.state, memory.why = found.state, found.why
    memory.was_ready = memory.was_ready or found.state == "ready"
    memory.served = memory.served or memory.was_ready
    return found


def _count_restarts(sight: Sight, memory: Memory, now: float) -> None:
    """Note the restarts since the first look that are new, and forget those that are long ago."""
    more = sight.restarts - (memory.restarts or 0) - memory.counted
    memory.counted += max(0, more)
    memory.again = [moment for moment in memory.again if now - moment <= LOOP_SECONDS] + [now] * max(0, more)


def _process(sight: Sight, memory: Memory) -> Judgement | None:
    exits = sight.restarts - (memory.restarts or 0)
    running = sight.process == "running" and sight.pid is not None
    if running and (exits == 0 or sight.health == 200):
        return None
    if sight.process == "coming":
        return Judgement("loading", sight.process_why or "it has not been started yet")
    told = f" ({sight.process_why})" if sight.process_why else ""
    if sight.process == "missing":
        return Judgement("failed", f"it is not there{told}", None, "Deploy again.")
    if sight.process == "exited":
        return _ended(sight, f"its process has ended{told}")
    if (exits or sight.process == "restarting") and _hopeless(sight.reason):
        return _ended(sight, f"its process has ended, and starting it again will not help{told}")
    if len(memory.again) >= LOOP_RESTARTS and not memory.served:
        minutes = f"{LOOP_SECONDS / 60:g} minutes"
        return _ended(sight, f"it was started again {len(memory.again)} times within {minutes} and has never served")
    if running:
        return None
    return Judgement("loading", f"its process has ended and is being started again{told}", sight.reason)


def _hopeless(reason: Diagnosis | None) -> bool:
    return reason is not None and (
        reason.fatal or (reason.symptom is None and bool(_CONFIGURATION.search(reason.line)))
    )


def _ended(sight: Sight, what: str) -> Judgement:
    return Judgement("failed", _because(what, sight.reason), sight.reason, _advice(sight.reason))


def _foreign_port(sight: Sight) -> Judgement | None:
    for port in sight.ports:
        if port.owner == "other":
            why = f"its port {port.port} ({port.name}) is held by {port.holder or 'another process'}"
            return Judgement(
                "failed",
                _because(why, sight.fatal),
                sight.fatal,
                "End that process, or move pd_port_range away from it; then deploy again.",
            )
    return None


def _logged(sight: Sight) -> Judgement | None:
    if sight.fatal is None:
        return None
    what = sight.fatal.symptom.meaning if sight.fatal.symptom else "its log names a fatal error"
    return Judgement(
        "failed", _because(f"{what}; its process still runs", sight.fatal), sight.fatal, _advice(sight.fatal)
    )


def _health(sight: Sight, memory: Memory, now: float) -> Judgement | None:
    if sight.health == 200:
        memory.unhealthy_since = None
        return None
    if sight.health is None:
        memory.unhealthy_since = None
        return Judgement(
            "loading",
            f"no answer yet from {sight.health_url} ({sight.health_why})" if sight.health_why else "no answer yet",
        )
    if memory.unhealthy_since is None:
        memory.unhealthy_since = now
    limit = DEAD_AFTER_READY if memory.was_ready else DEAD_AFTER.get(sight.backend or "")
    if sight.health == 503 and limit is not None and now - memory.unhealthy_since >= limit:
        why = f"{sight.health_url} answers 503: its engine process has died behind an API server that still runs"
        return Judgement("failed", _because(why, sight.reason), sight.reason, "Deploy again to replace it.")
    return Judgement("loading", f"{sight.health_url} answers {sight.health}")


def _own_ports(sight: Sight, memory: Memory, now: float) -> Judgement | None:
    closed = [p for p in sight.ports if p.owner == "none"]
    if not closed:
        memory.ports_since = None
        return None
    if memory.ports_since is None:
        memory.ports_since = now
    told = ", ".join(f"{p.port} ({p.name})" for p in closed)
    why = f"it answers 200 on {sight.health_url}, but does not listen on {told}"
    if now - memory.ports_since < PORT_GRACE:
        return Judgement("loading", why)
    return Judgement("failed", _because(why, sight.reason), sight.reason, "Its log says why; then deploy again.")


def _because(what: str, diagnosis: Diagnosis | None) -> str:
    return f"{what}: {cut(diagnosis.line)}" if diagnosis else what


def _advice(diagnosis: Diagnosis | None) -> str:
    return diagnosis.symptom.advice if diagnosis and diagnosis.symptom else ""


# -- the wait as a whole -----------------------------------------------------------------------------------------------------------


def decided(failed: t.Collection[str], members: t.Iterable[t.Mapping[str, t.Any]], readiness: str) -> str | None:
    """Whether the members that have failed for good settle the outcome of the whole wait: then nobody needs to wait on. Says how.

    With readiness `all` the first failure does; with `any_per_role` a role of which every member has failed."""
    if not failed:
        return None
    if readiness == "all":
        return f"{', '.join(sorted(failed))} failed, and readiness is all"
    by_role: dict[str, set[str]] = {}
    for member in members:
        by_role.setdefault(member["role"], set()).add(member["id"])
    for role, ids in sorted(by_role.items()):
        if ids and ids <= set(failed):
            return f"{', '.join(sorted(ids))} failed, so no {role} member can be ready"
    return None


def complete(told: t.Mapping[str, str], members: t.Iterable[t.Mapping[str, t.Any]], readiness: str) -> bool:
    """Whether a workload is waited for by nobody any more, and may serve. `told` is what became of each member, by id: ready, failed, or
    ended for one that its host waits for no more; nothing of one that is still waited for.

    With readiness `all` each is ready; with `any_per_role` one of each role is, and nobody waits for the others."""
    by_role: dict[str, list[str]] = {}
    for member in members:
        by_role.setdefault(member["role"], []).append(told.get(member["id"], ""))
    if readiness == "all":
        return bool(by_role) and all(set(states) == {"ready"} for states in by_role.values())
    return bool(by_role) and all("" not in states and "ready" in states for states in by_role.values())


def progress(member: str, state: str, elapsed: float, limit: float, text: str) -> str:
    """A line for a person who waits."""
    return f"{member}: {state}, {elapsed:.0f}/{limit:.0f} s" + (f", {text}" if text else "")


def left_behind(workload: str, elapsed: float, limit: float) -> str:
    """A line for a person who waits, of a workload that the others do not wait for."""
    return f"{workload}: not ready after {elapsed:.0f}/{limit:.0f} s, the others go on without it"


def many_loading(loading: t.Mapping[str, t.Sequence[str]], elapsed: float, last: str) -> str:
    """One line for a person who waits for many members, `loading` by workload: a line of each would hide those that say something. `last`
    is what one of them logged."""
    names = [f"{group} ({len(members)})" for group, members in loading.items()]
    shown = ", ".join(names[:MOST_NAMED]) + (f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else "")
    count = sum(len(members) for members in loading.values())
    return f"{count} members loading, {elapsed:.0f} s: {shown}" + (f"; {last}" if last else "")
