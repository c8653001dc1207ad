# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How large a token's KV cache is, by published config.json files' fields."""

from __future__ import annotations

import pytest

from ansible_collections.inferops.pd.plugins.module_utils._core.model import kv_size, model_config

QWEN3_32B = {
    "num_hidden_layers": 64,
    "num_key_value_heads": 8,
    "num_attention_heads": 64,
    "head_dim": 128,
    "torch_dtype": "bfloat16",
}
LLAMA_70B = {
    "num_hidden_layers": 80,
    "num_key_value_heads": 8,
    "num_attention_heads": 64,
    "hidden_size": 8192,
    "torch_dtype": "bfloat16",
}
DEEPSEEK_V3 = {
    "num_hidden_layers": 61,
    "num_attention_heads": 128,
    "num_key_value_heads": 128,
    "kv_lora_rank": 512,
    "qk_rope_head_dim": 64,
    "torch_dtype": "bfloat16",
}
HYBRID = {
    "num_hidden_layers": 4,
    "layer_types": ["linear_attention", "linear_attention", "linear_attention", "full_attention"],
    "num_key_value_heads": 2,
    "head_dim": 256,
    "dtype": "bfloat16",
}


@pytest.mark.parametrize(
    ("config", "dtype", "tensor", "expected"),
    [
        (QWEN3_32B, None, 1, 262144),
        (QWEN3_32B, "fp8", 4, 131072),
        (QWEN3_32B, "fp8_e4m3", 1, 131072),
        (QWEN3_32B, "auto", 1, 262144),
        (QWEN3_32B, "float32", 1, 524288),
        (QWEN3_32B, None, 16, 524288),  # heads are repeated
        (LLAMA_70B, None, 8, 327680),
        (DEEPSEEK_V3, None, 8, 70272),
        (HYBRID, None, 1, 2048),
        ({"text_config": QWEN3_32B}, None, 1, 262144),
        ({"num_hidden_layers": 4}, None, 1, None),
        ({**QWEN3_32B, "torch_dtype": "int3"}, None, 1, None),
    ],
)
def test_bytes_of_a_token(config, dtype, tensor, expected):
    assert kv_size.of_token(model_config.read(config), dtype, tensor) == expected


def test_seconds():
    assert kv_size.seconds(262144, 4096, 10_000) == pytest.approx(0.859, abs=0.001)
