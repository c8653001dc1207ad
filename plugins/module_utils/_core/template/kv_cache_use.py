# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which cache each role of a group gets: the spec and the mode's providers brought together, and what it adds to the role's members."""

from __future__ import annotations

import difflib
import json
import typing as t
from dataclasses import dataclass, field, replace

from ..base import placeholders
from ..base.address import split
from ..base.finding import Findings
from ..base.sizes import told_size
from ..recipes.mode import Mode
from ..recipes.provider import ROLES, Provider, RoleRecipe, nearest, provider_of
from ..spec.cache_service import ANY, CacheService
from ..spec.known import Known
from ..spec.kv_cache import KvCache
from ..spec.spec import Group


@dataclass(frozen=True)
class Use:
    """The cache of one role. `options` are values as the provider's options type them (sizes in bytes). `stands_down` says why its members
    start without it, whatever their hosts have."""

    role: str
    place: str
    provider: Provider
    recipe: RoleRecipe
    options: t.Mapping[str, t.Any]
    service: CacheService | None = None
    service_name: str | None = None
    why: str = ""
    stands_down: str = ""

    def values(self, gpus: int) -> dict[str, t.Any]:
        """The placeholders that the spec decides, for a member with so many GPUs."""
        declared = self.provider.options
        return {f"kv_cache.{name}": declared[name].rendered(value, gpus) for name, value in self.options.items()}

    def to_plain(self) -> dict[str, t.Any]:
        """What the revision and the plan say of it: what the spec decides, never an address that a host gives."""
        declared = self.provider.options
        told = {n: told_size(v) if declared[n].type == "size" else v for n, v in self.options.items()}
        plain: dict[str, t.Any] = {"provider": self.provider.name, "service": self.service_name, "options": told}
        if self.service and self.service.address and self.service.address != self.service_name:
            plain["address"] = self.service.address
        return plain

    def label(self) -> dict[str, t.Any]:
        """What a member's label says: status reads from it who serves without the cache."""
        found = {"provider": self.provider.name, "service": self.service_name}
        return {**found, "injected": not self.stands_down, "why": self.stands_down or self.why}


def resolve(group: Group, mode: Mode, known: Known, findings: Findings) -> dict[str, Use]:
    """The cache of each role that has one. What cannot be is a finding, and gives none."""
    uses: dict[str, Use] = {}
    for name, role in ((r.name, r) for r in group.engine_roles):
        own = role.kv_cache
        written = own if own is not None else group.kv_cache
        if written is None or written.none:
            continue
        provider = _provider(written, mode, [name] if own is not None else [], findings)
        if provider is None:
            continue
        wanted = _wants(name, written, own is not None, provider, mode, findings)
        # All faults are reported at once, also those of a role that cannot have a cache.
        service = _service(written, provider, known, findings)
        options = _options(written, provider, service, findings)
        if not wanted or options is None or (provider.service and service is None):
            continue
        uses[name] = Use(name, written.place, provider, provider.roles[name], options, service, written.service, wanted)
    return uses


def filled(group: Group, uses: t.Mapping[str, Use], mode: Mode) -> Group:
    """The group with its cache as it is: the roles that have it and the provider's own name, which a plan and a validation show."""
    cache = group.kv_cache
    if cache is None or cache.none:
        return group
    provider = provider_of(mode.kv_cache_providers, cache.provider or "")
    if provider is None:
        return group
    roles = tuple(name for name, use in uses.items() if use.place == cache.place)
    return replace(group, kv_cache=replace(cache, provider=provider.name, roles=roles))


def _provider(cache: KvCache, mode: Mode, roles: list[str], findings: Findings) -> Provider | None:
    name = cache.provider or ""
    provider = provider_of(mode.kv_cache_providers, name)
    if provider is None:
        near = nearest(mode.kv_cache_providers, name)
        offered = ", ".join(mode.kv_cache_providers)
        findings.error(
            "kv-cache-not-offered",
            f"{_short(cache.place)}: mode {mode.name} does not compose with provider {name!r}.",
            (f"Did you mean {near!r}? " if near else "")
            + (
                f"Providers of this mode: {offered}."
                if offered
                else "This mode composes with no cache: its connector is yours, and so is what stands beside it. Remove kv_cache."
            ),
            roles,
        )
    return provider


def _wants(role: str, cache: KvCache, own: bool, provider: Provider, mode: Mode, findings: Findings) -> str:
    """Why the role has the cache; empty when it has not."""
    refused = provider.roles[role].refused
    asked = own or (cache.roles is not None and role in cache.roles)
    if asked and refused:
        possible = provider.possible
        others = [p.name for p in mode.kv_cache_providers.values() if not p.roles[role].refused]
        findings.error(
            "kv-cache-role-refused",
            f"{_short(cache.place)}: mode {mode.name} does not give {provider.name} to {role}: {refused}.",
            (f"Roles that may have {provider.name}: {', '.join(possible)}. " if possible else "")
            + f"Providers for {role} in this mode: {', '.join(others) or 'none'}.",
            [role],
        )
        return ""
    if asked:
        return "asked for by the spec"
    if cache.roles is not None or refused:
        return ""
    kept_out = [f"{r}: {provider.roles[r].refused}" for r in ROLES if provider.roles[r].refused]
    return "the roles that the mode allows" + (f" (not {'; '.join(kept_out)})" if kept_out else "")


def _options(
    cache: KvCache, provider: Provider, service: CacheService | None, findings: Findings
) -> dict[str, t.Any] | None:
    """The values of the provider's options: as the group writes them, else as its service has them for all clients, else the recipe's. None
    when a required one is missing."""
    declared = provider.options
    place = f"{_short(cache.place)}.options"
    for name in cache.options:
        if name not in declared:
            near = difflib.get_close_matches(str(name), declared, 1, 0.5)
            findings.error(
                "unknown-key",
                f"{place}.{name}: provider {provider.name} has no such option.",
                f"Did you mean {near[0]!r}?" if near else f"Options: {', '.join(declared) or 'none'}.",
            )
    values: dict[str, t.Any] = {}
    complete = True
    for name, option in declared.items():
        given, where = cache.options.get(name), f"{place}.{name}"
        if given in (None, "") and service and service.options.get(name) not in (None, ""):
            given, where = service.options[name], f"pd_caches.{service.name}.options.{name}"
        if given is None or given == "":
            if option.default is not None and not option.ignored:
                values[name] = option.value(option.default)
            elif option.required:
                complete = False
                findings.error(
                    "missing-value",
                    f"{place}.{name}: missing: {option.summary or f'{provider.name} cannot do without it'}.",
                    f"Write {name}: {option.wanted()}.",
                )
            continue
        if option.ignored:
            findings.warning(
                "kv-cache-option-ignored",
                f"{where}: {given!r} has no effect with {provider.name} in this mode: {option.ignored}.",
                f"Remove {name}.",
            )
            continue
        value = option.value(given)
        if value is None:
            told = repr(given) if not isinstance(given, (dict, list)) else "a dictionary or list"
            findings.error("bad-value", f"{where}: {told} is not {option.wanted()}.", f"Write {option.wanted()}.")
            complete = complete and not option.required
        else:
            values[name] = value
    return values if complete else None


def _service(cache: KvCache, provider: Provider, known: Known, findings: Findings) -> CacheService | None:
    """The service that a cache names: one of pd_caches, or an address."""
    place, name = f"{_short(cache.place)}.service", cache.service
    if not provider.service:
        if name:
            findings.error(
                "bad-value",
                f"{place}: {name!r}: {provider.name} lives inside the engine, and there is no service to name.",
                "Remove service.",
            )
        return None
    if cache.service_unread:
        return None
    if not name:
        findings.error(
            "missing-value",
            f"{place}: missing: {provider.name} is a service ({provider.service}) that members connect to.",
            "Write the name of an entry of pd_caches, or HOST:PORT of one that somebody else runs.",
        )
        return None
    # No entry of pd_caches has a colon in its name.
    if ":" in name:
        host, port = split(name) or ("", 0)
        if not host or host in ANY:
            findings.error(
                "bad-value",
                f"{place}: {name!r} is no address to connect to.",
                "Write the address that the members reach it at.",
            )
        return CacheService(name, provider.service, address=name, given_host=host, given_port=port)
    if known.caches is None:
        return CacheService(name, provider.service)
    service = known.caches.get(name)
    if service is None:
        fitting = [n for n, s in known.caches.items() if s.provider == provider.service]
        near = difflib.get_close_matches(name, fitting, 1, 0.5)
        offered = f"Services of kind {provider.service}: {', '.join(fitting) or 'none'}."
        findings.error(
            "kv-cache-unknown-service",
            f"{place}: there is no service {name!r} in pd_caches, and it is no HOST:PORT.",
            f"Did you mean {near[0]!r}?" if near else offered,
        )
        return CacheService(name, provider.service)
    if service.provider != provider.service:
        findings.error(
            "kv-cache-service-kind",
            f"{place}: {name} is a service of kind {service.provider}, and {provider.name} needs one of kind {provider.service}.",
            "Name another service, or take the provider that goes with this one.",
        )
    return service


def _short(place: str) -> str:
    """A place within the group, as other messages name it."""
    return place.split(".", 2)[2] if place.startswith("pd_groups.") else place


# -- what it adds ----------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Added:
    """What a cache adds to the members of a role; texts still hold what only a host can fill in."""

    connector: dict[str, t.Any] | None = None
    arguments: tuple[str, ...] = ()
    environment: t.Mapping[str, str] = field(default_factory=dict)
    files: tuple[dict[str, t.Any], ...] = ()


NOTHING = Added()


def added(use: Use | None, values: t.Mapping[str, t.Any], gpus: int) -> Added:
    """The provider's part of a role, with the spec's values filled in. An entry that names an option without a value is left out.

    `values` are the role's placeholders."""
    if use is None or use.stands_down:
        return NOTHING
    mine = {**values, **use.values(gpus)}
    missing = {f"kv_cache.{name}" for name in use.provider.options} - set(mine)
    recipe = use.recipe

    def text(value: str) -> str:
        return placeholders.fill(value, mine, partial=True)

    return Added(
        connector=_without(recipe.connector, missing, mine) if recipe.connector else None,
        arguments=tuple(text(a) for a in recipe.arguments if not _names(a) & missing),
        environment={k: text(v) for k, v in recipe.environment.items() if not _names(v) & missing},
        files=tuple(_file(file, missing, mine) for file in recipe.files),
    )


def _file(file: t.Mapping[str, t.Any], missing: set[str], values: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """A file of a member: its text without the lines that name an option without a value, or its JSON without such keys."""
    plain: dict[str, t.Any] = {k: v for k, v in file.items() if k not in ("json", "content")}
    if "json" in file:
        content = placeholders.from_json(_without(file["json"], missing, values))
        plain["content"] = placeholders.fill(content, values, partial=True) + "\n"
    else:
        lines = [line for line in str(file["content"]).splitlines(keepends=True) if not _names(line) & missing]
        plain["content"] = placeholders.fill("".join(lines), values, partial=True)
    plain["path"] = placeholders.fill(str(file["path"]), values, partial=True)
    return plain


def _names(text: str) -> set[str]:
    return {name.partition(":")[0] for name in placeholders.names(text)}


def _without(value: t.Any, missing: set[str], values: t.Mapping[str, t.Any]) -> t.Any:
    """JSON without entries that have no value, and without dictionaries that are empty for it; the spec's values keep their type."""
    if isinstance(value, str):
        name = value[2:-1] if value.startswith("${") and value.endswith("}") else ""
        return values[name] if name in values else placeholders.fill(value, values, partial=True)
    if isinstance(value, t.Mapping):
        found = {k: _without(v, missing, values) for k, v in value.items() if not _lost(v, missing)}
        return {k: v for k, v in found.items() if v != {} or value[k] == {}}
    if isinstance(value, (list, tuple)):
        return [_without(v, missing, values) for v in value if not _lost(v, missing)]
    return value


def _lost(value: t.Any, missing: set[str]) -> bool:
    return isinstance(value, str) and bool(_names(value) & missing)


def as_json(value: t.Any) -> str:
    """Compact, as command lines have it."""
    return json.dumps(value, separators=(",", ":"))


def block(uses: t.Mapping[str, Use]) -> dict[str, t.Any] | None:
    """The plan's `kv_cache`: what there is, for which roles, and why these."""
    if not uses:
        return None
    first = next(iter(uses.values()))
    by_role = {role: {**uses[role].to_plain(), **uses[role].label()} if role in uses else None for role in ROLES}
    return {**first.to_plain(), "roles": list(uses), "why": first.why, "by_role": by_role}
