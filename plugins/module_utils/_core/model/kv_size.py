# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How large the KV cache of a token is, by the model's config.json: what a transfer between prefill and decode has to move."""

from __future__ import annotations

from .model_config import ModelConfig

WIDTHS = {"float32": 4, "float": 4, "float16": 2, "half": 2, "bfloat16": 2, "auto": 2}
ATTENTION = ("attention", "full_attention", "sliding_attention", "chunked_attention")


def of_token(config: ModelConfig, cache_dtype: str | None = None, tensor: int = 1) -> int | None:
    """Bytes that one token puts into the KV cache of all layers; None when the file does not tell. `tensor` ranks hold a head each at
    least, so more ranks than heads repeat them."""
    layers = _layers(config)
    width = _width(cache_dtype, config)
    if not layers or not width:
        return None
    if config.mla:
        # One compressed vector, and the part of it that carries the position; every rank has the same.
        rank, rope = config.number("kv_lora_rank"), config.number("qk_rope_head_dim") or 0
        return layers * ((rank or 0) + rope) * width
    heads, size = config.kv_heads, config.head_size
    return layers * 2 * max(heads, tensor) * size * width if heads and size else None


def _layers(config: ModelConfig) -> int | None:
    """Layers that keep a KV cache: of a hybrid those with attention."""
    for level in config.levels:
        kinds = level.get("layer_types") or level.get("layers_block_type")
        if isinstance(kinds, (list, tuple)) and kinds:
            return sum(1 for kind in kinds if kind in ATTENTION) or None
    pattern = config.get("hybrid_override_pattern")
    if isinstance(pattern, str) and pattern:
        return pattern.count("*") or None
    return config.layers


def _width(cache_dtype: str | None, config: ModelConfig) -> int | None:
    """Bytes of one number."""
    told = (cache_dtype or "auto").lower()
    if "fp8" in told or "int8" in told or "float8" in told:
        return 1
    if told == "auto":
        told = config.dtype or "auto"
    return WIDTHS.get(told)


def seconds(per_token: int, tokens: int, mbit: float) -> float:
    """How long the KV cache of so many tokens is on its way."""
    return per_token * tokens * 8 / (mbit * 1e6)


def in_words(per_token: int | None) -> str:
    """For the table."""
    return f"{per_token / 1024:.3g} KiB" if per_token else "unknown"
