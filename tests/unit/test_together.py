# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Several workloads in one run: plans are made one beside the other before any of them is carried out, and each holds when its turn
comes."""

from __future__ import annotations

import sys
import typing as t

import pytest
from builders import RUN, Fleet, Made, catalogue, spec

from ansible_collections.inferops.pd.plugins.module_utils._core.base.finding import Findings
from ansible_collections.inferops.pd.plugins.module_utils._core.plan.hosts import Hosts
from ansible_collections.inferops.pd.plugins.module_utils._core.plan.plan import make
from ansible_collections.inferops.pd.plugins.module_utils._core.plan.reserved import Reserved
from ansible_collections.inferops.pd.plugins.module_utils._core.plan.situation import Reality, Request, ServiceRequest
from ansible_collections.inferops.pd.plugins.module_utils._core.plan.value import Plan
from ansible_collections.inferops.pd.plugins.module_utils._core.rules import validate
from ansible_collections.inferops.pd.plugins.module_utils._core.spec.cache_service import parse
from ansible_collections.inferops.pd.plugins.module_utils._core.spec.known import Known
from ansible_collections.inferops.pd.plugins.module_utils._core.template.cache_template import render
from ansible_collections.inferops.pd.plugins.plugin_utils._caches import load_recipes

RECIPES = load_recipes()
ROOM = {"gpus": 6}


def group(port: int, **changes: t.Any) -> dict[str, t.Any]:
    """Prefill and router on h1, decode on h2."""
    return spec(decode={"hosts": "h2"}, router={"port": port}, **changes)


def beside(fleet: Fleet, name: str, port: int, *planned: Made, **more: t.Any) -> Made:
    made = fleet.plan(group(port), name=name, reserved=[one.plan for one in planned], **more)
    assert not made.errors, made.findings.to_plain()
    return made


def together(made: Made) -> dict[str, list[str]]:
    return {host: mine["observed"]["together"] for host, mine in made.plan["hosts"].items()}


# -- what a plan rests on ---------------------------------------------------------------------------------------------------------


def test_a_plan_holds_when_an_earlier_wave_of_its_run_has_changed_the_host():
    fleet = Fleet(h1=ROOM, h2=ROOM)
    one = beside(fleet, "one", 8000)
    two = beside(fleet, "two", 8001, one)
    assert (together(one), together(two)) == ({"h1": [], "h2": []}, {"h1": ["one"], "h2": ["one"]})
    for made in (one, two):
        fleet.apply(made)
        assert fleet.carried, fleet.said


def test_a_plan_that_was_made_without_knowing_of_the_other_is_refused():
    fleet = Fleet(h1=ROOM, h2=ROOM)
    one, two = beside(fleet, "one", 8000), beside(fleet, "two", 8001)
    fleet.apply(one)
    fleet.apply(two)
    assert not fleet.carried
    assert "another run has changed the members of this host" in fleet.said[0]


def test_what_another_run_does_to_a_third_group_on_the_host_still_refuses():
    fleet = Fleet(h1=ROOM, h2=ROOM)
    one = beside(fleet, "one", 8000)
    two = beside(fleet, "two", 8001, one)
    three = beside(fleet, "three", 8003, one, two)
    fleet.apply(one)
    fleet.apply(two)
    assert fleet.carried, fleet.said
    # Of another run, between two waves of this one.
    fleet.apply(beside(fleet, "third", 8002))
    assert fleet.carried, fleet.said
    fleet.apply(three)
    assert not fleet.carried
    assert "another run has changed the members of this host" in fleet.said[0]


def test_what_this_run_does_not_change_is_left_out_of_nothing():
    """A group with nothing to do is locked by nobody: another run may change it, and is noticed."""
    fleet = Fleet(h1=ROOM, h2=ROOM)
    fleet.apply(beside(fleet, "one", 8000))
    idle = beside(fleet, "one", 8000)
    assert (idle.plan["steps"], idle.plan["changed"]) == ([], False)
    two = beside(fleet, "two", 8001, idle)
    assert together(two) == {"h1": [], "h2": []}
    fleet.apply(fleet.plan(None, "remove", "one"))
    fleet.apply(two)
    assert not fleet.carried


def test_a_removal_of_the_same_run_is_no_news_either():
    fleet = Fleet(h1=ROOM, h2=ROOM)
    fleet.apply(beside(fleet, "one", 8000))
    gone = fleet.plan(None, "remove", "one")
    two = beside(fleet, "two", 8001, gone)
    assert together(two) == {"h1": ["one"], "h2": ["one"]}
    for made in (gone, two):
        fleet.apply(made)
        assert fleet.carried, fleet.said


def test_places_that_the_same_run_frees_are_not_given_away_yet():
    fleet = Fleet(h1={"gpus": 1}, h2={"gpus": 1})
    fleet.apply(beside(fleet, "one", 8000))
    gone = fleet.plan(None, "remove", "one")
    two = fleet.plan(group(8000), name="two", reserved=[gone.plan])
    assert "does-not-fit" in two.errors
    fleet.apply(gone)
    assert fleet.plan(group(8000), name="two").errors == []


def test_one_workload_alone_rests_on_all_there_is():
    fleet = Fleet(h1=ROOM, h2=ROOM)
    fleet.apply(beside(fleet, "one", 8000))
    made = beside(fleet, "two", 8001)
    assert together(made) == {"h1": [], "h2": []}
    again = beside(fleet, "two", 8001, made)
    assert together(again) == {"h1": [], "h2": []}, "a workload is not beside itself"


# -- a group, and the cache service that it names -----------------------------------------------------------------------------------


SERVICES = {
    "lmcache": ("vllm-nixl", {"hosts": "h1:h2", "options": {"size": 2}}),
    "mooncake": ("vllm-mooncake", {"hosts": "h2"}),
}


@pytest.mark.parametrize("provider", SERVICES)
def test_a_group_beside_its_planned_service_is_what_it_is_once_that_runs(provider):
    mode, entry = SERVICES[provider]
    fleet = Fleet(h1=ROOM, h2=ROOM)
    for facts in fleet.facts.values():
        facts["executables"] |= {name: {"exists": True} for name in ("lmcache", "mooncake_master")}
    findings = Findings()
    service = parse({"store": {"provider": provider, "runtime": "supervisor", **entry}}, RECIPES, findings)["store"]
    template = render(service, RECIPES[provider], findings)
    assert template is not None
    raw = group(8000, mode=mode, kv_cache={"provider": provider, "service": "store"})
    verdict = validate.validate("demo", raw, catalogue(), Known(caches={"store": service}))
    assert verdict.group is not None
    assert verdict.template is not None, verdict.findings.to_plain()

    def planned(*before: Plan) -> dict[str, t.Any]:
        assert verdict.group is not None
        assert verdict.template is not None
        found, patterns = Findings(), {"prefill": ["h1"], "decode": ["h2"], "router": ["h1"]}
        reality = Reality(Hosts(fleet.hosts()), RUN, reserved=Reserved.of(before))
        made = make(Request(verdict.group, verdict.template, patterns, "deploy", reality), found)
        assert found.items == [], found.to_plain()
        return made.to_plain()

    reality = Reality(Hosts(fleet.hosts()), RUN)
    first = make(ServiceRequest(service, template, {"cache": entry["hosts"].split(":")}, "deploy", reality), findings)
    assert findings.items == [], findings.to_plain()
    early = planned(first)
    fleet.apply(Made(first.to_plain(), findings, verdict))
    assert fleet.carried, fleet.said
    late = planned()
    caches = [m["parts"][0]["labels"].get("cache") for m in early["members"]]
    assert any(one and one["injected"] for one in caches)
    assert early["members"] == late["members"]
    assert (early["revision"], early["router"], early["steps"]) == (late["revision"], late["router"], late["steps"])
    # The plan that was made first is the one that is carried out.
    fleet.apply(Made(early, findings, verdict))
    assert fleet.carried, fleet.said


# -- many of them -------------------------------------------------------------------------------------------------------------------


# With a dictionary's order, or the age of a cache, a plan costs a call or two more: many are enough that a call a host is more than that.
FEW, MANY = 4, 24


def calls(work: t.Callable[[], object]) -> int:
    """How many functions it calls, Python's own included: what it costs, whatever else the machine does."""
    count = 0

    def counted(_frame: object, event: str, _arg: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(counted)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count


@pytest.mark.parametrize("action", ["deploy", "restart"])
def test_one_more_group_costs_the_same_beside_few_others_and_beside_many(action):
    cost = []
    for number in (FEW, MANY):
        fleet = Fleet(**{f"h{at}": {"gpus": 2} for at in range(number)})
        raw = [spec(**{role: {"hosts": f"h{at}"} for role in ("prefill", "decode", "router")}) for at in range(number)]
        if action == "restart":
            for at in range(number):
                fleet.apply(fleet.plan(raw[at], name=f"g{at}"))
        hosts, reserved, requests = Hosts(fleet.hosts()), Reserved(), []
        for at in range(number):
            verdict = validate.validate(f"g{at}", raw[at], catalogue())
            assert verdict.group is not None
            assert verdict.template is not None
            patterns = {role: [f"h{at}"] for role in ("prefill", "decode", "router")}
            asked = (verdict.group, verdict.template, patterns, t.cast("t.Any", action))
            requests.append(Request(*asked, Reality(hosts, RUN, reserved=reserved)))
            reserved = reserved.beside(make(requests[-1], Findings()))
        cost.append(calls(lambda last=requests[-1]: make(last, Findings())))  # type: ignore[misc]
    assert cost[0] > 1000
    assert cost[1] - cost[0] < MANY - FEW, "less than a call a host more"
