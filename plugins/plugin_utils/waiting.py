# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The wait for the members of one host, from the controller: the module looks in slices, and what changes is told as it comes.

The worker processes of one ansible-playbook share a temporary folder: a member that has failed for good leaves a note there, so that
the hosts whose waiting has become pointless end it too."""

from __future__ import annotations

import contextlib
import os
import re
import time
import typing as t

from ansible import constants
from ansible.errors import AnsibleConnectionFailure
from ansible.plugins.action import ActionBase

from ..module_utils._core.base.plain import Plain, to_plain
from ..module_utils._core.base.printable import printable
from ..module_utils._core.plan.value import Plan, Roll
from ..module_utils._core.watch.readiness import decided, progress
from ..module_utils._core.work.member import Member

SLICE = 10
# One dropped connection must not lose a host in the middle of a long wait.
LOST_CALLS = 3
LOST_PAUSE = 5.0
TEXT = 160
# A member that logs nothing new is told of again after this long, in the first minute of a wait and later: a person who waits sees that
# the run lives.
SAY_EVERY = (10.0, 30.0)
FIRST_MINUTE = 60.0
# The router's start and its peers, and the proof.
AFTER_WAIT = 300.0

Result = dict[str, t.Any]


class Notes:
    """What the hosts of one wait tell each other: a file per member that has failed for good."""

    def __init__(self, path: str) -> None:
        self.path = path

    def write(self, member: str, why: str) -> None:
        # The wait goes on without the notes: they only make it shorter.
        with contextlib.suppress(OSError):
            os.makedirs(self.path, mode=0o700, exist_ok=True)
            with open(os.path.join(self.path, member), "w", encoding="utf-8") as stream:
                stream.write(why)

    def read(self) -> list[str]:
        try:
            return sorted(os.listdir(self.path))
        except OSError:
            return []


class Waiter:
    """One host's wait for `members`; `everyone` is who all hosts wait for, as {id, role}. `call` runs the module for a slice: (members,
    seconds, memory) -> its result."""

    def __init__(
        self,
        members: t.Sequence[Plain],
        everyone: t.Sequence[Plain],
        call: t.Callable[[list[Plain], int, dict[str, t.Any]], Result],
        say: t.Callable[[str], None],
        notes: Notes,
        limit: float,
        readiness: str,
        slice_: int = SLICE,
        clock: t.Callable[[], float] = time.monotonic,
    ) -> None:
        self.members, self.everyone = members, everyone
        self.call, self.say, self.notes = call, say, notes
        self.limit, self.readiness, self.slice = limit, readiness, slice_
        self.clock = clock
        self.found: dict[str, dict[str, t.Any]] = {}
        self._told: dict[str, tuple[str, str, float]] = {}
        self._memory: dict[str, t.Any] = {}

    def run(self) -> Result:
        """Until all are ready or failed, the limit has passed, or waiting has become pointless."""
        started = self.clock()
        error = ""
        while True:
            left = self.limit - (self.clock() - started)
            stop = decided(self.notes.read(), self.everyone, self.readiness)
            waiting = [m for m in self.members if self._state(m) != "failed"]
            looked = self.found and all(self._state(m) == "ready" for m in waiting)
            if looked or not waiting or (stop and self.found) or left <= 0:
                break
            answer = self.call(waiting, int(max(1, min(self._slice(self.limit - left), left))), self._memory)
            if answer.get("failed"):
                error = str(answer.get("msg") or "the module gave no reason")
                break
            self._memory.update(answer.get("memory") or {})
            self._take(answer.get("members") or {}, self.clock() - started)
        return self._result(stop, error, self.clock() - started)

    def _slice(self, elapsed: float) -> float:
        """Most failures come early: then hosts hear of each other sooner, and a person sees something soon."""
        return min(self.slice, 3 if elapsed < 3 else 5 if elapsed < 30 else self.slice)

    def _state(self, member: Plain) -> str:
        return str(self.found.get(member["id"], {}).get("state", "loading"))

    def _take(self, members: t.Mapping[str, dict[str, t.Any]], elapsed: float) -> None:
        for name, told in members.items():
            seen = _whole(told)
            self.found[name] = {**seen, "waited": round(elapsed, 1)}
            if seen["state"] == "failed":
                self.notes.write(name, seen["why"])
            text = seen["why"] if seen["state"] == "failed" else (seen.get("log_line") or seen["why"])
            text = "" if seen["state"] == "ready" else text if seen["state"] == "failed" else text[:TEXT]
            before = self._told.get(name)
            if (
                before is None
                or before[:2] != (seen["state"], text)
                or (seen["state"] == "loading" and elapsed - before[2] >= SAY_EVERY[elapsed > FIRST_MINUTE])
            ):
                self._told[name] = (seen["state"], text, elapsed)
                self.say(progress(name, seen["state"], elapsed, self.limit, text))

    def _result(self, stop: str | None, error: str, elapsed: float) -> Result:
        not_ready: dict[str, str] = {}
        for member in self.members:
            name = member["id"]
            seen = self.found.setdefault(name, {"state": "loading", "why": "", "role": member["role"]})
            if error:
                seen |= {"state": "unknown", "outcome": "unknown", "why": f"looking at it failed: {error}"}
            elif seen["state"] == "loading" and stop:
                seen |= {"outcome": "stopped", "why": f"stopped waiting: {stop}" + _last(seen["why"])}
            elif seen["state"] == "loading":
                seen |= {
                    "outcome": "late",
                    "why": f"not ready within {self.limit:.0f} s" + _last(seen["why"], seen.get("log_line") or ""),
                }
            else:
                seen["outcome"] = seen["state"]
            if seen["state"] != "ready":
                not_ready[name] = seen["why"]
        ready = sorted(set(self.found) - set(not_ready))
        return {
            "changed": False,
            "members": self.found,
            "ready": ready,
            "not_ready": not_ready,
            "stopped": stop,
            "elapsed": round(elapsed, 1),
            "limit": self.limit,
            "msg": _message(ready, not_ready, self.found, elapsed),
        }


def _whole(seen: dict[str, t.Any]) -> dict[str, t.Any]:
    """What is told of a member. Where no line of its log says why it failed, the last one is told: a person may know what it means."""
    line = seen.get("log_line") if seen["state"] == "failed" and not seen.get("symptom") else None
    return {**seen, "why": f"{seen['why']}; its log ends with: {line}"} if line else seen


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


def wait_for_members(
    action: ActionBase,
    plan: Plan,
    phase: str,
    roll: Roll,
    options: t.Mapping[str, t.Any],
    limit: float | None = None,
    hold: bool = True,
    give_up: str = "decided",
    slice_: int = SLICE,
    holder: t.Mapping[str, t.Any] | None = None,
    explain: bool = False,
) -> Result:
    """Wait for the members of `plan` that are on the host of `action`: its engines, or its router. Failure is data: `not_ready` says why.
    `roll` is who all of its hosts wait for, `options` tell how the host runs members; with `explain` those that are ready are told of, too,
    by what their logs say.

    Raises AnsibleConnectionFailure when the host stays out of reach."""
    variables = action.task_vars  # type: ignore[attr-defined]
    host = variables["inventory_hostname"]
    mine = [m for m in plan.of(phase) if m.through(host)]
    if not mine:
        return {"skipped": True, "skip_reason": f"no {phase} of {plan.group} is on {host}", "changed": False}
    fixed: dict[str, t.Any] = {
        "runtime": plan.runtime,
        "group": plan.group,
        **{name: options.get(name) for name in ("state_dir", "runtime_options")},
        "holder": dict(holder) if holder and hold else None,
        "explain": explain or None,
    }

    def call(members: list[Plain], seconds: int, memory: dict[str, t.Any]) -> Result:
        given = {key: value for key, value in fixed.items() if value is not None}
        arguments = {**given, "members": members, "slice": seconds, "memory": memory}
        return _patiently(lambda: _execute(action, arguments, variables), host, say)

    def say(text: str) -> None:
        action._display.display(f"{host} | {text}")

    waiter = Waiter(
        [asked(m, host) for m in mine],
        roll.everyone,
        call,
        say,
        Notes(_notes_path(action, plan, phase)),
        float(limit or max(m.probe.limit for m in mine)),
        "all" if give_up == "first" else plan.readiness,
        slice_,
    )
    found = {**waiter.run(), "group": plan.group}
    if fixed["holder"] and set(roll.through) - {host} and host == roll.first:
        # Others may wait on, and what follows them takes a while: the lock that every run takes first must not run out meanwhile.
        left = max(0.0, waiter.limit - found["elapsed"]) + AFTER_WAIT
        longer = {**fixed["holder"], "ttl": float(fixed["holder"].get("ttl") or 0) + left}
        with contextlib.suppress(AnsibleConnectionFailure):
            given = {key: value for key, value in fixed.items() if value is not None}
            _execute(action, {**given, "holder": longer, "members": [], "slice": 1, "memory": {}}, variables)
    return found


def _execute(action: ActionBase, arguments: dict[str, t.Any], variables: dict[str, t.Any]) -> Result:
    return action._execute_module(module_name="inferops.pd.members_wait", module_args=arguments, task_vars=variables)


def _patiently(call: t.Callable[[], Result], host: str, say: t.Callable[[str], None]) -> Result:
    for attempt in range(1, LOST_CALLS + 1):
        try:
            return call()
        except AnsibleConnectionFailure as exc:
            if attempt == LOST_CALLS:
                raise
            say(f"{host} does not answer ({printable(exc, TEXT)}), asking again in {LOST_PAUSE:.0f} s")
            time.sleep(LOST_PAUSE)
    return {}


def asked(member: Member, host: str) -> dict[str, t.Any]:
    """What the module needs of a member of the plan, to look at it on that host."""
    (part,) = member.through(host)
    keys = ("group", "member", "address", "kv_address", "dialect", "backend")
    label = {k: part.labels.get(k) for k in keys}
    return {"id": member.id, "role": member.role, "probe": to_plain(member.probe), "label": label}


def _notes_path(action: ActionBase, plan: Plan, phase: str) -> str:
    """One folder for each wait of a run: a task has the same id on all its hosts, and another one in another wait."""
    name = f"pd-wait-{plan.group}-{plan.generation}-{phase}-{action._task._uuid}"
    return os.path.join(vars(constants)["DEFAULT_LOCAL_TMP"], re.sub(r"[^\w.-]", "_", name))
