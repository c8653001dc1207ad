# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Slices: what each host of a plan is told to have, not to have and to start, and what the plan took for granted there."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field

from ..facts.observed import Host, LiveMember
from ..work.member import Member
from ..work.share import Seen, Slice, Vacated
from .formations import Formation
from .member import member_id
from .situation import AnyRequest, Choice, Reality, Situation
from .value import RouterStep


@dataclass
class _Draft:
    """A slice while it is made: the fields are those of a Slice."""

    through: str
    part: bool
    seen: Seen
    present: list[str] = field(default_factory=list)
    absent: list[str] = field(default_factory=list)
    create: list[str] = field(default_factory=list)
    adopt: list[str] = field(default_factory=list)
    runtimes: list[str] = field(default_factory=list)
    hold: bool = False
    holds: list[Vacated] = field(default_factory=list)
    forgets: bool = False

    def leaves(self, member: LiveMember) -> None:
        """Have a member leave its host, whatever runtime started it."""
        self.absent.append(member.id)
        self.runs_under(member)

    def runs_under(self, member: LiveMember) -> None:
        """Have the runtime of a member looked at, which leaves now or later."""
        runtime = member.label.runtime or ""
        if runtime and runtime not in self.runtimes:
            self.runtimes.append(runtime)

    def made(self) -> Slice:
        return Slice(
            through=self.through,
            part=self.part,
            present=tuple(self.present),
            absent=tuple(self.absent),
            create=tuple(self.create),
            adopt=tuple(self.adopt),
            runtimes=tuple(self.runtimes),
            hold=self.hold,
            holds=tuple(self.holds),
            forgets=self.forgets,
            observed=self.seen,
        )


class _Slices:
    """Every host that a plan rests on: of the patterns, of the record, of tombstones. One without a part of the workload is locked, and
    nothing else."""

    def __init__(
        self, name: str, situation: Situation, reality: Reality, parts: set[str], watched: t.Iterable[str]
    ) -> None:
        hosts = reality.hosts
        parts |= {m.host for m in situation.members} | {s.member.host for s in situation.strays}
        parts |= {host for host, _record in hosts.sight(name).records}
        watched = {*watched, *(grave.host for grave in situation.tombstones)}
        watched |= {place.host for place in situation.noted.members} if situation.noted else set()
        self.situation = situation
        seen = {h for h in watched if h in hosts and h not in reality.silent}
        self.of = {
            host: _draft(hosts[host], name, host in parts) for host in sorted(parts | _enough(seen, parts, hosts))
        }

    def hold_vacated(self, stay: t.Mapping[tuple[str, str], set[int]]) -> None:
        """Hold, on each host, ports of places that the record named, or a member had, and that are not that member's after this plan.
        `stay` are the ports, by place (host, id), of those that remain or come."""
        situation = self.situation
        unknown = {(place.host, place.id) for place in situation.unknown}
        places: dict[tuple[str, str], tuple[set[int], str | None, str | None]] = {}
        for place in situation.noted.members if situation.noted else ():
            if place.role != "router":
                places[place.host, place.id] = (place.ports, situation.formation, place.url)
        for member in (*situation.members, *(s.member for s in situation.strays)):
            if member.role != "router" and member.ports:
                places[member.host, member.id] = (set(member.ports), member.formation, member.label.url)
        for mine in self.of.values():
            mine.hold = True
        for (host, name), (ports, formation, url) in sorted(places.items()):
            vacated = tuple(sorted(ports - stay.get((host, name), set())))
            if host in self.of and vacated and (host, name) not in unknown:
                self.of[host].holds.append(Vacated(name, formation, url, vacated))

    def made(self) -> dict[str, Slice]:
        return {host: mine.made() for host, mine in self.of.items()}


def _enough(watched: set[str], parts: set[str], hosts: t.Mapping[str, Host]) -> set[str]:
    """Those of the hosts without a part that are needed for their locks. All nodes of a cluster have one between them: where it is locked
    for a part already, or for the first of its nodes, the others add nothing."""
    locked = {hosts[host].through for host in parts if host in hosts}
    found: set[str] = set()
    for host in sorted(watched):
        seen = hosts[host]
        if seen.node is None or seen.through not in locked:
            locked.add(seen.through)
            found.add(host)
    return found


def _draft(host: Host, name: str, part: bool) -> _Draft:
    return _Draft(host.through, part, Seen(host.digest_of(name), cordoned=host.cordon is not None))


def slices_of(
    request: AnyRequest,
    situation: Situation,
    choice: Choice,
    members: t.Sequence[Member],
    router: RouterStep,
    formation: Formation,
) -> dict[str, Slice]:
    """Each host's slice: who must be there, who must not, who is to be started, and what the plan took for granted."""
    name = request.name
    parts = {host for m in members for host in m.hosts}
    slices = _Slices(name, situation, request.reality, parts, _watched(request))
    create = {m.id for m in choice.replace} | {member_id(name, one.role, one.index) for one in choice.create}
    for member in members:
        for host in member.hosts:
            mine = slices.of[host]
            mine.present.append(member.id)
            if member.id in create or (member.role == "router" and router.step == "replace"):
                mine.create.append(member.id)
                mine.seen = _seen_of_all(request, host)
    for gone, _why in choice.leave:
        slices.of[gone.host].leaves(gone)
    for renewed in choice.replace:
        if renewed.id in choice.first:
            slices.of[renewed.host].leaves(renewed)
    for retired in choice.retire:
        slices.of[retired.host].runs_under(retired)
    for empty in set(request.evacuated) & set(slices.of):
        slices.of[empty].forgets = True
    for taken in situation.adopt:
        if any(taken is one for one in choice.serving):
            slices.of[taken.host].adopt.append(taken.id)
    if _holds_ports(router, situation, formation):
        left = {id(m) for m in (*(m for m, _why in choice.leave), *choice.retire)}
        stay = {(m.host, m.id): set(m.ports) for m in situation.members if id(m) not in left}
        stay |= {(part.host, m.id): part.held_ports for m in members for part in m.parts}
        slices.hold_vacated(stay)
    return slices.made()


def _watched(request: AnyRequest) -> set[str]:
    """The hosts of its patterns, those that hold a port of it, and those of its other stand: who works on that one meanwhile meets the lock
    of this one there."""
    others = request.beside.other.members if request.beside is not None else ()
    patterns = {host for names in request.patterns.values() for host in names}
    return patterns | set(request.hosts.sight(request.name).holding) | {place.host for place in others}


def _seen_of_all(request: AnyRequest, host: str) -> Seen:
    """Only where places are taken does it matter what other workloads do. What this run changes there before, in this wave or an earlier
    one, is no news: the plan was made beside it, each guards itself, and that its ports and GPUs are free is looked at again when a member
    is created."""
    here, together = request.hosts[host], request.reality.reserved.changing(host, request.name)
    return Seen(here.digest_of(request.name), here.digest_beside(together), together, here.cordon is not None)


def removal_slices(name: str, situation: Situation, reality: Reality, hold: bool) -> dict[str, Slice]:
    """The same where all of it goes. `hold`: a router that may name who went lives where nobody can ask it."""
    slices = _Slices(name, situation, reality, set(), ())
    for member in (*situation.members, *(s.member for s in situation.strays)):
        slices.of[member.host].leaves(member)
    if hold:
        slices.hold_vacated({})
    return slices.made()


def _holds_ports(router: RouterStep, situation: Situation, formation: Formation) -> bool:
    """Whether a router may still name the members that this plan stops: then nobody gets their ports before it was read back without
    them. One that forgets them over its API has done so before they stop. What has no formation has no router."""
    if formation.id is None:
        return False
    if formation.router_lost or situation.unknown:
        # Also where others cannot be asked: the router goes on naming them, under whatever name their host has by now.
        return True
    if formation.made:
        return False
    if router.policy == "dynamic":
        return not router.read
    return router.early is None
