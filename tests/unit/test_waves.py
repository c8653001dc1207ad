# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Waves: who goes through the phases together."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.inferops.pd.plugins.module_utils._core.plan.value import Plan
from ansible_collections.inferops.pd.plugins.module_utils._core.plan.waves import kinds_in_order, waves
from ansible_collections.inferops.pd.plugins.module_utils._core.spec.workload import CACHE, GROUP


def plans(action: str, *names: str) -> dict[str, Plan]:
    """A plan a name; those that begin with `lm` are cache services."""
    return {
        name: Plan(
            group=name,
            kind=(CACHE if name.startswith("lm") else GROUP).name,
            action=action,
            run="r",
            mode=None,
            runtime=None,
            revision=None,
            formation=None,
            generation=1,
        )
        for name in names
    }


def told(found: t.Iterable[t.Iterable[str]]) -> str:
    return " | ".join(" ".join(wave) for wave in found)


@pytest.mark.parametrize(
    ("action", "parallel", "names", "expected"),
    [
        ("deploy", None, "a lm1 b lm2 c", "lm1 lm2 | a b c"),
        ("deploy", 0, "a b", "a b"),
        ("deploy", 2, "a b c lm", "lm | a b | c"),
        ("scale", None, "a", "a"),
        ("restart", None, "b a c", "b | a | c"),
        ("restart", 0, "a b", "a | b"),
        ("restart", 2, "a b c", "a b | c"),
        ("restart", 9, "a lm b", "lm | a b"),
        ("remove", None, "lm a b", "a | b | lm"),
        ("remove", 9, "lm a b", "a b | lm"),
        ("deploy", None, "lm", "lm"),
        ("deploy", None, "", ""),
        ("restart", None, "", ""),
    ],
)
def test_who_goes_together(action, parallel, names, expected):
    assert told(waves(plans(action, *names.split()), parallel)) == expected


def test_services_beside_groups_that_restart_are_one_wave():
    beside = {**plans("deploy", "lm1", "lm2"), **plans("restart", "a", "b")}
    assert told(waves(beside)) == "lm1 lm2 | a | b"


def test_plans_are_made_in_the_order_of_the_waves():
    assert kinds_in_order("deploy") == kinds_in_order("restart") == (CACHE, GROUP)
    assert kinds_in_order("remove") == (GROUP, CACHE)
