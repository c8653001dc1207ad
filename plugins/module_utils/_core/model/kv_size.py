# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How large the KV cache of a sequence is, by the model's config.json: what a transfer between prefill and decode has to move.

    attention        2 * KV heads * head size * width a token and layer; keys and values apart where they differ
    MLA              (kv_lora_rank + qk_rope_head_dim) * width, once for all heads and the same on every rank
    sparse MLA       and the index keys, in one byte each with a scale of four for 128 of them
    windows, chunks  of the last tokens only
    recurrent layers a state (a convolution's last inputs and a matrix for each head), whatever the length

It is what the layers hold, without the padding of an engine's blocks.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from .layers import MOST, Layer, Unknown, layers_of
from .model_config import ModelConfig

WIDTHS = {"float32": 4, "float": 4, "float16": 2, "half": 2, "bfloat16": 2, "auto": 2}
# Bytes of a token and layer in the formats that pack an MLA cache together with its scales.
PACKED_MLA = {"fp8_ds_mla": 656, "nvfp4_ds_mla": 352}
# What classes of transformers fill in for fields that files of the family leave out.
_DEFAULTS: dict[str, dict[str, int]] = {
    "gemma": {"head_dim": 256},
    "gemma2": {"head_dim": 256},
    "gemma3_text": {"head_dim": 256, "num_attention_heads": 8, "num_key_value_heads": 4},
    "gemma3n_text": {"head_dim": 256, "num_attention_heads": 8, "num_key_value_heads": 2},
    "gemma4_text": {"head_dim": 256, "global_head_dim": 512},
    "qwen3_next": {"head_dim": 256},
}
_MTP = ("num_nextn_predict_layers", "mtp_num_hidden_layers", "mtp_num_layers")


@dataclass(frozen=True)
class KvSize:
    """In bytes. `token` is what each token adds, however long the sequence is; `windows` are (tokens, bytes a token) of layers that
    keep their last tokens only; `state` is what a sequence takes whatever its length. `missing` says what is not counted."""

    token: int
    windows: tuple[tuple[int, int], ...] = ()
    state: int = 0
    missing: str = ""

    def of(self, tokens: int) -> int:
        """Bytes of a sequence of so many tokens."""
        return self.token * tokens + sum(each * min(tokens, last) for last, each in self.windows) + self.state

    def unbounded(self) -> KvSize:
        """The same where the engine keeps every token of layers with a window, too."""
        return KvSize(self.token + sum(each for _last, each in self.windows), (), self.state, self.missing)

    def __str__(self) -> str:
        parts = [f"{_bytes(self.token)} a token"] if self.token or not (self.windows or self.state) else []
        parts += [f"{_bytes(each)} for each of the last {last} tokens" for last, each in self.windows]
        parts += [f"{_bytes(self.state)} of state a sequence"] if self.state else []
        return ", ".join(parts) + (f", without {self.missing}" if self.missing else "")


def of_model(
    config: ModelConfig, cache_dtype: str | None = None, tensor: int = 1, drafting: bool = False
) -> KvSize | Unknown:
    """`cache_dtype` is the engine's option, None and auto for what the model brings. `tensor` ranks hold a head each at least, so more
    ranks than heads repeat them. `drafting`: with the layers of multi-token prediction, which speculative decoding runs."""
    layers = layers_of(config)
    if isinstance(layers, Unknown):
        return layers
    cache = _cache_type(config, cache_dtype)
    missing = []
    extra = min(config.number(*_MTP) or 0, MOST) if drafting else 0
    if drafting and not extra:
        missing.append("the draft model's layers")
    token, windows = _index_keys(config, layers) + extra * _index_key(config), dict[int, int]()
    for layer in (*layers, *extra * (Layer(all=True),)):
        if not (layer.all or layer.window):
            continue
        bytes_ = _attention(config, layer, cache, tensor)
        if isinstance(bytes_, Unknown):
            return bytes_
        if layer.window:
            windows[layer.window] = windows.get(layer.window, 0) + bytes_
        else:
            token += bytes_
    state, states = _state(config, tensor), sum(layer.state for layer in layers)
    missing += ["the state of its recurrent layers"] if states and state is None else []
    return KvSize(token, tuple(sorted(windows.items())), states * (state or 0), " and ".join(missing))


# -- attention --------------------------------------------------------------------------------------------------------------------------


def _cache_type(config: ModelConfig, told: str | None) -> str:
    """The type of the KV cache: as the engine is told, else as the checkpoint brings it, else the weights'."""
    told = (told or "auto").lower()
    if told != "auto":
        return told
    return config.kv_cache_brought or config.dtype or "auto"


def _attention(config: ModelConfig, layer: Layer, cache: str, tensor: int) -> int | Unknown:
    """Bytes of a token in one layer."""
    if config.mla and cache in PACKED_MLA:
        return PACKED_MLA[cache]
    width = _width(cache)
    if width is None:
        return Unknown(f"how a KV cache of type {cache} is packed is not known here")
    if config.mla:
        rank, rope = config.number("kv_lora_rank"), config.number("qk_rope_head_dim") or 0
        # Engines keep the 8-bit cache of sparse MLA in the packed format.
        return PACKED_MLA["fp8_ds_mla"] if width == 1 and config.get("index_topk") else ((rank or 0) + rope) * width
    heads, size = layer.heads or _number(config, "num_key_value_heads") or config.kv_heads, _head_size(config)
    values = config.number("v_head_dim") or size
    if layer.window:
        heads = config.number("swa_num_key_value_heads") or heads
        size = config.number("swa_head_dim") or size
        values = config.number("swa_v_head_dim") or values
    elif _number(config, "global_head_dim"):
        # Gemma 4: other heads where a layer attends to all. Its keys are its values before the norms, so both are kept.
        size = values = _number(config, "global_head_dim")
        heads = (config.number("num_global_key_value_heads") if config.get("attention_k_eq_v") else None) or heads
    if not heads or not size or not values:
        return Unknown("its config.json does not tell its KV heads and their size")
    return max(heads, tensor) * (size + values) * width


def _index_keys(config: ModelConfig, layers: t.Sequence[Layer]) -> int:
    """Bytes of a token that the layers' indexes keep, of models that choose by an index what a token attends to."""
    own = sum(layer.all for layer in layers)
    told = config.get("sparse_attention_config")
    if isinstance(told, t.Mapping) and told.get("use_sparse_attention", True):
        flags, size = told.get("sparse_attention_freq"), told.get("sparse_index_dim")
        count = sum(map(bool, flags)) if isinstance(flags, (list, tuple)) else own
        width = _width(config.dtype or "auto") or 2
        return count * size * width if isinstance(size, int) else 0
    return _indexers(config, own) * _index_key(config)


def _index_key(config: ModelConfig) -> int:
    """DeepSeek Sparse Attention: one key for all heads, in FP8, with a scale of four bytes for each 128 of it."""
    size = config.number("index_head_dim") if config.mla and config.get("index_topk") else None
    return size + -(-size // 128) * 4 if size else 0


def _indexers(config: ModelConfig, layers: int) -> int:
    """How many layers have an index of their own; the others use that of the one before (GLM-5.2)."""
    types, pattern = config.get("indexer_types"), config.get("index_topk_pattern")
    if isinstance(types, (list, tuple)) and types:
        return len([kind for kind in types[:layers] if kind == "full"])
    if isinstance(pattern, (str, list, tuple)) and pattern:
        return layers - len([letter for letter in pattern[:layers] if letter == "S"])
    every, first = config.number("index_topk_freq") or 1, config.get("index_skip_topk_offset")
    offset = first if isinstance(first, int) else 2
    return len([number for number in range(layers) if max(number - offset + 1, 0) % every == 0])


def _head_size(config: ModelConfig) -> int | None:
    return _number(config, "head_dim") or config.head_size


def _number(config: ModelConfig, name: str) -> int | None:
    """A field, else what the family's class fills in."""
    return config.number(name) or _DEFAULTS.get(str(config.get("model_type")), {}).get(name)


def _width(dtype: str) -> int | None:
    """Bytes of one number."""
    # With scales of its own for each token and head.
    if dtype.endswith(("_per_token_head", "_ds_mla")):
        return None
    return 1 if dtype.startswith(("fp8", "int8", "float8")) else WIDTHS.get(dtype)


# -- recurrent layers -------------------------------------------------------------------------------------------------------------------


def _state(config: ModelConfig, tensor: int) -> int | None:
    """Bytes of one recurrent layer: the last inputs of its convolution, and the matrices of its heads."""
    width = _width(config.dtype or "auto") or 2
    for shape in (_kda, _delta_net, _mamba2, _mamba1, _short_convolution):
        found = shape(config, tensor)
        if found:
            inputs, matrices, dtype = found
            return inputs * width + matrices * ((_width(dtype) if dtype else None) or width)
    return None


# Each: numbers that the convolution keeps, numbers of the matrices, and their type where it is not the weights'.
_Shape = t.Optional[tuple[int, int, t.Optional[str]]]


def _kda(config: ModelConfig, _tensor: int) -> _Shape:
    told = config.get("linear_attn_config")
    names = ("num_heads", "head_dim", "short_conv_kernel_size")
    found = [told.get(name) for name in names] if isinstance(told, t.Mapping) else []
    counts = [value for value in found if isinstance(value, int) and value > 0]
    if len(counts) < len(names):
        return None
    heads, size, kernel = counts
    return 3 * heads * size * (kernel - 1), heads * size * size, "float32"


def _delta_net(config: ModelConfig, _tensor: int) -> _Shape:
    keys, key = config.number("linear_num_key_heads"), config.number("linear_key_head_dim")
    values, value = config.number("linear_num_value_heads"), config.number("linear_value_head_dim")
    kernel = config.number("linear_conv_kernel_dim")
    if not (keys and key and values and value and kernel):
        return None
    return (2 * keys * key + values * value) * (kernel - 1), values * value * key, _ssm_type(config)


def _mamba2(config: ModelConfig, tensor: int) -> _Shape:
    heads = config.number("mamba_num_heads", "mamba_n_heads", "n_mamba_heads")
    size, inner = config.number("mamba_head_dim", "mamba_d_head", "mamba_headdim"), config.number("mamba_d_ssm")
    groups = config.number("n_groups", "mamba_n_groups", "mamba_ngroups")
    state, kernel = config.number("ssm_state_size", "mamba_d_state"), config.number("conv_kernel", "mamba_d_conv")
    if heads and not size:
        hidden, wider = config.number("hidden_size"), config.number("mamba_expand", "expand")
        inner = inner or (hidden * wider if hidden and wider else None)
        size = inner // heads if inner else None
    if not (heads and size and groups and state and kernel):
        return None
    # A group that several ranks need is on each of them.
    groups += tensor - groups if groups % tensor else 0
    return (heads * size + 2 * groups * state) * (kernel - 1), heads * size * state, _ssm_type(config)


def _mamba1(config: ModelConfig, _tensor: int) -> _Shape:
    hidden, wider = config.number("hidden_size"), config.number("mamba_expand")
    state, kernel = config.number("mamba_d_state"), config.number("mamba_d_conv")
    if not (hidden and wider and state and kernel) or config.number(
        "mamba_n_heads", "n_mamba_heads", "mamba_num_heads"
    ):
        return None
    return hidden * wider * (kernel - 1), hidden * wider * state, None


def _short_convolution(config: ModelConfig, _tensor: int) -> _Shape:
    kernel, size = config.number("conv_L_cache"), config.number("conv_dim", "hidden_size")
    return (size * (kernel - 1), 0, None) if kernel and size else None


def _ssm_type(config: ModelConfig) -> str | None:
    told = config.get("mamba_ssm_cache_dtype") or config.get("mamba_ssm_dtype")
    if isinstance(told, str):
        return told
    return "float32" if config.get("model_type") == "nemotron_h" else None


# -- what it means ----------------------------------------------------------------------------------------------------------------------


def seconds(bytes_: int, mbit: float) -> float:
    """How long so many bytes are on their way."""
    return bytes_ * 8 / (mbit * 1e6)


def _bytes(count: int) -> str:
    value, unit = (count / 2**20, "MiB") if count >= 2**20 else (count / 1024, "KiB")
    return f"{value:.0f} {unit}" if value >= 1000 else f"{value:.3g} {unit}"
