# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Seats for the members that come: a running one never moves, a replaced one keeps its place, a new one is placed; what does not fit is
told with the arithmetic."""

from __future__ import annotations

import typing as t
from dataclasses import replace

from ..base.finding import Findings
from ..base.words import by_number, counted, names
from ..facts.observed import GPU_TOOLS, Host, LiveMember
from ..spec.spec import MAX_PORT, ROLES
from . import renewal
from .formations import Formation, addresses_kept
from .member import member_id, seat_of
from .placement import Placer, Room, Seat, shared_with
from .situation import Choice, Coming, Request, ServiceRequest, Situation


def seat_members(
    request: Request, situation: Situation, choice: Choice, formation: Formation, findings: Findings
) -> tuple[Choice, dict[str, Seat]]:
    """A seat for every member that comes, by member id; and the choice, in which one whose host has no room for it any more leaves, and
    comes elsewhere."""
    group, template = request.workload, request.template
    rooms = _rooms(request, choice, formation, renewal.beyond_reach(request, situation, formation))
    moot = is_moot(formation)
    holders = _hold_router_port(request, choice, rooms)
    # A router goes when its own turn comes, after engines have come: none of them gets a port of it.
    last = {m.id: _keep(rooms[m.host], m) for m in choice.replace if m.role == "router" and m.host in rooms}
    seats: dict[str, Seat] = {}
    homeless: list[LiveMember] = []
    for member in choice.replace:
        role = template.roles[member.role]
        room = rooms.get(member.host)
        port = group.roles["router"].port if member.role == "router" else None
        seat = None
        if room and member.host in request.patterns[member.role]:
            old = seat_of(member)
            for kept in last.get(member.id, ()):
                del room.taken[kept]
            seat = room.again(member.id, old, role.bands, role.gpus, port) or room.seat(
                member.id, role.bands, role.gpus, port
            )
        if room and not moot and not (seat and seat.port in member.ports):
            # It does not come back where it was, and a router may still name it there.
            _keep(room, member)
        if seat:
            seats[member.id] = seat
            if port is not None:
                _check_router_port(seat, port, holders, findings)
        else:
            homeless.append(member)
    seated = replace(
        choice,
        leave=(*choice.leave, *((m, f"{m.host} {_homeless(request, m)}") for m in homeless)),
        create=(*choice.create, *(Coming(m.role, m.index, f"its host {_homeless(request, m)}") for m in homeless)),
        replace=tuple(m for m in choice.replace if m.id in seats),
    )
    short: dict[str, int] = {}
    for name in ROLES:
        wanted = [one.index for one in seated.create if one.role == name]
        if wanted:
            _seat_role(request, seated, name, wanted, rooms, seats, holders, short, findings)
    return seated, seats


def _homeless(request: Request, member: LiveMember) -> str:
    """Why a member does not come back on its host, in words that follow the host's name."""
    cordon = request.hosts[member.host].cordon
    return f"is {cordon.told()}" if cordon else "has no room for it any more"


def _keep(room: Room, member: LiveMember) -> list[int]:
    """Nobody gets a port that the member had; those of them that were free until now."""
    free = [port for port in member.ports if port not in room.taken]
    room.taken.update(dict.fromkeys(free, f"member {member.id}"))
    return free


def seat_instances(request: ServiceRequest, choice: Choice, findings: Findings) -> dict[str, Seat]:
    """A seat for every instance of a cache service that comes, at the place where it is to be. One that comes again keeps its ports: its
    clients know it by them."""
    service, bands = request.workload, request.template.bands
    coming = [*choice.create, *(Coming(m.role, m.index, "", m.host) for m in choice.replace)]
    seats: dict[str, Seat] = {}
    for one in coming:
        host, name = request.hosts[one.host], member_id(service.name, one.role, one.index)
        gone = {m.id for m in choice.going if m.host == one.host}
        room = Room.of(host, gone, *request.reality.reserved.places(one.host, service.name))
        old = next((m for m in choice.going if m.id == name and m.host == one.host and m.ports), None)
        seat = room.again(name, seat_of(old), bands, 0, service.port) if old else None
        if seat is None:
            if service.port is not None:
                # It goes to nobody else.
                holder = room.taken.setdefault(service.port, "")
                if holder:
                    _say_taken(f"pd_caches.{service.name}.port", service.port, one.host, holder, [], findings)
            seat = Placer({one.host: room}, [one.host]).seat(name, bands, 0, service.port)
        if seat is not None:
            seats[name] = seat
            continue
        findings.error(
            "port-range-too-small",
            f"{one.host}: no {counted(1 + sum(w for _n, w in bands), 'port')} for {name} free in {host.port_low}-{host.port_high}.",
            "Widen pd_port_range of the host.",
            [],
            one.host,
        )
    return seats


def _say_taken(place: str, port: int, host: str, holder: str, roles: list[str], findings: Findings) -> None:
    findings.error(
        "port-taken",
        f"{place}: {port} on {host} is taken by {holder}.",
        "Choose another port, or end what holds it.",
        roles,
        host,
    )


def is_moot(formation: Formation) -> bool:
    """Whether it does not matter which ports the group had: nothing of it runs then that could still name one."""
    return formation.made and not formation.router_lost


def _rooms(
    request: Request, choice: Choice, formation: Formation, met: t.Mapping[str, t.Collection[int]]
) -> dict[str, Room]:
    """What is free, once those that leave have left, on each host that may get one of those that come. Nobody gets the ports of `met`, by
    address."""
    name, hosts = request.name, request.hosts
    kept = addresses_kept(formation.graves, formation.id)
    moot = is_moot(formation)
    # A router's own port is in nobody's list of peers: where none runs, one that comes may have it.
    noted = hosts.sight(name).noted
    routers = {p.id for p in noted.members if p.role == "router"} if noted else set()
    again = {*(m.id for m in choice.replace), *routers, member_id(name, "router", 0)}

    def done(group: str, member: str) -> bool:
        """What its registry alone has of this group leaves it before anything comes."""
        return group == name and (moot or member in again or not member)

    gone: dict[str, set[str]] = {}
    for member in choice.going:
        gone.setdefault(member.host, set()).add(member.id)
    lingering: dict[str, set[str]] = {}
    for member, _why in () if moot else choice.leave:
        if member.role != "router":
            lingering.setdefault(member.host, set()).add(member.id)
    rooms = {}
    for host in _near(request, choice):
        ports, gpus = request.reality.reserved.places(host.name, name)
        for where in sorted(host.names):
            ports = {**hosts.named(where, done), **kept.get(where, {}), **ports}
        before = dict.fromkeys(met.get(host.address or host.name, ()), "a prefill that a lost member has met")
        ports = {**before, **dict(shared_with(host, hosts.by_machine)), **ports}
        mine, left = gone.get(host.name, set()), lingering.get(host.name, set())
        rooms[host.name] = Room.of(host, mine, ports, gpus, lambda hold: moot and hold.group == name, left)
    return rooms


def _near(request: Request, choice: Choice) -> list[Host]:
    """The hosts that answer, and are not cordoned, of those that may get a member: of the patterns of the roles that come, and those that
    one comes back on."""
    roles = {*(one.role for one in choice.create), *(m.role for m in choice.replace)}
    names = {host for role in roles for host in request.patterns[role]} | {m.host for m in choice.replace}
    silent = set(request.reality.silent)
    there = [request.hosts[name] for name in sorted(names) if name in request.hosts and name not in silent]
    return [host for host in there if host.cordon is None]


def _hold_router_port(request: Request, choice: Choice, rooms: t.Mapping[str, Room]) -> dict[str, str]:
    """Keep the router's own port free of engines on the hosts that may get it; who holds it there already, by host."""
    port = request.workload.roles["router"].port
    coming = any(one.role == "router" for one in choice.create) or any(m.role == "router" for m in choice.replace)
    if port is None or not coming:
        return {}
    holders = {}
    for name in request.patterns["router"]:
        if name in rooms:
            holders[name] = rooms[name].taken.setdefault(port, "")
    return holders


def _seat_role(
    request: Request,
    choice: Choice,
    role: str,
    wanted: list[int],
    rooms: dict[str, Room],
    seats: dict[str, Seat],
    holders: t.Mapping[str, str],
    short: dict[str, int],
    findings: Findings,
) -> None:
    template = request.template.roles[role]
    names = request.patterns[role]
    if not names:
        findings.error(
            "no-hosts",
            f"roles.{role}.hosts: the pattern {request.workload.roles[role].hosts!r} matches no host of the inventory.",
            "Name a group or host that exists; see ansible-inventory --graph.",
            [role],
        )
        return
    port = request.workload.roles["router"].port if role == "router" else None
    if port is not None:
        # One of several hosts will do: rather one on which the port is free.
        names = [n for n in names if not holders.get(n)] or names
    placer = Placer({n: rooms[n] for n in names if n in rooms}, list(names))
    for number, index in enumerate(wanted):
        name = member_id(request.name, role, index)
        seat = placer.seat(name, template.bands, template.gpus, port)
        if seat is None:
            serving = number > 0 or any(m.role == role for m in choice.keep)
            _no_room(request, role, number, len(wanted), rooms, short, serving, findings)
            return
        seats[name] = seat
        if port is not None:
            _check_router_port(seat, port, holders, findings)


def _no_room(
    request: Request,
    role: str,
    fit: int,
    wanted: int,
    rooms: dict[str, Room],
    short: dict[str, int],
    serving: bool,
    findings: Findings,
) -> None:
    """Say what does not fit, with the arithmetic of each host. `short` adds up what the roles before lack on each."""
    template = request.template.roles[role]
    demand = template.port_demand()
    here = [rooms[name] for name in request.patterns[role] if name in rooms]
    lines = [_free(name, request.hosts.get(name), rooms.get(name)) for name in request.patterns[role]]
    bands = ", ".join(["1 HTTP", *(f"{width} {name}" for name, width in template.bands)])
    message = (
        f"{role}: {fit} of {wanted} new members fit; each takes {counted(template.gpus, 'GPU')} and"
        f" {counted(demand, 'port')} ({bands}). " + "; ".join(lines[:8]) + ("; ..." if len(lines) > 8 else "")
    )
    if here and all(len(room.free_gpus) >= template.gpus for room in here):
        _too_narrow(role, message, demand * -(-(wanted - fit) // len(here)), here, short, findings)
    elif not any(f.code == "host-unreachable" for f in findings.errors):
        # What is left of a group goes on serving without what a lost host had, or one that is looked after.
        without = {n for n in request.patterns[role] if n in request.hosts and request.hosts[n].cordon}
        goes_on = bool(request.reality.gone or without) and request.action == "deploy" and serving
        say = findings.warning if goes_on else findings.error
        say(
            "does-not-fit",
            message,
            "Add hosts to the pattern, free GPUs (status shows who holds them), or ask for fewer replicas"
            + (
                f": inferops.pd.scale -e pd_group={request.name} -e pd_{role}=N."
                if request.action != "restart"
                else "."
            ),
            [role],
        )


def _free(name: str, host: Host | None, room: Room | None) -> str:
    if host is not None and host.cordon is not None:
        return f"{name}: {host.cordon.told()}"
    if host is None or room is None:
        return f"{name}: no facts"
    gpus = f"{len(room.free_gpus)} of {len(host.gpus)} GPUs free" if host.gpus else _no_gpus(host)
    ports = host.port_high - host.port_low + 1
    return f"{name}: {gpus}, {room.free_ports()} of {ports} ports free in {host.port_low}-{host.port_high}"


def _no_gpus(host: Host) -> str:
    """Why a host has no GPU: a driver that is not installed looks like one that has none."""
    if host.gpu_tools is None:
        return "0 of 0 GPUs free"
    if not host.gpu_tools:
        return f"no GPUs: no driver's tool was found there ({names(GPU_TOOLS)})"
    return f"no GPUs: {names(host.gpu_tools)} {by_number(host.gpu_tools, 'shows', 'show')} none"


def _too_narrow(
    role: str, message: str, lacking: int, here: t.Sequence[Room], short: dict[str, int], findings: Findings
) -> None:
    """There are GPUs and no ports. What is free now is in pieces that are too short: none of it is counted on."""
    for room in here:
        short[room.host.name] = short.get(room.host.name, 0) + lacking
    host = max((room.host for room in here), key=lambda h: h.port_high + short[h.name])
    holders = sorted({who for room in here[:4] for who in room.taken.values() if who and not who.startswith("member")})
    high = host.port_high + short[host.name]
    wider = f"Widen pd_port_range by {counted(short[host.name], 'port')}, to {host.port_low}-{high}."
    findings.error(
        "port-range-too-small",
        message + (f". Taken by {', '.join(holders[:4])}" if holders else ""),
        wider
        if high <= MAX_PORT
        else "No host has that many ports: ask for fewer replicas, or add hosts to the pattern.",
        [role],
    )


def _check_router_port(seat: Seat, port: int, holders: t.Mapping[str, str], findings: Findings) -> None:
    if holders.get(seat.host):
        _say_taken("roles.router.port", port, seat.host, holders[seat.host], ["router"], findings)
