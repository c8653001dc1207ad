# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs on the controller: judges what all hosts said in a phase, for each workload of a wave by itself; and tells at the end of the run,
once, what failed."""

from __future__ import annotations

import time
import typing as t
from dataclasses import replace

from ..module_utils._core.base.words import names
from ..module_utils._core.course.course import Course
from ..module_utils._core.course.judge import PHASES, Said, judge
from ..module_utils._core.plan.value import Plan
from ..module_utils._core.spec.workload import KINDS
from ..plugin_utils._action import PdAction
from ..plugin_utils._closing import close
from ..plugin_utils._run import RUN
from ..plugin_utils.run_folder import RunFolder

# Before a wave, and after the last one.
OPEN, CLOSE = "open", "close"


class ActionModule(PdAction):
    ARGUMENTS: t.ClassVar[dict[str, t.Any]] = {
        **RUN,
        "phase": {"type": "str", "choices": [OPEN, *PHASES, CLOSE], "required": True},
        "stops": {"type": "bool", "default": False},
        "fail_on_locked": {"type": "bool", "default": False},
        "fails": {"type": "bool", "default": True},
    }

    def act(self) -> dict[str, t.Any]:
        folder, phase = RunFolder(str(self.args["run"])), self.args["phase"]
        if phase == CLOSE:
            told = close(folder, self._display.display)
            return {**told, "failed": bool(told.get("failed") and self.args["fails"])}
        if phase == OPEN:
            return self._open(folder)
        wave, number = self.args["wave"], self.args["round"]
        before, said = folder.courses(wave), folder.said(wave)
        after: dict[str, Course] = {}
        for name, course in before.items():
            after[name] = course
            if course.goes_on:
                plan = folder.plan(name)
                after[name] = _timed(plan, self._judged(plan, course, phase, said.get(name) or {}, number), phase)
        folder.write_courses(wave, after)
        self._say(before, after)
        return _next(after)

    def _judged(self, plan: Plan, course: Course, phase: str, said: Said, number: int | None) -> Course:
        """After a phase of a round, what was said in it is judged by the round's plan; after its end, all of it by the whole plan."""
        if number is not None and phase != "renewal":
            if number not in plan.rounds:
                return course
            plan = plan.round(number)
            said = {step.partition(".")[0]: hosts for step, hosts in said.items() if step.endswith(f".{number + 1}")}
            if not said and not self._task.check_mode:
                return course
        after = judge(plan, course, phase, said, bool(self.args["stops"]), bool(self._task.check_mode))
        return replace(after, failed=True) if after.skipped and self.args["fail_on_locked"] else after

    def _say(self, before: t.Mapping[str, Course], after: t.Mapping[str, Course]) -> None:
        """What serves is told at once; what failed is told in a line now, and in full when the run ends."""
        for name, course in after.items():
            was = before[name]
            if not course.told or course.told == was.told or self._task.check_mode:
                continue
            if course.failed and len(after) > 1:
                self._display.display(f"{course.told.partition(chr(10))[0]} The end of the run tells more.")
            elif not course.failed:
                self._display.display(course.told)

    # -- the ends of a wave and of a run -------------------------------------------------------------------------------------------

    def _open(self, folder: RunFolder) -> dict[str, t.Any]:
        """What is not begun: a group whose service has failed, and whatever comes after a wave that failed where the run halts then."""
        index, wave = folder.index(), self.args["wave"]
        earlier = {name: one for at in range(wave) for name, one in folder.courses(at).items()}
        failed = [name for name, one in earlier.items() if one.failed]
        courses = {}
        for name, course in folder.courses(wave).items():
            needed = index.needs.get(name, ())
            lacking = [o for o in needed if o in failed or o in index.refused or _stays(folder, earlier.get(o))]
            if lacking:
                kind, uses = KINDS[folder.plan(name).kind], f"it uses {names(lacking)}, which failed in this run"
                # Where hosts are evacuated, services go after the groups that use them.
                uses = uses if kind.router else f"members of {names(lacking)} that use it have not left"
                told = f"{kind.title} {name}: nothing of it was touched, since {uses}."
                course = course.ends(told, {"good": False, "untouched": True})
            elif index.halts and any(folder.plan(one).kind == folder.plan(name).kind for one in failed):
                told = f"{name}: not touched by this run, which goes no further after {names(failed)} failed."
                course = course.ends(told, {"good": False, "untouched": True})
            courses[name] = course
        folder.write_courses(wave, courses)
        return _next(courses)


def _stays(folder: RunFolder, course: Course | None) -> bool:
    """Whether members of a workload that were to leave their host are still there."""
    ending = course.ending if course else None
    return bool(course and folder.plan(course.name).retire and not (ending and ending.retired))


def _timed(plan: Plan, course: Course, phase: str) -> Course:
    """When it was locked, and how long it took from there until all of it was up: of a start of the whole workload alone."""
    now = time.time()
    if phase == "lock" and course.goes_on:
        return replace(course, since=now)
    fresh = {name for here in plan.hosts.values() for name in here.create}
    if plan.retire:
        # What was there served meanwhile.
        return course
    if phase != "settle" or course.ending is None or course.ending.registered != "yes" or not course.since:
        return course
    whole = {member.id for member in plan.engines} <= fresh
    return replace(course, took=round(now - course.since, 1)) if whole else course


def _next(courses: t.Mapping[str, Course]) -> dict[str, t.Any]:
    """What the roles ask of a verdict: which parts of what comes have anything to do."""
    going = [one for one in courses.values() if one.goes_on]
    return {
        "good": not any(one.failed for one in courses.values()),
        "going": [one.name for one in going],
        "serves": any(one.serves for one in going),
        "restores": any(one.restores for one in courses.values()),
        "undoes": any(one.undoes for one in going),
        "retires": any(one.retires for one in going),
        "unproven": any(one.unproven for one in going),
        "left": [one.name for one in going if one.left],
        "locked": [one.name for one in courses.values() if one.over and one.locked],
    }
