# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every member that the group has after a plan, rendered; and the router's peers among them."""

from __future__ import annotations

import contextlib
import ipaddress
import typing as t

from ..base import placeholders
from ..base.errors import PdError
from ..base.finding import Findings
from ..facts.label import SCHEMA
from ..facts.observed import Host
from ..spec.spec import ENGINE_ROLES, ROLES
from ..template.template import CompiledRole
from .cache_instances import Instance, instance_for, instances
from .formations import Formation
from .member import build, cache_values, member_id, seat_of, url_of
from .placement import Seat
from .situation import Choice, Request
from .started import as_started

# Beyond this many, a list of addresses in every member's environment would grow with the square of the group.
NO_PROXY_ADDRESSES = 64


def render_members(
    request: Request,
    choice: Choice,
    seats: t.Mapping[str, Seat],
    formation: Formation,
    record: t.Mapping[str, t.Any],
    findings: Findings,
) -> list[dict[str, t.Any]]:
    """Every member that the group has after this plan, rendered; one that runs is rendered at the place it holds. `record` is the group's
    as it is now."""
    places = [(m.role, m.index, request.hosts[m.host], seat_of(m.label, m.host)) for m in choice.keep]
    places += [(m.role, m.index, request.hosts[seats[m.id].host], seats[m.id]) for m in choice.replace]
    for role, index, _why in choice.create:
        seat = seats.get(member_id(request.group.name, role, index))
        if seat:
            places.append((role, index, request.hosts[seat.host], seat))
    order = {role: number for number, role in enumerate(ROLES)}
    places.sort(key=lambda p: (order[p[0]], p[1]))
    caches = _Caches(request, findings)
    kept = {(m.role, m.index) for m in choice.keep}
    shared: dict[str, t.Any] = {"group.no_proxy": _no_proxy(host for _r, _i, host, _s in places)}
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
                build(request.group, request.template, compiled, engine, host, seat, index, formation, values, cache)
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
    _add_peers(request, out, {m.id for m in older.values()})
    _keep_label(choice, out, formation)
    return out


class _Caches:
    """Each role's template for a host: with its cache, or without where the host has no instance of the service to connect to."""

    def __init__(self, request: Request, findings: Findings) -> None:
        self.roles = request.template.roles
        self.findings = findings
        self.told: set[tuple[str, str]] = set()
        self.compiled = {role: CompiledRole(template) for role, template in self.roles.items()}
        self.bare = {role: CompiledRole(r.without_cache) for role, r in self.roles.items() if r.without_cache}
        self.found: dict[str, list[Instance]] = {
            role: instances(template.service, request.hosts, request.reserved)
            for role, template in self.roles.items()
            if template.service
        }

    def of(self, role: str, host: str, kept: bool) -> tuple[CompiledRole, dict[str, t.Any], dict[str, t.Any] | None]:
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


def _add_peers(request: Request, members: list[dict[str, t.Any]], older: t.Collection[str]) -> None:
    """The peers on the router's command line, where its policy wants them there: prefills first, each role by address and port."""
    membership = request.template.membership
    if not membership or not membership.peers:
        return
    for router in members:
        if router["role"] != "router" or router["id"] in older:
            continue
        argv = router["parts"][0]["argv"]
        for peer in peers_of(members):
            values = {f"peer.{key}": peer[key] for key in ("url", "address", "port")}
            for name, band in peer["ports"].items():
                values |= {f"peer.ports.{name}": band["base"], f"peer.ports.{name}.count": band["count"]}
            argv += [placeholders.fill(token, values) for token in membership.peers.get(peer["role"], ())]


def _keep_label(choice: Choice, members: list[dict[str, t.Any]], formation: Formation) -> None:
    """A member that stays keeps what it was started as: its revision, its label, and the addresses that it serves at, whatever its host has
    by now. One that an earlier version started is taken over: its label gets the formation."""
    kept = {m.id: m for m in choice.keep}
    for member in members:
        running = kept.get(member["id"])
        if running:
            member["revision"] = running.revision
            taken_over = (
                {"schema": SCHEMA, "formation": formation.id, "adopted": True} if running.formation is None else {}
            )
            member["parts"][0]["labels"] = {**running.label, **taken_over}
            addresses = ("address", "url") if member["role"] == "router" else ("address", "kv_address", "url")
            member |= {key: running.label[key] for key in addresses if running.label.get(key)}
            member["probe"]["url"] = member["url"]


def peers_of(members: t.Iterable[t.Mapping[str, t.Any]]) -> list[dict[str, t.Any]]:
    """The router's peers: every engine member, prefills before decodes, each role by address and port."""
    peers = [
        {
            "member": m["id"],
            "role": m["role"],
            "url": m["url"],
            "ports": m["parts"][0]["ports"],
            "address": m["address"],
            "port": m["parts"][0]["port"],
        }
        for m in members
        if m["role"] in ENGINE_ROLES
    ]
    return sorted(peers, key=lambda p: (ENGINE_ROLES.index(p["role"]), str(p["address"]), p["port"]))


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
