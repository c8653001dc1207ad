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
from .pairing_side import Side

# From this version on, the engine itself decides on the hybrid KV cache manager under a connector.
MODERN = "0.27.1"


def modern(*sides: Side) -> bool:
    return all(at_least(side.version, MODERN) for side in sides)


def check(prefill: Side, decode: Side, mode: Mode, findings: Findings) -> None:
    _tensor(prefill, decode, mode, findings)
    if mode.pairing.get("equal_width_on_hybrid"):
        _equal_width(prefill, decode, findings)
    _pipeline(decode, mode, findings)
    if mode.pairing.get("data_parallel_needs_experts"):
        for side in (prefill, decode):
            _data(side, mode, findings)


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


def _pipeline(decode: Side, mode: Mode, findings: Findings) -> None:
    limit = mode.pairing.get("decode_pipeline_parallel")
    if limit is not None and decode.sizes.pipeline > limit:
        findings.error(
            "pairing-pipeline-parallel",
            f"pipeline parallelism: decode's is {decode.sizes.pipeline}, and mode {mode.name} can transfer to {limit} at most"
            " (prefill may have more).",
            f"Remove decode's {decode.flag('pipeline_parallel_size')}; tensor or data parallelism take more devices as well.",
            ["decode"],
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
