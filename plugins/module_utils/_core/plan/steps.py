# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A plan as steps in order, and as the slice of each host."""

from __future__ import annotations

import typing as t

from ..base.checked import ports_of
from ..facts.observed import Host, Member
from ..facts.tombstone import Tombstone
from .formations import Formation
from .member import member_id
from .situation import Choice, Request, Situation

Step = dict[str, t.Any]


def step(phase: str, do: str, why: str, member: str | None = None, host: str | None = None) -> Step:
    return {"phase": phase, "do": do, "member": member, "host": host, "why": why}


def waits(members: t.Iterable[Member]) -> list[Step]:
    """Those of the members that stay which come up by themselves."""
    return [
        step("wait", "wait", f"it does not answer yet: {m.why or m.state}", m.id, m.host)
        for m in members
        if not m.ready
    ]


def deregister() -> Step:
    """Clients must not be sent to a router that is about to go: the first thing that a restart or a removal does."""
    return step("router_stop", "deregister", "the endpoint leaves service before anything stops")


def removal_steps(situation: Situation, hosts: t.Collection[str]) -> list[Step]:
    """Out of service, the router, every engine, and then the record on `hosts`. A stray goes with the rest."""
    registered = (situation.record.get("endpoint") or {}).get("registered")
    steps = [deregister()] if registered else []
    going = [(m, "the group is removed") for m in situation.members]
    going += [(s.member, f"the group is removed; it is a stray: {s.why}") for s in situation.strays]
    for member, why in sorted(going, key=lambda one: (one[0].role != "router", one[0].host, one[0].id)):
        phase = "router_stop" if member.role == "router" else "stop"
        steps.append(step(phase, "remove", why, member.id, member.host))
    if hosts:
        steps.append(step("endpoint", "remove", "the record on every host of the group"))
    return steps


def steps_of(
    request: Request,
    situation: Situation,
    choice: Choice,
    router: t.Mapping[str, t.Any],
    members: list[dict[str, t.Any]],
    formation: Formation,
) -> list[Step]:
    """What a run does, in order. Phases are barriers across hosts."""
    steps = _leave(request, situation, choice, router) + _stop(request, choice)
    steps += _adopt(situation, choice) + _start(request, choice, members) + _router(choice, router)
    steps += tombstone_steps(situation, formation.graves, formation.raised)
    if (
        router["clean"]
        and not formation.router_lost
        and any(hold.group == request.group.name for host in request.hosts.values() for hold in host.holds)
    ):
        steps.append(step("endpoint", "lift", "the router names nobody that is gone: ports that were held are free"))
    if any(s["do"] != "wait" for s in steps):
        steps.append(step("endpoint", "write", "the record on every host of the group"))
    elif router["member"] is not None and not (situation.record.get("endpoint") or {}).get("registered"):
        steps.append(step("endpoint", "register", "the run before this one did not get as far"))
    return steps


def _leave(request: Request, situation: Situation, choice: Choice, router: t.Mapping[str, t.Any]) -> list[Step]:
    """Out of service first: the endpoint of a group that restarts, members that leave a router that stays."""
    if request.action == "restart":
        registered = (situation.record.get("endpoint") or {}).get("registered")
        stop = [step("router_stop", "remove", why, m.id, m.host) for m, why in choice.leave if m.role == "router"]
        return ([deregister()] if registered else []) + stop
    steps = []
    name, host = _place(router)
    if router["step"] == "register":
        steps += [step("leave", "deregister", f"{url} leaves the router", name, host) for url in router["remove"]]
    if router["early"] is not None:
        steps.append(step("leave", "replace", router["why"], name, host))
    return steps


def _place(router: t.Mapping[str, t.Any]) -> tuple[str | None, str | None]:
    member = router["member"]
    return (member["id"], member["parts"][0]["host"]) if member else (None, None)


def _stop(request: Request, choice: Choice) -> list[Step]:
    return [
        step("stop", "remove", why, m.id, m.host)
        for m, why in choice.leave
        if m.role != "router" or request.action in ("deploy", "scale")
    ]


def _start(request: Request, choice: Choice, members: list[dict[str, t.Any]]) -> list[Step]:
    """Engines that come, and those that come up by themselves."""
    hosts = {m["id"]: m["parts"][0]["host"] for m in members}
    steps = [
        step("start", "replace", choice.refresh.get(m.id) or _down(m), m.id, hosts[m.id])
        for m in choice.replace
        if m.role != "router" and m.id in hosts
    ]
    whys = {member_id(request.group.name, role, index): why for role, index, why in choice.create if role != "router"}
    steps += [step("start", "create", whys[m["id"]], m["id"], hosts[m["id"]]) for m in members if m["id"] in whys]
    return steps + waits(choice.keep)


def _adopt(situation: Situation, choice: Choice) -> list[Step]:
    why = "an earlier version started it: it gets the group's formation, and runs on"
    return [
        step("start", "adopt", why, m.id, m.host) for m in situation.adopt if any(m is kept for kept in choice.keep)
    ]


def tombstone_steps(situation: Situation, graves: t.Iterable[Tombstone], raised: t.Mapping[str, str]) -> list[Step]:
    """What the record gets to know, or forgets, of hosts that are lost."""
    before = {(g.host, g.formation) for g in situation.tombstones}
    new = [g for g in graves if (g.host, g.formation) not in before]
    steps = [step("endpoint", "bury", f"a tombstone: {g.told()}", None, g.host) for g in new]
    return steps + [
        step("endpoint", "clear", f"its tombstone ends: {why}", None, host) for host, why in sorted(raised.items())
    ]


def _down(member: Member) -> str:
    return f"it is down: {member.why or member.state}"


def _router(choice: Choice, router: t.Mapping[str, t.Any]) -> list[Step]:
    name, host = _place(router)
    if name is None:
        return []
    steps = []
    created = any(role == "router" for role, _index, _why in choice.create)
    down = any(m.role == "router" for m in choice.replace)
    if created or down:
        steps.append(
            step("router", "create" if created else "replace", "starts when each role has a ready member", name, host)
        )
    elif router["step"] == "replace" and router["late"]:
        why = "the peers that come, once all are ready" if router["early"] is not None else router["why"]
        when = "; only when all that are wanted are ready" if router["hold"] and router["early"] is None else ""
        steps.append(step("router", "replace", why + when, name, host))
    if router["step"] == "register" and router["add"]:
        steps.append(step("register", "register", router["why"], name, host))
    return steps


def slices_of(
    request: Request,
    situation: Situation,
    choice: Choice,
    members: list[dict[str, t.Any]],
    router: t.Mapping[str, t.Any],
    formation: Formation,
) -> dict[str, dict[str, t.Any]]:
    """Each host's slice: who must be there, who must not, who is to be started, and what the plan took for granted. Every host that the
    plan rests on has one: of the patterns, of the record, of tombstones. One without a part of the group is locked, and nothing else."""
    name = request.group.name
    parts = {m["parts"][0]["host"] for m in members} | {m.host for m in situation.members}
    parts |= {s.member.host for s in situation.strays} | {
        h for h, host in request.hosts.items() if name in host.records
    }
    watched = {host for names in request.patterns.values() for host in names}
    watched |= {p.host for p in situation.noted.members} if situation.noted else set()
    watched |= {grave.host for grave in situation.tombstones}
    watched |= {h for h, host in request.hosts.items() if any(hold.group == name for hold in host.holds)}
    create = {m.id for m in choice.replace} | {member_id(name, role, index) for role, index, _why in choice.create}
    slices = {
        host: slice_of(request.hosts[host], name, host in parts)
        for host in sorted(parts | {h for h in watched if h in request.hosts and h not in request.silent})
    }
    for member in members:
        mine = slices[member["parts"][0]["host"]]
        mine["present"].append(member["id"])
        if member["id"] in create or (member["role"] == "router" and router["step"] == "replace"):
            mine["create"].append(member["id"])
            # Only where places are taken does it matter what other groups do.
            mine["observed"]["host"] = request.hosts[member["parts"][0]["host"]].digest
    for member_, _why in choice.leave:
        leaves(slices[member_.host], member_)
    for member_ in situation.adopt:
        if any(member_ is kept for kept in choice.keep):
            slices[member_.host]["adopt"].append(member_.id)
    if holds_ports(router, situation, formation):
        for mine in slices.values():
            mine["hold"] = True
        left = {id(m) for m, _why in choice.leave}
        stay = {(m.host, m.id): set(m.ports) for m in situation.members if id(m) not in left}
        stay |= {(m["parts"][0]["host"], m["id"]): part_ports(m["parts"][0]) for m in members}
        hold_vacated(slices, situation, stay)
    return slices


def part_ports(part: t.Mapping[str, t.Any]) -> set[int]:
    """Every port that a part of a member holds."""
    return ports_of(part["port"], part["ports"])


def hold_vacated(
    slices: t.Mapping[str, dict[str, t.Any]], situation: Situation, stay: t.Mapping[tuple[str, str], set[int]]
) -> None:
    """What each host is to hold: ports of places that the record named, or a member had, and that are not that member's after this plan.
    `stay` are the ports, by place (host, id), of those that remain or come."""
    unknown = {(m["host"], m["id"]) for m in situation.unknown}
    places: dict[tuple[str, str], tuple[set[int], str | None, str | None]] = {}
    for place in situation.noted.members if situation.noted else ():
        if place.role != "router":
            places[place.host, place.id] = (place.ports, situation.formation, place.url)
    for member in (*situation.members, *(s.member for s in situation.strays)):
        if member.role != "router" and member.ports:
            places[member.host, member.id] = (set(member.ports), member.formation, member.label.get("url"))
    for (host, name), (ports, formation, url) in sorted(places.items()):
        vacated = sorted(ports - stay.get((host, name), set()))
        if host in slices and vacated and (host, name) not in unknown:
            slices[host]["holds"].append({"member": name, "formation": formation, "url": url, "ports": vacated})


def leaves(mine: dict[str, t.Any], member: Member) -> None:
    """Have a member leave its host, whatever runtime started it."""
    mine["absent"].append(member.id)
    runtime = str(member.label.get("runtime") or "")
    if runtime and runtime not in mine["runtimes"]:
        mine["runtimes"].append(runtime)


def slice_of(host: Host, group: str, part: bool) -> dict[str, t.Any]:
    """A host's slice with nothing to do. `part` is whether the host has anything of the group, now or after the run; `hold` whether ports
    that a router may still name stay held, `holds` those that this plan adds; `runtimes` are those that members which go were started
    by."""
    return {
        "part": part,
        "present": [],
        "absent": [],
        "create": [],
        "adopt": [],
        "runtimes": [],
        "hold": False,
        "holds": [],
        "observed": {"group": host.digest_of(group), "host": None},
    }


def holds_ports(router: t.Mapping[str, t.Any], situation: Situation, formation: Formation) -> bool:
    """Whether a router may still name the members that this plan stops: then nobody gets their ports before it was read back without
    them. One that forgets them over its API has done so before they stop."""
    if formation.router_lost or situation.unknown:
        # Also where others cannot be asked: the router goes on naming them, under whatever name their host has by now.
        return True
    if formation.made:
        return False
    if router["policy"] == "dynamic":
        return not router["read"]
    return router["early"] is None
