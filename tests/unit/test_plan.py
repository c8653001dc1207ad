"""The plan: what a run would do, decided once. Each test deploys a group on a fleet in memory, changes something, and plans again."""

from __future__ import annotations

import json
import os
import re

import memory
import pytest
from builders import ENGINE, MODEL, ROUTER, RUN, UNIT, Fleet, Made, as_not_rendered, mode, nixl_mode, only, spec

TWO = {"gpus": 2}


def two_hosts(prefill: int = 2, decode: int = 1, **changes):
    """Prefill on h1 and h2, decode on h3, the router on h4."""
    return spec(
        prefill={"hosts": "h1:h2", "replicas": prefill, **changes.pop("prefill_", {})},
        decode={"hosts": "h3", "replicas": decode, **changes.pop("decode_", {})},
        router={"hosts": "h4", **changes.pop("router_", {})},
        **changes,
    )


def fleet(**more) -> Fleet:
    return Fleet(h1=TWO, h2=TWO, h3={"gpus": 4}, h4={}, **more)


def deployed(raw=None, **more) -> Fleet:
    made = fleet(**more)
    made.deploy(raw or two_hosts())
    return made


ALL = ["demo-decode-0", "demo-prefill-0", "demo-prefill-1", "demo-router-0"]
EDITED = {"decode_": {"extra_args": ["--max-num-seqs=64"]}}

# -- a new group ------------------------------------------------------------------------------------------------------


def test_a_new_group_starts_all_engines_then_the_router_then_the_endpoint():
    made = fleet().plan(two_hosts())
    assert made.errors == []
    assert made.steps() == [
        ("start", "create", "demo-prefill-0"),
        ("start", "create", "demo-prefill-1"),
        ("start", "create", "demo-decode-0"),
        ("router", "create", "demo-router-0"),
        ("register", "register", "demo-router-0"),
        ("endpoint", "write", None),
    ]
    assert (made.plan["generation"], made.plan["pending"], made.plan["changed"]) == (1, False, True)


def test_each_member_has_its_own_addresses_and_ports():
    made = fleet().plan(two_hosts())
    part = made.part("demo-prefill-1")
    member = made.members["demo-prefill-1"]
    assert (member["url"], member["kv_address"]) == ("http://10.0.0.2:40001", "10.1.0.2")
    assert part["env"]["VLLM_NIXL_SIDE_CHANNEL_HOST"] == "10.1.0.2"
    assert part["env"]["VLLM_NIXL_SIDE_CHANNEL_PORT"] == "40000"
    assert "--host=10.0.0.2" in part["argv"]
    assert "--port=40001" in part["argv"]
    assert not [text for text in [*part["argv"], *part["env"].values()] if "${" in text]


def test_the_router_needs_no_kv_interface():
    made = Fleet(h1=TWO, h2={"kv_interface": {"error": "two candidates: eth1, eth2"}}).plan(
        spec(router={"hosts": "h2"})
    )
    assert made.errors == []
    assert made.members["demo-router-0"]["kv_address"] is None


def test_rdma_devices_stand_before_the_interface():
    """A netdev name alone would keep UCX off RDMA."""
    kv = {"names": ["eth2"], "address": "10.1.0.1", "rdma_devices": ["mlx5_0:1"]}
    made = Fleet(h1={"gpus": 2, "kv_interface": kv}).plan(spec())
    assert made.part("demo-decode-0")["env"]["UCX_NET_DEVICES"] == "mlx5_0:1,eth2"


def test_an_ipv6_address_is_bracketed_in_urls_and_bare_in_flags():
    kv = {"names": ["eth1"], "address": "fd00::1", "rdma_devices": []}
    made = Fleet(h1={"gpus": 2, "address": "2001:db8::1", "kv_interface": kv}).plan(spec())
    assert made.members["demo-router-0"]["url"] == "http://[2001:db8::1]:8000"
    assert "--host=2001:db8::1" in made.part("demo-prefill-0")["argv"]


def test_no_proxy_names_every_address_of_the_group():
    env = fleet().plan(two_hosts()).part("demo-router-0")["env"]
    assert env["NO_PROXY"] == env["no_proxy"]
    for number in range(1, 5):
        assert f"10.0.0.{number}" in env["NO_PROXY"].split(",")


def test_no_proxy_of_a_large_group_names_networks():
    hosts = {f"h{i}": {"gpus": 2} for i in range(1, 41)}
    pattern = ":".join(hosts)
    made = Fleet(**hosts).plan(
        spec(prefill={"hosts": pattern, "replicas": 40}, decode={"hosts": pattern, "replicas": 40})
    )
    assert made.part("demo-router-0")["env"]["NO_PROXY"] == "localhost,127.0.0.1,10.0.0.0/24,10.1.0.0/24"


def test_peers_are_prefills_first_each_by_address_and_port():
    peers = fleet().plan(two_hosts(decode=2)).router["peers"]
    assert [(p["role"], p["url"]) for p in peers] == [
        ("prefill", "http://10.0.0.1:40001"),
        ("prefill", "http://10.0.0.2:40001"),
        ("decode", "http://10.0.0.3:40001"),
        ("decode", "http://10.0.0.3:40003"),
    ]


def test_a_plan_is_json():
    made = fleet().plan(two_hosts())
    assert json.loads(json.dumps(made.plan)) == made.plan


def test_the_slice_of_each_host():
    hosts = fleet().plan(two_hosts()).plan["hosts"]
    assert {name: part["create"] for name, part in hosts.items()} == {
        "h1": ["demo-prefill-0"],
        "h2": ["demo-prefill-1"],
        "h3": ["demo-decode-0"],
        "h4": ["demo-router-0"],
    }
    assert all(part["present"] == part["create"] and part["absent"] == [] for part in hosts.values())
    assert all(part["observed"] for part in hosts.values())


def test_a_probe_knows_what_the_member_must_listen_on():
    probe = fleet().plan(two_hosts()).members["demo-prefill-0"]["probe"]
    assert (probe["url"], probe["health"], probe["limit"]) == ("http://10.0.0.1:40001", "/health", 1800)
    assert probe["listening"] == [{"name": "http", "port": 40001}, {"name": "kv_side_channel", "port": 40000}]


# -- what each host must have -----------------------------------------------------------------------------------------

HOST_ERRORS = {
    "model-missing": {"models": {MODEL: {"exists": False}}},
    "executable-missing": {"executables": {ROUTER: {"exists": True}}},
    "runtime-missing": {"runtimes": {"supervisor": {"available": False, "why": "supervisord is not installed"}}},
    "kv-interface": {"kv_interface": {"error": "two candidates: eth1, eth2"}},
}


@pytest.mark.parametrize("code", HOST_ERRORS)
def test_what_a_host_lacks_is_told_with_its_name(code):
    made = fleet()
    made.facts["h2"].update(HOST_ERRORS[code])
    found = only(made.plan(two_hosts()).findings.errors, code)
    assert found.host == "h2"
    assert "h2" in found.message
    assert found.hint


def test_ports_that_the_kernel_may_give_to_a_client_are_a_warning():
    made = fleet()
    made.facts["h2"]["ports"].update(exposed=64, ephemeral=[32768, 60999])
    found = only(made.plan(two_hosts()).findings, "ports-ephemeral")
    assert (found.severity, found.host) == ("warning", "h2")
    assert "pd_reserve_ports=true" in found.hint
    assert "40000-40063" in found.message


def test_a_host_without_an_address():
    made = fleet()
    made.facts["h2"]["address"] = None
    assert "no-address" in made.plan(two_hosts()).errors


def test_two_versions_of_a_model():
    made = fleet()
    made.facts["h3"]["models"] = {MODEL: {"exists": True, "fingerprint": "other"}}
    found = only(made.plan(two_hosts()).findings.errors, "model-differs")
    assert "abc123 on h1, h2" in found.message
    assert "other on h3" in found.message


def test_two_versions_of_the_engine():
    """The handshake covers the engine's version, which the hosts know even where the spec does not say it."""
    made = fleet()
    made.facts["h3"]["executables"] = {ENGINE: {"exists": True, "version": "0.31.0"}}
    found = only(made.plan(two_hosts()).findings.errors, "pairing-engine-version")
    assert "0.31.0" in found.message
    assert "0.32.0" in found.message


def test_an_engine_whose_version_cannot_be_read():
    made = fleet()
    made.facts["h3"]["executables"] = {ENGINE: {"exists": True, "version": None}}
    found = only(made.plan(two_hosts()).findings, "identity-unverified")
    assert found.severity == "unverified"
    assert "decode on h3" in found.message


def test_a_model_without_a_fingerprint():
    made = fleet()
    made.facts["h3"]["models"] = {MODEL: {"exists": True, "fingerprint": None}}
    found = only(made.plan(two_hosts()).findings, "identity-unverified")
    assert found.severity == "unverified"
    assert "on h3" in found.message


def test_two_models_of_gpus():
    made = fleet()
    made.facts["h3"]["gpus"] = [{"id": f"G{i}", "model": "A100", "vendor": "nvidia"} for i in range(4)]
    assert made.plan(two_hosts()).errors == ["gpu-models-differ"]


def test_loopback_will_do_on_one_host():
    lo = {"names": ["lo"], "address": "127.0.0.1", "rdma_devices": []}
    assert Fleet(h1={"gpus": 2, "kv_interface": lo}).plan(spec()).errors == []


LO = {"names": ["lo"], "address": "127.0.0.1", "rdma_devices": []}


def test_loopback_will_not_do_on_several():
    made = Fleet(h1={"gpus": 1, "kv_interface": LO}, h2=TWO).plan(spec(decode={"hosts": "h2"}))
    assert only(made.findings, "kv-interface").host == "h1"


def test_loopback_will_not_do_for_a_member_that_joins_others_elsewhere():
    made = Fleet(h1=TWO, h2={"gpus": 1, "kv_interface": LO})
    made.deploy(spec())
    raw = spec(prefill={"hosts": "h2:h1", "replicas": 2})
    assert only(made.plan(raw).findings, "kv-interface").host == "h2"


# -- the same again ---------------------------------------------------------------------------------------------------


def test_an_unchanged_spec_changes_nothing():
    made = deployed().plan(two_hosts())
    assert made.codes == []
    assert (made.plan["changed"], made.plan["steps"], made.router["step"]) == (False, [], "none")
    assert made.plan["diff"] == []
    assert all(part["create"] == [] and part["absent"] == [] for part in made.plan["hosts"].values())


@pytest.mark.parametrize(
    "router", [{"membership": "dynamic"}, {"membership": "restart"}, {"command": ["/opt/router"]}], ids=str
)
def test_an_unchanged_spec_changes_nothing_under_any_membership(router):
    raw = two_hosts(router_=router)
    assert deployed(raw).plan(raw).plan["changed"] is False


def test_counts_as_text_are_the_same_counts():
    assert deployed(two_hosts(prefill=2)).plan(two_hosts(prefill="2")).plan["changed"] is False


def test_a_plan_is_a_function_of_what_goes_in():
    made = deployed()
    assert made.plan(two_hosts(**EDITED), run=RUN).plan == made.plan(two_hosts(**EDITED), run=RUN).plan


# -- counts -----------------------------------------------------------------------------------------------------------


def test_more_replicas_add_members_and_leave_the_others_alone():
    made = deployed().plan(two_hosts(prefill=3, decode=2))
    assert made.errors == []
    assert made.who("create") == ["demo-decode-1", "demo-prefill-2"]
    assert made.plan["generation"] == 1
    assert made.router["step"] == "register"
    assert sorted(peer["url"] for peer in made.router["add"]) == ["http://10.0.0.1:40003", "http://10.0.0.3:40003"]
    assert not [name for part in made.plan["hosts"].values() for name in part["absent"]]


def test_deploy_does_not_lower_a_count_unasked():
    made = deployed().plan(two_hosts(prefill=1))
    assert made.steps() == []
    found = only(made.findings, "count-differs-from-inventory")
    assert found.severity == "warning"
    assert "prefill: 2 replicas, the inventory says 1" in found.message
    assert "pd_allow_scale_down" in found.hint


def test_deploy_lowers_a_count_when_told():
    made = deployed().plan(two_hosts(prefill=1), allow_scale_down=True)
    assert made.steps() == [
        ("leave", "deregister", "demo-router-0"),
        ("stop", "remove", "demo-prefill-1"),
        ("endpoint", "write", None),
    ]
    assert made.router["remove"] == ["http://10.0.0.2:40001"]


def test_the_member_that_does_not_answer_leaves_first():
    group = deployed()
    group.live("demo-prefill-0")["ready"] = False
    assert group.plan(two_hosts(prefill=1), allow_scale_down=True).who("remove") == ["demo-prefill-0"]


def test_scale_asks_for_counts_and_says_that_the_inventory_has_others():
    made = deployed().plan(two_hosts(), "scale", counts={"prefill": 3})
    assert made.who("create") == ["demo-prefill-2"]
    assert made.plan["desired"] == {"prefill": 3, "decode": 1}
    assert only(made.findings, "count-differs-from-inventory").roles == ("prefill",)


def test_scale_to_the_counts_that_run_changes_nothing():
    assert deployed().plan(two_hosts(), "scale", counts={"prefill": 2, "decode": 1}).plan["changed"] is False


def test_scale_of_one_role_leaves_the_other_as_it_was_scaled_before():
    group = deployed()
    group.deploy(two_hosts(), action="scale", counts={"decode": 2})
    made = group.plan(two_hosts(), "scale", counts={"prefill": 1})
    assert made.plan["desired"] == {"prefill": 1, "decode": 2}
    assert made.who("remove") == ["demo-prefill-1"]


def test_a_scaled_group_stays_scaled_when_deployed_again():
    group = deployed()
    group.deploy(two_hosts(), action="scale", counts={"prefill": 3})
    made = group.plan(two_hosts())
    assert made.steps() == []
    assert made.plan["desired"]["prefill"] == 3


def test_a_scaled_group_stays_scaled_when_one_of_its_members_is_down():
    """A crash is no permission to lower the count: that takes pd_allow_scale_down."""
    group = deployed()
    group.deploy(two_hosts(), action="scale", counts={"prefill": 3})
    group.kill("demo-prefill-2")
    made = group.plan(two_hosts())
    assert made.plan["desired"]["prefill"] == 3
    assert made.who("replace") == ["demo-prefill-2"]


def test_scaling_does_not_make_a_member_of_an_index_that_is_still_there():
    group = deployed(two_hosts(prefill=3))
    group.forget("demo-prefill-1")
    made = group.plan(two_hosts(prefill=4))
    assert made.who("create") == ["demo-prefill-1", "demo-prefill-3"]


# -- pending configuration --------------------------------------------------------------------------------------------


def test_an_edited_spec_restarts_nothing_and_is_shown():
    made = deployed().plan(two_hosts(**EDITED))
    assert (made.plan["pending"], made.steps(), made.errors) == (True, [], [])
    found = only(made.findings, "pending-configuration")
    assert found.severity == "warning"
    assert "decode args: --max-num-seqs=64 added" in found.message
    assert "inferops.pd.restart -e pd_group=demo" in found.hint
    assert "~ decode args: --max-num-seqs=64 added" in made.text


def test_editing_back_clears_it():
    group = deployed()
    group.deploy(two_hosts(**EDITED))
    made = group.plan(two_hosts())
    assert (made.plan["pending"], made.plan["changed"], made.codes) == (False, False, [])


def test_members_that_run_keep_what_they_were_started_as():
    group = deployed()
    old = group.plan(two_hosts()).plan["revision"]
    made = group.plan(two_hosts(**EDITED))
    assert {member["revision"] for member in made.plan["members"]} == {old}
    assert made.plan["revision"] != old
    assert made.plan["record"]["revision"] == old


def test_pending_refuses_growth():
    made = deployed().plan(two_hosts(**EDITED), "scale", counts={"prefill": 3})
    found = only(made.findings.errors, "pending-no-growth")
    assert found.roles == ("prefill",)
    assert "1 more" in found.message
    assert made.who("create") == []


def test_a_deploy_says_that_growth_waits_for_the_restart():
    """An edit and a higher count in one commit: the deploy shows what is pending, and ends well."""
    made = deployed().plan(two_hosts(prefill=3, **EDITED))
    assert (made.errors, made.plan["changed"], made.plan["steps"]) == ([], False, [])
    assert only(made.findings, "pending-no-growth").severity == "warning"
    assert made.plan["desired"] == {"prefill": 2, "decode": 1}


def test_a_member_that_is_gone_is_no_growth_while_pending():
    group = as_not_rendered(deployed())
    group.silent = {"h2"}
    made = group.plan(two_hosts(**EDITED), lost=["h2"])
    assert made.errors == []
    assert "demo-prefill-1 is gone" in only(made.findings, "member-not-replaced").message
    assert made.who("deregister")


def test_pending_applies_a_lower_count():
    made = deployed().plan(two_hosts(**EDITED), "scale", counts={"prefill": 1})
    assert made.errors == []
    assert made.who("remove") == ["demo-prefill-1"]


def test_pending_does_not_replace_what_is_lost_where_nobody_knows_what_it_was():
    group = as_not_rendered(deployed())
    group.kill("demo-prefill-1")
    made = group.plan(two_hosts(**EDITED))
    assert made.errors == []
    assert made.who("replace") == []
    found = only(made.findings, "member-not-replaced")
    assert "demo-prefill-1 is down (exit code 137)" in found.message


def test_pending_does_not_replace_a_lost_router_that_nobody_knows_and_says_so():
    group = as_not_rendered(deployed())
    group.kill("demo-router-0")
    made = group.plan(two_hosts(**EDITED))
    assert made.who("replace") == made.who("create") == []
    assert "demo-router-0" in only(made.findings, "member-not-replaced").message


def test_pending_does_not_rebuild_a_router_of_restart_membership():
    """It would be built from the new spec, in front of members of the old one."""
    router = {"router_": {"membership": "restart"}}
    group = as_not_rendered(deployed(two_hosts(**router)))
    group.kill("demo-prefill-1")
    made = group.plan(two_hosts(**router, **EDITED))
    assert made.router["step"] == "none"
    assert made.steps() == []


def test_pending_still_registers_at_a_router_of_dynamic_membership():
    group = deployed()
    group.live("demo-router-0")["registered"] = []
    assert group.plan(two_hosts(**EDITED)).router["step"] == "register"


def test_another_spelling_that_is_pending_says_what_is_different():
    group = deployed(two_hosts(decode_={"extra_args": ["--seed=1 --max-num-seqs=64"]}))
    made = group.plan(two_hosts(decode_={"extra_args": ["--max-num-seqs 64", "--seed 1"]}))
    if made.plan["pending"]:
        assert "~ decode" in made.text


def test_an_upgrade_of_the_recipe_alone_is_told_as_such():
    old, new = mode("own"), mode("own", role_arguments={"decode": ["--new-flag"]})
    raw = two_hosts(mode="own")
    group = deployed(raw, modes=[old])
    group.modes = (new,)
    found = only(group.plan(raw).findings, "pending-configuration")
    assert "the recipe has changed with the collection" in found.message
    assert "decode args: --new-flag=(set) added" in found.message


def test_a_group_of_which_nothing_runs_forms_on_the_current_spec():
    group = deployed()
    group.kill(*ALL)
    made = group.plan(two_hosts(**EDITED))
    assert (made.plan["pending"], made.plan["generation"]) == (False, 2)
    assert (made.who("remove"), made.who("create")) == (ALL, ALL), "all of it has stopped before anything starts"


# -- restart and remove -----------------------------------------------------------------------------------------------


def test_a_restart_stops_everything_before_it_starts_anything():
    made = deployed().plan(two_hosts(**EDITED), "restart")
    assert made.errors == []
    phases = [phase for phase, do, _member in made.steps() if do != "write"]
    assert phases == [
        "router_stop",
        "router_stop",
        "stop",
        "stop",
        "stop",
        "start",
        "start",
        "start",
        "router",
        "register",
    ]
    assert made.who("remove") == made.who("create") == ALL
    assert (made.plan["generation"], made.plan["pending"]) == (2, False)
    assert "~ decode args: --max-num-seqs=64 added" in made.text


def test_a_restart_of_an_unchanged_group_restarts_it():
    made = deployed().plan(two_hosts(), "restart")
    assert made.plan["changed"] is True
    assert made.who("create") == ALL


def test_after_a_restart_nothing_is_pending():
    group = deployed()
    group.deploy(two_hosts(**EDITED), action="restart")
    assert group.plan(two_hosts(**EDITED)).plan["changed"] is False
    assert {m["label"]["generation"] for f in group.facts.values() for m in f["members"]} == {2}


def test_a_restart_starts_the_count_that_pending_has_refused():
    group = deployed()
    made = group.plan(two_hosts(prefill=3, **EDITED), "restart")
    assert made.plan["desired"]["prefill"] == 3
    assert made.who("create") == [*ALL[:3], "demo-prefill-2", "demo-router-0"]


def test_a_restart_keeps_a_scaled_count():
    group = deployed()
    group.deploy(two_hosts(), action="scale", counts={"prefill": 3})
    assert group.plan(two_hosts(), "restart").plan["desired"]["prefill"] == 3


def test_the_endpoint_is_deregistered_first_on_restart_and_remove():
    """Clients must not be sent to a router that is about to go."""
    for action in ("restart", "remove"):
        assert deployed().plan(two_hosts(), action).steps()[0] == ("router_stop", "deregister", None), action


def test_remove_stops_the_router_and_then_the_engines():
    made = deployed().plan(two_hosts(), "remove")
    assert made.errors == []
    stopped = [member for _phase, do, member in made.steps() if do == "remove" and member]
    assert stopped[0] == "demo-router-0"
    assert sorted(stopped) == ALL
    assert made.plan["members"] == []
    assert made.router["step"] == "none"


def test_remove_of_what_is_not_there_changes_nothing():
    assert fleet().plan(two_hosts(), "remove").plan["changed"] is False


def test_remove_takes_dead_members_and_left_over_records_along():
    group = deployed()
    group.kill("demo-prefill-0")
    assert sorted(group.plan(two_hosts(), "remove").plan["hosts"]["h1"]["absent"]) == ["demo-prefill-0"]
    for member in ALL:
        group.forget(member)
    made = group.plan(two_hosts(), "remove")
    assert sorted(made.plan["hosts"]) == ["h1", "h2", "h3", "h4"]
    assert made.plan["changed"] is True


def test_a_removed_group_can_be_deployed_again():
    group = deployed()
    group.apply(group.plan(two_hosts(), "remove"))
    assert group.plan(two_hosts()).who("create") == ALL


# -- members that are down --------------------------------------------------------------------------------------------


def test_a_dead_member_is_replaced_at_its_place():
    group = deployed()
    before = group.plan(two_hosts()).places()
    group.kill("demo-prefill-1")
    made = group.plan(two_hosts())
    # It gets no request while it loads: out of the router first, and in again.
    assert made.steps() == [
        ("leave", "deregister", "demo-router-0"),
        ("start", "replace", "demo-prefill-1"),
        ("register", "register", "demo-router-0"),
        ("endpoint", "write", None),
    ]
    assert made.places() == before
    assert made.plan["generation"] == 1
    assert made.router["remove"] == [made.members["demo-prefill-1"]["url"]]


def test_a_dead_member_keeps_its_ports_and_gpus_although_lower_ones_are_free():
    group = Fleet(h1={"gpus": 4})
    group.deploy(spec(prefill={"replicas": 3}))
    before = group.plan(spec(prefill={"replicas": 3})).places()["demo-prefill-2"]
    group.forget("demo-prefill-0")
    group.kill("demo-prefill-2")
    assert group.plan(spec(prefill={"replicas": 3})).places()["demo-prefill-2"] == before


def test_a_dead_member_gets_other_ports_when_a_stranger_has_taken_its_own():
    group = deployed()
    group.kill("demo-prefill-1")
    group.facts["h2"]["ports"]["used"] = [{"port": 40001, "command": "nginx", "pid": 7}]
    made = group.plan(two_hosts())
    assert made.errors == []
    assert made.part("demo-prefill-1")["port"] != 40001
    assert made.router["step"] == "register"


def test_a_dead_member_moves_when_its_host_has_left_the_pattern():
    group = deployed(two_hosts(prefill=1))
    group.kill("demo-prefill-0")
    made = group.plan(two_hosts(prefill=1, prefill_={"hosts": "h2"}))
    assert made.part("demo-prefill-0")["host"] == "h2"
    assert made.plan["hosts"]["h1"]["absent"] == ["demo-prefill-0"]
    assert made.plan["hosts"]["h2"]["create"] == ["demo-prefill-0"]


def test_a_member_that_restarts_by_itself_is_left_alone():
    group = deployed()
    group.live("demo-prefill-1").update(state="restarting", ready=False)
    made = group.plan(two_hosts())
    assert made.plan["changed"] is False
    assert {do for _phase, do, _member in made.steps()} <= {"wait"}


def test_a_member_whose_label_is_gone_is_created_again():
    group = deployed()
    group.forget("demo-decode-0")
    assert group.plan(two_hosts()).who("create") == ["demo-decode-0"]


def test_a_dead_router_is_replaced_and_learns_its_peers():
    group = deployed()
    group.kill("demo-router-0")
    made = group.plan(two_hosts())
    assert [step[:2] for step in made.steps()] == [
        ("router", "replace"),
        ("register", "register"),
        ("endpoint", "write"),
    ]
    assert len(made.router["add"]) == 3


def test_two_routers_become_one():
    group = deployed()
    second = json.loads(json.dumps(group.live("demo-router-0")))
    second["label"].update(member="demo-router-1", index=1, port=8001)
    group.facts["h4"]["members"].append(second)
    assert group.plan(two_hosts()).who("remove") == ["demo-router-1"]


# -- hosts that do not answer -----------------------------------------------------------------------------------------


def silent(*hosts: str, raw=None) -> Fleet:
    group = deployed(raw)
    group.silent = set(hosts)
    return group


def test_a_member_on_a_silent_host_is_unknown_and_not_lost():
    made = silent("h2").plan(two_hosts())
    assert made.errors == []
    assert made.plan["unknown"] == ["demo-prefill-1"]
    assert made.who("create") == made.who("replace") == made.who("remove") == []
    found = only(made.findings, "host-unreachable")
    assert found.severity == "warning"
    assert "h2 did not answer and may still run demo-prefill-1" in found.message
    assert "pd_lost_hosts=h2" in found.hint


def test_a_member_on_a_silent_host_stays_at_the_router():
    """That Ansible cannot reach a host does not mean that the router cannot."""
    made = silent("h2").plan(two_hosts())
    assert made.router["remove"] == []
    assert made.who("deregister") == []


def test_the_record_keeps_what_is_unknown():
    record = silent("h2").plan(two_hosts()).plan["record"]
    assert sorted(member["id"] for member in record["members"]) == ALL


@pytest.mark.parametrize("host", ["h1", "h2", "h3", "h4"])
def test_a_silent_host_and_nothing_else_to_do_is_no_change(host):
    """What is not known makes no record another one: neither peers nor addresses nor machines go from it."""
    group = silent(host)
    before = {h: dict(facts.get("records") or {}) for h, facts in group.facts.items()}
    made = group.plan(two_hosts())
    told = next(record["demo"] for record in before.values() if record)
    for key in ("members", "machines", "router"):
        assert made.plan["record"].get(key) == told.get(key)
    assert made.plan["record"]["endpoint"]["url"] == told["endpoint"]["url"]
    assert made.plan["steps"] == []
    assert made.plan["changed"] is False


@pytest.mark.parametrize("action", ["restart", "remove"])
@pytest.mark.parametrize("host", ["h2", "h4"])
def test_a_silent_host_refuses_what_stops_the_group(action, host):
    made = silent(host).plan(two_hosts(), action)
    found = only(made.findings.errors, "host-unreachable")
    assert "nothing was stopped" in found.message
    assert f"pd_lost_hosts={host}" in found.hint


def test_with_a_silent_host_nothing_dead_is_replaced():
    group = silent("h2")
    group.kill("demo-prefill-0")
    made = group.plan(two_hosts())
    assert made.who("replace") == []
    assert "a part of the group is out of reach" in only(made.findings, "member-not-replaced").message


def test_with_a_silent_host_more_replicas_are_not_forgotten_silently():
    made = silent("h2").plan(two_hosts(prefill=3))
    if not made.who("create"):
        told = " ".join(f.message for f in made.findings.items)
        assert "1 more" in told


def test_a_lower_count_never_takes_a_live_member_for_an_unknown_one():
    made = silent("h2").plan(two_hosts(), "scale", counts={"prefill": 1})
    assert made.who("remove") == []
    assert "demo-prefill-0" in made.members


def test_a_scaled_group_loses_no_live_member_while_a_host_is_silent():
    group = deployed(two_hosts(prefill=1))
    group.deploy(two_hosts(prefill=1), action="scale", counts={"prefill": 2})
    group.silent = {"h2"}
    made = group.plan(two_hosts(prefill=1))
    assert made.who("remove") == []
    assert made.plan["desired"]["prefill"] == 2


def test_a_lost_host_is_replaced_elsewhere_and_deregistered():
    group = deployed()
    group.silent = {"h2"}
    made = group.plan(two_hosts(), lost=["h2"])
    assert made.errors == []
    assert made.plan["unknown"] == []
    assert made.part("demo-prefill-1")["host"] == "h1"
    assert made.router["remove"] == ["http://10.0.0.2:40001"]
    assert [peer["url"] for peer in made.router["add"]] == ["http://10.0.0.1:40003"]


def test_a_restart_goes_on_without_a_lost_host():
    made = silent("h2").plan(two_hosts(), "restart", lost=["h2"])
    assert made.errors == []
    assert {member["parts"][0]["host"] for member in made.plan["members"]} == {"h1", "h3", "h4"}


def test_a_lost_host_that_comes_back_gives_its_member_up():
    group = deployed()
    group.silent = {"h2"}
    group.deploy(two_hosts(), lost=["h2"])
    group.silent = set()
    made = group.plan(two_hosts())
    assert made.plan["hosts"]["h2"]["absent"] == ["demo-prefill-1"]
    assert made.plan["hosts"]["h1"]["absent"] == []
    assert [member["parts"][0]["host"] for member in made.plan["members"] if member["role"] == "prefill"] == [
        "h1",
        "h1",
    ]


def test_a_host_that_left_the_inventory_is_known_from_the_record():
    group = deployed()
    del group.facts["h2"]
    made = group.plan(two_hosts(prefill_={"hosts": "h1"}))
    assert made.plan["unknown"] == ["demo-prefill-1"]
    assert "h2" in only(made.findings, "host-unreachable").message


# -- what runs is not what the spec says ------------------------------------------------------------------------------


MOVES = {
    "engine": ("engine version", "0.32.0", "0.33.0", lambda f: f["executables"][ENGINE].update(version="0.33.0")),
    "model": ("model fingerprint", "abc123", "new", lambda f: f["models"][MODEL].update(fingerprint="new")),
}


@pytest.mark.parametrize("fact", MOVES)
def test_a_new_member_of_another_reality_is_left_out_and_the_group_is_pending(fact):
    called, was, now, move = MOVES[fact]
    group = deployed(h5=TWO)
    move(group.facts["h5"])
    wanted = two_hosts(prefill=3, prefill_={"hosts": "h5"})
    made = group.plan(wanted)
    assert made.errors == []
    assert made.plan["pending"] is True
    assert made.who("create") == []
    assert "demo-prefill-2" not in made.members
    found = only(made.findings, "identity-moved")
    assert (found.severity, found.host) == ("warning", "h5")
    assert (
        f"demo-prefill-2 on h5 would run another {called} ({now}) than the members that serve ({was})" in found.message
    )
    assert "inferops.pd.restart -e pd_group=demo" in found.hint
    assert f"~ {called} on h5: {was} -> {now}" in made.text


def test_members_of_the_same_reality_come_all_the_same():
    group = deployed(h5=TWO)
    group.facts["h5"]["executables"][ENGINE]["version"] = "0.33.0"
    group.kill("demo-prefill-1")
    made = group.plan(two_hosts(prefill=3, prefill_={"hosts": "h2:h5"}))
    assert (made.who("replace"), made.who("create"), made.plan["pending"]) == (["demo-prefill-1"], [], True)


def test_scaling_up_into_another_reality_is_refused():
    group = deployed(h5=TWO)
    group.facts["h5"]["executables"][ENGINE]["version"] = "0.33.0"
    wanted = two_hosts(prefill_={"hosts": "h5"})
    assert group.plan(wanted, "scale", counts={"prefill": 3}).errors == ["identity-moved"]
    assert group.plan(wanted, "scale", counts={"prefill": 1}).errors == []


def test_a_dead_member_whose_host_has_moved_is_not_replaced():
    group = deployed()
    group.kill("demo-prefill-1")
    group.facts["h2"]["executables"][ENGINE]["version"] = "0.33.0"
    made = group.plan(two_hosts())
    assert (made.who("replace"), made.plan["pending"], made.errors) == ([], True, [])


def test_a_host_that_moved_under_a_running_member_makes_the_group_pending():
    group = deployed()
    group.facts["h2"]["executables"][ENGINE]["version"] = "0.33.0"
    made = group.plan(two_hosts())
    assert (made.plan["pending"], made.steps(), made.errors) == (True, [], [])
    assert (
        "demo-prefill-1 on h2 runs engine version 0.32.0, and its host has 0.33.0"
        in only(made.findings, "identity-moved").message
    )
    state = group.status(two_hosts())
    assert state["pending"] is True
    assert "engine version on h2: 0.32.0 -> 0.33.0" in state["pending_diff"]


def test_decode_is_not_started_anew_into_another_reality_and_neither_is_its_prefill():
    group = fleet()
    wanted = two_hosts(mode="sglang-nixl", engine={"executable": ENGINE})
    group.deploy(wanted)
    group.kill("demo-prefill-0")
    group.facts["h3"]["models"][MODEL]["fingerprint"] = "new"
    made = group.plan(wanted)
    assert (made.who("replace"), made.plan["pending"]) == ([], True)


IMAGES = [
    # what a member that runs has, what the host of the new one has, whether that is another image
    ({"digest": "sha256:a", "id": "sha256:1"}, {"exists": True, "digest": "sha256:a", "id": "sha256:1"}, False),
    ({"digest": "sha256:a", "id": "sha256:1"}, {"exists": True, "digest": None, "id": "sha256:1"}, False),
    ({"digest": "sha256:a", "id": "sha256:1"}, {"exists": True, "digest": "sha256:b", "id": "sha256:2"}, True),
    ({"digest": "sha256:a", "id": "sha256:1"}, {"exists": False, "pullable": True, "digest": "sha256:b"}, True),
    ({"digest": None, "id": "sha256:1"}, {"exists": False, "pullable": True, "digest": "sha256:a"}, False),
    ({"digest": None, "id": "sha256:1"}, {"exists": True, "digest": None, "id": "sha256:2"}, True),
]


@pytest.mark.parametrize(("runs", "there", "other"), IMAGES)
def test_an_image_is_the_same_by_its_digest_or_by_its_id(runs, there, other):
    wanted = two_hosts(runtime="docker", engine={"image": "r.example/e:1"}, prefill_={"hosts": "h5"})
    group = fleet(h5=TWO)
    for facts in group.facts.values():
        facts["images"] = {"r.example/e:1": {"exists": True, **runs}}
    group.deploy(wanted)
    for facts in group.facts.values():
        for member in facts["members"]:
            member["label"]["image"] = runs
    group.facts["h5"]["images"] = {"r.example/e:1": there}
    made = group.plan(wanted, "scale", counts={"prefill": 3})
    assert ("identity-moved" in made.codes) is other


def test_a_restart_may_change_the_engine():
    group = deployed()
    for facts in group.facts.values():
        facts["executables"][ENGINE]["version"] = "0.33.0"
    assert group.plan(two_hosts(), "restart").errors == []


# -- lines pasted back ------------------------------------------------------------------------------------------------


def test_a_port_pasted_back_from_the_plan_is_nothing():
    assert fleet().plan(two_hosts(prefill=1, prefill_={"extra_args": ["--port=40001"]})).codes == []


def test_a_port_that_is_not_the_members_own_is_refused():
    made = fleet().plan(two_hosts(prefill=1, prefill_={"extra_args": ["--port=40055"]}))
    assert "--port=40055 is not yours to set" in only(made.findings, "owned-flag").message


def test_an_address_that_is_not_the_members_own_is_refused():
    made = fleet().plan(two_hosts(decode_={"extra_args": ["--host=10.0.0.99"]}))
    assert only(made.findings, "owned-flag").roles == ("decode",)


# -- the router and its peers -----------------------------------------------------------------------------------------

RESTART = {"router_": {"membership": "restart"}}


def router_step(change, **asked):
    """What a router of restart membership does after `change`."""
    group = deployed(two_hosts(**RESTART))
    change(group)
    counts = asked.pop("counts", None)
    if counts:
        return group.plan(two_hosts(**RESTART), "scale", counts=counts)
    return group.plan(two_hosts(**RESTART, **asked))


def test_restart_membership_has_its_peers_on_the_command_line():
    argv = fleet().plan(two_hosts(**RESTART)).part("demo-router-0")["argv"]
    assert argv[-6:] == [
        "--prefill",
        "http://10.0.0.1:40001",
        "--prefill",
        "http://10.0.0.2:40001",
        "--decode",
        "http://10.0.0.3:40001",
    ]


def test_restart_membership_without_a_change():
    assert router_step(lambda group: None).router["step"] == "none"


def test_restart_membership_when_a_peer_leaves_replaces_the_router_before_the_peer_stops():
    made = router_step(lambda group: None, counts={"prefill": 1})
    assert made.steps()[:2] == [("leave", "replace", "demo-router-0"), ("stop", "remove", "demo-prefill-1")]
    assert "http://10.0.0.2:40001" not in made.part("demo-router-0")["argv"]


def test_restart_membership_when_a_peer_comes_replaces_the_router_after_it_has_started():
    made = router_step(lambda group: None, counts={"prefill": 3})
    assert [step[:2] for step in made.steps()] == [("start", "create"), ("router", "replace"), ("endpoint", "write")]


def test_restart_membership_when_a_peer_is_replaced_at_the_same_address():
    made = router_step(lambda group: group.kill("demo-prefill-1"))
    assert made.router["step"] == "replace"
    assert made.steps()[:3] == [
        ("leave", "replace", "demo-router-0"),  # without it
        ("start", "replace", "demo-prefill-1"),
        ("router", "replace", "demo-router-0"),  # with its successor
    ]


def test_restart_membership_of_a_router_without_a_snapshot():
    made = router_step(lambda group: group.live("demo-router-0")["label"].pop("peers"))
    assert made.router["step"] == "replace"
    assert "no snapshot" in made.router["why"]


def test_restart_membership_never_builds_a_router_without_peers_of_a_role():
    """An empty list of prefills or decodes is a router that answers nothing: wait instead."""

    def lose_decode(group):
        group.kill("demo-decode-0")
        group.silent = {"h2"}  # so that nothing is replaced

    assert router_step(lose_decode).router["step"] == "none"


def test_restart_membership_after_the_replacement_has_nothing_left_to_do():
    group = deployed(two_hosts(**RESTART))
    group.deploy(two_hosts(**RESTART), action="scale", counts={"prefill": 3})
    assert group.plan(two_hosts(**RESTART)).router["step"] == "none"


def test_dynamic_membership_registers_what_is_missing_and_removes_what_is_extra():
    group = deployed()
    group.live("demo-router-0")["registered"] = [{"url": "http://10.0.0.1:40001"}, {"url": "http://10.9.9.9:1"}]
    made = group.plan(two_hosts())
    assert made.router["step"] == "register"
    assert made.router["remove"] == ["http://10.9.9.9:1"]
    assert sorted(p["url"] for p in made.router["add"]) == ["http://10.0.0.2:40001", "http://10.0.0.3:40001"]
    assert made.plan["changed"] is True


def test_dynamic_membership_with_a_registry_that_cannot_be_read_registers_all():
    group = deployed()
    group.live("demo-router-0")["registered"] = None
    made = group.plan(two_hosts())
    assert (made.router["step"], len(made.router["add"])) == ("register", 3)
    assert "could not be read" in made.router["why"]


def test_dynamic_membership_takes_the_leaving_member_out_before_it_stops():
    made = deployed().plan(two_hosts(), "scale", counts={"prefill": 1})
    phases = [phase for phase, _do, _member in made.steps()]
    assert phases == ["leave", "stop", "endpoint"]


def test_manual_membership_leaves_the_peers_to_the_operator():
    raw = two_hosts(router_={"command": ["/opt/router"]})
    group = deployed(raw)
    made = group.plan(raw, "scale", counts={"prefill": 3})
    assert made.router["step"] == "operator"
    assert "yours" in made.router["why"] or "operator" in made.router["why"]
    assert made.who("register") == []
    assert group.plan(raw).router["step"] == "none"


def test_peers_of_a_mode_may_use_every_placeholder_of_a_peer():
    router = nixl_mode()["router"]
    router["membership"]["restart"]["peers"] = {
        "prefill": ["--prefill", "${peer.address}:${peer.port}", "${peer.ports.kv_side_channel}"],
        "decode": ["--decode=${peer.url}"],
    }
    own = mode("own", router=router)
    made = fleet(modes=[own]).plan(two_hosts(mode="own", **RESTART))
    assert made.part("demo-router-0")["argv"][-7:] == [
        "--prefill",
        "10.0.0.1:40001",
        "40000",
        "--prefill",
        "10.0.0.2:40001",
        "40000",
        "--decode=http://10.0.0.3:40001",
    ]


# -- secrets ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("action", ["deploy", "restart"])
def test_no_secret_is_in_a_plan_a_record_or_a_diff(action):
    raw = two_hosts(engine={"secrets": {"HF_TOKEN": "hf_very_secret"}})
    made = deployed(raw).plan(raw, action)
    new = fleet().plan(raw)
    for whole in (made.plan, new.plan, made.findings.to_plain()):
        assert "hf_very_secret" not in json.dumps(whole)
    assert new.part("demo-prefill-0")["secrets"] == ["HF_TOKEN"]
    assert "env HF_TOKEN=(secret)" in new.text


# -- the diff, as a person reads it -----------------------------------------------------------------------------------

GOLDEN = os.path.join(UNIT, "golden")


def golden(name: str, text: str) -> None:
    """`text` is what golden/NAME.txt says, revisions aside. PD_GOLDEN=rewrite writes the files anew, for review."""
    revisions = dict.fromkeys(re.findall(r"\b[0-9a-f]{16}\b", text))
    for number, found in enumerate(revisions, 1):
        text = text.replace(found, f"REVISION-{number}")
    path = os.path.join(GOLDEN, f"{name}.txt")
    if os.environ.get("PD_GOLDEN") == "rewrite":
        with open(path, "w", encoding="utf-8") as handle:
            handle.write(text)
    with open(path, encoding="utf-8") as handle:
        assert text == handle.read(), f"the diff has changed; if it is meant: PD_GOLDEN=rewrite pytest {__file__}"


EXAMPLE = {
    "served_model_name": "qwen3-32b",
    "engine": {
        "executable": ENGINE,
        "args": ["--max-model-len=32768", "--gpu-memory-utilization 0.9"],
        "env": {"UCX_TLS": "rc,tcp"},
        "secrets": {"HF_TOKEN": "hf_very_secret"},
    },
    "prefill": {"hosts": "gpu1:gpu2", "replicas": 2, "gpus": 4},
    "decode": {"hosts": "gpu2:gpu3", "gpus": 8, "extra_args": ["--max-num-seqs 256"]},
    "router": {"hosts": "edge", "port": 8000},
}


def example(**changes):
    return spec(**{**EXAMPLE, **changes})


def example_fleet() -> Fleet:
    rdma = {"rdma_devices": ["mlx5_0:1"], "names": ["eth2"]}
    hosts = {
        name: {"gpus": 8, "kv_interface": {**rdma, "address": f"10.1.0.{n}"}}
        for n, name in enumerate(("gpu1", "gpu2", "gpu3"), 1)
    }
    return Fleet(name="qwen3-32b", **hosts, edge={})


def example_deployed() -> Fleet:
    made = example_fleet()
    made.deploy(example())
    return made


MORE_SEQUENCES = {**EXAMPLE["decode"], "extra_args": ["--max-num-seqs 512"]}


def test_golden_deploy():
    golden("deploy", example_fleet().plan(example()).text)


def test_golden_deploy_with_restart_membership():
    golden(
        "deploy-restart-membership",
        example_fleet().plan(example(router={**EXAMPLE["router"], "membership": "restart"})).text,
    )


def test_golden_pending():
    golden("pending", example_deployed().plan(example(decode=MORE_SEQUENCES)).text)


def test_golden_restart():
    golden("restart", example_deployed().plan(example(decode=MORE_SEQUENCES), "restart").text)


def test_golden_scale_up():
    golden("scale-up", example_deployed().plan(example(), "scale", counts={"prefill": 3}).text)


def test_golden_scale_down():
    golden("scale-down", example_deployed().plan(example(), "scale", counts={"prefill": 1}).text)


def test_golden_replace():
    made = example_deployed()
    made.kill(f"{made.name}-prefill-1")
    golden("replace", made.plan(example()).text)


def test_golden_remove():
    golden("remove", example_deployed().plan(example(), "remove").text)


# -- engines that take a prefill which comes back for the one before (mode: refresh_with_prefill) -----------------------


def sglang(prefill: int = 2, decode: int = 2):
    return two_hosts(prefill, decode, mode="sglang-nixl")


def test_decodes_are_renewed_one_at_a_time_where_another_prefill_serves():
    """After the prefill is up and before it serves: it is in the router's list of no round."""
    group = deployed(sglang())
    group.kill("demo-prefill-0")
    made = group.plan(sglang())
    gone = made.part("demo-prefill-0")["port"]
    assert made.errors == []
    assert made.steps() == [
        ("leave", "deregister", "demo-router-0"),
        ("start", "replace", "demo-prefill-0"),
        ("renew", "replace", "demo-decode-0"),
        ("renew", "replace", "demo-decode-1"),
        ("register", "register", "demo-router-0"),
        ("endpoint", "write", None),
    ]
    assert [url.rpartition(":")[2] for url in made.router["remove"]] == [str(gone)]
    rounds = made.value.renew
    assert [[m.id for m in one.members] for one in rounds] == [["demo-decode-0"], ["demo-decode-1"]]
    for number, one in enumerate(rounds):
        part = made.value.round(number)
        assert one.because == ("demo-prefill-0",)
        assert "demo-prefill-0" not in {p.member for p in part.router.peers}
        assert [p.member for p in part.router.add] == [f"demo-decode-{number}"]
        assert part.router.remove == (made.members[f"demo-decode-{number}"]["url"],)
        assert {host: here.create for host, here in part.hosts.items() if here.create} == {
            made.part(f"demo-decode-{number}")["host"]: (f"demo-decode-{number}",)
        }
        assert set(part.hosts) == set(made.plan["hosts"]), "all hosts keep the lock"
    assert "one after the other" in only(made.findings, "decode-renewed").message


def test_decodes_stop_before_the_only_prefill_comes_back():
    group = deployed(sglang(prefill=1))
    group.kill("demo-prefill-0")
    made = group.plan(sglang(prefill=1))
    assert made.plan.get("renew") is None
    assert made.who("remove") == ["demo-decode-0", "demo-decode-1", "demo-prefill-0"]
    assert made.who("replace") == ["demo-decode-0", "demo-decode-1", "demo-prefill-0"]
    phases = [phase for phase, _do, _member in made.steps()]
    assert phases.index("stop") < phases.index("start")
    assert len(made.router["remove"]) == 3, "none of them gets a request before it serves"
    assert "Nothing is served meanwhile" in only(made.findings, "decode-renewed").message


def again(group: Fleet, wanted, **how) -> Made:
    made = group.plan(wanted, **how)
    group.apply(made)
    assert group.carried, group.said
    return made


def test_a_prefill_that_is_created_where_decode_has_met_one_counts_too():
    """Scaled 2, 1, 2: the second one is new, at an address that decode knows."""
    group = deployed(sglang())
    again(group, sglang(), action="scale", counts={"prefill": 1})
    made = again(group, sglang(), action="scale", counts={"prefill": 2})
    assert [one.because for one in made.value.renew] == [("demo-prefill-1",)] * 2
    assert again(group, sglang()).steps() == []
    group.forget("demo-prefill-1")
    made = again(group, sglang())
    # One that somebody removed by hand comes at another address: a router may still name the one that it had.
    assert (made.who("create"), made.plan.get("renew")) == (["demo-prefill-1"], None)
    assert again(group, sglang()).steps() == []


def test_a_prefill_at_a_new_address_renews_nobody():
    group = deployed(sglang(prefill=1))
    made = again(group, sglang(prefill=1), action="scale", counts={"prefill": 2})
    assert (made.who("create"), made.plan.get("renew")) == (["demo-prefill-1"], None)


def test_a_decode_that_was_started_since_has_met_nobody_else():
    group = deployed(sglang(decode=1))
    group.kill("demo-prefill-0")
    again(group, sglang(decode=1))
    made = again(group, sglang(decode=1), action="scale", counts={"decode": 2})
    assert (made.who("create"), made.plan.get("renew")) == (["demo-decode-1"], None)
    group.kill("demo-prefill-0")
    assert [m.id for one in again(group, sglang(decode=2)).value.renew for m in one.members] == [
        "demo-decode-0",
        "demo-decode-1",
    ]


def test_a_run_that_dies_before_the_rounds_leaves_them_to_the_next():
    group = deployed(sglang())
    group.kill("demo-prefill-0")
    made = group.plan(sglang())
    wave = memory.Wave([made.value], memory.Hosts(group.facts))
    wave.phase("lock")
    wave.phase("start")
    for host in group.facts.values():
        host["locks"] = {}
    made = again(group, sglang())
    assert [one.because for one in made.value.renew] == [("demo-prefill-0",)] * 2
    assert made.who("replace") == ["demo-decode-0", "demo-decode-1"]
    assert made.router["remove"] == [made.members["demo-prefill-0"]["url"]], "it waits outside until they are renewed"
    assert again(group, sglang()).steps() == []


def test_a_decode_that_would_be_another_engine_is_not_renewed_and_its_prefill_does_not_come():
    group = deployed(sglang())
    group.kill("demo-prefill-0")
    decode = group.plan(sglang()).part("demo-decode-0")["host"]
    for host in ("h1", "h2", "h3"):
        group.facts[host]["executables"] = {
            path: {**fact, "version": "9.9.9", "stamp": "x"} if host == decode else fact
            for path, fact in group.facts[host]["executables"].items()
        }
    made = group.plan(sglang())
    moved_ = [m.id for one in made.value.renew or () for m in one.members]
    assert "demo-decode-0" not in moved_
    assert "demo-prefill-0" not in made.who("replace")
    assert "identity-moved" in made.codes


def with_a_decode_to_lose(membership: str = "restart"):
    """(The group, its spec, the port of demo-prefill-1): its only decode is on h3, and can be on h5."""
    wanted = two_hosts(mode="sglang-nixl", router_={"membership": membership}, decode_={"hosts": "h3:h5"})
    group = fleet(h5=TWO)
    group.deploy(wanted)
    assert any(m["label"]["member"] == "demo-decode-0" for m in group.facts["h3"]["members"])
    return group, wanted, group.live("demo-prefill-1")["label"]["port"]


@pytest.mark.parametrize("membership", ["restart", "dynamic"])
@pytest.mark.parametrize("gone", ["away", "lost"])
def test_a_prefill_does_not_come_back_where_a_decode_on_a_lost_host_has_met_one(gone, membership):
    """Nobody starts that decode anew, and the router names both until it is told."""
    group, wanted, port = with_a_decode_to_lose(membership)
    group.kill("demo-prefill-1")
    group.silent.add("h3")
    made = group.plan(wanted, **{gone: ["h3"]})
    assert made.errors == []
    assert sorted(made.who("replace") + made.who("create"))[:2] == ["demo-decode-0", "demo-prefill-1"]
    assert made.part("demo-prefill-1")["port"] != port


def test_nor_does_another_prefill_come_there():
    """Scaled down before the host was lost: the address is free, and is known to the decode that is out of reach."""
    group, wanted, port = with_a_decode_to_lose()
    again(group, wanted, action="scale", counts={"prefill": 1})
    group.silent.add("h3")
    made = group.plan(wanted, action="scale", counts={"prefill": 2}, lost=["h3"])
    assert (made.errors, "demo-prefill-1" in made.who("create")) == ([], True)
    assert made.part("demo-prefill-1")["port"] != port


def test_it_comes_back_where_it_was_when_the_lost_host_is_fenced():
    group, wanted, port = with_a_decode_to_lose()
    group.kill("demo-prefill-1")
    group.silent.add("h3")
    made = group.plan(wanted, lost=["h3"], fence="pd_fence_command")
    assert (made.errors, made.part("demo-prefill-1")["port"]) == ([], port)


def ports_of(label) -> set[int]:
    """All ports of a member, of its label or of a part of a plan."""
    bands = label.get("ports") or {}
    return {label["port"], *(band["base"] + at for band in bands.values() for at in range(band["count"]))}


def test_an_engine_that_comes_elsewhere_gets_no_port_of_a_router_that_goes_after_it():
    """Both are down on one host; the router is replaced in its own phase, once engines are there."""
    wanted = spec(mode="sglang-nixl", prefill={"hosts": "h1"}, decode={"hosts": "h2"}, router={"hosts": "h1"})
    group = Fleet(h1={"gpus": 2, "ports": "40000-40011"}, h2={"gpus": 2})
    group.deploy(wanted)
    prefill, router = group.live("demo-prefill-0")["label"], ports_of(group.live("demo-router-0")["label"])
    hold = {"member": "demo-prefill-0", "formation": prefill["formation"], "url": prefill["url"]}
    group.facts["h1"]["holds"] = [{**hold, "ports": sorted(ports_of(prefill)), "group": "demo", "since": 1.0}]
    group.kill("demo-prefill-0", "demo-router-0")
    made = again(group, wanted)
    assert not ports_of(made.part("demo-prefill-0")) & {*ports_of(prefill), *router}
    assert again(group, wanted).steps() == []


def test_modes_whose_engines_forget_by_themselves_renew_nobody_and_note_nothing():
    group = deployed()
    group.kill("demo-prefill-1")
    made = group.plan(two_hosts())
    assert made.plan.get("renew") is None
    assert "starts" not in made.plan["record"]
    assert all("met" not in m["parts"][0]["labels"] for m in made.plan["members"])


def test_a_decode_that_opens_no_port_of_its_band_is_not_waited_for_there():
    made = fleet().plan(two_hosts(mode="vllm-ascend-mooncake"))
    listening = {m["id"]: [p["name"] for p in m["probe"]["listening"]] for m in made.plan["members"]}
    assert listening["demo-decode-0"] == ["http"]
    assert "kv_port" in listening["demo-prefill-0"]
