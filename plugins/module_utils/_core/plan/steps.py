# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A plan as steps in order, and as the slice of each host."""

from __future__ import annotations

import typing as t

from ..base.words import names
from ..facts.observed import LiveMember
from ..facts.tombstone import Tombstone
from ..work.member import Member
from . import hooks
from .member import member_id
from .situation import AnyRequest, Choice, Situation, Template, Workload
from .value import Renewal, Retirement, RouterStep, Step
from .way import Draft


def step(phase: str, do: str, why: str, member: str | None = None, host: str | None = None) -> Step:
    return Step(phase, do, member, host, why)


def _waits(members: t.Iterable[LiveMember]) -> list[Step]:
    """Those of the members that stay which come up by themselves."""
    return [
        step("wait", "wait", f"it does not answer yet: {m.why or m.state}", m.id, m.host)
        for m in members
        if not m.ready
    ]


def _deregister() -> Step:
    """Clients must not be sent to a router that is about to go: the first thing that a restart or a removal does."""
    return step("router_stop", "deregister", "the endpoint leaves service before anything stops")


def removal_steps(situation: Situation, hosts: t.Collection[str], word: str) -> list[Step]:
    """Out of service, the router, every other member, and then the record on `hosts`. A stray goes with the rest."""
    steps = [_deregister()] if situation.last.endpoint.registered else []
    going = [(m, f"the {word} is removed") for m in situation.members]
    going += [(s.member, f"the {word} is removed; it is a stray: {s.why}") for s in situation.strays]
    for member, why in sorted(going, key=lambda one: (one[0].role != "router", one[0].host, one[0].id)):
        phase = "router_stop" if member.role == "router" else "stop"
        steps.append(step(phase, "remove", why, member.id, member.host))
    if hosts:
        steps.append(step("endpoint", "remove", f"the record on every host of the {word}"))
    return steps


def steps_of(draft: Draft[Workload, Template], word: str) -> list[Step]:
    """What a run does, in order. Phases are barriers across hosts. `word` is what the workload is called."""
    request, situation, choice = t.cast("AnyRequest", draft.asked), draft.situation, draft.choice
    router, formation = draft.router, draft.formation
    steps = hooks.first_steps(draft.hooks) + _leave(request, situation, choice, router) + _stop(request, choice)
    steps += _adopt(situation, choice) + _start(request, choice, draft.members)
    steps += _renew(draft.renew) + _router(choice, router)
    steps += tombstone_steps(situation, formation.graves, formation.raised) + hooks.last_steps(draft.hooks)
    steps += _retire(draft.retire, choice, router)
    if router.clean and not formation.router_lost and request.hosts.sight(request.name).holding:
        steps.append(step("endpoint", "lift", "the router names nobody that is gone: ports that were held are free"))
    if any(s.do != "wait" for s in steps):
        steps.append(step("endpoint", "write", f"the record on every host of the {word}"))
    elif router.member is not None and not situation.last.endpoint.registered:
        steps.append(step("endpoint", "register", "the run before this one did not get as far"))
    elif situation.behind:
        told = f"the record on {names(situation.behind)}: the run before this one did not reach it"
        steps.append(step("endpoint", "write", told))
    return steps


def _leave(request: AnyRequest, situation: Situation, choice: Choice, router: RouterStep) -> list[Step]:
    """Out of service first: the endpoint of a group that restarts, members that leave a router that stays."""
    if request.action == "restart":
        stop = [step("router_stop", "remove", why, m.id, m.host) for m, why in choice.leave if m.role == "router"]
        return ([_deregister()] if situation.last.endpoint.registered else []) + stop
    steps = []
    name, host = _place(router)
    if router.step == "register":
        steps += [step("leave", "deregister", f"{url} leaves the router", name, host) for url in router.remove]
    if router.early is not None:
        steps.append(step("leave", "replace", router.why, name, host))
    return steps


def _place(router: RouterStep) -> tuple[str | None, str | None]:
    return (router.member.id, router.member.leader.host) if router.member else (None, None)


def _stop(request: AnyRequest, choice: Choice) -> list[Step]:
    going = [*choice.leave, *((m, choice.whys.get(m.id) or _down(m)) for m in choice.replace if m.id in choice.first)]
    return [
        step("stop", "remove", why, m.id, m.host)
        for m, why in going
        if m.role != "router" or request.action != "restart"
    ]


def _start(request: AnyRequest, choice: Choice, members: t.Sequence[Member]) -> list[Step]:
    """Members that come, and those that come up by themselves."""
    hosts = {m.id: m.leader.host for m in members}
    steps = [
        step("start", "replace", choice.whys.get(m.id) or _down(m), m.id, hosts[m.id])
        for m in choice.replace
        if m.role != "router" and m.id in hosts
    ]
    whys = {member_id(request.name, one.role, one.index): one.why for one in choice.create if one.role != "router"}
    steps += [step("start", "create", whys[m.id], m.id, hosts[m.id]) for m in members if m.id in whys]
    return steps + _waits(choice.keep)


def _renew(rounds: t.Iterable[Renewal]) -> list[Step]:
    """Members that serve, started anew in rounds: after those that come are up, and before these serve."""
    found = []
    for number, one in enumerate(rounds, 1):
        why = f"round {number}: it would take {', '.join(one.because)} for the process that was there before"
        found += [step("renew", "replace", why, m.id, m.leader.host) for m in one.members]
    return found


def _retire(rounds: t.Iterable[Retirement], choice: Choice, router: RouterStep) -> list[Step]:
    """Members whose place others have taken: after these serve."""
    name, host = _place(router)
    by_place = {(m.host, m.id): m for m in choice.retire}
    found = []
    for one in rounds:
        found += [step("retire", "deregister", f"{url} leaves the router", name, host) for url in one.leaves]
        for place, ids in one.members.items():
            why = f"{place} is evacuated; once those that come in its place serve"
            found += [step("retire", "remove", why, by_place[place, i].id, place) for i in ids]
    return found


def _adopt(situation: Situation, choice: Choice) -> list[Step]:
    why = "an earlier version started it: it gets the group's formation, and runs on"
    return [
        step("start", "adopt", why, m.id, m.host) for m in situation.adopt if any(m is one for one in choice.serving)
    ]


def tombstone_steps(situation: Situation, graves: t.Iterable[Tombstone], raised: t.Mapping[str, str]) -> list[Step]:
    """What the record gets to know, or forgets, of hosts that are lost."""
    before = {(g.host, g.formation) for g in situation.tombstones}
    new = [g for g in graves if (g.host, g.formation) not in before]
    steps = [step("endpoint", "bury", f"a tombstone: {g.told()}", None, g.host) for g in new]
    return steps + [
        step("endpoint", "clear", f"its tombstone ends: {why}", None, host) for host, why in sorted(raised.items())
    ]


def _down(member: LiveMember) -> str:
    return f"it is down: {member.why or member.state}"


def _router(choice: Choice, router: RouterStep) -> list[Step]:
    name, host = _place(router)
    if name is None:
        return []
    steps = []
    created = any(one.role == "router" for one in choice.create)
    down = any(m.role == "router" for m in choice.replace)
    if created or down:
        steps.append(
            step("router", "create" if created else "replace", "starts when each role has a ready member", name, host)
        )
    elif router.step == "replace" and router.late:
        why = "the peers that come, once all are ready" if router.early is not None else router.why
        when = "; only when all that are wanted are ready" if router.hold and router.early is None else ""
        steps.append(step("router", "replace", why + when, name, host))
    if router.step == "register" and router.add:
        steps.append(step("register", "register", router.why, name, host))
    return steps
