# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Cordoned hosts, on which nobody is seated; and hosts that are emptied: what is there serves until others do in its place."""

from __future__ import annotations

import typing as t

import memory
import pytest
from builders import Fleet, Made, only, spec

from ansible_collections.inferops.pd.plugins.module_utils._core.course.course import Course
from ansible_collections.inferops.pd.plugins.module_utils._core.course.judge import judge
from ansible_collections.inferops.pd.plugins.module_utils._core.facts.observed import read_host
from ansible_collections.inferops.pd.plugins.module_utils._core.plan.value import RETIRES

HOSTS = ("h1", "h2", "h3")
WIDE = ":".join(HOSTS)
MARK = {"by": "ops@control", "since": 1000.0, "why": "new driver"}


class Fall(Exception):  # noqa: N818 - what happens to the run
    """The run falls over."""


def raw(**changes: t.Any) -> dict[str, t.Any]:
    """Two prefills and two decodes, all over three hosts."""
    roles: dict[str, t.Any] = {
        "prefill": {"hosts": WIDE, "replicas": 2, "gpus": 1},
        "decode": {"hosts": WIDE, "replicas": 2, "gpus": 1},
        "router": {"hosts": WIDE},
    }
    for role, change in changes.items():
        roles[role] = {**roles[role], **change} if role in roles else change
    return spec(**roles)


def deployed(**changes: t.Any) -> Fleet:
    fleet = Fleet(**{host: {"gpus": 4} for host in HOSTS})
    fleet.deploy(raw(**changes))
    return fleet


def on(fleet: Fleet, host: str) -> list[str]:
    return sorted(m["label"]["member"] for m in fleet.facts[host]["members"])


def running(fleet: Fleet) -> dict[str, str]:
    """Which process each member is."""
    every = (m for facts in fleet.facts.values() for m in facts["members"] if m["state"] == "running")
    return {m["label"]["member"]: m["process_id"] for m in every}


def emptied(fleet: Fleet, host: str, spec_: dict[str, t.Any] | None = None) -> Made:
    """The host after an evacuation that went well."""
    made = fleet.plan(spec_ or raw(), "evacuate", evacuated=[host])
    assert not made.errors, made.findings.to_plain()
    assert fleet.carry_out(made), fleet.said
    assert on(fleet, host) == []
    return made


# -- cordoned hosts --------------------------------------------------------------------------------------------------------------------


def test_the_mark_of_a_host_is_read() -> None:
    host = read_host("h1", {"cordon": MARK})
    assert host.cordon
    assert host.cordon.told() == "cordoned by ops@control (new driver)"
    assert read_host("h1", {}).cordon is None


def test_a_mark_that_cannot_be_believed_lets_nobody_come() -> None:
    """Not as if there were none: what is not known of a host keeps members off it."""
    assert read_host("h1", {"cordon": {"since": "yesterday"}}).unread


def test_nobody_is_seated_on_a_cordoned_host_and_it_is_said() -> None:
    fleet = Fleet(**{host: {"gpus": 4} for host in HOSTS})
    fleet.facts["h2"]["cordon"] = MARK
    made = fleet.deploy(raw())
    assert not on(fleet, "h2")
    told = only(made.findings, "host-cordoned")
    assert told.host == "h2"
    assert "cordoned by ops@control (new driver)" in told.message
    assert "-e pd_host=h2 -e pd_return=true" in told.hint


def test_what_runs_on_a_cordoned_host_stays() -> None:
    fleet = deployed()
    before = running(fleet)
    fleet.facts["h2"]["cordon"] = MARK
    assert not fleet.plan(raw()).plan["changed"]
    (mark,) = [m for m in fleet.status(raw())["marks"] if m["mark"] == "cordoned"]
    assert mark["host"] == "h2"
    assert running(fleet) == before


@pytest.mark.parametrize("role", ["prefill", "router"])
def test_what_is_down_on_a_cordoned_host_comes_elsewhere(role: str) -> None:
    fleet = deployed()
    (name,) = [m for m in on(fleet, "h2") if role in m]
    fleet.facts["h2"]["cordon"] = MARK
    fleet.kill(name)
    made = fleet.deploy(raw())
    assert made.part(name)["host"] != "h2"
    assert name not in on(fleet, "h2")
    assert any("h2 is cordoned by ops@control" in step["why"] for step in made.plan["steps"])


def test_a_restart_forms_elsewhere() -> None:
    fleet = deployed()
    fleet.facts["h2"]["cordon"] = MARK
    fleet.deploy(raw(), action="restart")
    assert not on(fleet, "h2")


def test_where_there_is_no_room_the_cordoned_host_is_named() -> None:
    fleet = Fleet(h1={"gpus": 1}, h2={"gpus": 4})
    fleet.facts["h2"]["cordon"] = MARK
    made = fleet.plan(raw(prefill={"hosts": "h1:h2"}, decode={"hosts": "h1:h2"}, router={"hosts": "h1"}))
    assert "does-not-fit" in made.errors
    assert "h2: cordoned by ops@control (new driver)" in made.findings.errors[0].message


def test_a_scale_down_takes_who_is_on_a_cordoned_host_first() -> None:
    fleet = deployed()
    fleet.facts["h1"]["cordon"] = MARK
    (there,) = [m for m in on(fleet, "h1") if "decode" in m]
    made = fleet.plan(raw(), "scale", counts={"decode": 1})
    assert made.who("remove") == [there]


def test_a_plan_from_before_the_cordon_is_refused() -> None:
    fleet = deployed()
    made = fleet.plan(raw(decode={"replicas": 6}))
    seated = {m["parts"][0]["host"] for m in made.members.values()}
    assert seated == set(HOSTS)
    fleet.facts["h2"]["cordon"] = MARK
    before = running(fleet)
    assert not fleet.carry_out(made)
    assert "it has been cordoned by ops@control (new driver) since the plan was made" in " ".join(fleet.said)
    assert running(fleet) == before


# -- hosts that are emptied ------------------------------------------------------------------------------------------------------------


def test_others_come_before_any_leaves() -> None:
    fleet = deployed()
    before, there = running(fleet), on(fleet, "h1")
    made = emptied(fleet, "h1")
    phases = [phase for phase, _do, _member in made.steps()]
    assert phases == ["start", "start", "register", "retire", "retire", "retire", "retire", "endpoint"]
    assert made.who("create") == ["demo-decode-2", "demo-prefill-2"]
    assert made.who("remove") == there
    after = running(fleet)
    assert {name: before[name] for name in before if name not in there} == {n: after[n] for n in before if n in after}
    assert after.keys() == {*before.keys() - set(there), "demo-decode-2", "demo-prefill-2"}


def test_an_emptied_host_is_in_no_record_and_has_none() -> None:
    fleet = deployed()
    emptied(fleet, "h1")
    assert not fleet.facts["h1"]["records"]
    for host in ("h2", "h3"):
        record = fleet.facts[host]["records"]["demo"]
        assert "h1" not in {m["host"] for m in record["members"]}
        assert record["desired"] == {"prefill": 2, "decode": 2}
        assert record["endpoint"]["registered"]
        assert record["state"] == "running"
    fleet.facts["h1"]["cordon"] = MARK
    fleet.silent.add("h1")
    state = fleet.status(raw())
    assert state["state"] == "running"
    assert not [m for m in state["marks"] if m["mark"] == "members_unknown"]
    # What is lost elsewhere is replaced all the same.
    fleet.kill("demo-decode-0")
    assert fleet.plan(raw()).who("replace") == ["demo-decode-0"]


def test_one_that_is_off_keeps_nothing_of_the_group_from_being_done() -> None:
    fleet = deployed()
    fleet.facts["h1"]["cordon"] = MARK
    emptied(fleet, "h1")
    fleet.silent.add("h1")
    for action, more in (("scale", {"counts": {"decode": 3}}), ("restart", {}), ("deploy", {})):
        made = fleet.deploy(raw(), action=action, **more)
        assert "host-unreachable" not in made.codes
        assert fleet.carried, fleet.said
    # Given back, it is one of its hosts again: what it has is not known where it does not answer.
    fleet.silent.clear()
    fleet.facts["h1"]["cordon"] = None
    assert not fleet.plan(raw()).plan["changed"]
    fleet.deploy(raw(), action="scale", counts={"decode": 2})
    fleet.silent.add("h1")
    assert "host-unreachable" in fleet.plan(raw(), "restart").errors


@pytest.mark.parametrize("membership", ["dynamic", "restart"])
@pytest.mark.parametrize("mode", ["vllm-nixl", "sglang-nixl"])
def test_every_host_in_turn(mode: str, membership: str) -> None:
    """A week of driver updates: the group serves, the counts stay, and a second run changes nothing."""
    changes = {"mode": mode, "router": {"membership": membership}}
    fleet = deployed(**changes)
    for host in (*HOSTS, *HOSTS):
        fleet.facts[host]["cordon"] = MARK
        emptied(fleet, host, raw(**changes))
        again = fleet.plan(raw(**changes), "evacuate", evacuated=[host])
        assert not again.plan["changed"], again.text
        fleet.facts[host]["cordon"] = None
        assert not fleet.plan(raw(**changes)).plan["changed"]
        state = fleet.status(raw(**changes))
        assert state["state"] == "running", state
        assert {role: (one["ready"], one["desired"]) for role, one in state["roles"].items()} == {
            "prefill": (2, 2),
            "decode": (2, 2),
            "router": (1, 1),
        }
        assert state["router"]["confirmed"]


def test_a_router_moves_and_its_address_is_told() -> None:
    fleet = deployed()
    before = running(fleet)
    made = emptied(fleet, "h2")
    told = only(made.findings, "router-moves")
    assert "from h2 to h1: its address is http://10.0.0.1:8000 instead of http://10.0.0.2:8000" in told.message
    assert made.who("create") == ["demo-prefill-2", "demo-router-1"]
    # The old router goes before the engines that it would send requests to.
    first, second = made.value.round(RETIRES), made.value.round(RETIRES + 1)
    assert first.hosts["h2"].absent == ("demo-router-0",)
    assert second.hosts["h2"].absent == ("demo-prefill-1",)
    assert before["demo-prefill-0"] == running(fleet)["demo-prefill-0"]
    assert fleet.status(raw())["endpoint"]["url"] == "http://10.0.0.1:8000"


def test_a_router_that_has_moved_and_is_gone_comes_again_at_its_port() -> None:
    fleet = deployed()
    made = emptied(fleet, "h2")
    name, host = "demo-router-1", made.part("demo-router-1")["host"]
    fleet.forget(name)
    fleet.deploy(raw(router={"hosts": host}))
    assert fleet.status(raw())["endpoint"]["url"] == f"http://10.0.0.{host[1:]}:8000"
    assert fleet.carried


def test_a_fixed_address_is_the_users_to_move() -> None:
    changes = {"endpoint": {"external_url": "https://llm.example"}}
    fleet = deployed(**changes)
    made = emptied(fleet, "h2", raw(**changes))
    assert "endpoint.external_url stays https://llm.example: have it lead to http://10.0.0.1:8000" in (
        only(made.findings, "router-moves").hint
    )


def test_all_of_a_group_moves_in_its_formation() -> None:
    places = {"hosts": "h1:h3"}
    changes = {"prefill": places, "decode": places, "router": places}
    fleet = Fleet(**{host: {"gpus": 4} for host in HOSTS})
    fleet.facts["h3"]["cordon"] = MARK
    fleet.deploy(raw(**changes))
    formation = fleet.status(raw(**changes))["formation"]
    fleet.facts["h3"]["cordon"] = None
    emptied(fleet, "h1", raw(**changes))
    assert len(on(fleet, "h3")) == 5
    assert fleet.status(raw(**changes))["formation"] == formation


def test_what_cannot_be_moved_is_told_and_nothing_is_touched() -> None:
    fleet = deployed(decode={"hosts": "h2:h3"})
    made = fleet.plan(raw(decode={"hosts": "h2"}), "evacuate", evacuated=["h2"])
    told = only(made.findings.errors, "does-not-fit")
    assert "h2: cordoned" in told.message
    assert told.roles == ("decode",)


EDITED = {"engine": {"args": ["--max-model-len=4096"]}}


def test_a_pending_group_moves_as_it_runs() -> None:
    fleet = deployed()
    revision = fleet.status(raw())["revision"]
    made = emptied(fleet, "h1", raw(**EDITED))
    assert made.plan["desired"] == {"prefill": 2, "decode": 2}
    assert sorted(m["role"] for m in made.members.values()) == ["decode", "decode", "prefill", "prefill", "router"]
    assert "pending-no-growth" not in made.codes
    assert {m["revision"] for m in made.members.values()} == {revision}
    state = fleet.status(raw(**EDITED))
    assert state["pending"]
    assert (state["state"], state["revision"]) == ("running", revision)


def test_one_of_which_nobody_knows_how_it_was_rendered_is_restarted_first() -> None:
    fleet = deployed()
    edited = raw(**EDITED)
    for facts in fleet.facts.values():
        for record in facts["records"].values():
            record.pop("applied")
    made = fleet.plan(edited, "evacuate", evacuated=["h1"])
    told = only(made.findings.errors, "evacuate-pending")
    assert "inferops.pd.restart -e pd_group=demo" in told.hint
    fleet.facts["h1"]["cordon"] = MARK
    fleet.deploy(edited, action="restart")
    assert not on(fleet, "h1")


def test_the_other_hosts_of_the_group_must_answer() -> None:
    fleet = deployed()
    fleet.silent.add("h3")
    made = fleet.plan(raw(), "evacuate", evacuated=["h1"])
    assert "nothing of the group is moved" in only(made.findings.errors, "host-unreachable").message


def test_another_engine_elsewhere_is_no_place_to_go() -> None:
    fleet = deployed()
    for host in ("h2", "h3"):
        fleet.facts[host]["executables"]["/opt/vllm/bin/vllm"]["version"] = "0.33.0"
    made = fleet.plan(raw(), "evacuate", evacuated=["h1"])
    assert "identity-moved" in made.errors


def test_one_that_does_not_come_up_takes_nothing_away() -> None:
    fleet = deployed()
    before = running(fleet)
    made = fleet.plan(raw(), "evacuate", evacuated=["h1"])
    fleet.carry_out(made, never_ready=["demo-decode-2"])
    assert before.items() <= running(fleet).items()
    state = fleet.status(raw())
    assert state["endpoint"]["registered"]
    assert state["state"] == "running"
    # Run again, it goes on: who has come by now stays, and who had to wait for the other leaves.
    again = emptied(fleet, "h1")
    assert not again.who("create")
    assert len(running(fleet)) == 5


def test_a_moved_router_that_does_not_come_up_leaves_the_endpoint_where_it_was() -> None:
    fleet = deployed()
    made = fleet.plan(raw(), "evacuate", evacuated=["h2"])
    fleet.carry_out(made, never_ready=["demo-prefill-2"])
    endpoint = fleet.status(raw())["endpoint"]
    assert (endpoint["url"], endpoint["registered"]) == ("http://10.0.0.2:8000", True)
    assert {"demo-router-0", "demo-prefill-1"} <= set(on(fleet, "h2"))


def test_what_is_undone_leaves_the_host_as_it_was() -> None:
    every = raw(readiness="all")
    fleet = deployed(readiness="all")
    before = running(fleet)
    made = fleet.plan(every, "evacuate", evacuated=["h1"])
    assert not fleet.carry_out(made, never_ready=["demo-decode-2"], undo=True)
    assert running(fleet) == before
    assert fleet.status(every)["endpoint"]["registered"]
    fleet.deploy(every)
    assert running(fleet) == before


def test_what_is_down_there_is_taken_away_and_comes_elsewhere() -> None:
    fleet = deployed()
    (down,) = [m for m in on(fleet, "h1") if "decode" in m]
    fleet.kill(down)
    made = emptied(fleet, "h1")
    assert ("stop", "remove", down) in made.steps()
    assert fleet.status(raw())["roles"]["decode"]["ready"] == 2


def test_a_group_that_is_down_is_not_formed_by_it() -> None:
    fleet = deployed()
    fleet.kill(*running(fleet))
    made = fleet.plan(raw(), "evacuate", evacuated=["h1"])
    fleet.carry_out(made)
    assert not made.who("create")
    assert not running(fleet)
    assert not on(fleet, "h1")
    # A deploy forms it, off the cordoned host.
    fleet.facts["h1"]["cordon"] = MARK
    fleet.deploy(raw())
    assert len(running(fleet)) == 5
    assert not on(fleet, "h1")


@pytest.mark.parametrize("host", ["h1", "h2"])
@pytest.mark.parametrize("membership", ["dynamic", "restart"])
def test_a_run_that_falls_over_anywhere_is_taken_up(membership: str, host: str) -> None:
    """At each write of it, with the router on the host and without: another run empties the host, or a deploy comes first and settles."""
    changes = {"router": {"membership": membership}}
    for at in range(1, 80):
        fleet = deployed(**changes)
        fleet.facts[host]["cordon"] = MARK
        made = fleet.plan(raw(**changes), "evacuate", evacuated=[host])
        writes = 0

        def fall(at: int = at) -> None:
            nonlocal writes
            writes += 1
            if writes == at:
                raise Fall

        try:
            fleet.carry_out(made, before_write=fall)
        except Fall:
            for facts in fleet.facts.values():
                facts["locks"] = {}
        else:
            assert at > 20
            return
        if at % 2:
            settled = fleet.plan(raw(**changes))
            assert not settled.errors, (at, settled.findings.to_plain())
            assert fleet.carry_out(settled), (at, fleet.said)
            assert not fleet.plan(raw(**changes)).plan["changed"], at
        emptied(fleet, host, raw(**changes))
        state = fleet.status(raw(**changes))
        assert state["state"] == "running", (at, state)
        assert not state["strays"], at
        assert {role: one["ready"] for role, one in state["roles"].items()} == {"prefill": 2, "decode": 2, "router": 1}
    raise AssertionError("the run has more writes than were tried")


@pytest.mark.parametrize("lost", ["h2", "h3"])
@pytest.mark.parametrize("membership", ["dynamic", "restart"])
def test_a_host_that_falls_silent_in_the_middle_is_taken_up(membership: str, lost: str) -> None:
    """The one that is emptied, with the router on it, or the one where others come: at each write of the run."""
    changes = {"router": {"membership": membership}}
    for at in range(1, 80):
        fleet = deployed(**changes)
        fleet.facts["h2"]["cordon"] = MARK
        made = fleet.plan(raw(**changes), "evacuate", evacuated=["h2"])
        writes = 0

        def cut(fleet: Fleet = fleet, at: int = at) -> None:
            nonlocal writes
            writes += 1
            if writes == at:
                fleet.silent.add(lost)

        fleet.carry_out(made, before_write=cut)
        if not fleet.silent:
            assert at > 20
            return
        fleet.silent.clear()
        for facts in fleet.facts.values():
            facts["locks"] = {}
        # What it said last may be the end of it.
        again = fleet.plan(raw(**changes), "evacuate", evacuated=["h2"])
        assert not again.errors, (at, again.findings.to_plain())
        assert fleet.carry_out(again), (at, fleet.said)
        assert on(fleet, "h2") == [], at
        assert fleet.carry_out(fleet.plan(raw(**changes))), (at, fleet.said)
        state = fleet.status(raw(**changes))
        assert (state["state"], state["strays"]) == ("running", []), (at, state)
        assert {role: one["ready"] for role, one in state["roles"].items()} == {"prefill": 2, "decode": 2, "router": 1}
    raise AssertionError("the run has more writes than were tried")


# -- who may stop -----------------------------------------------------------------------------------------------------------------------

GOOD = {"ok": True, "good": True}


@pytest.mark.parametrize(
    ("ready", "router", "proof", "retires", "registered"),
    [
        (True, {"ok": True}, None, True, "yes"),
        (True, {"ok": True}, GOOD, True, "yes"),
        # Wrong answers may come of those that have come, which the router has by now.
        (True, {"ok": True}, {"ok": True, "good": False}, False, "no"),
        (True, {"ok": False, "failed": True}, None, False, "no"),
        # It was left as it is, and names those that were to retire.
        (True, {"ok": True, "held": "it keeps its peers"}, None, False, "yes"),
        (False, {"ok": True}, GOOD, False, "yes"),
    ],
)
def test_who_may_stop_and_what_is_written(
    ready: bool, router: dict[str, t.Any], proof: dict[str, t.Any] | None, retires: bool, registered: str
) -> None:
    plan = deployed().plan(raw(), "evacuate", evacuated=["h1"]).value
    (host,) = plan.router.through
    told: dict[str, dict[str, t.Any]] = {"router": {host: router}, **({"proof": {host: proof}} if proof else {})}
    every = tuple(m.id for m in plan.engines)
    course = Course("demo", ready=every if ready else every[:-1], good=True)
    ended = judge(plan, course, "settle", told)
    assert ended.ending
    assert (ended.retires, ended.ending.retired, ended.ending.registered) == (retires, retires, registered)


def test_while_both_serve_the_record_names_both() -> None:
    fleet = deployed()
    made = fleet.plan(raw(), "evacuate", evacuated=["h1"])
    plan = made.value
    assert plan.meanwhile
    both = {m["id"] for m in plan.meanwhile["members"]}
    assert both == {*on(fleet, "h1"), *on(fleet, "h2"), *on(fleet, "h3"), "demo-decode-2", "demo-prefill-2"}
    assert {m["id"] for m in plan.record["members"]} == both - set(on(fleet, "h1"))


def test_a_decode_is_drained_also_of_what_the_new_prefills_send_it() -> None:
    made = deployed().plan(raw(), "evacuate", evacuated=["h1"])
    assert {one["id"] for one in made.plan["upstream"]} == {"demo-prefill-0", "demo-prefill-1", "demo-prefill-2"}


def test_the_plan_survives_its_borders() -> None:
    plan = deployed().plan(raw(), "evacuate", evacuated=["h2"]).value
    assert type(plan).from_plain(memory.copied(plan.to_plain())) == plan
    assert plan.rounds == (RETIRES, RETIRES + 1)
