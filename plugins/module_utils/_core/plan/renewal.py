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

from ..base.address import of_url
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
    not say: of what it names there was one. While the spec names another mode, which waits for a restart, what was counted is kept."""
    counted = {} if formation.made else dict(situation.last.starts)
    if not wanted(request):
        return counted
    if not formation.made:
        for place in _known(situation):
            counted.setdefault(place, 1)
    for name in _coming(request, choice):
        for place in _seat(request, seats, name):
            counted[place] = counted.get(place, 0) + 1
    return counted


def beyond_reach(request: Request, situation: Situation, formation: Formation) -> dict[str, set[int]]:
    """Ports by address that no member gets: a prefill has been there in this formation, and what has met it may live on a lost host, where
    nobody starts it anew. A router names both: one that may live there too, or our own until it is told."""
    found: dict[str, set[int]] = {}
    if wanted(request) and (formation.router_lost or formation.members_lost):
        for address, port in {*situation.last.starts, *_known(situation)}:
            found.setdefault(address, set()).add(port)
    return found


def _known(situation: Situation) -> t.Iterator[tuple[str, int]]:
    """Where the record and the labels say that prefills are."""
    for places in (*_places(situation.last), *(_of(m) for m in situation.members if m.role == "prefill")):
        yield from places


# Where a member is, as its peers know it: by address and port, whatever the inventory calls its host.
_Places = list[tuple[str, int]]


def _places(last: Record) -> t.Iterator[_Places]:
    for place in last.members:
        if place.role == "prefill":
            yield [(place.address or place.host, port) for port in place.ports]


def _of(member: LiveMember) -> _Places:
    place = of_url(member.label.url)
    return [(place[0] if place else member.host, port) for port in member.ports]


def _seat(request: Request, seats: Seats, name: str) -> _Places:
    if name not in seats:
        return []
    host = request.hosts[seats[name].host]
    return [(host.address or host.name, port) for port in seats[name].held_ports]


def _coming(request: Request, choice: Choice) -> list[str]:
    back = [m.id for m in choice.replace if m.role == "prefill"]
    return back + [member_id(request.name, c.role, c.index) for c in choice.create if c.role == "prefill"]


def stale(
    request: Request, situation: Situation, choice: Choice, seats: Seats, counted: Starts
) -> tuple[dict[str, tuple[str, ...]], tuple[str, ...]]:
    """(Decode members that stay and have met another process where a prefill comes, or has come since: {id: those prefills}; prefills that
    do not enter a router yet, since a decode that may take them for another one cannot be renewed now)."""
    if request.action == "restart":
        return {}, ()
    where = {m.id: _of(m) for m in choice.keep if m.role == "prefill"}
    # What it has met is in its label, which nobody can read.
    again = {name for name, places in where.items() if any(counted.get(place, 0) > 1 for place in places)}
    waits = again if any(place.role == "decode" for place in situation.unknown) else set()
    where |= {name: _seat(request, seats, name) for name in _coming(request, choice) if name in seats}
    # Elsewhere nobody can have met another process.
    where = {name: [place for place in places if counted.get(place, 0) > 1] for name, places in where.items()}
    where = {name: places for name, places in where.items() if places}
    found = {}
    for member in (m for m in choice.serving if m.role == "decode"):
        names = [n for n, places in where.items() if any(_met(member.label, place, counted) for place in places)]
        if names:
            found[member.id] = tuple(names)
    if choice.pending or any(place.role == "router" for place in situation.unknown):
        # Nothing starts; or it could not leave the router.
        return {}, tuple(sorted(waits.union(*found.values())))
    return found, tuple(sorted(waits))


def _met(label: Label, place: tuple[str, int], counted: Starts) -> bool:
    """Whether there was more than one start at a place, the one that a decode found there when it was started itself included."""
    return counted.get(place, 0) > max(1, label.met.get(place, 0))


def at_once(request: Request, choice: Choice, seats: Seats) -> tuple[Choice, Seats]:
    """Where nothing would be served meanwhile, stale members lose nothing by stopping first; and where a router cannot be kept from what
    comes, they must. They are replaced with what comes, and there is no moment in which one of them could meet it."""
    if not choice.refresh or _goes_on(request, choice):
        return replace(choice, first=_first(request, choice)), seats
    again = tuple(m for m in choice.keep if m.id in choice.refresh)
    whys = {m.id: _why(choice.refresh[m.id]) for m in again}
    left = replace(
        choice,
        keep=tuple(m for m in choice.keep if m.id not in choice.refresh),
        replace=(*choice.replace, *again),
        whys={**choice.whys, **whys},
    )
    return replace(left, first=_first(request, left)), {**seats, **{m.id: seat_of(m) for m in again}}


def _first(request: Request, choice: Choice) -> frozenset[str]:
    """Of those that are replaced, who stops before anything starts: who runs and is renewed at once; and, where a decode starts beside
    them, prefills that are down. One that somebody starts by hand in the moment before its turn would be met by that decode, and then
    replaced at its address."""
    first = {m.id for m in choice.replace if m.id in choice.refresh}
    comes = (*(m.role for m in choice.replace), *(one.role for one in choice.create))
    if wanted(request) and "decode" in comes:
        first |= {m.id for m in choice.replace if m.role == "prefill"}
    return frozenset(first)


def _goes_on(request: Request, choice: Choice) -> bool:
    """Whether requests are served while members are renewed one at a time, by a router that names no prefill for which they are: one
    that is told so over its API, or was started with those that served."""
    causes = {name for names in choice.refresh.values() for name in names}
    serving = {m.role for m in choice.keep if m.ready and m.id not in causes}
    router = next((m for m in choice.keep if m.role == "router"), None)
    if router is None or not {"prefill", "decode"} <= serving:
        return False
    policy = request.template.policy
    return policy == "dynamic" or (policy == "restart" and router.label.peers is not None)


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
            leaves=tuple(filter(None, [m.label.url or by_id[m.id].url])) if router.policy == "dynamic" else (),
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
    one, others = len(choice.refresh) == 1, _goes_on(request, choice)
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


def say_waits(choice: Choice, findings: Findings) -> None:
    """Tell which prefills serve nobody yet, and why."""
    if not choice.waits:
        return
    why = "the group is pending" if choice.pending else "a part of the group is out of reach"
    many = len(choice.waits) > 1
    findings.warning(
        "decode-renewed",
        f"{', '.join(choice.waits)} {'do' if many else 'does'} not enter the router: decode members may take {'them' if many else 'it'} for"
        f" the process that was at {'their addresses' if many else 'its address'} before, and cannot all be started anew while {why}.",
        "Restart the group, or undo the edit." if choice.pending else "Bring the hosts back, and deploy again.",
        ["prefill"],
    )
