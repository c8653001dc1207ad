# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The group record: what the collection keeps of a group, the same file on every host of it. It holds no secret. It is read and checked
at the one place where it enters; plan/record.py makes it. Hosts keep records, and need nothing of what makes them."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field, replace

from ..base.checked import Checked, DamagedError
from . import applied, starts
from .announced import Announced
from .applied import Applied, Rendered
from .starts import Starts
from .tombstone import Place, Tombstone

# 1: up to 22a08ae, without a formation and with the lock among its keys.
SCHEMA = 2
# What a run writes by itself and what does not make a record another one.
_BOOKKEEPING = ("serial", "lock", "updated", "endpoint", "state", "formed", "took", "emptied")
# How many formations back a record remembers what it came after.
REMEMBERED = 32
REMOVED = "removed"


@dataclass(frozen=True)
class Served:
    """The endpoint of a group: where, under which name, and whether clients may be sent there; `why` not, where the run that left it so
    knew."""

    url: str | None = None
    model: str | None = None
    registered: bool = False
    why: str = ""
    # Who was told of it, or may have been: hooks by name.
    hooks: t.Mapping[str, Announced] = field(default_factory=dict)


@dataclass(frozen=True)
class Held:
    """That a group was returned to an earlier configuration (`revision`), and is not restarted onto its spec before that is released."""

    revision: str
    why: str = ""
    since: float = 0.0

    @classmethod
    def read(cls, value: Checked) -> Held | None:
        if not value.raw:
            return None
        return cls(value.text("revision"), value.said("why"), value.moment("since"))


@dataclass(frozen=True)
class TookOver:
    """That a stand of a group was made, or given the endpoint back, beside the other one (stands.py): which formation that had then, and on
    which hosts. Of two that each came after the other, the one of the later `turn` did so last. `serial` is that of the other one's record:
    a greater one was written since by a run that did not see this one."""

    formation: str
    turn: int
    hosts: tuple[str, ...] = ()
    serial: int | None = None

    @classmethod
    def read(cls, value: Checked) -> TookOver | None:
        if not value.raw:
            return None
        turn, hosts = value.number("turn", 0, 10**9, default=0), value.texts("hosts")
        known = value.raw.get("serial") is not None
        return cls(value.text("formation"), turn, hosts, value.number("serial", 0, 10**9) if known else None)


@dataclass(frozen=True)
class Record:
    """A record, checked. `formation` is None in one of an earlier version. `desired` are counts by role; `policy` is how the router knows
    its peers; `rendered` are the roles of the applied spec; `proof` is how it is proved, `cache` what a cache service is. `plain` is the
    record as it is kept."""

    schema: int
    group: str
    formation: str | None
    supersedes: tuple[str, ...]
    formed: float
    adopted: bool
    generation: int
    serial: int
    revision: str | None
    state: str
    members: tuple[Place, ...]
    tombstones: tuple[Tombstone, ...]
    # On the host's own clock.
    updated: float
    # On which host it was found.
    host: str
    mode: str | None = None
    runtime: str | None = None
    policy: str | None = None
    endpoint: Served = Served()
    desired: t.Mapping[str, int] = field(default_factory=dict)
    rendered: t.Mapping[str, Rendered] = field(default_factory=dict)
    templates: t.Mapping[str, t.Any] = field(default_factory=dict)
    proof: t.Mapping[str, t.Any] = field(default_factory=dict)
    cache: t.Mapping[str, t.Any] = field(default_factory=dict)
    machines: t.Mapping[str, t.Any] = field(default_factory=dict)
    applied: Applied | None = None
    previous: Applied | None = None
    held: Held | None = None
    # How many prefills were started where, of a mode whose decode members take one for another.
    starts: Starts = field(default_factory=dict)
    # How far a rollout has come with the group (rollout/note.py), empty where none is under way or has been.
    rollout: t.Mapping[str, t.Any] = field(default_factory=dict)
    # For how many seconds it was out when all of it was started last, from its lock to its endpoint; None where nobody has seen that.
    took: float | None = None
    # Cordoned hosts that were seen without anything of it: that one of them is off concerns nobody.
    emptied: tuple[str, ...] = ()
    # In the place of which formation it was made, of a group that a rollout formed beside what served.
    beside: TookOver | None = None
    plain: t.Mapping[str, t.Any] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def nothing(cls, group: str) -> Record:
        """That of a workload of which no host has one."""
        return cls(SCHEMA, group, None, (), 0.0, False, 0, 0, None, "", (), (), 0.0, "")


def read(raw: t.Any, where: str, host: str = "") -> Record:
    """A record as a file or the facts of `host` have it. Raises DamagedError that names `where`."""
    value = Checked(raw, where)
    schema = value.number("schema", 1, 1_000_000, default=1)
    if schema > SCHEMA:
        raise DamagedError(
            where, f"it is of schema {schema}, written by a later version; this one reads up to {SCHEMA}"
        )
    for key in ("spec", "choices", "lock"):
        value.mapping(key)
    router, desired, endpoint = value.within("router"), value.within("desired"), value.within("endpoint")
    hooks = endpoint.within("hooks")
    for peer in router.each("peers"):
        peer.text("member")
    roles = value.within("templates").within("roles")
    return Record(
        schema=schema,
        group=value.name("group"),
        formation=_maybe(value, "formation"),
        supersedes=value.texts("supersedes"),
        formed=value.moment("formed"),
        adopted=bool(value.raw.get("adopted")),
        generation=value.number("generation", 0, 10**9, default=0),
        serial=value.number("serial", 0, 10**9, default=0),
        revision=_maybe(value, "revision"),
        state=value.text("state", required=False),
        members=tuple(Place.read(one) for one in value.each("members")),
        tombstones=tuple(Tombstone.read(one) for one in value.each("tombstones")),
        updated=value.moment("updated"),
        host=host,
        mode=_maybe(value, "mode"),
        runtime=_maybe(value, "runtime"),
        policy=_maybe(router, "policy"),
        endpoint=Served(
            _maybe(endpoint, "url"),
            _maybe(endpoint, "served_model_name"),
            bool(endpoint.raw.get("registered")),
            endpoint.said("why"),
            {str(name): Announced.read(hooks.within(name)) for name in hooks.raw},
        ),
        desired={str(role): desired.number(role, 0, 1_000_000) for role in desired.raw},
        rendered={str(role): Rendered.read(roles.within(role)) for role in roles.raw},
        templates=value.mapping("templates"),
        proof=value.mapping("proof"),
        cache=value.mapping("cache"),
        machines=value.mapping("machines"),
        applied=applied.read(value),
        previous=applied.read(value.within("previous")),
        held=Held.read(value.within("held")),
        starts=starts.read(value, "starts"),
        rollout=value.mapping("rollout"),
        took=value.seconds("took"),
        emptied=value.texts("emptied"),
        beside=TookOver.read(value.within("beside")),
        plain=value.raw,
    )


class Reader:
    """Reads the records of many hosts. A group's is the same on each of its hosts, but for when that wrote it, and as long as the group is
    large: what another host has said is not read again."""

    def __init__(self) -> None:
        # By group: (what was read, without when it was written; the record).
        self._last: dict[str, tuple[t.Mapping[str, t.Any], Record]] = {}

    def read(self, group: str, raw: t.Any, host: str) -> Record:
        """The record of `group` as the facts of `host` have it. Raises DamagedError."""
        where = f"the record of group {group}"
        if not isinstance(raw, t.Mapping):
            return read(raw, where, host)
        told = {key: one for key, one in raw.items() if key != "updated"}
        known, record = self._last.get(group, (None, None))
        if record is not None and known == told:
            return replace(record, host=host, updated=Checked(raw, where).moment("updated"), plain=raw)
        record = read(raw, where, host)
        self._last[group] = told, record
        return record


def _maybe(value: Checked, key: str) -> str | None:
    return value.text(key, required=False) or None


def newest(found: t.Iterable[Record]) -> Record | None:
    """The record that holds, of those on the hosts of a group. One that came after another's formation wins over it, whatever the numbers
    say: a group that was removed and formed anew may have small ones. One whose host another buried loses to that. Of two that do not know
    of each other, the later forming. One of an earlier version has no formation: it wins where it was written later, under a higher
    generation."""
    every = list(found)
    burying = [r for r in every if r.tombstones]
    above = [r for r in every if not any(_buried(r, other) for other in burying)] or every
    after = {one for record in above for one in record.supersedes}
    ours = [r for r in above if r.formation is not None]
    left = [r for r in ours if r.formation not in after] or ours
    last = max(left, key=lambda r: (r.formed, r.generation, r.serial), default=None)
    old = max((r for r in above if r.formation is None), key=lambda r: (r.generation, r.serial), default=None)
    if last is None or (old is not None and old.generation > last.generation and old.updated > last.formed):
        return old
    return last


def _buried(one: Record, other: Record) -> bool:
    """Whether `other` was written by a run to which the host of `one` was lost, with what it had."""
    mine = one.formation, one.generation
    graves = [g for g in other.tombstones if g.host == one.host and (g.formation, g.generation) == mine]
    return bool(one.host and graves and not any(g.host == one.host for g in one.tombstones))


def differs(after: t.Mapping[str, t.Any], before: t.Mapping[str, t.Any]) -> bool:
    """Whether two records say different things of the group."""
    return {k: v for k, v in after.items() if k not in _BOOKKEEPING} != {
        k: v for k, v in before.items() if k not in _BOOKKEEPING
    }


def ended_alike(one: Record, other: Record) -> bool:
    """Whether two records tell the same end of a run: the state of the group, and its endpoint."""
    return all(one.plain.get(key) == other.plain.get(key) for key in ("state", "endpoint"))
