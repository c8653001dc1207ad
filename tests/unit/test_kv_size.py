# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How large a sequence's KV cache is, by published config.json files' fields."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from published_configs import CONFIGS, FORMS, FULL, LINEAR, SLIDING

from ansible_collections.inferops.pd.plugins.module_utils._core.model import kv_size, model_config
from ansible_collections.inferops.pd.plugins.module_utils._core.model.kv_size import KvSize
from ansible_collections.inferops.pd.plugins.module_utils._core.model.layers import Unknown

KIB, MIB = 1024, 1024 * 1024
QWEN3_32B = CONFIGS["Qwen3-32B"]


def of(config, *args, **kwargs):
    return kv_size.of_model(model_config.read(config), *args, **kwargs)


# KiB a token, (tokens, KiB a token) of layers with a window, bytes of state.
SIZES = {
    "Llama-3.1-8B": (128,),
    "Llama-3.1-70B": (320,),
    "Llama-3.1-405B": (504,),
    "Qwen3-8B": (144,),
    "Qwen3-32B": (256,),
    "Qwen3-30B-A3B": (96,),
    "Qwen3-235B-A22B": (188,),
    "Mixtral-8x7B": (128,),
    "MiniMax-M2.5": (248,),
    "DeepSeek-V3": (68.625,),
    "DeepSeek-V3.2": (68.625 + 61 * 132 / KIB,),
    "GLM-5": (87.75 + 78 * 132 / KIB,),
    "GLM-5.2": (87.75 + 21 * 132 / KIB,),  # 21 of 78 layers have an index of their own
    "Kimi-K2.6-NVFP4": (68.625 / 2,),  # the checkpoint brings an FP8 cache
    "Kimi-K3": (27, (), 69 * (96 * 128 * 128 * 4 + 3 * 96 * 128 * 3 * 2)),
    "gemma-4-26B-A4B": (20, ((1024, 200),)),
    "Gemma-4-31B-IT": (80, ((1024, 800),)),
    "MiMo-V2-Flash": (22.5, ((128, 195),)),
    "gpt-oss-120b": (36, ((128, 36),)),
    "gpt-oss-20b": (24, ((128, 24),)),
    "Llama-4-Scout": (48, ((8192, 144),)),
    "Step-3.7-Flash": (48, ((512, 132),)),
    "Llama-3_3-Nemotron-Super-49B": (196,),
    "Nemotron-H-56B": (40, (), 54 * (256 * 64 * 256 * 4 + (256 * 64 + 2 * 8 * 256) * 3 * 2)),
    "Nemotron-3-Nano-30B": (6, (), 23 * (64 * 64 * 128 * 4 + (64 * 64 + 2 * 8 * 128) * 3 * 2)),
    "Nemotron-3-Super-120B": (8, (), 40 * (128 * 64 * 128 * 4 + (128 * 64 + 2 * 8 * 128) * 3 * 2)),
    "Qwen3.5-27B": (64, (), 48 * (48 * 128 * 128 * 4 + (2 * 16 * 128 + 48 * 128) * 3 * 2)),
    "MiniMax-M3": (120 + 57 * 128 * 2 / KIB,),
    "qwen2": (56,),  # its window is written and not used
    "mistral": (0, ((4096, 128),)),
    "gemma3 with little written": (20, ((1024, 116),)),
    "gemma3": (80, ((1024, 416),)),
    "gemma2": (168, ((4096, 168),)),
    "qwen3_next": (24, (), 36 * (32 * 128 * 128 * 2 + (2 * 16 * 128 + 32 * 128) * 3 * 2)),
    "jamba": (16, (), 28 * (8192 * 16 + 8192 * 3) * 2),
    "falcon_h1": (44, (), 44 * (24 * 128 * 256 + (24 * 128 + 2 * 256) * 3) * 2),
    "lfm2": (12, (), 10 * 2048 * 2 * 2),
    "minimax": (40,),
}


@pytest.mark.parametrize("name", SIZES)
def test_models(name):
    token, windows, state = (*SIZES[name], *((), 0)[len(SIZES[name]) - 1 :])
    missing = "the state of its recurrent layers" if name == "minimax" else ""
    expected = KvSize(int(token * KIB), tuple((last, int(each * KIB)) for last, each in windows), state, missing)
    assert of((CONFIGS | FORMS)[name]) == expected


def test_every_published_model_is_in_the_table():
    assert set(SIZES) | {"DeepSeek-V4-Flash"} == set(CONFIGS) | set(FORMS)


@pytest.mark.parametrize(
    ("config", "why"),
    [
        (CONFIGS["DeepSeek-V4-Flash"], "compressed"),
        ({"num_hidden_layers": 4}, "KV heads"),
        ({"num_attention_heads": 4, "head_dim": 8}, "how many layers"),
        ({**QWEN3_32B, "num_hidden_layers": 10**12}, "1000000000000 layers"),
        ({**QWEN3_32B, "torch_dtype": "int3"}, "type int3"),
        ({**QWEN3_32B, "layer_types": [FULL] * 63 + ["woven_attention"]}, "woven_attention"),
        ({**QWEN3_32B, "layer_types": [FULL] * 10}, "10 of 64 layers"),
        ({**QWEN3_32B, "layer_types": [SLIDING] * 64}, "no sliding_window"),
        ({**QWEN3_32B, "model_type": "new", "sliding_window": 512, "use_sliding_window": None}, "for which layers"),
        ({**QWEN3_32B, "model_type": "new", "attention_chunk_size": 512}, "in chunks"),
        ({**QWEN3_32B, "mamba_d_conv": 4}, "a state"),
        ({**QWEN3_32B, "hybrid_override_pattern": "MXM"}, "letters"),
        ({**QWEN3_32B, "block_configs": [{"ffn": {}}] * 64}, "block_configs"),
        ({**QWEN3_32B, "linear_attn_config": {"kda_layers": [1]}}, "linear_attn_config"),
    ],
)
def test_what_the_file_does_not_tell_is_unknown(config, why):
    found = of(config)
    assert isinstance(found, Unknown)
    assert why in found.why


@pytest.mark.parametrize(
    ("config", "dtype", "tensor", "token"),
    [
        (QWEN3_32B, "fp8", 4, 131072),
        (QWEN3_32B, "fp8_e4m3", 1, 131072),
        (QWEN3_32B, "auto", 1, 262144),
        (QWEN3_32B, "float32", 1, 524288),
        (QWEN3_32B, None, 16, 524288),  # heads are repeated
        (CONFIGS["Llama-3.1-70B"], None, 8, 327680),
        (CONFIGS["DeepSeek-V3"], None, 8, 70272),  # one head, on every rank
        (CONFIGS["DeepSeek-V3"], "fp8", 1, 35136),
        (CONFIGS["DeepSeek-V3"], "fp8_ds_mla", 1, 61 * 656),
        (CONFIGS["DeepSeek-V3.2"], "fp8", 1, 61 * (656 + 132)),  # sparse MLA keeps its 8-bit cache with scales
        (CONFIGS["Kimi-K2.6-NVFP4"], "bfloat16", 1, 70272),  # what is written beats what the checkpoint brings
        ({"text_config": QWEN3_32B}, None, 1, 262144),
        ({**QWEN3_32B, "torch_dtype": None}, None, 1, 262144),
        ({**QWEN3_32B, "quantization_config": {"kv_cache_quant_algo": "FP8"}}, None, 1, 131072),
        ({**QWEN3_32B, "quantization_config": {"kv_cache_scheme": None}}, None, 1, 262144),
        ({**QWEN3_32B, "layer_types": [FULL] * 65}, None, 1, 262144),  # the list goes on with a drafting layer
    ],
)
def test_types_and_ranks(config, dtype, tensor, token):
    assert of(config, dtype, tensor) == KvSize(token)


@pytest.mark.parametrize(
    "dtype", ["nvfp4", "int4_per_token_head", "fp8_per_token_head", "turboquant_4bit_nc", "fp8_ds_mla"]
)
def test_a_packed_cache_is_unknown(dtype):
    found = of(QWEN3_32B, dtype)
    assert isinstance(found, Unknown)
    assert dtype in found.why


def test_drafting_layers():
    plain, drafting = of(CONFIGS["DeepSeek-V3.2"]), of(CONFIGS["DeepSeek-V3.2"], drafting=True)
    assert drafting.token - plain.token == 576 * 2 + 132
    assert of(CONFIGS["Qwen3.5-27B"], drafting=True).token == 68 * KIB
    draft_model = of(QWEN3_32B, drafting=True)
    assert (draft_model.token, draft_model.missing) == (262144, "the draft model's layers")


def test_layers_that_read_an_earlier_ones_cache():
    shared = {**CONFIGS["gpt-oss-20b"], "num_kv_shared_layers": 4}
    assert of(shared) == KvSize(20 * KIB, ((128, 20 * KIB),))


def test_a_state_that_is_not_known_is_said():
    config = {**QWEN3_32B, "num_hidden_layers": 4, "layer_types": [LINEAR, LINEAR, LINEAR, FULL]}
    found = of(config)
    assert found == KvSize(4 * KIB, missing="the state of its recurrent layers")
    assert str(found) == "4 KiB a token, without the state of its recurrent layers"


def test_a_sequence():
    gemma = of(CONFIGS["gemma-4-26B-A4B"])
    assert gemma.of(100) == 100 * 220 * KIB
    assert gemma.of(4096) == 4096 * 20 * KIB + 1024 * 200 * KIB
    assert gemma.unbounded().of(4096) == 4096 * 220 * KIB
    kimi = of(CONFIGS["Kimi-K3"])
    assert kimi.of(4096) == 4096 * 27 * KIB + kimi.state


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("Qwen3-32B", "256 KiB a token"),
        ("gemma-4-26B-A4B", "20 KiB a token, 200 KiB for each of the last 1024 tokens"),
        ("Kimi-K3", "27 KiB a token, 429 MiB of state a sequence"),
        ("mistral", "128 KiB for each of the last 4096 tokens"),
    ],
)
def test_words(name, words):
    assert str(of((CONFIGS | FORMS)[name])) == words


@pytest.mark.parametrize(
    ("name", "recurrent", "hybrid"),
    [
        ("Kimi-K3", True, True),
        ("Qwen3.5-27B", True, True),
        ("Nemotron-3-Nano-30B", True, True),
        ("GLM-5.2", False, False),  # sparse attention is attention
        ("MiniMax-M3", False, False),
        ("DeepSeek-V4-Flash", False, True),
        ("gpt-oss-20b", False, False),
        ("lfm2", True, True),
        ("jamba", True, True),
        ("minimax", True, True),
    ],
)
def test_which_models_are_hybrids(name, recurrent, hybrid):
    config = model_config.read((CONFIGS | FORMS)[name])
    assert (config.recurrent, config.hybrid) == (recurrent, hybrid)


def test_seconds():
    assert kv_size.seconds(of(QWEN3_32B).of(4096), 10_000) == pytest.approx(0.859, abs=0.001)


def test_state_in_bfloat16_is_half():
    nano = {**CONFIGS["Nemotron-3-Nano-30B"], "mamba_ssm_cache_dtype": "bfloat16"}
    assert of(nano).state == 23 * (64 * 64 * 128 + (64 * 64 + 2 * 8 * 128) * 3) * 2


ODD = st.one_of(
    st.none(), st.booleans(), st.integers(-(10**20), 10**20), st.floats(), st.text(max_size=4), st.just([]), st.just({}),
    st.lists(st.one_of(st.integers(-2, 9), st.none(), st.text(max_size=3), st.just({}))), st.just({"attention": {"n_heads_in_group": 0}}),
)  # fmt: skip


@settings(max_examples=100, deadline=None, database=None, derandomize=True)
@given(st.data())
def test_no_file_makes_it_fail(data):
    """One that is damaged in any field is unknown, or has a size that is no nonsense."""
    config = dict((CONFIGS | FORMS)[data.draw(st.sampled_from(sorted(SIZES)))])
    inner = dict(config.get("text_config") or {})
    place = inner or config
    for name in data.draw(st.lists(st.sampled_from(sorted(place)), max_size=3)):
        place[name] = data.draw(ODD)
    config = {**config, "text_config": inner} if inner else config
    read = model_config.read(config)
    found = kv_size.of_model(read, data.draw(st.sampled_from([None, "fp8", "nvfp4"])), 2, data.draw(st.booleans()))
    if isinstance(found, KvSize):
        assert found.of(10) >= 0
        assert str(found)
