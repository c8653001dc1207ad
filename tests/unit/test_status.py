"""The state of a group, and what is to be known beside it."""

from __future__ import annotations

import pytest
from builders import Fleet, codes, judge, only, spec

from ansible_collections.inferops.pd.plugins.module_utils._core.facts.observed import read_host
from ansible_collections.inferops.pd.plugins.module_utils._core.report import status
from ansible_collections.inferops.pd.plugins.module_utils._core.spec.workload import CACHE

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


CONDITIONS = [
    ({"state": "running", "ready": True}, "ready"),
    ({"state": "running", "ready": False}, "loading"),
    ({"state": "running", "ready": True, "draining": True}, "draining"),
    ({"state": "restarting", "ready": False}, "restarting"),
    ({"state": "stuck", "ready": False}, "stuck"),
    ({"state": "exited", "ready": False}, "exited"),
    ({"state": "missing", "ready": False}, "missing"),
]


@pytest.mark.parametrize(("now", "told"), CONDITIONS, ids=[told for _now, told in CONDITIONS])
def test_a_member_of_a_group_and_one_of_a_cache_service_are_told_alike(now, told):
    group = fleet()
    group.live("demo-decode-0").update(now)
    (mine,) = (m for m in group.status(RAW)["members"] if m["role"] == "decode")
    label = {**group.live("demo-decode-0")["label"], "group": "store", "member": "store-cache-0", "role": "cache"}
    hosts = {"h1": read_host("h1", {"members": [{"label": label, **now}]})}
    (instance,) = status.of(status.Subject(CACHE, "store"), hosts, ())["instances"]
    assert (mine["state"], mine["ready"]) == (instance["state"], instance["ready"]) == (told, told == "ready")


def test_how_its_log_ends_is_told_after_the_reason_whatever_the_log_says():
    group = fleet()
    line = "ValueError: its log ends with: nothing"
    group.live("demo-decode-0").update(state="exited", ready=False, why="exited with status 3", log_line=line)
    (mine,) = (m for m in group.status(RAW)["members"] if m["role"] == "decode")
    assert mine["why"] == f"exited with status 3; its log ends with: {line}"


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


@pytest.mark.parametrize(
    ("gpus", "prefill", "decode", "share"),
    [(2, "h1:h2", "h3", 0.0), (2, "h1:h2", "h1", 0.5), (3, "h1", "h1", 1.0)],
)
def test_locality_is_the_share_of_pairs_on_one_host(gpus, prefill, decode, share):
    group = Fleet(h1={"gpus": gpus}, h2={"gpus": 1}, h3={"gpus": 1})
    raw = spec(prefill={"hosts": prefill, "replicas": 2}, decode={"hosts": decode})
    raw["roles"]["prefill"]["gpus"] = 1
    group.apply(group.plan(raw))
    state = group.status(raw)
    assert state["locality"] == share
    assert ("pairing_remote" in marks(state)) is (share == 0)
    assert any("on one host" in line for line in status.table(state)) is (0 < share < 1)


def test_locality_is_told_of_no_pair():
    assert Fleet(h1=TWO).status(spec())["locality"] is None


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


def test_status_says_why_the_endpoint_waits():
    group = fleet()
    for facts in group.facts.values():
        endpoint = facts["records"]["demo"]["endpoint"]
        endpoint |= {"registered": False, "why": "p0 -> d0: 500 'Internal\x1b[2J Server Error'"}
    state = group.status(RAW)
    assert state["message"] == ("waiting for the endpoint to be registered: p0 -> d0: 500 'Internal Server Error'")


# -- marks that come from what runs -----------------------------------------------------------------------------------


def test_a_router_that_was_started_again_has_forgotten_its_peers():
    group = fleet()
    group.live("demo-router-0").update(registered=[], restarts=1)
    state = group.status(RAW)
    assert (state["state"], state["message"]) == (
        "partial",
        "the endpoint is registered, and its router has no confirmed peers",
    )
    assert "started again by its runtime (1x)" in marks(state)["router_forgot_peers"]
    made = group.plan(RAW)
    assert "demo-router-0 has no prefill and no decode member" in only(made.findings, "router-forgot-peers").message
    assert "has forgotten its peers" in made.router["why"]
    assert len(made.router["add"]) == 3


def test_a_member_whose_log_doubts_its_answers_is_marked():
    group = fleet()
    line = "RuntimeError: Mooncake transfer failed, ret: -1"
    told = {
        "name": "kv transfer failed",
        "meaning": "a KV cache did not arrive",
        "advice": "Restart.",
        "line": line,
        "count": 3,
    }
    group.live("demo-decode-0")["doubt"] = told
    state = group.status(RAW)
    assert state["state"] == "running"
    why = marks(state)["answers_doubtful"]
    assert why == f"demo-decode-0: a KV cache did not arrive. Its log has 3 lines of it, the last: {line}. Restart."
    down(group, "demo-decode-0")
    assert "answers_doubtful" not in marks(group.status(RAW))


def test_a_router_whose_list_cannot_be_read_is_not_known_to_serve():
    """It answers, and nobody can say whom it reaches: neither that they are not the members, nor that they are."""
    group = fleet()
    why = "Reading the router's registry: GET http://10.0.0.9:8000/workers answered 500 'lock poisoned'"
    group.live("demo-router-0").update(registered=None, registered_why=why)
    state = group.status(RAW)
    assert (state["state"], state["message"]) == ("partial", "unknown which members its router reaches")
    told = marks(state)
    assert why in told["router_peers_unknown"]
    assert "router_forgot_peers" not in told
    assert (state["router"]["peers"], state["router"]["confirmed"]) == (None, None)
    lines = status.table(state)
    assert "  router   dynamic membership, its peers are unknown" in lines
    assert not [line for line in lines if "NOT the members" in line]


def test_a_router_with_its_peers_on_its_command_line_needs_no_list():
    group = fleet()
    group.live("demo-router-0").update(registered=None, registered_why="x")
    group.live("demo-router-0")["label"]["policy"] = "restart"
    assert "router_peers_unknown" not in marks(group.status(RAW))


def test_a_registry_that_lacks_one_of_two_is_not_forgotten():
    group = fleet()
    group.live("demo-router-0")["registered"] = [{"url": "http://10.0.0.1:40001"}, {"url": "http://10.0.0.3:40001"}]
    state = group.status(RAW)
    assert state["state"] == "running"
    assert "router_forgot_peers" not in marks(state)


def test_a_member_that_runs_without_its_cache():
    group = fleet()
    cache = {"provider": "LMCache", "service": "kv1", "injected": False, "why": "no instance runs on h1"}
    group.live("demo-prefill-0")["label"]["cache"] = cache
    group.live("demo-prefill-1")["label"]["cache"] = {**cache, "injected": True}
    assert marks(group.status(RAW))["cache_not_injected"] == (
        "demo-prefill-0 runs without its cache (LMCache kv1): no instance runs on h1"
    )


@pytest.mark.parametrize(("version", "marked"), [("0.28.0", 0), ("0.23.0", 2)])
def test_a_version_below_the_modes_is_marked_and_one_below_a_caches_is_not(version, marked):
    raw = spec(mode="vllm-mooncake", engine={"args": [], "version": version})
    raw["kv_cache"] = {"provider": "mooncake", "service": "10.0.0.9:50051"}
    found = Fleet(h1={"gpus": 2}).status(raw)["marks"]
    assert "kv-cache-version-below-floor" in codes(judge(raw).findings)
    assert len([m for m in found if m["mark"] == "version_below_floor"]) == marked


def test_host_values_that_changed_are_marked_and_nothing_is_pending():
    group = fleet()
    group.facts["h1"]["kv_interface"]["address"] = "10.9.0.1"
    group.facts["h3"]["gpus"] = [{"id": "GPU-9-0", "model": "H100", "vendor": "nvidia"}]
    state = group.status(RAW)
    told = [mark["why"] for mark in state["marks"] if mark["mark"] == "host_changed"]
    assert told == [
        "h1: address of the KV interface 10.1.0.1 -> 10.9.0.1, since demo-prefill-0 was started; applied by a restart",
        "h3: GPU GPU-3-0 is not there any more, since demo-decode-0 was started; applied by a restart",
    ]
    assert state["pending"] is False


# GPUs of the prefills, of the decode, whether prefill writes its size, whether the mark is there.
WIDTHS = [([1, 1], 1, False, False), ([2, 1], 1, False, True), ([1, 1], 2, False, False), ([2, 2], 1, True, False)]


@pytest.mark.parametrize(("prefills", "decode", "written", "marked"), WIDTHS)
def test_tensor_parallelism_on_the_gpus_that_members_got(prefills, decode, written, marked):
    sizes = {"args": ["--tensor-parallel-size=1", "--max-model-len=32768"]}
    raw = spec(
        prefill={"hosts": "h1:h2", "replicas": 2, **(sizes if written else {})},
        decode={"hosts": "h3", **(sizes if written else {})},
        router={"hosts": "h4"},
    )
    group = Fleet(h1=TWO, h2=TWO, h3=TWO, h4={})
    group.deploy(raw)
    for index, count in enumerate(prefills):
        group.live(f"demo-prefill-{index}")["label"]["gpus"] = [f"GPU-{index + 1}-{i}" for i in range(count)]
    group.live("demo-decode-0")["label"]["gpus"] = [f"GPU-3-{i}" for i in range(decode)]
    found = marks(group.status(raw))
    assert ("pairing_tp_misplaced" in found) is marked
    if marked:
        assert "demo-prefill-0 runs on 2 GPUs and demo-decode-0 on 1" in found["pairing_tp_misplaced"]


def test_every_mark_is_in_the_table_and_in_the_data():
    group = fleet()
    group.live("demo-prefill-0")["label"]["cache"] = {"injected": False, "why": "it is down"}
    state = group.status(RAW)
    table = "\n".join(status.table(state))
    for mark in state["marks"]:
        assert f"! {mark['mark']}: {mark['why']}" in table
