# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The keys that a group's members ask for, by role: of its plan, with the secrets that only its spec holds."""

from __future__ import annotations

import typing as t

from ..module_utils._core.base.plain import Plain, every, texts
from ..module_utils._core.spec.spec import secrets_of
from ..module_utils._core.work import key
from ._action import PdAction


def keys_of(action: PdAction, plan: Plain) -> dict[str, list[str]]:
    """The keys to try for each role, the likeliest first, of a plan as it was registered. A router that asks for none hands on what it is
    shown, so that the engines' follow. A group that is in no inventory has no secrets here."""
    written = action.groups().get(plan.get("group") or "")
    found: dict[str, list[str]] = {}
    router = (plan.get("router") or {}).get("member")
    for member in (*every(plan, "members"), *([router] if router else ())):
        role = str(member.get("role"))
        if role in found:
            continue
        # All members of a role have the same command and environment, but for what is their host's.
        part = next(iter(every(member, "parts")), {})
        env = {**(part.get("env") or {}), **secrets_of(written, role)}
        read = key.asked_by_router if role == "router" else key.asked_by_engine
        found[role] = list(read(texts(part, "argv"), env))
    engines = [one for role, keys in found.items() if role != "router" for one in keys]
    return {**found, "router": list(dict.fromkeys([*found.get("router", ()), *engines]))}


def first_keys(keys: t.Mapping[str, t.Sequence[str]]) -> dict[str, str]:
    """The one of each role that asks for any, as whoever registers members is told it."""
    return {role: found[0] for role, found in keys.items() if found}
