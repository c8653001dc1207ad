# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan of one cache service: a value of the shape of a group's plan, so that the same modules carry it out.

An instance that runs is never restarted by a deploy: a changed spec is pending until somebody asks for it. One that is down is started
on the current spec, since nothing that it held is left."""

from __future__ import annotations

import typing as t

from ..base.errors import PdError
from ..base.finding import Findings
from ..facts.observed import Member
from ..runtimes.table import traits_of
from ..spec.cache_service import ROLE
from . import diff
from .cache_member import build
from .cache_value import Action, Choice, Request, assemble, removal
from .member import member_id, seat_of
from .placement import Placer, Room, Seat, reserved_on
from .preconditions import check_ephemeral, check_runtime_of
from .situation import Situation


def make(request: Request, findings: Findings) -> dict[str, t.Any]:
    """The plan. What stands in its way is in `findings`; a plan with errors is for reading only."""
    situation = Situation.of(request.service.name, request.hosts, request.silent, request.lost, formations=False)
    if not request.pattern:
        findings.error(
            "no-hosts",
            f"pd_caches.{request.service.name}.hosts: the pattern {request.service.hosts!r} matches no host of the inventory.",
            "Name a group or host that exists; see ansible-inventory --graph.",
        )
    choice = _decide(request, situation, findings)
    runtime = _runtime(request, situation, choice, findings)
    seats = _seats(request, choice, findings)
    generation = situation.generation + (1 if request.action == "restart" or not situation.generation else 0)
    members = _members(request, choice, seats, generation, findings)
    _check_hosts(request, {seat.host for seat in seats.values()}, findings)
    plan = assemble(request, situation, choice, members, generation, runtime)
    _say_pending(request, choice, situation, findings)
    plan["clients_restart"] = _say_clients(request, choice, members, findings)
    return plan


# -- who stays, leaves and comes -------------------------------------------------------------------------------------------------------


def _decide(request: Request, situation: Situation, findings: Findings) -> Choice:
    choice = Choice()
    choice.leave += [(stray.member, stray.why) for stray in situation.strays]
    if request.service.scope == "host":
        _decide_each(request, situation, choice, findings)
    else:
        _decide_one(request, situation, choice, findings)
    return choice


def _judge(request: Request, member: Member, choice: Choice) -> None:
    """An instance that is at its place: kept, restarted because that was asked for, or replaced because it is down."""
    changed = member.revision != request.template.revision
    if request.action == "restart":
        choice.leave.append((member, "the service restarts"))
        choice.create.append((member.host, member.index, "the service restarts"))
    elif not member.alive:
        choice.replace.append((member, f"it is down: {member.live.get('why') or member.state}"))
    elif changed and not member.ready and (member.state == "restarting" or member.live.get("restarts")):
        # It ends again and again, and somebody has mended its spec: there is nothing to keep.
        choice.replace.append(
            (member, f"it does not come up, and its spec has changed: {member.live.get('why') or ''}")
        )
    else:
        choice.keep.append(member)
        if changed:
            choice.pending.append(f"{member.id} runs another spec")


def _decide_each(request: Request, situation: Situation, choice: Choice, findings: Findings) -> None:
    """Scope host: one instance on every host of the pattern that answers."""
    wanted = [name for name in request.pattern if name in request.hosts and name not in request.silent]
    placed = set()
    for member in sorted(situation.members, key=lambda m: m.index):
        if member.host not in wanted or member.host in placed:
            choice.leave.append((member, f"{member.host} is not one of the service's hosts any more"))
            continue
        placed.add(member.host)
        _judge(request, member, choice)
    used = {m.index for m in situation.members} | {int(m["index"]) for m in situation.unknown}
    free = (n for n in range(len(used) + len(wanted) + 1) if n not in used)
    for name in wanted:
        if name not in placed:
            choice.create.append((name, next(free), "the host has no instance of the service"))
    for name in request.pattern:
        if name not in wanted and name not in request.lost:
            findings.warning(
                "host-unreachable",
                f"{name} does not answer: whether its instance of {request.service.name} runs is unknown.",
                "Bring it back and run again. The other hosts have instances of their own.",
                [],
                name,
            )


def _decide_one(request: Request, situation: Situation, choice: Choice, findings: Findings) -> None:
    """Scope group: exactly one, since a second one would split the store. The one that runs keeps its place, also out of the pattern."""
    if situation.unknown and not any(m.alive for m in situation.members):
        name = str(situation.unknown[0]["host"])
        findings.error(
            "host-unreachable",
            f"{name} does not answer, and the one instance of {request.service.name} was started there: it may run.",
            f"Bring it back, or state that it is fenced: -e pd_lost_hosts={name}",
            [],
            name,
        )
        return
    order = {name: number for number, name in enumerate(request.pattern)}
    members = sorted(situation.members, key=lambda m: (not m.alive, order.get(m.host, len(order)), m.index))
    for member in members[1:]:
        choice.leave.append((member, "the service has exactly one instance"))
    first = members[0] if members else None
    if first is not None and first.host not in order and request.pattern:
        if first.alive and request.action != "restart":
            choice.keep.append(first)
            choice.pending.append(f"it runs on {first.host}, which is not one of the service's hosts any more")
            return
        choice.leave.append((first, f"{first.host} is not one of the service's hosts any more"))
        first = None
    if first is not None:
        _judge(request, first, choice)
        return
    place = next((name for name in request.pattern if name in request.hosts and name not in request.silent), None)
    if place is not None:
        choice.create.append((place, 0, "the service has no instance"))
    elif request.pattern:
        findings.error(
            "host-unreachable",
            f"none of the hosts of {request.service.name} answers: {', '.join(request.pattern)}.",
            "Make one answer: ansible -m ping HOST",
        )


def _runtime(request: Request, situation: Situation, choice: Choice, findings: Findings) -> str:
    """The runtime that the plan is carried out with: one run cannot take an instance from one runtime to another."""
    wanted = request.service.runtime
    others = {str(m.label.get("runtime")) for m in (*situation.members, *(s.member for s in situation.strays))} - {
        wanted,
        "None",
    }
    if not others:
        return wanted
    other = sorted(others)[0]
    if len(choice.keep) < len(situation.members) or choice.create:
        name = request.service.name
        findings.error(
            "cache-runtime",
            f"pd_caches.{name}.runtime: {wanted}, but instances of it were started with {other}.",
            f"Remove it first: ansible-playbook inferops.pd.caches_remove -e pd_cache={name}. Then deploy it.",
        )
    return other


# -- where ---------------------------------------------------------------------------------------------------------------------------


def _seats(request: Request, choice: Choice, findings: Findings) -> dict[str, Seat]:
    """A seat for every instance that comes, by member id. One that comes again keeps its ports: its clients know it by them."""
    service = request.service
    going = [*(m for m, _why in choice.leave), *(m for m, _why in choice.replace)]
    coming = [*choice.create, *((m.host, m.index, why) for m, why in choice.replace)]
    seats: dict[str, Seat] = {}
    for name, index, _why in coming:
        host = request.hosts[name]
        member = member_id(service.name, ROLE, index)
        gone = {m.id for m in going if m.host == name}
        room = Room.of(host, gone, *reserved_on(request.reserved, service.name, name))
        old = next((m for m in going if m.id == member and m.host == name), None)
        seat = room.again(member, seat_of(old.label, name), request.template.bands, 0, service.port) if old else None
        if seat is None:
            if service.port is not None and service.port in room.taken:
                findings.error(
                    "port-taken",
                    f"pd_caches.{service.name}.port: {service.port} on {name} is taken by {room.taken[service.port]}.",
                    "Choose another port, or end what holds it.",
                    [],
                    name,
                )
            if service.port is not None:
                room.taken.setdefault(service.port, "")
            seat = Placer({name: room}, [name]).seat(member, request.template.bands, 0, service.port)
        if seat is None:
            findings.error(
                "port-range-too-small",
                f"{name}: no {1 + sum(w for _n, w in request.template.bands)} ports for {member} are free in"
                f" {host.port_low}-{host.port_high}.",
                "Widen pd_port_range of the host.",
                [],
                name,
            )
            continue
        seats[member] = seat
    return seats


def _members(
    request: Request, choice: Choice, seats: t.Mapping[str, Seat], generation: int, findings: Findings
) -> list[dict[str, t.Any]]:
    """Every instance that there is afterwards, those that run as their labels say."""
    found = []
    places = [(m.host, seat_of(m.label, m.host), m.index, m.generation) for m in choice.keep if _same(request, m)]
    places += [(seat.host, seat, int(name.rpartition("-")[2]), generation) for name, seat in seats.items()]
    for host, seat, index, number in places:
        try:
            found.append(build(request.template, request.hosts[host], seat, index, number))
        except PdError as exc:
            findings.error("unresolved-placeholder", f"{host}: {exc}", "", [], host)
    found += [_as_it_runs(request, m) for m in choice.keep if not _same(request, m)]
    return sorted(found, key=lambda m: int(m["index"]))


def _same(request: Request, member: Member) -> bool:
    return member.revision == request.template.revision


def _as_it_runs(request: Request, member: Member) -> dict[str, t.Any]:
    """An instance of an earlier spec, as its label tells of it: its command line is on its host alone."""
    label, seat = member.label, seat_of(member.label, member.host)
    part: dict[str, t.Any] = {
        "host": member.host,
        "rank": 0,
        "gpus": [],
        "port": seat.port,
        "ports": seat.ports,
        "image": None,
        "executable": None,
        "argv": [],
        "env": {},
        "secrets": [],
        "files": [],
        "mounts": [],
        "devices": [],
        "limits": {},
        "labels": dict(label),
    }
    probe = {"url": label.get("url"), "health": label.get("health"), "listening": [{"name": "port", "port": seat.port}]}
    return {
        "id": member.id,
        "role": ROLE,
        "index": member.index,
        "revision": member.revision,
        "address": label.get("address"),
        "kv_address": None,
        "url": label.get("url"),
        "parts": [part],
        "probe": {**probe, "backend": None, "limit": request.service.limits["start"]},
        "stop": dict(label.get("stop") or {}),
        "restart": {"attempts": label.get("restart") or 0, "window": 300},
        "identity": {},
    }


def _check_hosts(request: Request, names: t.Collection[str], findings: Findings) -> None:
    """What each host that gets an instance must have, before anything starts."""
    service = request.service
    for name in sorted(names):
        host = request.hosts[name]
        check_runtime_of(service.runtime, host, findings)
        check_ephemeral(host, findings)
        executable = service.executable if service.command is None else None
        if (
            traits_of(service.runtime).program == "host"
            and executable
            and not host.executable(executable).get("exists")
        ):
            findings.error(
                "executable-missing",
                f"pd_caches.{service.name}.executable: {executable} is not there, or not executable, on {name}.",
                "Install it (role cache, entry point install), or set executable to its path.",
                [],
                name,
            )
        facts = host.image(service.image) if service.image else {}
        if facts and facts.get("exists") is False and (service.pull == "never" or not facts.get("pullable")):
            findings.error(
                "image-missing",
                f"{name}: image {service.image} is not there"
                + (
                    ", and pull is never." if service.pull == "never" else f" and cannot be pulled: {facts.get('why')}."
                ),
                "Load it on the host, or name one that its registry has.",
                [],
                name,
            )


# -- what is said ----------------------------------------------------------------------------------------------------------------------


def _say_pending(request: Request, choice: Choice, situation: Situation, findings: Findings) -> None:
    if not choice.pending:
        return
    name = request.service.name
    lines = [
        line.strip() for line in diff.of_templates(situation.record.get("templates") or {}, request.template.masked())
    ]
    told = "; ".join(lines[:6] or choice.pending[:6])
    after = ""
    if request.users and request.service.clients == "restart":
        after = f" Its clients must restart after it: {', '.join(request.users)}."
    findings.warning(
        "cache-pending",
        f"the spec of cache service {name} differs from what runs, and nothing is restarted: {told}.",
        f"Apply it: ansible-playbook inferops.pd.caches -e pd_cache={name} -e pd_restart_caches=true.{after}",
    )


def _say_clients(request: Request, choice: Choice, members: list[dict[str, t.Any]], findings: Findings) -> bool:
    """What a start of an instance that clients knew already means for them; whether they must restart."""
    coming = {member_id(request.service.name, ROLE, index) for _h, index, _w in choice.create}
    again = [*(m for m, _w in choice.leave if m.id in coming), *(m for m, _w in choice.replace)]
    alive = {m.group for host in request.hosts.values() for m in host.members if m.alive}
    users = [name for name in request.users if name in alive]
    if not again or not users:
        return False
    places = {m["id"]: (m["address"], m["parts"][0]["port"]) for m in members}
    moved = [
        m.id
        for m in again
        if m.id in places and places[m.id] != (str(m.label.get("address") or ""), int(m.label.get("port") or 0))
    ]
    if request.service.clients == "reconnect" and not moved:
        return False
    names = ", ".join(users)
    why = (
        f"{', '.join(moved)} has another address or port" if moved else f"{', '.join(m.id for m in again)} starts anew"
    )
    findings.warning(
        "cache-clients-restart",
        f"cache service {request.service.name}: {why}, and its clients must restart after it: {names}."
        f" {request.recipe.clients_note}".strip(),
        "After this run: " + "; ".join(f"ansible-playbook inferops.pd.restart -e pd_group={g}" for g in users),
    )
    return True


__all__ = ["Action", "Choice", "Request", "make", "removal"]
