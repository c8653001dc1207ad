# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# This module util is PRIVATE to the collection.
"""The one argument that configures a member's KV connector: the mode's, or the user's own in its place; with a cache, both in one."""

from __future__ import annotations

import typing as t

from . import kv_compose, placeholders
from .arguments import Arguments, normal, read_json_object
from .finding import Findings
from .mode import Mode
from .spec import Role


def own_connector(argv: t.Sequence[str], mode: Mode) -> bool:
    """Whether the user writes a connector."""
    return bool(mode.connector and Arguments(argv).has(mode.connector.flag))


def connector_argument(
    argv: list[str],
    mode: Mode,
    role: Role,
    values: t.Mapping[str, t.Any],
    cache: t.Mapping[str, t.Any] | None,
    findings: Findings,
) -> tuple[list[str], list[str]]:
    """The user's argv and the connector's argument: the mode's, or the user's own where one is written. `cache` is the child beside it."""
    if mode.connector is None:
        return argv, []
    flag = mode.connector.flag
    recipe = _without_none(mode.connector.by_role[role.name])
    text = placeholders.fill(placeholders.from_json(recipe), values, partial=True)
    arguments = Arguments(argv)
    _check_dotted(arguments, flag, role, findings)
    own = arguments.last([flag])
    # The engine reads every one of them, and uses the last.
    every = [o for o in arguments.options if o.name == normal(flag)]
    taken = {i for o in every for i in range(o.start, o.stop)}
    rest = [token for i, token in enumerate(argv) if i not in taken]
    given = read_json_object(own.value or "") if own else None
    if own and given is None:
        findings.error(
            "malformed-connector",
            f"{role.args_place}: the value of {own.flag} is not a JSON object: {_shorten(own.value or 'nothing')}",
            'Write it as one entry, for example \'--kv-transfer-config={"kv_connector":"NixlConnector","kv_role":"kv_both"}\'.',
            [role.name],
        )
    if own is None or given is None or given == read_json_object(text):
        return rest, [f"{flag}={_composed(text, cache, role, findings)}"]
    findings.warning(
        "own-connector",
        f"{role.args_place}: your {own.flag} stands in place of the recipe's; its environment and ports stay.",
        "What your connector shares with the recipe's is checked; a connector of another family is not compared.",
        [role.name],
    )
    if cache:
        return rest, [f"{flag}={_composed(own.value or '', cache, role, findings)}"]
    others = taken - set(range(own.start, own.stop))
    return [token for i, token in enumerate(argv) if i not in others], []


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


def _shorten(text: str) -> str:
    return repr(text if len(text) <= 120 else text[:117] + "...")
