# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Formations: who counts, who is a stray, what of lost hosts is remembered, and what nobody gets. test_histories.py tries the same by
chance."""

from __future__ import annotations

import dataclasses
import random
import typing as t

import memory
import pytest
from builders import RUN, Fleet, Made, as_not_rendered, as_of_an_earlier_version, only, spec

from ansible_collections.inferops.pd.plugins.module_utils._core.base.checked import DamagedError
from ansible_collections.inferops.pd.plugins.module_utils._core.base.errors import PdError
from ansible_collections.inferops.pd.plugins.module_utils._core.course.orders import undone
from ansible_collections.inferops.pd.plugins.module_utils._core.facts import label, observed, record
from ansible_collections.inferops.pd.plugins.module_utils._core.plan import formations
from ansible_collections.inferops.pd.plugins.module_utils._core.plan.situation import Choice
from ansible_collections.inferops.pd.plugins.module_utils._core.plan.value import Plan
from ansible_collections.inferops.pd.plugins.module_utils._runtimes.state import State

ONE = {"gpus": 2}


def two(**changes: t.Any) -> dict[str, t.Any]:
    """Prefill and router on h1, decode on h2."""
    return spec(**{"decode": {"hosts": "h2"}, **changes})


def deployed(raw: t.Any = None, **hosts: t.Any) -> Fleet:
    fleet = Fleet(**(hosts or {"h1": ONE, "h2": ONE, "h3": ONE}))
    fleet.deploy(raw or two())
    return fleet


def formation(fleet: Fleet, host: str = "h1") -> str:
    return fleet.facts[host]["records"]["demo"]["formation"]


def labels_of(fleet: Fleet) -> dict[str, str | None]:
    return {m["label"]["member"]: m["label"].get("formation") for f in fleet.facts.values() for m in f["members"]}


# -- which formation ----------------------------------------------------------------------------------------------------


def test_a_first_forming_makes_one_and_all_carry_it():
    fleet = deployed()
    made = formation(fleet)
    assert set(labels_of(fleet).values()) == {made}
    assert {f["records"]["demo"]["formation"] for n, f in fleet.facts.items() if n != "h3"} == {made}


def test_growth_replacement_and_a_rerun_keep_it_and_a_restart_makes_another():
    fleet = deployed()
    first = formation(fleet)
    fleet.deploy(two(prefill={"replicas": 2}))
    fleet.kill("demo-decode-0")
    fleet.deploy(two(prefill={"replicas": 2}))
    assert set(labels_of(fleet).values()) == {first}
    fleet.deploy(two(prefill={"replicas": 2}), action="restart")
    second = formation(fleet)
    assert second != first
    assert set(labels_of(fleet).values()) == {second}
    assert fleet.facts["h1"]["records"]["demo"]["supersedes"] == [first]


def test_a_plan_draws_nothing():
    """The identity comes from the run: the same facts and the same run give the same plan."""
    fleet = Fleet(h1=ONE, h2=ONE)
    assert fleet.plan(two(), run=RUN).plan == fleet.plan(two(), run=RUN).plan
    assert fleet.plan(two(), run=RUN).plan["formation"] == RUN.formation


def test_no_diff_and_no_digest_of_templates_shows_a_formation():
    fleet = Fleet(h1=ONE, h2=ONE)
    made = fleet.plan(two())
    assert made.plan["formation"] not in made.text
    assert made.verdict is not None
    assert made.verdict.template is not None
    assert fleet.plan(two()).plan["revision"] == made.plan["revision"]


def test_hosts_in_any_order_give_the_same_plan():
    names = [f"h{number}" for number in range(1, 13)]
    fleet = Fleet(**dict.fromkeys(names, ONE))
    raw = spec(prefill={"hosts": ":".join(names), "replicas": 5, "gpus": 1}, decode={"hosts": "h2:h10", "gpus": 1})
    plans = []
    for seed in range(5):
        shuffled = list(fleet.facts.items())
        random.Random(seed).shuffle(shuffled)
        fleet.facts = dict(shuffled)
        plans.append(fleet.plan(raw, run=RUN).plan)
    assert all(one == plans[0] for one in plans)


# -- earlier versions ---------------------------------------------------------------------------------------------------


def test_a_group_of_an_earlier_version_is_taken_over_without_a_restart():
    fleet = deployed()
    as_of_an_earlier_version(fleet)
    before = {m["label"]["member"]: m["label"]["created"] for f in fleet.facts.values() for m in f["members"]}
    made = fleet.plan(two())
    assert made.errors == []
    assert made.who("adopt") == ["demo-decode-0", "demo-prefill-0", "demo-router-0"]
    assert (made.who("create"), made.who("replace"), made.who("remove")) == ([], [], [])
    assert "an earlier version started it" in made.text
    fleet.apply(made)
    taken = formation(fleet)
    assert set(labels_of(fleet).values()) == {taken}
    assert {m["label"]["member"]: m["label"]["created"] for f in fleet.facts.values() for m in f["members"]} == before
    assert all(m["label"]["adopted"] for f in fleet.facts.values() for m in f["members"])
    again = fleet.plan(two())
    assert (again.plan["changed"], again.plan["steps"]) == (False, [])
    assert fleet.status(two())["state"] == "running"


def test_taking_over_goes_on_where_a_host_was_silent():
    fleet = deployed()
    as_of_an_earlier_version(fleet)
    fleet.silent = {"h2"}
    fleet.apply(fleet.plan(two()))
    fleet.silent = set()
    made = fleet.plan(two())
    assert made.who("adopt") == ["demo-decode-0"]
    fleet.apply(made)
    assert set(labels_of(fleet).values()) == {formation(fleet)}


@pytest.mark.parametrize("change", [{"generation": 7}, {"revision": "other"}])
def test_of_an_earlier_version_only_what_its_record_means_is_taken_over(change):
    fleet = deployed()
    as_of_an_earlier_version(fleet)
    fleet.live("demo-decode-0")["label"].update(change)
    made = fleet.plan(two())
    assert "demo-decode-0" in made.who("remove")
    assert "it is a stray: it is of another formation" in made.text


# -- strays -------------------------------------------------------------------------------------------------------------


def test_what_a_lost_host_brings_back_is_a_stray_seen_stopped_and_never_registered():
    fleet = deployed()
    fleet.silent = {"h2"}
    edited = two(engine={"args": ["--max-model-len=4096"]})
    edited["roles"]["decode"]["hosts"] = "h2:h3"
    fleet.apply(fleet.plan(edited, "restart", lost=["h2"]))
    assert fleet.carried, fleet.said
    fleet.silent = set()
    state = fleet.status(edited)
    assert [s["id"] for s in state["strays"]] == ["demo-decode-0"]
    assert "stray" in [m["mark"] for m in state["marks"]]
    made = fleet.plan(edited)
    assert made.plan["hosts"]["h2"]["absent"] == ["demo-decode-0"]
    assert {p["url"] for p in made.router["peers"]} == {m.label.url for m in living(fleet, "h1", "h3")}
    fleet.apply(made)
    assert fleet.status(edited)["strays"] == []
    assert fleet.status(edited)["tombstones"] == []


def living(fleet: Fleet, *hosts: str) -> list[observed.LiveMember]:
    return [m for h in hosts for m in fleet.hosts()[h].members if m.role != "router"]


@pytest.mark.parametrize("behind", ["h1", "h2"])
def test_a_record_that_a_run_did_not_finish_is_written_by_the_next(behind):
    """Whichever host was out of reach when the others were told."""
    fleet = deployed()
    other = {"h1": "h2", "h2": "h1"}[behind]
    noted = fleet.facts[behind]["records"]["demo"]
    noted |= {"state": "forming", "endpoint": {**noted["endpoint"], "registered": False}}
    made = fleet.plan(two())
    assert {(s["phase"], s["do"]) for s in made.plan["steps"]} <= {("endpoint", "write"), ("endpoint", "register")}
    assert made.plan["changed"]
    fleet.apply(made)
    assert fleet.facts[behind]["records"]["demo"]["endpoint"]["registered"]
    assert fleet.facts[other]["records"]["demo"]["state"] == "running"
    assert fleet.plan(two()).plan["steps"] == []


def test_a_strays_gpus_and_ports_are_taken():
    wide = two(prefill={"gpus": 2}, decode={"hosts": "h2", "gpus": 2})
    fleet = deployed(wide, h1=ONE, h2=ONE)
    noted = fleet.facts["h1"]["records"]["demo"]
    noted["members"] = [m for m in noted["members"] if m["role"] != "prefill"]
    fleet.facts["h2"]["records"]["demo"] = memory.copied(noted)
    other = fleet.of("other").plan(spec(prefill={"gpus": 1}, decode={"gpus": 1}, router={"port": 8001}), name="other")
    assert set(other.errors) == {"does-not-fit"}


def test_a_removal_takes_a_stray_with_it():
    fleet = deployed()
    for host in ("h1", "h2"):
        noted = fleet.facts[host]["records"]["demo"]
        noted["members"] = [m for m in noted["members"] if m["role"] != "decode"]
    made = fleet.removal()
    assert {"demo-decode-0", "demo-prefill-0", "demo-router-0"} <= set(made.who("remove"))
    fleet.apply(made)
    assert all(not f["members"] and not f["records"] for f in fleet.facts.values())


def test_a_member_whose_label_is_gone_is_stopped_and_made_anew():
    fleet = deployed()
    lost = fleet.live("demo-decode-0")
    known = {key: lost["label"][key] for key in ("group", "member", "role", "index")}
    lost["label"] = {**known, "revision": "", "generation": 0, "formation": lost["formation"]}
    lost["unlabelled"] = True
    made = fleet.plan(two())
    steps = made.steps()
    assert steps.index(("stop", "remove", "demo-decode-0")) < steps.index(("start", "create", "demo-decode-0"))
    fleet.apply(made)
    assert fleet.status(two())["state"] == "running"


# -- who is not seen ----------------------------------------------------------------------------------------------------


def test_nothing_is_formed_where_nobody_knows_whether_it_is_formed():
    fleet = deployed(spec(prefill={"hosts": "h1"}, decode={"hosts": "h2"}), h1=ONE, h2=ONE, h3=ONE, h4=ONE)
    fleet.silent = {"h1", "h2"}
    wider = spec(prefill={"hosts": "h1:h3"}, decode={"hosts": "h2:h4"}, router={"hosts": "h1:h3"})
    found = only(fleet.plan(wider).findings, "host-unreachable")
    assert found.severity == "error"
    assert "h1, h2 did not answer, and no other host has a record of the group" in found.message
    assert "pd_out_of_service" in found.hint
    away = fleet.plan(wider, away=["h1", "h2"])
    assert away.errors == []
    assert sorted({m.host for m in map(place, away.plan["members"])}) == ["h3", "h4"]


class Place(t.NamedTuple):
    host: str


def place(member: dict[str, t.Any]) -> Place:
    return Place(member["parts"][0]["host"])


def test_a_host_that_answers_is_not_lost():
    fleet = deployed()
    assert fleet.plan(two(), "restart", lost=["h2"]).errors == ["lost-host-answers"]
    assert fleet.removal(lost=["h2"]).errors == ["lost-host-answers"]


def test_a_damaged_label_harms_its_member_and_no_other_group():
    fleet = deployed(h1=ONE, h2=ONE)
    fleet.facts["h2"]["members"] = []
    fleet.facts["h2"]["damaged"] = [
        {"path": "/s/label.json", "why": "no object", "group": "demo", "member": "demo-decode-0"}
    ]
    made = fleet.plan(two())
    assert made.errors == []
    assert "/s/label.json" in only(made.findings, "state-damaged").message
    assert (made.who("create"), made.plan["unknown"]) == ([], ["demo-decode-0"])
    assert fleet.plan(two(), "restart").errors == ["state-damaged"]
    assert fleet.removal().errors == ["state-damaged"]
    assert fleet.of("other").plan(two(router={"port": 8001}), name="other").errors == []


def _put(raw, path, value):
    *way, last = path
    for key in way:
        raw = raw[key]
    raw[last] = value


@pytest.mark.parametrize(
    ("path", "value", "told"),
    [
        (("label", "stop", "grace"), [1], "stop.grace is no number of seconds"),
        (("label", "stop", "drain"), float("nan"), "stop.drain is no number of seconds"),
        (("label", "probe", "busy"), [{}], "probe.busy is no list of texts"),
        (("label", "cache"), {"service": 7}, "cache.service is no text"),
        (("label", "ports"), {"x": {"base": 40000, "count": 100_000_000}}, "ports.x.count is no number"),
        (("label", "address"), ["10.0.0.2"], "address is no text"),
        (("restarts",), "often", "restarts is no number"),
        (("pid",), -1, "pid is no number"),
        (("why",), {"a": 1}, "why is no text"),
        (("registered",), [{"role": "decode"}], "registered[0].url is missing"),
    ],
)
def test_what_a_host_says_of_one_member_is_believed_whole_or_not_at_all(path, value, told):
    """The member is named, nobody touches it, and the rest is read all the same."""
    fleet = deployed()
    member = next(m for m in fleet.facts["h2"]["members"] if m["label"]["member"] == "demo-decode-0")
    _put(member, path, value)
    made = fleet.plan(two())
    found = only(made.findings, "state-damaged")
    assert told in found.message
    assert "demo-decode-0" in found.message
    assert made.plan["unknown"] == ["demo-decode-0"]
    assert "demo-decode-0" not in {m for _p, _d, m in made.steps()}
    assert "demo" in fleet.status(two())["name"]


@pytest.mark.parametrize(
    ("path", "value", "told"),
    [
        (("router", "peers"), ["http://h"], "router.peers[0] is no object"),
        (("endpoint", "url"), ["x"], "endpoint.url is no text"),
        (("templates", "roles", "decode", "argv"), [{"a": 1}], "templates.roles.decode.argv is no list of texts"),
        (("templates", "roles", "decode", "env"), {"A": []}, "templates.roles.decode.env.A is no text"),
        (("templates", "roles"), [], "templates.roles is no object"),
        (("desired",), {"decode": "2"}, "desired.decode is no number"),
    ],
)
def test_a_record_is_believed_whole_or_not_at_all(path, value, told):
    fleet = deployed()
    for host in fleet.facts.values():
        if "demo" in host.get("records", {}):
            _put(host["records"]["demo"], path, value)
    for made in (fleet.plan(two()), fleet.plan(two(), "restart"), fleet.removal()):
        assert told in made.findings.errors[0].message
        assert made.errors[0] == "state-damaged"


def test_a_damaged_record_is_another_hosts_matter_only_where_that_one_is_whole():
    fleet = deployed()
    broken = {"path": "/s/record.json", "why": "no object", "group": "demo", "member": None}
    fleet.facts["h2"]["records"] = {}
    fleet.facts["h2"]["damaged"] = [broken]
    assert only(fleet.plan(two()).findings, "state-damaged").severity == "warning"
    fleet.facts["h1"]["records"] = {}
    assert "state-damaged" in fleet.plan(two()).errors


# -- tombstones and holds -----------------------------------------------------------------------------------------------


def router_host_lost(action: str = "restart") -> tuple[Fleet, Made, dict[str, t.Any]]:
    raw = spec(prefill={"hosts": "h1:h3"}, decode={"hosts": "h2"}, router={"hosts": "h1"})
    fleet = Fleet(h1=ONE, h2=ONE, h3=ONE)
    fleet.deploy(raw)
    fleet.silent = {"h1"}
    raw["roles"]["router"]["hosts"] = "h1:h3"
    return fleet, fleet.plan(raw, action, lost=["h1"]), raw


def test_what_a_lost_router_may_speak_to_is_given_to_nobody_newer():
    fleet, made, raw = router_host_lost()
    (old,) = fleet.facts["h2"]["members"]
    assert made.part("demo-decode-0")["port"] != old["label"]["port"]
    (grave,) = made.plan["record"]["tombstones"]
    assert (grave["host"], grave["members"], grave["router"]) == ("h1", ["demo-prefill-0", "demo-router-0"], True)
    assert "on trust" in only(made.findings, "tombstone").message
    fleet.apply(made)
    assert fleet.carried, fleet.said
    taken = fleet.facts["h2"]["holds"][0]["ports"]
    other = fleet.of("other").plan(
        spec(prefill={"hosts": "h2"}, decode={"hosts": "h2"}, router={"hosts": "h3", "port": 8001}), name="other"
    )
    assert not {m.port for m in ports(other)} & set(taken), "another group does not get it either"
    # It comes back: what it runs is stopped, the tombstone goes, and so do the holds.
    fleet.silent = set()
    back = fleet.plan(raw)
    assert back.plan["hosts"]["h1"]["absent"] == ["demo-prefill-0", "demo-router-0"]
    assert ("endpoint", "clear", None) in back.steps()
    fleet.apply(back)
    assert fleet.status(raw)["tombstones"] == []
    assert [f["holds"] for f in fleet.facts.values()] == [[], [], []]


class Port(t.NamedTuple):
    port: int


def ports(made: Made) -> list[Port]:
    return [Port(m["parts"][0]["port"]) for m in made.plan["members"]]


def test_a_tombstone_is_ended_by_hand_or_by_a_fence_made_sure_of():
    fleet, made, raw = router_host_lost()
    fenced = fleet.plan(raw, "restart", lost=["h1"], fence="pd_fence_command")
    assert [one["host"] for one in fenced.plan["fence"]] == ["h1"]
    assert "on trust" not in only(fenced.findings, "tombstone").message
    fleet.apply(made)
    assert fleet.plan(raw, forget=["h1"]).plan["record"]["tombstones"] == []
    assert fleet.plan(raw).plan["record"]["tombstones"], "it stands until somebody says so"


def test_a_machine_of_the_same_name_is_not_the_one_that_was_lost():
    fleet, made, raw = router_host_lost()
    fleet.apply(made)
    fleet.silent = set()
    fleet.facts["h1"] |= {"members": [], "records": {}, "machine": {"id": "new", "boot": "b", "netns": "n"}}
    again = fleet.plan(raw)
    assert "tombstone-other-machine" in again.codes
    assert [g["host"] for g in again.plan["record"]["tombstones"]] == ["h1"]


def test_a_removal_remembers_a_lost_host_and_the_next_formation_comes_after_it():
    fleet = deployed()
    first = formation(fleet)
    fleet.silent = {"h2"}
    fleet.apply(fleet.removal(lost=["h2"]))
    left = fleet.facts["h1"]["records"]["demo"]
    assert (left["state"], left["members"], [g["host"] for g in left["tombstones"]]) == ("removed", [], ["h2"])
    assert "tombstone" in [m["mark"] for m in fleet.status(two())["marks"]]
    elsewhere = spec(decode={"hosts": "h3"})
    fleet.deploy(elsewhere)
    assert fleet.facts["h1"]["records"]["demo"]["generation"] == 2
    assert fleet.facts["h1"]["records"]["demo"]["supersedes"] == [first]
    fleet.silent = set()
    made = fleet.plan(elsewhere)
    assert [(s["member"], s["host"]) for s in made.plan["steps"] if s["do"] == "remove"] == [("demo-decode-0", "h2")]
    fleet.apply(made)
    assert {m["label"]["formation"] for f in fleet.facts.values() for m in f["members"]} == {formation(fleet)}
    fleet.apply(fleet.removal())
    assert all(not f["members"] and not f["records"] for f in fleet.facts.values())


def test_a_port_that_a_fixed_router_still_names_is_held_until_it_is_replaced():
    raw = spec(decode={"hosts": "h2", "replicas": 2}, router={"membership": "restart"})
    fleet = as_not_rendered(deployed(raw))
    edited = spec(
        decode={"hosts": "h2", "replicas": 2},
        router={"membership": "restart"},
        engine={"args": ["--max-model-len=4096"]},
    )
    port = fleet.live("demo-decode-1")["label"]["port"]
    fleet.apply(fleet.plan(edited, "scale", counts={"decode": 1}))
    assert port in fleet.facts["h2"]["holds"][0]["ports"]
    other = spec(prefill={"hosts": "h2"}, decode={"hosts": "h2"}, router={"hosts": "h3", "port": 8001})
    made = fleet.of("other").plan(other, name="other")
    assert port not in {m.port for m in ports(made)}
    fleet.apply(fleet.plan(edited, "restart"))
    assert fleet.facts["h2"]["holds"] == []


# -- plans that rest on what is no more ---------------------------------------------------------------------------------


def test_a_run_that_was_overtaken_elsewhere_changes_nothing():
    """G1: the other run has changed a host that this plan has no member on."""
    raw = spec(prefill={"hosts": "h1"}, decode={"hosts": "h2:h3"}, router={"hosts": "h1"})
    fleet = deployed(raw)
    edited = spec(
        prefill={"hosts": "h1"},
        decode={"hosts": "h2:h3"},
        router={"hosts": "h1"},
        engine={"args": ["--max-model-len=4096"]},
    )
    late = fleet.plan(edited, "restart")
    fleet.apply(fleet.plan(raw, "scale", counts={"decode": 2}))
    before = labels_of(fleet)
    assert not fleet.carry_out(late)
    assert "another run has changed its members since the plan was made" in fleet.said[0]
    assert labels_of(fleet) == before
    assert all(not f["locks"] for f in fleet.facts.values()), "the locks are given back"


def test_a_host_that_went_silent_since_the_plan_refuses_the_run():
    fleet = deployed()
    made = fleet.plan(two(), "restart")
    before = labels_of(fleet)
    fleet.silent = {"h2"}
    assert not fleet.carry_out(made)
    assert "h2 has not answered since the plan was made" in fleet.said[0]
    assert labels_of(fleet) == before


def test_other_groups_matter_only_where_places_are_taken():
    fleet = deployed(h1=ONE, h2=ONE, h3=ONE)
    quiet = fleet.plan(two(), "scale", counts={"decode": 1, "prefill": 1})
    growth = fleet.plan(two(prefill={"replicas": 2}))
    assert [h for h, part in growth.plan["hosts"].items() if part["observed"]["host"]] == ["h1"]
    assert not any(part["observed"]["host"] for part in quiet.plan["hosts"].values())


def test_a_host_without_a_part_is_locked_and_gets_no_record():
    raw = spec(prefill={"hosts": "h1:h3"}, decode={"hosts": "h2"})
    fleet = Fleet(h1=ONE, h2=ONE, h3=ONE)
    made = fleet.plan(raw)
    assert {h: part["part"] for h, part in made.plan["hosts"].items()} == {"h1": True, "h2": True, "h3": False}
    fleet.apply(made)
    assert (fleet.facts["h3"]["records"], fleet.facts["h3"]["locks"]) == ({}, {})


def test_undo_is_what_was_done():
    """G8: a growth that failed takes back what it made, never the router that it has not touched."""
    raw = spec(prefill={"hosts": "h1"}, decode={"hosts": "h2"}, router={"membership": "restart"})
    fleet = deployed(raw)
    made = fleet.plan(raw, "scale", counts={"decode": 2})
    absent = {}
    for host in ("h1", "h2"):
        share = undone(Plan.from_plain(made.plan, host).share(host), "group", {"demo-decode-1"})
        assert share is not None
        absent[host] = share.hosts[host].absent
    assert absent == {"h1": (), "h2": ("demo-decode-1",)}


# -- asserted -----------------------------------------------------------------------------------------------------------


def test_a_plan_of_two_formations_refuses_itself():
    fleet = deployed()
    made = fleet.plan(two())
    keep = tuple(m for host in fleet.hosts().values() for m in host.members)
    plan = Plan.from_plain(made.plan)
    formations.assert_one(plan, Choice(keep=keep), ())
    with pytest.raises(PdError, match=r"demo-decode-0.* of another formation serve beside the others: it is refused"):
        formations.assert_one(dataclasses.replace(plan, formation="another"), Choice(keep=keep), ())


def test_a_host_refuses_to_start_beside_another_formation_whatever_the_plan_says():
    fleet = deployed()
    grown = fleet.plan(two(prefill={"replicas": 2}))
    fleet.live("demo-prefill-0")["label"]["formation"] = "another"
    grown.plan["hosts"]["h1"]["observed"] = {"group": None, "host": None}
    assert not fleet.carry_out(grown)
    assert "demo-prefill-0 of another formation still run here" in " ".join(fleet.said)
    assert "demo-prefill-1" not in labels_of(fleet)


# -- machines -----------------------------------------------------------------------------------------------------------


def test_one_state_folder_under_two_names_is_refused_naming_both():
    fleet = Fleet(h1=ONE, h2=ONE)
    fleet.facts["h2"] |= {key: fleet.facts["h1"][key] for key in ("machine", "state")}
    found = only(fleet.plan(two()).findings, "one-state-folder")
    assert "h1 and h2 are one machine, with one state folder" in found.message
    fleet.facts["h2"]["machine"] = {"id": "m2", "boot": "b2", "netns": "n"}
    assert "share it (NFS?)" in only(fleet.plan(two()).findings, "one-state-folder").message


def test_one_machine_with_two_folders_is_told_and_counts_its_gpus_once():
    fleet = deployed(h1=ONE, h2=ONE)
    fleet.facts["h2"]["machine"] = fleet.facts["h1"]["machine"]
    gpu = fleet.facts["h1"]["gpus"][0]["id"]
    fleet.facts["h2"]["gpus"] = fleet.facts["h1"]["gpus"]
    fleet.facts["h2"]["elsewhere"] = [{"member": "x", "state_dir": "/s", "gpus": [gpu], "ports": [40000]}]
    made = fleet.plan(spec(prefill={"gpus": 1}, decode={"hosts": "h2", "gpus": 2}), "restart")
    assert "one-machine" in made.codes
    assert "does-not-fit" in made.errors


def test_clones_are_told():
    fleet = Fleet(h1=ONE, h2=ONE)
    fleet.facts["h2"]["machine"] = {**fleet.facts["h2"]["machine"], "id": fleet.facts["h1"]["machine"]["id"]}
    assert "cloned-machine" in fleet.plan(two()).codes


def test_a_gpu_that_a_stranger_uses_is_not_free():
    fleet = Fleet(h1=ONE, h2=ONE)
    fleet.facts["h1"]["gpu_processes"] = [
        {"gpu": g["id"], "pid": 9, "command": "train"} for g in fleet.facts["h1"]["gpus"]
    ]
    assert fleet.plan(two(prefill={"gpus": 1})).errors == ["does-not-fit"]


# -- readers ------------------------------------------------------------------------------------------------------------

LABEL = {"group": "g", "member": "g-decode-0", "role": "decode", "index": 0, "revision": "r", "generation": 1}


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"schema": 99}, "written by a later version"),
        ({"ports": {"x": {"base": 40000, "count": 100_000_000}}}, "count is no number"),
        ({"ports": []}, "ports is no object"),
        ({"port": "40000"}, "port is no number"),
        ({"group": "../x"}, "group is no name"),
        ({"member": None}, "member is missing"),
        ({"gpus": {"0": 1}}, "gpus is no list"),
        ({"index": True}, "index is no number"),
        ({"created": float("nan")}, "created is no time"),
        ({"stop": [1]}, "stop is no object"),
        ({"peers": [{"member": "m"}]}, "role is missing"),
    ],
)
def test_a_label_that_cannot_be_believed_is_told_with_its_place(change, why):
    with pytest.raises(DamagedError, match=why) as told:
        label.read({**LABEL, **change}, "/s/label.json")
    assert "/s/label.json" in str(told.value)


def test_a_value_that_is_wrong_is_not_repeated():
    with pytest.raises(DamagedError) as told:
        label.read({**LABEL, "url": ["s3cr3t"]}, "/s/label.json")
    assert "s3cr3t" not in str(told.value)


def test_records_and_labels_of_earlier_versions_are_read():
    old = label.read({**LABEL, "port": 40000, "ports": {"kv": {"base": 40001, "count": 2}}, "gpus": ["0"]}, "x")
    assert (old.schema, old.formation, old.adopted, old.ports) == (1, None, False, {40000, 40001, 40002})
    noted = record.read({"schema": 1, "group": "g", "generation": 3, "serial": 4, "lock": {"who": "x"}}, "x")
    assert (noted.formation, noted.generation, noted.tombstones) == (None, 3, ())


def noted(
    formation_: str | None, generation: int, formed: float = 0.0, after: tuple[str, ...] = (), written: float = 0.0
) -> record.Record:
    raw = {"group": "g", "formation": formation_, "generation": generation, "formed": formed, "supersedes": list(after)}
    raw |= {"updated": written}
    return record.read({"schema": 2 if formation_ else 1, **raw}, "x")


@pytest.mark.parametrize(
    ("found", "wins"),
    [
        ([noted("a", 5, 10.0), noted("b", 1, 5.0, ("a",))], "b"),
        ([noted("a", 1, 10.0), noted("b", 9, 5.0)], "a"),
        ([noted(None, 4), noted("a", 4, 10.0)], "a"),
        ([noted(None, 6, written=11.0), noted("a", 5, 10.0)], None),
        ([noted(None, 6, written=9.0), noted("a", 5, 10.0)], "a"),
        ([noted("a", 5, 1.0, ("b",)), noted("b", 5, 2.0, ("a",))], "b"),
        ([noted(None, 6), noted(None, 7)], None),
    ],
)
def test_the_record_that_holds(found, wins):
    chosen = record.newest(found)
    assert chosen is not None
    assert chosen.formation == wins


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"schema": 2', "[" * 200_000])
def test_one_damaged_file_harms_nothing_else(tmp_path, content):
    state = State(str(tmp_path / "s"))
    state.write_label({**LABEL, "schema": 2})
    state.write_label({**LABEL, "schema": 2, "group": "o", "member": "o-decode-0"})
    state.write_record("o", {"schema": 2, "group": "o"})
    (tmp_path / "s/groups/g/members/g-decode-0/label.json").write_text(content)
    (tmp_path / "s/groups/g/record.json").write_text(content)
    assert [one["group"] for one in state.labels()] == ["o"]
    assert list(state.records()) == ["o"]
    assert {(d.group, d.member) for d in state.damaged()} == {("g", "g-decode-0"), ("g", None)}


def test_what_start_scripts_ask_for_is_written_with_the_record(tmp_path):
    state = State(str(tmp_path / "s"))
    state.write_record("g", {"schema": 2, "group": "g", "formation": "f-1"})
    guard = tmp_path / "s/groups/g/guard"
    assert (guard / "formation").read_text() == "f-1\n"
    assert oct(guard.stat().st_mode)[-3:] == "755"
    first = (tmp_path / "s/id").read_text()
    state.write_record("h", {"schema": 2, "group": "h", "formation": "f-2"})
    assert (tmp_path / "s/id").read_text() == first
    state.delete_group("g")
    state.delete_group("h")
    with state.lock():
        state.clear()
    assert not (tmp_path / "s").exists()


def test_weights_of_the_same_sizes_are_another_model():
    """A dead member does not come back beside the others on files that were written since; its own host alone can tell."""
    fleet = deployed()
    for facts in fleet.facts.values():
        facts["models"] = {path: {**found, "weights": {"times": "then"}} for path, found in facts["models"].items()}
    fleet.deploy(two(), action="restart")
    fleet.kill("demo-decode-0")
    assert fleet.plan(two()).who("replace") == ["demo-decode-0"]
    (path,) = fleet.facts["h2"]["models"]
    fleet.facts["h2"]["models"][path]["weights"] = {"times": "now"}
    made = fleet.plan(two())
    assert (made.who("replace"), made.plan["pending"]) == ([], True)
    assert "model weights (names, sizes, times)" in only(made.findings, "identity-moved").message
