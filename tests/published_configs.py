# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Facts of published config.json files: the fields that say what a layer keeps of a sequence, by the model's name."""

from __future__ import annotations

import typing as t

BF16 = {"torch_dtype": "bfloat16"}
FULL, SLIDING, LINEAR = "full_attention", "sliding_attention", "linear_attention"


def _gqa(layers: int, heads: int, kv: int, size: int, **more: t.Any) -> dict[str, t.Any]:
    told = {"num_hidden_layers": layers, "num_attention_heads": heads, "num_key_value_heads": kv, "head_dim": size}
    return {**told, **BF16, **more}


def _mla(layers: int, heads: int, **more: t.Any) -> dict[str, t.Any]:
    return _gqa(layers, heads, heads, 64, kv_lora_rank=512, qk_rope_head_dim=64, v_head_dim=128, **more)


_MAMBA = {"mamba_head_dim": 64, "n_groups": 8, "conv_kernel": 4, "expand": 2, "model_type": "nemotron_h"}
_FP8_KV = {"quantization_config": {"quant_method": "modelopt", "kv_cache_scheme": {"num_bits": 8, "type": "float"}}}
_ATTENDS = {"attention": {"n_heads_in_group": 8, "no_op": False, "replace_with_linear": False, "window_length": None}}
_SKIPS = {"attention": {"n_heads_in_group": None, "no_op": True, "replace_with_linear": False, "window_length": None}}
_GEMMA_4 = {
    "model_type": "gemma4_text",
    "attention_k_eq_v": True,
    "global_head_dim": 512,
    "num_kv_shared_layers": 0,
    "sliding_window": 1024,
}
_DSA = {"index_head_dim": 128, "index_n_heads": 64, "index_topk": 2048, "num_nextn_predict_layers": 1}

CONFIGS: dict[str, dict[str, t.Any]] = {
    "Llama-3.1-8B": _gqa(32, 32, 8, 128),
    "Llama-3.1-70B": _gqa(80, 64, 8, 128),
    "Llama-3.1-405B": _gqa(126, 128, 8, 128),
    "Qwen3-8B": _gqa(36, 32, 8, 128),
    "Qwen3-32B": _gqa(64, 64, 8, 128, model_type="qwen3", sliding_window=None, use_sliding_window=False),
    "Qwen3-30B-A3B": _gqa(48, 32, 4, 128),
    "Qwen3-235B-A22B": _gqa(94, 64, 4, 128),
    "Mixtral-8x7B": _gqa(32, 32, 8, 128, model_type="mixtral", sliding_window=None),
    "DeepSeek-V3": _mla(61, 128, num_nextn_predict_layers=1),
    "DeepSeek-V3.2": _mla(61, 128, **_DSA),
    "GLM-5": _mla(78, 64, **{**_DSA, "index_n_heads": 32}),
    "GLM-5.2": _mla(
        78, 64, **_DSA, layer_types=["deepseek_sparse_attention"] * 78,
        index_topk_freq=4, index_skip_topk_offset=3,
        indexer_types=["full"] * 3 + (["shared"] * 3 + ["full"]) * 18 + ["shared"] * 3,
    ),
    "DeepSeek-V4-Flash": _gqa(
        43, 64, 1, 512, model_type="deepseek_v4", compress_ratios=[0, 0] + [4, 128] * 20 + [4, 0], sliding_window=128,
    ),
    "Kimi-K2.6-NVFP4": {"text_config": _mla(61, 64, **_FP8_KV), **_FP8_KV},
    "Kimi-K3": {
        "text_config": _mla(
            93, 96, model_type="kimi_linear", linear_attn_config={
                "full_attn_layers": [*range(4, 93, 4), 93], "kda_layers": [n for n in range(1, 93) if n % 4],
                "head_dim": 128, "num_heads": 96, "short_conv_kernel_size": 4,
            },
        )
    },
    "gemma-4-26B-A4B": {"text_config": _gqa(
        30, 16, 8, 256, **_GEMMA_4, num_global_key_value_heads=2, layer_types=([SLIDING] * 5 + [FULL]) * 5,
    )},
    "Gemma-4-31B-IT": {"text_config": _gqa(
        60, 32, 16, 256, **_GEMMA_4, num_global_key_value_heads=4, layer_types=([SLIDING] * 5 + [FULL]) * 10,
    )},
    "MiMo-V2-Flash": _gqa(
        48, 64, 4, 192, model_type="mimo_v2_flash", v_head_dim=128, sliding_window=128, attention_chunk_size=128,
        swa_num_key_value_heads=8, swa_head_dim=192, swa_v_head_dim=128,
        hybrid_layer_pattern=[0] + ([1] * 4 + [0]) + ([1] * 5 + [0]) * 7,
    ),
    "gpt-oss-120b": _gqa(36, 64, 8, 64, model_type="gpt_oss", sliding_window=128, layer_types=[SLIDING, FULL] * 18),
    "gpt-oss-20b": _gqa(24, 64, 8, 64, model_type="gpt_oss", sliding_window=128, layer_types=[SLIDING, FULL] * 12),
    "Llama-4-Scout": {"text_config": _gqa(48, 40, 8, 128, model_type="llama4_text", attention_chunk_size=8192)},
    "Step-3.7-Flash": _gqa(45, 64, 8, 128, sliding_window=512, layer_types=([FULL] + [SLIDING] * 3) * 11 + [FULL]),
    "Llama-3_3-Nemotron-Super-49B": {
        "num_hidden_layers": 80, "hidden_size": 8192, "num_attention_heads": 64, "num_key_value_heads": None, **BF16,
        "block_configs": [_ATTENDS] * 49 + [_SKIPS] * 31,
    },
    "Nemotron-H-56B": _gqa(
        118, 64, 8, 128, **_MAMBA, mamba_num_heads=256, ssm_state_size=256,
        hybrid_override_pattern="M-M-M-M*" + "-M-M-M-M-M*" * 9 + "-M-M-M-M-M-",
    ),
    "Nemotron-3-Nano-30B": _gqa(
        52, 32, 2, 128, **_MAMBA, mamba_num_heads=64, ssm_state_size=128, mamba_ssm_cache_dtype="float32",
        hybrid_override_pattern="MEMEM*" + "EMEMEM*" * 4 + "EMEMEMEM*EMEMEMEME",
    ),
    "Nemotron-3-Super-120B": _gqa(
        88, 32, 2, 128, **_MAMBA, mamba_num_heads=128, ssm_state_size=128, mamba_ssm_cache_dtype="float32",
        num_nextn_predict_layers=1,
        hybrid_override_pattern="MEMEMEM*EMEMEMEM*EMEMEMEM*EMEMEMEMEM*EMEMEMEMEM*EMEMEMEMEM*EMEMEMEMEM*EMEMEMEM*EMEMEMEME",
    ),
    "Qwen3.5-27B": {"text_config": {
        **_gqa(64, 24, 4, 256), "layer_types": ([LINEAR] * 3 + [FULL]) * 16, "mtp_num_hidden_layers": 1,
        "linear_conv_kernel_dim": 4, "linear_key_head_dim": 128, "linear_num_key_heads": 16,
        "linear_num_value_heads": 48, "linear_value_head_dim": 128, "mamba_ssm_dtype": "float32",
    }},
    "MiniMax-M2.5": _gqa(62, 48, 8, 128),
    "MiniMax-M3": _gqa(60, 64, 4, 128, sparse_attention_config={
        "use_sparse_attention": True, "sparse_index_dim": 128, "sparse_attention_freq": [0] * 3 + [1] * 57,
    }),
}  # fmt: skip

# The forms of families of which no file was at hand: the fields are theirs, by their class in transformers; the numbers may differ.
FORMS: dict[str, dict[str, t.Any]] = {
    "qwen2": _gqa(28, 28, 4, 128, model_type="qwen2", sliding_window=131072, use_sliding_window=False, max_window_layers=28),
    "mistral": _gqa(32, 32, 8, 128, model_type="mistral", sliding_window=4096, max_position_embeddings=32768),
    "gemma3 with little written": {"model_type": "gemma3", "torch_dtype": "bfloat16", "text_config": {
        "model_type": "gemma3_text", "hidden_size": 2560, "num_hidden_layers": 34, "sliding_window": 1024,
    }},
    "gemma3": {"model_type": "gemma3", "torch_dtype": "bfloat16", "text_config": {
        "model_type": "gemma3_text", "hidden_size": 5376, "num_hidden_layers": 62, "sliding_window": 1024,
        "num_attention_heads": 32, "num_key_value_heads": 16, "head_dim": 128,
    }},
    "gemma2": _gqa(42, 16, 8, 256, model_type="gemma2", sliding_window=4096),
    "qwen3_next": _gqa(
        48, 16, 2, 256, model_type="qwen3_next", full_attention_interval=4,
        linear_conv_kernel_dim=4, linear_key_head_dim=128, linear_num_key_heads=16, linear_num_value_heads=32, linear_value_head_dim=128,
    ),
    "jamba": {
        "model_type": "jamba", "num_hidden_layers": 32, "attn_layer_period": 8, "attn_layer_offset": 4, "hidden_size": 4096, **BF16,
        "num_attention_heads": 32, "num_key_value_heads": 8, "mamba_d_conv": 4, "mamba_d_state": 16, "mamba_expand": 2,
    },
    "falcon_h1": _gqa(
        44, 12, 2, 128, model_type="falcon_h1", hidden_size=3072, mamba_d_ssm=3072, mamba_n_heads=24, mamba_d_head=128,
        mamba_n_groups=1, mamba_d_state=256, mamba_d_conv=4,
    ),
    "minimax": _gqa(80, 64, 8, 128, model_type="minimax", attn_type_list=([0] * 7 + [1]) * 10),
    "lfm2": {
        "model_type": "lfm2", "num_hidden_layers": 16, "hidden_size": 2048, "conv_L_cache": 3, "conv_dim": 2048, **BF16,
        "num_attention_heads": 32, "num_key_value_heads": 8, "full_attn_idxs": [2, 5, 8, 10, 12, 14],
    },
}  # fmt: skip
