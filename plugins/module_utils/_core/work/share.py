# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What one inventory host carries out of a plan: its slices, a place each, and the members that have a part there."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field, replace

from ..base.errors import PdError
from ..base.plain import Plain, every, name, names, reading, texts, to_plain
from .member import Member, Part

T = t.TypeVar("T")


@dataclass(frozen=True)
class Vacated:
    """Ports of a member that leaves its place, which a router may still name: they are held."""

    member: str
    formation: str | None
    url: str | None
    ports: tuple[int, ...]

    @classmethod
    def from_plain(cls, raw: Plain) -> Vacated:
        return cls(name(raw, "member"), raw.get("formation"), raw.get("url"), tuple(raw.get("ports") or ()))


@dataclass(frozen=True)
class Seen:
    """Digests of what a plan took for granted at a place: of the workload itself, and, where places are taken, of all there is but what its
    own run changes there before it: workloads that are `together` with it in the run. `cordoned`: nobody was to come there, and what the
    plan starts there all the same was there before."""

    group: str | None = None
    host: str | None = None
    together: tuple[str, ...] = ()
    cordoned: bool = False

    @classmethod
    def from_plain(cls, raw: Plain) -> Seen:
        return cls(raw.get("group"), raw.get("host"), names(raw, "together"), bool(raw.get("cordoned")))


@dataclass(frozen=True)
class Upstream:
    """A member that may still hand requests to one that leaves, and how it is asked whether any run."""

    id: str
    url: str | None
    metrics: str | None
    busy: tuple[str, ...]
    done: tuple[str, ...]

    @classmethod
    def from_plain(cls, raw: Plain) -> Upstream:
        return cls(raw["id"], raw.get("url"), raw.get("metrics"), texts(raw, "busy"), texts(raw, "done"))


@dataclass(frozen=True)
class Slice:
    """A place's slice. `part`: whether the place has anything of the workload, now or after the run; one without is locked, and nothing
    else. `present` and `absent` are ids; `create` those that are started, `adopt` those that an earlier version started; `runtimes` those
    that members which go were started by; `hold`: ports that a router may still name stay held, `holds` are those that this plan adds.
    `forgets`: once nothing of the workload is there any more, its record goes as well."""

    through: str
    part: bool = True
    present: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    create: tuple[str, ...] = ()
    adopt: tuple[str, ...] = ()
    runtimes: tuple[str, ...] = ()
    hold: bool = False
    holds: tuple[Vacated, ...] = ()
    forgets: bool = False
    observed: Seen = Seen()

    def without_create(self, name: str) -> Slice:
        return replace(self, create=tuple(one for one in self.create if one != name))

    @classmethod
    def together(cls, several: t.Sequence[Slice]) -> Slice:
        """The slices of places that one carries out, as one. What the plan took for granted of the workload is of all of them; of a place
        by itself nothing is, as with a cluster, which counts ports and devices itself."""

        def all_of(read: t.Callable[[Slice], t.Iterable[T]]) -> tuple[T, ...]:
            return tuple(dict.fromkeys(one for each in several for one in read(each)))

        first = several[0]
        return cls(
            through=first.through,
            part=any(one.part for one in several),
            present=all_of(lambda one: one.present),
            absent=all_of(lambda one: one.absent),
            create=all_of(lambda one: one.create),
            adopt=all_of(lambda one: one.adopt),
            runtimes=all_of(lambda one: one.runtimes),
            hold=any(one.hold for one in several),
            holds=all_of(lambda one: one.holds),
            forgets=all(one.forgets for one in several),
            observed=replace(first.observed, host=None, together=(), cordoned=True),
        )

    @classmethod
    def from_plain(cls, place: str, raw: Plain) -> Slice:
        return cls(
            through=raw.get("through") or place,
            part=bool(raw.get("part", True)),
            present=names(raw, "present"),
            absent=names(raw, "absent"),
            create=names(raw, "create"),
            adopt=names(raw, "adopt"),
            runtimes=names(raw, "runtimes"),
            hold=bool(raw.get("hold")),
            holds=tuple(Vacated.from_plain(one) for one in every(raw, "holds")),
            forgets=bool(raw.get("forgets")),
            observed=Seen.from_plain(raw.get("observed") or {}),
        )


@dataclass(frozen=True)
class Share:
    """What a host is told: the slices of the places that it carries out, the members with a part there, and what is kept of the workload.
    `group` is the workload's name."""

    group: str
    runtime: str | None
    run: str | None
    formation: str | None
    generation: int
    revision: str | None
    action: str
    record: Plain
    members: tuple[Member, ...]
    hosts: t.Mapping[str, Slice]
    upstream: tuple[Upstream, ...] = field(default=())

    def here(self) -> tuple[str, Slice]:
        """(who carries it out, the slice): a host its one place, a cluster all of its own as one. Raises PdError for a share of several."""
        through = {one.through for one in self.hosts.values()}
        if len(through) != 1:
            raise PdError(f"Group {self.group}: what one host carries out is told of {len(through)} of them.")
        if len(self.hosts) == 1:
            return next(iter(self.hosts.items()))
        return through.pop(), Slice.together(tuple(self.hosts.values()))

    def part_of(self, member: Member) -> Part | None:
        """The part of a member that is carried out here."""
        return next((part for part in member.parts if part.host in self.hosts), None)

    def members_of(self, role: str) -> tuple[Member, ...]:
        return tuple(m for m in self.members if m.role == role)

    def to_plain(self) -> dict[str, t.Any]:
        return t.cast("dict[str, t.Any]", to_plain(self))

    @classmethod
    def from_plain(cls, raw: Plain) -> Share:
        with reading(
            "The plan", "It is made by the action plugin of module members: do not call the module by itself."
        ):
            return cls._read(raw)

    @classmethod
    def _read(cls, raw: Plain) -> Share:
        return cls(
            group=name(raw, "group"),
            runtime=raw.get("runtime"),
            run=raw.get("run"),
            formation=raw.get("formation"),
            generation=raw.get("generation") or 0,
            revision=raw.get("revision"),
            action=raw.get("action") or "deploy",
            record=raw.get("record") or {},
            members=tuple(Member.from_plain(one) for one in every(raw, "members")),
            hosts={place: Slice.from_plain(place, one) for place, one in (raw.get("hosts") or {}).items()},
            upstream=tuple(Upstream.from_plain(one) for one in every(raw, "upstream")),
        )
