# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Histories that once made two formations, or two groups, serve together, or stopped what serves: each a few steps over the real planner
and the real work on hosts. test_histories.py looks for the next one."""

from __future__ import annotations

import memory
import pytest
from builders import Fleet, as_not_rendered, as_of_an_earlier_version, spec

from ansible_collections.inferops.pd.plugins.module_utils._core.facts import observed, record
from ansible_collections.inferops.pd.plugins.module_utils._runtimes.state import State

ONE = {"gpus": 2}


def mixed(fleet: Fleet) -> list[str]:
    """What each live router reaches that is of two formations, or of another group."""
    at, found = {}, []
    for facts in fleet.facts.values():
        for m in facts["members"]:
            label = m.get("process") or m["label"]
            if m["state"] == "running" and label.get("port"):
                at[f"http://{facts['address']}:{label['port']}"] = m
    for facts in fleet.facts.values():
        for m in facts["members"]:
            label = m.get("process") or m["label"]
            if m["state"] != "running" or label["role"] != "router":
                continue
            told = m.get("registered") if label.get("policy") == "dynamic" else label.get("peers")
            reached = [at[p["url"]] for p in told or () if p["url"] in at]
            who = {(r["label"]["group"], r["formation"]) for r in reached}
            if len(who) > 1 or any(g != label["group"] for g, _f in who):
                found.append(
                    f"{label['member']} of {m['formation']} reaches "
                    + ", ".join(f"{r['label']['member']} of {r['formation']}" for r in reached)
                )
    return found


class Stop(Exception):  # noqa: N818 - what happens
    """The run ends here."""


@pytest.mark.parametrize("how", ["killed", "silent"])
def test_all_dead_then_new_formation_beside_what_boots(how):
    raw = spec(prefill={"hosts": "h3"}, decode={"hosts": "h1"}, router={"hosts": "h3", "membership": "restart"})
    fleet = Fleet(h1=ONE, h2=ONE, h3=ONE)
    fleet.deploy(raw)
    fleet.kill("demo-prefill-0", "demo-decode-0", "demo-router-0")
    made = fleet.plan(raw)
    assert not made.errors

    def phase(p):
        if p == "start" and how == "silent":
            fleet.silent = {"h3"}
        if p == "wait" and how == "killed":
            raise Stop

    if how == "silent":
        fleet.carry_out(made, before_phase=phase)
    else:
        # the run is killed when h1 has started, and h3 has not
        n = [0]

        def w():
            n[0] += 1
            if any(
                m.get("formation") == made.plan["formation"] and m["state"] == "running"
                for m in fleet.facts["h1"]["members"]
            ):
                raise Stop

        with pytest.raises(Stop):
            fleet.carry_out(made, before_write=w)
    # h3 boots: its runtime starts what is there; its guard compares with its own record
    for m in fleet.facts["h3"]["members"]:
        assert m["label"]["formation"] == fleet.facts["h3"]["records"]["demo"]["formation"]
        m.update(state="running", ready=True)
    assert mixed(fleet) == []


@pytest.mark.parametrize("membership", ["dynamic", "restart"])
def test_undo_frees_a_port_that_the_router_names(membership):
    raw = spec(decode={"hosts": "h2"}, router={"membership": membership})
    fleet = Fleet(h1=ONE, h2=ONE, h3=ONE)
    fleet.deploy(raw)
    fleet.kill("demo-decode-0")
    made = fleet.plan(raw)
    hosts = memory.Hosts(fleet.facts, never_ready=["demo-decode-0"], undo=True)
    assert not memory.carry_out(made.plan, hosts)
    assert not fleet._live("demo-decode-0")
    other = spec(prefill={"hosts": "h2"}, decode={"hosts": "h2"}, router={"hosts": "h3", "port": 8001})
    o = fleet.of("other")
    m = o.plan(other, name="other")
    assert not m.errors
    o.apply(m)
    assert mixed(fleet) == []


def test_unreadable_registry_and_a_kill():
    first = spec(
        prefill={"hosts": "h2", "gpus": 0}, decode={"hosts": "h2", "gpus": 0}, router={"hosts": "h3", "port": 8001}
    )
    raw = spec(decode={"hosts": "h2", "gpus": 1})
    fleet = Fleet(h1=ONE, h2={"gpus": 2}, h3=ONE)
    other = fleet.of("other")
    m = other.plan(first, name="other")
    assert not m.errors
    other.apply(m)
    fleet.deploy(raw)  # decode of demo above the ports of other
    other.apply(other.removal("other"))  # the lower ones are free
    fleet.kill("demo-decode-0")
    gpu = fleet.live("demo-decode-0")["label"]["gpus"][0]
    fleet.facts["h2"]["gpu_processes"] = [{"gpu": gpu, "pid": 9, "command": "train"}]  # a stranger took its GPU
    router = fleet.live("demo-router-0")
    have = router["registered"]
    router["registered"] = None  # no answer within a second
    made = fleet.plan(raw)
    assert not made.errors
    router["registered"] = have

    def phase(p):
        if p == "router":
            raise Stop

    with pytest.raises(Stop):
        fleet.carry_out(made, before_phase=phase)
    wide = spec(
        prefill={"hosts": "h2", "replicas": 3, "gpus": 0},
        decode={"hosts": "h2", "replicas": 3, "gpus": 0},
        router={"hosts": "h3", "port": 8001},
    )
    m = other.plan(wide, name="other")
    assert not m.errors
    other.apply(m)
    assert mixed(fleet) == []


def test_a_host_gets_another_name():
    raw = spec(decode={"hosts": "h2"})
    fleet = Fleet(h1=ONE, h2=ONE, h3=ONE)
    fleet.deploy(raw)
    fleet.facts["node2"] = fleet.facts.pop("h2")
    raw = spec(decode={"hosts": "node2"})
    made = fleet.plan(raw)
    fleet.apply(made)
    o = fleet.of("other")
    assert "demo-decode-0" in [m["label"]["member"] for m in fleet.facts["node2"]["members"]], "it serves on"
    m = o.plan(
        spec(
            prefill={"hosts": "node2", "gpus": 0},
            decode={"hosts": "node2", "gpus": 0},
            router={"hosts": "h3", "port": 8001},
        ),
        name="other",
    )
    assert not m.errors
    o.apply(m)
    assert mixed(fleet) == []


@pytest.mark.parametrize("what", ["hold", "dead"])
def test_one_machine_two_names_two_folders(what):
    fleet = Fleet(h1=ONE, h2=ONE, h3=ONE, h4=ONE)
    fleet.facts["h4"] |= {"machine": fleet.facts["h2"]["machine"], "address": fleet.facts["h2"]["address"]}
    fleet.facts["h4"]["state"] = {"dir": "/srv/pd", "id": "state-4", "place": "8:1/44"}
    raw = spec(decode={"hosts": "h2", "replicas": 2}, router={"membership": "restart" if what == "hold" else "dynamic"})
    fleet.deploy(raw)
    if what == "hold":
        as_not_rendered(fleet)
        edited = spec(
            decode={"hosts": "h2", "replicas": 2},
            router={"membership": "restart"},
            engine={"args": ["--max-model-len=4096"]},
        )
        fleet.apply(fleet.plan(edited, "scale", counts={"decode": 1}))
        assert fleet.facts["h2"]["holds"]
    else:
        fleet.kill("demo-decode-1")
    # live members are seen from the other name
    fleet.facts["h4"]["elsewhere"] = [
        {
            "member": m["label"]["member"],
            "state_dir": "/var/lib/inferops-pd",
            "gpus": [],
            "ports": sorted(observed.read_host("h2", fleet.facts["h2"]).members[0].ports),
        }
        for m in fleet.facts["h2"]["members"]
        if m["state"] == "running"
    ]
    o = fleet.of("other")
    m = o.plan(
        spec(prefill={"hosts": "h4"}, decode={"hosts": "h4"}, router={"hosts": "h3", "port": 8001}), name="other"
    )
    assert not m.errors
    o.apply(m)
    assert mixed(fleet) == []


def test_the_addresses_of_a_tombstone_are_nothing_to_other_groups():
    raw = spec(prefill={"hosts": "h1:h2", "replicas": 2}, decode={"hosts": "h3:h2"}, router={"hosts": "h1"})
    fleet = Fleet(h1=ONE, h2={"gpus": 4}, h3=ONE, h4=ONE)
    fleet.deploy(raw)
    raw["roles"]["router"]["hosts"] = "h1:h2"
    assert fleet.live("demo-decode-0") in fleet.facts["h3"]["members"]
    fleet.silent = {"h1", "h3"}
    fleet.apply(fleet.plan(raw, "restart", lost=["h1", "h3"]))
    assert fleet.carried, fleet.said
    # h3 was fenced, is installed anew, and is back; h1 lives on
    fleet.silent = {"h1"}
    fleet.facts["h3"] |= {"members": [], "records": {}, "holds": [], "locks": {}}
    o = fleet.of("other")
    m = o.plan(
        spec(prefill={"hosts": "h3"}, decode={"hosts": "h3"}, router={"hosts": "h4", "port": 8001}), name="other"
    )
    assert not m.errors
    o.apply(m)
    assert mixed(fleet) == []


def test_two_records_that_came_after_each_other():
    a = {"schema": 2, "group": "g", "formation": "a", "generation": 2, "formed": 1.0, "supersedes": ["b"]}
    b = {"schema": 2, "group": "g", "formation": "b", "generation": 2, "formed": 2.0, "supersedes": ["a"]}
    assert record.newest([record.read(a, "x"), record.read(b, "x")]) is not None


def test_damaged_holds_are_no_holds(tmp_path):
    state = State(str(tmp_path / "s"))
    state.write_holds("g", [{"group": "g", "member": "g-decode-0", "formation": "f", "ports": [40000]}])
    (tmp_path / "s/groups/g/holds.json").write_text("")
    assert state.holds() or state.damaged()


def test_addresses_change_hands():
    raw = spec(decode={"hosts": "h2"})
    fleet = Fleet(h1=ONE, h2=ONE, h3=ONE, h4=ONE)
    fleet.deploy(raw)
    fleet.facts["h2"]["address"], fleet.facts["h3"]["address"] = "10.0.0.3", "10.0.0.2"
    o = fleet.of("other")
    m = o.plan(
        spec(prefill={"hosts": "h3"}, decode={"hosts": "h3"}, router={"hosts": "h4", "port": 8001}), name="other"
    )
    assert not m.errors
    o.apply(m)
    assert mixed(fleet) == []


def test_the_record_of_a_lost_host_wins_over_the_one_that_buried_it():
    raw = spec(prefill={"hosts": "h1:h3"}, decode={"hosts": "h2"}, router={"hosts": "h1:h3"})
    fleet = Fleet(h1=ONE, h2=ONE, h3=ONE)
    fleet.deploy(raw)
    grown = fleet.plan(raw, "scale", counts={"decode": 2})

    def w():
        if fleet.facts["h1"]["records"]["demo"]["serial"] == 2:
            raise Stop

    with pytest.raises(Stop):
        fleet.carry_out(grown, before_write=w)  # the run dies when h1 has its record
    for f in fleet.facts.values():
        f["locks"] = {}
    fleet.silent = {"h1"}
    fleet.apply(fleet.plan(raw, lost=["h1"]))
    assert fleet.carried, fleet.said
    serving = {m["label"]["member"] for m in fleet.facts["h3"]["members"]}
    assert serving == {"demo-prefill-0", "demo-router-0"}
    fleet.silent = set()
    back = fleet.plan(raw)
    assert back.plan["hosts"]["h3"]["absent"] == []
    assert back.plan["hosts"]["h1"]["absent"]


def test_two_runs_take_over_two_halves():
    raw = spec(decode={"hosts": "h2"})
    fleet = Fleet(h1=ONE, h2=ONE)
    fleet.deploy(raw)
    as_of_an_earlier_version(fleet)
    fleet.silent = {"h2"}
    fleet.apply(fleet.plan(raw))
    fleet.silent = {"h1"}
    fleet.apply(fleet.plan(raw))
    fleet.silent = set()
    made = fleet.plan(raw)
    assert made.who("remove") == []


def test_an_old_record_with_a_high_generation():
    raw = spec(decode={"hosts": "h2"})
    fleet = Fleet(h1=ONE, h2=ONE, h3=ONE)
    fleet.deploy(raw)
    fleet.deploy(raw, action="restart")
    as_of_an_earlier_version(fleet)
    old = memory.copied(fleet.facts["h2"])
    fleet.facts["h2"] |= {"members": [], "records": {}}  # the earlier version went on without h2, and removed the group
    fleet.facts["h1"] |= {"members": [], "records": {}}
    raw3 = spec(decode={"hosts": "h3"})
    fleet.deploy(raw3)
    fleet.facts["h2"] = old  # it is back
    made = fleet.plan(raw3)
    assert [(m, h) for h, s in made.plan["hosts"].items() for m in s["absent"]] == [("demo-decode-0", "h2")]


def test_a_router_that_writes_urls_its_own_way():
    raw = spec(decode={"hosts": "h2"})
    fleet = Fleet(h1=ONE, h2=ONE)
    fleet.deploy(raw)
    router = fleet.live("demo-router-0")
    router["registered"] = [{"url": p["url"] + "/"} for p in router["registered"]]
    assert fleet.plan(raw).plan["changed"] is False


def test_tombstones_are_lost_in_a_cycle_of_records():
    raw = spec(
        prefill={"hosts": "h4:h1", "replicas": 2},
        decode={"hosts": "h2"},
        router={"hosts": "h4", "membership": "dynamic"},
    )
    fleet = Fleet(h1=ONE, h2=ONE, h3=ONE, h4=ONE)
    fleet.deploy(raw)  # F1
    fleet.silent = {"h4", "h2"}
    raw = spec(prefill={"hosts": "h1"}, decode={"hosts": "h3"}, router={"hosts": "h1"})
    fleet.apply(fleet.plan(raw, "restart", lost=["h4", "h2"]))  # F2, on h1 and h3
    assert fleet.carried, fleet.said
    facts = fleet.facts["h3"]  # h3 loses its state folder, and its decode runs on
    facts |= {"records": {}, "locks": {}, "holds": []}
    for member in facts["members"]:
        known = {key: member["label"][key] for key in ("group", "member", "role", "index")}
        member.setdefault("process", memory.copied(member["label"]))
        member["label"] = {**known, "revision": "", "generation": 0, "formation": member["formation"]}
        member["unlabelled"] = True
    fleet.silent = {"h4", "h1"}
    fleet.apply(fleet.plan(raw))  # h2 is back, and its record is the only one
    fleet.silent = {"h4"}
    raw["roles"]["decode"]["hosts"] = "h2"
    made = fleet.plan(raw)
    fleet.apply(made)
    assert mixed(fleet) == []


def test_a_registry_that_was_not_read_once_and_a_record_that_forgets():
    raw = spec(decode={"hosts": "h2"})
    fleet = Fleet(h1=ONE, h2=ONE, h3=ONE)
    fleet.deploy(raw)
    as_not_rendered(fleet)
    fleet.forget("demo-decode-0")  # its container was removed by hand
    raw["engine"]["args"] = ["--max-model-len=4096"]  # and a change is pending
    router = fleet.live("demo-router-0")
    have, router["registered"] = router["registered"], None
    made = fleet.plan(raw)
    assert not made.errors
    router["registered"] = have
    fleet.apply(made)
    o = fleet.of("other")
    m = o.plan(
        spec(prefill={"hosts": "h2"}, decode={"hosts": "h2"}, router={"hosts": "h3", "port": 8001}), name="other"
    )
    assert not m.errors
    o.apply(m)
    assert mixed(fleet) == []


@pytest.mark.parametrize("action", ["deploy", "restart"])
def test_the_state_folder_of_a_host_is_another_by_the_inventory(action):
    raw = spec(decode={"hosts": "h2"}, router={"hosts": "h2", "port": ...})
    fleet = Fleet(h1=ONE, h2=ONE, h3=ONE)
    fleet.deploy(raw)
    # pd_state_dir of h2 is edited: what runs there is under the former folder
    old = memory.copied(fleet.facts["h2"])
    fleet.facts["h2"] |= {
        "members": [],
        "records": {},
        "holds": [],
        "locks": {},
        "state": {"dir": "/srv/pd", "id": None, "place": "8:1/77"},
    }
    fleet.facts["h2"]["elsewhere"] = [
        {
            "member": m.id,
            "group": "demo",
            "state_dir": "/var/lib/inferops-pd",
            "gpus": list(m.gpus),
            "ports": sorted(m.ports),
        }
        for m in observed.read_host("h2", old).members
    ]
    fleet.facts["h2"]["ports"]["used"] = [
        {"port": m["label"]["port"], "command": "engine", "pid": 1} for m in old["members"]
    ]
    made = fleet.plan(raw, action)
    assert made.errors[0] == "other-state-folder"
    assert fleet.removal().errors == ["other-state-folder"]
    # A group of the same name that another inventory has on this machine, at other ports, is told and left alone.
    for one in fleet.facts["h2"]["elsewhere"]:
        one["ports"] = [port + 9000 for port in one["ports"]]
    assert "other-state-folder" not in fleet.plan(raw, action).codes


def test_a_tombstone_stands_while_a_label_there_cannot_be_read():
    raw = spec(prefill={"hosts": "h1"}, decode={"hosts": "h2:h3"}, router={"hosts": "h2"})
    fleet = Fleet(h1=ONE, h2=ONE, h3=ONE)
    fleet.deploy(raw)
    fleet.silent = {"h2"}
    raw["roles"]["router"]["hosts"] = "h3"
    fleet.apply(fleet.plan(raw, "restart", lost=["h2"]))
    assert fleet.carried, fleet.said
    fleet.silent = set()
    # h2 is back, its router lives, and its label is damaged: its processes tell of it, and its label file cannot be read
    router = next(m for m in fleet.facts["h2"]["members"] if m["label"]["role"] == "router")
    fleet.facts["h2"]["damaged"] = [
        {"path": "/s/label.json", "why": "no object", "group": "demo", "member": "demo-router-0"}
    ]
    router["process"] = memory.copied(router["label"])
    router["label"] = {
        **{k: router["label"][k] for k in ("group", "member", "role", "index")},
        "revision": "",
        "generation": 0,
        "formation": router["formation"],
    }
    router["unlabelled"] = True
    made = fleet.plan(raw)
    fleet.apply(made)
    o = fleet.of("other")
    m = o.plan(
        spec(prefill={"hosts": "h1"}, decode={"hosts": "h1"}, router={"hosts": "h3", "port": 8001}), name="other"
    )
    o.apply(m)
    assert mixed(fleet) == []


def test_a_hold_on_a_host_that_has_nothing_else_of_the_group():
    raw = spec(decode={"hosts": "h2"})
    fleet = Fleet(h1=ONE, h2=ONE, h3=ONE)
    fleet.deploy(raw)
    fleet.facts["h3"]["holds"] = [
        {"group": "demo", "member": "demo-decode-1", "formation": "x", "url": None, "ports": [40001], "since": 1.0}
    ]
    fleet.deploy(raw)
    assert not fleet.plan(raw).plan["changed"]
