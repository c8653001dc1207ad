"""KV caches beside the transfer: what each mode, provider and role renders (docs/caches.md), and what a plan makes of it."""

from __future__ import annotations

import json
import os
import re

import pytest
import yaml
from builders import (
    ENGINE_ROLES,
    ROOT,
    RUN,
    Fleet,
    Made,
    catalogue,
    codes,
    judge,
    mode,
    nixl_mode,
    only,
    revision,
    spec,
)

from ansible_collections.inferops.pd.plugins.module_utils._core.base.errors import PdError
from ansible_collections.inferops.pd.plugins.module_utils._core.base.finding import Findings
from ansible_collections.inferops.pd.plugins.module_utils._core.base.sizes import parse_size
from ansible_collections.inferops.pd.plugins.module_utils._core.plan.hosts import Hosts
from ansible_collections.inferops.pd.plugins.module_utils._core.plan.plan import make
from ansible_collections.inferops.pd.plugins.module_utils._core.plan.reserved import Reserved
from ansible_collections.inferops.pd.plugins.module_utils._core.plan.situation import Reality, Request
from ansible_collections.inferops.pd.plugins.module_utils._core.plan.value import Plan
from ansible_collections.inferops.pd.plugins.module_utils._core.rules import validate
from ansible_collections.inferops.pd.plugins.module_utils._core.spec.cache_service import CacheService
from ansible_collections.inferops.pd.plugins.module_utils._core.spec.known import Known
from ansible_collections.inferops.pd.plugins.module_utils._core.template import kv_compose
from ansible_collections.inferops.pd.plugins.plugin_utils._modes import load_modes, read_mode

MODES = load_modes()
STORE = "10.0.0.9:50051"
OFF = "--disable-hybrid-kv-cache-manager"

# -- the table of composition --------------------------------------------------------------------------------------------------------

# (mode, provider): the connectors of prefill and of decode as [name(role), ...], B both, P producer, C consumer; a word alone is no Multi.
NIXL_P, NIXL_C = "NixlConnector(P)", "NixlConnector(C)"
MC_P, MC_C = "MooncakeConnector(P)", "MooncakeConnector(C)"
ASCEND_P, ASCEND_C = "MooncakeHybridConnector(P)", "MooncakeHybridConnector(C)"
TABLE = {
    ("vllm-nixl", None): ([NIXL_P], [NIXL_C]),
    ("vllm-nixl", "in_process"): ([NIXL_P, "LMCacheConnectorV1(B)"], [NIXL_C, "LMCacheConnectorV1(B)"]),
    ("vllm-nixl", "lmcache"): ([NIXL_P, "LMCacheMPConnector(B)"], [NIXL_C]),
    ("vllm-mooncake", None): ([MC_P], [MC_C]),
    ("vllm-mooncake", "in_process"): ([MC_P, "LMCacheConnectorV1(B)"], [MC_C, "LMCacheConnectorV1(B)"]),
    ("vllm-mooncake", "mooncake"): ([MC_P, "MooncakeStoreConnector(B)"], [MC_C, "MooncakeStoreConnector(C)"]),
    ("vllm-ascend-mooncake", None): ([ASCEND_P], [ASCEND_C]),
    ("vllm-ascend-mooncake", "in_process"): (
        [ASCEND_P, "SimpleCPUOffloadConnector(B)"],
        [ASCEND_C, "SimpleCPUOffloadConnector(B)"],
    ),
    ("vllm-ascend-mooncake", "ascend_store"): (
        [ASCEND_P, "AscendStoreConnector(P)"],
        [ASCEND_C, "AscendStoreConnector(C)"],
    ),
}
SHORT = {"kv_both": "B", "kv_producer": "P", "kv_consumer": "C"}
OUTER = {"prefill": "kv_producer", "decode": "kv_consumer"}


def cached(mode_name: str, provider: str | None, **changes):
    """The spec of a group with that cache."""
    cache = {"provider": provider, **changes.pop("cache", {})} if provider else None
    if provider and MODES[mode_name].kv_cache_providers[provider].service:
        cache.setdefault("service", STORE)
    return spec(mode=mode_name, engine={"args": [], **changes.pop("engine", {})}, kv_cache=cache, **changes)


def roles_of(raw, *modes):
    verdict = judge(raw, *modes)
    assert verdict.template is not None, verdict.findings.to_plain()
    return verdict.template.roles


def connector(role) -> dict:
    """The one connector on a role's command line, placeholders of numbers as 0."""
    (text,) = (a.partition("=")[2] for a in role.argv if a.startswith("--kv-transfer-config="))
    return json.loads(re.sub(r"(?<!\")\$\{[^}]*\}(?!\")", "0", text))


def children(found: dict) -> list[dict]:
    extra = found.get("kv_connector_extra_config") or {}
    return extra["connectors"] if found["kv_connector"] == "MultiConnector" else [found]


@pytest.mark.parametrize(("mode_name", "provider"), TABLE, ids=str)
def test_composition(mode_name, provider):
    roles = roles_of(cached(mode_name, provider))
    for name, expected in zip(ENGINE_ROLES, TABLE[mode_name, provider]):
        found = connector(roles[name])
        assert [f"{c['kv_connector']}({SHORT[c['kv_role']]})" for c in children(found)] == expected
        assert all("engine_id" not in child for child in children(found))
        if len(expected) > 1:
            assert (found["kv_connector"], found["kv_role"]) == ("MultiConnector", OUTER[name])
            policies = [c["kv_load_failure_policy"] for c in children(found) if "kv_load_failure_policy" in c]
            assert found.get("kv_load_failure_policy") == (policies[0] if policies else None)


def test_every_provider_of_the_vllm_modes_is_in_the_table():
    offered = {(m.name, p) for m in MODES.values() if m.connector for p in (None, *m.kv_cache_providers)}
    assert offered == set(TABLE)


def test_the_example_of_the_reference_to_the_letter():
    (text,) = (
        a for a in roles_of(cached("vllm-nixl", "in_process"))["prefill"].argv if a.startswith("--kv-transfer-config=")
    )
    assert text == (
        '--kv-transfer-config={"kv_connector":"MultiConnector","kv_role":"kv_producer","kv_connector_extra_config":{"connectors":['
        '{"kv_connector":"NixlConnector","kv_role":"kv_producer","kv_load_failure_policy":"fail","kv_connector_extra_config":'
        '{"kv_lease_duration":60}},{"kv_connector":"LMCacheConnectorV1","kv_role":"kv_both"}]},"kv_load_failure_policy":"fail"}'
    )


SGLANG = {
    ("in_process", "prefill"): ["--enable-hierarchical-cache", "--hicache-ratio=1.2"],
    ("in_process", "decode"): [
        "--enable-hierarchical-cache",
        "--hicache-ratio=1.2",
        "--disaggregation-decode-enable-radix-cache",
    ],
    **{
        (provider, role): [
            "--enable-lmcache",
            "--lmcache-config-file=./lmcache.yaml",
            *(["--disaggregation-decode-enable-radix-cache"] if role == "decode" else []),
        ]
        for provider in ("lmcache", "meshfusion")
        for role in ENGINE_ROLES
    },
}


@pytest.mark.parametrize("mode_name", ["sglang-mooncake", "sglang-nixl"])
@pytest.mark.parametrize(("provider", "role"), SGLANG, ids=str)
def test_what_sglang_gets(mode_name, provider, role):
    with_cache, without = (roles_of(cached(mode_name, p))[role] for p in (provider, None))
    assert [a for a in with_cache.argv if a not in without.argv] == SGLANG[provider, role]
    assert set(MODES[mode_name].kv_cache_providers) == {"in_process", "lmcache", "meshfusion"}


# -- what a provider is given -----------------------------------------------------------------------------------------------------------


def test_sizes_in_the_units_that_each_engine_counts_in():
    options = {"cache": {"options": {"size": "96GiB", "chunk": 64}}}
    four = {"prefill": {"gpus": 4}, "decode": {"gpus": 4}}
    lmcache = roles_of(cached("vllm-nixl", "in_process", **options))["prefill"]
    assert (lmcache.env["LMCACHE_MAX_LOCAL_CPU_SIZE"], lmcache.env["LMCACHE_CHUNK_SIZE"]) == ("96", "64")
    half = roles_of(cached("vllm-nixl", "in_process", cache={"options": {"size": "512MiB"}}))["prefill"]
    assert half.env["LMCACHE_MAX_LOCAL_CPU_SIZE"] == "0.5"
    assert "LMCACHE_CHUNK_SIZE" not in half.env
    hicache = roles_of(cached("sglang-nixl", "in_process", **options, **four))["prefill"].argv
    assert {"--hicache-size=96", "--hicache-ratio=1.2", "--page-size=64"} <= set(hicache)
    # Of Ascend's, bytes of a rank: what the member has, divided by its NPUs.
    ascend = roles_of(cached("vllm-ascend-mooncake", "in_process", cache={"options": {"size": "96GiB"}}, **four))
    offload = children(connector(ascend["prefill"]))[1]
    assert offload["kv_connector_extra_config"] == {"cpu_bytes_to_use_per_rank": 96 * 2**30 // 4}


def test_an_option_without_a_value_leaves_no_trace():
    roles = roles_of(cached("vllm-ascend-mooncake", "in_process"))
    assert children(connector(roles["decode"]))[1] == {
        "kv_connector": "SimpleCPUOffloadConnector",
        "kv_role": "kv_both",
    }
    assert not any("page-size" in a for a in roles_of(cached("sglang-nixl", "in_process"))["prefill"].argv)


def test_size_texts():
    sizes = {"8GiB": 8 * 2**30, "500 MB": 500_000_000, "4G": 4_000_000_000, "2Gi": 2**31, "1.5kib": 1536, "10B": 10}
    assert {text: parse_size(text) for text in sizes} == sizes
    assert [parse_size(text) for text in ("8", "", "GiB", "-1GiB", "8XB", 8, None, True)] == [None] * 8


HYBRID = {
    ("vllm-nixl", "in_process"): True,
    ("vllm-nixl", "lmcache"): True,
    ("vllm-mooncake", "in_process"): True,
    ("vllm-mooncake", "mooncake"): False,
    ("vllm-ascend-mooncake", "in_process"): False,
    ("vllm-ascend-mooncake", "ascend_store"): False,
}


@pytest.mark.parametrize(("mode_name", "provider"), HYBRID, ids=str)
@pytest.mark.parametrize("roles", [["prefill"], ["prefill", "decode"]], ids=str)
def test_the_hybrid_manager_is_off_on_both_roles_or_on_none(mode_name, provider, roles):
    refused = MODES[mode_name].kv_cache_providers[provider].roles["decode"].refused
    raw = cached(mode_name, provider, cache={} if refused else {"roles": roles})
    found = [role.argv.count(OFF) for role in (roles_of(raw)[r] for r in ENGINE_ROLES)]
    assert found == ([1, 1] if HYBRID[mode_name, provider] else [0, 0])


def test_a_user_who_turned_it_off_gets_it_once():
    raw = cached("vllm-nixl", "in_process", prefill={"args": [OFF]})
    assert [roles_of(raw)[r].argv.count(OFF) for r in ENGINE_ROLES] == [1, 1]


RECURRENT = {"layer_types": ["linear_attention", "full_attention"], "max_position_embeddings": 32768}


def test_a_model_that_needs_the_manager_keeps_it_with_an_lmcache_server_and_the_choice_stays():
    raw = cached("vllm-nixl", "lmcache")
    seen = validate.validate("demo", raw, catalogue(), Known(model_config=RECURRENT)).template
    assert seen is not None
    assert [seen.roles[r].argv.count(OFF) for r in ENGINE_ROLES] == [0, 0]
    later = validate.validate("demo", raw, catalogue(), Known(recorded=dict(seen.choices))).template
    assert later is not None
    assert later.revision == seen.revision


@pytest.mark.parametrize("mode_name", sorted(set(MODES) - {"custom"}))
def test_the_hash_seed_is_one_for_all_members(mode_name):
    for provider in MODES[mode_name].kv_cache_providers:
        roles = roles_of(cached(mode_name, provider))
        assert {roles[r].env["PYTHONHASHSEED"] for r in ENGINE_ROLES} == {"0"}


# -- a connector of one's own -----------------------------------------------------------------------------------------------------------

OWN = {"kv_connector": "NixlConnector", "kv_role": "kv_both", "kv_load_failure_policy": "recompute"}
WAYS = {
    "one entry": lambda text: [f"--kv-transfer-config={text}"],
    "a flag and its value": lambda text: [f"--kv-transfer-config {text}"],
    "two entries": lambda text: ["--kv-transfer-config", text],
    "underscores": lambda text: [f"--kv_transfer_config={text}"],
    "twice, of which the last counts": lambda text: (
        ['--kv-transfer-config={"kv_connector":"X","kv_role":"kv_both"}', f"--kv-transfer-config={text}"]
    ),
}


@pytest.mark.parametrize("way", WAYS)
def test_ones_own_is_composed_with_a_cache_inside_the_engine(way):
    raw = cached("vllm-nixl", "in_process", prefill={"args": WAYS[way](json.dumps(OWN))})
    found = connector(roles_of(raw)["prefill"])
    assert children(found) == [OWN, {"kv_connector": "LMCacheConnectorV1", "kv_role": "kv_both"}]
    assert (found["kv_role"], found["kv_load_failure_policy"]) == ("kv_producer", "recompute")


@pytest.mark.parametrize("way", WAYS)
def test_ones_own_stands_alone_beside_a_service(way):
    raw = cached("vllm-mooncake", "mooncake", prefill={"args": WAYS[way](json.dumps(OWN))})
    verdict = judge(raw)
    roles = verdict.template.roles
    (text,) = [a for a in roles["prefill"].argv if "NixlConnector" in a]
    assert "MultiConnector" not in " ".join(roles["prefill"].argv)
    assert text.endswith(json.dumps(OWN))
    assert "MOONCAKE_CONFIG_PATH" not in roles["prefill"].env
    assert roles["prefill"].files == ()
    assert len(children(connector(roles["decode"]))) == 2
    label = verdict.template.cache_block["by_role"]["prefill"]
    assert (label["injected"], "takes over" in label["why"]) == (False, True)
    assert only(verdict.findings, "cache-not-injected").roles == ("prefill",)


def test_ones_own_multi_connector_is_nested_as_the_first_child():
    multi = {"kv_connector": "MultiConnector", "kv_role": "kv_both", "kv_connector_extra_config": {"connectors": [OWN]}}
    raw = cached("vllm-nixl", "in_process", decode={"args": [f"--kv-transfer-config={json.dumps(multi)}"]})
    found = connector(roles_of(raw)["decode"])
    assert children(found)[0] == multi
    assert [c["kv_connector"] for c in children(found)] == ["MultiConnector", "LMCacheConnectorV1"]


def test_an_engine_id_moves_to_the_top_since_a_child_with_one_does_not_start():
    own = {**OWN, "engine_id": "${member.id}"}
    found = connector(
        roles_of(cached("vllm-nixl", "in_process", prefill={"args": [f"--kv-transfer-config={json.dumps(own)}"]}))[
            "prefill"
        ]
    )
    assert found["engine_id"] == "${member.id}"
    assert "engine_id" not in children(found)[0]


def test_placeholders_in_ones_own_stay_what_they_are_when_it_is_composed():
    text = '{"kv_connector":"NixlConnector","kv_role":"kv_both","kv_port":${port},"a":"${port}","b":"x${member.id}y"}'
    made = Fleet(h1={"gpus": 8}).plan(
        cached("vllm-nixl", "in_process", prefill={"args": [f"--kv-transfer-config={text}"]})
    )
    part = made.part("demo-prefill-0")
    (argument,) = (a.partition("=")[2] for a in part["argv"] if a.startswith("--kv-transfer-config="))
    child = children(json.loads(argument))[0]
    assert (child["kv_port"], child["a"], child["b"]) == (part["port"], str(part["port"]), "xdemo-prefill-0y")


def test_children_that_disagree_are_said_and_the_first_counts():
    findings = Findings()
    one, two = ({"kv_connector": n, "kv_load_failure_policy": p} for n, p in (("A", "fail"), ("B", "recompute")))
    found = kv_compose.compose(one, two, "decode", "engine.args", findings)
    assert (found["kv_load_failure_policy"], codes(findings)) == ("fail", ["kv-policy-children-differ"])
    assert children(found) == [one, two]


# -- in a plan --------------------------------------------------------------------------------------------------------------------------


def plan_of(raw, caches=None, planned=(), action="deploy", fleet=None, **hosts):
    """A plan in which pd_caches is known."""
    fleet = fleet or Fleet(**(hosts or {"h1": {"gpus": 8}}))
    verdict = validate.validate("demo", raw, catalogue(), Known(caches=caches))
    patterns = {r.name: [h for h in r.hosts.split(":") if h in fleet.facts] for r in verdict.group.roles.values()}
    reality = Reality(Hosts(fleet.hosts()), RUN, reserved=Reserved.of(map(Plan.from_plain, planned)))
    request = Request(verdict.group, verdict.template, patterns, action, reality)
    return make(request, verdict.findings).to_plain(), verdict.findings


def part(made, member: str):
    return next(m["parts"][0] for m in made["members"] if m["id"] == member)


def service_plan(name: str, address: str = "10.0.0.1", **more):
    label = {"group": name, "member": f"{name}-cache-0", "role": "cache", "index": 0, "address": address}
    host = {"host": "h1", "port": 41000, "ports": {}, "gpus": [], "labels": label}
    return {
        "group": name,
        "members": [{"id": f"{name}-cache-0", "role": "cache", "address": address, "parts": [host]}],
        **more,
    }


def test_a_plan_shows_all_of_a_cache():
    made, findings = plan_of(cached("vllm-mooncake", "mooncake"))
    assert codes(findings.errors) == []
    prefill, decode = part(made, "demo-prefill-0"), part(made, "demo-decode-0")
    for it in (prefill, decode):
        (argument,) = (a.partition("=")[2] for a in it["argv"] if a.startswith("--kv-transfer-config="))
        assert children(json.loads(argument))[1]["kv_connector_extra_config"] == {"lookup_rpc_port": it["port"]}
        assert it["env"]["MOONCAKE_CONFIG_PATH"] == "./mooncake.json"
        (file,) = it["files"]
        assert json.loads(file["content"]) == {
            "mode": "embedded",
            "metadata_server": "P2PHANDSHAKE",
            "master_server_address": STORE,
            "protocol": "rdma",
            "device_name": "",
            "global_segment_size": 4 * 2**30,
            "local_buffer_size": 2**30,
        }
        why = "the roles that the mode allows"
        assert it["labels"]["cache"] == {"provider": "mooncake", "service": STORE, "injected": True, "why": why}
    assert prefill["port"] != decode["port"]
    assert (made["kv_cache"]["provider"], made["kv_cache"]["service"], made["kv_cache"]["roles"]) == (
        "mooncake",
        STORE,
        ["prefill", "decode"],
    )
    assert made["record"]["spec"]["kv_cache"]["roles"] == ["prefill", "decode"]
    text = made["diff"][0]["prepared"]
    assert f"cache mooncake ({STORE}): the roles that the mode allows" in text
    assert 'file mooncake.json: {"mode":"embedded"' in text


def test_ipv6_of_a_service():
    made, _findings = plan_of(cached("vllm-nixl", "lmcache", cache={"service": "[fd00::9]:5555"}))
    (argument,) = (a.partition("=")[2] for a in part(made, "demo-prefill-0")["argv"] if a.startswith("--kv-tr"))
    extra = children(json.loads(argument))[1]["kv_connector_extra_config"]
    assert extra == {
        "lmcache.mp.host": "tcp://[fd00::9]",
        "lmcache.mp.port": 5555,
        "lmcache.mp.mp_transfer_mode": "auto",
    }


DEPLOYED = {"store-a": CacheService("store-a", provider="lmcache", hosts="h1", scope="host")}


def test_a_member_connects_to_the_instance_on_its_own_host_as_this_run_will_make_it():
    raw = cached("vllm-nixl", "lmcache", cache={"service": "store-a"})
    made, findings = plan_of(raw, DEPLOYED, planned=[service_plan("store-a", "127.0.0.1")])
    it = part(made, "demo-prefill-0")
    assert '"lmcache.mp.host":"tcp://127.0.0.1","lmcache.mp.port":41000' in " ".join(it["argv"])
    assert "--shutdown-timeout=20" in it["argv"]
    assert (it["labels"]["cache"]["injected"], codes(findings)) == (True, [])
    assert "cache" not in part(made, "demo-decode-0")["labels"]


def test_without_an_instance_it_starts_without_the_cache_and_says_so():
    raw = cached("vllm-nixl", "lmcache", cache={"service": "store-a"})
    made, findings = plan_of(raw, DEPLOYED)
    bare, _nothing = plan_of(cached("vllm-nixl", "in_process"), None)
    it = part(made, "demo-prefill-0")
    assert "MultiConnector" not in " ".join(it["argv"])
    # The pair still agrees about the manager.
    assert OFF in it["argv"]
    assert OFF in part(made, "demo-decode-0")["argv"]
    told = only(findings, "cache-not-injected")
    assert (told.severity, told.host, "store-a has no instance on h1" in told.message) == ("warning", "h1", True)
    assert it["labels"]["cache"] == {
        "provider": "lmcache",
        "service": "store-a",
        "injected": False,
        "why": "service store-a has no instance on h1",
    }
    assert "WITHOUT cache lmcache (store-a)" in made["diff"][0]["prepared"]
    with_it, _findings = plan_of(raw, DEPLOYED, planned=[service_plan("store-a")])
    assert made["revision"] == with_it["revision"] != bare["revision"]


def instance_on(fleet, host: str, state: str) -> None:
    """The instance of store-a on a host, as the host reports it."""
    label = {"group": "store-a", "member": f"store-a-cache-{host}", "role": "cache", "index": 0, "address": "127.0.0.1"}
    label |= {"port": 41000, "ports": {}, "revision": "r", "generation": 1}
    others = [m for m in fleet.facts[host]["members"] if m["label"]["group"] != "store-a"]
    fleet.facts[host]["members"] = [*others, {"label": label, "state": state, "ready": False}]


@pytest.mark.parametrize(("state", "injected"), [("running", True), ("restarting", True), ("exited", False)])
def test_an_instance_that_is_down_is_none_for_a_member_that_starts(state, injected):
    fleet = Fleet(h1={"gpus": 8})
    instance_on(fleet, "h1", state)
    made, findings = plan_of(cached("vllm-nixl", "lmcache", cache={"service": "store-a"}), DEPLOYED, fleet=fleet)
    it = part(made, "demo-prefill-0")
    assert ("MultiConnector" in " ".join(it["argv"]), it["labels"]["cache"]["injected"]) == (injected, injected)
    told = [f.message for f in findings.items if f.code == "cache-not-injected"]
    assert ["store-a is down on h1" in message for message in told] == ([] if injected else [True])
    assert it["labels"]["cache"]["why"] == (
        "the roles that the mode allows (not decode: its connector does not skip a load that was given to NIXL, and the second"
        " completion of one request can end decode)"
        if injected
        else "service store-a is down on h1"
    )


def test_one_that_is_down_and_that_this_run_starts_counts_as_running():
    fleet = Fleet(h1={"gpus": 8})
    instance_on(fleet, "h1", "exited")
    raw = cached("vllm-nixl", "lmcache", cache={"service": "store-a"})
    made, findings = plan_of(raw, DEPLOYED, planned=[service_plan("store-a")], fleet=fleet)
    assert (part(made, "demo-prefill-0")["labels"]["cache"]["injected"], codes(findings)) == (True, [])


def test_a_member_that_runs_keeps_an_instance_that_went_down():
    fleet = Fleet(h1={"gpus": 8})
    instance_on(fleet, "h1", "running")
    raw = cached("vllm-nixl", "lmcache", cache={"service": "store-a"})
    made, findings = plan_of(raw, DEPLOYED, fleet=fleet)
    fleet.apply(Made(made, findings, None))
    instance_on(fleet, "h1", "exited")
    again, findings = plan_of(raw, DEPLOYED, fleet=fleet)
    assert part(again, "demo-prefill-0")["argv"] == part(made, "demo-prefill-0")["argv"]
    assert (again["hosts"]["h1"]["create"], codes(findings)) == ([], [])
    more, findings = plan_of(
        {**raw, "roles": {**raw["roles"], "prefill": {**raw["roles"]["prefill"], "replicas": 2}}}, DEPLOYED, fleet=fleet
    )
    told = {m["id"]: m["parts"][0]["labels"]["cache"]["injected"] for m in more["members"] if m["role"] == "prefill"}
    assert told == {"demo-prefill-0": True, "demo-prefill-1": False}
    assert only(findings, "cache-not-injected").host == "h1"


@pytest.mark.parametrize(("runtime", "ipc"), [("docker", "host"), ("supervisor", None)])
def test_the_hosts_ipc_namespace_for_containers_that_a_provider_needs_it_for(runtime, ipc):
    image = {"image": "registry.example/engine@sha256:" + "0" * 64}
    made, _findings = plan_of(cached("sglang-nixl", "lmcache", runtime=runtime, engine=image))
    assert part(made, "demo-prefill-0").get("ipc") == ipc
    (file,) = part(made, "demo-prefill-0")["files"]
    assert file == {"path": "lmcache.yaml", "content": 'mp_host: "10.0.0.9"\nmp_port: 50051\n'}
    where = "/run/inferops-pd" if runtime == "docker" else "."
    assert f"--lmcache-config-file={where}/lmcache.yaml" in part(made, "demo-prefill-0")["argv"]
    plain, _findings = plan_of(cached("sglang-nixl", None, runtime=runtime, engine=image))
    assert "ipc" not in part(plain, "demo-prefill-0")


# -- a derived connector pasted back ----------------------------------------------------------------------------------------------------


def line_of(made, role: str) -> str:
    """The connector of a member, with its flag."""
    (line,) = (a for a in part(made, f"demo-{role}-0")["argv"] if a.startswith("--kv-transfer-config="))
    return line


def reordered(line: str) -> str:
    """The same JSON, written in another way."""
    flag, _equals, text = line.partition("=")
    return f"{flag.replace('-', '_').replace('__', '--', 1)} {json.dumps(json.loads(text), sort_keys=True, indent=1)}"


@pytest.mark.parametrize("form", [str, reordered])
@pytest.mark.parametrize("from_cache", [True, False], ids=["composed", "recipe's"])
@pytest.mark.parametrize(("mode_name", "provider"), TABLE, ids=str)
def test_a_derived_connector_pasted_back_changes_nothing(mode_name, provider, from_cache, form):
    made, findings = plan_of(cached(mode_name, provider))
    source, _findings = plan_of(cached(mode_name, provider if from_cache else None))
    pasted = {role: {"args": [form(line_of(source, role))]} for role in ENGINE_ROLES}
    again, told = plan_of(cached(mode_name, provider, **pasted))
    assert codes(told) == codes(findings) == []
    assert (again["revision"], again["members"]) == (made["revision"], made["members"])


def test_the_whole_line_of_a_member_pasted_back_changes_nothing():
    made, _findings = plan_of(cached("vllm-nixl", "lmcache"))
    argv = {role: part(made, f"demo-{role}-0")["argv"][3:] for role in ENGINE_ROLES}
    again, told = plan_of(cached("vllm-nixl", "lmcache", **{role: {"args": argv[role]} for role in ENGINE_ROLES}))
    assert codes(told) == []
    assert [part(again, m["id"])["argv"] for m in made["members"]] == [m["parts"][0]["argv"] for m in made["members"]]


def pasted_of_store(change=str, planned=True):
    """The connector of a member of store-a, pasted back after `change`."""
    service = [service_plan("store-a", "127.0.0.1")]
    raw = cached("vllm-nixl", "lmcache", cache={"service": "store-a"})
    made, _findings = plan_of(raw, DEPLOYED, planned=service)
    raw = cached(
        "vllm-nixl", "lmcache", cache={"service": "store-a"}, prefill={"args": [change(line_of(made, "prefill"))]}
    )
    return made, *plan_of(raw, DEPLOYED, planned=service if planned else [])


def test_a_composed_connector_pasted_back_has_the_address_that_only_a_host_can_tell():
    made, again, findings = pasted_of_store()
    assert (codes(findings), again["members"]) == ([], made["members"])
    it = part(again, "demo-prefill-0")
    assert (it["labels"]["cache"]["injected"], "--shutdown-timeout=20" in it["argv"], OFF in it["argv"]) == (True,) * 3


def test_a_composed_connector_with_an_address_that_no_member_has_is_refused():
    _made, _again, findings = pasted_of_store(lambda line: line.replace("41000", "41001"))
    told = only(findings, "owned-flag")
    assert ("41001" in told.message, told.roles) == (True, ("prefill",))


def test_a_composed_connector_pasted_back_where_the_service_is_not():
    _made, again, findings = pasted_of_store(planned=False)
    assert codes(findings) == ["cache-not-injected"]
    it = part(again, "demo-prefill-0")
    assert ("MultiConnector" in " ".join(it["argv"]), it["labels"]["cache"]["injected"]) == (False, False)


def test_a_composed_connector_with_another_servers_address_is_ones_own():
    made, _findings = plan_of(cached("vllm-nixl", "lmcache"))
    line = line_of(made, "prefill").replace("10.0.0.9", "10.0.0.8")
    again, findings = plan_of(cached("vllm-nixl", "lmcache", prefill={"args": [line]}))
    assert sorted(codes(findings))[:2] == ["cache-not-injected", "own-connector"]
    assert line_of(again, "prefill") == line


def test_a_name_that_two_members_of_a_host_have_in_common():
    own = {
        "kv_connector": "MultiConnector",
        "kv_role": "kv_both",
        "kv_connector_extra_config": {
            "connectors": [
                {"kv_connector": "MooncakeConnector", "kv_role": "kv_both"},
                {
                    "kv_connector": "MooncakeStoreConnector",
                    "kv_role": "kv_both",
                    "kv_connector_extra_config": {"lookup_rpc_port": 7},
                },
            ]
        },
    }
    args = {"args": [f"--kv-transfer-config={json.dumps(own)}"]}
    _made, findings = plan_of(cached("vllm-mooncake", "mooncake", prefill=args, decode=args))
    told = only(findings, "kv-cache-name-taken")
    assert "demo-prefill-0, demo-decode-0 have lookup_rpc_port 7 in common" in told.message
    apart = {"hosts": "h2", **args}
    _made, findings = plan_of(
        cached("vllm-mooncake", "mooncake", prefill=args, decode=apart), h1={"gpus": 1}, h2={"gpus": 1}
    )
    assert "kv-cache-name-taken" not in codes(findings)


def test_another_group_on_the_same_master_is_found_by_what_runs():
    fleet = Fleet(name="first", h1={"gpus": 8})
    fleet.deploy(cached("vllm-mooncake", "mooncake"))
    verdict = validate.validate("second", cached("vllm-mooncake", "mooncake"), catalogue(), Known(hosts=fleet.hosts()))
    assert "group first" in only(verdict.findings, "kv-cache-shared").message
    mine = validate.validate("first", cached("vllm-mooncake", "mooncake"), catalogue(), Known(hosts=fleet.hosts()))
    assert codes(mine.findings) == []


# -- the revision -----------------------------------------------------------------------------------------------------------------------


def test_a_change_of_the_cache_is_pending_and_the_diff_says_what():
    fleet = Fleet(h1={"gpus": 8})
    fleet.deploy(cached("vllm-nixl", None))
    made = fleet.plan(cached("vllm-nixl", "in_process", cache={"options": {"size": "8GiB"}}))
    assert made.plan["pending"]
    assert "prefill cache: null -> " in made.text
    assert "LMCACHE_MAX_LOCAL_CPU_SIZE=8 added" in made.text
    assert not fleet.plan(cached("vllm-nixl", None)).plan["pending"]
    bare = fleet.plan(cached("vllm-nixl", "in_process", cache={"options": {"size": 8}}))
    assert bare.plan["revision"] == made.plan["revision"], "GiB is what a bare number counts"


def test_a_revision_is_of_what_the_spec_says_of_a_cache():
    base = revision(cached("vllm-mooncake", "mooncake"))
    other = {"service": "10.0.0.8:50051"}
    changed = [
        cached("vllm-mooncake", None),
        cached("vllm-mooncake", "mooncake", cache=other),
        cached("vllm-mooncake", "mooncake", cache={"roles": ["prefill"]}),
        cached("vllm-mooncake", "mooncake", cache={"options": {"global_segment_size": "8GiB"}}),
    ]
    assert len({base, *map(revision, changed)}) == 5
    written = {"roles": ["prefill", "decode"], "options": {"global_segment_size": "4GiB"}}
    assert revision(cached("vllm-mooncake", "mooncake", cache=written)) == base


def test_a_role_without_the_cache_of_its_group():
    for nothing in ({}, {"provider": "none"}, "none"):
        roles = roles_of(cached("vllm-nixl", "in_process", decode={"kv_cache": nothing}))
        assert [len(children(connector(roles[r]))) for r in ENGINE_ROLES] == [2, 1]
        assert OFF in roles["decode"].argv


def test_the_spec_that_a_validation_gives_back_has_the_roles():
    assert judge(cached("vllm-nixl", "lmcache")).group.to_plain()["kv_cache"] == {
        "provider": "lmcache",
        "service": STORE,
        "options": {},
        "roles": ["prefill"],
    }


# -- a provider of one's own --------------------------------------------------------------------------------------------------------------


def example(**options):
    (found,) = (
        m for m in load_modes([os.path.join(ROOT, "examples", "modes")]).values() if m.name == "vllm-nixl-store"
    )
    raw = spec(mode=found.name, engine={"args": []}, kv_cache={"provider": "example", "options": options})
    return raw, found


def test_the_example_of_a_provider_of_ones_own():
    raw, found = example(shared_storage_path="/srv/kv")
    roles = roles_of(raw, found)
    assert children(connector(roles["prefill"]))[1] == {
        "kv_connector": "ExampleConnector",
        "kv_role": "kv_both",
        "kv_connector_extra_config": {"shared_storage_path": "/srv/kv"},
    }
    assert connector(roles["decode"])["kv_connector"] == "NixlConnector"
    assert all(OFF in roles[r].argv for r in ENGINE_ROLES)
    assert codes(judge(raw, found).findings) == []
    raw, found = example()
    assert "shared_storage_path: missing" in only(judge(raw, found).findings, "missing-value").message


def test_the_example_is_the_built_in_mode_but_for_what_it_says():
    mine = read_mode(os.path.join(ROOT, "examples", "modes", "vllm-nixl-store.yml"))
    differing = {key for key in {**mine, **nixl_mode()} if mine.get(key) != nixl_mode().get(key)}
    assert differing == {"name", "summary", "vendors", "preferred", "kv_cache_providers"}


GOOD = {"summary": "x", "prefill": {"arguments": ["--x=1"]}, "decode": {"refused": "no"}}
BAD = {
    "no summary": ({"prefill": GOOD["prefill"], "decode": GOOD["decode"]}, "kv_cache_providers.mine: 'summary' is"),
    "a role less": ({"summary": "x", "prefill": GOOD["prefill"]}, "kv_cache_providers.mine: 'decode' is a required"),
    "an unknown key": ({**GOOD, "hybrid": False}, "'hybrid' was unexpected"),
    "a misspelt placeholder": (
        {**GOOD, "prefill": {"environment": {"A": "${kv_cache.adress}"}}},
        "kv_cache_providers.mine.prefill.environment.A: there is no placeholder ${kv_cache.adress}",
    ),
    "an address without a service": (
        {**GOOD, "prefill": {"environment": {"A": "${kv_cache.address}"}}},
        "kv_cache_providers.mine.prefill.environment.A: there is no placeholder",
    ),
    "an option that does not exist": (
        {**GOOD, "prefill": {"arguments": ["--x=${kv_cache.size}"]}},
        "kv_cache_providers.mine.prefill.arguments[0]: there is no placeholder ${kv_cache.size}",
    ),
    "a default that is none": (
        {**GOOD, "options": {"size": {"type": "size", "default": "8"}}},
        "kv_cache_providers.mine.options.size.default: '8' is not a size with its unit",
    ),
    "a bound of text": (
        {**GOOD, "options": {"a": {"type": "text", "minimum": 1}}},
        "kv_cache_providers.mine.options.a.minimum: 1 is no bound",
    ),
    "a type that does not exist": (
        {**GOOD, "options": {"a": {"type": "bytes"}}},
        "kv_cache_providers.mine.options.a.type: 'bytes' is not one of",
    ),
    "a capacity of no size": (
        {**GOOD, "capacity": {"option": "size", "each": "gpu"}},
        "kv_cache_providers.mine.capacity.option: 'size' is no option of type size",
    ),
    "an engine id": (
        {**GOOD, "prefill": {"connector": {"kv_connector": "X", "kv_role": "kv_both", "engine_id": "a"}}},
        "kv_cache_providers.mine.prefill.connector.engine_id",
    ),
    "a file of two contents": (
        {**GOOD, "prefill": {"files": [{"path": "a", "content": "b", "json": {}}]}},
        "kv_cache_providers.mine.prefill.files.0",
    ),
    "one name for two": ({**GOOD, "aliases": ["mine"]}, "kv_cache_providers.mine: 'mine' is the name of another"),
}


@pytest.mark.parametrize("what", BAD)
def test_a_provider_that_does_not_fit_is_refused_with_file_place_and_reason(tmp_path, what):
    provider, reason = BAD[what]
    path = tmp_path / "mine.yml"
    path.write_text(yaml.safe_dump({**nixl_mode(), "name": "mine", "kv_cache_providers": {"mine": provider}}))
    with pytest.raises(PdError) as told:
        load_modes([str(tmp_path)])
    assert str(told.value).startswith(f"{path}: ")
    assert reason in str(told.value)


def test_a_connector_has_nothing_to_stand_beside_in_a_mode_without_one():
    provider = {**GOOD, "prefill": {"connector": {"kv_connector": "X", "kv_role": "kv_both"}}}
    with pytest.raises(PdError, match=r"kv_cache_providers.mine.prefill.connector: the mode has no connector"):
        mode("bare", connector=None, kv_cache_providers={"mine": provider})


def test_a_sixth_provider_is_an_entry_of_data():
    provider = {
        "summary": "a store of mine",
        "service": "mine",
        "hybrid_manager": True,
        "options": {"depth": {"type": "integer", "default": 2}, "name": {"type": "text"}},
        "prefill": {
            "connector": {
                "kv_connector": "MineConnector",
                "kv_role": "kv_both",
                "kv_connector_extra_config": {"url": "mine://${kv_cache.address}", "depth": "${kv_cache.depth}"},
            },
            "arguments": ["--mine-name=${kv_cache.name}"],
            "files": [{"path": "mine.conf", "content": "host ${kv_cache.host}\nname ${kv_cache.name}\n"}],
        },
        "decode": {"refused": "it reads alone"},
    }
    found = mode("mine-nixl", kv_cache_providers={"mine": provider})
    raw = spec(mode="mine-nixl", engine={"args": []}, kv_cache={"provider": "mine", "service": "10.0.0.7:99"})
    made = Fleet(modes=[found], h1={"gpus": 8}).plan(raw)
    it = made.part("demo-prefill-0")
    (argument,) = (a.partition("=")[2] for a in it["argv"] if a.startswith("--kv-transfer-config="))
    assert children(json.loads(argument))[1]["kv_connector_extra_config"] == {"url": "mine://10.0.0.7:99", "depth": 2}
    assert it["files"] == [{"path": "mine.conf", "content": "host 10.0.0.7\n"}]
    assert not any(OFF in m["parts"][0]["argv"] for m in made.plan["members"])
    assert made.errors == []
