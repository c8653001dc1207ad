# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a plan is made from: what is asked for, what there is of the group, and who stays, leaves and comes."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field, replace

from ..base.words import about, by_number
from ..cluster.places import cluster_of
from ..facts.applied import Applied
from ..facts.observed import Damage, Host, LiveMember
from ..facts.record import Record, ended_alike
from ..facts.stands import Beside
from ..facts.tombstone import Place, Tombstone
from ..recipes.catalogue import Catalogue
from ..spec.cache_service import CacheService
from ..spec.spec import Group
from ..template.cache_template import CacheTemplate
from ..template.template import GroupTemplate
from ..work.member import Member
from .hooks import NOTHING as NOT_WIRED
from .hooks import Wired
from .hosts import Hosts
from .reserved import NOTHING, Reserved

Action = t.Literal["deploy", "scale", "restart", "heal", "evacuate"]
# What a restart is onto: the spec, or a formation of the record (the one that runs, or the last one before it that was proven).
To = t.Literal["spec", "applied", "previous"]


_ABSENT, _LEFT_OUT, _SILENT = "is not in the inventory", "was left out of this run", "did not answer"
_NO_NODE = "is no node of its cluster"
_PASSED = "was not looked at in this run"
_HIDDEN = "does not show what it runs to this user"


@dataclass(frozen=True)
class Reach:
    """Which hosts could have answered: those of the inventory, and those that this run asked. None: nobody can say."""

    inventory: t.Collection[str] | None = None
    asked: t.Collection[str] | None = None
    # Those that answered, and of which nothing can be believed all the same: the state is another user's.
    hidden: t.Collection[str] = ()
    # Those that answered, and could not be looked at: what they complain of.
    complaints: t.Mapping[str, str] = field(default_factory=dict)
    # Those of the run that it did not look at, since nothing that it saw points at them (pointed.py).
    passed: t.Collection[str] = ()
    # The clusters that showed their nodes, which are hosts by the names CLUSTER/NODE.
    clusters: t.Collection[str] = ()

    def why(self, host: str) -> str:
        """Why nothing is known of a host, in words that follow its name."""
        if host in self.complaints:
            return self.complaints[host]
        if host in self.hidden:
            return _HIDDEN
        if self.inventory is not None and host not in self.inventory:
            cluster = cluster_of(host)
            if cluster:
                return _NO_NODE if cluster in self.clusters else self.why(cluster)
            return _ABSENT
        if host in self.passed:
            return _PASSED
        return _LEFT_OUT if self.asked is not None and host not in self.asked else _SILENT

    def told(self, unknown: t.Iterable[Place]) -> str:
        """The hosts that nothing is known of, why, and what they may run by the record."""
        hold: dict[str, list[str]] = {}
        for member in unknown:
            hold.setdefault(member.host, []).append(member.id)
        return self.of_hosts(hold)

    def of_hosts(self, hold: t.Mapping[str, t.Sequence[str]]) -> str:
        """The same, of hosts with the ids that they may run."""
        by_why: dict[str, list[str]] = {}
        for host in sorted(hold):
            by_why.setdefault(self.why(host), []).append(host)
        told = []
        for why, hosts in by_why.items():
            runs = [name for host in hosts for name in hold[host]]
            told.append(about(hosts, why) + (f" and may still run {', '.join(runs)}" if runs else ""))
        return "; ".join(told)

    def maybe_gone(self, hosts: t.Iterable[str]) -> list[str]:
        """Those that may be switched off for good. One that answers, or was not asked, lives for all that is known."""
        return [host for host in sorted(hosts) if self.why(host) in (_SILENT, _ABSENT, _NO_NODE)]

    def ways_out(self, hosts: t.Iterable[str]) -> str:
        """What brings these hosts back, each way once."""
        whys = [self.why(host) for host in sorted(hosts)]
        return " ".join(filter(None, (self.way_out(why, whys.count(why)) for why in dict.fromkeys(whys))))

    def way_out(self, why: str, hosts: int = 1) -> str:
        """What brings back so many hosts of which nothing is known for that reason."""
        it = by_number(hosts, "it", "them")
        return {
            _ABSENT: f"Put {it} back into the inventory (in AWX, enable {it}).",
            _NO_NODE: f"Let {it} join {by_number(hosts, 'its', 'their')} cluster again.",
            _LEFT_OUT: "Run without --limit, and with pd_hosts covering it.",
            _PASSED: "Run without pd_group: then every host of the play is looked at.",
            _SILENT: f"Bring the {by_number(hosts, 'host', 'hosts')} back.",
            _HIDDEN: "Run with become (ansible_become: true), as the user who deployed.",
        }.get(why, "")


EVERYWHERE = Reach()


@dataclass(frozen=True)
class Run:
    """What a run brings that no rule may draw by itself: `formation` is the identity of the formation that this plan may make, `nonce`
    names the run (its lock's), `now` is the controller's clock in seconds of the epoch, `by` who runs it."""

    formation: str
    nonce: str
    now: float = 0.0
    by: str = ""


@dataclass(frozen=True)
class Reality:
    """What a plan of whatever workload and action is made from beside its spec. `silent` are hosts of the workload that gave no facts;
    `lost` those that the user states are fenced, `away` those that the inventory says are out of service; `fence` is what makes sure that
    they are off, "" for nothing; `forget` are hosts whose tombstone ends. `users` are the groups that name a cache service; `reserved` is
    what plans made earlier in the same run take: plans are made in the order in which they are carried out."""

    hosts: Hosts
    run: Run
    silent: t.Collection[str] = ()
    lost: t.Collection[str] = ()
    away: t.Collection[str] = ()
    fence: str = ""
    forget: t.Collection[str] = ()
    reach: Reach = EVERYWHERE
    users: t.Sequence[str] = ()
    reserved: Reserved = NOTHING

    @property
    def gone(self) -> set[str]:
        """Hosts of which nothing is waited for: what they had is a matter of tombstones."""
        return {*self.lost, *self.away}


Workload = t.TypeVar("Workload", bound=t.Union[Group, CacheService])
Template = t.TypeVar("Template", bound=t.Union[GroupTemplate, CacheTemplate])


@dataclass(frozen=True)
class Asked(t.Generic[Workload, Template]):
    """What is asked for: a workload on the hosts of its roles' patterns (by role, resolved without --limit). `counts` is what `scale` asks
    for, `to` what a restart is onto, `release` whether a group that is held is held no more, `evacuated` are the hosts that `evacuate`
    empties: they are cordoned.

    `kept` is the formation of the record that the plan is made of in place of the spec: `workload` and `template` are then its own
    (source.py), and `waits` is what was asked for, whose spec waits for a restart. `unkept` is why it is not made of the record although
    the spec waits."""

    workload: Workload
    template: Template
    patterns: t.Mapping[str, t.Sequence[str]]
    action: Action
    reality: Reality
    counts: t.Mapping[str, int] = field(default_factory=dict)
    allow_scale_down: bool = False
    evacuated: t.Collection[str] = ()
    wired: Wired = NOT_WIRED
    to: To = "spec"
    release: bool = False
    # What a formation of the record can be carried by.
    catalogue: Catalogue | None = None
    beside: Beside | None = None
    kept: Applied | None = None
    waits: Asked[Workload, Template] | None = None
    unkept: str = ""

    @property
    def name(self) -> str:
        """What hosts know it by."""
        return self.workload.stand

    @property
    def hosts(self) -> Hosts:
        return self.reality.hosts

    def others(self, host: str) -> list[Member]:
        """The members that other plans of this run have on a host."""
        return self.reality.reserved.members(host, self.name)


# A group's, and a cache service's.
Request = Asked[Group, GroupTemplate]
ServiceRequest = Asked[CacheService, CacheTemplate]
AnyRequest = t.Union[Request, ServiceRequest]


@dataclass(frozen=True)
class Stray:
    """A member of the group's name that is none of the group: the record does not name it, or it is of another formation."""

    member: LiveMember
    why: str


@dataclass(frozen=True)
class Situation:
    """What there is of the workload: the members that count, those that nobody can ask, strays, and the record that holds."""

    noted: Record | None
    # The same; that of nothing where no host has one.
    last: Record
    members: list[LiveMember]
    unknown: list[Place]
    generation: int
    formation: str | None
    strays: list[Stray] = field(default_factory=list)
    # Members that an earlier version started: they get the formation, in label and record, without a restart.
    adopt: list[LiveMember] = field(default_factory=list)
    # Files of the group that could not be read, by host.
    damaged: list[tuple[str, Damage]] = field(default_factory=list)
    # What lost hosts had, by all records: one that does not hold may know of a host that the other one does not.
    graves: tuple[Tombstone, ...] = ()
    # Hosts that the record knows by another name: {former name: name now}.
    renamed: dict[str, str] = field(default_factory=dict)
    # Hosts whose record is of the same formation and says another thing: the run that wrote the one that holds did not reach them.
    behind: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        name: str,
        hosts: t.Mapping[str, Host],
        silent: t.Collection[str],
        gone: t.Collection[str],
        formations: bool = True,
    ) -> Situation:
        """`gone` are hosts that were stated to be lost, or are out of service. A cache service has no formations: its instances need
        nothing of each other."""
        hosts = Hosts.of(hosts)
        sight = hosts.sight(name)
        found = [record for _host, record in sight.records]
        noted = _counted(sight.noted, found)
        renamed = _renamed(noted, hosts, silent)
        noted = _under_new_names(noted, renamed)
        graves = {(g.host, g.formation): g for r in found for g in r.tombstones if r is not noted}
        graves |= {(g.host, g.formation): g for g in (noted.tombstones if noted else ())}
        unreadable = {(host, d.member) for host, d in sight.damaged if d.member}
        members, strays, adopt = [], [], []
        for member in sight.members:
            if (member.host, member.id) in unreadable:
                continue
            why = standing(member, noted) if formations else _place(member, noted)
            if why:
                strays.append(Stray(member, why))
                continue
            members.append(member)
            if formations and member.formation is None:
                adopt.append(member)
        if not formations:
            members, more = _one_of_each(members)
            strays += [Stray(m, "the same instance runs elsewhere by now") for m in more]
        unknown = _unknown(noted, {(m.host, m.id) for m in members}, hosts, silent, gone, unreadable)
        unknown += _unnamed(unreadable, unknown)
        generation = max([noted.generation if noted else 0, *(m.generation for m in members)])
        formation = noted.formation if noted else None
        standing_graves = tuple(graves[key] for key in sorted(graves, key=str))
        return cls(
            noted,
            noted or Record.nothing(name),
            members,
            unknown,
            generation,
            formation,
            strays,
            adopt,
            sight.damaged,
            standing_graves,
            renamed,
            _behind(noted, sight.records),
        )

    @property
    def unknown_urls(self) -> set[str]:
        return {place.url for place in self.unknown if place.url}

    @property
    def tombstones(self) -> tuple[Tombstone, ...]:
        return self.graves

    def of_role(self, role: str, alive: bool | None = None) -> list[LiveMember]:
        """The members of a role. With `alive`, those that live or do not, and of neither kind those that are leaving."""
        found = [m for m in self.members if m.role == role and (alive is None or (m.alive == alive and not m.draining))]
        return sorted(found, key=lambda m: m.index)


def _behind(noted: Record | None, records: t.Iterable[tuple[str, Record]]) -> tuple[str, ...]:
    if noted is None or noted.formation is None:
        return ()
    # The starts that any of them counts are in the one that holds by now.
    return tuple(host for host, one in records if one.formation == noted.formation and not ended_alike(one, noted))


def _renamed(noted: Record | None, hosts: Hosts, silent: t.Collection[str]) -> dict[str, str]:
    """Hosts of the record that are there under another name: a name that nobody answers to, on a machine that is one host now."""
    machines = noted.machines if noted else {}
    found = {}
    for place in noted.members if noted else ():
        names = hosts.by_machine_id.get(str(machines.get(place.host)), [])
        if place.host not in hosts and place.host not in silent and len(names) == 1 and names[0] not in machines:
            found[place.host] = names[0]
    return found


def _counted(noted: Record | None, found: t.Sequence[Record]) -> Record | None:
    """The record that holds, with every start that any record of its formation knows of: a run that died may have told one host alone."""
    if noted is None or noted.formation is None:
        return noted
    starts: dict[tuple[str, int], int] = {}
    for one in (one for one in found if one.formation == noted.formation):
        starts.update({place: max(count, starts.get(place, 0)) for place, count in one.starts.items()})
    return replace(noted, starts=starts)


def _under_new_names(noted: Record | None, renamed: t.Mapping[str, str]) -> Record | None:
    if noted is None or not renamed:
        return noted
    members = tuple(replace(p, host=renamed.get(p.host, p.host)) for p in noted.members)
    raw = [{**m, "host": renamed.get(m["host"], m["host"])} for m in noted.plain.get("members", ())]
    return replace(noted, members=members, plain={**noted.plain, "members": raw})


def standing(member: LiveMember, noted: Record | None) -> str:
    """Why a member does not count: empty when the record that holds names its place, and its label the record's formation. One that an
    earlier version started has no formation: it counts by generation, revision and place where the record is of that version, too, or was
    taken over from it."""
    if member.now.unlabelled:
        return "its label is gone: what it was started as is not known"
    carried = member.now.carried
    if carried and member.formation and carried != member.formation:
        return "its process is of another formation than its label says"
    if noted is None:
        return "no record names it"
    place = next((p for p in noted.members if p.id == member.id and p.host == member.host), None)
    if place is None:
        where = next((f"the record names it on {p.host}" for p in noted.members if p.id == member.id), "")
        return where or "the record does not name it"
    if member.formation is not None or not (noted.formation is None or noted.adopted):
        return "" if member.formation == noted.formation else f"it is of another formation{_older(member, noted)}"
    same = member.generation == noted.generation and place.revision in ("", member.revision)
    return "" if same else f"it is of another formation{_older(member, noted)}"


def _older(member: LiveMember, noted: Record) -> str:
    return (
        f": generation {member.generation}, the group's is {noted.generation}"
        if member.generation != noted.generation
        else ""
    )


def _place(member: LiveMember, noted: Record | None) -> str:
    """The same for an instance of a cache service, which counts wherever it runs unless the record knows it elsewhere."""
    if member.now.unlabelled:
        return "its label is gone: what it was started as is not known"
    places = [p.host for p in noted.members if p.id == member.id] if noted else []
    return "the same instance runs elsewhere by now" if places and member.host not in places else ""


def _one_of_each(members: list[LiveMember]) -> tuple[list[LiveMember], list[LiveMember]]:
    first: dict[str, LiveMember] = {}
    for member in members:
        first.setdefault(member.id, member)
    return list(first.values()), [m for m in members if first[m.id] is not m]


def _unnamed(unreadable: t.Collection[tuple[str, str]], unknown: t.Sequence[Place]) -> list[Place]:
    """Members whose label cannot be read and that the record does not name: what they are of, nobody knows."""
    told = {(place.host, place.id) for place in unknown}
    found = []
    for host, member in sorted(set(unreadable) - told):
        _group, role, index = member.rsplit("-", 2) if member.count("-") > 1 else ("", "", "")
        number = int(index) if index.isdecimal() else 0
        found.append(Place(member, role, number, host, "", None, None, {}, ()))
    return found


def _unknown(
    noted: Record | None,
    seen: t.Collection[tuple[str, str]],
    hosts: t.Mapping[str, Host],
    silent: t.Collection[str],
    gone: t.Collection[str],
    unreadable: t.Collection[tuple[str, str]],
) -> list[Place]:
    """The members of the record that nobody can ask: their host gave no facts, or their label could not be read."""
    return [
        place
        for place in (noted.members if noted else ())
        if (place.host, place.id) in unreadable
        or (
            (place.host, place.id) not in seen
            and place.host not in gone
            and (place.host not in hosts or place.host in silent)
        )
    ]


@dataclass(frozen=True)
class Coming:
    """A member that comes, and why. `host` is where, when that is no matter of free places: an instance that each host has."""

    role: str
    index: int
    why: str
    host: str = ""


@dataclass(frozen=True)
class Choice:
    """Who stays, who leaves (with why), who is replaced at its place, and who comes; who retires: serves on until those that come in its
    place do; the counts that were meant; whether the spec waits for a restart."""

    keep: tuple[LiveMember, ...] = ()
    leave: tuple[tuple[LiveMember, str], ...] = ()
    replace: tuple[LiveMember, ...] = ()
    create: tuple[Coming, ...] = ()
    retire: tuple[LiveMember, ...] = ()
    # Who runs, and is started anew for others that come (renewal.py), with these: in rounds of its own, or among those that are
    # replaced.
    refresh: t.Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    # Of those that are replaced, who stops before anything starts.
    first: frozenset[str] = frozenset()
    # Prefills that run, and do not enter a router yet: a decode that may take them for another one cannot be started anew now.
    waits: tuple[str, ...] = ()
    # Why each is replaced, where that is not that it is down.
    whys: t.Mapping[str, str] = field(default_factory=dict)
    desired: t.Mapping[str, int] = field(default_factory=dict)
    pending: bool = False
    # Of those that leave: members of the workload's name that are none of it.
    strays: tuple[LiveMember, ...] = ()
    # What runs on although the spec says another thing: of instances, which need nothing of each other.
    outdated: tuple[str, ...] = ()

    @property
    def serving(self) -> tuple[LiveMember, ...]:
        """All that those that come have beside them: those that stay, and those that retire."""
        return (*self.keep, *self.retire)

    @property
    def going(self) -> tuple[LiveMember, ...]:
        """All that stop: those that leave, and those that are replaced."""
        return (*(m for m, _why in self.leave), *self.replace)
