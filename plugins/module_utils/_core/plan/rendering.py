# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every member that the group has after a plan, rendered; and the router's peers among them."""

from __future__ import annotations

import contextlib
import ipaddress
import typing as t
from dataclasses import replace

from ..base import placeholders
from ..base.errors import PdError
from ..base.finding import Findings
from ..base.plain import Plain
from ..facts.label import SCHEMA
from ..facts.observed import Host, LiveMember
from ..facts.record import Record
from ..spec.spec import ENGINE_ROLES, ROLES
from ..template.template import CompiledRole
from ..work.member import Member
from .formations import Formation
from .instances import Instance, instance_for, instances
from .member import Values, build, cache_values, member_id, seat_of, url_of
from .placement import Seat
from .situation import Choice, Request
from .started import as_started
from .value import Peer

# Beyond this many, a list of addresses in every member's environment would grow with the square of the group.
NO_PROXY_ADDRESSES = 64


def render_members(
    request: Request,
    choice: Choice,
    seats: t.Mapping[str, Seat],
    formation: Formation,
    record: Record,
    findings: Findings,
) -> tuple[Member, ...]:
    """Every member that the group has after this plan, rendered; one that runs at the place it holds. `record` is the group's as it is."""
    places = [(m.role, m.index, request.hosts[m.host], seat_of(m)) for m in choice.keep]
    places += [(m.role, m.index, request.hosts[seats[m.id].host], seats[m.id]) for m in choice.replace]
    for one in choice.create:
        new = seats.get(member_id(request.name, one.role, one.index))
        if new:
            places.append((one.role, one.index, request.hosts[new.host], new))
    places.sort(key=lambda p: (ROLES.index(p[0]), p[1]))
    caches = _Caches(request, findings)
    kept = {(m.role, m.index) for m in choice.keep}
    # Those that retire are beside the others until these serve.
    beside = [*(host for _r, _i, host, _s in places), *(request.hosts[m.host] for m in choice.retire)]
    shared: Values = {"group.no_proxy": _no_proxy(beside)}
    shared |= {
        f"peers.{role}": [url_of(h.address or "", s.port) for r, _i, h, s in places if r == role]
        for role in ENGINE_ROLES
    }
    shared["group.addresses"] = sorted({a for _r, _i, h, _s in places for a in (h.address, h.kv_address) if a})
    # What runs on an older configuration is shown, and told to the router, as it is.
    older = {(m.role, m.index): m for m in choice.keep if m.revision != request.template.revision}
    out = []
    for role, index, host, seat in places:
        if (role, index) in older:
            out.append(as_started(older[role, index], host, seat, record, shared))
            continue
        engine = request.template.engines.get(role)
        compiled, values, cache = caches.of(role, host.name, (role, index) in kept)
        values = {**shared, **values}
        try:
            out.append(
                build(request.workload, request.template, compiled, engine, host, seat, index, formation, values, cache)
            )
        except PdError as exc:
            if host.kv_error:
                # Its interface is refused already; that it has no address follows from it.
                continue
            findings.error(
                "unresolved-placeholder",
                f"roles.{role} on {host.name}: {exc}",
                "Give the host what the value comes from, or remove the placeholder.",
                [role],
                host.name,
            )
    stays = {m.id: m for m in choice.keep}
    told = {m.id for m in out if m.role == "router"} - {m.id for m in older.values()}
    tail = _peer_words(request, out) if told else ()
    return tuple(
        _kept(
            m.with_parts(lambda p: replace(p, argv=(*p.argv, *tail))) if m.id in told else m, stays.get(m.id), formation
        )
        for m in out
    )


class _Caches:
    """Each role's template for a host: with its cache, or without where the host has no instance of the service to connect to."""

    def __init__(self, request: Request, findings: Findings) -> None:
        self.roles = request.template.roles
        self.findings = findings
        self.told: set[tuple[str, str]] = set()
        self.compiled = {role: CompiledRole(template) for role, template in self.roles.items()}
        self.bare = {role: CompiledRole(r.without_cache) for role, r in self.roles.items() if r.without_cache}
        self.found: dict[str, list[Instance]] = {
            role: instances(template.service, request.hosts, request.reality.reserved)
            for role, template in self.roles.items()
            if template.service
        }

    def of(self, role: str, host: str, kept: bool) -> tuple[CompiledRole, Plain, Plain | None]:
        """(template, the service's placeholders, what the member's label says of its cache). One that is `kept` runs, and stays with
        an instance that is down by now."""
        template = self.roles[role]
        use, service = template.cache, template.service
        if use is None or service is None:
            return self.compiled[role], {}, use.label() if use else None
        found = self.found[role]
        instance = instance_for(service, found, host)
        there = next((i for i in found if i.host == host), None)
        if instance is None and kept:
            instance = there
        if instance is not None and instance.address:
            return self.compiled[role], cache_values(instance), use.label()
        where = f"has no instance on {host}" if service.scope == "host" else "runs on no host"
        if there and not there.running:
            where = f"is down on {host}"
        why = f"service {use.service_name} {where}"
        if not kept and (role, host) not in self.told:
            self.told.add((role, host))
            self.findings.warning(
                "cache-not-injected",
                f"roles.{role} on {host}: members start without {use.provider.name}: {why}.",
                "Deploy the service there (pd_caches), then restart the group.",
                [role],
                host,
            )
        return self.bare[role], {}, {**use.label(), "injected": False, "why": why}


def _peer_words(request: Request, members: t.Sequence[Member]) -> tuple[str, ...]:
    """The peers at the end of the router's command line, where its policy wants them there: prefills first, each role by address and
    port."""
    membership = request.template.membership
    words: list[str] = []
    for peer in peers_of(members) if membership and membership.peers else ():
        values: Values = {"peer.url": peer.url, "peer.address": peer.address, "peer.port": peer.port}
        for name, band in peer.ports.items():
            values |= {f"peer.ports.{name}": band["base"], f"peer.ports.{name}.count": band["count"]}
        tokens = membership.peers.get(peer.role, ()) if membership else ()
        words += [placeholders.fill(token, values) for token in tokens]
    return tuple(words)


def _kept(member: Member, running: LiveMember | None, formation: Formation) -> Member:
    """A member that stays keeps what it was started as: its revision, its label, and the addresses that it serves at, whatever its host has
    by now. One that an earlier version started is taken over: its label gets the formation."""
    if running is None:
        return member
    taken_over = {"schema": SCHEMA, "formation": formation.id, "adopted": True} if running.formation is None else {}
    label = {**running.label.plain, **taken_over}
    kv_address = member.kv_address if member.role == "router" else running.label.kv_address or member.kv_address
    url = running.label.url or member.url
    return replace(
        member.with_parts(lambda part: replace(part, labels=label)),
        revision=running.revision,
        address=running.label.address or member.address,
        kv_address=kv_address,
        url=url,
        probe=replace(member.probe, url=url),
    )


def peers_of(members: t.Iterable[Member]) -> tuple[Peer, ...]:
    """The router's peers: every engine member, prefills before decodes, each role by address and port."""
    peers = [
        Peer(m.id, m.role, m.url, m.leader.ports, m.address, m.leader.port) for m in members if m.role in ENGINE_ROLES
    ]
    return tuple(sorted(peers, key=lambda p: (ENGINE_ROLES.index(p.role), str(p.address), p.port)))


def _no_proxy(hosts: t.Iterable[Host]) -> str:
    addresses = sorted({a for h in hosts for a in (h.address, h.kv_address) if a})
    if len(addresses) > NO_PROXY_ADDRESSES:
        # A host name among them is not covered by a network, and the list stays as it is.
        with contextlib.suppress(ValueError):
            addresses = _networks(addresses)
    return ",".join(["localhost", "127.0.0.1", *(a for a in addresses if a != "127.0.0.1")])


def _networks(addresses: t.Iterable[str]) -> list[str]:
    """The addresses as networks of at most 256, which HTTP clients read in NO_PROXY as well."""
    four = {ipaddress.IPv4Network(f"{a}/24", strict=False) for a in addresses if ":" not in a}
    six = {ipaddress.IPv6Network(f"{a}/64", strict=False) for a in addresses if ":" in a}
    return [*map(str, ipaddress.collapse_addresses(four)), *map(str, ipaddress.collapse_addresses(six))]
