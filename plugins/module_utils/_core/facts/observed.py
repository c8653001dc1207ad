# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the hosts say: the `pd_host` fact of each host, read once into values that the plan works with."""

from __future__ import annotations

import hashlib
import json
import typing as t
from dataclasses import dataclass, field

from ..base.checked import DamagedError
from ..base.errors import PdError
from . import label as labels
from . import record
from .record import Record

DEFAULT_PORT_RANGE = "40000-40063"
# States in which a member's process is there (or its runtime is bringing it back).
ALIVE = ("running", "restarting")


@dataclass(frozen=True)
class Damage:
    """A file of a host, or of what it says, that could not be read: where, why, and of which group and member it is, as far as that can be
    told."""

    path: str
    why: str
    group: str | None = None
    member: str | None = None


@dataclass(frozen=True)
class Hold:
    """Ports of a member that is gone and that a router may still name: nobody gets them."""

    group: str
    member: str
    formation: str | None
    ports: tuple[int, ...]


@dataclass(frozen=True)
class Machine:
    """Which machine a host is: an inventory name is none. `netns` is its network namespace: ports are its own."""

    id: str | None = None
    boot: str | None = None
    netns: str | None = None

    @property
    def known(self) -> bool:
        return bool(self.id and self.boot)

    def same(self, other: Machine) -> bool:
        """Whether both are one running machine, whatever its network namespaces."""
        return self.known and (self.id, self.boot) == (other.id, other.boot)


@dataclass(frozen=True)
class Elsewhere:
    """A member of another state folder on the same machine: its GPUs and ports are taken."""

    member: str
    state_dir: str
    group: str | None
    gpus: tuple[str, ...]
    ports: tuple[int, ...]


@dataclass(frozen=True)
class Member:
    """A member that a host reports: what its labels say, and how it is now. `state` is running, restarting, stuck
    (its process lives and will never serve), exited or missing. `formation` is its label's."""

    id: str
    group: str
    role: str
    index: int
    host: str
    revision: str
    generation: int
    formation: str | None
    state: str
    ready: bool
    ports: frozenset[int]
    gpus: tuple[str, ...]
    label: t.Mapping[str, t.Any]
    live: t.Mapping[str, t.Any]

    @property
    def alive(self) -> bool:
        return self.state in ALIVE

    @property
    def draining(self) -> bool:
        """Whether a run has begun to take it away: it has left the router, and goes on leaving, whoever runs next."""
        return bool(self.live.get("draining"))

    @property
    def why(self) -> str:
        """Why it does not serve, as a person is told it: its host's reason, and how its log ends. Empty where there is no reason."""
        why, line = _said(self.live, "why"), _said(self.live, "log_line")
        return f"{why}; its log ends with: {line}" if line else why

    @property
    def condition(self) -> str:
        """What a person is told of it, a group's member or an instance of a cache service: draining, ready, loading (its process runs, and
        does not serve yet), else its state."""
        if self.draining:
            return "draining"
        if self.alive and self.ready:
            return "ready"
        return "loading" if self.state == "running" else self.state


@dataclass
class Host:
    """One host's facts."""

    name: str
    address: str | None
    kv_address: str | None
    kv_names: tuple[str, ...]
    kv_devices: tuple[str, ...]
    kv_error: str | None
    gpus: list[dict[str, t.Any]]
    port_low: int
    port_high: int
    used: dict[int, dict[str, t.Any]]
    members: list[Member]
    records: dict[str, Record]
    damaged: list[Damage] = field(default_factory=list)
    holds: list[Hold] = field(default_factory=list)
    elsewhere: list[Elsewhere] = field(default_factory=list)
    # Who changes which group now.
    locks: dict[str, t.Mapping[str, t.Any]] = field(default_factory=dict)
    # GPUs that processes use of which no label tells: (gpu, the member that such a process says it is, if any).
    busy_gpus: list[tuple[str, str | None]] = field(default_factory=list)
    machine: Machine = Machine()
    # Which state folder it is: the same one under two names is one place.
    state: t.Mapping[str, t.Any] = field(default_factory=dict)
    facts: t.Mapping[str, t.Any] = field(default_factory=dict)

    def digest_of(self, group: str) -> str:
        """What of this host a plan for `group` rests on when it takes no place there."""
        return str((self.facts.get("digests") or {}).get(group) or EMPTY)

    @property
    def ucx_net_devices(self) -> str:
        """RDMA devices with the interfaces: an interface name alone would keep UCX off RDMA, silently."""
        return ",".join([*self.kv_devices, *self.kv_names])

    @property
    def names(self) -> set[str]:
        """All that a place on this host may be named by: its inventory name, and every address that it has."""
        return {self.name, *self.interface_addresses, *(a for a in (self.address, self.kv_address) if a)}

    @property
    def interface_addresses(self) -> set[str]:
        """Every address that an interface of the host has now."""
        return {str(address) for one in self.facts.get("interfaces") or () for address in one.get("addresses") or ()}

    def model(self, path: str) -> t.Mapping[str, t.Any]:
        return (self.facts.get("models") or {}).get(path) or {}

    def executable(self, path: str) -> t.Mapping[str, t.Any]:
        return (self.facts.get("executables") or {}).get(path) or {}

    def image(self, name: str) -> t.Mapping[str, t.Any]:
        return (self.facts.get("images") or {}).get(name) or {}

    def runtime(self, name: str) -> t.Mapping[str, t.Any]:
        return (self.facts.get("runtimes") or {}).get(name) or {}


def parse_range(text: str, where: str) -> tuple[int, int]:
    """(low, high) of a port range such as "40000-40063", both inclusive. Raises PdError naming `where`."""
    low, dash, high = str(text).partition("-")
    if not (dash and low.strip().isdigit() and high.strip().isdigit() and 1024 <= int(low) <= int(high) <= 65535):
        raise PdError(
            f"{where}: {text!r} is no port range. Write it as 40000-40063, between 1024 and 65535, the lower first."
        )
    return int(low), int(high)


def read_host(name: str, facts: t.Mapping[str, t.Any]) -> Host:
    """One `pd_host`, as module host_facts returns it, into a Host. A label or a record in it that cannot be believed is a damage of that
    member or group, and the rest is read all the same."""
    ports = facts.get("ports") or {}
    low, high = parse_range(ports.get("range") or DEFAULT_PORT_RANGE, f"pd_port_range of {name}")
    kv = facts.get("kv_interface") or {}
    machine = facts.get("machine") or {}
    damaged = [Damage(d["path"], d["why"], d.get("group"), d.get("member")) for d in facts.get("damaged") or ()]
    return Host(
        name=name,
        address=facts.get("address"),
        kv_address=kv.get("address"),
        kv_names=tuple(kv.get("names") or ()),
        kv_devices=tuple(kv.get("rdma_devices") or ()),
        kv_error=kv.get("error"),
        gpus=[dict(g) for g in facts.get("gpus") or ()],
        port_low=low,
        port_high=high,
        used={int(u["port"]): dict(u) for u in ports.get("used") or ()},
        members=_members(name, facts.get("members") or (), damaged),
        records=_records(name, facts.get("records") or {}, damaged),
        damaged=damaged,
        holds=[
            Hold(str(h["group"]), str(h["member"]), h.get("formation"), tuple(h.get("ports") or ()))
            for h in facts.get("holds") or ()
        ],
        elsewhere=[
            Elsewhere(
                str(one["member"]),
                str(one["state_dir"]),
                one.get("group"),
                tuple(str(g) for g in one.get("gpus") or ()),
                tuple(one.get("ports") or ()),
            )
            for one in facts.get("elsewhere") or ()
        ],
        busy_gpus=[(str(one["gpu"]), one.get("member")) for one in facts.get("gpu_processes") or ()],
        locks=_locks(facts),
        machine=Machine(machine.get("id"), machine.get("boot"), machine.get("netns")),
        state=facts.get("state") or {},
        facts=facts,
    )


def _members(host: str, raw: t.Iterable[t.Mapping[str, t.Any]], damaged: list[Damage]) -> list[Member]:
    found = []
    for one in raw:
        told = one.get("label")
        try:
            label = labels.read(told, f"the label of {_text(told, 'member')}")
        except DamagedError as exc:
            damaged.append(Damage(exc.where, exc.why, _text(told, "group"), _text(told, "member")))
            continue
        found.append(
            Member(
                id=label.member,
                group=label.group,
                role=label.role,
                index=label.index,
                host=host,
                revision=label.revision,
                generation=label.generation,
                formation=label.formation,
                state=one.get("state") or "missing",
                ready=bool(one.get("ready")),
                ports=frozenset(label.ports),
                gpus=label.gpus,
                label=label.plain,
                live=one,
            )
        )
    return found


def _records(host: str, raw: t.Mapping[str, t.Any], damaged: list[Damage]) -> dict[str, Record]:
    found = {}
    for group, told in raw.items():
        try:
            found[str(group)] = record.read(told, f"the record of group {group}", host)
        except DamagedError as exc:
            damaged.append(Damage(exc.where, exc.why, str(group)))
    return found


def _locks(facts: t.Mapping[str, t.Any]) -> dict[str, t.Mapping[str, t.Any]]:
    """Locks by group; a version that kept them in the record told them there."""
    old = {
        group: noted.get("lock")
        for group, noted in (facts.get("records") or {}).items()
        if isinstance(noted, t.Mapping)
    }
    every = {**old, **(facts.get("locks") or {})}
    return {group: lock for group, lock in every.items() if isinstance(lock, t.Mapping)}


def _said(live: t.Mapping[str, t.Any], key: str) -> str:
    return str(live.get(key) or "")


def _text(raw: t.Any, key: str) -> str | None:
    value = raw.get(key) if isinstance(raw, t.Mapping) else None
    return value if isinstance(value, str) else None


def digest(members: t.Iterable[t.Mapping[str, t.Any]]) -> str:
    """What a plan depends on that another run could have changed: the members of the host, of all groups, and what each holds.

    `members` are labels. Module `members` computes the same under the host's lock and refuses a plan that has gone stale."""
    return _hash(_held(members))


def digest_of_group(group: str, members: t.Iterable[t.Mapping[str, t.Any]], noted: t.Mapping[str, t.Any] | None) -> str:
    """The same of one group: its members here, and which formation, serial and tombstones its record tells of. `members` are the labels of
    all groups."""
    record_ = noted or {}
    about = [record_.get(key) for key in ("formation", "generation", "serial", "revision")]
    graves = sorted(str(one.get("host")) for one in record_.get("tombstones") or ())
    return _hash([_held(m for m in members if m["group"] == group), about, graves])


def _held(members: t.Iterable[t.Mapping[str, t.Any]]) -> list[t.Any]:
    return sorted(
        [
            str(m["group"]),
            str(m["member"]),
            str(m["revision"]),
            int(m["generation"]),
            str(m.get("formation") or ""),
            int(m.get("port") or 0),
            [str(g) for g in m.get("gpus") or ()],
        ]
        for m in members
    )


def _hash(value: t.Any) -> str:
    return hashlib.sha256(json.dumps(value, separators=(",", ":")).encode()).hexdigest()[:16]


# The digest of a group of which a host has nothing.
EMPTY = digest_of_group("", (), None)
