# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# This module util is PRIVATE to the collection.
"""What a plan is made from: what is asked for, what there is of the group, and who stays, leaves and comes."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field

from .observed import Host, Member
from .spec import Group
from .template import GroupTemplate

Action = t.Literal["deploy", "scale", "restart"]


_ABSENT, _LEFT_OUT, _SILENT = "is not in the inventory", "was left out of this run", "did not answer"


@dataclass(frozen=True)
class Reach:
    """Which hosts could have answered: those of the inventory, and those that this run asked. None: nobody can say."""

    inventory: t.Collection[str] | None = None
    asked: t.Collection[str] | None = None

    def why(self, host: str) -> str:
        """Why nothing is known of a host, in words that follow its name."""
        if self.inventory is not None and host not in self.inventory:
            return _ABSENT
        return _LEFT_OUT if self.asked is not None and host not in self.asked else _SILENT

    def told(self, unknown: t.Iterable[t.Mapping[str, t.Any]]) -> str:
        """The hosts that nothing is known of, why, and what they may run by the record."""
        hold: dict[str, list[str]] = {}
        for member in unknown:
            hold.setdefault(str(member["host"]), []).append(str(member["id"]))
        return self.of_hosts(hold)

    def of_hosts(self, hold: t.Mapping[str, t.Sequence[str]]) -> str:
        """The same, of hosts with the ids that they may run."""
        by_why: dict[str, list[str]] = {}
        for host in sorted(hold):
            by_why.setdefault(self.why(host), []).append(host)
        told = []
        for why, hosts in by_why.items():
            runs = [name for host in hosts for name in hold[host]]
            told.append(f"{', '.join(hosts)} {why}" + (f" and may still run {', '.join(runs)}" if runs else ""))
        return "; ".join(told)

    def ways_out(self, hosts: t.Iterable[str]) -> str:
        """What brings these hosts back, each way once."""
        return " ".join(self.way_out(why) for why in dict.fromkeys(self.why(host) for host in sorted(hosts)))

    def way_out(self, why: str) -> str:
        return {
            _ABSENT: "Put it back into the inventory.",
            _LEFT_OUT: "Run without --limit, and with pd_hosts covering it.",
            _SILENT: "Bring the host back.",
        }[why]


EVERYWHERE = Reach()


@dataclass
class Request:
    """Everything a plan is made from. `patterns` are the host names of each role's pattern, resolved without --limit; `silent` are hosts
    of the group that gave no facts; `lost` those that the user states are fenced; `counts` what `scale` asks for."""

    group: Group
    template: GroupTemplate
    hosts: t.Mapping[str, Host]
    patterns: t.Mapping[str, t.Sequence[str]]
    action: Action
    silent: t.Collection[str] = ()
    lost: t.Collection[str] = ()
    counts: t.Mapping[str, int] = field(default_factory=dict)
    allow_scale_down: bool = False
    reserved: t.Sequence[t.Mapping[str, t.Any]] = ()
    reach: Reach = EVERYWHERE


@dataclass
class Situation:
    """What there is of the group: its members as seen, those on hosts that do not answer, and the newest record."""

    record: dict[str, t.Any]
    members: list[Member]
    unknown: list[dict[str, t.Any]]
    generation: int
    # Members that run elsewhere by now: their host was stated to be lost, and has come back.
    strays: list[Member] = field(default_factory=list)

    @classmethod
    def of(
        cls, name: str, hosts: t.Mapping[str, Host], silent: t.Collection[str], lost: t.Collection[str]
    ) -> Situation:
        found = [h.records[name] for h in hosts.values() if name in h.records]
        newest = max(found, key=lambda r: (r.get("generation", 0), r.get("serial", 0)), default={})
        every = [m for h in hosts.values() for m in h.members if m.group == name]
        members = _at_their_place(every, newest)
        seen = {m.id for m in members}
        unknown = [
            m
            for m in newest.get("members", ())
            if m["id"] not in seen and m["host"] not in lost and (m["host"] not in hosts or m["host"] in silent)
        ]
        generation = max([newest.get("generation", 0), *(m.generation for m in members)])
        return cls(newest, members, unknown, generation, [m for m in every if m not in members])

    @property
    def unknown_urls(self) -> set[str]:
        return {str(m.get("url")) for m in self.unknown}

    def of_role(self, role: str, alive: bool | None = None) -> list[Member]:
        """The members of a role. With `alive`, those that live or do not, and of neither kind those that are leaving."""
        found = [m for m in self.members if m.role == role and (alive is None or (m.alive == alive and not m.draining))]
        return sorted(found, key=lambda m: m.index)


def _at_their_place(members: list[Member], noted: t.Mapping[str, t.Any]) -> list[Member]:
    """One member of each id: of two, the one on the host that the record names."""
    places = {m["id"]: m["host"] for m in noted.get("members", ())}
    chosen: dict[str, Member] = {}
    for member in members:
        if member.id not in chosen or places.get(member.id) == member.host:
            chosen[member.id] = member
    return [m for m in members if chosen[m.id] is m]


@dataclass
class Choice:
    """Who stays, who leaves (with why) and who comes, per member; the counts that were meant; whether the spec waits for a restart."""

    keep: list[Member] = field(default_factory=list)
    leave: list[tuple[Member, str]] = field(default_factory=list)
    replace: list[Member] = field(default_factory=list)
    create: list[tuple[str, int, str]] = field(default_factory=list)
    # Members that run and are replaced all the same, with why (mode: refresh_with_prefill).
    refresh: dict[str, str] = field(default_factory=dict)
    desired: dict[str, int] = field(default_factory=dict)
    pending: bool = False
