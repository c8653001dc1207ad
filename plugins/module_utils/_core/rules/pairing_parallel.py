# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pairing of parallel sizes: the direction and divisibility of tensor parallelism, and a connector's rules of pipeline and data
parallelism. Which of them apply is data of the mode (`pairing`)."""

from __future__ import annotations

from ..base.finding import Findings
from ..base.version import at_least
from ..recipes.mode import Mode
from ..spec.spec import ENGINE_ROLES
from .pairing_side import Side, connector_child

# From this version on, the engine itself decides on the hybrid KV cache manager under a connector.
MODERN = "0.27.1"


def modern(*sides: Side) -> bool:
    return all(at_least(side.version, MODERN) for side in sides)


def check(prefill: Side, decode: Side, mode: Mode, findings: Findings) -> None:
    _tensor(prefill, decode, mode, findings)
    if mode.pairing.get("equal_width_on_hybrid"):
        _equal_width(prefill, decode, findings)
    if mode.pairing.get("equal_width_on_sliding"):
        _sliding(prefill, decode, mode, findings)
    for side in (prefill, decode):
        _pipeline(side, prefill, mode, findings)
        _ranks(side, mode, findings)
        if mode.pairing.get("data_parallel_needs_experts"):
            _data(side, mode, findings)
    _context(prefill, decode, mode, findings)


def _tensor(prefill: Side, decode: Side, mode: Mode, findings: Findings) -> None:
    rule = mode.pairing.get("tensor_parallel", "any")
    one, two = prefill.sizes.tensor, decode.sizes.tensor
    flag = prefill.flag("tensor_parallel_size")
    if rule == "decode_ge_prefill" and two < one:
        findings.error(
            "pairing-tensor-parallel",
            f"tensor parallelism: decode's ({two}) is below prefill's ({one}); in mode {mode.name} a decode rank cannot take the"
            " KV heads of several prefill ranks, which shows only as an internal error in decode.",
            f"Give decode at least {one}, or prefill at most {two} ({flag}, or gpus where no size is written).",
            ENGINE_ROLES,
        )
    elif rule == "prefill_ge_decode" and one < two:
        findings.error(
            "pairing-tensor-parallel",
            f"tensor parallelism: prefill's ({one}) is below decode's ({two}), which mode {mode.name} cannot transfer.",
            f"Give prefill at least {two}, or decode at most {one} ({flag}, or gpus where no size is written).",
            ENGINE_ROLES,
        )
    elif rule != "any" and min(one, two) > 0 and max(one, two) % min(one, two):
        findings.error(
            "pairing-tensor-parallel",
            f"tensor parallelism: one of prefill's ({one}) and decode's ({two}) must divide the other.",
            "Choose sizes of which one is a multiple of the other.",
            ENGINE_ROLES,
        )


def _equal_width(prefill: Side, decode: Side, findings: Findings) -> None:
    """Recurrent state is not cut by heads: between different widths the engine refuses it at the first contact."""
    config = decode.config
    one, two = prefill.sizes.attention, decode.sizes.attention
    if one != two and config and config.recurrent and not config.mla:
        findings.error(
            "pairing-tensor-parallel",
            f"tensor parallelism of the attention layers: prefill's ({one}) is not decode's ({two}); the model has recurrent layers,"
            " whose state the engine cannot transfer between different widths.",
            f"Give both the same {prefill.flag('tensor_parallel_size')}.",
            ENGINE_ROLES,
        )


def _sliding(prefill: Side, decode: Side, mode: Mode, findings: Findings) -> None:
    """Layers that see a window have a pool of their own, which older engines do not cut by heads: the request fails in prefill's transfer,
    and its client hangs."""
    config, since = decode.config, str(mode.pairing["equal_width_on_sliding"])
    one, two = prefill.sizes.attention, decode.sizes.attention
    if one == two or config is None or config.mla or config.recurrent or not config.windowed:
        return
    if all(at_least(side.version, since) for side in (prefill, decode)):
        return
    what = (
        f"tensor parallelism of the attention layers: prefill's ({one}) is not decode's ({two}), and the model has layers with a sliding"
        f" window, which {prefill.engine.backend} can transfer between different widths from {since} on alone"
    )
    hint = f"Give both the same {prefill.flag('tensor_parallel_size')}, or write engine.version where it is {since} or newer."
    if None in (prefill.version, decode.version) and not mode.pairing.get("sliding_is_certain"):
        findings.unverified("sliding window", f"{what}; the engine's version is not known.", hint, ENGINE_ROLES)
    else:
        findings.error("pairing-tensor-parallel", f"{what}.", hint, ENGINE_ROLES)


def _pipeline(side: Side, prefill: Side, mode: Mode, findings: Findings) -> None:
    limit = mode.pairing.get(f"{side.role}_pipeline_parallel")
    mine, theirs = side.sizes.pipeline, prefill.sizes.pipeline
    if limit is None or not _transfers(side, mode):
        return
    if limit == "one_or_prefills":
        if mine in (1, theirs):
            return
        most = f"transfer to 1 stage, or to as many as prefill's {theirs}"
    elif mine <= limit:
        return
    else:
        most = f"transfer {'to' if side.role == 'decode' else 'from'} {limit} at most"
        if side.role == "decode" and mode.pairing.get("prefill_pipeline_parallel") is None:
            most += " (prefill may have more)"
    findings.error(
        "pairing-pipeline-parallel",
        f"pipeline parallelism: {side.role}'s is {mine}, and mode {mode.name} can {most}.",
        f"Remove {side.role}'s {side.flag('pipeline_parallel_size')}; tensor or data parallelism take more devices as well.",
        [side.role],
    )


def _transfers(side: Side, mode: Mode) -> bool:
    """Whether a side moves its cache by the mode's own connector, whose limits these are."""
    names = mode.connector.names if mode.connector else ()
    return not names or connector_child(side.connector, names) in names


def _ranks(side: Side, mode: Mode, findings: Findings) -> None:
    """Data-parallel ranks that a mode's router cannot tell from each other."""
    limit = mode.pairing.get(f"{side.role}_data_parallel")
    if limit is not None and side.sizes.data > limit and _transfers(side, mode):
        findings.error(
            "pairing-data-parallel",
            f"data parallelism: {side.role} has {side.sizes.data} ranks, and the router of mode {mode.name} names the first of them alone:"
            " what another one has computed, decode would ask the first for.",
            f"Remove {side.flag('data_parallel_size')} and ask for more replicas.",
            [side.role],
        )


def _context(prefill: Side, decode: Side, mode: Mode, findings: Findings) -> None:
    """Ranks that share the work on one prompt, and those that its KV cache is dealt out to. `context_parallel` says who may have the first:
    prefill, or nobody knows; `kv_shards` who may have the second: decode, with an MLA model, or what the handshake says."""
    who, shards = mode.pairing.get("context_parallel"), mode.pairing.get("kv_shards")
    option, dealt = "prefill_context_parallel_size", "decode_context_parallel_size"
    one, two = prefill.sizes, decode.sizes
    if who == "prefill" and two.context > 1:
        findings.error(
            "pairing-context-parallel",
            f"context parallelism: decode's is {two.context}, and mode {mode.name} can transfer from prefill's ranks of a context, not to"
            " decode's.",
            f"Remove decode's {decode.flag(option)}.",
            ["decode"],
        )
    if who == "prefill" and one.context > 1 and one.pipeline > 1 and mode.pairing.get("context_or_pipeline"):
        findings.error(
            "pairing-context-parallel",
            f"context parallelism: prefill's is {one.context} beside {one.pipeline} pipeline stages, and mode {mode.name} can transfer"
            " from one of the two kinds.",
            f"Remove prefill's {prefill.flag(option)} or its {prefill.flag('pipeline_parallel_size')}.",
            ["prefill"],
        )
    if shards == "decode_of_mla":
        _shards(prefill, decode, mode, findings)
    unknown = [*([option] if who is None and max(one.context, two.context) > 1 else [])]
    unknown += [dealt] if shards is None and max(one.shards, two.shards) > 1 else []
    for name in unknown:
        sizes = [(s.context if name == option else s.shards) for s in (one, two)]
        findings.unverified(
            "context parallelism",
            f"context parallelism cannot be compared: prefill {sizes[0]}, decode {sizes[1]} ({prefill.flag(name)}): whether mode"
            f" {mode.name} moves what several ranks have of one prompt is not known.",
            f"Remove {prefill.flag(name)}; tensor parallelism takes more devices as well.",
            ENGINE_ROLES,
        )


def _shards(prefill: Side, decode: Side, mode: Mode, findings: Findings) -> None:
    """Ranks that a prompt's KV cache is dealt out to, in a mode that deals out on decode alone, or on both sides alike: a cache of MLA, and
    one that prefill's ranks do not share the work on. (SGLang 0.5.23, disaggregation/common/conn.py.)"""
    one, two = prefill.sizes.shards, decode.sizes.shards
    flag, told = (
        prefill.flag("decode_context_parallel_size"),
        f"prefill deals a prompt's KV cache out to {one} rank{'s' * (one > 1)}, decode to {two}",
    )
    if max(one, two) == 1:
        return
    if one not in (1, two):
        why, hint = (
            "moves it between equal shares, or from a whole one to decode's",
            f"Write the same {flag} for both, or for decode alone.",
        )
    elif prefill.sizes.context > 1:
        context = prefill.flag("prefill_context_parallel_size")
        why, hint = f"does not with prefill's {context}", f"Remove {context}, or {flag}."
    elif decode.config is not None and not decode.config.mla:
        why, hint = "moves shares of MLA models alone, which this one is not", f"Remove {flag}."
    else:
        if decode.config is None:
            why = f"mode {mode.name} moves shares of MLA models alone, and whether this is one is not known"
            findings.unverified(
                "context parallelism",
                f"context parallelism: {told}: {why}.",
                f"Remove {flag} if it is none.",
                ENGINE_ROLES,
            )
        return
    findings.error(
        "pairing-context-parallel", f"context parallelism: {told}: mode {mode.name} {why}.", hint, ENGINE_ROLES
    )


def _data(side: Side, mode: Mode, findings: Findings) -> None:
    """Without experts the engine folds data parallelism away: every rank takes itself for the first, and all take the same port."""
    if side.sizes.data <= 1:
        return
    flag = side.flag("data_parallel_size")
    if side.config is None:
        findings.unverified(
            "data parallelism",
            f"data parallelism: {side.role} has {side.sizes.data} ranks, which in mode {mode.name} needs a model with experts; the model's"
            " config.json was not read.",
            f"Give the model's config.json, or more replicas instead of {flag}.",
            [side.role],
        )
    elif not side.config.experts:
        findings.error(
            "pairing-data-parallel",
            f"data parallelism: {side.role} has {side.sizes.data} ranks, and the model has no experts: in mode {mode.name} every rank would"
            " take the same port, and decode would be sent to the wrong one.",
            f"Remove {flag} and ask for more replicas.",
            [side.role],
        )
