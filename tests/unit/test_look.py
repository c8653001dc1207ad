# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whose facts a run needs: the hosts that specs name, those that records point at, and what is made of who was not looked at. The actions
run here on an inventory in memory."""

from __future__ import annotations

import typing as t
from types import SimpleNamespace

import pytest
from ansible.errors import AnsibleActionFail
from builders import host_facts
from plays import FLEET, TASK, Vars, action, facts, group, record

from ansible_collections.inferops.pd.plugins.action import (
    cache_validate,
    group_info,
    group_validate,
    hosts_named,
    hosts_pointed,
)
from ansible_collections.inferops.pd.plugins.module_utils._core.base.errors import PdError
from ansible_collections.inferops.pd.plugins.module_utils._core.facts.observed import Host, on_plane, read_host
from ansible_collections.inferops.pd.plugins.module_utils._core.plan.pointed import pointed
from ansible_collections.inferops.pd.plugins.module_utils._core.plan.situation import Reach
from ansible_collections.inferops.pd.plugins.module_utils._core.spec.workload import GROUP
from ansible_collections.inferops.pd.plugins.plugin_utils._entries import Entries
from ansible_collections.inferops.pd.plugins.plugin_utils._workloads import united

# -- the first look ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "names", "look"),
    [
        ("a", ["a"], ["h1", "h2"]),
        (["b", "a"], ["a", "b"], ["h1", "h2", "h3"]),
        ("site=ams", ["b"], ["h3"]),
        # And the service that it uses.
        ("c", ["store", "c"], ["h4", "h5"]),
        ("all", [], None),
        ("", [], None),
        (None, [], None),
        # What a spec does not say, any host may know.
        ("a,torn", ["a", "torn"], None),
        ("gone", ["gone"], None),
        ("a,gone", ["a", "gone"], None),
    ],
)
def test_the_hosts_that_are_named(written: t.Any, names: list[str], look: list[str] | None) -> None:
    answer = action(hosts_named.ActionModule, FLEET, name=written).act()
    assert answer["look"] == look
    assert answer["workloads"] == [{"kind": "cache" if name == "store" else "group", "name": name} for name in names]


@pytest.mark.parametrize(
    ("written", "parts", "look"), [("a", ["a"], ["h1", "h2"]), ("c", ["store", "c"], ["h4", "h5"])]
)
def test_a_verdict_has_the_same_look(written: str, parts: list[str], look: list[str]) -> None:
    answer = action(group_validate.ActionModule, FLEET, name=written).act()
    assert [one["name"] for one in answer["workloads"]] == parts
    assert answer["look"] == look


def test_nothing_is_to_stay_of_what_is_removed_and_so_all_are_looked_at() -> None:
    for written, names in (("a", ["a"]), ("a,gone,torn", ["a", "torn", "gone"])):
        answer = action(group_validate.ActionModule, FLEET, name=written, fail_on="never").act()
        assert (answer["names"], answer["look"]) == (names, None)


def test_services_are_looked_for_everywhere() -> None:
    made = action(cache_validate.ActionModule, FLEET, name="store")
    assert made.act()["look"] is None


@pytest.mark.parametrize(
    ("args", "says"),
    [
        ({"one": True}, "Say which group: -e pd_group=NAME. This playbook works on one group."),
        ({"one": True, "name": "all"}, "Say which group"),
        (
            {"one": True, "name": "site in (fra, ams)"},
            "pd_group selects a, b. This playbook works on one group: name it.",
        ),
        ({"named": True, "name": " "}, "-e pd_group=all for every one"),
        ({"name": "aa"}, "There is no group 'aa' in pd_groups."),
        ({"name": "gone*", "fail_on": "never"}, "No group of pd_groups matches 'gone*'."),
    ],
)
def test_a_playbook_that_must_be_told(args: Vars, says: str) -> None:
    with pytest.raises(PdError) as error:
        action(group_validate.ActionModule, FLEET, **args).act()
    assert says in str(error.value)


def test_a_selector_that_matches_one_is_one() -> None:
    for written in ("site=ams", "b*", ["b"]):
        assert action(group_validate.ActionModule, FLEET, name=written, one=True).act()["names"] == ["b"]


@pytest.mark.parametrize("given", [{"mode": "hidden"}, [{"mode": "hidden"}], ["a", ["hidden"]]])
def test_a_spec_for_a_name_is_refused_without_being_shown(given: t.Any) -> None:
    made = action(group_validate.ActionModule, FLEET)
    made._task = SimpleNamespace(**{**vars(TASK), "args": {"name": given}})
    made._connection = SimpleNamespace(_shell=SimpleNamespace(tmpdir="/nowhere"))
    try:
        told = made.run(None, made.task_vars)["msg"]
    except AnsibleActionFail as exc:
        told = str(exc)
    assert "no text" in told or "is a dictionary" in told
    assert "hidden" not in told


# -- the second ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "names", "hosts"),
    [
        # The record names who has been asked already.
        ({"h1": facts(1, record("a", "h1", "h2")), "h2": facts(2, record("a", "h1", "h2"))}, ["a"], []),
        ({"h1": facts(1, record("a", "h1", "h8"))}, ["a"], ["h8"]),
        # An older one knows of somebody else.
        ({"h1": facts(1, record("a", "h1")), "h2": facts(2, record("a", "h7"))}, ["a"], ["h7"]),
        ({"h1": facts(1, record("a", "h1", graves=["h6"]))}, ["a"], ["h6"]),
        # Another group's is no matter.
        ({"h1": facts(1, record("a", "h1"), record("b", "h9"))}, ["a"], []),
        # Nobody knows where it is: whoever has not been asked may.
        ({"h8": facts(8), "h9": facts(9)}, ["a"], [f"h{n}" for n in range(1, 8)]),
        ({"h8": facts(8, record("a", "h8")), "h9": facts(9)}, ["a", "b"], [f"h{n}" for n in range(1, 8)]),
        # A record of a name that the inventory has not: that machine may have another one.
        ({"h8": facts(8, record("a", "h8", "old")), "h9": facts(9)}, ["a"], [f"h{n}" for n in range(1, 8)]),
        # One that does not answer has been asked all the same.
        ({"h1": facts(1, record("a", "h1", "h2")), "h2": {"unreachable": True, "msg": "timed out"}}, ["a"], []),
        ({"h1": {"unreachable": True}, "h2": {"unreachable": True}}, ["a"], [f"h{n}" for n in range(3, 10)]),
    ],
)
def test_the_hosts_that_records_point_at(said: Vars, names: list[str], hosts: list[str]) -> None:
    answer = action(hosts_pointed.ActionModule, {}, said, names=names).act()
    assert answer["hosts"] == hosts
    assert bool(answer["why"]) == (len(hosts) > 1)


def test_facts_of_an_earlier_look_are_none_of_the_first() -> None:
    said = {"h1": facts(1, record("a", "h1", "h2")), "h2": facts(2)}
    assert action(hosts_pointed.ActionModule, {}, said, names=["a"], look=["h1"]).act()["hosts"] == ["h2"]


@pytest.mark.parametrize(
    ("service_", "hosts"),
    # The group's spec names another one by now; where store is, nobody has said. What is run elsewhere is nobody's to look for.
    [("store", [f"h{n}" for n in range(2, 10)]), ("theirs", []), (None, [])],
)
def test_the_services_that_members_run_with_are_looked_for(service_: str | None, hosts: list[str]) -> None:
    cache = {"provider": "lmcache", "service": service_, "injected": True, "options": {}}
    label = {
        "schema": 1, "group": "a", "member": "a-decode-0", "role": "decode", "index": 0, "revision": "r", "generation": 1, "port": 40000,
        "ports": {}, "gpus": [], "url": "http://10.0.0.1:40000", "runtime": "supervisor", **({"cache": cache} if service_ else {}),
    }  # fmt: skip
    said = {"h1": facts(1, record("a", "h1"), members=[{"label": label, "state": "running", "ready": True}])}
    assert action(hosts_pointed.ActionModule, FLEET, said, names=["a"]).act()["hosts"] == hosts


def test_a_host_out_of_service_is_not_asked() -> None:
    made = action(hosts_pointed.ActionModule, {}, {"h1": facts(1, record("a", "h1", "h2", "h3"))}, names=["a"])
    made.task_vars["hostvars"]["h2"]["pd_out_of_service"] = "yes"
    assert made.act()["hosts"] == ["h3"]


def test_a_workload_that_only_stood_there_once_points_nowhere() -> None:
    hosts = {"h1": read_host("h1", host_facts(1, records={"a": {**record("a"), "state": "removed"}}))}
    assert pointed(["a"], hosts, ["h1"]).hosts == frozenset()
    assert pointed(["a"], hosts, ["h1"]).why == {}


# -- what is made of who was not looked at -------------------------------------------------------------------------------


def test_asked_and_silent_is_not_the_same_as_not_looked_at() -> None:
    said = {"h1": facts(1, record("a", "h1", "h2")), "h2": {"unreachable": True, "msg": "timed out"}}
    made = action(group_info.ActionModule, FLEET, said)
    # h4 has left the play before anybody was asked.
    made.task_vars["ansible_play_hosts"] = [h for h in made.task_vars["ansible_play_hosts"] if h != "h4"]
    made.task_vars["hostvars"]["h5"]["pd_out_of_service"] = True
    reach = made.reach()
    assert set(reach.passed) == {"h3", "h6", "h7", "h8", "h9"}
    assert reach.why("h2") == reach.why("h4") == "did not answer"
    assert reach.why("h9") == "was not looked at in this run"
    assert reach.way_out(reach.why("h9")).startswith("Run without pd_group")
    # Who was not looked at lives for all that is known.
    assert reach.maybe_gone(["h2", "h9"]) == ["h2"]
    assert Reach(["h1"], ["h1"], passed=["h1"]).of_hosts({"h1": ["a-0"]}) == (
        "h1 was not looked at in this run and may still run a-0"
    )


def test_where_nobody_was_looked_at_all_are_silent() -> None:
    assert action(group_info.ActionModule, FLEET, {}).seen().passed == frozenset()


def test_status_names_as_silent_whoever_was_asked() -> None:
    said = {"h1": facts(1, record("a", "h1", "h2")), "h2": {"unreachable": True, "msg": "timed out"}}
    answer = action(group_info.ActionModule, FLEET, said, name="a").act()
    assert list(answer["groups"]) == ["a"]
    assert answer["silent"] == ["h2"]
    assert "No answer from: h2" in answer["table"]


def test_status_of_a_service_says_that_not_all_its_users_may_be_seen() -> None:
    told = action(group_info.ActionModule, FLEET, {"h4": facts(4), "h5": facts(5)}, name="c").act()
    assert list(told["caches"]) == ["store"]
    assert told["caches"]["store"]["all_answered"] is False
    everywhere = {f"h{n}": facts(n) for n in range(1, 10)}
    assert action(group_info.ActionModule, FLEET, everywhere, name="c").act()["caches"]["store"]["all_answered"]


def test_status_selects_what_only_hosts_know_by_its_name() -> None:
    said = {f"h{n}": facts(n, *([record("old", "h9")] if n == 9 else [])) for n in range(1, 10)}
    assert list(action(group_info.ActionModule, FLEET, said, name="old,b").act()["groups"]) == ["b", "old"]
    assert list(action(group_info.ActionModule, FLEET, said).act()["groups"]) == ["a", "b", "c", "torn", "old"]
    with pytest.raises(PdError, match="What only hosts know is selected by its name: old"):
        action(group_info.ActionModule, FLEET, said, name="ol?").act()


def test_of_two_looks_the_last_counts() -> None:
    made = action(
        group_info.ActionModule, {}, {"h1": facts(1), "h2": {"unreachable": True}}, register="pd_facts, again"
    )
    made.task_vars["hostvars"]["h2"]["again"] = facts(2)
    assert sorted(made.seen().hosts) == ["h1", "h2"]
    assert made.seen().silent == {}


# -- one look for all ----------------------------------------------------------------------------------------------------


def test_what_is_looked_at_is_united() -> None:
    one = {"models": ["/m"], "executables": ["vllm"], "images": [], "runtimes": ["systemd"], "interface_plane": "data"}
    two = {**one, "models": ["/m", "/n"], "images": ["i"], "runtimes": ["docker"]}
    assert united([one, two]) == {
        "models": ["/m", "/n"],
        "executables": ["vllm"],
        "images": ["i"],
        "runtimes": ["systemd", "docker"],
        "interface_plane": "data",
    }
    assert united([{**one, "interface_plane": "control"}])["interface_plane"] == "control"
    assert united([one, {**one, "interface_plane": "control"}])["interface_plane"] == "data"
    # Of one that has left the inventory nobody knows under which runtime it is.
    assert "runtimes" not in united([one, {}])
    assert united([]) == {"models": [], "executables": [], "images": []}


def test_a_verdict_says_once_what_to_look_at() -> None:
    answer = action(group_validate.ActionModule, FLEET, name="a,c").act()
    alone = [action(group_validate.ActionModule, FLEET, name=name).act()["observe"] for name in ("a", "c")]
    assert {key: sorted(value) for key, value in answer["observe"].items() if isinstance(value, list)} == {
        key: sorted(value) for key, value in united(alone).items() if isinstance(value, list)
    }
    assert len(answer["workloads"]) == 3
    assert "vllm" in "".join(answer["observe"]["executables"])


def test_each_mode_has_the_interface_that_it_needs() -> None:
    data, control = ({"names": [name], "address": f"10.{n}.0.1"} for n, name in enumerate(("eth1", "eth0")))
    several = {"error": "several interfaces could carry the KV cache"}
    planes = {"data": several, "control": control}
    host = read_host("h1", host_facts(1, kv_interface=several, kv_interfaces=planes))
    seen: t.Mapping[str, Host] = {"h1": host}
    assert on_plane(seen, "data") is seen
    assert on_plane(seen, "control")["h1"].kv_names == ("eth0",)
    assert on_plane(seen, "control")["h1"].gpus is host.gpus
    alike = {"h1": read_host("h1", host_facts(1, kv_interface=data, kv_interfaces={"data": data, "control": data}))}
    assert on_plane(alike, "control") is alike
    # Facts of an earlier version have one interface for all.
    assert on_plane({"h1": read_host("h1", host_facts(1))}, "control")["h1"].kv_names == ("eth1",)


# -- the inventory -------------------------------------------------------------------------------------------------------


def entries(variables: Vars, given: list[t.Any] | None = None) -> Entries:
    def plain(raw: t.Any) -> t.Any:
        if given is not None:
            given.append(raw)
        return {"d": {"labels": {"x": "y"}}} if raw == "{{ made }}" else raw

    return Entries(GROUP, variables, plain)


def test_an_entry_is_templated_alone_and_once() -> None:
    given: list[t.Any] = []
    a, b = {"labels": {"site": "fra"}, "secret": "s"}, {"labels": {}}
    found = entries({"pd_groups": {"a": a}, "pd_groups_more": {"b": b}, "pd_group": "a"}, given)
    assert list(found) == ["a", "b"]
    assert "a" in found
    assert len(found) == 2
    assert found.get("c") is None
    assert given == []
    assert found.labels() == {"a": {"site": "fra"}, "b": {}}
    assert given == [a["labels"], {}]
    assert (found["b"], found["b"]) == (b, b)
    assert given[2:] == [b]
    assert dict(found) == {"a": a, "b": b}


def test_a_dictionary_that_an_expression_makes_is_made_whole() -> None:
    found = entries({"pd_groups": "{{ made }}", "pd_groups_none": "", "pd_groups_empty": {}})
    assert list(found) == ["d"]
    assert found.labels() == {"d": {"x": "y"}}


@pytest.mark.parametrize(
    ("variables", "says"),
    [
        ({"pd_groups": ["a"]}, "pd_groups is not a dictionary of groups by name"),
        (
            {"pd_groups": {"a": {}}, "pd_groups_b": {"a": {}}},
            "Group 'a' is defined twice: in pd_groups and in pd_groups_b",
        ),
    ],
)
def test_an_inventory_that_is_none(variables: Vars, says: str) -> None:
    with pytest.raises(PdError, match=says):
        entries(variables)


def test_a_verdict_on_many_groups_asks_each_host_for_its_variables_as_often_as_on_one() -> None:
    asked = []
    for count in (1, 20):
        fleet = {"pd_groups": {f"g{n}": group("h1", "h2") for n in range(count)}}
        for entry in fleet["pd_groups"].values():
            entry["roles"]["router"].pop("port", None)
        made = action(group_validate.ActionModule, fleet)
        made.act()
        asked.append(made.task_vars["hostvars"].asked)
    assert asked[0] == asked[1]


def test_the_spec_of_one_leaves_the_others_as_they_are() -> None:
    made = action(group_validate.ActionModule, FLEET)
    assert made.spec_of("a") == FLEET["pd_groups"]["a"]
    assert made._templar.given == [FLEET["pd_groups"]["a"]]
    with pytest.raises(PdError, match=r"There is no group 'aa' in pd_groups\."):
        made.spec_of("aa")
