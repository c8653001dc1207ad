# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nodes of a cluster as hosts of a plan: what an inventory says of them, what a look tells, and who carries out what is planned there."""

from __future__ import annotations

import re
import typing as t
from pathlib import Path

import pytest
import yaml
from builders import ROOT, Fleet, codes, host_facts, judge, only, spec
from plays import action

from ansible_collections.inferops.pd.plugins.action import group_info, group_validate, hosts_pointed
from ansible_collections.inferops.pd.plugins.module_utils._core.base.errors import PdError
from ansible_collections.inferops.pd.plugins.module_utils._core.cluster import inventory, places, rights
from ansible_collections.inferops.pd.plugins.module_utils._core.plan.situation import Reach
from ansible_collections.inferops.pd.plugins.module_utils._core.plan.value import Plan
from ansible_collections.inferops.pd.plugins.module_utils._core.report import verdict
from ansible_collections.inferops.pd.plugins.module_utils._core.watch.readiness import Memory, Sight
from ansible_collections.inferops.pd.plugins.module_utils._core.watch.readiness import judge as judged

IMAGE = "registry.example/vllm@sha256:" + "1" * 64
CLUSTER = {"namespace": "inference", "kubeconfig": "/k"}


def node(number: int, **changes: t.Any) -> dict[str, t.Any]:
    """The facts of a node that has all it needs."""
    return {
        "gpus": 2,
        "node": {
            "cluster": "k1",
            "labels": {"pool": "h100" if number < 3 else "a100"},
            "gpu_resource": "nvidia.com/gpu",
        },
        "runtimes": {"kubernetes": {"available": True}},
        "machine": {},
        "state": {},
        **changes,
    }


def pods(**changes: t.Any) -> dict[str, t.Any]:
    """A group in a cluster. Where its roles may be is said by each of them."""
    engine = {"executable": ..., "image": IMAGE}
    return spec(
        runtime="kubernetes", engine=engine, router={"executable": ..., "image": IMAGE, "hosts": "k1/n1"},
        **{"prefill": {"hosts": "k1/n1"}, "decode": {"hosts": "k1/n2"}, **changes},
    )  # fmt: skip


def fleet(number: int = 3) -> Fleet:
    return Fleet(**{f"k1/n{at}": node(at) for at in range(1, number + 1)})


# -- what an inventory says -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "why"),
    [
        ("inference", r"pd_cluster of k1: it is no dictionary\. Write pd_cluster: \{namespace: NAME"),
        ({}, r"pd_cluster of k1: namespace is missing"),
        ({"namespace": "x", "kubconfig": "y"}, r"there is no key 'kubconfig'\. Did you mean kubeconfig\?"),
        ({"namespace": 7}, r"namespace is no text"),
        ({"namespace": "x", "verify_ssl": "perhaps"}, r"verify_ssl is neither true nor false"),
        ({"namespace": "x", "api_key": ["hunter2"]}, r"api_key is no text"),
    ],
)
def test_what_is_no_cluster_is_refused_and_no_secret_is_told(written: t.Any, why: str) -> None:
    with pytest.raises(PdError, match=why) as found:
        inventory.cluster(written, "k1")
    assert "hunter2" not in str(found.value)


@pytest.mark.parametrize(
    ("written", "why"),
    [
        ({"nodes": "x"}, r"pd_nodes of k1: it is no list"),
        (["pool=h100"], r"pd_nodes of k1\[0\]: 'pool=h100' is no dictionary"),
        ([{"kv_addres": "10.0.0.1"}], r"no key 'kv_addres'\. Did you mean kv_address\?"),
        ([{"nodes": "pool==="}], r"pd_nodes of k1\[0\]\.nodes: 'pool===' is no term"),
        ([{"port_range": 28000}], r"pd_nodes of k1\[0\]\.port_range: 28000 is no text"),
    ],
)
def test_what_is_nothing_of_nodes_is_refused_by_its_place(written: t.Any, why: str) -> None:
    with pytest.raises(PdError, match=why):
        inventory.nodes(written, "k1")


def test_what_is_left_empty_is_left_out() -> None:
    assert inventory.cluster({"namespace": "x", "kubeconfig": "", "context": None}, "k1") == {"namespace": "x"}
    assert inventory.nodes(None, "k1") == []
    (one,) = inventory.settings(inventory.nodes([{"nodes": "pool=h100", "kv_interface": "eth1", "address": ""}], "k1"))
    assert (one.kv_interface, one.address, one.nodes.meant("n", {"pool": "h100"})) == ("eth1", None, True)


def test_the_example_inventory_is_right() -> None:
    raw = yaml.safe_load((Path(ROOT) / "examples/inventories/kubernetes/hosts.yml").read_text())["all"]
    clusters = {host: its for host, its in raw["hosts"].items() if its}
    assert {inventory.cluster(its["pd_cluster"], host)["namespace"] for host, its in clusters.items()} == {"inference"}
    assert [one.rdma_resource for one in inventory.settings(inventory.nodes(clusters["k1"]["pd_nodes"], "k1"))] == [
        "rdma/hca_a"
    ]
    made = action(
        group_validate.ActionModule,
        {"pd_groups": raw["vars"]["pd_groups"]},
        None,
        {"all": ["k1", "k2", "gpu1", "gpu2"]},
    )
    for host, its in clusters.items():
        made.task_vars["hostvars"][host]["pd_cluster"] = its["pd_cluster"]
    assert made.act()["valid"]


# -- what a look tells ------------------------------------------------------------------------------------------------------------


def test_what_is_kept_of_a_group_is_told_where_it_is_and_once_where_it_is_not() -> None:
    records = {"a": {"members": [{"host": "k1/n2"}, {"host": "k1/n9"}]}, "b": {"members": []}}
    kept = {
        "records": records,
        "locks": {"a": {"run": "r"}, "c": {"run": "s"}},
        "digests": {"a": "d"},
        "damaged": [{"path": "x"}],
    }
    told = places.expanded("k1", {"n1": {}, "n2": {"damaged": [{"path": "y"}]}, "n10": {}}, kept)
    assert list(told) == ["k1/n1", "k1/n2", "k1/n10"]
    assert {place: sorted(facts["records"]) for place, facts in told.items()} == {
        "k1/n1": ["b"],
        "k1/n2": ["a"],
        "k1/n10": [],
    }
    assert {place: sorted(facts["locks"]) for place, facts in told.items()} == {
        "k1/n1": ["c"],
        "k1/n2": ["a"],
        "k1/n10": [],
    }
    assert [len(facts["damaged"]) for facts in told.values()] == [1, 1, 0]
    assert all(facts["digests"] == {"a": "d"} for facts in told.values())
    assert places.expanded("k1", {}, kept) == {}


def test_the_way_to_ask() -> None:
    assert places.asking("k1/gpu-1") == "kubectl describe node gpu-1"
    assert places.asking("h1") == "ansible -m ping h1"


def said(*numbers: int, **changes: t.Any) -> dict[str, t.Any]:
    nodes = {f"n{at}": host_facts(at, **{**node(at), **changes.get(f"n{at}", {})}) for at in numbers}
    return {"k1": {"ansible_facts": {"pd_places": {"nodes": nodes, "kept": {}, "lacks": []}}}}


def play(of: t.Any, groups: dict[str, t.Any], looked: t.Any = None, **args: t.Any) -> t.Any:
    made = action(of, {"pd_groups": groups}, looked, {"all": ["k1", "h1"], "gpus": ["h1"]}, **args)
    hostvars = made.task_vars["hostvars"]
    hostvars["k1"]["pd_cluster"] = CLUSTER
    return made


def in_cluster(**changes: t.Any) -> dict[str, t.Any]:
    raw = pods()
    for role in raw["roles"].values():
        role["hosts"] = "k1"
    for role, nodes in changes.items():
        raw["roles"][role]["nodes"] = nodes
    return raw


def test_a_pattern_stands_for_the_nodes_that_a_role_may_have() -> None:
    made = play(group_info.ActionModule, {"g": in_cluster(prefill="pool=h100", decode=["n3", "n9"])}, said(1, 2, 3))
    assert made.patterns_of("g", made.entry("g")) == {
        "prefill": ["k1/n1", "k1/n2"],
        "decode": ["k1/n3"],
        "router": ["k1/n1", "k1/n2", "k1/n3"],
    }
    assert made.named_hosts("g", made.entry("g")) == {role: ["k1"] for role in ("prefill", "decode", "router")}
    assert made.carriers(["k1/n1", "k1/n2", "h1"]) == ["h1", "k1"]


def test_a_node_that_nobody_hears_of_is_silent_and_a_cluster_that_does_not_answer_stands_for_itself() -> None:
    made = play(group_info.ActionModule, {"g": in_cluster()}, said(1, 2, n2={"silent": "its kubelet does not report"}))
    seen = made.seen()
    assert (list(seen.hosts), seen.silent) == (["k1/n1"], {"k1/n2": "its kubelet does not report"})
    assert made.reach().why("k1/n2") == "did not answer"
    assert made.reach().why("k1/n7") == "is no node of its cluster"
    lost = play(
        group_info.ActionModule, {"g": in_cluster()}, {"k1": {"failed": True, "complaint": "could not be looked at: x"}}
    )
    assert lost.patterns_of("g", lost.entry("g"))["decode"] == ["k1"]
    assert lost.reach().why("k1/n1") == "could not be looked at: x"


def test_a_deleted_node_may_be_gone_for_good() -> None:
    reach = Reach(["k1", "k1/n1"], ["k1", "k1/n1"], clusters=["k1"])
    assert reach.maybe_gone(["k1/n1", "k1/n2"]) == ["k1/n1", "k1/n2"]
    assert reach.ways_out(["k1/n2"]) == "Let it join its cluster again."
    assert Reach(["k1"], []).why("k1/n1") == "was left out of this run"


def test_records_point_at_the_cluster_of_a_node() -> None:
    record = {"schema": 1, "group": "g", "generation": 1, "members": [
        {"id": "g-decode-0", "role": "decode", "index": 0, "revision": "r", "url": None, "host": "k1/n1", "gpus": []}
    ]}  # fmt: skip
    looked = {"h1": {"ansible_facts": {"pd_host": host_facts(1, records={"g": record})}}}
    answer = play(hosts_pointed.ActionModule, {"g": in_cluster()}, looked, names=["g"]).act()
    assert (answer["hosts"], answer["why"]) == (["k1"], {})


def test_a_node_that_nobody_hears_of_may_be_stated_to_be_lost_though_nothing_is_there() -> None:
    away = {"cluster": "k1", "ready": False}
    cordon = {"by": "the cluster", "since": 0.0, "why": "its kubelet does not report"}
    here = Fleet(**{"k1/n1": node(1), "k1/n2": node(2), "k1/n3": node(3, node=away, cordon=cordon)})
    patterns = {role: ["k1/n1", "k1/n2", "k1/n3"] for role in ("prefill", "decode", "router")}
    found = here.plan(pods(), patterns=patterns, lost=["k1/n3"]).findings
    assert codes(found.errors) == []
    assert only(found, "host-cordoned").hint == "See why: kubectl describe node n3"
    answers = here.plan(pods(), patterns=patterns, lost=["k1/n2"]).findings
    assert codes(answers.errors) == ["lost-host-answers"]


# -- what is refused --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        (
            {"runtime": "supervisor", "kubernetes": {"priority_class": "x"}},
            r"kubernetes: runtime supervisor runs members on hosts",
        ),
        ({"runtime": "supervisor", "prefill": {"nodes": "pool=h100"}}, r"roles\.prefill\.nodes: runtime supervisor"),
        (
            {"runtime": "kubernetes", "engine": {"image": IMAGE, "executable": ..., "devices": ["/dev/x"]}},
            r"prefill: devices: a Pod gets no",
        ),
    ],
)
def test_keys_that_mean_nothing_there(changes: dict[str, t.Any], told: str) -> None:
    found = judge(spec(**changes)).findings
    assert any(one.code == "runtime-refuses" and re.search(told, one.message) for one in found.items)


@pytest.mark.parametrize(
    ("roles", "code"),
    [
        ({"prefill": "k1", "decode": "k1", "router": "k1"}, None),
        ({"prefill": "k1", "decode": "k2", "router": "k1"}, "several-clusters"),
        ({"prefill": "k1", "decode": "h1", "router": "k1"}, "no-cluster"),
    ],
)
def test_all_of_a_group_is_in_one_cluster(roles: dict[str, str], code: str | None) -> None:
    raw = pods()
    for role, pattern in roles.items():
        raw["roles"][role]["hosts"] = pattern
    made = action(group_validate.ActionModule, {"pd_groups": {"g": raw}}, None, {"all": ["k1", "k2", "h1"]}, name="g")
    for host in ("k1", "k2"):
        made.task_vars["hostvars"][host]["pd_cluster"] = CLUSTER
    if code is None:
        assert made.act()["valid"]
        return
    with pytest.raises(Exception) as found:  # noqa: PT011 - what the base turns into a result
        made.act()
    assert [one["code"] for one in found.value.result["findings"] if one["severity"] == "error"] == [code]


def test_a_host_that_is_a_cluster_runs_nothing_itself() -> None:
    raw = spec(prefill={"hosts": "k1"}, decode={"hosts": "k1"}, router={"hosts": "k1"})
    made = play(group_validate.ActionModule, {"g": raw}, None, name="g")
    with pytest.raises(Exception) as found:  # noqa: PT011
        made.act()
    assert "no-cluster" in [one["code"] for one in found.value.result["findings"]]


# -- who carries it out -----------------------------------------------------------------------------------------------------------


def test_a_cluster_carries_out_what_is_planned_for_its_nodes() -> None:
    made = fleet().plan(pods())
    plan = Plan.from_plain(made.plan)
    assert plan.through == ("k1",)
    assert {m.id: (m.leader.host, m.leader.through) for m in plan.members} == {
        "demo-prefill-0": ("k1/n1", "k1"),
        "demo-decode-0": ("k1/n2", "k1"),
        "demo-router-0": ("k1/n1", "k1"),
    }
    share = plan.share("k1")
    assert share is not None
    name, here = share.here()
    assert (name, sorted(here.create)) == ("k1", ["demo-decode-0", "demo-prefill-0", "demo-router-0"])
    assert share.members[0].leader.pod == {"gpu_resource": "nvidia.com/gpu"}


def test_many_nodes_of_a_pattern_are_one_lock() -> None:
    where = {"patterns": {role: [f"k1/n{at}" for at in range(1, 41)] for role in ("prefill", "decode", "router")}}
    made = fleet(40).plan(pods(), **where)
    assert len(made.plan["hosts"]) == len({m["parts"][0]["host"] for m in made.plan["members"]})


def test_gpus_are_counted_and_not_named() -> None:
    raw = pods(prefill={"hosts": "k1/n1", "gpus": 2}, decode={"hosts": "k1/n2", "gpus": 1})
    members = {m["id"]: m["parts"][0] for m in fleet().plan(raw).plan["members"]}
    assert [len(part["gpus"]) for part in members.values()] == [2, 1, 0]
    assert not any("CUDA_VISIBLE_DEVICES" in part["env"] for part in members.values())


def test_what_the_api_does_not_know_is_told_as_that() -> None:
    found = Fleet(**{f"k1/n{at}": node(at, models={}, images={}) for at in (1, 2)}).plan(pods()).findings
    assert codes(found.errors) == []
    assert "from one volume or image" in only(found, "identity-unverified").hint


def test_a_node_without_a_kv_address_is_refused_with_the_line_to_write() -> None:
    lacks = node(2, kv_interface={"names": [], "error": "the API of the cluster knows no KV interface of its nodes."})
    found = Fleet(**{"k1/n1": node(1), "k1/n2": lacks}).plan(pods()).findings
    assert "pd_nodes of k1: {nodes: [n2], kv_interface: NAME, kv_address: ADDRESS}" in only(found, "kv-interface").hint


def test_what_a_cluster_said_is_of_all_of_its_nodes() -> None:
    plan = Plan.from_plain(fleet().plan(pods()).plan)
    ok = {"k1": [{"phase": "lock", "ok": True}]}
    assert verdict.reach(plan, ok, "lock").good
    assert verdict.reach(plan, {}, "lock").unreachable == ["k1"]


# -- who is ready -----------------------------------------------------------------------------------------------------------------


def test_what_has_no_node_yet_loads_and_has_not_ended() -> None:
    found = judged(Sight("coming", process_why="no node takes it yet (Unschedulable)"), Memory(), 0.0)
    assert (found.state, found.why) == ("loading", "no node takes it yet (Unschedulable)")


# -- rights -----------------------------------------------------------------------------------------------------------------------


def rules(*left_out: tuple[str, str]) -> list[dict[str, t.Any]]:
    found = []
    for one in rights.RIGHTS:
        verbs = [verb for verb in one.verbs if (one.resource, verb) not in left_out]
        found.append({"apiGroups": [one.group], "resources": [one.resource], "verbs": verbs})
    return found


def test_rights_that_are_missing() -> None:
    assert rights.missing(rules()) == []
    assert rights.missing([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]) == []
    assert rights.missing(rules(("configmaps", "patch"), ("leases", "create"))) == [
        "patch configmaps", "create leases.coordination.k8s.io",
    ]  # fmt: skip
    named = [{**one, "resourceNames": ["x"]} if one["resources"] == ["services"] else one for one in rules()]
    assert "create services" in rights.missing(named)
    logs = [{**one, "resources": ["*/log"]} if one["resources"] == ["pods/log"] else one for one in rules()]
    assert rights.missing(logs) == []


def test_what_is_printed_gives_what_is_needed_and_reads_no_secret() -> None:
    made = rights.objects("inference")
    given = [rule for one in made for rule in one.get("rules") or ()]
    assert rights.missing(given) == []
    (secrets,) = [rule for rule in given if rule["resources"] == ["secrets"]]
    assert not {"get", "list", "watch"} & set(secrets["verbs"])
    assert not any("exec" in resource or "portforward" in resource for rule in given for resource in rule["resources"])
