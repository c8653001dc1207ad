# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The instances of a cache service: those that run on hosts, as their facts and plans of this run say, and which of them a member uses."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field

from ..spec.cache_service import ROLE, CacheService
from .hosts import Hosts
from .reserved import NOTHING, Reserved


@dataclass(frozen=True)
class Instance:
    """One process of a service: `host` is the inventory's name, None where the service is given by address. `address` and `port` are what
    its clients use; `ports` are its bands."""

    service: str
    host: str | None
    address: str
    port: int
    ports: t.Mapping[str, t.Mapping[str, int]] = field(default_factory=dict)
    running: bool = True


def instances(service: CacheService, hosts: Hosts, planned: Reserved = NOTHING) -> list[Instance]:
    """The instances of a service, in a stable order: as the hosts report them, and as `planned`, plans made earlier in this run, would make
    them. The one of a service given by address counts as running."""
    if service.address:
        return [Instance(service.name, None, service.given_host, service.given_port)]
    found: dict[str, Instance] = {}
    for member in hosts.sight(service.name).members:
        if member.role == ROLE:
            name, label = member.host, member.label
            address = label.address or hosts[name].address or ""
            found[name] = Instance(service.name, name, address, label.port or 0, label.bands, member.alive)
    for plan in planned.plans(service.name):
        for name, mine in plan.hosts.items():
            if mine.absent and not mine.present:
                found.pop(name, None)
        for part in (one.leader for one in plan.members):
            address = str(part.labels.get("address") or "")
            found[part.host] = Instance(service.name, part.host, address, part.port, part.ports, True)
    return [found[name] for name in sorted(found)]


def instance_for(service: CacheService, found: t.Sequence[Instance], host: str) -> Instance | None:
    """The instance that a member on `host` starts with: of a service of scope host the one there if it runs, else the one that there is,
    one that runs before one that does not. None: it has none, and the member starts without the cache."""
    if service.scope == "host" and not service.address:
        return next((i for i in found if i.host == host and i.running), None)
    return next((i for i in found if i.running), next(iter(found), None))
