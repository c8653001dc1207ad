"""Each built-in mode, rendered: one plan a mode that a person can read in golden/mode-NAME.txt, and the choices that a mode makes."""

from __future__ import annotations

import os
import shlex
import typing as t

import pytest
from builders import ROOT, ROUTER, Fleet, Made, catalogue, codes, judge, mode, spec
from unit.test_plan import golden

from ansible_collections.inferops.pd.plugins.module_utils._core.base import placeholders
from ansible_collections.inferops.pd.plugins.module_utils._core.recipes.catalogue import describe
from ansible_collections.inferops.pd.plugins.module_utils._core.recipes.mode import Mode
from ansible_collections.inferops.pd.plugins.module_utils._core.rules import validate
from ansible_collections.inferops.pd.plugins.module_utils._core.spec.known import Known
from ansible_collections.inferops.pd.plugins.plugin_utils._modes import load_modes

EXAMPLES = os.path.join(ROOT, "examples", "modes")
MODES = load_modes()
# Of every mode: two prefills on one host, one decode on another, the router on a third; three networks, the KV cache on its own.
SPECS: dict[str, dict[str, t.Any]] = {
    "vllm-nixl": {"prefill": {"gpus": 4}, "decode": {"gpus": 8}},
    "vllm-mooncake": {"prefill": {"gpus": 4}, "decode": {"gpus": 8}, "kv_load_failure_policy": "recompute"},
    "sglang-mooncake": {
        "prefill": {"extra_args": ["--tp-size=4"]},
        "decode": {"extra_args": ["--tp-size=8", "--attn-dp-size=2"]},
        "engine": {"executable": "/opt/sglang/bin/python", "args": ["--context-length=32768"]},
        "router": {"executable": "/opt/sglang/bin/python"},
    },
    "sglang-nixl": {
        "prefill": {"gpus": 4},
        "decode": {"gpus": 8},
        "engine": {"executable": "/opt/sglang/bin/python", "args": ["--context-length=32768"]},
        "router": {"executable": "/opt/sglang/bin/python"},
    },
    # Each side's connector carries both sides' sizes.
    "vllm-ascend-mooncake": {
        "prefill": {"gpus": 4},
        "decode": {"extra_args": ["--tensor-parallel-size=2", "--data-parallel-size=4", "--enable-expert-parallel"]},
    },
    "custom": {
        "engine": {
            "executable": ...,
            "args": [],
            "command": [
                *(
                    "/opt/mine/serve.sh",
                    "--role=${role}",
                    "--listen=${member.address}:${port}",
                    "--kv=${member.kv_address}:${ports.kv}",
                ),
                *("--prefills=${peers.prefill}", "--decodes=${peers.decode}"),
            ],
        },
        "prefill": {"gpus": 2},
        "decode": {"gpus": 4},
        "router": {
            "executable": ...,
            "command": ["/opt/mine/route.sh", "--port=${port}", "--to=${peers.prefill}", "--then=${peers.decode}"],
        },
    },
}
ON_ASCEND = {"vllm-ascend-mooncake"}
EXECUTABLES = ["/opt/sglang/bin/python", ROUTER, "/opt/vllm/bin/vllm"]


def fleet(name: str, modes: t.Sequence[Mode] = ()) -> Fleet:
    """Hosts whose KV interface has RDMA devices; an Ascend host's cards have ports of their own, which no interface shows."""
    rdma: list[str] = [] if name in ON_ASCEND else ["mlx5_0:1", "mlx5_1:1"]
    hosts = {
        host: {
            "gpus": 8,
            "vendor": next(iter({**MODES, **{m.name: m for m in modes}}[name].vendors), "nvidia"),
            "kv_interface": {"names": ["eth2"], "address": f"10.1.0.{number}", "rdma_devices": rdma},
            "executables": {path: {"exists": True, "version": None} for path in EXECUTABLES},
        }
        for number, host in enumerate(("gpu1", "gpu2"), 1)
    }
    return Fleet(
        name="qwen3-32b", modes=modes, **hosts, edge={"executables": {path: {"exists": True} for path in EXECUTABLES}}
    )


def plan_of(name: str, modes: t.Sequence[Mode] = (), **changes: t.Any) -> Made:
    made = {**SPECS.get(name, SPECS["vllm-nixl"]), **changes}
    for role, host, replicas in (("prefill", "gpu1", 2), ("decode", "gpu2", 1), ("router", "edge", 1)):
        made[role] = {
            "hosts": host,
            **({"replicas": replicas} if role != "router" else {"port": 8000}),
            **made.get(role, {}),
        }
    return fleet(name, modes).plan(spec(mode=name, **made))


def text(made: Made) -> str:
    """The plan's diff, and what it does not show: the files of members, and the router of every other policy."""
    out = made.text
    for member in made.plan["members"]:
        for file in member["parts"][0]["files"]:
            out += f"file of {member['id']}: {', '.join(f'{key} {value}' for key, value in file.items())}\n"
    return out


@pytest.mark.parametrize("name", SPECS)
def test_golden_plan_of_a_mode(name: str) -> None:
    made = plan_of(name)
    assert not made.errors, made.findings.to_plain()
    told = text(made)
    recipe = MODES[name].router
    for policy in recipe.memberships if recipe else ():
        if policy != made.router["policy"]:
            other = plan_of(name, router={**SPECS[name].get("router", {}), "membership": policy})
            told += f"the router under membership {policy}:\n    "
            told += shlex.join(other.part("qwen3-32b-router-0")["argv"]) + "\n"
    golden(f"mode-{name}", told)


def test_every_built_in_mode_has_a_golden_plan() -> None:
    assert set(SPECS) == {name for name, found in MODES.items() if os.path.dirname(found.source).endswith("pd_modes")}


@pytest.mark.parametrize("name", SPECS)
def test_nothing_of_a_rendered_plan_is_left_unresolved(name: str) -> None:
    for member in plan_of(name).plan["members"]:
        part = member["parts"][0]
        files = [str(value) for file in part["files"] for value in file.values()]
        for said in (*part["argv"], *part["env"].values(), *files):
            assert not placeholders.names(said), said


@pytest.mark.parametrize("name", [n for n in SPECS if MODES[n].backend])
def test_addresses_follow_the_kv_interface_and_the_group_is_told_apart_from_proxies(name: str) -> None:
    made = plan_of(name)
    for member in made.plan["members"]:
        env = member["parts"][0]["env"]
        assert (
            env["NO_PROXY"]
            == env["no_proxy"]
            == "localhost,127.0.0.1,10.0.0.1,10.0.0.2,10.0.0.3,10.1.0.1,10.1.0.2,10.1.0.3"
        )
        if member["role"] == "router":
            continue
        own = {"vLLM": "VLLM_HOST_IP", "SGLang": "SGLANG_HOST_IP"}[str(MODES[name].backend)]
        assert env[own] == member["kv_address"] == {"gpu1": "10.1.0.1", "gpu2": "10.1.0.2"}[member["parts"][0]["host"]]
        assert env["PYTHONHASHSEED"] == "0"
        assert env.get("CUDA_DEVICE_ORDER") == (None if name in ON_ASCEND else "PCI_BUS_ID")
        assert env.get("UCX_NET_DEVICES", "mlx5_0:1,mlx5_1:1,eth2") == "mlx5_0:1,mlx5_1:1,eth2"


def test_custom_injects_nothing() -> None:
    made = plan_of("custom")
    for member in made.plan["members"]:
        part = member["parts"][0]
        assert set(part["env"]) <= {"CUDA_VISIBLE_DEVICES"}
        assert part["files"] == []
        assert part["argv"][0].startswith("/opt/mine/")
        assert len(part["argv"]) == len(
            SPECS["custom"]["engine" if member["role"] != "router" else "router"]["command"]
        )
    assert (made.router["policy"], made.router["step"]) == ("manual", "operator")


# -- a mode of one's own: the example ------------------------------------------------------------------------------------------------


def test_the_example_of_a_users_own_mode_is_loaded_judged_and_planned() -> None:
    modes = load_modes([EXAMPLES])
    assert {name for name in modes if name not in MODES} == {"vllm-moriio", "vllm-nixl-store"}
    own = modes["vllm-moriio"]
    assert own.source == os.path.join(EXAMPLES, "vllm-moriio.yml")
    assert codes(judge(spec(mode=own.name), own).findings.errors) == []
    made = plan_of(own.name, [own])
    assert not made.errors, made.findings.to_plain()
    golden("mode-example-vllm-moriio", text(made))
    for member in made.plan["members"]:
        part = member["parts"][0]
        for said in (*part["argv"], *part["env"].values()):
            assert not placeholders.names(said), said


def test_the_example_says_that_nobody_has_run_it() -> None:
    with open(os.path.join(EXAMPLES, "vllm-moriio.yml"), encoding="utf-8") as handle:
        assert "UNTESTED ON HARDWARE" in handle.read()
    assert "untested on hardware" in load_modes([EXAMPLES])["vllm-moriio"].summary


def test_the_example_is_offered_for_amd_gpus_and_not_for_others() -> None:
    modes = load_modes([EXAMPLES])
    told = describe(modes, "vLLM", ["amd"], None)
    assert told["modes"]["vllm-moriio"]["available"]
    assert told["preferred"] == "vllm-moriio"
    assert not describe(modes, "vLLM", ["nvidia"], None)["modes"]["vllm-moriio"]["available"]


# -- which connector -------------------------------------------------------------------------------------------------------------------

STANDARD, HYBRID = "MooncakeConnectorV1", "MooncakeHybridConnector"
# As the files of these families say it, cut down to what matters and what could mislead.
QWEN3 = {
    "model_type": "qwen3",
    "architectures": ["Qwen3ForCausalLM"],
    "num_hidden_layers": 64,
    "num_key_value_heads": 8,
}
GLM = {"model_type": "glm4_moe", "architectures": ["Glm4MoeForCausalLM"], "n_routed_experts": 160}
DEEPSEEK_V31 = {
    "model_type": "deepseek_v3",
    "architectures": ["DeepseekV3ForCausalLM"],
    "kv_lora_rank": 512,
    "n_routed_experts": 256,
}
DEEPSEEK_V4 = {"model_type": "deepseek_v4", "architectures": ["DeepseekV4ForCausalLM"], "compress_ratios": [0, 4, 128]}
GEMMA3 = {
    "model_type": "gemma3_text",
    "layer_types": ["sliding_attention"] * 5 + ["full_attention"],
    "sliding_window": 1024,
}
LLAMA4 = {
    "model_type": "llama4_text",
    "layer_types": ["chunked_attention", "full_attention"],
    "attention_chunk_size": 8192,
}
QWEN3_NEXT = {
    "model_type": "qwen3_next",
    "linear_conv_kernel_dim": 4,
    "linear_key_head_dim": 128,
    "layer_types": ["linear_attention"] * 3 + ["full_attention"],
}
NEMOTRON_H = {
    "model_type": "nemotron_h",
    "hybrid_override_pattern": "M-M-M*-M-",
    "mamba_num_heads": 128,
    "ssm_state_size": 128,
}
CONFIGS: dict[str, tuple[t.Any, str, str]] = {
    "Qwen3": (QWEN3, STANDARD, "standard"),
    "GLM": (GLM, STANDARD, "standard"),
    "DeepSeek V3.1": (DEEPSEEK_V31, STANDARD, "standard"),
    "sliding windows are attention": (GEMMA3, STANDARD, "standard"),
    "chunks are attention": (LLAMA4, STANDARD, "standard"),
    "no compression at all": ({**QWEN3, "compress_ratios": [0, 0]}, STANDARD, "standard"),
    "a field that says null": ({**QWEN3, "mamba_d_state": None}, STANDARD, "standard"),
    "a pattern without mamba": ({**QWEN3, "hybrid_override_pattern": "*-*-"}, STANDARD, "standard"),
    "DeepSeek V4": (DEEPSEEK_V4, HYBRID, "hybrid"),
    "DeepSeek V4 by its architecture": ({"architectures": ["DeepseekV4MTPModel"]}, HYBRID, "hybrid"),
    "DeepSeek V4 by its ratios": ({**DEEPSEEK_V31, "compress_ratios": [0, 4]}, HYBRID, "hybrid"),
    "Nemotron-H": (NEMOTRON_H, HYBRID, "hybrid"),
    "Nemotron-H by its pattern": ({"model_type": "nemotron_h", "hybrid_override_pattern": "M-M*-"}, HYBRID, "hybrid"),
    "Mamba": ({"model_type": "mamba2", "mamba_expand": 2}, HYBRID, "hybrid"),
    "Jamba": ({"model_type": "jamba", "layers_block_type": ["mamba", "attention"]}, HYBRID, "hybrid"),
    "Qwen3-Next": (QWEN3_NEXT, HYBRID, "hybrid"),
    "layers of a kind unheard of": ({**QWEN3, "layer_types": ["full_attention", "conv"]}, HYBRID, "hybrid"),
    "nested: standard": ({"model_type": "qwen3_vl", "text_config": QWEN3}, STANDARD, "standard"),
    "nested: hybrid": ({"model_type": "qwen3_5", "text_config": QWEN3_NEXT}, HYBRID, "hybrid"),
    "nested: another word for it": ({"llm_config": NEMOTRON_H}, HYBRID, "hybrid"),
    "nested twice": ({"thinker_config": {"text_config": QWEN3_NEXT}}, HYBRID, "hybrid"),
    "nested: a vision tower says nothing": (
        {**QWEN3, "vision_config": {"layer_types": ["window"]}},
        STANDARD,
        "standard",
    ),
    "no config": (None, HYBRID, "unknown"),
    "an empty config": ({}, HYBRID, "unknown"),
    "a config that is none": (["Qwen3"], HYBRID, "unknown"),
}


def variant(known: Known, *args: str, **changes: t.Any) -> tuple[str, dict[str, t.Any]]:
    """The connector in both roles' JSON, which must be the same, and the choice to record."""
    raw = spec(mode="vllm-ascend-mooncake", engine={"args": ["--max-model-len=32768", *args]}, **changes)
    template = validate.validate("demo", raw, catalogue(), known).template
    assert template is not None
    found = {
        role: next(a for a in template.roles[role].argv if a.startswith("--kv-transfer-config=")).split('"')[3]
        for role in ("prefill", "decode")
    }
    assert found["prefill"] == found["decode"] == template.choices["connector"]["connector"]
    return found["prefill"], dict(template.choices["connector"])


@pytest.mark.parametrize("what", CONFIGS)
def test_the_connector_follows_from_the_models_config(what: str) -> None:
    config, connector, layout = CONFIGS[what]
    chosen, choice = variant(Known(model_config=config))
    assert (chosen, choice["layout"]) == (connector, layout)


def test_names_say_nothing_about_the_connector() -> None:
    for model in ("/models/Nemotron-H-8B", "/models/DeepSeek-V4", "mamba"):
        assert variant(Known(model_config=QWEN3), model=model, served_model_name="mamba")[0] == STANDARD


@pytest.mark.parametrize(
    "written",
    [
        ["--hf-overrides", '{"layer_types": ["mamba", "full_attention"]}'],
        ['--hf-overrides={"layer_types":["mamba"]}'],
        ['--hf_overrides {"layer_types": ["mamba"]}'],
    ],
    ids=["two entries", "one entry", "underscores"],
)
def test_overrides_of_the_config_come_first(written: list[str]) -> None:
    assert variant(Known(model_config=QWEN3), *written)[0] == HYBRID


def test_overrides_can_make_a_model_standard_and_reach_nested_configs() -> None:
    config = {"text_config": {**QWEN3, "layer_types": ["linear_attention"]}}
    assert variant(Known(model_config=config))[0] == HYBRID
    assert (
        variant(Known(model_config=config), '--hf-overrides={"text_config":{"layer_types":["full_attention"]}}')[0]
        == STANDARD
    )


def test_a_recorded_choice_stays_when_the_config_becomes_readable() -> None:
    _connector, choice = variant(Known())
    assert choice["layout"] == "unknown"
    again, kept = variant(Known(model_config=QWEN3, recorded={"connector": choice}))
    assert (again, kept) == (HYBRID, choice)


@pytest.mark.parametrize(
    ("args", "changes"),
    [
        ([], {"model": "/models/other"}),
        (["--revision=main"], {}),
        (['--hf-overrides={"rope_theta":1}'], {}),
    ],
    ids=["model", "revision", "overrides"],
)
def test_a_recorded_choice_is_made_anew_for_another_model(args: list[str], changes: dict[str, t.Any]) -> None:
    _connector, choice = variant(Known())
    again, made = variant(Known(model_config=QWEN3, recorded={"connector": choice}), *args, **changes)
    assert again == STANDARD
    assert made["inputs"] != choice["inputs"]


def test_what_does_not_touch_the_model_keeps_the_choice() -> None:
    _connector, choice = variant(Known())
    known = Known(model_config=QWEN3, recorded={"connector": choice})
    assert variant(known, "--max-num-seqs=8", served_model_name="another")[1] == choice


def test_the_choice_is_in_the_record_of_the_plan_and_the_next_plan_keeps_it() -> None:
    hosts = fleet("vllm-ascend-mooncake")
    changes = SPECS["vllm-ascend-mooncake"]
    raw = spec(
        mode="vllm-ascend-mooncake",
        **{
            **changes,
            "prefill": {"hosts": "gpu1", **changes["prefill"]},
            "decode": {"hosts": "gpu2", **changes["decode"]},
        },
        router={"hosts": "edge", "port": 8000},
    )
    made = hosts.plan(raw)
    assert made.plan["record"]["choices"]["connector"]["connector"] == HYBRID
    hosts.apply(made)
    recorded = hosts.facts["gpu1"]["records"]["qwen3-32b"]["choices"]
    verdict = validate.validate("qwen3-32b", raw, catalogue(), Known(model_config=QWEN3, recorded=recorded))
    assert verdict.template is not None
    assert verdict.template.revision == made.plan["revision"]
    fresh = validate.validate("qwen3-32b", raw, catalogue(), Known(model_config=QWEN3))
    assert fresh.template is not None
    assert fresh.template.revision != made.plan["revision"]


def test_a_mode_without_variants_chooses_nothing() -> None:
    template = validate.validate("demo", spec(), catalogue(), Known(model_config=NEMOTRON_H)).template
    assert template is not None
    assert template.choices == {}
    assert mode("plain").connector is not None
