# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The steps of the one plan that a group and a cache service take in their own way."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field

from ..base.finding import Findings
from ..base.plain import Plain
from ..hooks.hook import Hooked
from ..spec.workload import Kind
from ..work.member import Member
from .drift import Moved
from .formations import Formation
from .placement import Seats
from .situation import Asked, Choice, Situation, Template, Workload
from .value import Plan, Renewal, Retirement, RouterStep


@dataclass(frozen=True)
class Draft(t.Generic[Workload, Template]):
    """What is known of a plan so far: each step adds to it, and changes nothing. What is in the way goes to `findings`."""

    asked: Asked[Workload, Template]
    situation: Situation
    findings: Findings
    choice: Choice = field(default_factory=Choice)
    formation: Formation = field(default_factory=Formation)
    seats: Seats = field(default_factory=dict)
    moved: tuple[Moved, ...] = ()
    members: tuple[Member, ...] = ()
    router: RouterStep = field(default_factory=RouterStep)
    renew: tuple[Renewal, ...] = ()
    retire: tuple[Retirement, ...] = ()
    hooks: tuple[Hooked, ...] = ()


class Way(t.Generic[Workload, Template]):
    """The steps of a plan that differ, in their order; all else that differs is data of the `kind`."""

    kind: t.ClassVar[Kind]

    def source(
        self,
        asked: Asked[Workload, Template],
        situation: Situation,  # noqa: ARG002
        findings: Findings,  # noqa: ARG002
    ) -> Asked[Workload, Template]:
        """The request as it is carried out: of its spec, unless something else is to be started than that."""
        return asked

    def choose(self, draft: Draft[Workload, Template]) -> Choice:
        """Who stays, leaves and comes."""
        raise NotImplementedError

    def seat(self, draft: Draft[Workload, Template]) -> tuple[Choice, Seats]:
        """Where those that come are, by member id; and the choice, where one cannot stay where it was."""
        raise NotImplementedError

    def drift(self, draft: Draft[Workload, Template]) -> tuple[Choice, Seats, tuple[Moved, ...]]:
        """The same without what would be another engine or model than its peers. Where members are no peers, nothing is."""
        return draft.choice, draft.seats, ()

    def check_hosts(self, draft: Draft[Workload, Template]) -> None:
        """What each host that gets a member must have, before anything starts."""
        raise NotImplementedError

    def render(self, draft: Draft[Workload, Template]) -> tuple[Member, ...]:
        """Every member that there is afterwards."""
        raise NotImplementedError

    def router(self, draft: Draft[Workload, Template]) -> RouterStep:
        """What the router does."""
        raise NotImplementedError

    def renew(self, draft: Draft[Workload, Template]) -> tuple[Renewal, ...]:
        """The rounds in which members that stay are started anew for those that come. Where members are no peers, there are none."""
        return draft.renew

    def retire(self, draft: Draft[Workload, Template]) -> tuple[Retirement, ...]:
        """The rounds in which those stop whose place others have taken. Where members are no peers, there are none."""
        return draft.retire

    def meanwhile(self, draft: Draft[Workload, Template], plan: Plan) -> Plain | None:  # noqa: ARG002
        """What is kept as long as those that retire are there. Where nobody does, it is what is kept in the end."""
        return None

    def hooks(self, draft: Draft[Workload, Template]) -> tuple[Hooked, ...]:
        """Who is told of the endpoint. What has none tells nobody."""
        return draft.hooks

    def fields(self, draft: Draft[Workload, Template]) -> Plain:
        """The plan as far as only the kind knows it: runtime, mode, what is proved, what clients are told."""
        raise NotImplementedError

    def record(self, draft: Draft[Workload, Template], plan: Plan) -> Plain:
        """What is kept."""
        raise NotImplementedError

    def say(self, draft: Draft[Workload, Template], plan: Plan) -> Plan:
        """Tell of the plan as a whole, and return it with what follows from that."""
        raise NotImplementedError
