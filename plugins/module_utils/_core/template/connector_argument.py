# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The one argument that configures a member's KV connector: the mode's, or the user's own in its place; with a cache, both in one."""

from __future__ import annotations

import re
import typing as t

from ..base import placeholders
from ..base.arguments import Arguments, Option, normal, read_json_object
from ..base.finding import Findings
from ..recipes.mode import Mode
from ..spec.spec import Role
from . import kv_compose
from .pasted import same_json

_STAGES = re.compile(r"\$\{roles\.(prefill|decode)\.pipeline_parallel_size\}")


def derived_connectors(
    mode: Mode, role: Role, values: t.Mapping[str, t.Any], cache: t.Mapping[str, t.Any] | None
) -> tuple[str, ...]:
    """What the mode may set for a role: its connector, and the one that is composed with `cache`. What only a host can fill in stays."""
    if mode.connector is None:
        return ()
    text = _recipe(mode, role, values)
    return (text, _composed(text, cache, role, Findings())) if cache else (text,)


def own_connector(arguments: Arguments, mode: Mode, values: t.Mapping[str, t.Any], derived: t.Sequence[str]) -> bool:
    """Whether the user writes a connector that is none of the `derived` ones pasted back."""
    own = arguments.last([mode.connector.flag]) if mode.connector else None
    return own is not None and _derived(own, values, derived) is None


def _derived(own: Option, values: t.Mapping[str, t.Any], derived: t.Sequence[str]) -> str | None:
    """The derived connector that the user's says again."""
    written = placeholders.fill(own.value or "", values, partial=True)
    return next((text for text in derived if same_json(written, text)), None)


def _recipe(mode: Mode, role: Role, values: t.Mapping[str, t.Any]) -> str:
    recipe = _without_none(mode.connector.by_role[role.name]) if mode.connector else {}
    recipe = _without_one_stage(recipe, values)
    return placeholders.fill(placeholders.from_json(recipe), values, partial=True)


def connector_argument(
    arguments: Arguments,
    mode: Mode,
    role: Role,
    values: t.Mapping[str, t.Any],
    cache: t.Mapping[str, t.Any] | None,
    derived: t.Sequence[str],
    findings: Findings,
) -> tuple[list[str], list[str], list[tuple[str, str]]]:
    """The user's argv, the connector's argument (the mode's, or the user's own where one is written), and a line pasted back with what it
    stands for. `cache` is the child beside it; `derived` are the mode's connectors, which are not one's own."""
    argv = arguments.argv
    if mode.connector is None:
        return argv, [], []
    flag = mode.connector.flag
    _check_dotted(arguments, flag, role, findings)
    own = arguments.last([flag])
    # The engine reads every one of them, and uses the last.
    every = [o for o in arguments.options if o.name == normal(flag)]
    taken = {i for o in every for i in range(o.start, o.stop)}
    rest = [token for i, token in enumerate(argv) if i not in taken]
    readable = own is not None and read_json_object(own.value or "") is not None
    if own and not readable:
        findings.error(
            "malformed-connector",
            f"{role.args_place}: the value of {own.flag} is not a JSON object: {_shorten(own.value or 'nothing')}",
            'Write it as one entry, for example \'--kv-transfer-config={"kv_connector":"NixlConnector","kv_role":"kv_both"}\'.',
            [role.name],
        )
    again = _derived(own, values, derived) if own and readable else None
    if own is None or not readable or again is not None:
        # The plan looks whether what only a host can fill in is what a member got.
        hosts = own is not None and again is not None and "${" in again and "${" not in (own.value or "")
        pasted = [(own.text, f"{flag}={again}")] if own and hosts else []
        return rest, [f"{flag}={_composed(_recipe(mode, role, values), cache, role, findings)}"], pasted
    findings.warning(
        "own-connector",
        f"{role.args_place}: your {own.flag} stands in place of the recipe's; its environment and ports stay.",
        "What your connector shares with the recipe's is checked; a connector of another family is not compared.",
        [role.name],
    )
    if cache:
        return rest, [f"{flag}={_composed(own.value or '', cache, role, findings)}"], []
    others = taken - set(range(own.start, own.stop))
    return [token for i, token in enumerate(argv) if i not in others], [], []


def _composed(text: str, cache: t.Mapping[str, t.Any] | None, role: Role, findings: Findings) -> str:
    """The connector's text with a cache beside it; as it stands where there is none."""
    transfer = kv_compose.read_with_placeholders(text) if cache else None
    if cache is None or transfer is None:
        return text
    child = kv_compose.read_with_placeholders(placeholders.from_json(cache)) or {}
    composed = kv_compose.compose(transfer, child, role.name, role.args_place, findings)
    return kv_compose.write_with_placeholders(composed)


def _check_dotted(arguments: Arguments, flag: str, role: Role, findings: Findings) -> None:
    dotted = [o for o in arguments.options if o.name.startswith(normal(flag) + ".")]
    if dotted:
        findings.error(
            "malformed-connector",
            f"{role.args_place}: {dotted[0].text} writes one key of {flag}; the engine would take it for the whole connector.",
            f"Write the whole object: {flag}={{...}}.",
            [role.name],
        )


def _without_none(value: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    return {k: v for k, v in value.items() if v is not None}


def _without_one_stage(value: t.Mapping[str, t.Any], values: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """A recipe's connector without the pipeline sizes that come to 1, which every connector takes for granted."""
    made: dict[str, t.Any] = {}
    for key, inner in value.items():
        if isinstance(inner, t.Mapping):
            made[key] = _without_one_stage(inner, values)
        elif not (isinstance(inner, str) and _STAGES.fullmatch(inner) and values.get(inner[2:-1]) == 1):
            made[key] = inner
    return made


def _shorten(text: str) -> str:
    return repr(text if len(text) <= 120 else text[:117] + "...")
