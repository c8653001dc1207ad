# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# This module util is PRIVATE to the collection.
"""What a model's config.json tells about its KV cache (semantics.md 1.3, 2.6). A question that the file does not answer stays open."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

_NESTED = ("text_config", "llm_config", "language_config", "thinker_config")
_ATTENTION = {"attention", "full_attention", "sliding_attention", "chunked_attention"}
_RECURRENT_FIELDS = (
    "linear_conv_kernel_dim",
    "linear_key_head_dim",
    "linear_num_key_heads",
    "mamba_d_conv",
    "mamba_d_state",
    "mamba_expand",
    "mamba_num_heads",
    "ssm_state_size",
)
_EXPERT_FIELDS = ("num_experts", "n_routed_experts", "num_local_experts", "moe_num_experts")


@dataclass(frozen=True)
class ModelConfig:
    """A config.json, with a role's overrides laid over it. `levels` are the dictionary and its nested text configurations, inner first."""

    levels: tuple[t.Mapping[str, t.Any], ...]

    def get(self, name: str) -> t.Any:
        """A field, from the innermost text configuration that has it."""
        return next((level[name] for level in self.levels if level.get(name) is not None), None)

    @property
    def mla(self) -> bool:
        """Multi-head latent attention: one compressed head, whose layout has no heads to be mistaken."""
        return bool(self.get("kv_lora_rank"))

    @property
    def layer_kinds(self) -> set[str]:
        return {
            str(kind)
            for level in self.levels
            for name in ("layer_types", "layers_block_type")
            for kind in level.get(name) or ()
        }

    @property
    def recurrent(self) -> bool:
        """Layers with a state instead of a KV cache (Mamba, linear attention)."""
        if self.layer_kinds - _ATTENTION:
            return True
        if any("m" in str(level.get("hybrid_override_pattern") or "").lower() for level in self.levels):
            return True
        return any(self.get(name) is not None for name in _RECURRENT_FIELDS)

    @property
    def compressed(self) -> bool:
        """Compressed attention, the DeepSeek V4 family."""
        ratios = [r for level in self.levels for r in level.get("compress_ratios") or ()]
        if any(isinstance(r, (int, float)) and r > 0 for r in ratios):
            return True
        if any(level.get("model_type") == "deepseek_v4" for level in self.levels):
            return True
        return any(str(a).startswith("DeepseekV4") for level in self.levels for a in level.get("architectures") or ())

    @property
    def hybrid(self) -> bool:
        """Whether the KV cache is more than one kind of block for every layer alike."""
        return self.recurrent or self.compressed

    @property
    def partial_attention(self) -> bool:
        """Layers that see less than the whole context: sliding or chunked."""
        return bool(
            self.get("sliding_window") or self.chunked or self.layer_kinds & {"sliding_attention", "chunked_attention"}
        )

    @property
    def chunked(self) -> bool:
        return bool(self.get("attention_chunk_size"))

    @property
    def experts(self) -> bool:
        return any((self.get(name) or 0) > 1 for name in _EXPERT_FIELDS)

    @property
    def kv_heads(self) -> int | None:
        """KV heads of the whole model."""
        found = self.get("num_key_value_heads") or self.get("multi_query_group_num") or self.get("num_attention_heads")
        return int(found) if isinstance(found, int) else None

    @property
    def context_length(self) -> int | None:
        """Tokens that the model was made for."""
        found = self.get("max_position_embeddings") or self.get("max_sequence_length") or self.get("seq_length")
        return int(found) if isinstance(found, int) else None

    @property
    def dtype(self) -> str | None:
        """The type of the weights as the file names it, without torch's prefix."""
        found = self.get("dtype") or self.get("torch_dtype")
        return str(found).replace("torch.", "") if isinstance(found, str) else None


def read(config: t.Any, overrides: t.Mapping[str, t.Any] | None = None) -> ModelConfig | None:
    """The configuration of a model; None when there is none to read."""
    if not isinstance(config, t.Mapping) or not config:
        return None
    merged = _merge(config, overrides or {})
    levels: list[t.Mapping[str, t.Any]] = []
    _descend(merged, levels)
    return ModelConfig(tuple(levels))


def _merge(base: t.Mapping[str, t.Any], over: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    out = dict(base)
    for key, value in over.items():
        out[key] = (
            _merge(out[key], value) if isinstance(value, t.Mapping) and isinstance(out.get(key), t.Mapping) else value
        )
    return out


def _descend(level: t.Mapping[str, t.Any], levels: list[t.Mapping[str, t.Any]]) -> None:
    for name in _NESTED:
        inner = level.get(name)
        if isinstance(inner, t.Mapping):
            _descend(inner, levels)
    levels.append(level)
