# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The wait of one host for its members of all workloads of a wave, from the controller: the module looks in slices, and what changes is
told as it comes.

Each host's wait is a worker process of its own. What the others must know is in the notes that they share (notes.py): a member that has
failed for good makes waiting pointless on other hosts, too, and a workload that is complete everywhere does not wait for the slowest."""

from __future__ import annotations

import contextlib
import os
import re
import time
import typing as t
from collections import abc
from dataclasses import dataclass, field

from ansible import constants
from ansible.errors import AnsibleConnectionFailure
from ansible.plugins.action import ActionBase

from ..module_utils._core.base.plain import Plain, to_plain
from ..module_utils._core.base.printable import printable
from ..module_utils._core.course.parcel import Parcel
from ..module_utils._core.watch.readiness import complete, decided, left_behind, many_loading, progress
from ..module_utils._core.work.member import Member
from ._answers import last_line
from .notes import ENDED, FAILED, READY, Notes

SLICE = 10
# One dropped connection must not lose a host in the middle of a long wait.
LOST_CALLS = 3
LOST_PAUSE = 5.0
TEXT = 160
# A member that logs nothing new is told of again after this long, in the first minute of a wait and later: a person who waits sees that
# the run lives.
SAY_EVERY = (10.0, 30.0)
FIRST_MINUTE = 60.0
# While more members than these load on a host, what they log is one line of all; that one is ready or has failed is always its own.
FEW = 4
# The router's start and its peers, and the proof.
AFTER_WAIT = 300.0

Result = dict[str, t.Any]


@dataclass(frozen=True)
class Waited:
    """A workload that a host waits for. `members` are its own there, as `asked` makes them: without any it only keeps the workload's lock.
    `everyone` is who all hosts wait for, as {id, role}, and `hosts` are these hosts. `limit` are the seconds that it is waited for at most,
    in all passes together; `spent` are those of earlier ones."""

    group: str
    members: t.Sequence[Plain]
    everyone: t.Sequence[Plain]
    limit: float
    readiness: str
    runtime: str
    hosts: tuple[str, ...] = ()
    spent: float = 0.0


# The members that are waited for, by workload; and what earlier slices have seen of each, as the module returned it.
Waiting = abc.Mapping[str, list[Plain]]
Memories = abc.Mapping[str, dict[str, t.Any]]
# Runs the module for a slice of so many seconds, and returns what it says of each workload. It renews the locks of all of them, also of one
# whose members are not waited for any more: that has none.
Call = t.Callable[[Waiting, int, Memories], abc.Mapping[str, Result]]


class Waiter:
    """One host's wait. It ends for each workload when all of its members here are ready or have failed, when the notes say that its outcome
    is settled, when the module cannot look at it, or at its own limit, which counts from when the first of its hosts has begun to wait.

    Once a workload was complete on all of its hosts for `patience` seconds, those that are still loading are left (`left`: true): neither
    late nor failed, they are for a second pass with what is left of their limits. With patience None nobody is left.

    Where there are fewer forks than hosts, some hosts begin when others have ended. Until they have looked, their workloads are not
    complete: patience begins later, and a host that has a worker may wait up to its limits before it gives it to another one. That costs
    time, and no workload is judged by members that nobody has looked at: each host looks at least once. All members were started before
    anybody waits, so that those of such a host have loaded meanwhile as well: what is not ready at its first look is left at once if
    patience is over by then, and late if the limit is."""

    def __init__(
        self,
        workloads: t.Sequence[Waited],
        call: Call,
        say: t.Callable[[str], None],
        notes: Notes,
        patience: float | None = None,
        slice_: int = SLICE,
        clock: t.Callable[[], float] = time.monotonic,
    ) -> None:
        self.call, self.say, self.notes = call, say, notes
        self.patience, self.slice, self.clock = patience, slice_, clock
        self.started = clock()
        self.courses = [Course(one, self._began(one), over=not one.members) for one in workloads]
        self._told: dict[str, tuple[str, str, float]] = {}
        self._told_of_many, self._turn = float("-inf"), 0

    def run(self) -> dict[str, Result]:
        """The result of each workload, by its name. What the call raises is raised, once others know that nothing more comes from here."""
        try:
            while self._open():
                self._look()
                self._end()
        except Exception as exc:
            for course in self._open():
                course.error = str(exc)
                self._over(course)
            raise
        return {one.of.group: one.result() for one in self.courses}

    def _began(self, one: Waited) -> float:
        return self.notes.began(one.group, self.started) if one.members else self.started

    def _open(self) -> list[Course]:
        return [one for one in self.courses if not one.over]

    def _look(self) -> None:
        """One slice. A workload that is over is given as well, without members: its lock must live as long as anybody waits here."""
        looked = self._open()
        waiting = {one.of.group: [] if one.over else one.waiting for one in self.courses}
        answers = self.call(waiting, self._seconds(), {one.of.group: one.memory for one in looked})
        now = self.clock()
        for course in looked:
            answer = answers.get(course.of.group) or {"failed": True}
            course.take(answer, now)
            for name in course.failed:
                self.notes.tell(course.of.group, name, FAILED)
        self._tell(looked, now)

    def _seconds(self) -> int:
        """How long the next slice may take: until the first limit, or until patience is over. Most failures come early: then slices are
        short, so that hosts hear of each other sooner, and a person sees something soon."""
        now = self.clock()
        elapsed = now - self.started
        left = [one.deadline - now for one in self._open()]
        first = self.notes.first_complete()
        if first and self.patience is not None:
            left.append(first[1] + self.patience - now)
        longest = min(self.slice, 3 if elapsed < 3 else 5 if elapsed < 30 else self.slice)
        return int(max(1, min(longest, *left)))

    def _end(self) -> None:
        """End what is over, by what has been seen here and what the notes say."""
        now = self.clock()
        for course in self._open():
            of = course.of
            course.stop = decided(self.notes.failed(of.group), of.everyone, of.readiness)
            if course.error or course.settled or course.stop or now >= course.deadline:
                self._over(course)
        # After all have noted what they saw: the last of the hosts of a workload sees that it is complete.
        first = self.notes.first_complete()
        if first and self.patience is not None and now - first[1] >= self.patience:
            for course in self._open():
                course.left = True
                self._over(course)
                self.say(left_behind(course.of.group, course.elapsed, course.of.limit))

    def _over(self, course: Course) -> None:
        """Nothing more is seen of a workload here: let the others know what became of its members."""
        of, now = course.of, self.clock()
        course.over, course.elapsed = True, course.spent(now)
        for member in of.members:
            self.notes.tell(of.group, member["id"], course.note(member))
        if complete(self.notes.members(of.group), of.everyone, of.readiness):
            self.notes.completed(of.group, now)

    # -- what a person sees --------------------------------------------------------------------------------------------------------

    def _tell(self, looked: t.Sequence[Course], now: float) -> None:
        """A line of each member of which there is something new. Many that load are told of in one."""
        loading = {one.of.group: one.loading for one in looked if one.loading}
        many = sum(len(names) for names in loading.values()) > FEW
        for course in looked:
            for name, seen in course.found.items():
                self._tell_of(name, seen, course.spent(now), course.of.limit, many)
        if many and now - self._told_of_many >= SAY_EVERY[now - self.started > FIRST_MINUTE]:
            self._told_of_many = now
            # What each of them logs is told in turn.
            every = [(name, one.found[name]) for one in looked for name in one.loading]
            name, seen = every[self._turn % len(every)]
            self._turn += 1
            text = _text(seen)
            self.say(many_loading(loading, now - self.started, f"{name}: {text}" if text else ""))

    def _tell_of(self, name: str, seen: Result, elapsed: float, limit: float, many: bool) -> None:
        state, text = seen["state"], _text(seen)
        before = self._told.get(name)
        if many and state == "loading" and (before is None or before[0] == state):
            return
        if (
            before is None
            or before[:2] != (state, text)
            or (state == "loading" and elapsed - before[2] >= SAY_EVERY[elapsed > FIRST_MINUTE])
        ):
            self._told[name] = (state, text, elapsed)
            self.say(progress(name, state, elapsed, limit, text))


@dataclass
class Course:
    """Where a workload is in the wait of this host: what was last seen of each of its members, and how it ended."""

    of: Waited
    # When the first of its hosts has begun to wait for it.
    began: float
    found: dict[str, Result] = field(default_factory=dict)
    memory: dict[str, t.Any] = field(default_factory=dict)
    over: bool = False
    stop: str | None = None
    error: str = ""
    left: bool = False
    elapsed: float = 0.0

    @property
    def deadline(self) -> float:
        return self.began + self.of.limit - self.of.spent

    def spent(self, now: float) -> float:
        """Seconds that it was waited for, in all passes."""
        return now - self.began + self.of.spent

    def state(self, member: Plain) -> str:
        return str(self.found.get(member["id"], {}).get("state", "loading"))

    def note(self, member: Plain) -> str:
        """What became of a member in this wait."""
        state = self.state(member)
        return state if state == FAILED or (state == READY and not self.error) else ENDED

    @property
    def waiting(self) -> list[Plain]:
        """Those that may become ready, or that were and may fail."""
        return [m for m in self.of.members if self.state(m) != FAILED]

    @property
    def settled(self) -> bool:
        return all(self.state(m) in (READY, FAILED) for m in self.of.members)

    @property
    def loading(self) -> list[str]:
        return [name for name, seen in self.found.items() if seen["state"] == "loading"]

    @property
    def failed(self) -> list[str]:
        return [name for name, seen in self.found.items() if seen["state"] == FAILED]

    def take(self, answer: Result, now: float) -> None:
        """What the module says of it after a slice."""
        if answer.get("failed"):
            self.error = str(answer.get("msg") or "the module gave no reason")
            return
        self.memory.update(answer.get("memory") or {})
        for name, told in (answer.get("members") or {}).items():
            self.found[name] = {**_whole(told), "waited": round(self.spent(now), 1)}

    def result(self) -> Result:
        not_ready: dict[str, str] = {}
        for member in self.of.members:
            name = member["id"]
            seen = self.found.setdefault(name, {"state": "loading", "why": "", "role": member["role"]})
            seen |= self._outcome(seen)
            if seen["state"] != READY:
                not_ready[name] = seen["why"]
        ready = sorted(set(self.found) - set(not_ready))
        return {
            "changed": False,
            "group": self.of.group,
            "members": self.found,
            "ready": ready,
            "not_ready": not_ready,
            "left": self.left,
            "stopped": self.stop,
            "elapsed": round(self.elapsed, 1),
            "limit": self.of.limit,
            "msg": _message(ready, not_ready, self.found, self.elapsed),
        }

    def _outcome(self, seen: Result) -> Result:
        """How the wait for a member ended, and why, as far as the last look does not say it."""
        last = _last(seen["why"], seen.get("log_line") or "")
        if self.error and seen["state"] != FAILED:
            return {"state": "unknown", "outcome": "unknown", "why": f"looking at it failed: {self.error}"}
        if seen["state"] != "loading":
            return {"outcome": seen["state"]}
        if self.stop:
            return {"outcome": "stopped", "why": f"stopped waiting: {self.stop}" + _last(seen["why"])}
        if self.left:
            why = f"not ready after {self.elapsed:.0f} of {self.of.limit:.0f} s, and the others do not wait for it"
            return {"outcome": "left", "why": why + last}
        return {"outcome": "late", "why": f"not ready within {self.of.limit:.0f} s" + last}


def _text(seen: Result) -> str:
    """What is told of a member beside its state."""
    if seen["state"] == READY:
        return ""
    return str(seen["why"] if seen["state"] == FAILED else (seen.get("log_line") or seen["why"])[:TEXT])


def _whole(seen: Result) -> Result:
    """What is told of a member. Where no line of its log says why it failed, the last one is told: a person may know what it means."""
    line = seen.get("log_line") if seen["state"] == FAILED and not seen.get("symptom") else None
    return {**seen, "why": f"{seen['why']}; its log ends with: {line}"} if line else dict(seen)


def _last(why: str, line: str = "") -> str:
    text = why + (f"; the last line of its log: {line}" if line else "")
    return f" (when last seen: {text})" if text else ""


def _message(ready: list[str], not_ready: t.Mapping[str, str], found: t.Mapping[str, t.Any], elapsed: float) -> str:
    lines = [
        f"{len(ready)} of {len(ready) + len(not_ready)} members ready after {elapsed:.0f} s"
        + (f": {', '.join(ready)}" if ready else "")
    ]
    for name, why in sorted(not_ready.items()):
        lines.append(f"{name}: {why}")
        lines += [
            f"    {text}"
            for text in (found[name].get("advice"), found[name].get("log") and f"log: {found[name]['log']}")
            if text
        ]
    return "\n".join(lines)


# -- from an action ----------------------------------------------------------------------------------------------------------------


def of_engines(parcel: Parcel, limit: float | None = None, spent: float = 0.0) -> Waited:
    """What a host waits for of a parcel's engines: without any of its own it keeps the lock. Without a `limit` it is that of the
    engine that may take the longest, wherever it is."""
    plan = parcel.plan
    mine = [asked(m, parcel.host) for m in plan.engines if m.through(parcel.host)]
    longest = float(limit or parcel.limit)
    return Waited(plan.group, mine, parcel.everyone, longest, plan.readiness, plan.runtime or "", parcel.waits, spent)


def of_router(parcel: Parcel, router: Member) -> Waited:
    """The wait for a router, which is on this host alone."""
    plan, alone = parcel.plan, ({"id": router.id, "role": router.role},)
    mine = [asked(router, parcel.host)]
    return Waited(plan.group, mine, alone, router.probe.limit, plan.readiness, plan.runtime or "", (parcel.host,))


def asked(member: Member, host: str) -> dict[str, t.Any]:
    """What the module needs of a member of the plan, to look at it on that host."""
    (part,) = member.through(host)
    keys = ("group", "member", "address", "kv_address", "dialect", "backend")
    label = {k: part.labels.get(k) for k in keys}
    return {"id": member.id, "role": member.role, "probe": to_plain(member.probe), "label": label}


@dataclass(frozen=True)
class Calls:
    """How an action calls the module on its host. `options` are those by which it runs members; `holder` is who holds the locks, None
    leaves them alone; with `explain` members that are ready are told of, too, by what their logs say."""

    action: ActionBase
    options: t.Mapping[str, t.Any]
    holder: t.Mapping[str, t.Any] | None = None
    explain: bool = False
    clock: t.Callable[[], float] = time.monotonic
    pause: t.Callable[[float], None] = time.sleep

    @property
    def host(self) -> str:
        return str(self._variables["inventory_hostname"])

    @property
    def _variables(self) -> dict[str, t.Any]:
        return self.action.task_vars  # type: ignore[attr-defined]

    def say(self, text: str) -> None:
        self.action._display.display(f"{self.host} | {text}")

    def patiently(self, workloads: t.Sequence[Result], seconds: int, longer: float) -> Result:
        """One slice, asked for again when the connection is lost. Raises AnsibleConnectionFailure when it stays lost."""
        for _again in range(LOST_CALLS - 1):
            try:
                return self(workloads, seconds, longer)
            except AnsibleConnectionFailure as exc:
                why = printable(exc, TEXT)
                self.say(f"{self.host} does not answer ({why}), asking again in {LOST_PAUSE:.0f} s")
                self.pause(LOST_PAUSE)
        return self(workloads, seconds, longer)

    def __call__(self, workloads: t.Sequence[Result], seconds: int, longer: float) -> Result:
        """One slice. The locks are renewed for `longer` than usual. Raises AnsibleConnectionFailure."""
        given: dict[str, t.Any] = {key: value for key, value in self.options.items() if value}
        if self.holder:
            given["holder"] = {**self.holder, "ttl": float(self.holder.get("ttl") or 0) + longer}
        if self.explain:
            given["explain"] = True
        arguments = {**given, "workloads": list(workloads), "slice": seconds}
        return t.cast(
            "Result",
            self.action._execute_module(
                module_name="inferops.pd.members_wait", module_args=arguments, task_vars=self._variables
            ),
        )


def wait_for_members(
    calls: Calls,
    workloads: t.Sequence[Waited],
    notes: Notes,
    patience: float | None = None,
    slice_: int = SLICE,
    hosts: t.Collection[str] = (),
    longest: float = 0.0,
) -> dict[str, Result]:
    """Wait for the members that are on a host, of all workloads of a wave that it has a part of or a lock of. Failure is data: `not_ready`
    of a result says why. `hosts` are all hosts of the wave, and `longest` is for how long any of its workloads may still be waited for:
    where they are left out, those of `workloads`.

    The locks of a host live for as long as others may still wait, and for what follows: the call that ends its wait, or one more, says so.

    Raises AnsibleConnectionFailure when the host stays out of reach."""
    others = {*hosts, *(name for one in workloads for name in one.hosts)} - {calls.host}
    longest = max([longest, *(one.limit - one.spent for one in workloads)])
    runtimes = {one.group: one.runtime for one in workloads}
    slices = 0

    def outlast() -> float:
        left = others_take(notes.waiting(others), longest, calls.clock())
        return 0.0 if left is None else left + AFTER_WAIT

    def ask(waiting: Waiting, seconds: int, memory: Memories, longer: float) -> dict[str, Result]:
        given = [
            {"group": group, "runtime": runtimes[group], "members": members, "memory": memory.get(group) or {}}
            for group, members in waiting.items()
        ]
        return of_each(calls.patiently(given, seconds, longer), waiting)

    def call(waiting: Waiting, seconds: int, memory: Memories) -> dict[str, Result]:
        nonlocal slices
        slices += 1
        # Most hosts need no second one.
        return ask(waiting, seconds, memory, outlast() if slices == 1 else 0.0)

    notes.host_began(calls.host, calls.clock())
    try:
        found = Waiter(workloads, call, calls.say, notes, patience, slice_, calls.clock).run()
    finally:
        notes.host_ended(calls.host, calls.clock())
    longer = outlast() if calls.holder and slices != 1 else 0.0
    if longer:
        with contextlib.suppress(AnsibleConnectionFailure):
            ask({group: [] for group in runtimes}, 1, {}, longer)
    return found


def nothing_comes(host: str, workloads: t.Iterable[Waited], notes: Notes, now: float | None = None) -> None:
    """Let the others know that nothing more is heard of a host, which was lost before the wait or has nothing to wait for: a workload may
    be complete without its members, and nobody keeps a lock for it."""
    for one in workloads:
        for member in one.members:
            notes.tell(one.group, member["id"], ENDED)
    notes.host_ended(host, time.monotonic() if now is None else now)


def of_each(answer: Result, groups: t.Iterable[str]) -> dict[str, Result]:
    """What the module said of each workload. One that did not end as it should says nothing of any."""
    told = answer.get("workloads")
    if answer.get("failed") or not isinstance(told, abc.Mapping):
        why = str(answer.get("msg") or "")
        # Ansible's own words of a module that fell over are none.
        said = last_line(answer) if not why or why.startswith("MODULE FAILURE") else why
        return {group: {"failed": True, "msg": said} for group in groups}
    return dict(told)


def others_take(waiting: t.Mapping[str, float | None], longest: float, now: float) -> float | None:
    """For how many seconds the wait of others may still last, of hosts as the notes say when each began: one without a worker begins when
    another one ends. None when nobody waits any more."""
    left = [longest if began is None else max(0.0, began + longest - now) for began in waiting.values()]
    return max(left, default=None)


def notes_of(action: ActionBase, name: str) -> Notes:
    """The notes of this very wait: a task has the same id on all its hosts, and another one in another wait, as in a second pass."""
    folder = re.sub(r"[^\w.-]", "_", f"pd-wait-{name}-{action._task._uuid}")
    return Notes(os.path.join(vars(constants)["DEFAULT_LOCAL_TMP"], folder))
