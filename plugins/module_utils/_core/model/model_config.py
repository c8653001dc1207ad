# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a model's config.json tells about its KV cache. A question that the file does not answer stays open."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

_NESTED = ("text_config", "llm_config", "language_config", "thinker_config")
_ATTENTION = {
    "attention",
    "full_attention",
    "sliding_attention",
    "chunked_attention",
    "indexed_attention",
    "deepseek_sparse_attention",
    "minimax_m3_sparse",
}
_RECURRENT_FIELDS = (
    "conv_L_cache",
    "linear_conv_kernel_dim",
    "linear_key_head_dim",
    "linear_num_key_heads",
    "mamba_d_conv",
    "mamba_d_state",
    "mamba_expand",
    "mamba_num_heads",
    "ssm_state_size",
)
# Families that engines do not run in float16: there it becomes something else.
_NO_FLOAT16 = ("gemma", "plamo2", "glm4")
_EXPERT_FIELDS = ("num_experts", "n_routed_experts", "num_local_experts", "moe_num_experts")
_LENGTH_FIELDS = (
    "max_position_embeddings",
    "max_sequence_length",
    "seq_length",
    "max_seq_len",
    "model_max_length",
    "n_positions",
    "max_seq_length",
    "seq_len",
)
# Position encodings that leave the length in the file as it is; of others the engines and their versions make different lengths.
_PLAIN_ROPE = {"default", "llama3", "mrope"}


@dataclass(frozen=True)
class ModelConfig:
    """A config.json, with a role's overrides laid over it. `levels` are the dictionary and its nested text configurations, inner first."""

    levels: tuple[t.Mapping[str, t.Any], ...]

    def get(self, name: str) -> t.Any:
        """A field, from the innermost text configuration that has it."""
        return next((level[name] for level in self.levels if level.get(name) is not None), None)

    def number(self, *names: str) -> int | None:
        """The first of these fields that is a number above zero."""
        return next((value for value in map(self.get, names) if _is_count(value)), None)

    def _each(self, *names: str) -> t.Iterator[t.Any]:
        """The items of list fields, on all levels."""
        for level in self.levels:
            for name in names:
                found = level.get(name)
                yield from found if isinstance(found, (list, tuple)) else ()

    @property
    def mla(self) -> bool:
        """Multi-head latent attention: one compressed head, whose layout has no heads to be mistaken."""
        return bool(self.get("kv_lora_rank"))

    @property
    def layer_kinds(self) -> set[str]:
        return {str(kind) for kind in self._each("layer_types", "layers_block_type")}

    @property
    def recurrent(self) -> bool:
        """Layers with a state instead of a KV cache (Mamba, linear attention)."""
        if self.layer_kinds - _ATTENTION:
            return True
        if any("m" in str(level.get("hybrid_override_pattern") or "").lower() for level in self.levels):
            return True
        linear = self.get("linear_attn_config")
        if isinstance(linear, t.Mapping) and linear.get("kda_layers"):
            return True
        # MiniMax-01: 0 is a layer of linear attention.
        if 0 in self._each("attn_type_list"):
            return True
        return any(self.get(name) is not None for name in _RECURRENT_FIELDS)

    @property
    def compressed(self) -> bool:
        """Compressed attention, the DeepSeek V4 family."""
        if any(isinstance(r, (int, float)) and r > 0 for r in self._each("compress_ratios")):
            return True
        if any(level.get("model_type") == "deepseek_v4" for level in self.levels):
            return True
        return any(str(a).startswith("DeepseekV4") for a in self._each("architectures"))

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
        return any((self.number(name) or 0) > 1 for name in _EXPERT_FIELDS)

    @property
    def kv_heads(self) -> int | None:
        """KV heads of the whole model."""
        return self.number("num_key_value_heads", "multi_query_group_num", "num_attention_heads")

    @property
    def head_size(self) -> int | None:
        size, heads, hidden = (
            self.number("head_dim", "attention_head_dim"),
            self.number("num_attention_heads"),
            self.number("hidden_size"),
        )
        return size or (hidden // heads if heads and hidden else None)

    @property
    def layers(self) -> int | None:
        return self.number("num_hidden_layers", "n_layer", "num_layers")

    @property
    def context_length(self) -> int | None:
        """Tokens that the model is made for, where the file is plain about it: one number, and no stretched position encoding."""
        found = {value for value in map(self.get, _LENGTH_FIELDS) if _is_count(value)}
        stretched = any(
            _stretches(level.get(name)) for level in self.levels for name in ("rope_scaling", "rope_parameters")
        )
        return found.pop() if len(found) == 1 and not stretched else None

    @property
    def dtype(self) -> str | None:
        """The type of the weights as the file names it, without torch's prefix."""
        found = self.get("dtype") or self.get("torch_dtype")
        return found.replace("torch.", "").lower() if isinstance(found, str) else None

    @property
    def kv_cache_brought(self) -> str | None:
        """The type of the KV cache that a quantized checkpoint brings, in an engine's word; None: it brings none, or none that is known."""
        told = self.get("quantization_config")
        inner = told.get("quantization") if isinstance(told, t.Mapping) else None
        for level in (inner, told):
            if not isinstance(level, t.Mapping):
                continue
            scheme, name = level.get("kv_cache_scheme"), level.get("kv_cache_quant_algo")
            if isinstance(scheme, t.Mapping) and scheme.get("num_bits") == 8:
                return "fp8" if scheme.get("type") == "float" else "int8"
            if isinstance(name, str):
                return name.lower()
        return None

    @property
    def plain_kv_cache(self) -> bool:
        """Whether the KV cache has the weights' type unless told otherwise: no checkpoint that brings its own, no sparse index."""
        brought = any(
            "kv_cache" in key
            for level in self.levels
            for name in ("quantization_config", "compression_config")
            for key in _keys(level.get(name))
        )
        return not (brought or self.compressed or self.get("index_topk"))


def _is_count(value: t.Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _keys(value: t.Any) -> t.Iterator[str]:
    """The keys of a dictionary that have a value, nested ones included."""
    for key, inner in value.items() if isinstance(value, t.Mapping) else ():
        if inner is not None:
            yield str(key)
        yield from _keys(inner)


def _stretches(rope: t.Any) -> bool:
    if not isinstance(rope, t.Mapping):
        return False
    kind = rope.get("rope_type") or rope.get("type")
    if kind is None:
        # By kind of layer: {full_attention: {...}, sliding_attention: {...}}.
        return "factor" in rope or any(_stretches(inner) for inner in rope.values())
    return str(kind) not in _PLAIN_ROPE


def read(config: t.Any, overrides: t.Mapping[str, t.Any] | None = None) -> ModelConfig | None:
    """The configuration of a model; None when there is none to read."""
    if not isinstance(config, t.Mapping) or not config:
        return None
    merged = _merge(config, overrides or {})
    levels: list[t.Mapping[str, t.Any]] = []
    _descend(merged, levels)
    return ModelConfig(tuple(levels))


def from_file(config: ModelConfig, option: str, dtype: str | None) -> str | None:
    """What an engine makes of a silent or auto option by the file alone, where engines and their versions agree on it."""
    own = config.dtype if config.dtype in ("float16", "bfloat16") else None
    if own == "float16" and str(config.get("model_type")).startswith(_NO_FLOAT16):
        own = None
    if option == "dtype":
        return own
    if option == "kv_cache_dtype":
        return (own if dtype in (None, "auto") else dtype) if config.plain_kv_cache else None
    return str(config.context_length) if option == "context_length" and config.context_length else None


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
