# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The `kv_cache` of a group or a role, as a spec writes it. What its provider is, the mode's file says (recipes/provider.py)."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ..base.reader import Reader
from ..recipes.provider import ROLES
from .row import At, keys, mapping, row, text

# A role says so to have no cache where the group has one.
NONE = "none"


def _roles(at: At) -> tuple[str, ...] | None:
    place, reader, given = at.where, at.reader, at.written
    value = given.get("roles")
    if value is None:
        return None
    value = [part.strip() for part in value.split(",")] if isinstance(value, str) else value
    if not isinstance(value, list) or not value or any(v not in ROLES for v in value):
        what = "a list of prefill and decode (the router never takes a cache)"
        if value == []:
            reader.findings.error("bad-value", f"{place}.roles: an empty list is not {what}.", f"Write {what}.")
        else:
            told = ", ".join(map(str, value)) if isinstance(value, list) else given["roles"]
            reader.bad(f"{place}.roles", told, what)
        return None
    return tuple(role for role in ROLES if role in value)


@dataclass(frozen=True)
class KvCache:
    """One `kv_cache` of a spec as it is written. `roles` is None where they are left to the mode."""

    place: str
    provider: str | None = row(text, "kv_cache", default=None, revision="rendered", told="required")
    roles: tuple[str, ...] | None = row(_roles, "kv_cache", default=None, revision="rendered", told="the mode's")
    service: str | None = row(text, "kv_cache", default=None, revision="rendered", told="none")
    options: t.Mapping[str, t.Any] = row(mapping, "kv_cache", default={}, revision="rendered", told="the provider's")
    # Something is written as its service that could not be read, which has been said.
    service_unread: bool = False

    @property
    def none(self) -> bool:
        """Whether it says that there is no cache."""
        return self.provider is None

    def to_plain(self) -> dict[str, t.Any]:
        if self.none:
            return {"provider": NONE}
        plain: dict[str, t.Any] = {"provider": self.provider, "service": self.service, "options": dict(self.options)}
        return plain if self.roles is None else {**plain, "roles": list(self.roles)}


def read(where: str, mapping: t.Mapping[str, t.Any], reader: Reader, role: str = "") -> KvCache | None:
    """`kv_cache` of a group, or of a `role`; None where it is not written. `reader` is the spec's, and collects what does not fit.

    An empty dictionary means no KV cache: of a group, none at all; of a role, that this role has none though its group does."""
    if mapping.get("kv_cache") is None:
        return None
    place, roles_ = f"{where}.kv_cache", [role] if role else []
    if mapping["kv_cache"] == NONE:
        return KvCache(place)
    given = reader.mapping(where, mapping, "kv_cache")
    own = {"roles": f"a role's own kv_cache has no roles: it is {role}'s alone."} if role else {}
    reader.keys(place, given, [k for k in keys(KvCache, "kv_cache") if k not in own], role, own)
    provider = reader.text(place, given, "provider")
    if not given or provider == NONE or not isinstance(mapping["kv_cache"], dict):
        return KvCache(place) if role else None
    if provider is None and given.get("provider") in (None, ""):
        reader.findings.error(
            "missing-value",
            f"{place}.provider: missing: which cache it is.",
            "Write provider: NAME (docs/caches.md lists them by mode), or provider: none.",
            roles_,
        )
    if provider is None:
        return KvCache(place)
    options = reader.mapping(place, given, "options")
    service = reader.text(place, given, "service")
    unread = service is None and given.get("service") not in (None, "")
    # The roles of a group alone: at a role the key has been refused.
    return KvCache(
        place, provider, None if role else _roles(At(reader, place, given, "roles")), service, options, unread
    )
