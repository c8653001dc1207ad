# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the built-in modes render is read by the programs that it is for: vLLM's parser and its connector factory, both routers
(parsed, then started), and SGLang's published flags. No engine is started; what stands behind a router here is a stub.

The versions are whatever is installed: the demo's engine (or PD_ENGINE_VENV), and what tests/env/parsers.sh makes, whose head says how
to take others.
"""

from __future__ import annotations

import ast
import contextlib
import json
import os
import subprocess
import sys
import threading
import time
import typing as t
import urllib.error
import urllib.request
from dataclasses import dataclass, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from builders import ENGINE, ROUTER, Fleet, Made, spec
from parsers import sglang_flags
from ports import free_ports
from support import ROOT

from ansible_collections.inferops.pd.plugins.module_utils._core.spec.spec import Group
from ansible_collections.inferops.pd.plugins.module_utils._core.template.template import GroupTemplate
from ansible_collections.inferops.pd.plugins.module_utils._engines import registry
from ansible_collections.inferops.pd.plugins.module_utils._routers import dialect
from ansible_collections.inferops.pd.plugins.module_utils._routers.reconcile import Outcome, Reconciler, Wanted
from ansible_collections.inferops.pd.plugins.plugin_utils._modes import load_modes

pytestmark = pytest.mark.integration

PARSERS = ROOT / "tests" / "parsers"
BUILT = ROOT / ".build" / "parsers"
ENGINE_VENV = Path(os.environ.get("PD_ENGINE_VENV") or ROOT / ".build" / "demo" / "engine")
# Each mode's package of the router, and the words of its command before the arguments.
ROUTERS = {
    "vllm-nixl": ("vllm_router", 1),
    "vllm-mooncake": ("vllm_router", 1),
    "vllm-ascend-mooncake": ("vllm_router", 1),
    "sglang-mooncake": ("sglang_router", 3),
    "sglang-nixl": ("sglang_router", 3),
    "vllm-moriio": ("vllm_router", 1),
    "vllm-nixl-store": ("vllm_router", 1),
}
VENDORS = {"vllm-ascend-mooncake": "ascend", "vllm-moriio": "amd"}
# A user's own mode, as far as it can be run without its GPUs.
MODES = load_modes([str(ROOT / "examples" / "modes")])
EXAMPLES = [MODES["vllm-moriio"], MODES["vllm-nixl-store"]]

# -- what is rendered -------------------------------------------------------------------------------------------------------------

# Which specs are rendered, in every mode: what a user may write in `args` and beside it. Some are an error in some mode (a wider
# decode, say); they are rendered all the same, and the parser must take them.
SPECS: dict[str, dict[str, t.Any]] = {
    "nothing but the defaults": {},
    "tensor parallelism over the GPUs": {"prefill": {"hosts": "h1", "gpus": 2}, "decode": {"hosts": "h1", "gpus": 4}},
    "another name, and a path with a space": {"served_model_name": "Qwen/Qwen3-32B", "model": "/models/my model"},
    "a longer lease": {"kv_lease": 120},
    "docker": {"runtime": "docker", "engine": {"image": "registry.example/engine@sha256:" + "0" * 64}},
}
# The same for one engine alone.
OF_VLLM: dict[str, dict[str, t.Any]] = {
    "sizes of one's own": {
        "prefill": {"hosts": "h1", "args": ["-tp 2", "--data-parallel-size=2"]},
        "decode": {"hosts": "h1", "args": ["--tensor-parallel-size 2 --pipeline-parallel-size 2"]},
    },
    "one pasted line": {
        "engine": {
            "args": ["--max-model-len 32k --gpu-memory-utilization=0.85 --no-enable-prefix-caching --max_num_seqs 64"]
        }
    },
    "JSON as an entry, after its flag, quoted, and with spaces": {
        "engine": {
            "args": [
                "--hf-overrides",
                '{"max_position_embeddings": 8192}',
                '--compilation-config={"cudagraph_capture_sizes": [1, 2, 4]}',
                """--override-generation-config '{"temperature": 0.5}'""",
                '--speculative-config={"method":"ngram","num_speculative_tokens":3,"prompt_lookup_max":4}',
            ]
        }
    },
    "recompute": {"kv_load_failure_policy": "recompute"},
    "a connector of one's own": {
        "engine": {
            "args": [
                "--kv-transfer-config",
                json.dumps(
                    {
                        "kv_connector": "MultiConnector",
                        "kv_role": "kv_both",
                        "kv_connector_extra_config": {
                            "connectors": [
                                {"kv_connector": "NixlConnector", "kv_role": "kv_both"},
                                {
                                    "kv_connector": "ExampleConnector",
                                    "kv_role": "kv_both",
                                    "kv_connector_extra_config": {"shared_storage_path": "/kv"},
                                },
                            ]
                        },
                    }
                ),
            ]
        }
    },
}
OF_SGLANG: dict[str, dict[str, t.Any]] = {
    "sizes of one's own": {
        "prefill": {"hosts": "h1", "args": ["--tp 2", "--dp-size=2 --enable-dp-attention"]},
        "decode": {"hosts": "h1", "args": ["--tensor-parallel-size=2", "--pipeline-parallel-size 2"]},
    },
    "one pasted line": {
        "engine": {"args": ["--context-length 32768 --mem-fraction-static=0.85 --page-size 64 --disable-radix-cache"]}
    },
    "JSON": {"engine": {"args": ["--json-model-override-args", '{"max_position_embeddings": 8192}']}},
    "attention data parallelism, and devices": {
        "engine": {"args": ["--tp-size=4 --attn-dp-size 2", '--disaggregation-ib-device={"0": "mlx5_0,mlx5_1"}']}
    },
}
# Caches beside the transfer: every provider of a mode, for the roles that it allows and for prefill alone.
SIZED = {"size": "8GiB", "chunk": 64, "global_segment_size": "8GiB", "shared_storage_path": "/srv/kv cache"}


def cache_cases(mode: str) -> dict[str, dict[str, t.Any]]:
    found: dict[str, dict[str, t.Any]] = {}
    for name, provider in MODES[mode].kv_cache_providers.items():
        options = {k: v for k, v in SIZED.items() if k in provider.options and not provider.options[k].ignored}
        cache = {"provider": name, "options": options, **({"service": "10.0.0.9:50051"} if provider.service else {})}
        required = {k: v for k, v in options.items() if provider.options[k].required}
        found[f"cache {name}"] = {"kv_cache": cache}
        found[f"cache {name}, defaults, prefill alone"] = {
            "kv_cache": {**cache, "options": required, "roles": ["prefill"]}
        }
    return found


# And for the router, under each policy of membership.
OF_ROUTER: dict[str, dict[str, t.Any]] = {
    "tunables of one's own": {
        "args": ["--cb-failure-threshold=3", "--retry-max-retries 0", "--request-timeout-secs 600"]
    },
}
PEER_POLICIES = {"prefill": "power_of_two", "decode": "random"}


def fleet(mode: str, **changes: t.Any) -> Fleet:
    """One host for a whole group, everything of it on loopback."""
    lo = {"names": ["lo"], "address": "127.0.0.1", "rdma_devices": []}
    facts = {"gpus": 16, "vendor": VENDORS.get(mode, "nvidia"), "address": "127.0.0.1", "kv_interface": lo}
    return Fleet(modes=EXAMPLES, h1={**facts, **changes})


def plan(mode: str, changes: dict[str, t.Any], router: dict[str, t.Any] | None = None, **facts: t.Any) -> Made:
    backend = "SGLang" if ROUTERS[mode][0] == "sglang_router" else "vLLM"
    usual = {"vLLM": "--max-model-len=32768", "SGLang": "--context-length=32768"}[backend]
    made = {"prefill": {"hosts": "h1"}, **changes}
    made["engine"] = {"args": [usual], **changes.get("engine", {})}
    made["prefill"] = {**made["prefill"], "replicas": 2}
    return fleet(mode, **facts).plan(spec(mode=mode, router=router or {}, **made))


@dataclass(frozen=True)
class Line:
    """One rendered command line of an engine, with what it was rendered from."""

    mode: str
    case: str
    role: str
    argv: tuple[str, ...]
    group: Group
    template: GroupTemplate
    member: dict[str, t.Any]

    @property
    def name(self) -> str:
        return f"{self.mode}, {self.case}, {self.role}: {' '.join(self.argv)}"


def lines(modes: t.Iterable[str], cases: dict[str, dict[str, t.Any]], skip: int) -> list[Line]:
    """Every engine member of every case; `skip` words are the command."""
    found = []
    for mode in modes:
        for case, changes in cases.items():
            made = plan(mode, changes)
            verdict = t.cast("t.Any", made.verdict)
            for member in made.plan["members"]:
                if member["role"] != "router":
                    argv = member["parts"][0]["argv"]
                    assert argv[0] == ENGINE, argv
                    found.append(
                        Line(mode, case, member["role"], tuple(argv[skip:]), verdict.group, verdict.template, member)
                    )
    return found


def ask_parser(command: list[str], argvs: t.Sequence[list[str] | str], timeout: float) -> dict[str, t.Any]:
    """The answer of a helper under tests/parsers/ that runs in another environment."""
    environment = {"VLLM_TARGET_DEVICE": "cpu", "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1"}
    done = subprocess.run(
        command,
        input=json.dumps(argvs),
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
        env={**os.environ, **environment},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return t.cast("dict[str, t.Any]", json.loads(done.stdout.strip().splitlines()[-1]))


def built(name: str) -> Path:
    folder = BUILT / name
    if not (folder / ".complete").exists():
        pytest.skip(f"no {name}: run tests/env/parsers.sh (or make env-parsers)")
    return folder


# -- vLLM -------------------------------------------------------------------------------------------------------------------------

VLLM_MODES = ("vllm-nixl", "vllm-mooncake", "vllm-ascend-mooncake", "vllm-moriio", "vllm-nixl-store")
# The connector's class, or what the factory of a vLLM without the vendor's plugin says.
CLASSES = {
    "vllm-nixl": ("NixlConnector", "NixlPullConnector"),
    "vllm-nixl-store": ("NixlConnector", "NixlPullConnector"),
    "vllm-mooncake": ("MooncakeConnector",),
    "vllm-ascend-mooncake": ("ValueError: Unsupported connector type: MooncakeHybridConnector",),
    # Where the package msgpack is missing, it is not imported.
    "vllm-moriio": ("MoRIIOConnector", "ModuleNotFoundError: No module named 'msgpack'"),
}
LEASES = {"a longer lease": 120}


def connector(line: Line) -> dict[str, t.Any]:
    """What vLLM must have understood of the recipe's connector: the table of the reference, with our values."""
    role = {"prefill": "kv_producer", "decode": "kv_consumer"}[line.role]
    told: dict[str, t.Any] = {"role": role, "policy": "fail", "port": 14579, "extra": {}}
    if line.mode == "vllm-nixl-store":
        line = replace(line, mode="vllm-nixl")
    if line.case == "recompute" and line.mode != "vllm-ascend-mooncake":
        told["policy"] = "recompute"
    if line.mode == "vllm-nixl":
        extra = {"kv_lease_duration": LEASES.get(line.case, 60)} if line.role == "prefill" else {}
        return {**told, "name": "NixlConnector", "extra": extra}
    if line.mode == "vllm-mooncake":
        return {**told, "name": "MooncakeConnector"}
    part = line.member["parts"][0]
    if line.mode == "vllm-moriio":
        ports = {"http_port": part["port"], **{f"{n}_port": part["ports"][n]["base"] for n in ("handshake", "notify")}}
        fixed = {
            "read_mode": "true",
            "host_ip": "127.0.0.1",
            "proxy_ip": "pd-router.internal",
            "proxy_ping_port": 36367,
        }
        extra = {**fixed, **ports, "defer_timeout": LEASES.get(line.case, 60)}
        return {**told, "name": "MoRIIOConnector", "extra": extra}
    sizes = {r: line.template.roles[r].sizes for r in ("prefill", "decode")}
    return {
        **told,
        # The model's config.json is not there, so the connector that serves every layout.
        "name": "MooncakeHybridConnector",
        "port": part["ports"]["kv_port"]["base"],
        "extra": {r: {"tp_size": s.tensor, "dp_size": s.data} for r, s in sizes.items()},
    }


@pytest.fixture(scope="module")
def vllm() -> tuple[list[Line], dict[str, t.Any]]:
    """All lines, and what the engine's own parser made of them, in one process: its imports take longer than everything else here."""
    python = ENGINE_VENV / "bin" / "python"
    if not python.exists():
        pytest.skip(f"no vLLM in {ENGINE_VENV}: run examples/demo/setup.sh (or make demo-env)")
    every = lines(VLLM_MODES, {**SPECS, **OF_VLLM}, skip=2)
    for mode in VLLM_MODES:
        every += lines([mode], cache_cases(mode), skip=2)
    bad = [["/m", "--no-such-flag=1"], ["/m", '--kv-transfer-config={"kv_connector":"NixlConnector","kv_rank":0}']]
    argvs = [*(list(line.argv) for line in every), *bad, store_file(every)]
    told = ask_parser([str(python), str(PARSERS / "vllm_lines.py")], argvs, 300)
    told["store"] = told["lines"].pop()
    return every, told


def store_file(every: list[Line]) -> str:
    """What a member's MOONCAKE_CONFIG_PATH leads to."""
    part = next(line.member["parts"][0] for line in every if line.case == "cache mooncake")
    (file,) = part["files"]
    assert part["env"]["MOONCAKE_CONFIG_PATH"] == f"./{file['path']}"
    return t.cast("str", file["content"])


def test_vllm_takes_every_rendered_line(vllm: tuple[list[Line], dict[str, t.Any]]) -> None:
    every, told = vllm
    assert len(every) >= len(VLLM_MODES) * 3 * len({**SPECS, **OF_VLLM})
    refused = [f"{line.name}\n  {answer['error']}" for line, answer in zip(every, told["lines"]) if "error" in answer]
    assert not refused, "\n".join(refused)


def test_vllm_reads_from_a_line_what_the_plan_says(vllm: tuple[list[Line], dict[str, t.Any]]) -> None:
    every, told = vllm
    for line, answer in zip(every, told["lines"]):
        sizes = line.template.roles[line.role].sizes
        assert {k: answer[k] for k in ("model", "host", "port", "served", "tensor", "data", "pipeline")} == {
            "model": line.group.model,
            "host": "127.0.0.1",
            "port": line.member["parts"][0]["port"],
            "served": [line.group.served_model_name],
            "tensor": sizes.tensor,
            "data": sizes.data,
            "pipeline": sizes.pipeline,
        }, line.name


def test_vllm_reads_the_connector_that_the_recipe_means(vllm: tuple[list[Line], dict[str, t.Any]]) -> None:
    every, told = vllm
    for line, answer in zip(every, told["lines"]):
        if line.case.startswith("cache "):
            continue
        if line.case == "a connector of one's own":
            assert answer["kv"]["name"] == answer["connector"] == "MultiConnector"
            continue
        assert answer["kv"] == connector(line), line.name
        assert answer["connector"] in CLASSES[line.mode], line.name


# Children of which vLLM knows no name without the vendor's plugin; they were read in its published source (vllm-ascend of August 2026),
# where all of them are SupportsHMA.
OF_ASCEND = ("MooncakeConnectorV1", "MooncakeHybridConnector", "AscendStoreConnector")
# Packages that children are made of, and that are not here.
ABSENT = ("No module named 'lmcache", "No module named 'mooncake", "No module named 'msgpack")


def test_vllm_takes_every_cache_beside_the_transfer(vllm: tuple[list[Line], dict[str, t.Any]]) -> None:
    """The whole as its parser reads it, and each child by name in its factory: transfer first, its own keys kept."""
    seen = set()
    for line, answer in zip(vllm[0], vllm[1]["lines"]):
        if not line.case.startswith("cache "):
            continue
        assert "error" not in answer, f"{line.name}\n  {answer.get('error')}"
        use = line.template.roles[line.role].cache
        if use is None:
            assert answer["kv"] == connector(line), line.name
            continue
        seen.add((line.mode, use.provider.name, line.role))
        plain = connector(line)
        role = {"prefill": "kv_producer", "decode": "kv_consumer"}[line.role]
        assert (answer["kv"]["name"], answer["kv"]["role"], answer["kv"]["policy"]) == ("MultiConnector", role, "fail")
        transfer, cache = answer["kv"]["extra"]["connectors"]
        assert (transfer["kv_connector"], transfer["kv_role"]) == (plain["name"], role)
        assert transfer.get("kv_connector_extra_config", {}) == plain["extra"], line.name
        assert transfer.get("kv_port", plain["port"]) == plain["port"]
        recipe = use.recipe.connector or {}
        assert (cache["kv_connector"], cache["kv_role"]) == (recipe["kv_connector"], recipe["kv_role"])
        for name, child in answer["children"].items():
            if name in OF_ASCEND:
                continue
            assert child["registered"], f"{line.name}: {name}"
            loaded = child["connector"]
            assert ":" not in loaded or any(text in loaded for text in ABSENT), f"{line.name}: {loaded}"
    offered = {
        (mode, p.name, role)
        for mode in VLLM_MODES
        for p in MODES[mode].kv_cache_providers.values()
        for role in p.possible
    }
    assert seen == offered


def test_vllm_reads_the_file_of_a_mooncake_store(vllm: tuple[list[Line], dict[str, t.Any]]) -> None:
    assert {k: vllm[1]["store"][k] for k in ("mode", "metadata_server", "master_server_address", "protocol")} == {
        "mode": "embedded",
        "metadata_server": "P2PHANDSHAKE",
        "master_server_address": "10.0.0.9:50051",
        "protocol": "rdma",
    }
    assert (vllm[1]["store"]["global_segment_size"], vllm[1]["store"]["local_buffer_size"]) == (8 * 2**30, 2**30)


def test_vllm_has_the_hybrid_manager_where_the_recipes_say_so(vllm: tuple[list[Line], dict[str, t.Any]]) -> None:
    """A child that does not support it turns it off on its side: then it is off on both sides of the pair, by their flags."""
    told = {}
    for line, answer in zip(vllm[0], vllm[1]["lines"]):
        use = line.template.uses.get("prefill")
        if not line.case.startswith("cache ") or use is None:
            continue
        assert bool(answer["hybrid"]) == (use.provider.hybrid_manager != "kept"), line.name
        own = answer.get("children", {}).get((use.recipe.connector or {}).get("kv_connector"), {})
        if isinstance(own.get("hma"), bool) and line.role == "prefill":
            told[use.provider.name, own["connector"]] = own["hma"]
            assert own["hma"] or use.provider.hybrid_manager != "kept", line.name
    assert told == {
        ("in_process", "LMCacheConnectorV1"): False,
        ("in_process", "SimpleCPUOffloadConnector"): True,
        ("mooncake", "MooncakeStoreConnector"): True,
        ("example", "ExampleConnector"): False,
    } | {key: True for key in told if key[1] == "LMCacheMPConnector"}


def test_vllm_would_say_what_is_wrong(vllm: tuple[list[Line], dict[str, t.Any]]) -> None:
    """The test above has teeth: a flag and a key that do not exist are refused by the same parser."""
    flag, key = (answer.get("error", "") for answer in vllm[1]["lines"][-2:])
    assert "unrecognized arguments: --no-such-flag=1" in flag
    assert "kv_rank" in key


def test_vllm_has_the_flags_that_the_rules_read(vllm: tuple[list[Line], dict[str, t.Any]]) -> None:
    """Spellings in _engines/vllm.py. `-tp` is one word with one dash there; the rules read it with any number of them."""
    flags = {flag.lstrip("-") for flag in vllm[1]["flags"]}
    gone = {"kv_cache_layout"}  # up to 0.2x; an environment variable now
    missing = [
        (option, spelling)
        for option, spellings in registry.engines()["vLLM"].spellings.items()
        for spelling in spellings
        if option not in gone and spelling.split(".")[0] not in flags
    ]
    assert not missing


# -- SGLang -----------------------------------------------------------------------------------------------------------------------

SGLANG_MODES = ("sglang-mooncake", "sglang-nixl")


@pytest.fixture(scope="module")
def sglang() -> sglang_flags.Source:
    source = sglang_flags.read(built("sglang"))
    assert len(source.flags) > 200
    return source


def test_sglang_has_every_flag_of_every_rendered_line(sglang: sglang_flags.Source) -> None:
    every = lines(SGLANG_MODES, {**SPECS, **OF_SGLANG}, skip=3)
    for mode in SGLANG_MODES:
        every += lines([mode], cache_cases(mode), skip=3)
    assert len(every) >= len(SGLANG_MODES) * 3 * len({**SPECS, **OF_SGLANG})
    for line in every:
        try:
            read = sglang.parse(line.argv)
        except ValueError as exc:
            pytest.fail(f"{line.name}\n  {exc}")
        part = line.member["parts"][0]
        assert (read.model_path, read.host, read.port) == (
            line.group.model,
            "127.0.0.1",
            str(part["port"]),
        )
        assert (read.disaggregation_mode, read.disaggregation_transfer_backend) == (line.role, line.mode.split("-")[1])
        bootstrap = {"prefill": str(part["ports"].get("bootstrap", {}).get("base")), "decode": None}[line.role]
        assert read.disaggregation_bootstrap_port == bootstrap
        assert read.enable_metrics is True
        use = line.template.roles[line.role].cache
        if use:
            files = {f["path"] for f in part["files"]}
            assert read.enable_hierarchical_cache is (use.provider.service is None), line.name
            assert read.enable_lmcache is (use.provider.service is not None), line.name
            assert read.lmcache_config_file == ("./lmcache.yaml" if use.provider.service else None)
            assert files == ({"lmcache.yaml"} if use.provider.service else set())
            # It refuses to start with a cache below a radix cache that is off, as decode's is unless told.
            assert read.disaggregation_decode_enable_radix_cache is (line.role == "decode")


def test_sglang_has_the_flags_that_the_rules_read(sglang: sglang_flags.Source) -> None:
    """Spellings in _engines/sglang.py: declared so, or an abbreviation of what is (SGLang's parser takes those)."""
    missing = [
        (option, spelling)
        for option, spellings in registry.engines()["SGLang"].spellings.items()
        for spelling in spellings
        if not any(known.startswith(f"--{spelling}") for known in sglang.spellings)
    ]
    assert not missing


def test_the_source_of_sglang_names_the_choices(sglang: sglang_flags.Source) -> None:
    """The test above has teeth: what is not a choice is refused."""
    assert set(sglang.flag("--disaggregation-mode").choices or ()) >= {"prefill", "decode"}
    assert set(sglang.flag("--disaggregation-transfer-backend").choices or ()) >= {"mooncake", "nixl"}
    for bad in ("--disaggregation-mode=both", "--no-such-flag=1"):
        with pytest.raises(ValueError, match=r"invalid choice|unrecognized"):
            sglang.parse(["--model-path=/m", bad])


# -- the routers: parsed -----------------------------------------------------------------------------------------------------------


def memberships(mode: str) -> list[str]:
    return list(t.cast("t.Any", plan(mode, {}).verdict).template.recipe.memberships)


def router_plans(mode: str, **facts: t.Any) -> t.Iterator[tuple[str, str, Made]]:
    """(policy, case, plan) of each way to write a router."""
    for policy in memberships(mode):
        policies = [f"--{role}-policy={name}" for role, name in PEER_POLICIES.items()]
        own = (
            {"both hops' policies": {"args": policies}}
            if policy == "restart" or ROUTERS[mode][0] == "sglang_router"
            else {}
        )
        if policy == "dynamic" and not own:
            own = {"the one policy": {"args": ["--policy=cache_aware"]}}
        for case, changes in {"nothing but the defaults": {}, **OF_ROUTER, **own}.items():
            yield policy, case, plan(mode, {}, {"membership": policy, **changes}, **facts)


def router_line(mode: str, made: Made) -> list[str]:
    argv = t.cast("list[str]", made.part("demo-router-0")["argv"])
    assert argv[0] == ROUTER, argv
    return argv[ROUTERS[mode][1] :]


@pytest.mark.parametrize("package", ["vllm_router", "sglang_router"])
def test_a_routers_parser_takes_every_rendered_line(package: str) -> None:
    python = built(package.replace("_", "-")) / "bin" / "python"
    every = [
        (f"{mode}, {policy}, {case}", policy, case, made, mode)
        for mode in ROUTERS
        if ROUTERS[mode][0] == package
        for policy, case, made in router_plans(mode)
    ]
    argvs = [router_line(mode, made) for _name, _policy, _case, made, mode in every]
    told = ask_parser([str(python), str(PARSERS / "router_lines.py"), package], [*argvs, ["--no-such-flag"]], 60)
    assert "no-such-flag" in told["lines"][-1]["error"]
    for (name, policy, case, made, _mode), answer in zip(every, told["lines"]):
        assert "error" not in answer, f"{name}: {answer['error']}"
        part = made.part("demo-router-0")
        assert (answer["host"], answer["port"]) == ("127.0.0.1", part["port"]), name
        assert answer["prometheus_host"] == "127.0.0.1", name
        assert answer["prometheus_port"] == part["ports"]["prometheus"]["base"], name
        own = case == "tunables of one's own"
        assert (answer["cb_failure_threshold"], answer["retry_max_retries"]) == ((3, 0) if own else (10, 3)), name
        check_peers(name, policy, made, answer)
        check_policies(name, policy, case, answer, package)


@pytest.mark.parametrize("package", ["vllm_router", "sglang_router"])
def test_a_routers_parser_takes_every_option_that_a_mode_lists(package: str) -> None:
    python = built(package.replace("_", "-")) / "bin" / "python"
    told = {}
    for mode in (m for m in ROUTERS if ROUTERS[m][0] == package):
        recipe = t.cast("t.Any", plan(mode, {}).verdict).template.recipe
        for tunable in (*recipe.tunables, *(each for m in recipe.memberships.values() for each in m.tunables)):
            for value in tunable.options or [tunable.default, tunable.minimum]:
                told[f"{tunable.flag}={value}"] = mode
    lines = ask_parser([str(python), str(PARSERS / "router_lines.py"), package], [[flag] for flag in told], 60)["lines"]
    assert not [(flag, answer["error"]) for flag, answer in zip(told, lines) if "error" in answer]


def check_peers(name: str, policy: str, made: Made, answer: dict[str, t.Any]) -> None:
    peers = made.router["peers"] if policy == "restart" else []
    bootstraps = [(p["ports"].get("bootstrap") or {}).get("base") for p in peers]
    wanted = [[p["url"], bootstrap] for p, bootstrap in zip(peers, bootstraps) if p["role"] == "prefill"]
    assert answer["prefill_urls"] == wanted, name
    assert answer["decode_urls"] == [p["url"] for p in peers if p["role"] == "decode"], name


def check_policies(name: str, policy: str, case: str, answer: dict[str, t.Any], package: str) -> None:
    pair = (answer["prefill_policy"], answer["decode_policy"])
    if package == "vllm_router" and policy == "dynamic":
        assert answer["enable_igw"], name
        assert not answer["vllm_pd_disaggregation"], name
        assert pair == (None, None), name
        assert answer["policy"] == ("cache_aware" if case == "the one policy" else "round_robin"), name
        return
    assert answer["vllm_pd_disaggregation" if package == "vllm_router" else "pd_disaggregation"], name
    assert pair == (("power_of_two", "random") if case == "both hops' policies" else ("cache_aware", "round_robin")), (
        name
    )
    assert not answer["enable_igw"], name


# -- the routers: started ----------------------------------------------------------------------------------------------------------


DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class Stub:
    """Engines that are none: each of `ports` answers what routers ask, and notes what it was sent."""

    def __init__(self, ports: t.Iterable[int]) -> None:
        self.bodies: dict[int, list[dict[str, t.Any]]] = {}
        self.servers = [self._serve(port) for port in ports]

    def _serve(self, port: int) -> ThreadingHTTPServer:
        bodies = self.bodies[port] = []
        model = {"served_model_name": "demo", "model_path": "/models/m", "tp_size": 1, "dp_size": 1}
        answers: dict[str, t.Any] = {"/v1/models": {"object": "list", "data": [{"id": "demo", "object": "model"}]}}
        # Mooncake's bootstrap server, which vllm-router asks for the prefill's engine id by data-parallel rank.
        answers["/query"] = {"0": {"engine_id": f"engine-{port}", "worker_addr": {"0": {"0": "tcp://127.0.0.1:1"}}}}

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.reply(answers.get(self.path, model))

            def do_POST(self) -> None:
                bodies.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
                text = {"index": 0, "text": str(port), "finish_reason": "length"}
                answer = {
                    "id": "c",
                    "object": "text_completion",
                    "created": 1,
                    "model": "demo",
                    "choices": [text],
                    "usage": usage,
                }
                self.reply({**answer, "kv_transfer_params": {"do_remote_prefill": True, "remote_engine_id": str(port)}})

            def reply(self, body: dict[str, t.Any]) -> None:
                data = json.dumps(body).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *args: t.Any) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return server

    def close(self) -> None:
        for server in self.servers:
            server.shutdown()
            server.server_close()


@dataclass
class Started:
    """A real router, started as its plan says."""

    made: Made
    url: str
    stub: Stub

    def workers(self) -> set[tuple[str, str]]:
        return {(p["worker_type"], p["url"]) for p in dialect(self.made.router["dialect"]).list(self.url, 5)}

    def wanted(self, *members: str) -> set[tuple[str, str]]:
        return {(p["role"], p["url"]) for p in self.peers(*members)}

    def peers(self, *members: str) -> list[dict[str, t.Any]]:
        return [p for p in self.made.router["peers"] if not members or p["member"] in members]

    def reconcile(self, *members: str) -> Outcome:
        """The project's own registration, as the step `register` of a run does it."""
        want = Wanted(self.url, self.made.router["model"], self.peers(*members))
        return Reconciler(dialect(self.made.router["dialect"]), want, 30).run()

    def ask(self, prompt: str = "hello") -> tuple[int, str]:
        body = json.dumps({"model": "demo", "prompt": prompt, "max_tokens": 2}).encode()
        request = urllib.request.Request(f"{self.url}/v1/completions", body, {"Content-Type": "application/json"})
        try:
            with DIRECT.open(request, timeout=20) as answer:
                return answer.status, str(json.load(answer)["choices"][0]["text"])
        except urllib.error.HTTPError as exc:
            return exc.code, exc.read().decode(errors="replace")

    def port(self, member: str) -> int:
        return int(self.made.part(member)["port"])

    def metrics(self) -> str:
        port = self.made.part("demo-router-0")["ports"]["prometheus"]["base"]
        with DIRECT.open(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
            return str(answer.read().decode())


@contextlib.contextmanager
def started(mode: str, policy: str, folder: Path, up: int = 200) -> t.Iterator[Started]:
    """The mode's router under a policy, its members stubs; its health path must come to say `up`. It ends with the block."""
    package, words = ROUTERS[mode]
    venv = built(package.replace("_", "-"))
    low = block(16)
    made = plan(mode, {}, {"membership": policy, "port": low}, ports=f"{low + 1}-{low + 15}")
    part = made.part("demo-router-0")
    program = {1: [str(venv / "bin" / "vllm-router")], 3: [str(venv / "bin" / "python"), *part["argv"][1:3]]}[words]
    members = [m for m in made.plan["members"] if m["role"] != "router"]
    bootstraps = [m["parts"][0]["ports"]["bootstrap"]["base"] for m in members if "bootstrap" in m["parts"][0]["ports"]]
    stub = Stub([*(m["parts"][0]["port"] for m in members), *bootstraps])
    url = f"http://127.0.0.1:{low}"
    log = folder / f"{mode}-{policy}.log"
    with open(log, "wb") as stream:
        process = subprocess.Popen(
            [*program, *part["argv"][words:]],
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=subprocess.STDOUT,
            env={"PATH": os.environ["PATH"], **part["env"]},
        )
    try:
        wait_until_up(process, f"{url}{part['labels']['health']}", log, up)
        yield Started(made, url, stub)
    finally:
        process.kill()
        process.wait(20)
        stub.close()


def block(width: int) -> int:
    """The first of `width` free ports in a row."""
    ports = free_ports(400)
    return next(p for p in ports if set(range(p, p + width)) <= set(ports))


def wait_until_up(process: subprocess.Popen[bytes], url: str, log: Path, up: int) -> None:
    until = time.monotonic() + 40
    while time.monotonic() < until and process.poll() is None:
        if status(url) == up:
            return
        time.sleep(0.1)
    pytest.fail(f"the router did not come up (status {process.poll()}):\n{log.read_text(errors='replace')[-3000:]}")


def status(url: str) -> int:
    """The HTTP status, 0 without an answer."""
    try:
        with DIRECT.open(url, timeout=2) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as exc:
        return exc.code
    except OSError:
        return 0


EACH_DYNAMIC = ["vllm-nixl", "vllm-ascend-mooncake", "sglang-mooncake"]
EACH_RESTART = ["vllm-nixl", "vllm-mooncake", "sglang-nixl"]


@pytest.mark.parametrize("mode", EACH_DYNAMIC)
def test_a_real_router_starts_empty_and_follows_its_members(mode: str, tmp_path: Path) -> None:
    with started(mode, "dynamic", tmp_path) as router:
        assert router.workers() == set()
        first = ("demo-prefill-0", "demo-decode-0")
        router.reconcile(*first)
        assert router.workers() == router.wanted(*first)
        assert router.ask() == (200, str(router.port("demo-decode-0")))
        grown = router.reconcile()
        assert grown.added == [router.made.members["demo-prefill-1"]["url"]]
        assert router.workers() == router.wanted()
        shrunk = router.reconcile("demo-prefill-1", "demo-decode-0")
        assert shrunk.removed == [router.made.members["demo-prefill-0"]["url"]]
        assert router.workers() == router.wanted("demo-prefill-1", "demo-decode-0")
        seen = len(router.stub.bodies[router.port("demo-prefill-0")])
        assert router.ask("again") == (200, str(router.port("demo-decode-0")))
        assert len(router.stub.bodies[router.port("demo-prefill-0")]) == seen, (
            "a request went to a member that had left"
        )
        if ROUTERS[mode][0] == "sglang_router":
            check_meeting_place(router)


def check_meeting_place(router: Started) -> None:
    """sglang-router sends both hops the bootstrap server of the prefill that it chose, and each hop keeps its own policy."""
    prefill = router.made.part("demo-prefill-1")
    for member in ("demo-prefill-1", "demo-decode-0"):
        sent = router.stub.bodies[router.port(member)][-1]
        assert (sent["bootstrap_host"], sent["bootstrap_port"]) == ("127.0.0.1", prefill["ports"]["bootstrap"]["base"])
    chosen = [line for line in router.metrics().splitlines() if line.startswith("smg_worker_selection_total")]
    assert any('worker_type="prefill"' in line and 'policy="cache_aware"' in line for line in chosen), chosen
    assert any('worker_type="decode"' in line and 'policy="round_robin"' in line for line in chosen), chosen


@pytest.mark.parametrize("mode", EACH_RESTART)
def test_a_real_router_starts_with_the_peers_of_its_command_line(mode: str, tmp_path: Path) -> None:
    with started(mode, "restart", tmp_path) as router:
        until = time.monotonic() + 15
        while router.workers() != router.wanted() and time.monotonic() < until:
            time.sleep(0.2)
        assert router.workers() == router.wanted()
        assert router.ask() == (200, str(router.port("demo-decode-0")))


def test_a_real_router_starts_for_members_that_announce_themselves(tmp_path: Path) -> None:
    """The example's router: it refuses its connector without the discovery address, and is not healthy before members have come."""
    with started("vllm-moriio", "manual", tmp_path, up=503) as router:
        assert router.workers() == set()
        assert router.ask()[0] == 503


# -- the tables of flags ------------------------------------------------------------------------------------------------------------


def table_of(text: str) -> tuple[str, str]:
    """(version, table) of a written file of flags; which flags older versions had is not made anew."""
    found = {
        node.targets[0].id: ast.literal_eval(node.value)
        for node in ast.parse(text).body
        if isinstance(node, ast.Assign)
    }
    return found["VERSION"], found["TABLE"]


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_the_table_of_flags_is_what_the_parser_has(engine: str) -> None:
    python = ENGINE_VENV / "bin" / "python" if engine == "vllm" else Path(sys.executable)
    if not python.exists() or not (BUILT / "sglang").exists():
        pytest.skip("no engine, or no source, to ask: run examples/demo/setup.sh and tests/env/parsers.sh")
    folders = [] if engine == "vllm" else [str(BUILT / "sglang")]
    argv = [str(python), str(PARSERS / "flag_tables.py"), engine, "--print", *folders]
    done = subprocess.run(
        argv, capture_output=True, text=True, check=True, env={**os.environ, "VLLM_TARGET_DEVICE": "cpu"}
    )
    version, made = table_of(done.stdout[done.stdout.index("# Copyright") :])
    kept, table = table_of((ROOT / "plugins" / "module_utils" / "_engines" / f"{engine}_flags.py").read_text())
    if version != kept:
        pytest.skip(f"the table is of {kept}, and {version} is installed")
    assert made == table
