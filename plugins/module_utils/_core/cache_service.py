# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# This module util is PRIVATE to the collection.
"""Shared cache services: the entries of `pd_caches`, and the instances of them that run on hosts.

A service is deployed by the collection (`hosts`) or run by somebody else (`address`)."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field

from .cache_recipe import CacheRecipe, Clients, Scope
from .finding import Findings
from .observed import Host

ROLE = "cache"


@dataclass(frozen=True)
class CacheService:
    """One entry of `pd_caches`, with its kind's defaults filled in."""

    name: str
    provider: str
    hosts: str = ""
    address: str | None = None
    scope: Scope = "group"
    clients: Clients = "reconnect"
    options: t.Mapping[str, t.Any] = field(default_factory=dict)
    # Where it is run by somebody else: the two halves of `address`.
    given_host: str = ""
    given_port: int = 0


@dataclass(frozen=True)
class Instance:
    """One process of a service: `host` is the inventory's name, None where the service is given by address. `ports` are its bands."""

    service: str
    host: str | None
    address: str
    port: int
    ports: t.Mapping[str, t.Mapping[str, int]] = field(default_factory=dict)
    running: bool = True


def parse(
    raw: t.Mapping[str, t.Any], recipes: t.Mapping[str, CacheRecipe], findings: Findings
) -> dict[str, CacheService]:
    """All of the merged pd_caches. What is wrong goes to `findings`; an entry that leaves nothing to go on with is left out."""
    services = {}
    for name, entry in raw.items():
        recipe = recipes.get(str((entry or {}).get("provider") or ""))
        if recipe is None:
            continue
        address = entry.get("address")
        host, _colon, port = str(address or "").rpartition(":")
        services[name] = CacheService(
            name=name,
            provider=recipe.name,
            hosts=entry.get("hosts") or "",
            address=address,
            scope=recipe.scope,
            clients=recipe.clients,
            options=dict(entry.get("options") or {}),
            given_host=host.strip("[]"),
            given_port=int(port) if port.isdigit() else 0,
        )
    return services


def instances(
    service: CacheService, hosts: t.Mapping[str, Host], planned: t.Sequence[t.Mapping[str, t.Any]] = ()
) -> list[Instance]:
    """The instances of a service, in a stable order: as the hosts report them, else as `planned`, plans made earlier in this (check) run,
    would make them. The one of a service given by address always counts as running."""
    if service.address:
        return [Instance(service.name, None, service.given_host, service.given_port)]
    found: dict[str, Instance] = {}
    for plan in planned:
        if plan.get("group") != service.name:
            continue
        for member in plan.get("members") or ():
            for part in member["parts"]:
                found[part["host"]] = Instance(
                    service.name, part["host"], member["address"] or "", part["port"], part["ports"], False
                )
    for name, host in hosts.items():
        for member_ in host.members:
            if member_.group == service.name and member_.role == ROLE:
                address = str(member_.label.get("address") or host.address or "")
                found[name] = Instance(
                    service.name,
                    name,
                    address,
                    int(member_.label["port"]),
                    member_.label.get("ports") or {},
                    member_.alive,
                )
    return [found[name] for name in sorted(found)]


def instance_for(service: CacheService, found: t.Sequence[Instance], host: str) -> Instance | None:
    """The instance that a member on `host` uses: of a service of scope host the one there, else the one that there is. None: it has none."""
    if service.scope == "host" and not service.address:
        return next((i for i in found if i.host == host), None)
    return next(iter(found), None)
