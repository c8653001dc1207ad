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
    """The names of the workloads of each wave. `plans` are those of one run by name, in the order in which they were made: within a kind it
    is kept. A workload that nothing is to be done with is in no wave.

    `parallel` is how many may go together at most; None or 0 leaves it to the action: all, or one where workloads that serve stop. Nobody
    competes in a wave: each plan was made beside those before it."""
    found: list[tuple[str, ...]] = []
    coming = {name: plan for name, plan in plans.items() if not plan.idle}
    action = next((plan.action for plan in coming.values()), "")
    most = parallel or (1 if action in _ONE_BY_ONE else len(coming))
    for kind in kinds_in_order(action):
        names = [name for name, plan in coming.items() if plan.kind == kind.name]
        found += [tuple(names[at : at + most]) for at in range(0, len(names), max(1, most))]
    return tuple(found)
