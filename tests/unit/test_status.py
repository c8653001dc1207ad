"""The state of a group, and what is to be known beside it."""

from __future__ import annotations

import pytest
from builders import Fleet, spec

from ansible_collections.inferops.pd.plugins.module_utils._core import status

TWO = {"gpus": 2}
RAW = spec(prefill={"hosts": "h1:h2", "replicas": 2}, decode={"hosts": "h3"}, router={"hosts": "h4"})


def fleet() -> Fleet:
    made = Fleet(h1=TWO, h2=TWO, h3=TWO, h4={})
    made.deploy(RAW)
    return made


def marks(state) -> dict[str, str]:
    return {mark["mark"]: mark["why"] for mark in state["marks"]}


def down(group: Fleet, *members: str) -> None:
    group.kill(*members)


def test_pending_before_anything_runs():
    state = Fleet(h1=TWO).status(spec())
    assert (state["state"], state["message"]) == ("pending", "no member is running yet")


def test_running_when_each_role_has_a_ready_member_and_the_endpoint_is_registered():
    state = fleet().status(RAW)
    assert (state["state"], state["message"], marks(state)) == (
        "running",
        "",
        {"pairing_remote": marks(state)["pairing_remote"]},
    )
    assert state["roles"]["prefill"] == {"desired": 2, "ready": 2, "running": 2, "down": 0, "draining": 0, "unknown": 0}
    assert state["endpoint"]["url"] == "http://10.0.0.4:8000"


def test_partial_while_the_endpoint_is_not_registered():
    group = fleet()
    for facts in group.facts.values():
        facts["records"]["demo"]["endpoint"]["registered"] = False
    state = group.status(RAW)
    assert (state["state"], state["message"]) == ("partial", "waiting for the endpoint to be registered")


def test_partial_names_the_roles_that_are_not_ready():
    group = fleet()
    down(group, "demo-decode-0", "demo-router-0")
    state = group.status(RAW)
    assert (state["state"], state["message"]) == ("partial", "roles not ready: decode, router")


def test_running_with_one_of_two_says_that_the_ratio_is_not_met():
    group = fleet()
    down(group, "demo-prefill-1")
    state = group.status(RAW)
    assert state["state"] == "running"
    assert marks(state)["ratio_unmet"] == "prefill 1 of 2 ready"


def test_readiness_of_all_wants_all():
    group = fleet()
    down(group, "demo-prefill-1")
    state = group.status({**RAW, "readiness": "all"})
    assert (state["state"], state["message"]) == ("partial", "roles not ready: prefill")


def test_a_member_that_loads_is_not_ready():
    group = fleet()
    group.live("demo-decode-0")["ready"] = False
    state = group.status(RAW)
    assert state["state"] == "partial"
    assert [m["state"] for m in state["members"] if m["role"] == "decode"] == ["loading"]


def test_error_when_all_have_failed():
    group = fleet()
    down(group, "demo-prefill-0", "demo-prefill-1", "demo-decode-0", "demo-router-0")
    state = group.status(RAW)
    assert (state["state"], state["message"]) == ("error", "4/4 members failed")
    assert state["members"][0]["why"] == "exit code 137"


def test_a_silent_host_is_unknown():
    group = fleet()
    group.silent = {"h2"}
    state = group.status(RAW)
    assert state["state"] == "running"
    assert state["roles"]["prefill"]["unknown"] == 1
    assert "demo-prefill-1" in marks(state)["members_unknown"]
    assert [m["state"] for m in state["members"] if m["id"] == "demo-prefill-1"] == ["unknown"]


def test_pending_configuration_with_its_diff():
    state = fleet().status({**RAW, "kv_lease": 90})
    assert state["pending"] is True
    assert state["state"] == "running"
    assert state["revision"] != state["spec_revision"]
    assert any("kv_lease_duration" in line for line in state["pending_diff"])
    assert state["recipe_changed"] is False


def test_a_count_that_the_inventory_does_not_have():
    group = fleet()
    group.deploy(RAW, action="scale", counts={"prefill": 1})
    assert marks(group.status(RAW))["count_differs_from_inventory"] == "prefill runs 1, the inventory says 2"


def test_a_pairing_that_cannot_be_verified_is_named():
    raw = spec(prefill={"args": []})
    group = Fleet(h1=TWO)
    group.deploy(raw)
    (mark,) = [m for m in group.status(raw)["marks"] if m["mark"] == "pairing_unverified"]
    assert mark["factor"] == "context length"


def test_a_pair_on_one_host_is_not_remote():
    group = Fleet(h1=TWO)
    group.deploy(spec())
    assert marks(group.status(spec())) == {}


def test_the_routers_list_is_compared_with_the_members_that_run():
    group = fleet()
    assert group.status(RAW)["router"]["confirmed"] is True
    group.live("demo-router-0")["registered"] = [{"url": "http://10.0.0.1:40001"}, {"url": "http://10.9.9.9:1"}]
    router = group.status(RAW)["router"]
    assert router["confirmed"] is False
    assert router["missing"] == ["http://10.0.0.2:40001", "http://10.0.0.3:40001"]
    assert router["extra"] == ["http://10.9.9.9:1"]


def test_a_member_on_a_silent_host_is_no_surplus_in_the_routers_list():
    group = fleet()
    group.silent = {"h2"}
    assert group.status(RAW)["router"]["extra"] == []


def test_a_group_that_is_in_no_inventory_any_more():
    state = fleet().status()
    assert (state["state"], state["in_inventory"]) == ("running", False)
    assert "not_in_inventory" in marks(state)
    assert state["roles"]["prefill"]["desired"] == 2


@pytest.mark.parametrize("silent", [set(), {"h2"}, {"h1", "h2", "h3", "h4"}], ids=["all", "some", "none"])
def test_the_table_has_a_row_for_each_member(silent):
    group = fleet()
    group.silent = silent
    rows = "\n".join(status.table(group.status(RAW)))
    if len(silent) < 4:
        for member in ("demo-prefill-0", "demo-prefill-1", "demo-decode-0", "demo-router-0"):
            assert member in rows


def test_the_table_reads_like_this():
    group = fleet()
    down(group, "demo-prefill-1")
    assert status.table(group.status({**RAW, "kv_lease": 90}))[:5] == [
        "demo: RUNNING   prefill 1/2, decode 1/1, router 1/1",
        f"  endpoint http://10.0.0.4:8000   generation 1   revision {group.status(RAW)['revision']}",
        "  router   dynamic membership, 3 peers, NOT the members that run",
        "  ! ratio_unmet: prefill 1 of 2 ready",
        "  ! pairing_remote: no host runs both roles: every request's KV crosses the network",
    ]
