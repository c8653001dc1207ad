# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The course of a workload through the phases of a wave: where a verdict takes it, and what each host is told then."""

from __future__ import annotations

import typing as t
from dataclasses import replace

import memory
import pytest
from builders import Fleet, spec

from ansible_collections.inferops.pd.plugins.module_utils._core.course import orders
from ansible_collections.inferops.pd.plugins.module_utils._core.course.course import Course, Ending
from ansible_collections.inferops.pd.plugins.module_utils._core.course.judge import PHASES, judge
from ansible_collections.inferops.pd.plugins.module_utils._core.course.orders import Order, order_of
from ansible_collections.inferops.pd.plugins.module_utils._core.course.parcel import Parcel
from ansible_collections.inferops.pd.plugins.module_utils._core.plan.value import Plan

PREFILL, DECODE, ROUTER = "demo-prefill-0", "demo-decode-0", "demo-router-0"
WORDS = "a reason of its own"


def group(**changes: t.Any) -> dict[str, t.Any]:
    """Prefill on h1, decode on h2, the router on h3."""
    made: dict[str, t.Any] = {
        "prefill": {"hosts": "h1", "gpus": 1},
        "decode": {"hosts": "h2", "gpus": 1},
        "router": {"hosts": "h3", "port": 8000, "membership": "dynamic"},
    }
    return spec(**{**made, **changes})


def planned(action: str, membership: str = "dynamic") -> Plan:
    fleet = Fleet(h1={"gpus": 2}, h2={"gpus": 2}, h3={})
    raw = group(router={"hosts": "h3", "port": 8000, "membership": membership})
    if action == "deploy":
        return fleet.plan(raw).value
    if action == "scale":
        two = group(decode={"hosts": "h2", "gpus": 1, "replicas": 2}, router=raw["roles"]["router"])
        fleet.deploy(two)
        return fleet.plan(raw, "scale", counts={"decode": 1}).value
    fleet.deploy(raw)
    return fleet.plan(raw, action).value


# -- judge -----------------------------------------------------------------------------------------------------------------------------

# What a host says of a workload in a phase; the others have done what they were told.
OUTCOMES: dict[str, dict[str, t.Any] | None] = {
    "good": {"ok": True, "failed_members": {}},
    "failed": {"ok": False, "failed": True, "msg": WORDS},
    "member failed": {"ok": False, "failed": True, "failed_members": {DECODE: WORDS}},
    "refused": {"ok": False, "failed": True, "refused": True, "msg": WORDS},
    "gone": {"unreachable": True, "msg": WORDS},
    "nothing": None,
}


def said(phase: str, outcome: str, host: str = "h2") -> dict[str, dict[str, t.Any]]:
    good = {"ok": True, "failed_members": {}, "phase": phase}
    told = OUTCOMES[outcome]
    found = dict.fromkeys(("h1", "h2", "h3"), good) | {host: {**(told or {}), "phase": phase}}
    return {name: one for name, one in found.items() if name != host or told is not None}


def waited(decode: str, **more: t.Any) -> dict[str, dict[str, t.Any]]:
    def seen(name: str, outcome: str) -> dict[str, t.Any]:
        state = "loading" if outcome in ("late", "left") else outcome
        return {"members": {name: {"state": state, "outcome": outcome, "why": WORDS}}, "not_ready": {}}

    return {"h1": seen(PREFILL, "ready"), "h2": {**seen(DECODE, decode), **more}}


def where(course: Course) -> str:
    """Where it is, in words."""
    flags = ("over", "done", "failed", "locked", "left", "undoes", "unproven")
    found = [flag for flag in flags if getattr(course, flag)]
    return " ".join([*found, "good" if course.good else "bad"])


ENDS = "over failed bad"
BEFORE_START = [
    ("prepare", "deploy", {"good": "good", "failed": ENDS, "nothing": "good"}),
    (
        "lock",
        "deploy",
        {"good": "locked good"} | dict.fromkeys(("failed", "refused", "gone", "nothing"), "over failed locked bad"),
    ),
    ("leave", "scale", {"good": "good", "failed": ENDS, "gone": ENDS, "nothing": ENDS}),
    ("router_stop", "restart", {"good": "good", "failed": ENDS, "nothing": ENDS, "gone": ENDS}),
    ("stop", "restart", {"good": "good"} | dict.fromkeys(("failed", "member failed", "gone", "nothing"), ENDS)),
    ("stop", "remove", {"good": "good"} | dict.fromkeys(("failed", "member failed", "gone", "nothing"), ENDS)),
    ("forget", "remove", {"good": "done good"} | dict.fromkeys(("failed", "gone", "nothing"), ENDS)),
]


@pytest.mark.parametrize(
    ("phase", "action", "outcome", "wanted"),
    [(phase, action, outcome, wanted) for phase, action, rows in BEFORE_START for outcome, wanted in rows.items()],
)
def test_what_is_done_before_members_start_goes_on_or_ends(phase: str, action: str, outcome: str, wanted: str) -> None:
    # Members leave the router where it is.
    host = "h3" if phase == "leave" else "h2"
    course = judge(planned(action), Course("demo"), phase, {phase: said(phase, outcome, host)})
    assert where(course) == wanted
    if course.failed:
        assert WORDS in course.told or host in course.told


STARTS = [
    # what the wait saw of the decode, the verdict, that with pd_on_failure: stop
    (waited("ready"), "good", "good"),
    (waited("failed"), "bad", "undoes bad"),
    (waited("late"), "bad", "undoes bad"),
    (waited("stopped"), "bad", "undoes bad"),
    (waited("left", left=True), "left bad", "left bad"),
    ({**waited("ready"), "h2": {"unreachable": True, "msg": WORDS}}, "bad", "undoes bad"),
    ({"h1": waited("ready")["h1"]}, "bad", "undoes bad"),
]


@pytest.mark.parametrize("stops", [False, True])
@pytest.mark.parametrize(("wait", "wanted", "wanted_stopped"), STARTS)
def test_members_that_start(wait: t.Any, wanted: str, wanted_stopped: str, stops: bool) -> None:
    started = {host: {**one, "created": [host]} for host, one in said("start", "good").items()}
    course = judge(planned("deploy"), Course("demo"), "start", {"start": started, "wait": wait}, stops)
    assert where(course) == (wanted_stopped if stops else wanted)
    assert course.goes_on, "its record is written, whatever became of it"
    assert course.serves == (wanted == "good")
    undo = ("h1", "h2", "h3") if course.undoes else None
    assert (course.ending.undo if course.ending else None) == undo


def test_a_host_that_has_refused_the_start_writes_nothing() -> None:
    told = {"start": said("start", "refused"), "wait": {"h1": waited("ready")["h1"]}}
    course = judge(planned("deploy"), Course("demo"), "start", told)
    assert (where(course), course.refused) == ("bad", ("h2",))
    course = replace(course, ending=Ending())
    assert told_in(planned("deploy"), "endpoint", course) == {"endpoint": {"h1", "h3"}, "unlock": {"h2"}}


GOOD, BAD = {"ok": True, "phase": "router"}, {"ok": False, "failed": True, "msg": WORDS, "phase": "router"}
SETTLES = [
    # what router, proof and gate said, what is written of it: registered, state, why
    (GOOD, None, None, ("yes", "running", "")),
    (BAD, None, None, ("no", "partial", WORDS)),
    (GOOD, {"good": True}, None, ("yes", "running", "")),
    (GOOD, {"good": False, "why": WORDS}, None, ("no", "partial", WORDS)),
    (GOOD, {"good": True}, {"good": True, "ok": True}, ("yes", "running", "")),
    (GOOD, {"good": True}, {"good": False, "ok": False, "msg": WORDS}, ("no", "partial", WORDS)),
]


@pytest.mark.parametrize(("router", "proof", "gate", "wanted"), SETTLES)
def test_what_is_written_after_router_proof_and_gate(
    router: t.Any, proof: t.Any, gate: t.Any, wanted: tuple[str, str, str]
) -> None:
    plan, told = planned("deploy"), {"start": said("start", "good"), "wait": waited("ready"), "router": {"h3": router}}
    told |= {"proof": {"h3": proof}} if proof else {}
    told |= {"gate": {"h3": gate}} if gate else {}
    course = judge(plan, Course("demo", ready=(PREFILL, DECODE), registered="yes"), "settle", told)
    assert course.ending is not None
    assert (course.ending.registered, course.ending.state, course.ending.why) == wanted
    assert course.unproven == bool(proof and not proof["good"])
    final = judge(plan, course, "final", {**told, "endpoint": said("endpoint", "good")})
    assert (final.done, final.failed) == (True, wanted[0] != "yes")
    if gate:
        assert final.failed == (WORDS in final.told)


def test_one_that_is_left_is_not_settled() -> None:
    left = Course("demo", left=True, good=False)
    for phase in ("settle", "final"):
        assert judge(planned("deploy"), left, phase, {}) == left


@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("course", [Course("demo", over=True, failed=True, locked=True), Course("demo", done=True)])
def test_what_has_ended_is_judged_no_more(phase: str, course: Course) -> None:
    for action in ("deploy", "restart", "remove"):
        assert judge(planned(action), course, phase, {}) is course


@pytest.mark.parametrize(
    ("action", "phases"),
    [
        ("deploy", {"prepare", "lock", "start", "renewal", "settle", "final"}),
        ("scale", {"prepare", "lock", "leave", "stop", "start", "renewal", "settle", "final"}),
        ("restart", {"prepare", "lock", "router_stop", "stop", "start", "renewal", "settle", "final"}),
        ("remove", {"prepare", "lock", "router_stop", "stop", "forget"}),
    ],
)
def test_a_workload_is_judged_in_its_own_phases_alone(action: str, phases: set[str]) -> None:
    """Others of its wave go through more of them, and nobody says anything of it there."""
    plan, course = planned(action), Course("demo")
    assert {phase for phase in PHASES if judge(plan, course, phase, {}) != course} >= phases - {"prepare"}
    assert all(judge(plan, course, phase, {}) is course for phase in set(PHASES) - phases)


# -- orders ----------------------------------------------------------------------------------------------------------------------------

ALL, ENGINES, HOST_OF_ROUTER = {"h1", "h2", "h3"}, {"h1", "h2"}, {"h3"}
GOES, SERVES = Course("demo"), Course("demo", ready=(PREFILL, DECODE))
ENDED = replace(SERVES, ending=Ending(registered="yes", state="running"))
TOLD: list[tuple[str, str, Course, dict[str, set[str]]]] = [
    # action, the phase, the course, which hosts are told what
    ("deploy", "prepare", GOES, {}),
    ("deploy", "lock", GOES, {"lock": ALL}),
    ("deploy", "leave", GOES, {}),
    ("deploy", "router_stop", GOES, {}),
    ("deploy", "stop", GOES, {}),
    ("deploy", "forget", GOES, {}),
    ("deploy", "start", GOES, {"start": ALL}),
    ("deploy", "undo", GOES, {}),
    ("deploy", "router", SERVES, {"router": HOST_OF_ROUTER}),
    ("deploy", "router", replace(SERVES, good=False), {}),
    ("deploy", "router", replace(SERVES, left=True), {}),
    ("deploy", "endpoint", SERVES, {}),
    ("deploy", "endpoint", ENDED, {"endpoint": ALL}),
    ("deploy", "endpoint", replace(ENDED, left=True), {}),
    ("deploy", "undo", replace(SERVES, undoes=True, ending=Ending(undo=(DECODE,))), {"stop": ALL}),
    ("scale", "leave", GOES, {"leave": HOST_OF_ROUTER}),
    ("scale", "router_stop", GOES, {}),
    ("scale", "stop", GOES, {"stop": ALL}),
    ("restart", "leave", GOES, {}),
    ("restart", "router_stop", GOES, {"router_stop": ALL}),
    ("restart", "stop", GOES, {"stop": ALL}),
    ("restart", "start", GOES, {"start": ALL}),
    ("remove", "router_stop", GOES, {"router_stop": ALL}),
    ("remove", "stop", GOES, {"stop": ALL}),
    ("remove", "start", GOES, {}),
    ("remove", "forget", GOES, {"forget": ALL}),
    ("remove", "endpoint", ENDED, {}),
]


def told_in(plan: Plan, phase: str, course: Course, check: bool = False) -> dict[str, set[str]]:
    """By the module's phase, who is told."""
    found: dict[str, set[str]] = {}
    for host in plan.through:
        order = order_of(Parcel.of_plan(plan, host), phase, course, check)
        if order:
            assert set(order.share.hosts) == {host}
            found.setdefault(order.phase, set()).add(host)
    return found


@pytest.mark.parametrize(("action", "phase", "course", "wanted"), TOLD)
def test_who_is_told_what(action: str, phase: str, course: Course, wanted: dict[str, set[str]]) -> None:
    assert told_in(planned(action), phase, course) == wanted


@pytest.mark.parametrize("phase", orders.PHASES)
def test_what_is_over_gives_back_what_is_locked_and_nothing_else(phase: str) -> None:
    plan, over = planned("restart"), Course("demo", over=True, failed=True)
    assert told_in(plan, phase, replace(over, locked=True)) == {"unlock": ALL}
    assert told_in(plan, phase, over) == {}
    assert told_in(plan, phase, Course("demo", done=True, locked=True)) == {}


@pytest.mark.parametrize("phase", orders.PHASES)
def test_a_check_run_locks_nothing_for_good_and_gives_nothing_back(phase: str) -> None:
    plan = planned("restart")
    assert told_in(plan, phase, Course("demo", over=True, locked=True), check=True) == {}
    assert set(told_in(plan, phase, ENDED, check=True)) <= {phase}


def test_a_check_run_is_told_of_as_if_all_went_well() -> None:
    """Nobody says anything in it: what was not done cannot be seen."""
    plan, course = planned("restart"), Course("demo")
    for phase in ("lock", "router_stop", "stop", "start"):
        course = judge(plan, course, phase, {}, check=True)
        assert (course.goes_on, course.good) == (True, True)
    # The router of a check run is looked at, although no engine was seen to be ready.
    assert told_in(plan, "router", course, check=True) == {"router": HOST_OF_ROUTER}
    course = judge(plan, course, "settle", {}, check=True)
    assert course.ending is not None
    assert (course.ending.registered, course.ending.state) == ("yes", "running")
    assert told_in(plan, "endpoint", course, check=True) == {"endpoint": ALL}
    course = judge(plan, course, "final", {}, check=True)
    assert (course.done, course.failed) == (True, False)


def test_the_router_is_told_of_who_is_ready() -> None:
    plan = planned("deploy")
    order = order_of(Parcel.of_plan(plan, "h3"), "router", SERVES, False)
    assert isinstance(order, Order)
    assert order.peers is not None
    assert [peer["member"] for peer in order.peers["peers"]] == [PREFILL, DECODE]
    short = order_of(Parcel.of_plan(plan, "h3"), "router", replace(SERVES, ready=(PREFILL,)), False)
    assert [peer["member"] for peer in t.cast("t.Any", short).peers["peers"]] == [PREFILL]


def test_what_is_undone_is_what_this_run_has_made() -> None:
    """And nothing that served before: of a growth, the new decode alone."""
    fleet = Fleet(h1={"gpus": 2}, h2={"gpus": 2}, h3={})
    fleet.deploy(group())
    plan = fleet.plan(group(), "scale", counts={"decode": 2}).value
    course = replace(GOES, good=False, undoes=True, ending=Ending(undo=("demo-decode-1",)))
    order = order_of(Parcel.of_plan(plan, "h2"), "undo", course, False)
    assert order is not None
    here = order.share.here()[1]
    assert (here.absent, here.create, here.present) == (("demo-decode-1",), (), (DECODE,))
    assert [one.member for one in here.holds] == ["demo-decode-1"], "a router may name its port from before"


# -- several in one wave ---------------------------------------------------------------------------------------------------------------


class Heard(memory.Wave):
    """A wave that keeps which orders each host got: (phase of the wave, host, workload, what it was told)."""

    def __init__(self, *given: t.Any) -> None:
        super().__init__(*given)
        self.heard: list[tuple[str, str, str]] = []

    def _answer(self, order: Order, host: str) -> dict[str, t.Any]:
        self.heard.append((host, order.share.group, order.phase))
        return super()._answer(order, host)

    def phases(self, name: str) -> list[str]:
        return list(dict.fromkeys(phase for _host, group, phase in self.heard if group == name))


def other(**changes: t.Any) -> dict[str, t.Any]:
    return group(router={"hosts": "h3", "port": 8001, "membership": "dynamic"}, **changes)


def of_two(action: str, second: str) -> tuple[Fleet, list[Plan]]:
    """demo and other on the same hosts, with a plan each of one run."""
    fleet = Fleet(h1={"gpus": 3}, h2={"gpus": 3}, h3={})
    for name, raw, todo in (("demo", group(), action), ("other", other(), second)):
        if todo != "deploy":
            fleet.of(name).deploy(raw, name=name)
    return fleet, two_plans(fleet, action, second)


def two_plans(fleet: Fleet, action: str, second: str) -> list[Plan]:
    made = fleet.plan(group(), action, name="demo")
    beside = {} if "remove" in (action, second) else {"reserved": [made.plan]}
    return [made.value, fleet.plan(other(), second, name="other", **beside).value]


@pytest.mark.parametrize(
    ("action", "second", "phases", "phases_of_second"),
    [
        (
            "restart",
            "remove",
            ["lock", "router_stop", "stop", "start", "router", "endpoint"],
            ["lock", "router_stop", "stop", "forget"],
        ),
        (
            "deploy",
            "restart",
            ["lock", "start", "router", "endpoint"],
            ["lock", "router_stop", "stop", "start", "router", "endpoint"],
        ),
        ("remove", "deploy", ["lock", "router_stop", "stop", "forget"], ["lock", "start", "router", "endpoint"]),
    ],
)
def test_each_goes_its_own_way_through_a_wave(
    action: str, second: str, phases: list[str], phases_of_second: list[str]
) -> None:
    fleet, plans = of_two(action, second)
    wave = Heard(plans, memory.Hosts(fleet.facts))
    courses = wave.run()
    assert {name: where(course) for name, course in courses.items()} == dict.fromkeys(
        ("demo", "other"), "done locked good"
    )
    assert (wave.phases("demo"), wave.phases("other")) == (phases, phases_of_second)
    assert not any(facts["locks"] for facts in fleet.facts.values())


# The phase before which h2 is lost to one of two: its lock there, and whatever was to be done, is not.
@pytest.mark.parametrize(("action", "at"), [("restart", "lock"), ("restart", "router_stop"), ("remove", "stop")])
def test_a_lock_is_given_back_once_a_host(action: str, at: str) -> None:
    """While the other one goes on, in whatever phase comes next; and not again in those after it."""
    fleet, plans = of_two(action, "deploy")
    hosts = memory.Hosts(fleet.facts)

    class OneFails(Heard):
        def _answer(self, order: Order, host: str) -> dict[str, t.Any]:
            told = super()._answer(order, host)
            if (order.share.group, order.phase, host) == ("demo", at, "h2"):
                return {"failed": True, "ok": False, "refused": at == "lock", "phase": at, "msg": WORDS}
            return told

    wave = OneFails(plans, hosts)
    courses = wave.run()
    assert where(courses["demo"]) == "over failed locked bad"
    assert where(courses["other"]) == "done locked good"
    assert [(host, name) for host, name, phase in wave.heard if phase == "unlock"] == [
        (host, "demo") for host in ("h1", "h2", "h3")
    ]
    first = wave.heard.index(("h1", "demo", "unlock"))
    assert ("h1", "other", "start") in wave.heard[first:], "it waits for nobody's end"
    assert not any(facts["locks"] for facts in fleet.facts.values())


@pytest.mark.parametrize("late", [PREFILL, DECODE])
def test_who_is_late_is_taken_up_once_the_others_serve(late: str) -> None:
    fleet, plans = of_two("deploy", "deploy")
    wave = Heard(plans, memory.Hosts(fleet.facts, late={late: 2}))
    courses = wave.run()
    assert {where(course) for course in courses.values()} == {"done locked good"}
    assert wave.passes == 2
    served = [name for _host, name, phase in wave.heard if phase == "endpoint"]
    assert served == ["other"] * 3 + ["demo"] * 3


def test_who_is_late_alone_is_waited_for() -> None:
    fleet = Fleet(h1={"gpus": 2}, h2={"gpus": 2}, h3={})
    wave = Heard([fleet.plan(group()).value], memory.Hosts(fleet.facts, late={DECODE: 2}))
    assert where(wave.run()["demo"]) == "done locked good"
    assert "left" not in wave.courses["demo"].told


def test_who_never_comes_fails_alone() -> None:
    fleet, plans = of_two("deploy", "deploy")
    wave = Heard(plans, memory.Hosts(fleet.facts, never_ready=[DECODE]))
    courses = wave.run()
    assert where(courses["demo"]) == "done failed locked bad"
    assert where(courses["other"]) == "done locked good"
    assert not any(facts["locks"] for facts in fleet.facts.values())


def test_who_is_late_while_another_one_renews_its_decodes() -> None:
    """What the last look of a pass says is of those who were in it."""
    fleet = Fleet(h1={"gpus": 4}, h2={"gpus": 3}, h3={})
    raw = group(mode="sglang-nixl", prefill={"hosts": "h1", "gpus": 1, "replicas": 2})
    fleet.deploy(raw)
    fleet.kill(PREFILL)
    made = fleet.plan(raw)
    assert made.value.renew
    plans = [made.value, fleet.plan(other(), name="other", reserved=[made.plan]).value]
    wave = Heard(plans, memory.Hosts(fleet.facts, late={"other-decode-0": 2}))
    assert {name: where(course) for name, course in wave.run().items()} == dict.fromkeys(
        ("demo", "other"), "done locked good"
    )


def test_a_removal_that_does_not_end_well_holds_no_lock() -> None:
    """A member has come back between its stop and the last phase, after which there is none."""
    fleet = Fleet(h1={"gpus": 2}, h2={"gpus": 2}, h3={})
    fleet.deploy(group())
    there = memory.copied(fleet.facts["h2"]["members"])

    def before(phase: str) -> None:
        if phase == "forget":
            fleet.facts["h2"]["members"] = there

    hosts = memory.Hosts(fleet.facts, before_phase=before)
    assert memory.carry_out_all([fleet.removal().plan], hosts) == {"demo": False}
    assert "demo-decode-0 of it are still there" in hosts.said[0]
    assert not any(facts["locks"] for facts in fleet.facts.values())


@pytest.mark.parametrize(
    ("action", "at"),
    [
        *[("deploy", phase) for phase in ("lock", "start", "wait", "router", "endpoint")],
        *[("restart", phase) for phase in ("lock", "router_stop", "stop", "start", "wait", "router", "endpoint")],
        *[("remove", phase) for phase in ("lock", "router_stop", "stop", "forget")],
    ],
)
def test_a_host_that_is_lost_in_a_phase_blocks_nobody(action: str, at: str) -> None:
    """Both of a wave fail over it, each tells so, and the same run goes on from there once it is back."""
    fleet, plans = of_two(action, action)
    gone: set[str] = set()
    hosts = memory.Hosts(
        fleet.facts, silent=gone.__contains__, before_phase=lambda phase: gone.add("h2") if phase == at else None
    )
    assert memory.carry_out_all([plan.to_plain() for plan in plans], hosts, 2) == {"demo": False, "other": False}
    assert all("h2" in told for told in hosts.said)
    assert [host for host in ("h1", "h3") if fleet.facts[host]["locks"]] == []
    dead = tuple(sorted({plan.run for plan in plans}))
    again = [replace(plan, dead_locks=dead) for plan in two_plans(fleet, action, action)]
    hosts = memory.Hosts(fleet.facts)
    ended = memory.carry_out_all([plan.to_plain() for plan in again], hosts, 2)
    assert ended == {"demo": True, "other": True}, hosts.said
    # Where nothing was left to be done, nobody has come for the dead run's lock.
    assert {lock["run"] for facts in fleet.facts.values() for lock in facts["locks"].values()} <= set(dead)


def test_a_router_of_which_nothing_is_said_is_no_router_that_answers() -> None:
    fleet = Fleet(h1={"gpus": 2})
    made = fleet.plan(spec(decode={"hosts": "h1"})).value

    class Deaf(memory.Wave):
        def phase(self, phase: str, number: int | None = None) -> None:
            if phase != "router":
                super().phase(phase, number)

    (course,) = Deaf([made], memory.Hosts(fleet.facts)).run().values()
    assert course.failed
    assert "nothing was said of the router here" in course.told
    assert not fleet.facts["h1"]["records"]["demo"]["endpoint"]["registered"]
