# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""All hosts that a run has seen, as one value. Each plan of the run asks of every host whether it has anything of one workload: they are
gone through once, for all plans."""

from __future__ import annotations

import functools
import typing as t
from dataclasses import dataclass, field

from ..base.address import of_url
from ..base.finding import Finding, Findings
from ..facts.observed import Damage, Host, LiveMember, Machine
from ..facts.record import Record, newest
from ..facts.stands import both
from . import machines


@dataclass(frozen=True)
class Sight:
    """What the hosts have of one workload, in their order; `records`, `damaged` and `holding` are with the names of the hosts."""

    records: list[tuple[str, Record]] = field(default_factory=list)
    members: list[LiveMember] = field(default_factory=list)
    damaged: list[tuple[str, Damage]] = field(default_factory=list)
    # Hosts that hold ports of it.
    holding: list[str] = field(default_factory=list)

    @functools.cached_property
    def noted(self) -> Record | None:
        """The record that holds."""
        return newest([record for _host, record in self.records])


@dataclass(frozen=True)
class Named:
    """Ports that something may still name, and what that is, of which workload and member; `weak` gives way to whatever else names them."""

    ports: t.Collection[int]
    told: str
    workload: str
    member: str = ""
    weak: bool = False


NOTHING = Sight()


class Hosts(t.Mapping[str, Host]):
    """Hosts by name. What is asked of all of them is found out when it is asked for the first time."""

    def __init__(self, hosts: t.Mapping[str, Host]) -> None:
        self._hosts = dict(hosts)

    @classmethod
    def of(cls, hosts: t.Mapping[str, Host]) -> Hosts:
        """The same value where it is one already: what it has found out is kept."""
        return hosts if isinstance(hosts, Hosts) else cls(hosts)

    def __getitem__(self, name: str) -> Host:
        return self._hosts[name]

    def __iter__(self) -> t.Iterator[str]:
        return iter(self._hosts)

    def __len__(self) -> int:
        return len(self._hosts)

    # A Mapping makes these of the three above, one call an entry.
    def values(self) -> t.ValuesView[Host]:
        return self._hosts.values()

    def items(self) -> t.ItemsView[str, Host]:
        return self._hosts.items()

    def sight(self, workload: str) -> Sight:
        """What they have of a workload."""
        return self._sights.get(workload, NOTHING)

    def runs(self, group: str) -> bool:
        """Whether a member of a group lives, on whichever stand."""
        return any(m.alive for stand in both(group) for m in self.sight(stand).members)

    @functools.cached_property
    def _sights(self) -> dict[str, Sight]:
        found: dict[str, Sight] = {}

        def of(workload: str) -> Sight:
            return found.setdefault(workload, Sight())

        for host in self._hosts.values():
            for workload, record in host.records.items():
                of(workload).records.append((host.name, record))
            for member in host.members:
                of(member.group).members.append(member)
            for damage in host.damaged:
                if damage.group is not None:
                    of(damage.group).damaged.append((host.name, damage))
            for workload in dict.fromkeys(hold.group for hold in host.holds):
                of(workload).holding.append(host.name)
        return found

    @functools.cached_property
    def by_machine(self) -> dict[Machine, list[Host]]:
        """The hosts that each machine is in the inventory."""
        found: dict[Machine, list[Host]] = {}
        for host in self._hosts.values():
            if host.machine.known:
                found.setdefault(host.machine, []).append(host)
        return found

    @functools.cached_property
    def by_machine_id(self) -> dict[str, list[str]]:
        """Their names, by the identity of the machine alone: it outlives a boot."""
        found: dict[str, list[str]] = {}
        for host in self._hosts.values():
            if host.machine.id:
                found.setdefault(host.machine.id, []).append(host.name)
        return found

    @functools.cached_property
    def doubles(self) -> tuple[Finding, ...]:
        """What is said of several of them that are one machine, or copies of one."""
        findings = Findings()
        machines.check(self._hosts, findings)
        return tuple(findings.items)

    def named(self, where: str, but: t.Callable[[str, str], bool]) -> dict[int, str]:
        """Ports at a host's name or address that something may still name, with who: who is down there, or has lost its label, may be in a
        router's list of peers, and so may be what a lost host had. `but` tells of a workload and a member that it does not matter."""
        found: dict[int, str] = {}
        for one in self._named.get(where, ()):
            if not but(one.workload, one.member):
                found.update((port, one.told) for port in one.ports if not (one.weak and port in found))
        return found

    @functools.cached_property
    def _named(self) -> dict[str, list[Named]]:
        """By the name of the host that the ports are on, and by the address in their URL, on whatever host that stands."""
        found: dict[str, list[Named]] = {}
        for workload, sight in self._sights.items():
            for place in sight.noted.members if sight.noted else ():
                one = Named(place.ports, f"member {place.id}", workload, place.id)
                for where in place.names:
                    found.setdefault(where, []).append(one)
            for grave in (grave for _host, record in sight.records for grave in record.tombstones):
                for where, ports in grave.addresses.items():
                    told = f"what {grave.host} may still speak to (tombstone)"
                    found.setdefault(where, []).append(Named(ports, told, workload))
        for router in (m for host in self._hosts.values() for m in host.members if m.role == "router"):
            for member, address, port in peers_named_by(router):
                weak = Named((port,), f"a peer of {router.id}", router.group, member, weak=True)
                found.setdefault(address, []).append(weak)
        return found


def peers_named_by(router: LiveMember) -> t.Iterator[tuple[str, str, int]]:
    """(member, address, port) of the peers that a router has, by its command line and by its registry, whoever they are by now. Of an entry
    of its registry nobody says which member it is."""
    told = [(peer.member, peer.url) for peer in router.label.peers or ()]
    told += [("", url) for url in router.now.registered or ()]
    for member, url in told:
        place = of_url(url)
        if place:
            yield (member, *place)
