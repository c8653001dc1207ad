# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# This module util is PRIVATE to the collection.
"""A plan as steps in order, and as the slice of each host."""

from __future__ import annotations

import typing as t

from .member import member_id
from .observed import Member
from .situation import Choice, Request, Situation

Step = dict[str, t.Any]


def step(phase: str, do: str, why: str, member: str | None = None, host: str | None = None) -> Step:
    return {"phase": phase, "do": do, "member": member, "host": host, "why": why}


def waits(members: t.Iterable[Member]) -> list[Step]:
    """Those of the members that stay which come up by themselves."""
    return [
        step("wait", "wait", f"it does not answer yet: {m.live.get('why') or m.state}", m.id, m.host)
        for m in members
        if not m.ready
    ]


def deregister() -> Step:
    """Clients must not be sent to a router that is about to go: the first thing that a restart or a removal does."""
    return step("router_stop", "deregister", "the endpoint leaves service before anything stops")


def removal_steps(situation: Situation, hosts: t.Collection[str]) -> list[Step]:
    """Out of service, the router, every engine, and then the record on `hosts`."""
    registered = (situation.record.get("endpoint") or {}).get("registered")
    steps = [deregister()] if registered else []
    for member in sorted(situation.members, key=lambda m: (m.role != "router", m.host, m.id)):
        phase = "router_stop" if member.role == "router" else "stop"
        steps.append(step(phase, "remove", "the group is removed", member.id, member.host))
    if hosts:
        steps.append(step("endpoint", "remove", "the record on every host of the group"))
    return steps


def steps_of(
    request: Request,
    situation: Situation,
    choice: Choice,
    router: t.Mapping[str, t.Any],
    members: list[dict[str, t.Any]],
) -> list[Step]:
    """What a run does, in order. Phases are barriers across hosts."""
    steps = _leave(request, situation, choice, router) + _stop(request, choice)
    steps += _start(request, choice, members) + _router(choice, router)
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


def _down(member: Member) -> str:
    return f"it is down: {member.live.get('why') or member.state}"


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
) -> dict[str, dict[str, t.Any]]:
    """Each host's slice: who must be there, who must not, who is to be started, and what the plan took for granted."""
    names = {m["parts"][0]["host"] for m in members} | {m.host for m in (*situation.members, *situation.strays)}
    names |= {name for name, host in request.hosts.items() if request.group.name in host.records}
    create = {m.id for m in choice.replace} | {
        member_id(request.group.name, role, index) for role, index, _why in choice.create
    }
    slices: dict[str, dict[str, t.Any]] = {
        name: {"present": [], "absent": [], "create": [], "observed": request.hosts[name].facts.get("digest")}
        for name in sorted(names)
    }
    for member in members:
        mine = slices[member["parts"][0]["host"]]
        mine["present"].append(member["id"])
        if member["id"] in create or (member["role"] == "router" and router["step"] == "replace"):
            mine["create"].append(member["id"])
    for member_, _why in choice.leave:
        slices[member_.host]["absent"].append(member_.id)
    return slices
