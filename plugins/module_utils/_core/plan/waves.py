# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Waves: which workloads of a run go through the phases together, and in which order."""

from __future__ import annotations

import typing as t

from ..spec.workload import CACHE, GROUP
from .value import Plan

# What stops workloads that serve does so to one of them at a time.
_ONE_BY_ONE = ("restart", "remove")
# What takes services away from groups does so to these first.
_GROUPS_FIRST = ("remove", "evacuate")


def waves(plans: t.Mapping[str, Plan], parallel: int | None = None) -> tuple[tuple[str, ...], ...]:
    """The names of the workloads of each wave. `plans` are those of one run with which something is to be done, by name, in the order in
    which they were made: within a kind it is kept. Nobody competes in a wave, since each plan was made beside those before it.

    `parallel` is how many may go together at most; None or 0 leaves it to what is done: all of a kind, or one where those that serve stop.
    What a run of groups does to services beside them is no restart, whatever it does to the groups."""
    found: list[tuple[str, ...]] = []
    # A group starts beside the services that it uses, and they outlive it.
    leaving = any(plan.action in _GROUPS_FIRST and not plan.drains for plan in plans.values())
    for kind in (GROUP, CACHE) if leaving else (CACHE, GROUP):
        mine = [name for name, plan in plans.items() if plan.kind == kind.name]
        # What was left beside a group goes with whatever is done to it.
        one_by_one = any(plans[name].action in _ONE_BY_ONE and not plans[name].drains for name in mine)
        most = parallel or (1 if one_by_one else len(mine))
        found += [tuple(mine[at : at + most]) for at in range(0, len(mine), max(1, most))]
    return tuple(found)
