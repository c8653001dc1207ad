# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Cache services: what is said of pd_caches, what an instance is started with, and what a plan does to those that run."""

from __future__ import annotations

import json
import os
import typing as t

import pytest
from builders import ROOT, RUN

from ansible_collections.inferops.pd.plugins.module_utils._core.base.errors import PdError
from ansible_collections.inferops.pd.plugins.module_utils._core.base.finding import Findings
from ansible_collections.inferops.pd.plugins.module_utils._core.facts.cordon import Cordon
from ansible_collections.inferops.pd.plugins.module_utils._core.facts.observed import Host, read_host
from ansible_collections.inferops.pd.plugins.module_utils._core.plan.hosts import Hosts
from ansible_collections.inferops.pd.plugins.module_utils._core.plan.instances import instance_for, instances
from ansible_collections.inferops.pd.plugins.module_utils._core.plan.plan import Removal, make, removal
from ansible_collections.inferops.pd.plugins.module_utils._core.plan.reserved import Reserved
from ansible_collections.inferops.pd.plugins.module_utils._core.plan.situation import Reality, ServiceRequest
from ansible_collections.inferops.pd.plugins.module_utils._core.plan.value import Plan
from ansible_collections.inferops.pd.plugins.module_utils._core.recipes.cache_recipe import from_plain
from ansible_collections.inferops.pd.plugins.module_utils._core.report import status, verdict
from ansible_collections.inferops.pd.plugins.module_utils._core.spec import workload
from ansible_collections.inferops.pd.plugins.module_utils._core.spec.cache_service import (
    parse,
    users_by_service,
    users_of,
)
from ansible_collections.inferops.pd.plugins.module_utils._core.template.cache_template import render
from ansible_collections.inferops.pd.plugins.plugin_utils._caches import load_recipes, services_of

RECIPES = load_recipes()
MASTER = {"provider": "mooncake", "hosts": "h1", "runtime": "supervisor"}
SERVER = {"provider": "lmcache", "hosts": "h1", "runtime": "supervisor", "options": {"size": 2}}


# -- reading -----------------------------------------------------------------------------------------------------------


def read(entry: t.Any, name: str = "store", groups: t.Sequence[str] = ()) -> tuple[t.Any, list[str]]:
    """The service, and what is said: `code message hint`."""
    findings = Findings()
    service = parse({name: entry}, RECIPES, findings, groups).get(name)
    if service is not None and not service.address:
        render(service, RECIPES[service.provider], findings)
    return service, [f"{f.code} {f.message} {f.hint}" for f in findings.items]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({}, []),
        ({"port": "50051", "bind": "kv_address", "limits": {"start": 60}, "resources": {"memory": "2GiB"}}, []),
        ({"provider": "moncake"}, ["unknown-cache-provider", "Did you mean 'mooncake'?"]),
        ({"provider": None}, ["missing-value", "pd_caches.store.provider"]),
        ({"hosts": None}, ["cache-place", "neither hosts nor address"]),
        ({"address": "10.0.0.9:50051"}, ["cache-place", "both hosts and address"]),
        ({"runtime": "systmd"}, ["bad-value", "Did you mean 'systemd'?"]),
        ({"runtime": "docker"}, ["image-missing", "mooncake_master"]),
        ({"prot": 50051}, ["unknown-key", "Did you mean 'port'?"]),
        ({"port": 70000}, ["bad-value", "from 1 to 65535"]),
        ({"options": {"client_tll": 120}}, ["unknown-key", "Did you mean 'client_ttl'?"]),
        ({"options": {"client_ttl": 0}}, ["bad-value", "a whole number from 1 up"]),
        ({"options": {"eviction_ratio": 1.5}}, ["bad-value", "a number from 0 to 1"]),
        ({"options": {"protocol": "udp"}}, ["bad-value", "one of tcp, rdma, ascend"]),
        (
            {"options": {"global_segment_size": "many"}},
            ["bad-value", "'many' is not a size with its unit, such as 4GiB"],
        ),
        (
            {"options": {"global_segment_size": 64}},
            ["bad-value", "global_segment_size: 64 is not a size with its unit"],
        ),
        ({"options": {"global_segment_size": "64"}}, ["bad-value", "'64' is not a size with its unit"]),
        ({"options": {"client_ttl": "10GiB"}}, ["bad-value", "'10GiB' is not a whole number"]),
        ({"options": {"client_ttl": True}}, ["bad-value", "a whole number"]),
        ({"bind": "everywhere"}, ["bad-value", "one of loopback, address, kv_address, or an IP address"]),
        ({"bind": "0.0.0.0"}, ["cache-open", "every address of the host"]),
        ({"bind": "::"}, ["cache-open", "every address of the host"]),
        ({"options": {"admin_bind": "0.0.0.0"}}, ["cache-open", "pd_caches.store.options.admin_bind"]),
        ({"options": {"http_metadata": "true"}}, ["cache-open", "whatever it is told"]),
        ({"args": ["--rpc_port=one"]}, ["owned-flag", "--rpc_port=one is not yours to set"]),
        ({"mounts": ["/data/${service}:/data"], "env": {"A": "${options.client_ttl}"}}, []),
        ({"mounts": ["/data/${options.threads}:/data"]}, ["unknown-placeholder", "${options.threads} has no value"]),
        ({"env": {"A": "${ports.metadata}"}}, ["unknown-placeholder", "${ports.metadata} has no value"]),
        ({"command": ["/opt/mine"], "args": ["--rpc_port=one"]}, []),
        ({"args": ["-metrics_host 0.0.0.0"]}, ["owned-flag", "pd_caches.NAME.bind"]),
        ({"args": ["--max_retry_attempts=3"]}, []),
        ({"args": ["--v '1"]}, ["unreadable-arguments", "pd_caches.store.args"]),
        ({"env": {"A": "${ports.admn}"}}, ["unknown-placeholder", "Did you mean ${ports.admin}?"]),
        ({"mounts": ["${member.gpus}:/x"]}, ["unknown-placeholder", "for a mooncake service"]),
    ],
)
def test_what_is_said_of_a_service(change: dict[str, t.Any], told: list[str]) -> None:
    entry = {key: value for key, value in {**MASTER, **change}.items() if value is not None}
    _service, said = read(entry)
    assert len(said) == bool(told), said
    assert all(word in said[0] for word in told)


def test_a_service_of_somebody_else_has_an_address_and_what_its_clients_need() -> None:
    service, said = read(
        {"provider": "mooncake", "address": "[fd00::9]:50051", "options": {"global_segment_size": "4GB"}}
    )
    assert said == []
    assert (service.given_host, service.given_port) == ("fd00::9", 50051)
    assert service.options == {"global_segment_size": "4GB", "metadata_server": "P2PHANDSHAKE"}
    found = instances(service, Hosts({}))
    assert instance_for(service, found, "h1") == found[0]
    _service, said = read({"provider": "mooncake", "address": "10.0.0.9:50051", "options": {"client_ttl": 120}})
    assert "unknown-key pd_caches.store.options.client_ttl: it does not go beside address" in said[0]
    _service, said = read({"provider": "mooncake", "address": "10.0.0.9:50051", "port": 1})
    assert "unknown-key pd_caches.store.port: it does not go beside address" in said[0]
    _service, said = read({"provider": "mooncake", "address": "10.0.0.9:50051", "runtime": "docker", "prot": 1})
    assert len(said) == 2
    assert all("notes" not in text or "there is no such key" in text for text in said)


@pytest.mark.parametrize(
    ("written", "size"),
    [(200, 200), ("200", 200), ("1.5", 1.5), ("200GiB", 200), ("512MiB", 0.5), ("1 TiB", 1024), ("4G", 4e9 / 2**30)],
)
def test_a_number_of_gib_may_be_a_size_with_its_unit(written: t.Any, size: float) -> None:
    service, said = read({**SERVER, "options": {"size": written}})
    assert said == []
    assert service.options["size"] == size


@pytest.mark.parametrize("written", ["much", "1MiB", True, {"of": 8}])
def test_a_bad_value_of_a_required_option_is_said_once(written: t.Any) -> None:
    _service, said = read({**SERVER, "options": {"size": written}})
    assert len(said) == 1
    assert said[0].startswith("bad-value pd_caches.store.options.size: ")
    assert "a size with its unit such as 8GiB" in said[0]


@pytest.mark.parametrize("text", ["10.0.0.9", "10.0.0.9:0", "0.0.0.0:50051", ":50051", "fd00::9:1", "a b:1", "h:70000"])
def test_an_address_that_no_client_could_use_is_refused(text: str) -> None:
    service, said = read({"provider": "mooncake", "address": text})
    assert service is None
    assert "HOST:PORT, an address that its clients can reach" in said[0]


def test_what_is_said_of_a_service_is_told_by_its_entry() -> None:
    """Not by how a message begins: a name may begin with another one and a dot."""

    class Inventory:
        def modes_path(self) -> list[str]:
            return []

        def users_by_service(self) -> dict[str, list[str]]:
            return {}

        def groups(self) -> dict[str, t.Any]:
            return {}

        def entries(self, _kind: t.Any) -> dict[str, t.Any]:
            return {"lm": SERVER, "lm.two": {**SERVER, "port": 70000}}

    services, said = services_of(Inventory())
    assert sorted(services) == ["lm", "lm.two"]
    assert {name: [f.code for f in found.items] for name, found in said.items()} == {"lm": [], "lm.two": ["bad-value"]}


def test_names_are_checked_and_are_not_those_of_groups() -> None:
    assert "bad-cache-name" in read(MASTER, "Store_A")[1][0]
    assert "a group of pd_groups has this name too" in read(MASTER, "qwen", ["qwen"])[1][0]
    assert "bad-value pd_caches.store: a service is a dictionary." in read("mooncake")[1][0]
    assert (
        "missing-value pd_caches.store.options.size: missing: memory that it keeps KV in"
        in read({**SERVER, "options": {}})[1][0]
    )


def test_secrets_are_known_by_name_alone() -> None:
    service, said = read({**MASTER, "secrets": {"TOKEN": "s3cret"}, "env": {"TOKEN": "x", "A": 1}})
    assert said == []
    assert service.secrets == ("TOKEN",)
    assert "s3cret" not in repr(service)
    made = plan_of(service, fleet("h1"))[0]
    assert made["members"][0]["parts"][0]["secrets"] == ["TOKEN"]
    assert "TOKEN" not in made["members"][0]["parts"][0]["env"]
    assert "s3cret" not in json.dumps(made)


def test_who_uses_a_service_is_read_from_any_shape_of_a_spec() -> None:
    groups = {
        "a": {"kv_cache": {"provider": "mooncake", "service": "store"}},
        "b": {"roles": {"prefill": {"kv_cache": {"service": "store"}}, "decode": None}},
        "c": {"kv_cache": {"service": "other"}},
        "d": None,
        "e": {"roles": "prefill", "kv_cache": "store"},
    }
    assert users_of("store", groups) == ["a", "b"]
    assert users_by_service(groups) == {"store": ["a", "b"], "other": ["c"]}


# -- recipes -----------------------------------------------------------------------------------------------------------


def test_the_recipes_of_the_collection_fit_their_schema_and_say_what_becomes_of_clients() -> None:
    jsonschema = pytest.importorskip("jsonschema")
    with open(os.path.join(ROOT, "pd_modes", "caches", "schema.json"), encoding="utf-8") as handle:
        jsonschema.Draft7Validator.check_schema(json.load(handle))
    assert {name: (r.scope, r.clients) for name, r in RECIPES.items()} == {
        "lmcache": ("host", "reconnect"),
        "mooncake": ("group", "restart"),
    }
    assert all(r.clients_note and r.packages and r.known_versions for r in RECIPES.values())


def test_a_kind_of_ones_own_is_a_file(tmp_path: t.Any) -> None:
    folder = tmp_path / "caches"
    folder.mkdir()
    (folder / "valkey.yml").write_text(
        """
name: valkey
summary: a Valkey server
scope: group
clients: reconnect
executable: valkey-server
command: ["${executable}"]
arguments: ["--bind", "${bind}", "--port", "${port}", "--maxmemory=${options.memory}"]
probe: {}
options:
  memory: {type: size, required: true, summary: memory}
"""
    )
    recipes = load_recipes([str(tmp_path)])
    assert set(recipes) == {"lmcache", "mooncake", "valkey"}
    findings = Findings()
    service = parse(
        {"kv": {"provider": "valkey", "hosts": "h1", "runtime": "supervisor", "options": {"memory": "1GB"}}},
        recipes,
        findings,
    )["kv"]
    made, said = plan_of(service, fleet("h1"), recipes=recipes)
    assert said == []
    (member,) = made["members"]
    assert member["parts"][0]["argv"] == ["valkey-server", "--bind", "10.0.0.1", "--port", "40000", "--maxmemory=1GB"]
    assert member["probe"]["url"] == "tcp://10.0.0.1:40000", (
        "without a health path, a connection tells that it is ready"
    )


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"arguments": ["${ports.admn}"]}, "arguments[0]: there is no placeholder ${ports.admn}"),
        ({"probe": {"port": "${prot}"}}, "Did you mean ${port}?"),
        ({"arguments": [{"when": "nothing", "text": "--x"}]}, "'nothing' is no option of type boolean"),
        ({"bands": {"b": {"width": 1, "when": "size"}}}, "bands.b.when"),
    ],
)
def test_what_a_recipe_refers_to_must_exist(change: dict[str, t.Any], told: str) -> None:
    raw = {
        "name": "x",
        "summary": "x",
        "scope": "group",
        "clients": "restart",
        "command": ["x"],
        "probe": {},
        "options": {"size": {"type": "size", "summary": "x"}},
    }
    with pytest.raises(PdError, match=r"x\.yml") as refused:
        from_plain({**raw, **change}, "x.yml")
    assert told in str(refused.value)


# -- plans -------------------------------------------------------------------------------------------------------------


def fleet(*names: str, **changes: t.Any) -> dict[str, Host]:
    """Hosts on which everything is there: h1 is 10.0.0.1."""
    return {name: host(name, **changes) for name in names}


def host(name: str, **changes: t.Any) -> Host:
    number = name[1:]
    facts: dict[str, t.Any] = {
        "address": f"10.0.0.{number}",
        "kv_interface": {"address": f"10.1.0.{number}", "names": ["eth1"]},
        "ports": {"range": "40000-40009", "used": []},
        "runtimes": {"supervisor": {"available": True}, "docker": {"available": True}},
        "executables": {name: {"exists": True} for name in ("mooncake_master", "lmcache", "valkey-server")},
        "images": {},
        "members": [],
        "records": {},
        "held": {},
    }
    facts.update(changes)
    return read_host(name, facts)


def plan_of(
    service: t.Any,
    hosts: dict[str, Host],
    action: str = "deploy",
    pattern: t.Sequence[str] | None = None,
    recipes: t.Any = None,
    **more: t.Any,
) -> tuple[dict[str, t.Any], list[str]]:
    """The plan, and what is said."""
    findings = Findings()
    recipe = (recipes or RECIPES)[service.provider]
    template = render(service, recipe, findings)
    pattern = list(hosts) if pattern is None else pattern
    lost = more.get("lost", ())
    silent = [n for n in pattern if n not in hosts and n not in lost]
    more["reserved"] = Reserved.of(map(Plan.from_plain, more.get("reserved", ())))
    evacuated = more.pop("evacuated", ())
    seen = {n: one.under(Cordon("ops")) if n in evacuated else one for n, one in hosts.items()}
    reality = Reality(Hosts(seen), RUN, silent, **more)
    patterns = {"cache": pattern}
    request = ServiceRequest(service, template, patterns, t.cast("t.Any", action), reality, evacuated=evacuated)
    made = make(request, findings).to_plain()
    return made, [f"{f.code} {f.message} {f.hint}" for f in findings.items]


def carried_out(plan: dict[str, t.Any], hosts: dict[str, Host], **live: t.Any) -> dict[str, Host]:
    """The hosts after the plan: its members run, unless `live` says otherwise of one by its id with underscores."""
    after = {}
    for name, before in hosts.items():
        facts = dict(before.plain)
        facts["members"] = [
            {
                "label": {**part["labels"], "runtime": plan["runtime"]},
                "state": "running",
                "ready": True,
                **live.get(member["id"].replace("-", "_"), {}),
            }
            for member in plan["members"]
            for part in member["parts"]
            if part["host"] == name
        ]
        facts["records"] = {plan["group"]: plan["record"]} if plan["hosts"].get(name, {}).get("part") else {}
        after[name] = read_host(name, facts)
    return after


def did(plan: dict[str, t.Any]) -> list[str]:
    return [f"{s['do']} {s['member']} {s['host']}" for s in plan["steps"] if s["member"]]


def service_of(entry: dict[str, t.Any], name: str = "store") -> t.Any:
    service, said = read(entry, name)
    assert said == [], said
    return service


def test_a_master_is_one_on_the_first_host_and_bound_to_its_own_address() -> None:
    made, said = plan_of(service_of(MASTER), fleet("h1", "h2"))
    assert said == []
    assert did(made) == ["create store-cache-0 h1"]
    part = made["members"][0]["parts"][0]
    assert part["argv"][:5] == [
        "mooncake_master",
        "--rpc_address=10.0.0.1",
        "--rpc_port=40001",
        "--metrics_host=127.0.0.1",
        "--metrics_port=40000",
    ]
    assert "0.0.0.0" not in json.dumps(made)
    assert not any("metadata" in word for word in part["argv"])
    assert not any("${" in word or "None" in word for word in part["argv"])
    assert made["members"][0]["probe"]["url"] == "http://127.0.0.1:40000"
    assert made["members"][0]["probe"]["listening"] == [
        {"name": "port", "port": 40001},
        {"name": "admin", "port": 40000},
    ]
    assert part["labels"]["role"] == "cache"
    assert (part["labels"]["address"], part["labels"]["port"]) == ("10.0.0.1", 40001)


def test_what_the_spec_decides_is_filled_into_mounts_before_a_host_is_asked() -> None:
    mounts = ["/data/${service}:/data", "/of/${member.id}:/own", {"source": "/a", "target": "/b"}]
    service = service_of({**MASTER, "mounts": mounts})
    assert render(service, RECIPES["mooncake"], Findings()).role.mounts[0] == "/data/store:/data"
    plan, said = plan_of(service, fleet("h1"))
    assert said == []
    assert plan["members"][0]["parts"][0]["mounts"] == ["/data/store:/data", "/of/store-cache-0:/own", mounts[2]]


def test_a_line_copied_from_the_plan_is_no_error_as_long_as_it_says_what_the_plan_says() -> None:
    plan, _said = plan_of(service_of({**MASTER, "port": 50051}), fleet("h1"))
    argv = plan["members"][0]["parts"][0]["argv"]
    copied = [word for word in argv if word.startswith(("--rpc_port", "--rpc_address", "--metrics"))]
    assert len(copied) == 4
    again, said = plan_of(service_of({**MASTER, "port": 50051, "args": copied}), fleet("h1"))
    assert said == []
    assert again["members"][0]["parts"][0]["argv"] == argv
    assert again["revision"] == plan["revision"]
    _plan, said = plan_of(service_of({**MASTER, "port": 50051, "args": ["--rpc_port=1"]}), fleet("h1"))
    assert len(said) == 1
    assert said[0].startswith("owned-flag pd_caches.store.args: --rpc_port=1 is not yours to set")


def test_a_variable_that_takes_the_place_of_the_kinds_is_said_as_it_is_for_a_group() -> None:
    _service, said = read(
        {
            "provider": "lmcache",
            "hosts": "h1",
            "runtime": "systemd",
            "options": {"size": 1},
            "env": {"PYTHONHASHSEED": "1"},
        }
    )
    assert [line.partition(" ")[0] for line in said] == ["environment-overridden"]


def test_asked_for_every_address_clients_still_get_one_that_they_can_reach() -> None:
    service, said = read({**MASTER, "bind": "0.0.0.0", "port": 50051, "options": {"http_metadata": True}})
    assert [s.split()[0] for s in said] == ["cache-open", "cache-open"]
    made, _said = plan_of(service, fleet("h1"))
    part = made["members"][0]["parts"][0]
    assert "--rpc_address=0.0.0.0" in part["argv"]
    assert "--rpc_port=50051" in part["argv"]
    assert "--enable_http_metadata_server=true" in part["argv"]
    assert set(part["ports"]) == {"admin", "metadata"}
    assert part["labels"]["address"] == "10.0.0.1"


def test_lmcache_is_on_every_host_and_for_that_host_alone() -> None:
    service = service_of({**SERVER, "hosts": "all"}, "lm")
    hosts = fleet("h1", "h2")
    made, said = plan_of(service, hosts)
    assert said == []
    assert did(made) == ["create lm-cache-0 h1", "create lm-cache-1 h2"]
    argv = made["members"][0]["parts"][0]["argv"]
    assert argv[:3] == ["lmcache", "server", "--host=127.0.0.1"]
    assert "--l1-size-gb=2" in argv
    assert not any(word.startswith("--isolated-ipc") for word in argv)
    assert made["members"][0]["parts"][0]["ipc"] == "host"
    after = carried_out(made, hosts)
    found = instances(service, Hosts(after))
    assert [(i.host, i.address, i.port, i.running) for i in found] == [
        ("h1", "127.0.0.1", 40001, True),
        ("h2", "127.0.0.1", 40001, True),
    ]
    assert instance_for(service, found, "h2").host == "h2"
    assert instance_for(service, found, "h3") is None, "a member there starts without the cache"
    assert instances(service, Hosts(hosts), Reserved.of([Plan.from_plain(made)])) == found, (
        "a check run sees the instances that a run would make"
    )


def test_what_runs_stays_as_it_is_and_a_second_run_changes_nothing() -> None:
    service, hosts = service_of(MASTER), fleet("h1", "h2")
    after = carried_out(plan_of(service, hosts)[0], hosts)
    again, said = plan_of(service, after)
    assert (said, again["changed"], again["pending"], again["steps"], again["diff"]) == ([], False, False, [], [])
    moved, said = plan_of(service, after, pattern=["h2", "h1"])
    assert (moved["changed"], did(moved)) == (False, []), "the one that runs keeps its place"


def test_an_edit_is_pending_and_a_restart_applies_it_at_the_same_ports() -> None:
    hosts = fleet("h1")
    after = carried_out(plan_of(service_of(MASTER), hosts)[0], hosts)
    after["h2"] = host("h2", members=[member_of("qwen", "prefill")])
    edited = service_of({**MASTER, "options": {"client_ttl": 120}})
    made, said = plan_of(edited, after, pattern=["h1"], users=["qwen"])
    assert (made["changed"], made["pending"], did(made)) == (False, True, [])
    assert said[0].startswith("cache-pending")
    assert "--client_ttl=10 -> 120" in said[0]
    assert "inferops.pd.caches -e pd_cache=store -e pd_restart_caches=true" in said[0]
    assert "Its clients must restart after it: qwen" in said[0]
    assert made["record"]["revision"] == after["h1"].records["store"].revision, "the record keeps what is applied"
    assert "pending, applied by inferops.pd.caches -e pd_cache=store" in made["diff"][0]["prepared"]

    restarted, said = plan_of(edited, after, "restart", pattern=["h1"], users=["qwen", "other"])
    assert did(restarted) == ["remove store-cache-0 h1", "create store-cache-0 h1"]
    assert restarted["members"][0]["parts"][0]["port"] == 40001
    assert restarted["generation"] == 2
    assert said[0].startswith("cache-clients-restart")
    assert "inferops.pd.restart -e pd_group=qwen" in said[0]
    assert "other" not in said[0], "a group that does not run needs no restart"
    assert restarted["clients_restart"]


def member_of(group: str, role: str, **label: t.Any) -> dict[str, t.Any]:
    made = {"group": group, "member": f"{group}-{role}-0", "role": role, "index": 0, "revision": "r", "generation": 1}
    return {"label": {**made, "port": 0, "ports": {}, "gpus": [], **label}, "state": "running", "ready": True}


def test_clients_that_reconnect_need_no_restart_unless_the_place_has_changed() -> None:
    service = service_of(SERVER)
    hosts = fleet("h1")
    after = carried_out(plan_of(service, hosts)[0], hosts)
    facts = dict(after["h1"].plain)
    facts["members"] = [*facts["members"], member_of("qwen", "prefill")]
    after["h1"] = read_host("h1", facts)
    restarted, said = plan_of(service, after, "restart", users=["qwen"])
    assert (said, restarted["clients_restart"]) == ([], False)
    moved, said = plan_of(service_of({**SERVER, "port": 5555}), after, "restart", users=["qwen"])
    assert "has another address or port" in said[0]
    assert moved["clients_restart"]


def test_of_an_instance_a_host_the_one_on_a_host_that_is_emptied_stops() -> None:
    hosts = fleet("h1", "h2")
    after = carried_out(plan_of(service_of(SERVER), hosts)[0], hosts)
    emptied, said = plan_of(service_of(SERVER), after, "evacuate", evacuated=["h1"])
    assert (did(emptied), said) == (["remove store-cache-0 h1"], [])
    # No deploy puts it back.
    hosts = carried_out(emptied, after)
    assert not plan_of(service_of(SERVER), hosts, "evacuate", evacuated=["h1"])[0]["changed"]
    hosts["h1"] = hosts["h1"].under(Cordon("ops"))
    deployed, said = plan_of(service_of(SERVER), hosts)
    assert did(deployed) == []
    assert said[0].startswith("host-cordoned h1 is cordoned by ops")


def test_the_one_instance_moves_only_if_nobody_knows_it_by_its_address() -> None:
    hosts = fleet("h1", "h2")
    after = carried_out(plan_of(service_of(MASTER), hosts)[0], hosts)
    moved, said = plan_of(service_of(MASTER), after, "evacuate", evacuated=["h1"])
    assert (did(moved), said) == (["remove store-cache-0 h1", "create store-cache-0 h2"], [])
    facts = dict(after["h2"].plain)
    used = {**after, "h2": read_host("h2", {**facts, "members": [member_of("qwen", "prefill")]})}
    _stays, said = plan_of(service_of(MASTER), used, "evacuate", evacuated=["h1"], users=["qwen"])
    assert said[0].startswith("evacuate-cache the one instance of cache service store runs on h1, and members of qwen")
    _nowhere, said = plan_of(service_of(MASTER), after, "evacuate", evacuated=["h1", "h2"])
    assert said[0].startswith(
        "does-not-fit the one instance of store has no host that it could be on: h1: cordoned by ops"
    )


def test_one_that_is_down_is_started_again_at_its_ports_on_the_current_spec() -> None:
    hosts = fleet("h1", "h2")
    after = carried_out(
        plan_of(service_of(MASTER), hosts)[0], hosts, store_cache_0={"state": "exited", "why": "status 1"}
    )
    edited = service_of({**MASTER, "options": {"client_ttl": 120}})
    made, said = plan_of(edited, after)
    assert did(made) == ["replace store-cache-0 h1"]
    assert said == []
    assert made["hosts"]["h1"]["create"] == ["store-cache-0"]
    assert "--client_ttl=120" in made["members"][0]["parts"][0]["argv"]
    assert made["members"][0]["parts"][0]["port"] == 40001
    assert not made["pending"]


def test_one_that_ends_again_and_again_takes_a_mended_spec() -> None:
    hosts = fleet("h1")
    made = plan_of(service_of(MASTER), hosts)[0]
    edited = service_of({**MASTER, "options": {"client_ttl": 120}})
    looping = {"ready": False, "restarts": 2, "why": "status 1"}
    for state in ("running", "restarting"):
        after = carried_out(made, hosts, store_cache_0={**looping, "state": state})
        assert did(plan_of(edited, after)[0]) == ["replace store-cache-0 h1"]
        assert did(plan_of(service_of(MASTER), after)[0]) == ["wait store-cache-0 h1"], "an unchanged one is waited for"
    slow = carried_out(made, hosts, store_cache_0={"ready": False, "restarts": 0})
    assert plan_of(edited, slow)[0]["pending"], "one that is only slow to answer is left alone"


def test_hosts_that_come_and_go() -> None:
    service = service_of({**SERVER, "hosts": "all"}, "lm")
    hosts = fleet("h1", "h2", "h3")
    after = carried_out(plan_of(service, hosts, pattern=["h1", "h2"])[0], hosts)
    made, said = plan_of(service, after, pattern=["h2", "h3"])
    assert said == []
    assert did(made) == ["remove lm-cache-0 h1", "create lm-cache-2 h3"]
    master = carried_out(plan_of(service_of(MASTER), hosts)[0], hosts)
    made, said = plan_of(service_of(MASTER), master, pattern=["h2"])
    assert did(made) == [], "a master does not move by itself"
    assert "it runs on h1, which is not one of the service's hosts any more" in said[0]
    made, _said = plan_of(service_of(MASTER), master, "restart", pattern=["h2"])
    assert did(made) == ["remove store-cache-0 h1", "create store-cache-0 h2"]


def test_a_host_that_does_not_answer_is_unknown() -> None:
    service = service_of(MASTER)
    hosts = fleet("h1", "h2")
    after = carried_out(plan_of(service, hosts)[0], hosts)
    facts = dict(after["h2"].plain, records=after["h1"].plain["records"])
    only = {"h2": read_host("h2", facts)}
    made, said = plan_of(service, only, pattern=["h1", "h2"])
    assert did(made) == []
    assert said[0].startswith("host-unreachable")
    assert "-e pd_lost_hosts=h1" in said[0]
    made, said = plan_of(service, only, pattern=["h1", "h2"], lost=["h1"])
    assert (did(made), said) == (["create store-cache-0 h2"], [])
    servers = service_of({**SERVER, "hosts": "all"}, "lm")
    made, said = plan_of(servers, fleet("h2"), pattern=["h1", "h2"])
    assert did(made) == ["create lm-cache-0 h2"]
    assert "host-unreachable h1 does not answer" in said[0]
    _made, said = plan_of(service, {}, pattern=["h1"])
    assert "none of the hosts of store answers: h1" in said[0]
    _made, said = plan_of(service, {}, pattern=[])
    assert "no-hosts" in said[0]


@pytest.mark.parametrize(
    ("facts", "entry", "told"),
    [
        ({"executables": {}}, {}, "executable-missing pd_caches.store.executable: mooncake_master is not there"),
        ({"runtimes": {}}, {}, "runtime-missing"),
        ({"ports": {"range": "40000-40000", "used": []}}, {}, "port-range-too-small h1: no 2 ports"),
        (
            {"ports": {"range": "40000-40009", "used": [{"port": 50051, "command": "etcd", "pid": 7}]}},
            {"port": 50051},
            "port-taken pd_caches.store.port: 50051 on h1 is taken by etcd (pid 7)",
        ),
        ({"kv_interface": {}}, {"bind": "kv_address"}, "h1 has no kv_address to listen on"),
        (
            {"images": {"i": {"exists": False, "pullable": False, "why": "no such host"}}},
            {"runtime": "docker", "image": "i"},
            "image-missing h1: image i is not there and cannot be pulled: no such host",
        ),
    ],
)
def test_what_a_host_lacks_is_told_before_anything_starts(
    facts: dict[str, t.Any], entry: dict[str, t.Any], told: str
) -> None:
    _made, said = plan_of(service_of({**MASTER, **entry}), fleet("h1", **facts))
    assert told in said[0], said


def test_ports_of_this_run_and_of_other_members_are_taken() -> None:
    hosts = {"h1": host("h1", members=[member_of("g", "prefill", port=40000)])}
    first, _said = plan_of(service_of(MASTER), hosts)
    assert first["members"][0]["parts"][0]["ports"]["admin"]["base"] == 40001
    second, _said = plan_of(service_of(SERVER, "lm"), hosts, reserved=[first])
    assert second["members"][0]["parts"][0]["ports"]["admin"]["base"] == 40003


def test_another_runtime_needs_a_removal_first() -> None:
    hosts = fleet("h1")
    after = carried_out(plan_of(service_of(MASTER), hosts)[0], hosts)
    edited = service_of({**MASTER, "runtime": "docker", "image": "i"})
    made, said = plan_of(edited, after)
    assert (made["pending"], made["runtime"], did(made)) == (True, "supervisor", [])
    assert [s.split()[0] for s in said] == ["cache-pending"]
    _made, said = plan_of(edited, after, "restart")
    assert "cache-runtime" in said[0]
    assert "inferops.pd.caches_remove -e pd_cache=store" in said[0]


def test_a_removal_needs_no_spec() -> None:
    hosts = fleet("h1", "h2")
    after = carried_out(plan_of(service_of(MASTER), hosts)[0], hosts)
    made = removal(Removal("store", Reality(Hosts(after), RUN, users=["qwen"]), workload.CACHE), Findings()).to_plain()
    assert did(made) == ["remove store-cache-0 h1"]
    assert {h: (part["absent"], part["present"], part["create"]) for h, part in made["hosts"].items()} == {
        "h1": (["store-cache-0"], [], []),
    }
    assert removal(Removal("store", Reality(Hosts(fleet("h1")), RUN), workload.CACHE), Findings()).changed is False


# -- verdict and status ------------------------------------------------------------------------------------------------


def test_a_verdict_is_good_only_when_every_instance_answers() -> None:
    service = service_of({**SERVER, "hosts": "all"}, "lm")
    made, _said = plan_of(service, fleet("h1", "h2"), users=["qwen"])

    def result(name: str, state: str) -> list[dict[str, t.Any]]:
        return [{"ok": True}, {"members": {name: {"state": state, "why": "it has ended"}}, "not_ready": {}}]

    good = verdict.reach(
        Plan.from_plain(made), {"h1": result("lm-cache-0", "ready"), "h2": result("lm-cache-1", "ready")}, "final"
    )
    assert good.good
    assert good.msg == "Cache service lm is running: h1 127.0.0.1:40001, h2 127.0.0.1:40001."
    bad = verdict.reach(
        Plan.from_plain(made), {"h1": result("lm-cache-0", "ready"), "h2": result("lm-cache-1", "failed")}, "final"
    )
    assert not bad.good
    assert "1 of 2 instances ready" in bad.msg
    assert "- lm-cache-1 on h2: it has ended" in bad.msg
    assert "Nothing of qwen was touched." in bad.msg
    lost = verdict.reach(Plan.from_plain(made), {"h1": result("lm-cache-0", "ready")}, "final")
    assert not lost.good
    assert "h2 did not answer" in lost.msg


def of_service(
    hosts: dict[str, Host],
    service: t.Any = None,
    template: t.Any = None,
    silent: t.Sequence[str] = (),
    named_by: t.Sequence[str] = (),
    wanted: int = 0,
) -> dict[str, t.Any]:
    """The state of the service `store`."""
    subject = status.Subject(workload.CACHE, "store", service, template, (), wanted, named_by)
    return status.of(subject, hosts, silent)


def test_status_of_a_service() -> None:
    service, hosts = service_of(MASTER), fleet("h1", "h2")
    template = render(service, RECIPES["mooncake"], Findings())

    def state(now: dict[str, Host], **more: t.Any) -> dict[str, t.Any]:
        return of_service(now, service, template, more.pop("silent", ()), ["qwen"], 1)

    assert state(hosts)["state"] == "absent", "PENDING is the word for an edited spec"
    after = carried_out(plan_of(service, hosts)[0], hosts)
    told = "\n".join(status.table(state(after)))
    assert "cache store: RUNNING  mooncake, 1 of 1 instances ready, wanted by qwen (pending)" in told
    assert "store-cache-0  h1    ready" in told
    assert workload.names_on(after, workload.CACHE) == {"store"}
    assert state({}, silent=["h1"])["state"] == "absent"
    down = carried_out(plan_of(service, hosts)[0], hosts, store_cache_0={"state": "exited", "why": "status 1"})
    assert state(down)["state"] == "error"
    silent = {"h2": read_host("h2", dict(after["h2"].plain, records=after["h1"].plain["records"]))}
    told = "\n".join(status.table(state(silent, silent=["h1"])))
    assert "cache store: UNKNOWN" in told
    assert "members_unknown" in told
    assert "wanted by qwen (unknown: not every host answered)" in told
    given = read({"provider": "mooncake", "address": "10.0.0.9:50051"})[0]
    (line,) = status.table(of_service(hosts, given))
    assert line == "cache store: mooncake at 10.0.0.9:50051, run by somebody else, used by no group"
    orphan = of_service(after)
    assert orphan["marks"][0]["mark"] == "not_in_inventory"


def test_who_uses_a_service_is_read_from_what_runs() -> None:
    """A spec that was edited and not deployed, a member that started without the cache, and one that has ended."""
    own = {"service": "store", "provider": "mooncake"}
    members = [
        member_of("a", "prefill", cache={**own, "injected": True}),
        member_of("gone", "prefill", cache={**own, "injected": True}),
        member_of("bare", "prefill", cache={**own, "injected": False}),
        {**member_of("ended", "prefill", cache={**own, "injected": True}), "state": "exited"},
        member_of("other", "prefill", cache={**own, "service": "lm", "injected": True}),
    ]
    hosts = {"h1": read_host("h1", {"members": members})}
    given = read({"provider": "mooncake", "address": "10.0.0.9:50051"})[0]
    state = of_service(hosts, given, named_by=["a", "bare", "ended"])
    assert (state["users"], state["wanted_by"], state["left_by"]) == (["a", "gone"], ["bare", "ended"], ["gone"])
    (line,) = status.table(state)
    assert line.endswith(
        "used by a (running), gone (running, its spec no longer names it), wanted by bare (pending), ended (pending)"
    )


def test_an_instance_without_its_label_goes_and_another_comes() -> None:
    """Its process runs, and the host has lost its state folder: a stray without ports."""
    service, hosts = service_of(MASTER), fleet("h1")
    after = carried_out(plan_of(service, hosts)[0], hosts)["h1"]
    facts = dict(after.plain)
    label = {key: value for key, value in facts["members"][0]["label"].items() if key not in ("port", "ports")}
    facts["members"] = [{**facts["members"][0], "label": label, "unlabelled": True}]
    made, said = plan_of(service, {"h1": read_host("h1", facts)})
    assert did(made) == ["remove store-cache-0 h1", "create store-cache-0 h1"]
    assert any("its label is gone" in text for text in said)


# -- ports that are written as they are --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"args": ["--prometheus-port=9400"]}, "pd_caches.store.args: --prometheus-port=9400"),
        ({"args": ["--http_metadata_server_port 9400"]}, "pd_caches.store.args: --http-metadata-server-port=9400"),
        ({"command": ["/opt/mine", "--rpc_port=9400"]}, "pd_caches.store.command: --rpc-port=9400"),
        ({"env": {"MASTER_PORT": "9400"}}, "pd_caches.store.env.MASTER_PORT"),
    ],
)
def test_ports_of_an_instance_are_collected(change: dict[str, t.Any], place: str) -> None:
    service, _said = read({**MASTER, **change})
    assert clashes(service, fleet("h1")) == []
    busy = {"range": "40000-40009", "used": [{"port": 9400, "command": "etcd", "pid": 7}]}
    told = clashes(service, fleet("h1", ports=busy))
    assert [text.split()[0] for text in told] == ["port-taken"]
    assert place in told[0]
    assert "on h1 it is taken by etcd (pid 7)" in told[0]
    told = clashes(service, fleet("h1", ports={"range": "9300-9500", "used": []}))
    assert [text.split()[0] for text in told] == ["claimed-twice"]
    assert "it lies in 9300-9500" in told[0]


def clashes(service: t.Any, hosts: dict[str, Host], **more: t.Any) -> list[str]:
    _plan, said = plan_of(service, hosts, **more)
    return [text for text in said if text.startswith(("claimed-twice", "port-taken"))]


def test_ports_that_two_services_of_a_host_are_told() -> None:
    one, _said = read({**MASTER, "args": ["--prometheus-port=9400"]})
    plan, _said = plan_of(one, fleet("h1", "h2"), pattern=["h1"])
    entry = {**SERVER, "hosts": "h1:h2", "args": ["--prometheus-port 9400"]}
    other, _said = read(entry, "second")
    told = clashes(other, fleet("h1", "h2"), reserved=[plan])
    assert len(told) == 1
    assert "pd_caches.second.args: --prometheus-port=9400: store-cache-0 has it on h1" in told[0]
    assert clashes(one, fleet("h1", "h2"), pattern=["h1"], reserved=[plan]) == []


@pytest.mark.parametrize("text", ["0", "²", "70000", "9" * 5000, "-1", "any"])
def test_what_is_no_port_of_an_instance_meets_nobody(text: str) -> None:
    service, _said = read({**MASTER, "args": [f"--prometheus-port={text}"]})
    assert clashes(service, fleet("h1")) == []


def test_a_port_that_the_plan_gives_an_instance_is_its_own() -> None:
    service, _said = read({**MASTER, "port": 9400, "command": ["/opt/mine", "--rpc_port=9400"]})
    assert clashes(service, fleet("h1")) == []
