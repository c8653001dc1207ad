# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What ports, sockets and folders that a user writes as they are meet on the hosts that members are placed on."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ..base import address
from ..base.arguments import Arguments
from ..base.finding import Findings
from ..base.words import MOST_HOSTS, names
from ..facts.observed import Host
from ..spec.cache_service import ROLE, CacheService
from ..work.member import Member, Part
from .resource_ports import Claim, claims_of, say_twice, shared
from .stands_for import FLAGS, VARIABLES, Others, Placed, Stated


@dataclass(frozen=True)
class Clash:
    """What a claim meets on a host, of a `sort`; `why` is the sentence about it there."""

    sort: t.Literal["together", "theirs", "range", "listener"]
    claim: Claim
    why: str
    host: str
    roles: tuple[str, ...]


def _say(same: t.Sequence[Clash], findings: Findings) -> None:
    """One finding of what is alike on several hosts: that of the first, with the names of the others."""
    first, hosts = same[0], [clash.host for clash in same]
    why = first.why + (f"; likewise on {names(hosts[1:], MOST_HOSTS)}" if len(hosts) > 1 else "")
    roles = sorted({role for clash in same for role in clash.roles})
    host = first.host if len(hosts) == 1 else None
    if first.sort == "listener":
        what = "Choose another port, or end what holds it."
        findings.error("port-taken", f"{first.claim.told}: {why}.", what, roles, host)
    else:
        say_twice(first.claim, why, roles, findings, host)


@dataclass(frozen=True)
class Company:
    """The members of a workload, those of them that `come`, and who is beside them: `others` says of a host who of other workloads this
    run has planned there before."""

    name: str
    runtime: str
    members: t.Sequence[Member]
    come: t.Collection[str]
    others: Others


def check_members(placed: Placed, findings: Findings) -> None:
    """Who of a group would take what another has on its host, or what the plan gives there."""
    company = Company(placed.group.stand, placed.group.runtime, placed.members, placed.come, placed.others)
    claims = {role: list(_claims(placed, role)) for role in placed.template.roles}
    here: dict[str, list[Member]] = {}
    clashes: list[Clash] = []
    for member in placed.members if any(claims.values()) else ():
        for name in member.hosts if member.revision == placed.template.revision else ():
            here.setdefault(name, []).append(member)
    for name, members in here.items():
        host = placed.hosts.get(name)
        if host and any(m.id in placed.come and claims[m.role] for m in members):
            clashes += _clashes(company, host, [(m, claim) for m in members for claim in claims[m.role]])
    _say_all(clashes, findings)


def check_instances(
    service: CacheService,
    members: t.Sequence[Member],
    come: t.Collection[str],
    hosts: t.Mapping[str, Host],
    others: Others,
    findings: Findings,
) -> None:
    """The same of a cache service's instances."""
    company = Company(service.name, service.runtime, members, come, others)
    clashes: list[Clash] = []
    for member in members:
        host = hosts.get(member.leader.host)
        if host and member.id in come:
            clashes += _clashes(company, host, [(member, one) for one in _of_instance(member.leader, service)])
    _say_all(clashes, findings)


def _of_instance(part: Part, service: CacheService | None = None) -> t.Iterator[Claim]:
    """The ports that an instance is told as they are. No table has the flags of its server: those of FLAGS are looked for."""
    place = f"pd_caches.{service.name if service else part.labels.get('group')}"
    own = Arguments(service.command or ()) if service else Arguments(())
    said = {option.name: option.value for option in Arguments(part.argv).options if option.value is not None}
    found = [
        Stated(f"--{name}", "port", text.strip(), f"{place}.{'command' if own.has(name) else 'args'}", ROLE)
        for name, text in said.items()
        if FLAGS.get(name) == "port"
    ]
    found += [
        Stated(name, "port", text.strip(), f"{place}.env.{name}", ROLE)
        for name, text in part.env.items()
        if VARIABLES.get(name) == "port"
    ]
    for one in found:
        port = address.port(one.text)
        if port and port not in part.held_ports:
            yield Claim(one, port)


def _say_all(clashes: t.Iterable[Clash], findings: Findings) -> None:
    alike: dict[tuple[str, str], list[Clash]] = {}
    for clash in clashes:
        alike.setdefault((clash.sort, clash.claim.told), []).append(clash)
    for same in alike.values():
        _say(same, findings)


def _claims(placed: Placed, role: str) -> t.Iterator[Claim]:
    """What every member of a role takes, as it is written. A router inherits the engines' variables, and reads none of them."""
    template = placed.template.roles[role]
    env = template.env if role in placed.engines else {}
    arguments = placed.template.arguments(role, template.argv)
    return claims_of(placed.group.roles[role], arguments, env, template.sizes.data)


def _clashes(company: Company, host: Host, claims: t.Iterable[tuple[Member, Claim]]) -> t.Iterator[Clash]:
    literal: dict[str, list[tuple[Member, Claim]]] = {}
    for member, claim in claims:
        part = member.at(host.name)
        # A port that it is told to serve at, and that the plan gave it.
        if part is None or claim.of.name != "--port" or claim.port != part.port:
            literal.setdefault(claim.what, []).append((member, claim))
    theirs = _theirs(company, host)
    for what, holders in literal.items():
        coming = [(m, c) for m, c in holders if m.id in company.come]
        if not coming:
            continue
        member, claim = coming[0]
        ids = list(dict.fromkeys(m.id for m, _claim in holders))
        roles = tuple({m.role for m, _claim in holders})
        if len(ids) > 1 and shared(company.runtime, claim):
            yield Clash("together", claim, f"{', '.join(ids[:-1])} and {ids[-1]} are on {host.name}", host.name, roles)
        elif what in theirs:
            yield Clash("theirs", claim, f"{theirs[what]} has it on {host.name}", host.name, roles)
        elif host.port_low <= claim.port <= host.port_high:
            why = f"it lies in {host.port_low}-{host.port_high}, from which the plan gives members of {host.name} their ports"
            yield Clash("range", claim, why, host.name, roles)
        else:
            who = _listener(company, claim, host)
            if who:
                yield Clash("listener", claim, f"on {host.name} it is taken by {who}", host.name, (member.role,))


def _theirs(company: Company, host: Host) -> dict[str, str]:
    """Who has which port on a host by a plan: of this group, of others that run, and of those that this run has planned."""
    found = {f"port {port}": m.id for m in host.members if m.group != company.name for port in m.ports}
    others = company.others(host.name)
    for member in others:
        part = member.at(host.name) if member.role == ROLE else None
        found.update((claim.what, member.id) for claim in (_of_instance(part) if part else ()))
    for member in (*others, *company.members):
        part = member.at(host.name)
        found.update((f"port {port}", member.id) for port in (part.held_ports if part else ()))
    return found


def _listener(company: Company, claim: Claim, host: Host) -> str:
    """Who listens there and is not of the group; empty for nobody. The group's own members are who it is, or are stopped before."""
    use = host.used.get(claim.port)
    group = [m.id for m in host.members if m.group == company.name]
    if use is None or use.member in group or (use.member is None and group):
        return ""
    pid = f" (pid {use.pid})" if use.pid else ""
    return f"member {use.member}" if use.member else f"{use.command or 'an unknown process'}{pid}"
