# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Waves: which workloads of a run go through the phases together, and in which order."""

from __future__ import annotations

import typing as t

from ..spec.workload import CACHE, GROUP, Kind
from .value import Plan

# What stops workloads that serve does so to one of them at a time.
_ONE_BY_ONE = ("restart", "remove")


def kinds_in_order(action: str) -> tuple[Kind, Kind]:
    """The kinds of workloads in the order in which a run plans them and carries them out: a group starts beside the services that it uses,
    and a service outlives the groups that use it."""
    return (GROUP, CACHE) if action == "remove" else (CACHE, GROUP)


def waves(plans: t.Mapping[str, Plan], parallel: int | None = None) -> tuple[tuple[str, ...], ...]:
    """The names of the workloads of each wave. `plans` are those of one run with which something is to be done, by name, in the order in
    which they were made: within a kind it is kept. Nobody competes in a wave, since each plan was made beside those before it.

    `parallel` is how many may go together at most; None or 0 leaves it to what is done: all of a kind, or one where those that serve stop.
    What a run of groups does to services beside them is no restart, whatever it does to the groups."""
    found: list[tuple[str, ...]] = []
    removing = any(plan.action == "remove" for plan in plans.values())
    for kind in kinds_in_order("remove" if removing else ""):
        mine = [name for name, plan in plans.items() if plan.kind == kind.name]
        one_by_one = any(plans[name].action in _ONE_BY_ONE for name in mine)
        most = parallel or (1 if one_by_one else len(mine))
        found += [tuple(mine[at : at + most]) for at in range(0, len(mine), max(1, most))]
    return tuple(found)
