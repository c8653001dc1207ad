"""The record: what is kept of a group on every host of it, and what it is good for."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from builders import Fleet, judge, spec

from ansible_collections.inferops.pd.plugins.module_utils._core.base.checked import DamagedError
from ansible_collections.inferops.pd.plugins.module_utils._core.facts.record import Reader, Record, differs, read
from ansible_collections.inferops.pd.plugins.module_utils._core.plan import diff
from ansible_collections.inferops.pd.plugins.module_utils._core.plan.peer_snapshot import snapshot
from ansible_collections.inferops.pd.plugins.module_utils._core.plan.record import same_spec
from ansible_collections.inferops.pd.plugins.module_utils._core.plan.value import Peer

HOSTS = {"h1": {"gpus": 4}}


def test_a_record_says_what_runs_where():
    noted = Fleet(**HOSTS).plan(spec()).plan["record"]
    assert (noted["group"], noted["generation"], noted["desired"]) == ("demo", 1, {"prefill": 1, "decode": 1})
    assert [(m["id"], m["host"], m["url"]) for m in noted["members"]] == [
        ("demo-prefill-0", "h1", "http://10.0.0.1:40001"),
        ("demo-decode-0", "h1", "http://10.0.0.1:40003"),
        ("demo-router-0", "h1", "http://10.0.0.1:8000"),
    ]
    assert noted["endpoint"] == {"url": "http://10.0.0.1:8000", "served_model_name": "demo", "registered": False}
    assert json.loads(json.dumps(noted)) == noted


def test_the_serial_grows_with_every_plan_and_alone_makes_no_difference():
    fleet = Fleet(**HOSTS)
    fleet.deploy(spec())
    before = fleet.facts["h1"]["records"]["demo"]
    after = fleet.plan(spec()).plan["record"]
    assert after["serial"] == before["serial"] + 1
    assert not differs(after, before)


def test_the_newest_record_counts():
    """A host that was away keeps an old one."""
    fleet = Fleet(h1={"gpus": 4}, h2={"gpus": 4})
    raw = spec(prefill={"hosts": "h1"}, decode={"hosts": "h2"})
    fleet.deploy(raw)
    fleet.silent = {"h2"}
    stale = json.loads(json.dumps(fleet.facts["h2"]["records"]["demo"]))
    fleet.silent = set()
    fleet.deploy(raw, action="scale", counts={"prefill": 2})
    fleet.facts["h2"]["records"]["demo"] = stale
    assert fleet.plan(raw).plan["desired"]["prefill"] == 2


def test_another_endpoint_is_a_change_of_the_record_alone():
    fleet = Fleet(**HOSTS)
    fleet.deploy(spec())
    made = fleet.plan(spec(endpoint={"external_url": "https://llm.example"}))
    assert (made.plan["pending"], made.plan["steps"], made.plan["changed"]) == (False, [], True)
    assert made.plan["endpoint"]["url"] == "https://llm.example"


def test_the_same_spec_but_for_counts_and_places():
    one = replace(Record.nothing("demo"), plain={"spec": judge(spec()).group.to_plain()})
    assert same_spec(one, judge(spec(prefill={"replicas": 3, "hosts": "h7"})).group)
    assert not same_spec(one, judge(spec(prefill={"env": {"A": "1"}})).group)


def test_a_snapshot_of_peers_is_what_a_router_was_started_with():
    peers = Fleet(**HOSTS).plan(spec()).router["peers"]
    assert snapshot([Peer.from_plain(p) for p in peers])[0] == {
        "member": "demo-prefill-0",
        "role": "prefill",
        "url": "http://10.0.0.1:40001",
        "ports": {"kv_side_channel": {"base": 40000, "count": 1}},
    }


# -- differences as a person reads them -------------------------------------------------------------------------------


def lines(before, after) -> list[str]:
    masks = [judge(raw).template.masked() for raw in (before, after)]
    return diff.of_templates(*masks)


def test_one_line_for_each_thing_that_differs():
    before = spec(decode={"extra_args": ["--max-num-seqs 4"], "env": {"A": "1", "B": "1"}})
    after = spec(decode={"extra_args": ["--max-num-seqs=8", "--enforce-eager"], "env": {"B": "2", "C": "3"}})
    assert lines(before, after) == [
        "decode args: --max-num-seqs=4 -> 8",
        "decode args: --enforce-eager=(set) added",
        "decode env: A=1 removed",
        "decode env: B=1 -> 2",
        "decode env: C=3 added",
    ]


def test_the_model_the_image_and_the_membership():
    assert lines(spec(), spec(model="/models/other"))[0] == (
        "decode args: command=/opt/vllm/bin/vllm serve /models/m -> /opt/vllm/bin/vllm serve /models/other"
    )
    assert "decode image: null -> e@sha256:1" in lines(spec(), spec(engine={"image": "e@sha256:1"}))
    assert lines(spec(), spec(router={"membership": "restart"}))[0] == "membership: dynamic -> restart"


def test_nothing_where_nothing_differs():
    assert lines(spec(), spec(prefill={"replicas": 4})) == []


def test_a_plan_that_changes_no_configuration_reads_none_of_what_was_rendered_before():
    group = Fleet(**HOSTS)
    group.deploy(spec())
    for facts in group.facts.values():
        for noted in facts["records"].values():
            noted["templates"]["roles"]["decode"]["argv"][-1] = 7
    assert group.plan(spec(), "scale", counts={"decode": 2}).who("create") == ["demo-decode-1"]


def test_the_record_of_many_hosts_is_read_once_and_is_each_hosts_own():
    noted = Fleet(**HOSTS).plan(spec()).plan["record"]
    told = [
        ("h1", {**noted, "updated": 5.0}),
        ("h2", {**noted, "updated": 7.0}),
        ("h3", {**noted, "updated": 7.0, "serial": 9}),
        ("h4", {**noted, "updated": 8.0}),
    ]
    reader = Reader()
    found = [reader.read("demo", raw, host) for host, raw in told]
    assert found == [read(raw, "", host) for host, raw in told]
    assert [one.plain for one in found] == [raw for _host, raw in told]
    assert found[0].members is found[1].members
    assert found[1].members is not found[2].members


@pytest.mark.parametrize("change", [{"updated": "noon"}, {"members": 3}, {"serial": "x"}])
def test_what_is_wrong_on_one_host_is_wrong_there_alone(change):
    noted = {**Fleet(**HOSTS).plan(spec()).plan["record"], "updated": 5.0}
    reader = Reader()
    for raw in (noted, {**noted, **change}, noted):
        if raw is noted:
            assert reader.read("demo", raw, "h1") == read(raw, "", "h1")
        else:
            with pytest.raises(DamagedError, match="the record of group demo"):
                reader.read("demo", raw, "h2")
    with pytest.raises(DamagedError):
        reader.read("demo", [], "h3")
