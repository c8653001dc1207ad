# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pairing of connectors, a user's own as well as the mode's: which part each side has in the transfer, what the two say of it, and what a
mode refuses beside it."""

from __future__ import annotations

import json
import typing as t

from ..base.finding import Findings
from ..recipes.mode import Mode
from ..spec.spec import ENGINE_ROLES
from .pairing_side import Side, children_of

# The part in the transfer that each role cannot have: the engine of the other one.
NOT_ITS = {"prefill": "kv_consumer", "decode": "kv_producer"}
ITS = {"prefill": "kv_producer", "decode": "kv_consumer"}
# What each member has of its own, or only its own side reads.
OWN = {
    "kv_role",
    "kv_rank",
    "kv_ip",
    "kv_port",
    "engine_id",
    "kv_buffer_size",
    "kv_load_failure_policy",
    "kv_connector",
    "kv_connector_module_path",
    "kv_connector_extra_config",
    "kv_parallel_size",
    # Decode's alone, and read where layouts are compared.
    "enable_permute_local_kv",
}
OWN_EXTRA = {
    "kv_lease_duration",
    "engine_ttl",
    "num_threads",
    "num_workers",
    "connectors",
    "kv_recompute_threshold",
    "decoder_kv_blocks_ttl",
    "bootstrap_server_address",
    "lookup_rpc_port",
    "device_name",
    "prefill",
    "decode",
    # Compared where a mode's handshake reads them.
    "enforce_handshake_compat",
}


def check(prefill: Side, decode: Side, mode: Mode, findings: Findings) -> None:
    sides = (prefill, decode)
    for side in sides:
        if side.connector is not None:
            _check_role(side, mode, findings)
            _check_refused(side, mode, findings)
    transfers = [_transfer(side, mode) for side in sides]
    if None not in transfers:
        _compare(sides, transfers, findings)


def _flag(side: Side) -> str:
    return side.flag("kv_connector")


def _transfer(side: Side, mode: Mode) -> t.Mapping[str, t.Any] | None:
    """The connector that moves the cache between the roles: the mode's among composed ones, else the first."""
    if side.connector is None:
        return None
    children = children_of(side.connector)
    names = mode.connector.names if mode.connector else ()
    return next((c for c in children if c.get("kv_connector") in names), children[0] if children else side.connector)


def _check_role(side: Side, mode: Mode, findings: Findings) -> None:
    """A role's part in the transfer is certain: prefill gives, decode takes, and what does both does either."""
    parts = [(connector or {}).get("kv_role") for connector in (side.connector, _transfer(side, mode))]
    if NOT_ITS[side.role] in parts:
        findings.error(
            "connector-role",
            f"{side.spec.args_place}: {_flag(side)}: kv_role of {side.role} is {NOT_ITS[side.role]}, which is the other role's part: its"
            " cache would go the wrong way, and decode would compute every prompt again or wait for it.",
            f"Write {ITS[side.role]}, or leave {_flag(side)} out for the recipe's.",
            [side.role],
        )


def _check_refused(side: Side, mode: Mode, findings: Findings) -> None:
    """What a mode does not give a role as its cache, a role's own connector must not bring either."""
    names = {str(c.get("kv_connector")) for c in children_of(side.connector) or [side.connector or {}]}
    for provider in mode.kv_cache_providers.values():
        kinds = {str((recipe.connector or {}).get("kv_connector")) for recipe in provider.roles.values()} - {"None"}
        refused = provider.roles[side.role].refused
        if refused and names & kinds and not side.cache:
            findings.error(
                "kv-cache-role-refused",
                f"{side.spec.args_place}: {_flag(side)}: {', '.join(sorted(names & kinds))} is the connector of {provider.name}, which mode"
                f" {mode.name} does not give to {side.role}: {refused}.",
                "Leave it out of this role's connector.",
                [side.role],
            )


def _compare(sides: tuple[Side, Side], transfers: t.Sequence[t.Mapping[str, t.Any] | None], findings: Findings) -> None:
    """Keys that the two sides say differently. Which of them a connector compares is its own to know."""
    one, two = (_keys(connector or {}) for connector in transfers)
    differing = sorted(key for key in {*one, *two} if one.get(key) != two.get(key))
    if not differing:
        return
    told = "; ".join(f"{key}: prefill {_told(one.get(key))}, decode {_told(two.get(key))}" for key in differing)
    findings.unverified(
        "KV connector's settings",
        f"the connectors' settings cannot be compared: {told}; one side may speak in a way that the other does not.",
        f"Write the same in {_flag(sides[0])} for both.",
        ENGINE_ROLES,
    )


def _keys(connector: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    extra = connector.get("kv_connector_extra_config")
    extra = extra if isinstance(extra, t.Mapping) else {}
    top = {str(key): value for key, value in connector.items() if key not in OWN}
    return {**top, **{str(key): value for key, value in extra.items() if key not in OWN_EXTRA}}


def _told(value: t.Any) -> str:
    return "does not write it" if value is None else json.dumps(value)
