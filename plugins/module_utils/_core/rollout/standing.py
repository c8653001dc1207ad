# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How a group stands: all that a rollout knows of it when it decides what comes next."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field

from ..facts.record import Record
from ..facts.stands import may_have_clients
from .note import Note

RUNNING = "running"
# Seconds that a group is expected to be out, where no start of it is known.
UNKNOWN_OUTAGE = 900.0


@dataclass(frozen=True)
class Twin:
    """What stands beside a group: under which name, of which revision, and on which hosts that do not answer. `told`: a hook may have been
    told of it after it was told of the group. `newer`: it was formed after the group, and is not what that ran before."""

    stand: str
    revision: str = ""
    told: bool = False
    silent: tuple[str, ...] = ()
    newer: bool = False

    @classmethod
    def of(cls, stand: str, other: Record | None, serves: Record, out_of_sight: t.Collection[str]) -> Twin:
        """From the records of both; without one it is members that nobody knows of."""
        if other is None:
            return cls(stand)
        silent = tuple(sorted({place.host for place in other.members if place.host in out_of_sight}))
        newer = other.generation > serves.generation
        return cls(stand, other.revision or "", may_have_clients(other, serves), silent, newer)


@dataclass(frozen=True)
class Standing:
    """`labels` are those of its spec. `state` is the group's, as status tells it, and `message` its reason. `pending`: it has something to
    change, which `what` tells in lines; `wanted` is what a restart would bring, as a digest (the spec's revision, with what has drifted).
    `held` says why it is held until pd_release, empty for one that is not. `silent` are hosts of its record or of its plan that do not
    answer or were said to be lost. `outage` is for how many seconds it was out at its last start, None when that is not known.
    `no_return` says why its last proven formation could not be started again. `damaged` says that its note cannot be read. `stand` is what
    hosts know it by, and `twin` what stands beside it. Of a group that is to be formed beside itself, `no_hook` says that nothing could
    tell its clients, and `no_room` what it lacks of hosts."""

    labels: t.Mapping[str, str] = field(default_factory=dict)
    hosts: tuple[str, ...] = ()
    state: str = RUNNING
    message: str = ""
    pending: bool = False
    wanted: str = ""
    what: tuple[str, ...] = ()
    note: Note | None = None
    held: str = ""
    silent: tuple[str, ...] = ()
    outage: float | None = None
    no_return: str = ""
    damaged: str = ""
    stand: str = ""
    twin: Twin | None = None
    no_hook: str = ""
    no_room: str = ""

    @property
    def running(self) -> bool:
        """Whether it serves as it should: proven, with its endpoint open."""
        return self.state == RUNNING

    @property
    def estimate(self) -> float:
        """For how many seconds a change is expected to take it out."""
        return UNKNOWN_OUTAGE if self.outage is None else self.outage

    @property
    def changed(self) -> bool:
        """Whether it runs what its note wanted, and that is still wanted."""
        return self.running and not self.pending and self.note is not None and self.note.wanted == self.wanted

    @property
    def out(self) -> bool:
        """Whether clients have to do without it now, for any reason."""
        return not self.running or (self.note is not None and self.note.state == "changing" and not self.changed)


Fleet = t.Mapping[str, Standing]
