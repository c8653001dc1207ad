# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan as a value: who there is after a run, what the router does, the steps in order, and each place's slice.

It becomes an object of JSON at two borders alone: as an action's result or argument (`Plan`), and as a module's argument (`Share`)."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field, replace

from ..base.errors import PdError
from ..base.plain import IF_ANY, Plain, every, name, names, reading, texts, to_plain
from ..facts.stands import name_of
from ..hooks.hook import Hooked
from ..spec.workload import of_plan
from ..work.member import Bands, Member
from ..work.share import Seen, Share, Slice, Upstream

_WAY_OUT = "Give it the plan that group_plan returned, whole."


@dataclass(frozen=True)
class Step:
    """One thing that a run does. `phase` is when: phases are barriers across hosts."""

    phase: str
    do: str
    member: str | None
    host: str | None
    why: str


@dataclass(frozen=True)
class Peer:
    """An engine as the router knows it. `member` is its id, `ports` its bands."""

    member: str
    role: str
    url: str | None
    ports: Bands
    address: str | None
    port: int

    @classmethod
    def from_plain(cls, raw: Plain) -> Peer:
        return cls(
            raw["member"], raw["role"], raw.get("url"), raw.get("ports") or {}, raw.get("address"), raw.get("port") or 0
        )


@dataclass(frozen=True)
class Start:
    """Which start of a member a router was told of: how often its process was started, which one it is, and since when. What an earlier
    version noted has none of it."""

    restarts: int | None = None
    pid: int | None = None
    started: float | None = None

    @classmethod
    def from_plain(cls, raw: Plain) -> Start:
        return cls(raw.get("restarts"), raw.get("pid"), raw.get("started"))

    @classmethod
    def seen(cls, raw: Plain) -> Start:
        """Of what a wait saw of a member."""
        return cls(int(raw.get("restarts") or 0), raw.get("pid"), raw.get("since"))


@dataclass(frozen=True)
class PeerArgv:
    """The words of a router's command line that name one peer."""

    member: str
    argv: tuple[str, ...]


@dataclass(frozen=True)
class RouterStep:
    """What a run does about the router. `step` is none, register, replace or operator, and `why`.

    Under membership dynamic: `add` and `remove` are what its API is told, `spare` are URLs on hosts that do not answer, which stay; `clean`
    says that it was seen, when the plan was made, to name nobody that is gone after it, `read` that what it has could be read at all.

    Under membership restart, when it is replaced is data, and evaluated when it is known who is ready: `early` are the peers of one that is
    replaced before anything stops or starts (None: it is not), `late` whether it is (also) replaced once the engines were waited for,
    `hold` whether only if all that are wanted are ready; `peer_argv` is the end of its command line, peer by peer, and `starts` which start
    of each it is told of.

    Under membership manual `first` are the peers that an operator applies before this run."""

    member: Member | None = None
    peers: tuple[Peer, ...] = ()
    policy: str | None = None
    dialect: str | None = None
    gives_up: str = ""
    step: str = "none"
    why: str = ""
    model: str = ""
    add: tuple[Peer, ...] = ()
    remove: tuple[str, ...] = ()
    spare: tuple[str, ...] = ()
    starts: t.Mapping[str, Start] = field(default_factory=dict)
    early: tuple[str, ...] | None = None
    late: bool = False
    hold: bool = False
    clean: bool = False
    read: bool = True
    peer_argv: tuple[PeerArgv, ...] = ()
    first: tuple[Peer, ...] | None = None

    @property
    def through(self) -> tuple[str, ...]:
        """The inventory host that carries out the router's steps."""
        return tuple(dict.fromkeys(part.through for part in self.member.parts)) if self.member else ()

    @classmethod
    def from_plain(cls, raw: Plain, whole: bool = True) -> RouterStep:
        """`whole`: with what only its own host needs: the peers, and which start of each it is told of."""
        member, early, first = raw.get("member"), raw.get("early"), raw.get("first")
        if not whole:
            raw = {key: value for key, value in raw.items() if key not in ("peers", "add", "starts", "peer_argv")}
        return cls(
            member=Member.from_plain(member) if member else None,
            peers=tuple(Peer.from_plain(one) for one in every(raw, "peers")),
            policy=raw.get("policy"),
            dialect=raw.get("dialect"),
            gives_up=raw.get("gives_up") or "",
            step=raw.get("step") or "none",
            why=raw.get("why") or "",
            model=raw.get("model") or "",
            add=tuple(Peer.from_plain(one) for one in every(raw, "add")),
            remove=texts(raw, "remove"),
            spare=texts(raw, "spare"),
            starts={name: Start.from_plain(one) for name, one in (raw.get("starts") or {}).items()},
            early=None if early is None else tuple(early),
            late=bool(raw.get("late")),
            hold=bool(raw.get("hold")),
            clean=bool(raw.get("clean")),
            read=bool(raw.get("read", True)),
            peer_argv=tuple(PeerArgv(one["member"], texts(one, "argv")) for one in every(raw, "peer_argv")),
            first=None if first is None else tuple(Peer.from_plain(one) for one in first),
        )


@dataclass(frozen=True)
class Endpoint:
    """The one address that clients use, and the name that it serves."""

    url: str | None = None
    served_model_name: str | None = None


@dataclass(frozen=True)
class Proof:
    """What the proof needs of the mode: how the two hops are sent, which counters say that the KV cache moved, and whether both answers
    must be the same text."""

    handoff: str | None = None
    counters: Plain = field(default_factory=dict)
    exact_text: bool = False

    @classmethod
    def from_plain(cls, raw: Plain) -> Proof:
        return cls(raw.get("handoff"), raw.get("counters") or {}, bool(raw.get("exact_text")))


@dataclass(frozen=True)
class Renewal:
    """One round of members that serve and are started anew for others that come (renewal.py). `members` are as they are started; `because`
    are those that they must forget, of which one must be ready; `leaves` are the URLs that leave the router before, `peers` are whom it may
    have meanwhile."""

    members: tuple[Member, ...]
    because: tuple[str, ...]
    leaves: tuple[str, ...] = ()
    peers: tuple[Peer, ...] = ()

    @classmethod
    def from_plain(cls, raw: Plain) -> Renewal:
        return cls(
            members=tuple(Member.from_plain(one) for one in every(raw, "members")),
            because=names(raw, "because"),
            leaves=texts(raw, "leaves"),
            peers=tuple(Peer.from_plain(one) for one in every(raw, "peers")),
        )


# The number of the first round of retirement, whatever there is of rounds of renewal.
RETIRES = 1000


@dataclass(frozen=True)
class Retirement:
    """One round of members that stop once those that came in their place serve (retirement.py): ids by place, and the URLs that leave the
    router before."""

    members: t.Mapping[str, tuple[str, ...]]
    leaves: tuple[str, ...] = ()

    @classmethod
    def from_plain(cls, raw: Plain) -> Retirement:
        return cls({place: tuple(ids) for place, ids in raw["members"].items()}, texts(raw, "leaves"))


@dataclass(frozen=True)
class Lost:
    """A host that is stated to be lost, for the fence command: its machine, its address, and what it had."""

    host: str
    machine: str | None
    address: str | None
    members: tuple[str, ...]

    @classmethod
    def from_plain(cls, raw: Plain) -> Lost:
        return cls(raw["host"], raw.get("machine"), raw.get("address"), texts(raw, "members"))


@dataclass(frozen=True)
class Plan:
    """What a run does with one workload. `group` is its name, `kind` what it is: group or cache. `hold` is for how many seconds at most
    members of it drain and stop; `unknown` are ids of members that nobody can ask; `moved` is what has changed on hosts under an unchanged
    spec. `record` is what is kept, `diff` what a person reads. Of a cache service alone: `cache`, its entry and who uses it, and
    `clients_restart`, whether these must start anew after it."""

    group: str
    kind: str
    action: str
    run: str
    mode: str | None
    runtime: str | None
    revision: str | None
    formation: str | None
    generation: int
    pending: bool = False
    changed: bool = False
    readiness: str = "all"
    desired: t.Mapping[str, int] = field(default_factory=dict)
    members: tuple[Member, ...] = ()
    router: RouterStep = RouterStep()
    steps: tuple[Step, ...] = ()
    endpoint: Endpoint = Endpoint()
    hosts: t.Mapping[str, Slice] = field(default_factory=dict)
    proof: Proof = Proof()
    unknown: tuple[str, ...] = ()
    moved: tuple[str, ...] = ()
    hold: float = 0
    fence: tuple[Lost, ...] = ()
    upstream: tuple[Upstream, ...] = ()
    record: Plain = field(default_factory=dict)
    diff: tuple[Plain, ...] = ()
    kv_cache: Plain | None = None
    # Locks of runs of this controller that are dead: hosts cannot see that they are.
    dead_locks: tuple[str, ...] | None = field(default=None, metadata=IF_ANY)
    cache: Plain | None = field(default=None, metadata=IF_ANY)
    clients_restart: bool | None = field(default=None, metadata=IF_ANY)
    # What is done about hooks of the endpoint. None where the group has none, and is known by none.
    hooks: tuple[Hooked, ...] | None = field(default=None, metadata=IF_ANY)
    # Rounds in which members that serve are started anew, after all others are up. None where there is none.
    renew: tuple[Renewal, ...] | None = field(default=None, metadata=IF_ANY)
    # Rounds in which members stop whose place others have taken, after these serve; and the record until they have. None where nobody does.
    retire: tuple[Retirement, ...] | None = field(default=None, metadata=IF_ANY)
    meanwhile: Plain | None = field(default=None, metadata=IF_ANY)
    # There is another stand of the group: hooks are given this one, and it is never taken from them, since that would be the other.
    spare: bool | None = field(default=None, metadata=IF_ANY)
    # What runs is given time to end before anything stops, although no hook is told: clients have been sent elsewhere before.
    drains: bool | None = field(default=None, metadata=IF_ANY)

    @property
    def name(self) -> str:
        """What its user calls it; `group` is what hosts do."""
        return name_of(self.group)

    @property
    def engines(self) -> tuple[Member, ...]:
        """Every member but the router."""
        return tuple(m for m in self.members if m.role != "router")

    def of(self, phase: str) -> tuple[Member, ...]:
        """The members that a phase of starting or waiting is about: the router, or all others."""
        return tuple(m for m in self.members if (m.role == "router") == (phase == "router"))

    @property
    def through(self) -> tuple[str, ...]:
        """The inventory hosts that carry it out."""
        return tuple(dict.fromkeys(one.through for one in self.hosts.values()))

    @property
    def hook_hosts(self) -> tuple[str, ...]:
        """The inventory hosts whose hooks it tells, or may: they take no lock, and hold no record."""
        return tuple(sorted({host for one in self.hooks or () for host in one.hosts}))

    def share(self, through: str) -> Share | None:
        """What one inventory host carries out; None for one that the plan does not name."""
        mine = {place: one for place, one in self.hosts.items() if one.through == through}
        if not mine:
            return None
        return Share(
            group=self.group,
            runtime=self.runtime,
            run=self.run,
            formation=self.formation,
            generation=self.generation,
            revision=self.revision,
            action=self.action,
            record=self.meanwhile or self.record,
            members=tuple(m for m in self.members if m.through(through)),
            hosts=mine,
            upstream=self.upstream,
        )

    @property
    def rounds(self) -> tuple[int, ...]:
        """The numbers of its rounds: of renewal, then of retirement."""
        retirements = range(RETIRES, RETIRES + len(self.retire or ()))
        return (*range(len(self.renew or ())), *retirements)

    def round(self, number: int) -> Plan:
        """What is done in one round, as a plan of its own. Every host is in it, since all keep the lock. Raises PdError for a round that
        there is none of."""
        if number not in self.rounds:
            raise PdError(f"The plan of {self.group} has no round {number}. {_WAY_OUT}")
        return self._retired(number - RETIRES) if number >= RETIRES else self._renewed(number)

    def _retired(self, number: int) -> Plan:
        """One round of retirement: its members leave the router, and stop."""
        one = (self.retire or ())[number]
        router = self.router
        name, host = (router.member.id, router.member.leader.host) if router.member else (None, None)
        steps = [Step("leave", "deregister", name, host, f"{url} leaves the router") for url in one.leaves]
        steps += [Step("stop", "remove", i, place, "it retires") for place, ids in one.members.items() for i in ids]
        hosts = {
            place: replace(here, absent=one.members.get(place, ()), create=(), adopt=(), holds=(), observed=Seen())
            for place, here in self.hosts.items()
        }
        return replace(
            self,
            members=tuple(m for m in self.members if m.role == "router"),
            router=replace(router, remove=one.leaves, early=None, late=False),
            steps=tuple(steps),
            hosts=hosts,
            renew=None,
            retire=None,
            diff=(),
        )

    def _renewed(self, number: int) -> Plan:
        """One round of renewal: its members leave the router, stop, start and come back."""
        one = (self.renew or ())[number]

        def slice_of(place: str, here: Slice) -> Slice:
            mine = tuple(m.id for m in one.members if m.at(place) is not None)
            return replace(here, absent=mine, create=mine, adopt=(), holds=(), observed=Seen())

        router = self.router
        dynamic = bool(one.leaves and router.member)
        told = replace(
            router,
            step="register" if dynamic else "none",
            peers=one.peers,
            add=tuple(p for p in one.peers if p.member in {m.id for m in one.members}),
            remove=one.leaves,
            early=None,
            late=False,
        )
        name, host = (router.member.id, router.member.leader.host) if router.member else (None, None)
        steps = [Step("leave", "deregister", name, host, f"{url} leaves the router") for url in one.leaves]
        steps += [Step("stop", "remove", m.id, m.leader.host, "it is renewed") for m in one.members]
        steps += [Step("start", "replace", m.id, m.leader.host, "it is renewed") for m in one.members]
        steps += [Step("register", "register", name, host, "it is back")] if dynamic else []
        return replace(
            self,
            members=(*one.members, *(m for m in self.members if m.role == "router")),
            router=told,
            steps=tuple(steps),
            hosts={place: slice_of(place, here) for place, here in self.hosts.items()},
            renew=None,
            retire=None,
            hooks=None,
            diff=(),
        )

    def with_diff(self, diff: t.Iterable[Plain]) -> Plan:
        return replace(self, diff=tuple(diff))

    def to_plain(self) -> dict[str, t.Any]:
        return t.cast("dict[str, t.Any]", to_plain(self))

    @classmethod
    def from_plain(cls, raw: Plain, through: str | None = None) -> Plan:
        """A plan as a run has registered it. With `through`, only what this inventory host carries out is read: each host asks for its
        own, and all of them together for little more than the whole."""
        with reading("The plan", _WAY_OUT):
            return cls._read(raw, through)

    @classmethod
    def _read(cls, raw: Plain, through: str | None) -> Plan:
        members = [one for one in every(raw, "members") if through is None or _through(one, through)]
        slices = {
            place: one
            for place, one in (raw.get("hosts") or {}).items()
            if through in (None, one.get("through") or place)
        }
        endpoint, dead, router = raw.get("endpoint") or {}, raw.get("dead_locks"), raw.get("router") or {}
        whole = through is None or bool(router.get("member") and _through(router["member"], through))
        return cls(
            group=name(raw, "group"),
            kind=of_plan(raw).name,
            action=raw.get("action") or "deploy",
            run=raw.get("run") or "",
            mode=raw.get("mode"),
            runtime=raw.get("runtime"),
            revision=raw.get("revision"),
            formation=raw.get("formation"),
            generation=raw.get("generation") or 0,
            pending=bool(raw.get("pending")),
            changed=bool(raw.get("changed")),
            readiness=raw.get("readiness") or "any_per_role",
            desired={role: int(count) for role, count in (raw.get("desired") or {}).items()},
            members=tuple(Member.from_plain(one) for one in members),
            router=RouterStep.from_plain(router, whole),
            steps=tuple(
                Step(one["phase"], one["do"], one.get("member"), one.get("host"), one.get("why") or "")
                for one in (every(raw, "steps") if through is None else ())
            ),
            endpoint=Endpoint(endpoint.get("url"), endpoint.get("served_model_name")),
            hosts={place: Slice.from_plain(place, one) for place, one in slices.items()},
            proof=Proof.from_plain(raw.get("proof") or {}),
            unknown=names(raw, "unknown"),
            moved=texts(raw, "moved"),
            hold=float(raw.get("hold") or 0),
            fence=tuple(Lost.from_plain(one) for one in every(raw, "fence")),
            upstream=tuple(Upstream.from_plain(one) for one in every(raw, "upstream")),
            record=raw.get("record") or {},
            diff=every(raw, "diff"),
            kv_cache=raw.get("kv_cache"),
            dead_locks=None if dead is None else tuple(dead),
            cache=dict(raw["cache"]) if raw.get("cache") else None,
            clients_restart=raw.get("clients_restart"),
            hooks=tuple(Hooked.from_plain(one) for one in raw["hooks"]) if raw.get("hooks") else None,
            renew=tuple(Renewal.from_plain(one) for one in raw["renew"])
            if raw.get("renew") and through is None
            else None,
            retire=tuple(Retirement.from_plain(one) for one in raw["retire"]) if raw.get("retire") else None,
            meanwhile=raw.get("meanwhile"),
            spare=raw.get("spare"),
            drains=raw.get("drains"),
        )


def _through(member: Plain, host: str) -> bool:
    """Whether an inventory host carries out a part of a member that has not been read."""
    return any((part.get("through") or part["host"]) == host for part in member["parts"])


def locked_in_order(raw: Plain) -> list[str]:
    """The inventory hosts of a plan that has not been read, in the order in which they are locked."""
    with reading("The plan", _WAY_OUT):
        return sorted({one.get("through") or place for place, one in (raw.get("hosts") or {}).items()})
