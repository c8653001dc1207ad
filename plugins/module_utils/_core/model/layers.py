# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What each layer of a model keeps of a sequence, by its config.json.

Families write it in their own ways: a list of words, of letters or of numbers, an interval, or not at all, where their class in
transformers fills it in. Each way is a reader here, and the first that finds its field answers. What none can read is `Unknown`: a
guess would be taken for a measurement.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from .model_config import ModelConfig


@dataclass(frozen=True)
class Unknown:
    """What the file does not tell; `why` is a phrase without a full stop."""

    why: str


class Layer(t.NamedTuple):
    """`all`: keys and values of every token. `window`: those of the last tokens. `state`: a state of one size, whatever the length."""

    all: bool = False
    window: int | None = None
    state: bool = False
    # KV heads of this layer, where layers differ in them.
    heads: int | None = None


# No model has more; a file that says so is damaged.
MOST = 1_000
NOTHING, ALL, STATE, BOTH = Layer(), Layer(all=True), Layer(state=True), Layer(all=True, state=True)
SLIDING, CHUNKED = ("sliding_window", "sliding_window_size"), ("attention_chunk_size",)
_Answer = t.Union["list[Layer]", Unknown, None]

_WORDS = {
    "attention": ALL,
    "full_attention": ALL,
    "indexed_attention": ALL,
    "deepseek_sparse_attention": ALL,
    "minimax_m3_sparse": ALL,
    "mamba": STATE,
    "mamba2": STATE,
    "linear_attention": STATE,
    "recurrent": STATE,
    "conv": STATE,
    "hybrid": BOTH,
    "moe": NOTHING,
    "mlp": NOTHING,
}
_WINDOWED = {"sliding_attention": SLIDING, "chunked_attention": CHUNKED}
# Nemotron-H: Mamba, attention, a dense MLP, experts.
_LETTERS = {"M": STATE, "*": ALL, "-": NOTHING, "E": NOTHING}
# model_type -> (field, its default, what the other layers keep): every n-th layer attends to all, counted from one.
_EVERY: dict[str, tuple[str, int, tuple[str, ...]]] = {
    "gemma2": ("sliding_window_pattern", 2, SLIDING),
    "gemma3_text": ("sliding_window_pattern", 6, SLIDING),
    "gemma3n_text": ("sliding_window_pattern", 5, SLIDING),
    "gemma4_text": ("sliding_window_pattern", 6, SLIDING),
    "cohere2": ("sliding_window_pattern", 4, SLIDING),
    "exaone4": ("sliding_window_pattern", 4, SLIDING),
    "olmo3": ("sliding_window_pattern", 4, SLIDING),
    "gpt_oss": ("sliding_window_pattern", 2, SLIDING),
    "llama4_text": ("no_rope_layer_interval", 4, CHUNKED),
    "qwen3_next": ("full_attention_interval", 4, ()),
    "qwen3_5_text": ("full_attention_interval", 4, ()),
    "qwen3_5_moe_text": ("full_attention_interval", 4, ()),
}
_INTERVALS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("full_attention_interval", ()),
    ("sliding_window_pattern", SLIDING),
)
# Families all of whose layers have the window that the file names; and those that have it only when told to.
_ALL_WINDOWED = ("mistral", "mixtral", "phi3", "starcoder2")
_WINDOW_IS_ASKED_FOR = ("qwen2", "qwen3")
# Families that have attention and a state in every layer.
_ALL_BOTH = ("falcon_h1",)


def layers_of(config: ModelConfig) -> tuple[Layer, ...] | Unknown:
    """The layers of the model itself, without those of multi-token prediction."""
    if config.compressed:
        return Unknown("its attention is compressed, and its cache is not kept token by token")
    if (config.layers or 0) > MOST:
        return Unknown(f"its config.json says that it has {config.layers} layers")
    for reader in _READERS:
        found = reader(config)
        if isinstance(found, Unknown):
            return found
        if found is not None:
            break
    else:
        return Unknown("its config.json does not say how many layers it has")
    if config.layers and len(found) < config.layers:
        return Unknown(f"its config.json describes {len(found)} of {config.layers} layers")
    # Some lists go on with the layers of multi-token prediction.
    found = found[: config.layers] if config.layers else found
    shared = config.number("num_kv_shared_layers") or 0
    # These read what an earlier layer of their kind has kept.
    own = len(found) - min(shared, len(found))
    return tuple(found[:own] + [NOTHING] * (len(found) - own))


def _window(config: ModelConfig, fields: tuple[str, ...]) -> Layer | Unknown:
    tokens = config.number(*fields)
    return Layer(window=tokens) if tokens else Unknown(f"it has layers with a window, and no {fields[0]}")


def _blocks(config: ModelConfig) -> _Answer:
    """Models that a search has pruned, layer by layer (Nemotron NAS)."""
    blocks = config.get("block_configs")
    if not isinstance(blocks, (list, tuple)) or not blocks:
        return None
    layers: list[Layer] = []
    for block in blocks:
        told = block.get("attention") if isinstance(block, t.Mapping) else None
        if not isinstance(told, t.Mapping):
            return Unknown("its block_configs have a block without attention's part")
        if told.get("no_op") or told.get("replace_with_linear"):
            layers.append(NOTHING)
            continue
        group, heads = told.get("n_heads_in_group"), told.get("num_key_value_heads")
        queries = config.number("num_attention_heads")
        if not _is_count(heads) and _is_count(group) and queries:
            heads = queries // group
        if not _is_count(heads) or told.get("sparsify"):
            return Unknown("its block_configs do not say how many KV heads each block has")
        window = told.get("window_length")
        layers.append(Layer(window=window, heads=heads) if _is_count(window) else Layer(all=True, heads=heads))
    return layers


def _words(config: ModelConfig) -> _Answer:
    for level in config.levels:
        words = level.get("layer_types") or level.get("layers_block_type")
        if not isinstance(words, (list, tuple)) or not words:
            continue
        known: dict[str, Layer] = dict(_WORDS)
        for word in {str(w) for w in words} - set(known):
            window = _window(config, _WINDOWED[word]) if word in _WINDOWED else None
            if window is None:
                return Unknown(f"it has layers of a kind that is not known here: {word}")
            if isinstance(window, Unknown):
                return window
            known[word] = window
        return [known[str(word)] for word in words]
    return None


def _letters(config: ModelConfig) -> _Answer:
    pattern = config.get("hybrid_override_pattern")
    if not isinstance(pattern, str) or not pattern:
        return None
    if set(pattern) - set(_LETTERS):
        return Unknown("its hybrid_override_pattern has letters that are not known here")
    return [_LETTERS[letter] for letter in pattern]


def _linear_config(config: ModelConfig) -> _Answer:
    """Kimi Linear: layers counted from one."""
    told = config.get("linear_attn_config")
    if not isinstance(told, t.Mapping) or not told.get("kda_layers"):
        return None
    kept = told.get("full_attn_layers")
    if not isinstance(kept, (list, tuple)) or not config.layers:
        return Unknown("its linear_attn_config does not say which layers attend")
    return [ALL if number + 1 in kept else STATE for number in range(config.layers)]


def _numbers(config: ModelConfig) -> _Answer:
    """A number for each layer: MiMo-V2 (1 has a window), MiniMax-01 (0 is linear), Llama 4 (1 is chunked)."""
    for name, number, fields in (
        ("hybrid_layer_pattern", 1, SLIDING),
        ("attn_type_list", 0, ()),
        ("no_rope_layers", 1, CHUNKED),
    ):
        told = config.get(name)
        # Llama 4 writes an empty list, or one without chunks.
        if not isinstance(told, (list, tuple)) or not told or (fields == CHUNKED and not config.chunked):
            continue
        other = _window(config, fields) if fields else STATE
        return other if isinstance(other, Unknown) else [other if one == number else ALL for one in told]
    return None


def _indexes(config: ModelConfig) -> _Answer:
    """The layers that attend, of models whose others have a state: Bamba, LFM2, and Jamba by a period."""
    count = config.layers
    for name in ("attn_layer_indices", "full_attn_idxs"):
        told = config.get(name)
        if isinstance(told, (list, tuple)) and count:
            return [ALL if number in told else STATE for number in range(count)]
    period, offset = config.number("attn_layer_period"), config.get("attn_layer_offset")
    if period and count:
        return [ALL if number % period == (offset or 0) else STATE for number in range(count)]
    return None


def _interval(config: ModelConfig) -> _Answer:
    count, family = config.layers, _family(config)
    if not count:
        return None
    if family in _ALL_BOTH:
        return [BOTH] * count
    if family not in _EVERY:
        found = next(((name, fields) for name, fields in _INTERVALS if config.get(name) is not None), None)
        return _every(config, config.get(found[0]), found[1], count) if found else None
    field, default, fields = _EVERY[family]
    if fields and not config.number(*fields):
        return [ALL] * count
    told = config.get(field)
    return _every(config, default if told is None else told, fields, count)


def _every(config: ModelConfig, told: t.Any, fields: tuple[str, ...], count: int) -> _Answer:
    """`told` is n, or a word in whose place G stands for a layer that attends to all (LLLG)."""
    other = _window(config, fields) if fields else STATE
    if isinstance(other, Unknown):
        return other
    if isinstance(told, str) and told and not set(told) - {"L", "G"}:
        return [ALL if told[number % len(told)] == "G" else other for number in range(count)]
    if not _is_count(told):
        return Unknown("its config.json does not say which layers have a window or a state")
    return [ALL if (number + 1) % told == 0 else other for number in range(count)]


def _plain(config: ModelConfig) -> _Answer:
    """Every layer alike, unless a field says that some are not and none says which."""
    count, family = config.layers, _family(config)
    if not count:
        return None
    if config.recurrent:
        return Unknown("it has layers with a state, and its config.json does not say which")
    window = config.number(*SLIDING)
    length = config.context_length
    asked = config.get("use_sliding_window")
    if asked is None and family.startswith(_WINDOW_IS_ASKED_FOR):
        asked = False
    if config.chunked:
        return Unknown("it has layers that attend in chunks, and its config.json does not say which")
    if not window or asked is False or (length and window >= length):
        return [ALL] * count
    if asked and config.get("max_window_layers") is not None:
        first = config.number("max_window_layers") or 0
        return [Layer(window=window) if number >= first else ALL for number in range(count)]
    if family in _ALL_WINDOWED:
        return [Layer(window=window)] * count
    return Unknown("it has a sliding_window, and its config.json does not say for which layers")


_READERS: tuple[t.Callable[[ModelConfig], _Answer], ...] = (
    _blocks,
    _words,
    _letters,
    _linear_config,
    _numbers,
    _indexes,
    _interval,
    _plain,
)


def _family(config: ModelConfig) -> str:
    return str(config.get("model_type") or "")


def _is_count(value: t.Any) -> t.TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0
