# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pairing of flags and variables by the engine's table: what makes tokens of a request, or numbers of weights, is the same on both sides.

The router sends one request to both, and each reads it by itself: a difference is no error of any program, only another prompt."""

from __future__ import annotations

import json
import typing as t

from ..base.arguments import read_json_object
from ..base.finding import Findings
from ..recipes.flags import Flag
from ..recipes.mode import Mode
from ..spec.spec import ENGINE_ROLES, Group
from .pairing_side import SECRET, Side

_OTHER_MODEL = "the two compute with other weights or numbers: decode goes on with the KV cache of another model"
# By the reason of a factor's class: its code, and what a difference does. `auto`: silence is what the engine finds out by itself.
CONSEQUENCE: dict[str, tuple[str, str]] = {
    "tokens": (
        "pairing-tokens",
        "the two make other tokens of one request, and decode goes on with the KV cache of another prompt, or ends where lengths differ",
    ),
    "weights": ("pairing-weights", _OTHER_MODEL),
    "auto": ("pairing-weights", _OTHER_MODEL),
    "cache": ("pairing-setting", "what the two exchange would be misplaced"),
}
# What is told of a difference that may be none.
OPEN: dict[str, str] = {
    "cache": "whether the two lay out what they exchange alike cannot be told",
    "accepts": "a request that one side takes, the other may refuse",
}


def check(group: Group, prefill: Side, decode: Side, mode: Mode, findings: Findings) -> None:
    """All factors of the table that both sides' engine has. What a mode's handshake compares is left to it."""
    if prefill.engine is not decode.engine or prefill.engine.flags is None:
        return
    sides = (prefill, decode)
    for flag in prefill.engine.flags.flags:
        reason, open_to = flag.of("factor"), flag.of("open")
        if reason is None and open_to is None:
            continue
        values = [_value(side, flag, group) for side in sides]
        if values[0] == values[1]:
            continue
        told = f"prefill {_told(values[0])}, decode {_told(values[1])}"
        hint = f"Write {flag.names[0]} the same for both, best at engine.args, or for none."
        if reason is None or (reason == "auto" and None in values and not _unquantized(sides)):
            why = OPEN.get(open_to or "", "what a silent side takes follows from the model's files")
            findings.unverified(flag.name, f"{flag.names[0]} cannot be compared: {told}: {why}.", hint, ENGINE_ROLES)
        else:
            why = CONSEQUENCE[reason][1]
            findings.error(CONSEQUENCE[reason][0], f"{flag.names[0]} differs: {told}: {why}.", hint, ENGINE_ROLES)
    _variables(prefill, decode, mode, findings)


def _value(side: Side, flag: Flag, group: Group) -> str | None:
    """What a side says of a flag, in one form; None where it is silent and the engine has no plain default for it."""
    table = side.engine.flags
    if flag.takes == "none":
        state = side.arguments.toggle(flag.name, f"no-{flag.name}")
        return str(state) if state is not None else flag.default or "False"
    keys = side.arguments.object(flag.name)
    if keys:
        return json.dumps(keys, sort_keys=True)
    text = side.arguments.value([flag.name])
    if text is None:
        return flag.default
    if table and flag.name in table.like_the_model and text.strip() in (side.value("model"), group.model):
        return flag.default
    only = table.only.get(flag.name) if table else None
    if only is not None:
        return text if text in only else flag.default
    if read_json_object(text) == {}:
        return flag.default
    return text.strip()


def _told(value: str | None) -> str:
    if value is None:
        return "does not write it"
    return {"True": "on", "False": "off"}.get(value, value if len(value) <= 160 else value[:157] + "...")


def _unquantized(sides: t.Iterable[Side]) -> bool:
    """Whether the model's files are known to bring no quantization of their own, so that silence is none."""
    configs = [side.config for side in sides]
    return all(config is not None and not config.get("quantization_config") for config in configs)


# -- variables -----------------------------------------------------------------------------------------------------------------


def _variables(prefill: Side, decode: Side, mode: Mode, findings: Findings) -> None:
    table = prefill.engine.flags
    for name, reason in table.variables("factor") if table else ():
        one, two = (_variable(side, name) for side in (prefill, decode))
        if one == two or (reason == "handshake" and mode.pairing.get("handshake")):
            continue
        told = f"prefill {_told(one)}, decode {_told(two)}"
        hint = f"Write {name} the same for both, best at engine.env, or for none."
        if SECRET in (one, two) or reason == "handshake":
            why = "a secret is not looked into" if SECRET in (one, two) else OPEN["cache"]
            findings.unverified(name, f"{name} cannot be compared: {told}: {why}.", hint, ENGINE_ROLES)
        else:
            findings.error("pairing-setting", f"{name} differs: {told}: {CONSEQUENCE['cache'][1]}.", hint, ENGINE_ROLES)


def _variable(side: Side, name: str) -> str | None:
    value = side.variable(name)
    if value is None or value == SECRET:
        return value
    synonyms = side.engine.synonyms.get(name, {})
    return synonyms.get(value.strip().upper(), value.strip()).lower() or None
