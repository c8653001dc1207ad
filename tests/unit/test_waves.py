# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Waves: who goes through the phases together."""

from __future__ import annotations

import typing as t

import pytest
from builders import Fleet, spec

from ansible_collections.inferops.pd.plugins.module_utils._core.plan.value import Plan, Step
from ansible_collections.inferops.pd.plugins.module_utils._core.plan.waves import kinds_in_order, waves
from ansible_collections.inferops.pd.plugins.module_utils._core.spec.workload import CACHE, GROUP

WORK = (Step("start", "create", "a-prefill-0", "h1", "wanted"),)


def plans(action: str, *names: str, idle: t.Collection[str] = ()) -> dict[str, Plan]:
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
            steps=() if name in idle else WORK,
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


@pytest.mark.parametrize("action", ["deploy", "restart", "remove"])
def test_whom_nothing_is_done_with_is_in_no_wave(action):
    assert told(waves(plans(action, "a", "b", idle={"a"}))) == "b"
    assert waves(plans(action, "a", idle={"a"})) == ()


def test_a_group_that_only_waits_is_in_a_wave_and_one_that_is_removed_while_hosts_know_it():
    fleet = Fleet(h1={"gpus": 2})
    fleet.deploy(spec())
    assert fleet.plan(spec()).value.idle
    fleet.live("demo-prefill-0")["ready"] = False
    waiting = fleet.plan(spec()).value
    assert (waiting.changed, told(waves({"demo": waiting}))) == (False, "demo")
    for facts in fleet.facts.values():
        facts["members"] = []
    gone = fleet.plan(None, "remove", "demo").value
    assert told(waves({"demo": gone})) == "demo", "its record is left"
    for facts in fleet.facts.values():
        facts["records"] = {}
    assert fleet.plan(None, "remove", "demo").value.idle


def test_plans_are_made_in_the_order_of_the_waves():
    assert kinds_in_order("deploy") == kinds_in_order("restart") == (CACHE, GROUP)
    assert kinds_in_order("remove") == (GROUP, CACHE)
