# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Two connectors in one: the transfer between the roles and a cache, as the engine's MultiConnector takes them (docs/caches.md).

The transfer comes first: loads are taken from the first child that has tokens, saves go to all."""

from __future__ import annotations

import json
import re
import typing as t

from ..base.finding import Findings

MULTI = "MultiConnector"
OUTER_ROLE = {"prefill": "kv_producer", "decode": "kv_consumer"}
# vLLM's scheduler reads it at the top alone.
LIFTED = "kv_load_failure_policy"
# A string of JSON as it stands, or a placeholder outside of one.
_BARE = re.compile(r'"(?:[^"\\]|\\.)*"|\$\{([^}]{0,400})\}')
_MARK = "\x00"


def compose(
    transfer: t.Mapping[str, t.Any], cache: t.Mapping[str, t.Any], role: str, place: str, findings: Findings
) -> dict[str, t.Any]:
    """The one connector of `role`. Children keep every key but `engine_id`, which the engine gives them from the top (a child that brings
    one is a TypeError there). Where they disagree on the failure policy, the first one's is lifted, and it is said."""
    children = [{key: value for key, value in child.items() if key != "engine_id"} for child in (transfer, cache)]
    composed: dict[str, t.Any] = {
        "kv_connector": MULTI,
        "kv_role": OUTER_ROLE.get(role, "kv_both"),
        "kv_connector_extra_config": {"connectors": children},
    }
    policies = [child[LIFTED] for child in children if child.get(LIFTED) is not None]
    if policies:
        composed[LIFTED] = policies[0]
    if len({str(policy) for policy in policies}) > 1:
        findings.warning(
            "kv-policy-children-differ",
            f"{place}: the connectors that are composed say different things of {LIFTED}: {' and '.join(map(str, policies))};"
            f" {policies[0]}, the transfer's, counts for both.",
            f"Write one {LIFTED}.",
            [role],
        )
    pinned = next((child["engine_id"] for child in (transfer, cache) if child.get("engine_id")), None)
    if pinned is not None:
        composed["engine_id"] = pinned
    return composed


def read_with_placeholders(text: str) -> dict[str, t.Any] | None:
    """A user's connector as a dictionary, in which a bare `${...}` (where a number stands) can be told from a quoted one; None when it is
    no object. `write_with_placeholders` undoes it."""
    try:
        value = json.loads(
            _BARE.sub(lambda m: m.group() if m.group(1) is None else json.dumps(_MARK + m.group(1)), text)
        )
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def bare_name(text: str) -> str | None:
    """The name of a placeholder that stands bare, of a string that `read_with_placeholders` gives; None for any other."""
    return text[len(_MARK) :].partition(":")[0] if text.startswith(_MARK) else None


def first_of(composed: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """The first child of a MultiConnector; empty where it has none that is an object."""
    extra = composed.get("kv_connector_extra_config")
    children = extra.get("connectors") if isinstance(extra, t.Mapping) else None
    first = children[0] if isinstance(children, list) and children else None
    return dict(first) if isinstance(first, t.Mapping) else {}


def write_with_placeholders(value: t.Any) -> str:
    text = json.dumps(value, separators=(",", ":"))
    return re.sub(r'"\\u0000([^"]*)"', r"${\1}", text)
