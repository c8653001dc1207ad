# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a KV cache changes in the templates of a group's roles: who has one, its flags and files, and the hybrid KV cache manager."""

from __future__ import annotations

import typing as t
from dataclasses import replace

from ..base import placeholders
from ..base.arguments import Arguments, read_json_object
from ..base.finding import Findings
from ..model import model_config
from ..recipes.engine import Engine
from ..recipes.mode import Mode
from ..spec.cache_service import client_values
from ..spec.known import Known
from ..spec.spec import ENGINE_ROLES, Group, Role
from .connector_argument import derived_connectors, own_connector
from .kv_cache_use import Added, Use, added, resolve


def uses_of(
    group: Group,
    mode: Mode,
    argvs: t.Mapping[str, list[str]],
    values: t.Mapping[str, dict[str, t.Any]],
    gpus: t.Mapping[str, int],
    known: Known,
    findings: Findings,
) -> tuple[dict[str, Use], dict[str, tuple[str, ...]]]:
    """The cache of each role, and the connectors that may be derived for each. A service stands down where the user's own connector takes
    over. `values` and `gpus` are each role's."""
    uses = resolve(group, mode, known, findings)
    connectors = {
        name: _connectors(group.roles[name], mode, uses.get(name), values[name], gpus[name]) for name in ENGINE_ROLES
    }
    for name, use in uses.items():
        own = own_connector(argvs[name], mode, values[name], connectors[name])
        if use.service and use.recipe.connector and mode.connector and own:
            why = f"your own {mode.connector.flag} takes over the KV connector"
            uses[name] = replace(use, stands_down=why)
            findings.warning(
                "cache-not-injected",
                f"roles.{name}: its members start without {use.provider.name} ({use.service_name}): {why}.",
                f"Leave {mode.connector.flag} out for the recipe's, which the cache is composed with; or put the cache into your own.",
                [name],
            )
    return uses, connectors


def _connectors(role: Role, mode: Mode, use: Use | None, values: dict[str, t.Any], gpus: int) -> tuple[str, ...]:
    """What may be derived for a role's connector, an address that is known filled in."""
    derived = derived_connectors(mode, role, values, added(use, values, gpus).connector)
    service = use.service if use else None
    if service is None or not service.address:
        return derived
    address = client_values(service.given_host, service.given_port)
    return tuple(placeholders.fill(text, address, partial=True) for text in derived)


TOGGLE = "hybrid_kv_cache_manager"


def without_hybrid(
    group: Group,
    engine: Engine,
    prefill: Arguments,
    uses: t.Mapping[str, Use],
    known: Known,
    choices: dict[str, t.Any],
) -> bool:
    """Whether the hybrid KV cache manager is off on both roles: one that a cache's connector turns off on its side alone would be in the
    handshake's hash (real-engine.md 7). What was chosen by the model's config.json is kept in `choices`, for when nobody can read it."""
    kinds = {use.provider.hybrid_manager for use in uses.values() if not use.stands_down}
    if "off" in kinds or "recurrent" not in kinds:
        return "off" in kinds
    overrides = prefill.value(engine.names("hf_overrides"))
    config = model_config.read(known.config_of(group), read_json_object(overrides or ""))
    kept = known.recorded.get("hybrid_manager") or {}
    off = not (config and config.recurrent)
    if config is None and kept.get("model") == group.model:
        off = bool(kept.get("off"))
    choices["hybrid_manager"] = {"off": off, "model": group.model}
    return off


def cache_arguments(
    role: Role, engine: Engine, kept: list[str], more: Added, off: bool, findings: Findings
) -> list[str]:
    """The flags that a cache brings to a role whose user writes `kept`. A user's own value of one wins, and is said. `off` says that the
    engine's hybrid KV cache manager is off."""
    written = Arguments(kept)
    beside: list[str] = []
    for option in Arguments(more.arguments).options:
        own = written.last([option.name])
        if own is None:
            beside += more.arguments[option.start : option.stop]
        elif own.value != option.value:
            findings.warning(
                "kv-cache-flag-overridden",
                f"{role.args_place}: {own.text} takes the place of the cache's {option.text}.",
                "Leave it out unless you mean it; what a cache is sized by stands in kv_cache.options.",
                [role.name],
            )
    toggle = engine.toggles.get(TOGGLE)
    if off and toggle and written.toggle(toggle[0], toggle[1]) is None:
        beside.append(f"--{toggle[1]}")
    return beside


def files_of(
    role: Role, mode: Mode, values: t.Mapping[str, t.Any], more: Added, findings: Findings
) -> tuple[t.Mapping[str, t.Any], ...]:
    """The recipe's files, and the cache's that are not among them."""
    found: list[dict[str, t.Any]] = [
        {
            k: placeholders.fill(v, values, partial=True) if isinstance(v, str) else v
            for k, v in f.items()
            if k != "roles"
        }
        for f in mode.files
        if role.name in f.get("roles", ENGINE_ROLES)
    ]
    paths = {f["path"] for f in found}
    for file in more.files:
        if file["path"] in paths:
            findings.warning(
                "kv-cache-file-taken",
                f"roles.{role.name}: both the mode and its cache bring the file {file['path']}; the mode's is written.",
                "Give one of the two another path in the mode's file.",
                [role.name],
            )
        else:
            found.append(file)
    return tuple(found)
