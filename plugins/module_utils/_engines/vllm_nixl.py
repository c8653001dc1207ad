# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What vLLM's NIXL connector compares at the first contact of two members, beyond what every pair must agree on: the factors of its
compatibility hash and of its handshake (nixl/metadata.py, nixl/base_worker.py, version 14), and the variables that decide them.

Nothing that both sides leave out is a finding. Both sides run vLLM, in a mode whose `pairing.handshake` is nixl."""

from __future__ import annotations

import typing as t

from .._core.base.finding import Findings
from .._core.base.version import at_least
from .._core.recipes.mode import Mode
from .._core.rules.pairing_parallel import modern
from .._core.rules.pairing_side import SECRET, Side, children_of, connector_child, in_family
from .._core.spec.spec import ENGINE_ROLES

LAYOUT, MLA, SSM = "VLLM_KV_CACHE_LAYOUT", "VLLM_MLA_DISABLE", "VLLM_SSM_CONV_STATE_LAYOUT"
CHUNKED, INVARIANT = "VLLM_ALLOW_CHUNKED_LOCAL_ATTN_WITH_HYBRID_KV_CACHE", "VLLM_BATCH_INVARIANT"
_ALIASES = {"NHD": "LBNHC", "HND": "LBHNC"}
_LAYOUTS = {"LBNHC", "LBHNC", "LHBNC", "BLHNC", "BLNHC", "BHLNC"}
_ATTENTION = {
    "FLASH_ATTN",
    "FLASHINFER",
    "TRITON_ATTN",
    "FLEX_ATTENTION",
    "FLASH_ATTN_MLA",
    "FLASHINFER_MLA",
    "TRITON_MLA",
    "CUTLASS_MLA",
    "FLASHMLA",
}
_PULL, _PUSH = ("NixlConnector", "NixlPullConnector"), ("NixlPushConnector",)
# Connectors that keep the hybrid KV cache manager on, and some that are known to turn it off on their side.
_HYBRID = {
    *_PULL,
    *_PUSH,
    "MooncakeConnector",
    "MooncakeStoreConnector",
    "OffloadingConnector",
    "SimpleCPUOffloadConnector",
    "MoRIIOConnector",
}
_NOT_HYBRID = {"LMCacheConnectorV1", "ExampleConnector", "SharedStorageConnector"}


def check(prefill: Side, decode: Side, mode: Mode, findings: Findings) -> None:
    known = in_family(prefill.connector, mode) and in_family(decode.connector, mode)
    pair = _Pair(prefill, decode, known, findings)
    _transfer_mode(pair)
    _layout(pair)
    _mla(pair)
    _ssm(pair)
    _hybrid(pair)
    _attention(pair)
    _widths(pair, mode)
    _shards(pair)
    _guesses(pair)


class _Pair:
    """The two sides, and how their difference in one factor is told. `known` says that both connectors compare as the mode's does; when
    they do not, no factor can be told."""

    def __init__(self, prefill: Side, decode: Side, known: bool, findings: Findings) -> None:
        self.sides = self.prefill, self.decode = prefill, decode
        self.known = known
        self.findings = findings

    def variables(self, name: str) -> tuple[str | None, str | None]:
        return self.prefill.variable(name), self.decode.variable(name)

    def any(self, name: str) -> bool:
        return any(value is not None for value in self.variables(name))

    @property
    def configs(self) -> bool:
        """Whether the model's config.json is known for both."""
        return self.prefill.config is not None and self.decode.config is not None

    def ask(self, question: str) -> bool:
        """Whether one side's model is so; asked only when both are known."""
        return any(getattr(side.config, question) for side in self.sides)

    def differ(self, code: str, what: str, values: t.Sequence[t.Any], why: str, hint: str) -> None:
        one, two = values
        self.findings.error(
            code, f"{what} differs: prefill {_told(one)}, decode {_told(two)}: {why}.", hint, ENGINE_ROLES
        )

    def open(self, factor: str, what: str, values: t.Sequence[t.Any], why: str, hint: str) -> None:
        one, two = values
        if not self.known:
            why = "your own connector may compare it otherwise"
        self.findings.unverified(
            factor, f"{what} cannot be compared: prefill {_told(one)}, decode {_told(two)}: {why}.", hint, ENGINE_ROLES
        )


def _told(value: t.Any) -> str:
    return "does not write it" if value is None else str(value) or "nothing"


def _same(name: str) -> str:
    return f"Write the same {name} for both, best at engine.env."


CONFIG = "the model's config.json was not read"


def _transfer_mode(pair: _Pair) -> None:
    """Push writes where pull reads: the two never shake hands."""
    names = [connector_child(side.connector, (*_PULL, *_PUSH)) for side in pair.sides]
    kinds = {"push" if name in _PUSH else "pull" if name in _PULL else "" for name in names}
    if kinds == {"push", "pull"}:
        why = "one writes into the other, the other reads: the handshake compares it, and the first request fails"
        pair.differ("pairing-transfer-mode", "KV connector", names, why, "Take one of the two for both roles.")


# -- layouts -------------------------------------------------------------------------------------------------------------------


def _layout(pair: _Pair) -> None:
    if not pair.any(LAYOUT):
        return
    values = pair.variables(LAYOUT)
    one, two = (_ALIASES.get((v or "").strip().upper(), (v or "").strip().upper()) for v in values)
    hint = _same(LAYOUT)

    def unknown(why: str) -> None:
        pair.open("KV cache layout", LAYOUT, values, why, hint)

    if one == two and SECRET not in values:
        return
    if not pair.known:
        unknown("")
    elif one not in _LAYOUTS or two not in _LAYOUTS:
        unknown("a side that is silent takes what its hardware prefers")
    elif any(side.connector and side.connector.get("kv_buffer_device") == "cpu" for side in pair.sides):
        unknown("with kv_buffer_device: cpu the cache passes through a buffer of another layout")
    elif not pair.configs:
        unknown(CONFIG)
    elif pair.ask("mla") and [_truth(v) for v in pair.variables(MLA)] == [False, False]:
        return
    else:
        permuted = _permuted(pair, one, two)
        if permuted is None:
            unknown(
                "enable_permute_local_kv turns layouts, which the hybrid KV cache manager would not allow for this model"
            )
        elif not permuted:
            why = "decode would read heads for tokens"
            pair.differ("pairing-kv-cache-layout", LAYOUT, values, why, hint)


def _permuted(pair: _Pair, one: str, two: str) -> bool | None:
    """Whether decode turns what it reads from the one layout into the other; None when it cannot be told."""
    wanted = bool(pair.decode.connector and pair.decode.connector.get("enable_permute_local_kv") is True)
    if (one, two) != ("LBHNC", "LBNHC") or not wanted:
        return False
    if not (pair.ask("recurrent") or pair.ask("partial_attention")):
        return True
    states = [_hybrid_manager(side) for side in pair.sides]
    if None in states:
        return None
    return not any(states)


def _mla(pair: _Pair) -> None:
    if not pair.any(MLA):
        return
    values = pair.variables(MLA)
    one, two = (_truth(v) for v in values)
    hint = _same(MLA)
    if values[0] == values[1] and SECRET not in values:
        return
    if None not in (one, two) and one == two:
        return
    if pair.known and pair.configs and not pair.ask("mla"):
        return
    if not pair.known or None in (one, two) or not pair.configs:
        pair.open("MLA", MLA, values, CONFIG if not pair.configs else "a side that is silent is not believed", hint)
    else:
        why = "one side keeps one compressed head, the other many"
        pair.differ("pairing-mla", MLA, values, why, hint)


def _ssm(pair: _Pair) -> None:
    if not pair.any(SSM):
        return
    values = pair.variables(SSM)
    hint = f"Write {SSM}: DS for both, best at engine.env."
    if pair.known and (set(values) == {"DS"} or (pair.configs and not pair.ask("recurrent"))):
        return
    if pair.known and pair.configs and "SD" in values and modern(*pair.sides):
        why = "the state of recurrent layers can be transferred in layout DS alone"
        if values[0] == values[1]:
            pair.findings.error(
                "pairing-ssm-layout", f"{SSM} is SD: prefill SD, decode SD, and {why}.", hint, ENGINE_ROLES
            )
        else:
            pair.differ("pairing-ssm-layout", SSM, values, why, hint)
        return
    why = CONFIG if not pair.configs else "the engine's version, or a side that is silent, leaves it open"
    pair.open("SSM convolution state layout", SSM, values, why, hint)


def _truth(value: str | None) -> bool | None:
    """A variable as the engine reads a switch, bool(int(...)); None when it is not set or no number."""
    try:
        return bool(int(value)) if value is not None else None
    except ValueError:
        return None


# -- hybrid KV cache manager ---------------------------------------------------------------------------------------------------

_TOGGLE = "hybrid_kv_cache_manager"
_CODE, _FACTOR, _LABEL = "pairing-hybrid-kv-cache-manager", "hybrid KV cache manager", "hybrid KV cache manager"


def _hybrid(pair: _Pair) -> None:
    flags = [side.toggle(_TOGGLE) for side in pair.sides]
    if _one_sided_connector(pair):
        return
    gated = modern(*pair.sides)
    env = pair.any(CHUNKED)
    if not env and not (gated and flags != [None, None]):
        return
    told = [_switch(side) for side in pair.sides]
    hint = "Write --disable-hybrid-kv-cache-manager for both, best at engine.args."
    if flags == [False, False]:
        return
    if {True, False} == set(flags):
        # What an older engine makes of its flags is told by the rule for toggles.
        if gated and pair.known:
            pair.differ(_CODE, _LABEL, told, "the handshake compares it, and the first request fails", hint)
        elif gated:
            pair.open(_FACTOR, _LABEL, told, "", hint)
        return
    if pair.known and flags == [None, None]:
        truths = [_truth(v) for v in pair.variables(CHUNKED)]
        if (pair.configs and not pair.ask("chunked")) or (None not in truths and truths[0] == truths[1]):
            return
    states = [_hybrid_manager(side) for side in pair.sides]
    if not pair.known or None in states:
        why = CONFIG if not pair.configs else "the version, speculative decoding or a cache decides it"
        pair.open(_FACTOR, _LABEL, told, why, hint)
    elif any(flag and not state for flag, state in zip(flags, states)):
        why = f"it is asked for, and the model's chunked attention with {CHUNKED}=0 does not allow it"
        pair.findings.error(
            _CODE,
            f"{_LABEL}: prefill {told[0]}, decode {told[1]}: {why}; the engine does not start.",
            hint,
            ENGINE_ROLES,
        )
    elif states[0] != states[1]:
        both = ["on" if state else "off" for state in states]
        pair.differ(_CODE, _LABEL, both, "the handshake compares it, and the first request fails", hint)


def _switch(side: Side) -> str:
    flag, env = side.toggle(_TOGGLE), side.variable(CHUNKED)
    written = {True: "on", False: "off", None: "does not write it"}[flag]
    return written if env is None else f"{written} ({CHUNKED}={env or 'secret'})"


def _hybrid_manager(side: Side) -> bool | None:
    """On or off in the end; None when it cannot be told."""
    if side.toggle(_TOGGLE) is False:
        return False
    if side.config is None or side.speculation or side.cache or children_of(side.connector) or not modern(side):
        return None
    if not side.config.chunked:
        return True
    # The variable's own default has changed between versions.
    return _truth(side.variable(CHUNKED))


def _one_sided_connector(pair: _Pair) -> bool:
    """Whether a connector turns the manager off on its side; then all is told here: the hashes differ unless it is off on both."""
    if not any(side.toggle(_TOGGLE) is not False and _NOT_HYBRID & set(_names(side)) for side in pair.sides):
        return False
    lost = [_lost(side) for side in pair.sides]
    if lost[0] == lost[1]:
        return True
    if not all(side.version is None or modern(side) for side in pair.sides):
        return False
    one, two = (
        "off" if side.toggle(_TOGGLE) is False else f"left to {' and '.join(_names(side))}" for side in pair.sides
    )
    hint = "Write --disable-hybrid-kv-cache-manager for both, best at engine.args."
    if None in lost:
        pair.findings.unverified(
            _FACTOR,
            f"{_LABEL} cannot be compared: prefill {one}, decode {two}: not every connector allows it.",
            hint,
            ENGINE_ROLES,
        )
    else:
        pair.differ(
            _CODE,
            _LABEL,
            (one, two),
            "a connector that does not support it turns it off on its side, the handshake compares it, and the first request fails",
            hint,
        )
    return True


def _lost(side: Side) -> bool | None:
    """Whether the manager is off on a side, by its flag or its connectors; None when one of these is not known."""
    if side.toggle(_TOGGLE) is False or _NOT_HYBRID & set(_names(side)):
        return True
    return False if set(_names(side)) <= _HYBRID else None


def _names(side: Side) -> list[str]:
    return [str(c.get("kv_connector")) for c in children_of(side.connector) or [side.connector or {}]]


# -- attention -----------------------------------------------------------------------------------------------------------------


def _attention(pair: _Pair) -> None:
    option = "attention_backend"
    values = [side.value(option) for side in pair.sides]
    invariant = [_truth(v) or False for v in pair.variables(INVARIANT)]
    written = values != [None, None]
    if not written and invariant[0] == invariant[1]:
        return
    one, two = ((value or "").upper() for value in values)
    hint = "Write the same --attention-backend for both, best at engine.args."
    lenient = any(_extra(side).get("enforce_handshake_compat") is False for side in pair.sides)
    if not written:
        pair.open(
            "attention backend", INVARIANT, pair.variables(INVARIANT), "it may choose another attention backend", hint
        )
    elif one == two:
        return
    elif not pair.known or lenient or one not in _ATTENTION or two not in _ATTENTION:
        why = "enforce_handshake_compat is off" if lenient else "what a silent side takes depends on its hardware"
        pair.open("attention backend", "attention backend", values, why, hint)
    else:
        why = "the handshake compares it, and the first request fails"
        pair.differ("pairing-attention-backend", "attention backend", values, why, hint)


def _extra(side: Side) -> t.Mapping[str, t.Any]:
    extra = side.connector.get("kv_connector_extra_config") if side.connector else None
    return extra if isinstance(extra, t.Mapping) else {}


# -- widths --------------------------------------------------------------------------------------------------------------------


def _widths(pair: _Pair, mode: Mode) -> None:
    """Where a mode lets prefill be wider: a prefill rank must still hold a KV head of its own (base_worker.py, is_kv_replicated)."""
    one, two = (side.sizes.tensor for side in pair.sides)
    config = pair.decode.config
    if mode.pairing.get("tensor_parallel") != "any" or one <= two or config is None or config.mla or config.recurrent:
        return
    heads = config.kv_heads
    if heads and one > heads:
        pair.findings.error(
            "pairing-tensor-parallel",
            f"tensor parallelism: prefill's ({one}) is above decode's ({two}) and above the model's {heads} KV heads: ranks that hold"
            " copies of one head cannot be read by fewer ranks.",
            f"Give prefill at most {max(heads, two)}, or decode {one}.",
            ENGINE_ROLES,
        )


def _shards(pair: _Pair) -> None:
    """Ranks that the KV cache of a prompt is dealt out to: none, or all that transfer; and for one compressed head alone (config/vllm.py,
    base_worker.py)."""
    sizes = [side.sizes for side in pair.sides]
    if all(size.shards == 1 for size in sizes):
        return
    option, code = "decode_context_parallel_size", "pairing-context-parallel"
    flag = pair.prefill.flag(option)
    for side, size in zip(pair.sides, sizes):
        whole = max(size.tensor, size.context)
        if size.shards not in (1, whole):
            pair.findings.error(
                code,
                f"context parallelism: {side.role} has {flag} {size.shards}; with NIXL it is 1, or {whole}, all ranks that transfer: the"
                " engine does not start.",
                f"Write {whole}, or remove {flag}.",
                [side.role],
            )
        elif size.shards > 1 and side.config and not side.config.mla:
            pair.findings.error(
                code,
                f"context parallelism: {side.role} has {flag} {size.shards}, and with NIXL the engine starts so for models with MLA alone.",
                f"Remove {flag}.",
                [side.role],
            )
    one, two = (size.shards for size in sizes)
    hint = f"Write the same {flag} for both."
    if max(one, two) % min(one, two):
        pair.differ(code, "context parallelism", (one, two), "one of the two must divide the other", hint)
    elif one != two and pair.configs and pair.ask("recurrent"):
        pair.differ(code, "context parallelism", (one, two), "with recurrent layers both must be equal", hint)
    elif any(size.context > 1 and size.shards == 1 for size in sizes) and one != two:
        why = "ranks that all keep a whole prompt do not go with ranks that it is dealt out to"
        pair.differ(code, "context parallelism", (one, two), why, hint)
    elif not pair.configs:
        pair.open("context parallelism", flag, (one, two), CONFIG, hint)


# Speculative decoding beside recurrent layers: older connectors move the slots of guessed tokens as if they were the state.
_GUESSES_SINCE = "0.32.0"


def _guesses(pair: _Pair) -> None:
    guessing = [side for side in pair.sides if side.speculation and not side.speculation.draftless]
    if not guessing or not pair.configs or not pair.ask("recurrent"):
        return
    if all(at_least(side.version, _GUESSES_SINCE) for side in pair.sides):
        return
    values = [side.speculation.method if side.speculation else None for side in pair.sides]
    why = f"the model has recurrent layers, whose state is moved beside guessed tokens from {_GUESSES_SINCE} on"
    pair.open(
        "speculative decoding of a hybrid model",
        "speculative decoding",
        values,
        why,
        "Write engine.version where it is newer.",
    )
