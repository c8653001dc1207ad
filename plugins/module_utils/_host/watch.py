# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A watch over the members of one host while they start: a look every half second, until something is worth telling."""

from __future__ import annotations

import calendar
import contextlib
import os
import re
import time
import typing as t
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from .._core.base.errors import PdError
from .._core.watch.readiness import Judgement, Memory, Port, Sight, judge
from .._core.watch.symptom import Symptom, cut, diagnose, last_line
from .._probes import carried, health, ports, processes

LOOK_EVERY = 0.5
ROUTER_EVERY = 0.2
# Members that start together become ready together: one that is ready is told this much later, with those that follow it.
LINGER = 1.5
HEALTH_TIMEOUT = 3.0
# Members of all workloads that are asked for their health at once.
ASKED_AT_ONCE = 32
# vLLM "ERROR 11-29 14:53:24", and what routers and Python's logging write: "2026-11-29T14:53:24" or with a space.
_SHORT_STAMP = re.compile(r"\b(?:INFO|WARNING|ERROR|DEBUG|CRITICAL) (\d\d-\d\d \d\d:\d\d:\d\d)\b")
_LONG_STAMP = re.compile(r"\b(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)(?:[.,]\d{1,9})?(Z?)")


# What a runtime says of each member of this host, by its id.
Lives = t.Mapping[str, t.Mapping[str, t.Any]]


@dataclass
class Watched:
    """One member to watch, of the workload `group` under a runtime. `probe` and `label` are the plan's."""

    id: str
    role: str
    probe: t.Mapping[str, t.Any]
    label: t.Mapping[str, t.Any]
    symptoms: t.Sequence[Symptom]
    memory: Memory = field(default_factory=Memory)
    group: str = ""
    runtime: str = ""

    @property
    def health_url(self) -> str:
        return health.asked(self.probe)


class Watch:
    """Looks at members, of one workload or of several side by side. `live` asks each runtime, by its name, for the members of this host;
    `read` gives the end of a member's log. With `explain` it is told of one that is ready, too, what its log says is wrong.

    `failed` is why a workload cannot be looked at, by its name: its runtime does not answer, or it fell over. It is looked at no more, and
    the others are."""

    def __init__(
        self,
        members: t.Sequence[Watched],
        live: t.Mapping[str, t.Callable[[], Lives]],
        read: t.Callable[[Watched], list[str]],
        explain: bool = False,
    ) -> None:
        self.members, self.live, self.read, self.explain = members, live, read, explain
        self.failed: dict[str, Exception] = {}
        self._listeners = _Listeners({p["port"] for m in members for p in m.probe.get("listening") or ()})
        self._logs: dict[str, tuple[tuple[t.Any, ...] | None, list[str]]] = {}
        self._serving: dict[str, dict[str, str | None]] = {}

    def until(self, seconds: float) -> dict[str, dict[str, t.Any]]:
        """Look until a state has changed (one has become ready, or failed), a workload cannot be looked at, all are settled, or the time is
        over. Results by member id, of the workloads that can be looked at.

        A router is ready within a second, and clients wait for it: it is looked at more often."""
        every = ROUTER_EVERY if all(m.role == "router" for m in self.members) else LOOK_EVERY
        deadline = time.monotonic() + seconds
        before = {m.id: (m.memory.state, m.memory.why) for m in self.members}
        lingering = False
        while True:
            found = self.look()
            settled = all(result["state"] != "loading" for result in found.values())
            news = {result["state"] for name, result in found.items() if _news(before[name], result)}
            if news and not lingering:
                lingering, deadline = True, min(deadline, time.monotonic() + LINGER)
            if settled or self.failed or news - {"ready"} or time.monotonic() + every > deadline:
                return found
            time.sleep(every)

    def look(self) -> dict[str, dict[str, t.Any]]:
        lives = self._ask_runtimes()
        # Where a runtime knows by itself who is ready, it has asked.
        running = [
            m
            for m in self._watched()
            if (live := lives[m.runtime].get(m.id) or {}).get("state") == "running" and "ready" not in live
        ]
        # One that accepts and never answers must not keep the others from being seen.
        with ThreadPoolExecutor(max_workers=ASKED_AT_ONCE) as pool:
            answers = dict(zip((m.id for m in running), pool.map(_health, running)))
        held = self._listeners.now()
        table = processes.table() if held else {}
        found: dict[str, dict[str, t.Any]] = {}
        for m in self._watched():
            try:
                live = lives[m.runtime].get(m.id) or {}
                found[m.id] = self._look_at(m, live, answers.get(m.id, (None, "")), held, table)
            except Exception as exc:  # noqa: BLE001 - what is wrong with one must not keep the others from being seen
                self.failed[m.group] = exc
        return {m.id: found[m.id] for m in self._watched()}

    def _watched(self) -> list[Watched]:
        return [m for m in self.members if m.group not in self.failed]

    def _ask_runtimes(self) -> dict[str, Lives]:
        """What each runtime says, by its name. It lists a host's members at once, of all workloads."""
        lives: dict[str, Lives] = {}
        for runtime in sorted({m.runtime for m in self._watched()}):
            try:
                lives[runtime] = self.live[runtime]()
            except Exception as exc:  # noqa: BLE001 - a driver's library may raise what it likes
                self.failed.update((m.group, exc) for m in self.members if m.runtime == runtime)
        return lives

    def _look_at(
        self,
        member: Watched,
        live: t.Mapping[str, t.Any],
        answered: tuple[int | None, str],
        held: list[ports.Listener],
        table: t.Mapping[int, processes.Process],
    ) -> dict[str, t.Any]:
        now = time.time()
        state = live.get("state") or "missing"
        lines = self._lines(member, live)
        pid = live.get("pid")
        status, health_why = answered
        if "ready" in live:
            # Its start stands for a process that cannot be seen from here.
            pid, health_why = int(live.get("since") or 0) or None, str(live.get("why") or "")
            status = 200 if live["ready"] else None
            state = "coming" if state == "running" and pid is None else state
        quiet = status == 200
        sight = Sight(
            process=state,
            pid=pid,
            restarts=int(live.get("restarts") or 0),
            process_why=str(live.get("why") or ""),
            health=status,
            health_why=health_why,
            health_url=member.health_url,
            ports=() if "ready" in live else _owned(member, pid, held, table),
            fatal=None if quiet else diagnose(of_this_start(lines, live), member.symptoms, fatal_only=True),
            reason=None if quiet and state == "running" else diagnose(lines, member.symptoms),
            last_line=last_line(lines),
            backend=member.probe.get("backend"),
        )
        found = judge(sight, member.memory, now)
        told = {**_result(member, sight, found, live, now), **self._carried(member, live, found.state, held)}
        if self.explain and found.state == "ready":
            said = diagnose(of_this_start(lines, live), member.symptoms)
            told["symptom"] = said.to_plain() if said else None
        return told

    def _carried(
        self, member: Watched, live: t.Mapping[str, t.Any], state: str, held: t.Sequence[ports.Listener]
    ) -> dict[str, str | None]:
        """{formation, listener_member}: what the process carries that listens on its HTTP port. Read once when it is ready: finding the
        process is a walk over all of this host's, where its port is none of those that are watched anyway."""
        if state != "ready":
            self._serving.pop(member.id, None)
            return carried.NOBODY
        if "ready" in live:
            # What a runtime started and has never started again is what its label says.
            return {"formation": live["label"].get("formation"), "listener_member": member.id}
        known = self._serving.get(member.id)
        if known is None:
            port = _port(member.probe["url"])
            here = [h for h in held if h.port == port] or ports.listening({port})
            known = self._serving[member.id] = carried.serving(port, here, [str(member.label.get("address"))])
        return known

    def _lines(self, member: Watched, live: t.Mapping[str, t.Any]) -> list[str]:
        """The end of the member's log. A file is read again only when it has grown; of what is no file its runtime knows better."""
        path = live.get("log")
        key = _stat(path) if path and os.path.isabs(path) else None
        known = self._logs.get(member.id)
        if known and key is not None and known[0] == key:
            return known[1]
        try:
            lines = self.read(member) if live else []
        except PdError as exc:
            lines = [str(exc)]
        self._logs[member.id] = (key, lines)
        return lines


class _Listeners:
    """Who listens on the ports of interest. Finding the holders means a walk over all processes, so it is done only after a change."""

    def __init__(self, wanted: set[int]) -> None:
        self.wanted = wanted
        self._known: frozenset[tuple[int, int]] = frozenset()
        self._held: list[ports.Listener] = []

    def now(self) -> list[ports.Listener]:
        found = []
        for name in ("tcp", "tcp6"):
            with contextlib.suppress(OSError), open(f"/proc/net/{name}", encoding="ascii") as stream:
                found += ports.parse(stream.read())
        known = frozenset((f.port, f.inode) for f in found if f.port in self.wanted)
        if known != self._known:
            self._known, self._held = known, ports.listening(self.wanted) if known else []
        return self._held


def _owned(
    member: Watched, pid: int | None, held: t.Sequence[ports.Listener], table: t.Mapping[int, processes.Process]
) -> tuple[Port, ...]:
    """Who listens on each port that the member must have. Another's socket on an address that is not the member's is none of ours."""
    main = table.get(pid) if pid else None
    family = {p.pid for p in processes.family([main], table)} if main else set()
    mine = {"0.0.0.0", "::", *(str(member.label[k]) for k in ("address", "kv_address") if member.label.get(k))}
    found = []
    for wanted in member.probe.get("listening") or ():
        here = [h for h in held if h.port == wanted["port"]]
        there = [h for h in here if h.address in mine or len(mine) == 2]
        if any(h.member == member.id or h.pid in family for h in here):
            owner, holder = "self", ""
        elif not there:
            owner, holder = "none", ""
        elif any(h.pid is None for h in there):
            owner, holder = "unknown", there[0].who
        else:
            owner, holder = "other", there[0].who
        found.append(Port(str(wanted["name"]), int(wanted["port"]), owner, holder))
    return tuple(found)


def _port(url: str) -> int:
    """The port of a member's URL; 0, which nobody listens on, where it has none that can be read."""
    with contextlib.suppress(ValueError):
        return urlsplit(url).port or 0
    return 0


def _health(member: Watched) -> tuple[int | None, str]:
    return health.ask(member.probe["url"], member.probe.get("health"), HEALTH_TIMEOUT)


def _news(before: tuple[str, str], result: t.Mapping[str, t.Any]) -> bool:
    """Whether a member's state is another one than the caller knows."""
    return before[0] != result["state"] if before[0] else result["state"] != "loading"


def _result(
    member: Watched, sight: Sight, found: Judgement, live: t.Mapping[str, t.Any], now: float
) -> dict[str, t.Any]:
    since = live.get("since")
    line = cut(found.diagnosis.line) if found.diagnosis and found.state == "failed" else sight.last_line
    return {
        "role": member.role,
        "state": found.state,
        "why": found.why,
        "symptom": found.diagnosis.to_plain() if found.diagnosis and found.state == "failed" else None,
        "advice": found.advice,
        "log_line": line,
        "log": live.get("log"),
        "pid": sight.pid,
        "restarts": sight.restarts,
        "since": since,
        "elapsed": round(max(0.0, now - since), 1) if since else None,
        "url": member.probe["url"],
    }


def _stat(path: str) -> tuple[t.Any, ...]:
    try:
        found = os.stat(path)
    except OSError:
        return (None,)
    return (found.st_ino, found.st_size, found.st_mtime)


def of_this_start(lines: list[str], live: t.Mapping[str, t.Any]) -> list[str]:
    """What the process that runs now has logged: what an earlier one ended with is no fault of it."""
    since = live.get("since")
    return since_start(lines, since) if since and live.get("restarts") and live.get("state") == "running" else lines


def since_start(lines: list[str], since: float) -> list[str]:
    """What was logged from `since` on (seconds of the epoch): from the first line whose own time is not earlier. A log without times
    is returned whole, one with only earlier times not at all."""
    stamped = False
    for number, line in enumerate(lines):
        at = _time_of(line, since)
        if at is None:
            continue
        if at >= since - 1:
            return lines[number:]
        stamped = True
    return [] if stamped else lines


def _time_of(line: str, near: float) -> float | None:
    """When a line says that it was written, in seconds of the epoch."""
    head = line[:120]
    with contextlib.suppress(ValueError, OverflowError):
        found = _LONG_STAMP.search(head)
        if found:
            read = time.strptime(f"{found[1]} {found[2]}", "%Y-%m-%d %H:%M:%S")
            return _utc(read) if found[3] else time.mktime(read)
        found = _SHORT_STAMP.search(head)
        if found:
            year = time.localtime(near).tm_year
            return time.mktime(time.strptime(f"{year}-{found[1]}", "%Y-%m-%d %H:%M:%S"))
    return None


def _utc(read: time.struct_time) -> float:
    return float(calendar.timegm(read))
