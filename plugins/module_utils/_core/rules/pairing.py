# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pairing: what prefill and decode must agree on, factor by factor (docs/findings.md, pairing-*).

A factor that differs is an error that names both values; one that cannot be told is `unverified`, with the factor's name. Never a guess."""

from __future__ import annotations

import json
import typing as t
from dataclasses import dataclass

from ..base.arguments import read_integer
from ..base.finding import Findings
from ..model.model_config import LENGTHS
from ..recipes.mode import Mode
from ..spec.known import Known
from ..spec.spec import ENGINE_ROLES, Group
from ..template.template import GroupTemplate
from . import pairing_connector, pairing_flags, pairing_parallel
from .pairing_side import Side, connector_child, sides_of


@dataclass(frozen=True)
class Factor:
    """A text option that both sides must say alike. `silence` is what not writing it means; None: it cannot be told."""

    option: str
    label: str
    consequence: str
    silence: str | None = None
    # Whether a handshake takes the word as it is written, and not what it comes to.
    by_word: bool = False


TEXT_FACTORS = (
    Factor("dtype", "dtype", "the KV cache of one is not the other's", "auto"),
    Factor("kv_cache_dtype", "KV cache dtype", "the bytes of one are read as another type", "auto", True),
    Factor("block_size", "block size", "decode reads blocks at the wrong places, and may answer 200 with wrong text"),
    Factor("kv_cache_layout", "KV cache layout", "decode reads heads for tokens"),
    Factor("revision", "model revision", "the two may run different weights, which no handshake compares"),
)
# What a model's KV cache is cut by: (field, label) of config.json.
SHAPE = (("kv_heads", "KV heads"), ("head_size", "head size"), ("layers", "layers"))


def check(group: Group, template: GroupTemplate, findings: Findings, known: Known | None = None) -> tuple[Side, Side]:
    """All pairing factors of a rendered group. Returns the two sides, for the rules that look at each alone."""
    prefill, decode = sides = sides_of(group, template, known or Known())
    mode = template.mode
    _context_length(prefill, decode, findings)
    handshake = _handshake(prefill, decode, mode)
    for factor in TEXT_FACTORS:
        _text(factor, prefill, decode, bool(handshake), findings)
    _toggles(prefill, decode, handshake is not None, findings)
    _model(group, prefill, decode, mode, findings)
    _shape(prefill, decode, findings)
    pairing_parallel.check(prefill, decode, mode, findings)
    if prefill.engine is decode.engine:
        _same_engine(group, mode, findings)
    _connectors(prefill, decode, mode, findings)
    _speculation(prefill, decode, mode, handshake is not None, findings)
    pairing_flags.check(group, prefill, decode, mode, findings)
    pairing_connector.check(prefill, decode, mode, findings)
    if handshake:
        handshake(prefill, decode, mode, findings)
    return sides


def _handshake(prefill: Side, decode: Side, mode: Mode) -> t.Callable[..., None] | None:
    """What the mode's handshake compares, where both sides run an engine that has it."""
    found = [side.engine.handshakes.get(str(mode.pairing.get("handshake"))) for side in (prefill, decode)]
    return found[0] if found[0] is found[1] else None


def _both(prefill: Side, decode: Side, option: str) -> str:
    return f"prefill {prefill.told(option)}, decode {decode.told(option)}"


def _same(flag: str) -> str:
    return f"Write the same {flag} for both, best at engine.args."


# -- context length -------------------------------------------------------------------------------------------------------------


def _context_length(prefill: Side, decode: Side, findings: Findings) -> None:
    option, sides = "context_length", (prefill, decode)
    texts = [side.value(option) for side in sides]
    fitted = [side for side, text in zip(sides, texts) if text and text.lower() in side.engine.auto_context]
    if fitted:
        findings.unverified(
            "context length",
            f"context length cannot be compared: {_both(prefill, decode, option)}; {fitted[0].value(option)} is what each"
            " member's memory allows.",
            f"Write the same number with {prefill.flag(option)} for both, best at engine.args.",
            ENGINE_ROLES,
        )
        return
    if texts[0] == texts[1] and prefill.engine is decode.engine and prefill.overrides == decode.overrides:
        return
    numbers = [_tokens(side) for side in sides]
    if None not in numbers:
        if numbers[0] != numbers[1]:
            one, two = (
                f"{side.role} {text} ({number} tokens)"
                if text
                else f"{side.role} does not write it (by the model's config.json {number} tokens)"
                for side, text, number in zip(sides, texts, numbers)
            )
            findings.error(
                "pairing-context-length",
                f"context length differs: {one}, {two}. Short prompts would be answered, and one longer than the shorter window fails at"
                " decode after prefill has done its work.",
                _same(prefill.flag(option)),
                ENGINE_ROLES,
            )
        return
    if texts == [None, None] or texts[0] == texts[1]:
        return
    findings.unverified(
        "context length",
        f"context length cannot be compared: {_both(prefill, decode, option)}; what is not written follows from the model.",
        _same(prefill.flag(option)),
        ENGINE_ROLES,
    )


def _tokens(side: Side) -> int | None:
    """The context length in tokens, as the engine reads it, or as the model's config.json makes it when it is not written."""
    text = side.value("context_length")
    if text is not None:
        return read_integer(text, side.engine.units)
    settled = side.settled("context_length")
    return int(settled) if settled else None


# -- text ----------------------------------------------------------------------------------------------------------------------


def _text(factor: Factor, prefill: Side, decode: Side, shaken: bool, findings: Findings) -> None:
    option = factor.option
    if not any(option in side.engine.spellings for side in (prefill, decode)):
        return
    values = [side.normal(option) or factor.silence for side in (prefill, decode)]
    if values[0] == values[1] or _equal_numbers(values):
        return
    settled = [side.settled(option) for side in (prefill, decode)]
    # The handshake compares the word: "auto" is not "bfloat16" to it, though it comes to the same.
    worded = shaken and factor.by_word and settled[0] == settled[1]
    if None in settled or worded:
        findings.unverified(
            factor.label,
            f"{factor.label} cannot be compared: {_both(prefill, decode, option)}.",
            _same(prefill.flag(option)),
            ENGINE_ROLES,
        )
    elif settled[0] != settled[1]:
        one, two = (
            f"{side.role} {side.told(option)}"
            + ("" if value not in (None, "auto") else f" (by the model's config.json {real})")
            for side, value, real in zip((prefill, decode), values, settled)
        )
        findings.error(
            "pairing-" + factor.option.replace("_", "-"),
            f"{factor.label} differs: {one}, {two}: {factor.consequence}.",
            _same(prefill.flag(option)),
            ENGINE_ROLES,
        )


def _equal_numbers(values: t.Sequence[str | None]) -> bool:
    numbers = [read_integer(value) if value else None for value in values]
    return numbers[0] is not None and numbers[0] == numbers[1]


def _toggles(prefill: Side, decode: Side, shaken: bool, findings: Findings) -> None:
    """Pairs of flags that both sides must set alike; silence is the engine's default. What the handshake decides better is left to it."""
    for name, (on, off, default) in prefill.engine.toggles.items():
        if name not in decode.engine.toggles or (shaken and pairing_parallel.modern(prefill, decode)):
            continue
        states = [
            default if written is None else written for written in (side.toggle(name) for side in (prefill, decode))
        ]
        if None not in states and states[0] != states[1]:
            told = [
                f"{side.role} {'on' if state else 'off'}" + (" (not written)" if side.toggle(name) is None else "")
                for side, state in zip((prefill, decode), states)
            ]
            label = name.replace("_", " ").replace("kv", "KV")
            findings.error(
                "pairing-" + name.replace("_", "-"),
                f"{label} differs: {', '.join(told)}: the two lay their KV caches out differently, and the first request fails.",
                f"Write --{off} (or --{on}) for both, best at engine.args.",
                ENGINE_ROLES,
            )


# -- the model -----------------------------------------------------------------------------------------------------------------


def _model(group: Group, prefill: Side, decode: Side, mode: Mode, findings: Findings) -> None:
    """The model as each side is told to load it: some handshakes compare the text itself, not what it leads to."""
    names = [side.value("model") or group.model for side in (prefill, decode)]
    if names[0] == names[1]:
        return
    say = findings.error if mode.pairing.get("handshake") else findings.warning
    say(
        "pairing-model",
        f"model differs: prefill {names[0]}, decode {names[1]}"
        + ("; the handshake compares the text as it is written." if mode.pairing.get("handshake") else "."),
        "Write the group's model alone, and mount it at one path.",
        ENGINE_ROLES,
    )


def _shape(prefill: Side, decode: Side, findings: Findings) -> None:
    """Overrides of the model's configuration: they make another model of the same weights."""
    one, two = prefill.overrides, decode.overrides
    option = "hf_overrides"
    texts = [side.value(option) for side in (prefill, decode)]
    if (one == two and one is not None) or (texts[0] is not None and texts[0] == texts[1]):
        return
    flag = prefill.flag(option)
    if one is None or two is None or _numeric(one) == _numeric(two):
        findings.unverified(
            "model overrides",
            f"the models cannot be compared: {_both(prefill, decode, option)} ({flag}); it makes another model of the same weights.",
            _same(flag),
            ENGINE_ROLES,
        )
        return
    if prefill.config and decode.config:
        if prefill.config == decode.config:
            return
        for field, label in SHAPE:
            first, second = getattr(prefill.config, field), getattr(decode.config, field)
            if first != second:
                findings.error(
                    "pairing-model-shape",
                    f"{label} differ: prefill {first}, decode {second}, by their {flag}: their KV caches do not fit each other.",
                    _same(flag),
                    ENGINE_ROLES,
                )
                return
    findings.error(
        "pairing-weights",
        f"{flag} differs: prefill {_overridden(one)}, decode {_overridden(two)}: it makes another model of the same weights.",
        _same(flag),
        ENGINE_ROLES,
    )


def _numeric(overrides: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """Overrides without those of the length: these have a rule of their own, and change numbers in some position encodings alone."""
    return {key: value for key, value in overrides.items() if key not in LENGTHS}


def _overridden(overrides: t.Mapping[str, t.Any]) -> str:
    return json.dumps(overrides, sort_keys=True) if overrides else "does not write it"


# -- the engine ----------------------------------------------------------------------------------------------------------------


def _same_engine(group: Group, mode: Mode, findings: Findings) -> None:
    """Versions and images of the two sides: an error where the handshake covers the version, a warning elsewhere."""
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


def _connectors(prefill: Side, decode: Side, mode: Mode, findings: Findings) -> None:
    """An own connector of another family than the mode's: what it compares is not known."""
    if mode.connector is None:
        return
    names = mode.connector.names
    strange = [
        side
        for side in (prefill, decode)
        if side.connector is not None
        and (connector_child(side.connector, names) not in names or side.connector.get("kv_connector_module_path"))
    ]
    if strange:
        told = ", ".join(
            f"{side.role} {connector_child(side.connector, names) if side.connector else 'none'}"
            for side in (prefill, decode)
        )
        findings.unverified(
            "KV connector",
            f"the connectors cannot be compared: {told}; mode {mode.name} knows {', '.join(names)}.",
            f"Leave {mode.connector.flag} out for the recipe's, or take a mode of that connector.",
            ENGINE_ROLES,
        )


def _speculation(prefill: Side, decode: Side, mode: Mode, shaken: bool, findings: Findings) -> None:
    """Speculative decoding keeps layers of its own in the KV cache: on one side alone they have no counterpart."""
    one, two = prefill.speculation, decode.speculation
    if one is None and two is None:
        return
    told = ", ".join(
        f"{side.role} {side.speculation.method if side.speculation else 'none'}" for side in (prefill, decode)
    )
    flag = prefill.flag("speculative_config")
    if one is None or two is None:
        if (one or two).draftless:  # type: ignore[union-attr]
            findings.unverified(
                "speculative decoding",
                f"speculative decoding on one side alone: {told}. It needs no draft model, and whether the two still accept each other"
                " is the engine's version's.",
                f"Write the same {flag} for both, or for none.",
                ENGINE_ROLES,
            )
        else:
            findings.error(
                "pairing-speculation",
                f"speculative decoding on one side alone: {told}. The draft's layers of the KV cache have no counterpart"
                " on the other side.",
                f"Write the same {flag} for both, or for none.",
                ENGINE_ROLES,
            )
        return
    if one.draftless and two.draftless:
        return
    hybrid = mode.pairing.get("equal_guesses_on_hybrid") and decode.config and decode.config.recurrent
    if hybrid and one.tokens != two.tokens:
        findings.error(
            "pairing-speculation",
            f"speculative decoding differs (tokens at a time: prefill {one.tokens}, decode {two.tokens}); the model has recurrent layers,"
            f" whose state has a slot for each, and in mode {mode.name} the two must be alike.",
            _same(flag),
            ENGINE_ROLES,
        )
    else:
        _drafts(prefill, decode, shaken, findings)


def _drafts(prefill: Side, decode: Side, shaken: bool, findings: Findings) -> None:
    """The draft of each side, where both have one."""
    one, two = ((side.speculation.compared if side.speculation else None) for side in (prefill, decode))
    flag = prefill.flag("speculative_config")
    if one is None or two is None:
        if prefill.value("speculative_config") != decode.value("speculative_config"):
            findings.unverified(
                "speculative decoding",
                f"speculative decoding cannot be compared: {_both(prefill, decode, 'speculative_config')}.",
                _same(flag),
                ENGINE_ROLES,
            )
        return
    differing = [key for key in sorted({*one, *two}) if one.get(key) != two.get(key)]
    if not differing:
        return
    both = "; ".join(f"{key}: prefill {one.get(key)}, decode {two.get(key)}" for key in differing)
    if shaken:
        findings.error(
            "pairing-speculation",
            f"speculative decoding differs ({both}); the handshake compares it, and the first request fails.",
            _same(flag),
            ENGINE_ROLES,
        )
    else:
        findings.unverified(
            "speculative decoding",
            f"speculative decoding differs ({both}); whether the engine can transfer between the two cannot be told.",
            _same(flag),
            ENGINE_ROLES,
        )
