# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Observed hosts: the `pd_host` facts of each, read and checked once, into the values that everything on the controller works with."""

from __future__ import annotations

import contextlib
import hashlib
import json
import typing as t
from dataclasses import dataclass, field, replace

from ..base.checked import PORTS, Checked, DamagedError
from ..base.errors import PdError
from ..base.values import integer
from . import label as labels
from . import lock, record
from .cordon import Cordon
from .kv_interface import PLANES, Interface, KvInterface, RdmaPort
from .label import Label
from .record import Record

DEFAULT_PORT_RANGE = "40000-40063"
# States in which a member's process is there (or its runtime is bringing it back).
ALIVE = ("running", "restarting")
# Entries of one fact.
_MOST = 100_000


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
class Doubt:
    """Why the answers of a member that serves may be wrong: what its log says, how often, and what to do."""

    line: str
    meaning: str
    advice: str
    count: int

    @classmethod
    def read(cls, value: Checked) -> Doubt:
        return cls(
            line=value.text("line", required=False),
            meaning=value.text("meaning", required=False),
            advice=value.text("advice", required=False),
            count=value.number("count", 0, 10**9, default=1),
        )


@dataclass(frozen=True)
class Now:
    """How a member is, as its host's runtime tells. `state` is running, restarting, stuck (its process lives and will never serve), exited
    or missing. `since` is in seconds of the epoch. `draining`: a run has begun to take it away, and it goes on leaving, whoever runs next.
    `carried` is the formation of the process that listens on its port, where that process is the member's own. `registered` are the URLs in
    a router's registry, None where that could not be read, and `unread` why."""

    state: str = "missing"
    ready: bool = False
    reason: str = ""
    log_line: str = ""
    log: str | None = None
    pid: int | None = None
    restarts: int = 0
    since: float | None = None
    draining: bool = False
    unlabelled: bool = False
    carried: str | None = None
    registered: tuple[str, ...] | None = None
    doubt: Doubt | None = None
    unread: str = ""

    @classmethod
    def read(cls, value: Checked, member: str) -> Now:
        serves = value.text("listener_member", required=False) == member
        registry = value.raw.get("registered")
        return cls(
            state=value.text("state", required=False) or "missing",
            ready=bool(value.raw.get("ready")),
            reason=value.text("why", required=False),
            log_line=value.text("log_line", required=False),
            log=_maybe(value, "log"),
            pid=value.maybe("pid", 0, 2**31),
            restarts=value.number("restarts", 0, 10**9, default=0),
            since=value.moment("since") or None,
            draining=bool(value.raw.get("draining")),
            unlabelled=bool(value.raw.get("unlabelled")),
            carried=_maybe(value, "formation") if serves else None,
            registered=None if registry is None else tuple(peer.text("url") for peer in value.each("registered")),
            doubt=Doubt.read(value.within("doubt")) if value.raw.get("doubt") else None,
            unread=value.text("registered_why", required=False),
        )


@dataclass(frozen=True)
class LiveMember:
    """A member that a host reports: what its label says it was started as, and how it is now. Its own fields are those that are asked for
    over and over."""

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
    label: Label
    now: Now

    @classmethod
    def of(cls, host: str, label: Label, now: Now) -> LiveMember:
        return cls(
            id=label.member,
            group=label.group,
            role=label.role,
            index=label.index,
            host=host,
            revision=label.revision,
            generation=label.generation,
            formation=label.formation,
            state=now.state,
            ready=now.ready,
            ports=frozenset(label.ports),
            gpus=label.gpus,
            label=label,
            now=now,
        )

    @property
    def alive(self) -> bool:
        return self.state in ALIVE

    @property
    def draining(self) -> bool:
        return self.now.draining

    @property
    def why(self) -> str:
        """Why it does not serve, as a person is told it: its host's reason, and how its log ends. Empty where there is no reason."""
        why, line = self.now.reason, self.now.log_line
        return f"{why}; its log ends with: {line}" if why and line else why

    @property
    def condition(self) -> str:
        """What a person is told of it, a group's member or an instance of a cache service: draining, ready, loading (its process runs, and
        does not serve yet), else its state."""
        if self.draining:
            return "draining"
        if self.alive and self.ready:
            return "ready"
        return "loading" if self.state == "running" else self.state


# The tools of drivers that show a host's GPUs.
GPU_TOOLS = ("nvidia-smi", "rocm-smi", "npu-smi")


@dataclass(frozen=True)
class Gpu:
    """A GPU of a host. `uuid` is the driver's name for it, where that is another than `id`."""

    id: str
    model: str | None = None
    vendor: str | None = None
    uuid: str | None = None

    @classmethod
    def read(cls, value: Checked) -> Gpu:
        # Users write them as well (pd_gpus), and YAML makes a number of some names.
        told = (value.word(key) if value.raw.get(key) is not None else "" for key in ("model", "vendor", "uuid"))
        return cls(value.word("id"), *(word or None for word in told))


@dataclass(frozen=True)
class Used:
    """A port that something listens on, and who: a member, or a process as far as it can be seen."""

    port: int
    member: str | None = None
    command: str | None = None
    pid: int | None = None

    @classmethod
    def read(cls, value: Checked) -> Used:
        member, command = (value.text(key, required=False) or None for key in ("member", "command"))
        return cls(value.number("port", 1, PORTS), member, command, value.maybe("pid", 0, 2**31))


Facts = t.Mapping[str, t.Any]


@dataclass(frozen=True)
class Node:
    """What a place is in its cluster, the inventory host `cluster`: its labels, under which names it gives GPUs and RDMA devices to Pods,
    whether its kubelet reports, and whether anything of ours has `looked` around on it: the API knows no model, and no interface of a
    node."""

    cluster: str
    labels: t.Mapping[str, str] = field(default_factory=dict)
    gpu_resource: str | None = None
    rdma_resource: str | None = None
    ready: bool = True
    looked: bool = False

    @classmethod
    def read(cls, value: Checked) -> Node:
        given = value.raw.get("labels")
        labels = {str(key): str(one) for key, one in given.items()} if isinstance(given, t.Mapping) else {}
        return cls(
            cluster=value.text("cluster"),
            labels=labels,
            gpu_resource=_maybe(value, "gpu_resource"),
            rdma_resource=_maybe(value, "rdma_resource"),
            ready=bool(value.raw.get("ready", True)),
            looked=bool(value.raw.get("looked")),
        )


@dataclass(frozen=True)
class Host:
    """One host's facts, each read and checked. `unread` says of those that could not be believed what is wrong: they are as if not there.
    `plain` are the facts as they came."""

    name: str
    address: str | None
    kv: KvInterface
    gpus: tuple[Gpu, ...]
    port_low: int
    port_high: int
    used: t.Mapping[int, Used]
    members: list[LiveMember]
    records: dict[str, Record]
    # How many ports of the range the kernel may give to outgoing connections, and from which range it takes these.
    exposed: int = 0
    ephemeral: tuple[int, ...] = ()
    interfaces: tuple[Interface, ...] = ()
    # The RDMA devices by name, whether or not an interface stands on them; None where nobody has looked.
    rdma_devices: tuple[str, ...] | None = None
    damaged: list[Damage] = field(default_factory=list)
    holds: tuple[Hold, ...] = ()
    elsewhere: tuple[Elsewhere, ...] = ()
    # Who changes which group now.
    locks: t.Mapping[str, Facts] = field(default_factory=dict)
    # GPUs that processes use of which no label tells: (gpu, the member that such a process says it is, if any).
    busy_gpus: tuple[tuple[str, str | None], ...] = ()
    # The drivers' tools that were found; None where nobody looked, as where the inventory says which GPUs there are.
    gpu_tools: tuple[str, ...] | None = None
    machine: Machine = Machine()
    # Which state folder it is: the same one under two names is one place.
    state: Facts = field(default_factory=dict)
    state_dir: str | None = None
    # What a plan rests on: of each group, and where it takes places what the members of each hold (None: the host does not say).
    digests: t.Mapping[str, str] = field(default_factory=dict)
    held: t.Mapping[str, str] | None = None
    # Why nobody is seated here; None where members may come.
    cordon: Cordon | None = None
    models: t.Mapping[str, Facts] = field(default_factory=dict)
    executables: t.Mapping[str, Facts] = field(default_factory=dict)
    images: t.Mapping[str, Facts] = field(default_factory=dict)
    runtimes: t.Mapping[str, Facts] = field(default_factory=dict)
    # Of a place in a cluster; None for a host that carries out its own.
    node: Node | None = None
    unread: tuple[str, ...] = ()
    # The host as a mode sees it for which another KV interface is right, by what it needs of it.
    planes: t.Mapping[str, Host] = field(default_factory=dict, repr=False, compare=False)
    plain: Facts = field(default_factory=dict, repr=False, compare=False)

    def under(self, cordon: Cordon) -> Host:
        """The same host, cordoned. What it says of that itself stays."""
        if self.cordon is not None:
            return self
        planes = {plane: replace(other, cordon=cordon) for plane, other in self.planes.items()}
        return replace(self, cordon=cordon, planes=planes)

    @property
    def through(self) -> str:
        """The inventory host that carries out what is planned for this one: itself, or its cluster."""
        return self.node.cluster if self.node else self.name

    def digest_of(self, group: str) -> str:
        """What of this host a plan for `group` rests on when it takes no place there."""
        return self.digests.get(group) or EMPTY

    def digest_beside(self, groups: t.Collection[str]) -> str | None:
        """What of this host a plan rests on that takes places there: what all but these groups hold."""
        return None if self.held is None else _beside(self.held, groups)

    @property
    def kv_address(self) -> str | None:
        return self.kv.address

    @property
    def kv_names(self) -> tuple[str, ...]:
        return self.kv.names

    @property
    def kv_devices(self) -> tuple[str, ...]:
        return self.kv.rdma_devices

    @property
    def kv_error(self) -> str | None:
        return self.kv.error

    @property
    def rdma_ports(self) -> list[RdmaPort]:
        """The RDMA ports behind the KV interface, active or not."""
        return [port for one in self.interfaces if one.name in self.kv.names for port in one.rdma_ports]

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
        return {address for one in self.interfaces for address in one.addresses}

    def model(self, path: str) -> Facts:
        return self.models.get(path) or {}

    def executable(self, path: str) -> Facts:
        return self.executables.get(path) or {}

    def image(self, name: str) -> Facts:
        found = self.images.get(name) or {}
        # What a node will have is what the reference says, if it says so.
        pinned = name.partition("@")[2] if self.node is not None else ""
        return {"digest": pinned, **found} if pinned else found

    def runtime(self, name: str) -> Facts:
        return self.runtimes.get(name) or {}


def parse_range(text: str, where: str) -> tuple[int, int]:
    """(low, high) of a port range such as "40000-40063", both inclusive. Raises PdError naming `where`."""
    low, high = (integer(end) or 0 for end in (str(text).partition("-")[0], str(text).partition("-")[2]))
    if not 1024 <= low <= high <= PORTS:
        raise PdError(
            f"{where}: {text!r} is no port range. Write it as 40000-40063, between 1024 and 65535, the lower first."
        )
    return low, high


def read_host(name: str, raw: t.Any, reader: record.Reader | None = None) -> Host:
    """One `pd_host`, as module host_facts returns it, into a Host. What cannot be believed harms that one fact, or the member or group of
    that label or record, and the rest is read all the same. Where many hosts are read, all have one `reader`. Raises PdError for a port
    range that is none: users write it."""
    facts = _Facts(name, raw)
    ports, kv = facts.within("ports"), facts.within("kv_interface")
    low, high = parse_range(ports.raw.get("range") or DEFAULT_PORT_RANGE, f"pd_port_range of {name}")
    damaged = facts.each("damaged", _damage)
    host = Host(
        name=name,
        address=facts.text("address"),
        kv=_kv(kv),
        gpus=tuple(facts.each("gpus", Gpu.read)),
        port_low=low,
        port_high=high,
        used={one.port: one for one in ports.each("used", Used.read)},
        exposed=ports.value(lambda value: value.maybe("exposed", 0, PORTS) or 0) or 0,
        ephemeral=ports.value(lambda value: value.ports("ephemeral")) or (),
        interfaces=tuple(facts.each("interfaces", Interface.read)),
        rdma_devices=facts.value(lambda value: value.texts("rdma_devices") if "rdma_devices" in value.raw else None),
        members=_members(name, facts.items("members"), damaged),
        records=_records(name, facts.mapping("records"), damaged, reader or record.Reader()),
        damaged=damaged,
        holds=tuple(facts.each("holds", read_hold)),
        elsewhere=tuple(facts.each("elsewhere", _elsewhere)),
        busy_gpus=tuple(facts.each("gpu_processes", lambda value: (value.word("gpu"), _maybe(value, "member")))),
        gpu_tools=facts.value(lambda value: value.texts("gpu_tools"))
        if facts.raw.get("gpu_tools") is not None
        else None,
        locks=_locks(facts),
        machine=Machine(*(facts.within("machine").text(key) for key in ("id", "boot", "netns"))),
        state=facts.mapping("state"),
        state_dir=facts.text("state_dir"),
        digests={str(group): str(digest) for group, digest in facts.mapping("digests").items()},
        held={str(group): str(digest) for group, digest in facts.mapping("held").items()}
        if "held" in facts.raw
        else None,
        cordon=facts.value(lambda value: Cordon.read(value.within("cordon")) if value.raw.get("cordon") else None),
        models=facts.mappings("models"),
        executables=facts.mappings("executables"),
        images=facts.mappings("images"),
        runtimes=facts.mappings("runtimes"),
        node=facts.value(lambda value: Node.read(value.within("node")) if value.raw.get("node") else None),
        unread=tuple(dict.fromkeys(facts.unread)),
        plain=facts.raw,
    )
    told = facts.within("kv_interfaces")
    of_planes = {plane: _kv(told.within(plane)) for plane in PLANES if plane in told.raw}
    other = {plane: replace(host, kv=its) for plane, its in of_planes.items() if its != host.kv}
    return replace(host, planes=other) if other else host


def on_plane(hosts: t.Mapping[str, Host], plane: str) -> t.Mapping[str, Host]:
    """The hosts as a mode sees them that needs this of their KV interface."""
    if not any(plane in host.planes for host in hosts.values()):
        return hosts
    return {name: host.planes.get(plane, host) for name, host in hosts.items()}


def _kv(facts: _Facts) -> KvInterface:
    return facts.whole(
        KvInterface.read, lambda why: KvInterface(error=f"what it says of its KV interface cannot be read: {why}.")
    )


_T = t.TypeVar("_T")


class _Facts:
    """Reads the facts of one host, each by itself. One that cannot be believed is as if it were not there, and `unread` says why."""

    def __init__(self, host: str, raw: t.Any, within: str = "", unread: list[str] | None = None) -> None:
        self.host, self.place = host, within
        self.unread: list[str] = [] if unread is None else unread
        try:
            self._checked = Checked({} if raw is None else raw, f"pd_host of {host}", within)
        except DamagedError as exc:
            self._checked = Checked({}, f"pd_host of {host}", within)
            self.unread.append(exc.why)
        self.raw = self._checked.raw

    def value(self, read: t.Callable[[Checked], _T]) -> _T | None:
        try:
            return read(self._checked)
        except DamagedError as exc:
            self.unread.append(exc.why)
            return None

    def whole(self, read: t.Callable[[Checked], _T], otherwise: t.Callable[[str], _T]) -> _T:
        """All of these facts as one value; where one of them cannot be believed, what `otherwise` makes of the reason."""
        before = len(self.unread)
        found = self.value(read)
        return otherwise(self.unread[before]) if found is None else found

    def text(self, key: str) -> str | None:
        return self.value(lambda value: value.text(key, required=False)) or None

    def items(self, key: str) -> t.Sequence[t.Any]:
        return self.value(lambda value: value.items(key, _MOST)) or ()

    def mapping(self, key: str) -> Facts:
        return self.value(lambda value: value.mapping(key)) or {}

    def mappings(self, key: str) -> dict[str, Facts]:
        """A mapping of names to facts."""
        found = self.within(key)
        return {str(name): found.mapping(name) for name in found.raw}

    def each(self, key: str, read: t.Callable[[Checked], _T]) -> list[_T]:
        """What each entry of a list says, without those that cannot be believed."""
        found = []
        for at, one in enumerate(self.items(key)):
            try:
                found.append(read(Checked(one, self._checked.where, f"{self.place}{key}[{at}].")))
            except DamagedError as exc:
                self.unread.append(exc.why)
        return found

    def within(self, key: str) -> _Facts:
        return _Facts(self.host, self.raw.get(key), f"{self.place}{key}.", self.unread)


def _maybe(value: Checked, key: str) -> str | None:
    return value.text(key, required=False) or None


def _damage(value: Checked) -> Damage:
    return Damage(value.text("path"), value.text("why"), _maybe(value, "group"), _maybe(value, "member"))


def read_hold(value: Checked) -> Hold:
    return Hold(value.text("group"), value.text("member"), _maybe(value, "formation"), value.ports("ports"))


def _elsewhere(value: Checked) -> Elsewhere:
    return Elsewhere(
        value.text("member"), value.text("state_dir"), _maybe(value, "group"), value.texts("gpus"), value.ports("ports")
    )


def _members(host: str, raw: t.Iterable[t.Mapping[str, t.Any]], damaged: list[Damage]) -> list[LiveMember]:
    found = []
    for one in raw:
        told = one.get("label") if isinstance(one, t.Mapping) else None
        try:
            label = labels.read(told, f"the label of {_text(told, 'member')}")
            now = Now.read(Checked(one, f"what {host} says of {label.member}"), label.member)
        except DamagedError as exc:
            damaged.append(Damage(exc.where, exc.why, _text(told, "group"), _text(told, "member")))
            continue
        found.append(LiveMember.of(host, label, now))
    return found


def _records(host: str, raw: t.Mapping[str, t.Any], damaged: list[Damage], reader: record.Reader) -> dict[str, Record]:
    found = {}
    for group, told in raw.items():
        try:
            found[str(group)] = reader.read(str(group), told, host)
        except DamagedError as exc:
            damaged.append(Damage(exc.where, exc.why, str(group)))
    return found


def _locks(facts: _Facts) -> dict[str, Facts]:
    """Locks by group; a version that kept them in the record told them there. One that cannot be believed holds nobody up, here as on its
    host."""
    old = {
        group: noted.get("lock") for group, noted in facts.mapping("records").items() if isinstance(noted, t.Mapping)
    }
    found = {}
    for group, told in {**old, **facts.mapping("locks")}.items():
        with contextlib.suppress(DamagedError):
            found[str(group)] = lock.read(told, f"the lock of group {group}")
    return found


def _text(raw: t.Any, key: str) -> str | None:
    value = raw.get(key) if isinstance(raw, t.Mapping) else None
    return value if isinstance(value, str) else None


def held(members: t.Iterable[t.Mapping[str, t.Any]]) -> dict[str, str]:
    """A digest of each group that has members on the host: who they are, and what each holds. `members` are labels."""
    found: dict[str, list[t.Mapping[str, t.Any]]] = {}
    for one in members:
        found.setdefault(str(one["group"]), []).append(one)
    return {group: _hash(_held(mine)) for group, mine in sorted(found.items())}


def digest(members: t.Iterable[t.Mapping[str, t.Any]], but: t.Collection[str] = ()) -> str:
    """What a plan depends on that another run could have changed: the members of the host, of all groups but those that the run itself
    changes, and what each holds. `members` are labels.

    Module `members` computes it under the host's lock, and refuses a plan that has gone stale."""
    return _beside(held(members), but)


def _beside(told: t.Mapping[str, str], but: t.Collection[str]) -> str:
    return _hash(sorted([group, mine] for group, mine in told.items() if group not in but))


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
