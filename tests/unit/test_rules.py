"""The rules of validation that need more than the spec alone: a mode, the model's config.json, the hosts' facts. One table a family.

A row has the keys of the other tables, and `model_config` (the name of one below, or a config.json), `caches` (pd_caches), `cache_users`,
`hosts` (facts by name, short: the GPUs' makers and models) and `patterns` (the hosts of each role's pattern). `modes` runs a row in each of
several modes."""

from __future__ import annotations

import pytest
from builders import GROUP, cases, catalogue, check_findings, codes, host_facts, judge, only, spec, spec_of

from ansible_collections.inferops.pd.plugins.module_utils._core.base import version
from ansible_collections.inferops.pd.plugins.module_utils._core.base.finding import Findings
from ansible_collections.inferops.pd.plugins.module_utils._core.facts.observed import read_host
from ansible_collections.inferops.pd.plugins.module_utils._core.model import model_config
from ansible_collections.inferops.pd.plugins.module_utils._core.rules import checks_hardware, validate
from ansible_collections.inferops.pd.plugins.module_utils._core.spec.cache_service import parse
from ansible_collections.inferops.pd.plugins.module_utils._core.spec.known import NOTHING, Known
from ansible_collections.inferops.pd.plugins.module_utils._core.work.member import Member
from ansible_collections.inferops.pd.plugins.module_utils._engines import registry
from ansible_collections.inferops.pd.plugins.plugin_utils._caches import load_recipes
from ansible_collections.inferops.pd.plugins.plugin_utils._modes import load_modes

DENSE = {
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "max_position_embeddings": 32768,
    "torch_dtype": "bfloat16",
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "hidden_size": 4096,
    "num_hidden_layers": 36,
}
CONFIGS = {
    "dense": DENSE,
    "float32": {**DENSE, "torch_dtype": "float32"},
    "float16": {**DENSE, "torch_dtype": "float16"},
    "yarn": {**DENSE, "rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 8192}},
    "llama3": {**DENSE, "rope_scaling": {"rope_type": "llama3", "factor": 8.0}},
    "quantized": {**DENSE, "quantization_config": {"quant_method": "modelopt", "kv_cache_quant_algo": "FP8"}},
    "experts": {**DENSE, "num_experts": 128},
    "mla": {**DENSE, "kv_lora_rank": 512},
    "recurrent": {**DENSE, "layer_types": ["linear_attention", "full_attention"]},
    "sliding": {**DENSE, "sliding_window": 4096, "layer_types": ["sliding_attention", "full_attention"]},
    "chunked": {"text_config": {**DENSE, "attention_chunk_size": 8192}},
}
FAMILIES = (
    "runtime", "every_mode", "flags", "parallel", "config_json", "handshake", "engine", "router", "hardware", "cache",
)  # fmt: skip


def known_of(row) -> Known:
    config = row.get("model_config")
    hosts = {
        name: read_host(name, facts_of(number, given))
        for number, (name, given) in enumerate(row.get("hosts", {}).items(), 1)
    }
    services = parse(row["caches"], load_recipes(), Findings()) if "caches" in row else None
    config = CONFIGS[config] if isinstance(config, str) else config
    users = row.get("cache_users", {})
    return Known(config, hosts, row.get("patterns", {}), caches=services, cache_users=users)


def facts_of(number: int, given) -> dict:
    facts = host_facts(number, **given.get("facts", {}))
    vendor, models = given.get("vendor", "nvidia"), given.get("gpus", [])
    for one in facts["members"]:
        label = {"member": f"{one['label']['group']}-{number}", "index": 0, "revision": "r", "generation": 1}
        one["label"] = {**label, **one["label"]}
    facts["gpus"] = [{"id": f"G{number}-{i}", "model": m, "vendor": vendor} for i, m in enumerate(models)]
    return facts


def verdict(raw, known: Known = NOTHING) -> validate.Verdict:
    return validate.validate(GROUP, raw, catalogue(), known)


@pytest.mark.parametrize("row", [row for family in FAMILIES for row in cases(f"rules_{family}")])
def test_findings(row):
    modes = row.get("modes", [row.get("group", {}).get("mode", "vllm-nixl")])
    for name in modes:
        changed = {**row, "group": {**row.get("group", {}), "mode": name}}
        check_findings(verdict(spec_of(changed), known_of(row)).findings.items, row["findings"])


MODES = sorted(name for name in load_modes() if name != "custom")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("config", [None, *CONFIGS])
def test_a_plain_spec_has_no_findings_in_any_mode_whatever_is_known(mode, config):
    raw = spec(mode=mode, engine={"args": []}, prefill={"gpus": 2}, decode={"gpus": 2})
    assert codes(verdict(raw, Known(CONFIGS.get(config))).findings) == []


ONE_SIDED = [
    "--speculative-config={}",
    "--lora-modules=a",
    "--block-size=32",
    "--max-model-len=8k",
    "--dtype=half",
    "--hf-overrides={}",
    "--revision=main",
    "--config=/a",
    "--attention-backend=FLASHINFER",
    '--kv-transfer-config={"kv_connector":"X"}',
]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("arg", ONE_SIDED)
def test_what_is_said_of_two_sides_names_both(mode, arg):
    for role in ("prefill", "decode"):
        for found in verdict(spec(mode=mode, engine={"args": []}, **{role: {"args": [arg]}})).findings.items:
            if len(found.roles) == 2 and "router" not in found.roles:
                assert "prefill" in found.message, found
                assert "decode" in found.message, found
            assert found.hint


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("arg", ONE_SIDED)
@pytest.mark.parametrize("config", [None, "dense", "mla", "chunked"])
def test_the_same_on_both_sides_is_never_a_difference(mode, arg, config):
    found = verdict(spec(mode=mode, engine={"args": [arg]}), Known(CONFIGS.get(config))).findings.items
    assert [f.code for f in found if f.severity == "error" and f.code.startswith("pairing-")] == []


READ = [
    "kv_lora_rank",
    "layer_types",
    "layers_block_type",
    "hybrid_override_pattern",
    "compress_ratios",
    "model_type",
    "architectures",
    "sliding_window",
    "attention_chunk_size",
    "num_experts",
    "num_key_value_heads",
    "num_attention_heads",
    "head_dim",
    "hidden_size",
    "num_hidden_layers",
    "max_position_embeddings",
    "rope_scaling",
    "rope_parameters",
    "torch_dtype",
    "quantization_config",
    "text_config",
    "index_topk",
]


@pytest.mark.parametrize("value", [None, 0, "x", [], {}, {"a": 1}, [1], True, 1e9, -1], ids=str)
def test_a_config_json_of_any_shape_never_raises(value):
    """A file that nobody checked: every field that is read may hold anything."""
    raw = spec(
        mode="vllm-ascend-mooncake",
        prefill={"args": ["--dtype=auto", "-dp=2"], "env": {"VLLM_KV_CACHE_LAYOUT": "NHD"}},
        decode={"args": ["--dtype=half", "--kv-cache-dtype=fp8", "--max-model-len=1"]},
    )
    for field in READ:
        for mode in ("vllm-nixl", "vllm-ascend-mooncake", "sglang-nixl"):
            verdict({**raw, "mode": mode}, Known({**DENSE, field: value})).findings.to_plain()


@pytest.mark.parametrize("facts", [None, 0, "x", [], {}, {"gpus": 3}, {"gpus": [3, {}]}, {"models": 3}], ids=str)
def test_facts_of_any_shape_never_raise(facts):
    verdict(spec(), Known(hosts={"h1": read_host("h1", facts)})).findings.to_plain()


def test_the_config_of_a_host_is_taken_when_none_is_given():
    facts = {"models": {"/models/m": {"exists": True, "config": DENSE}}}
    raw = spec(decode={"args": []})
    assert codes(verdict(raw).findings) == ["pairing-unverified"]
    assert codes(verdict(raw, Known(hosts={"h1": read_host("h1", facts)})).findings) == []


def test_the_engines_version_on_the_hosts_counts_where_the_spec_states_none():
    raw = spec(prefill={"extra_args": ["--disable-hybrid-kv-cache-manager"]})
    assert codes(verdict(raw, Known(DENSE)).findings) == []
    assert codes(verdict(raw, Known(DENSE, {"h1": read_host("h1", host_facts())})).findings) == [
        "pairing-hybrid-kv-cache-manager"
    ]


# -- cards ------------------------------------------------------------------------------------------------------------


def member(name: str, role: str, *args: str, gpus=(), **env: str):
    part = {"host": "h1", "port": 40000, "gpus": list(gpus), "argv": args, "env": env}
    return Member.from_plain({"id": name, "role": role, "parts": [part]})


def shared(*members) -> list[str]:
    findings = Findings()
    engines = {role: registry.by_backend("vLLM") for role in ("prefill", "decode")}
    checks_hardware.memory_fractions(members, engines, findings)
    return [f.message for f in findings.items]


def test_members_that_share_a_card_must_not_take_more_than_it_has():
    one = member("p", "prefill", "--gpu-memory-utilization=0.6", gpus=["G0"])
    assert shared(one, member("d", "decode", "--gpu_memory_utilization 0.5", gpus=["G1"])) == []
    assert shared(one, member("d", "decode", "--gpu-memory-utilization=0.4", gpus=["G0"])) == []
    (told,) = shared(one, member("d", "decode", "--gpu-memory-utilization=0.5", gpus=["G0", "G1"]))
    assert "p 0.6, d 0.5 share GPU G0" in told


def test_a_share_that_is_not_written_is_the_engines_default():
    assert len(shared(member("p", "prefill", gpus=["G0"]), member("d", "decode", gpus=["G0"]))) == 1


def test_cards_that_the_environment_names_are_shared_as_well():
    both = member("p", "prefill", CUDA_VISIBLE_DEVICES="0,1"), member("d", "decode", CUDA_VISIBLE_DEVICES="1")
    assert ["GPU 1," in told for told in shared(*both)] == [True]


def test_members_without_cards_share_none():
    assert shared(member("p", "prefill"), member("d", "decode"), member("r", "router", gpus=["G0"])) == []


# -- what a config.json tells ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("question", "config", "answer"),
    [
        ("context_length", "dense", 32768),
        ("context_length", "llama3", 32768),
        ("context_length", "yarn", None),
        ("context_length", "chunked", 32768),
        ("kv_heads", "dense", 8),
        ("head_size", "dense", 128),
        ("layers", "chunked", 36),
        ("recurrent", "recurrent", True),
        ("recurrent", "sliding", False),
        ("partial_attention", "sliding", True),
        ("chunked", "chunked", True),
        ("mla", "mla", True),
        ("experts", "experts", True),
        ("experts", "dense", False),
        ("plain_kv_cache", "dense", True),
        ("plain_kv_cache", "quantized", False),
    ],
)
def test_what_a_config_json_tells(question, config, answer):
    made = model_config.read(CONFIGS[config])
    assert getattr(made, question) == answer


def test_rope_by_kind_of_layer_is_looked_into():
    plain = {**DENSE, "rope_parameters": {"full_attention": {"rope_type": "default"}}}
    longer = {**DENSE, "rope_parameters": {"full_attention": {"rope_type": "linear", "factor": 8.0}}}
    assert model_config.read(plain).context_length == 32768
    assert model_config.read(longer).context_length is None


@pytest.mark.parametrize(
    ("text", "is_at_least"),
    [
        ("0.27.1", True),
        ("v0.28", True),
        ("0.32.0+cpu", True),
        ("0.27.1.post1", True),
        ("0.27.1rc1", False),
        ("0.28.0rc1", True),
        ("0.28.0.dev12+gabc", True),
        ("0.27.0", False),
        ("nightly", False),
        (None, False),
    ],
)
def test_at_least(text, is_at_least):
    assert version.at_least(text, "0.27.1") is is_at_least


def test_a_secret_variable_cannot_be_compared():
    raw = spec(prefill={"secrets": {"VLLM_KV_CACHE_LAYOUT": "NHD"}}, decode={"env": {"VLLM_KV_CACHE_LAYOUT": "NHD"}})
    assert only(judge(raw).findings, "pairing-unverified").factor == "KV cache layout"
