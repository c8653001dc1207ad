# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# This module util is PRIVATE to the collection.
"""Pairing: what prefill and decode must agree on, factor by factor (semantics.md 2.4 to 2.6, with the deviations of design 5).

A factor that differs is an error that names both values; one that cannot be told is `unverified`, with the factor's name. Never a guess."""

from __future__ import annotations

from dataclasses import dataclass

from .arguments import Arguments, read_integer
from .engine import Engine
from .finding import Findings
from .mode import Mode
from .spec import ENGINE_ROLES, Group
from .template import GroupTemplate


@dataclass(frozen=True)
class Side:
    """One role as pairing sees it: its arguments in its engine's reading."""

    role: str
    arguments: Arguments
    engine: Engine

    def value(self, option: str) -> str | None:
        """The option's winning value, trimmed; None when it is not written."""
        value = self.arguments.value(self.engine.names(option))
        return value.strip() if value is not None else None

    def normal(self, option: str) -> str | None:
        """The value with synonyms made one (half = float16, NHD = LBNHC) and case ignored."""
        value = self.value(option)
        if value is None:
            return None
        synonyms = {k.lower(): v.lower() for k, v in self.engine.synonyms.get(option, {}).items()}
        return synonyms.get(value.lower(), value.lower())


@dataclass(frozen=True)
class Factor:
    """A text option that both sides must say alike. `silence` is what not writing it means; None: it cannot be told."""

    option: str
    label: str
    consequence: str
    silence: str | None = None


TEXT_FACTORS = (
    Factor("dtype", "dtype", "the KV cache of one is not the other's", "auto"),
    Factor("kv_cache_dtype", "KV cache dtype", "the bytes of one are read as another type", "auto"),
    Factor("block_size", "block size", "decode reads blocks at the wrong places, and may answer 200 with wrong text"),
    Factor("kv_cache_layout", "KV cache layout", "decode reads heads for tokens"),
)


def check(group: Group, template: GroupTemplate, findings: Findings) -> None:
    """All pairing factors of a rendered group."""
    sides = [Side(name, Arguments(template.roles[name].argv), template.engines[name]) for name in ENGINE_ROLES]
    prefill, decode = sides
    _context_length(prefill, decode, findings)
    for factor in TEXT_FACTORS:
        _text(factor, prefill, decode, findings)
    _tensor_parallel(template, findings)
    _same_engine(group, template.mode, findings)


def _both(prefill: Side, decode: Side, option: str) -> str:
    return (
        f"prefill {prefill.value(option) or 'does not write it'}, decode {decode.value(option) or 'does not write it'}"
    )


def _flag(side: Side, option: str) -> str:
    return f"--{side.engine.names(option)[0]}"


def _context_length(prefill: Side, decode: Side, findings: Findings) -> None:
    option = "context_length"
    texts = [side.value(option) for side in (prefill, decode)]
    fitted = [side for side, text in zip((prefill, decode), texts) if text and text.lower() in side.engine.auto_context]
    if fitted:
        findings.unverified(
            "context length",
            f"context length cannot be compared: {_both(prefill, decode, option)}; {fitted[0].value(option)} is what each member's memory allows.",
            f"Write the same number with {_flag(prefill, option)} for both, best at engine.args.",
            ENGINE_ROLES,
        )
        return
    if texts[0] == texts[1]:
        return
    numbers = [
        None if text is None else read_integer(text, side.engine.units) for text, side in zip(texts, (prefill, decode))
    ]
    if None not in numbers:
        if numbers[0] != numbers[1]:
            findings.error(
                "pairing-context-length",
                f"context length differs: prefill {texts[0]} ({numbers[0]} tokens), decode {texts[1]} ({numbers[1]} tokens). Short prompts would"
                " be answered, and one longer than the shorter window fails at decode after prefill has done its work.",
                f"Write the same {_flag(prefill, option)} for both, best at engine.args.",
                ENGINE_ROLES,
            )
        return
    findings.unverified(
        "context length",
        f"context length cannot be compared: {_both(prefill, decode, option)}; what is not written follows from the model.",
        f"Write the same {_flag(prefill, option)} for both, best at engine.args.",
        ENGINE_ROLES,
    )


def _text(factor: Factor, prefill: Side, decode: Side, findings: Findings) -> None:
    values = [side.normal(factor.option) or factor.silence for side in (prefill, decode)]
    if values[0] == values[1]:
        return
    flag = _flag(prefill, factor.option)
    if None in values or "auto" in values:
        findings.unverified(
            factor.label,
            f"{factor.label} cannot be compared: {_both(prefill, decode, factor.option)}.",
            f"Write the same {flag} for both, best at engine.args.",
            ENGINE_ROLES,
        )
        return
    findings.error(
        "pairing-" + factor.option.replace("_", "-"),
        f"{factor.label} differs: {_both(prefill, decode, factor.option)}: {factor.consequence}.",
        f"Write the same {flag} for both, best at engine.args.",
        ENGINE_ROLES,
    )


def _tensor_parallel(template: GroupTemplate, findings: Findings) -> None:
    rule = template.mode.pairing.get("tensor_parallel", "any")
    prefill, decode = (template.roles[name].sizes.tensor for name in ENGINE_ROLES)
    if rule == "decode_ge_prefill" and decode < prefill:
        findings.error(
            "pairing-tensor-parallel",
            f"tensor parallelism: decode's ({decode}) is below prefill's ({prefill}); in mode {template.mode.name} a decode rank cannot take the"
            " KV heads of several prefill ranks, which shows only as an internal error in decode.",
            f"Give decode at least {prefill}, or prefill at most {decode} (--tensor-parallel-size, or gpus where no size is written).",
            ENGINE_ROLES,
        )
    elif rule == "prefill_ge_decode" and prefill < decode:
        findings.error(
            "pairing-tensor-parallel",
            f"tensor parallelism: prefill's ({prefill}) is below decode's ({decode}), which mode {template.mode.name} cannot transfer.",
            f"Give prefill at least {decode}, or decode at most {prefill} (--tensor-parallel-size, or gpus where no size is written).",
            ENGINE_ROLES,
        )
    elif rule != "any" and max(prefill, decode) % min(prefill, decode):
        findings.error(
            "pairing-tensor-parallel",
            f"tensor parallelism: one of prefill's ({prefill}) and decode's ({decode}) must divide the other.",
            "Choose sizes of which one is a multiple of the other.",
            ENGINE_ROLES,
        )


def _same_engine(group: Group, mode: Mode, findings: Findings) -> None:
    """Versions and images of the two sides: an error where the handshake covers the version, a warning elsewhere (design 5)."""
    prefill, decode = group.engine_roles
    for what, one, two in (("image", prefill.image, decode.image), ("version", prefill.version, decode.version)):
        if one == two or (what == "version" and None in (one, two)):
            continue
        message = f"engine {what} differs: prefill {one or 'none'}, decode {two or 'none'}"
        hint = f"Write one {what} at engine.{what} for both roles."
        if mode.pairing.get("handshake"):
            findings.error(
                f"pairing-engine-{what}",
                message + f"; the handshake of mode {mode.name} compares the engine's version.",
                hint,
                ENGINE_ROLES,
            )
        else:
            findings.warning(f"pairing-engine-{what}", message + ".", hint, ENGINE_ROLES)
