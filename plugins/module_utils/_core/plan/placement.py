# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Placement: replicas onto the hosts of their role's pattern, by free GPUs and free ports. Deterministic; a running member never moves."""

from __future__ import annotations

import heapq
import typing as t
from dataclasses import dataclass, field

from ..base.checked import ports_of
from ..facts.observed import Hold, Host, Machine, Used
from ..work.member import Bands


@dataclass(frozen=True)
class Seat:
    """What a member gets on a host: its HTTP port, its bands and its GPUs."""

    host: str
    port: int
    ports: Bands
    gpus: t.Sequence[str]

    @property
    def held_ports(self) -> set[int]:
        return ports_of(self.port, self.ports)


# By member id.
Seats = t.Mapping[str, Seat]


@dataclass
class Room:
    """What is free on one host while a plan is made. `taken` are ports that nobody may get, with who holds each."""

    host: Host
    taken: dict[int, str]
    free_gpus: list[str]
    members: int = 0
    _low: int = field(default=0)

    @classmethod
    def of(
        cls,
        host: Host,
        gone: t.Collection[str],
        reserved: t.Mapping[int, str],
        reserved_gpus: t.Collection[str],
        lifted: t.Callable[[Hold], bool] = lambda _hold: False,
        lingering: t.Collection[str] = (),
    ) -> Room:
        """The room on `host`, as if the members named in `gone` had left. `reserved` are ports of groups planned in the same run, and those
        that nothing newer may have. `lifted` tells holds that are none for this plan; `lingering` are those of the gone whose ports a
        router may still name."""
        vacated = set(gone) - set(lingering)
        taken = {port: _owner(use) for port, use in host.used.items() if use.member not in vacated or not use.member}
        held: set[str] = set(reserved_gpus)
        for member in host.members:
            if member.id not in vacated:
                taken.update((port, f"member {member.id}") for port in member.ports)
            if member.id not in gone:
                held.update(member.gpus)
        for hold in host.holds:
            if not lifted(hold):
                taken.update((port, f"a router of {hold.group}, which may still name it (hold)") for port in hold.ports)
        for one in host.elsewhere:
            taken.update((port, f"member {one.member} of {one.state_dir}") for port in one.ports)
            held.update(one.gpus)
        taken.update(reserved)
        held.update(gpu for gpu, member in host.busy_gpus if member is None or member not in gone)
        return cls(host, taken, [gpu.id for gpu in host.gpus if gpu.id not in held])

    def free_ports(self) -> int:
        return sum(1 for port in range(self.host.port_low, self.host.port_high + 1) if port not in self.taken)

    def _run(self, width: int) -> int | None:
        """The lowest start of `width` consecutive free ports, or None."""
        start = port = max(self._low, self.host.port_low)
        while port <= self.host.port_high:
            if port in self.taken:
                start = port + 1
            elif port - start + 1 == width:
                return start
            port += 1
        return None

    def seat(self, member: str, bands: t.Sequence[tuple[str, int]], gpus: int, port: int | None = None) -> Seat | None:
        """Take ports and GPUs for `member`; None, with nothing taken, when they do not fit. Widest band first, from the bottom; the HTTP
        port is the lowest one left, unless `port` is given (it has been checked by the caller)."""
        if gpus > len(self.free_gpus):
            return None
        got: dict[str, dict[str, int]] = {}
        mine: list[int] = []
        wanted = sorted(bands, key=lambda b: -b[1]) + ([("", 1)] if port is None else [])
        for name, width in wanted:
            base = self._run(width) if width else self.host.port_low
            if base is None:
                for taken in mine:
                    del self.taken[taken]
                return None
            for number in range(base, base + width):
                self.taken[number] = f"member {member}"
                mine.append(number)
            got[name] = {"base": base, "count": width}
        http = port if port is not None else got.pop("")["base"]
        self.taken[http] = f"member {member}"
        while self._low <= self.host.port_high and (self._low < self.host.port_low or self._low in self.taken):
            self._low = max(self._low + 1, self.host.port_low)
        chosen, self.free_gpus = self.free_gpus[:gpus], self.free_gpus[gpus:]
        self.members += 1
        return Seat(self.host.name, http, {name: got[name] for name, _width in bands}, chosen)

    def again(
        self, member: str, old: Seat, bands: t.Sequence[tuple[str, int]], gpus: int, port: int | None
    ) -> Seat | None:
        """The seat that `member` had, where all of it is free and is still what it needs: its peers know it by its address."""
        ports = [base + i for band in old.ports.values() for base in [band["base"]] for i in range(band["count"])]
        ports += [old.port] if port is None else []
        fits = all(self.host.port_low <= p <= self.host.port_high and p not in self.taken for p in ports)
        same = {name: band["count"] for name, band in old.ports.items()} == dict(bands) and port in (None, old.port)
        if not fits or not same or len(old.gpus) != gpus or not set(old.gpus) <= set(self.free_gpus):
            return None
        self.taken.update((p, f"member {member}") for p in [*ports, old.port])
        self.free_gpus = [g for g in self.free_gpus if g not in old.gpus]
        self.members += 1
        return Seat(self.host.name, old.port, old.ports, old.gpus)


def _owner(use: Used) -> str:
    if use.member:
        return f"member {use.member}"
    who = use.command or "an unknown process"
    return f"{who} (pid {use.pid})" if use.pid else who


class Placer:
    """Seats replicas one by one on the host with most free GPUs, then fewest members of the plan, then first in the pattern."""

    def __init__(self, rooms: t.Mapping[str, Room], hosts: t.Sequence[str]) -> None:
        self.rooms = rooms
        self.order = {name: number for number, name in enumerate(hosts)}
        self.heap = [self._key(name) for name in hosts if name in rooms]
        heapq.heapify(self.heap)

    def _key(self, name: str) -> tuple[int, int, int, str]:
        room = self.rooms[name]
        return (-len(room.free_gpus), room.members, self.order[name], name)

    def seat(self, member: str, bands: t.Sequence[tuple[str, int]], gpus: int, port: int | None = None) -> Seat | None:
        """The next seat, or None when no host has room for one more of these."""
        while self.heap:
            key = heapq.heappop(self.heap)
            name = key[-1]
            if key != self._key(name):
                heapq.heappush(self.heap, self._key(name))
                continue
            seat = self.rooms[name].seat(member, bands, gpus, port)
            if seat is None:
                continue
            heapq.heappush(self.heap, self._key(name))
            return seat
        return None


def shared_with(host: Host, machines: t.Mapping[Machine, t.Sequence[Host]]) -> t.Iterator[tuple[int, str]]:
    """Ports that the same machine has under other names of the inventory, also of members that are down, and those that are held."""
    for other in machines.get(host.machine, ()):
        if other is not host:
            for member in other.members:
                yield from ((port, f"member {member.id} of {other.name}") for port in member.ports)
            for hold in other.holds:
                yield from ((port, f"a router of {hold.group} (hold of {other.name})") for port in hold.ports)
