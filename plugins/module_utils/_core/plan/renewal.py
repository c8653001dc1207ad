# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Decode members that are started anew since a prefill comes back at an address where they have met another process.

Some engines keep what they know of a peer by its address, and hang or fail with whoever answers there next (NIXL agents under SGLang, nixl
issue 795): their mode says so (refresh_with_prefill). What they know ends with their own process alone. So each start of a prefill at an
address is counted in the record, a decode's label carries the counts of its own start, and one whose address has seen more than one start
since is renewed: after the prefill is up and before it serves, out of the router, drained, started, in again, one at a time where others
go on serving."""

from __future__ import annotations

import typing as t
from dataclasses import replace

from ..base.finding import Findings
from ..facts.label import Label
from ..facts.observed import LiveMember
from ..facts.record import Record
from ..facts.starts import Starts, plain
from ..work.member import Member
from .formations import Formation
from .member import member_id, seat_of
from .placement import Seats
from .situation import Choice, Request, Situation
from .value import Renewal, RouterStep


def wanted(request: Request) -> bool:
    """Whether the mode's engines have to forget a prefill that comes back."""
    return "decode" in request.template.mode.refresh_with_prefill


def starts(request: Request, situation: Situation, choice: Choice, seats: Seats, formation: Formation) -> Starts:
    """How many prefills have been started at each address in this formation, those that come included. A record of an earlier version does
    not say: of what it names there was one."""
    if formation.made:
        counted: dict[tuple[str, int], int] = {}
    else:
        counted = dict(situation.last.starts)
        places = [*_places(situation.last), *((m.host, m.ports) for m in situation.members if m.role == "prefill")]
        for host, ports in places:
            for port in ports:
                counted.setdefault((host, port), 1)
    for name in _coming(request, choice):
        if name in seats:
            for port in seats[name].held_ports:
                place = seats[name].host, port
                counted[place] = counted.get(place, 0) + 1
    return counted


def _places(last: Record) -> t.Iterator[tuple[str, t.Collection[int]]]:
    yield from ((place.host, place.ports) for place in last.members if place.role == "prefill")


def _coming(request: Request, choice: Choice) -> list[str]:
    back = [m.id for m in choice.replace if m.role == "prefill"]
    return back + [member_id(request.name, c.role, c.index) for c in choice.create if c.role == "prefill"]


def stale(request: Request, choice: Choice, seats: Seats, counted: Starts) -> dict[str, tuple[str, ...]]:
    """Decode members that stay and have met another process where a prefill comes, or has come since: {id: those prefills}."""
    if choice.pending or request.action == "restart":
        return {}
    where: dict[str, tuple[str, t.Collection[int]]] = {
        name: (seats[name].host, seats[name].held_ports) for name in _coming(request, choice) if name in seats
    }
    where |= {m.id: (m.host, m.ports) for m in choice.keep if m.role == "prefill"}
    found = {}
    for member in (m for m in choice.keep if m.role == "decode"):
        names = [n for n, (host, ports) in where.items() if any(_met(member.label, (host, p), counted) for p in ports)]
        if names:
            found[member.id] = tuple(names)
    return found


def _met(label: Label, place: tuple[str, int], counted: Starts) -> bool:
    """Whether there was more than one start at a place, the one that a decode found there when it was started itself included."""
    return counted.get(place, 0) > max(1, label.met.get(place, 0))


def at_once(choice: Choice, seats: Seats) -> tuple[Choice, Seats]:
    """Where no prefill serves that they need not forget, stale members lose nothing by stopping first: they are replaced with what comes,
    and there is no moment in which one of them could meet it."""
    if not choice.refresh or _serving(choice):
        return choice, seats
    again = tuple(m for m in choice.keep if m.id in choice.refresh)
    whys = {m.id: _why(choice.refresh[m.id]) for m in again}
    left = replace(
        choice,
        keep=tuple(m for m in choice.keep if m.id not in choice.refresh),
        replace=(*choice.replace, *again),
        whys={**choice.whys, **whys},
    )
    return left, {**seats, **{m.id: seat_of(m) for m in again}}


def _serving(choice: Choice) -> list[LiveMember]:
    """Prefills that serve, and go on serving while others are renewed."""
    causes = {name for names in choice.refresh.values() for name in names}
    return [m for m in choice.keep if m.role == "prefill" and m.ready and m.id not in causes]


def _why(names: t.Iterable[str]) -> str:
    return f"it would take {', '.join(names)} for the process that was there before"


def rounds(choice: Choice, members: t.Sequence[Member], router: RouterStep, counted: Starts) -> tuple[Renewal, ...]:
    """In which order the others are renewed, one at a time: those that do not serve anyway first."""
    going = sorted((m for m in choice.keep if m.id in choice.refresh), key=lambda m: (m.ready, m.index))
    causes = {name for names in choice.refresh.values() for name in names}
    by_id = {m.id: m for m in members}
    # Whom they would take for another one is not beside them in the router before all are renewed.
    peers = tuple(p for p in router.peers if p.member not in causes)
    return tuple(
        Renewal(
            members=(with_starts(by_id[m.id], counted),),
            because=tuple(sorted(choice.refresh[m.id])),
            leaves=((m.label.url or by_id[m.id].url or ""),) if router.policy == "dynamic" else (),
            peers=peers,
        )
        for m in going
    )


def with_starts(member: Member, counted: Starts) -> Member:
    """A decode member as it is started now: its label says how many starts there were where. One goes without saying."""
    met = plain({place: count for place, count in counted.items() if count > 1})
    return member.with_parts(lambda part: replace(part, labels={**part.labels, "met": met}))


def say(request: Request, choice: Choice, router: RouterStep, findings: Findings) -> None:
    """Tell what it costs."""
    if not choice.refresh:
        return
    causes = sorted({name for names in choice.refresh.values() for name in names})
    one, others = len(choice.refresh) == 1, _serving(choice)
    message = (
        f"{', '.join(choice.refresh)} would take {', '.join(causes)} for the process that was at its address before (mode"
        f" {request.template.mode.name}), and {'is' if one else 'are'} started anew"
        + ("." if not others else " before it serves." if one else " before it serves, one after the other.")
    )
    if not others or len([m for m in choice.keep if m.role == "decode" and m.ready]) < 2:
        message += " Nothing is served meanwhile."
    elif router.policy != "dynamic":
        message += " The router has them on its command line: requests that it sends there meanwhile fail."
    way_out = "Nothing has to be done; choose a time of little load for what brings prefill members back."
    findings.warning("decode-renewed", message, way_out, ["decode"])
