# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The two kinds of workload as data: what a group has that a cache service has not, and the words for each. Whatever plans, judges or
tells a workload asks its kind; nothing is written twice, once for each."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ..facts.observed import Host
from ..facts.stands import name_of
from .cache_service import ROLE as CACHE_ROLE
from .spec import ENGINE_ROLES, ROLES

KindName = t.Literal["group", "cache"]


@dataclass(frozen=True)
class States:
    """The state of a workload of which no member is ready."""

    # Nothing of it is there.
    nothing: str
    # No host that runs a member answered.
    unseen: str
    # Members live, and none of them answers yet.
    coming: str


@dataclass(frozen=True)
class Kind:
    """`roles` are those of its members in the order in which they are told, `serving` those that are waited for together. `router`: whether
    a router follows them, with an endpoint and a proof; `joined`: whether its members serve together, so that they are of one formation,
    and one that nobody can ask is missed."""

    name: KindName
    roles: tuple[str, ...]
    serving: tuple[str, ...]
    router: bool
    joined: bool
    # The words: what it is, at the head of a sentence and within one; what its members take; variables and playbooks of users.
    noun: str
    short: str
    held: str
    freed: str
    falls_short: str
    variable: str
    entries: str
    form: str
    example: str
    deployed_by: str
    restarted_by: str
    states: States
    # How many are ready: what the members of a role are called.
    called: t.Mapping[str, str]
    # The table of members: the head of each column, and which field of a member stands in it.
    columns: tuple[tuple[str, str], ...]

    @property
    def title(self) -> str:
        return self.noun[0].upper() + self.noun[1:]

    def deploy(self, name: str) -> str:
        """What a person calls to bring it to what its spec says, without ansible-playbook before it."""
        return self.deployed_by.format(name=name)

    def restart(self, name: str) -> str:
        """The same, for what applies a pending spec."""
        return self.restarted_by.format(name=name)


GROUP = Kind(
    name="group",
    roles=ROLES,
    serving=ENGINE_ROLES,
    router=True,
    joined=True,
    noun="group",
    short="group",
    held="GPUs",
    freed="its GPUs are free",
    falls_short="does not serve as it should",
    variable="pd_group",
    entries="pd_groups",
    form="{NAME: {mode: ..., ...}}",
    example="Write one under pd_groups in group_vars/all/pd.yml; examples/inventories has some.",
    deployed_by="inferops.pd.deploy -e pd_group={name}",
    restarted_by="inferops.pd.restart -e pd_group={name}",
    states=States(nothing="pending", unseen="partial", coming="pending"),
    called={},
    columns=(
        ("MEMBER", "id"),
        ("ROLE", "role"),
        ("HOST", "host"),
        ("STATE", "state"),
        ("PID", "pid"),
        ("PORTS", "ports"),
        ("NOTE", "note"),
    ),
)
CACHE = Kind(
    name="cache",
    roles=(CACHE_ROLE,),
    serving=(CACHE_ROLE,),
    router=False,
    joined=False,
    noun="cache service",
    short="service",
    held="memory",
    freed="its memory is free",
    falls_short="does not serve",
    variable="pd_cache",
    entries="pd_caches",
    form="{NAME: {provider: ..., hosts: ...}}",
    example="Write one under pd_caches; docs/cache-services.md tells how.",
    deployed_by="inferops.pd.caches -e pd_cache={name}",
    restarted_by="inferops.pd.caches -e pd_cache={name} -e pd_restart_caches=true",
    # PENDING is the word for a spec that waits for a restart.
    states=States(nothing="absent", unseen="unknown", coming="partial"),
    called={CACHE_ROLE: "instances"},
    columns=(
        ("INSTANCE", "id"),
        ("HOST", "host"),
        ("STATE", "state"),
        ("PID", "pid"),
        ("ADDRESS", "address"),
        ("NOTE", "note"),
    ),
)
KINDS: dict[str, Kind] = {kind.name: kind for kind in (GROUP, CACHE)}


def of_plan(plan: t.Mapping[str, t.Any]) -> Kind:
    """The kind of what a plan, or a record, is of. What does not say it itself is a service's where it tells of one."""
    kind = plan.get("kind")
    # One that a later version wrote is told by what it has.
    return KINDS[kind] if isinstance(kind, str) and kind in KINDS else CACHE if plan.get("cache") else GROUP


def names_on(hosts: t.Mapping[str, Host], kind: Kind) -> set[str]:
    """The workloads of a kind of which the hosts have members or records. A name is of one kind: what has an instance, or a record, of a
    cache service is no group."""
    caches = {m.group for h in hosts.values() for m in h.members if m.role in CACHE.roles}
    caches |= {name for h in hosts.values() for name, noted in h.records.items() if of_plan(noted.plain) is CACHE}
    if kind is CACHE:
        return caches
    every = {m.group for h in hosts.values() for m in h.members} | {g for h in hosts.values() for g in h.records}
    return {name_of(stand) for stand in every - caches}
