# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plans of a run at a glance, as a person reads them: what each workload does in a line, and those with nothing to do together. What
each does in full is its own diff (diff.py)."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ..base.words import MOST_HOSTS, counted, names
from .plan import summary
from .value import Plan

_HEAD = ("workload", "wave", "action", "created", "replaced", "removed", "kept", "router", "pending", "hosts")
# How many hosts a line names.
_HOSTS = 3
# So many workloads with nothing to do have a line each.
_FEW = 3


@dataclass(frozen=True)
class Counts:
    """What becomes of a plan's members. One that goes and comes again, wherever that is, is replaced."""

    created: frozenset[str]
    replaced: frozenset[str]
    removed: frozenset[str]
    kept: frozenset[str]

    @classmethod
    def of(cls, plan: Plan) -> Counts:
        did = {
            what: frozenset(s.member for s in plan.steps if s.do == what and s.member)
            for what in ("create", "replace", "remove")
        }
        again = did["replace"] | (did["create"] & did["remove"])
        created, removed = did["create"] - again, did["remove"] - again
        return cls(created, again, removed, frozenset(m.id for m in plan.members) - created - again)

    def word(self, member: str) -> str:
        """What becomes of one of them; empty for one that there is not."""
        for word in ("created", "replaced", "removed", "kept"):
            if member in getattr(self, word):
                return word
        return ""


def table(plans: t.Sequence[Plan], waves: t.Sequence[t.Sequence[str]] = ()) -> list[str]:
    """The lines of the table: a workload a line, in the order of the plans, those with nothing to do in the last one. `waves` are the names
    of each; where there is one alone, its number is left out."""
    number = {name: str(at) for at, wave in enumerate(waves, 1) for name in wave}
    busy = [plan for plan in plans if not _is_quiet(plan)]
    rows = [_HEAD, *(_row(plan, number.get(plan.group, "-")) for plan in busy)] if busy else []
    if len(waves) < 2:
        rows = [(row[0], *row[2:]) for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows]
    return [*lines, *_together([plan for plan in plans if _is_quiet(plan)])]


def summaries(plans: t.Sequence[Plan]) -> list[str]:
    """For a run without --diff: the summary of each plan that does or says something, and the others in one line where they are many."""
    quiet = [plan for plan in plans if _is_quiet(plan)]
    alone = len(quiet) <= _FEW
    told = [summary(plan) for plan in plans if alone or not _is_quiet(plan)]
    return [*told, *([] if alone else _together(quiet))]


def works(plan: Plan) -> bool:
    """Whether there is anything to do, or to know."""
    return bool(plan.changed or plan.steps or plan.pending)


def _is_quiet(plan: Plan) -> bool:
    return not works(plan)


def _together(quiet: t.Sequence[Plan]) -> list[str]:
    if not quiet:
        return []
    return [f"nothing to change in {counted(len(quiet), 'workload')}: {names((p.group for p in quiet), MOST_HOSTS)}"]


def _row(plan: Plan, wave: str) -> tuple[str, ...]:
    counts, router = Counts.of(plan), _router_of(plan)
    numbers = (len(ids - {router}) for ids in (counts.created, counts.replaced, counts.removed, counts.kept))
    hosts = [place for place, mine in plan.hosts.items() if mine.part]
    return (
        plan.group,
        wave,
        plan.action,
        *(str(number or "-") for number in numbers),
        _router(plan, counts, router),
        "yes" if plan.pending else "-",
        names(hosts, _HOSTS) or "-",
    )


def _router_of(plan: Plan) -> str:
    """The id of the router that there is after the plan, else of the one that goes."""
    if plan.router.member is not None:
        return plan.router.member.id
    return next((s.member for s in plan.steps if s.phase == "router_stop" and s.member), "")


def _router(plan: Plan, counts: Counts, router: str) -> str:
    step, word = plan.router, counts.word(router)
    if step.step == "operator":
        return "by hand"
    if word == "kept" and step.step == "register":
        return f"kept, +{len(step.add)} -{len(step.remove)}"
    return word or "-"
