# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the plans that a run has made so far take: each next one is made beside it, in the order in which they are carried out."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field

from ..work.member import Member, Part
from .value import Plan


class Taken(t.NamedTuple):
    """A member of a plan, and its part at one host."""

    workload: str
    member: Member
    part: Part


@dataclass(frozen=True)
class Reserved:
    """The plans of a run by what the next one asks of them; each `beside` makes a new value.

    Only what they take is in it, never what they free: places that a restart, a scale down or a removal of the same run gives up are free
    for who is planned after the hosts have been seen again. Until then who leaves, and who comes in its place, both count."""

    # By host, in the order of the plans.
    _taken: t.Mapping[str, tuple[Taken, ...]] = field(default_factory=dict)
    _changing: t.Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    # By name: a workload that is planned twice is there twice.
    _plans: t.Mapping[str, tuple[Plan, ...]] = field(default_factory=dict)

    @classmethod
    def of(cls, plans: t.Iterable[Plan]) -> Reserved:
        found = cls()
        for plan in plans:
            found = found.beside(plan)
        return found

    def beside(self, plan: Plan) -> Reserved:
        """This, and what one more plan takes."""
        taken, changing = dict(self._taken), dict(self._changing)
        for member in plan.members:
            for part in member.parts:
                taken[part.host] = (*taken.get(part.host, ()), Taken(plan.group, member, part))
        retires = {host for one in plan.retire or () for host in one.members}
        for host, mine in plan.hosts.items():
            if mine.create or mine.absent or mine.adopt or host in retires:
                changing[host] = (*changing.get(host, ()), plan.group)
        return Reserved(taken, changing, {**self._plans, plan.group: (*self.plans(plan.group), plan)})

    def members(self, host: str, but: str) -> list[Member]:
        """The members of plans with a part on a host; the workload `but` is the caller's own."""
        return [one.member for one in self._taken.get(host, ()) if one.workload != but]

    def places(self, host: str, but: str) -> tuple[dict[int, str], set[str]]:
        """(ports with who takes each, GPUs) that they take on a host; the same of `but`."""
        ports: dict[int, str] = {}
        gpus: set[str] = set()
        for workload, member, part in self._taken.get(host, ()):
            if workload != but:
                ports.update((port, f"member {member.id} of this run") for port in part.held_ports)
                gpus.update(part.gpus)
        return ports, gpus

    def plans(self, workload: str) -> tuple[Plan, ...]:
        """Those of a workload, the earlier ones first."""
        return self._plans.get(workload, ())

    def changing(self, host: str, but: str) -> tuple[str, ...]:
        """The workloads whose members on a host this run itself changes, by name; the same of `but`, which guards itself."""
        return tuple(sorted({name for name in self._changing.get(host, ()) if name != but}))


NOTHING = Reserved()
