# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which stand of a group (facts/stands.py) is worked on, and how: by a turn of a rollout, and by everybody else."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ..facts.observed import Host
from ..facts.stands import Beside, Stands, other_of, record_of
from ..facts.stands import of as stands_of
from .note import IN_HAND
from .spec import Rollout
from .standing import Standing
from .turn import Kind

# What it is brought to: its spec, or what its record keeps.
Onto = t.Literal["spec", "applied"]


@dataclass(frozen=True)
class Work:
    """One stand, with what it is brought to (`to`). `loses`: it is removed, since it stands beside the group. `held`: it is
    given the endpoint back, and is held then, for this reason. `points`: hooks are told of it, and of nothing else."""

    stand: str
    to: Onto = "spec"
    loses: bool = False
    held: str = ""
    points: bool = False

    def beside(self, hosts: t.Mapping[str, Host]) -> Beside | None:
        """What its plan knows of the other stand, None where that has no record."""
        other = record_of(other_of(self.stand), hosts)
        serves = record_of(stands_of(self.stand, hosts).serves, hosts)
        return Beside(other, serves.rollout if serves else {}, self.loses, self.held) if other is not None else None


def of_turn(kind: Kind, group: Standing, rollout: Rollout) -> Work | None:
    """What a turn does to a group, None for what is done to the group as a whole: a restart."""
    if kind == "change" and rollout.beside:
        # What is not pending any more is the new one already, and only has to serve.
        return Work(other_of(group.stand) if group.pending else group.stand)
    if kind == "point":
        return Work(group.stand, "applied")
    if group.twin is None:
        return None
    if kind == "return":
        return Work(group.twin.stand, "applied", held=f"rollout {rollout.name} returned it")
    return Work(group.twin.stand, loses=True) if kind == "clear" else None


def of_verb(verb: str, stands: Stands, note: t.Mapping[str, t.Any]) -> tuple[Work, ...]:
    """What any other run does to a group: a removal takes all of it; `heal` mends what is the group, and every other one also removes what
    was left beside it. Where hooks may send clients to that, a deploy tells them first, and leaves it to the next one. Nothing where a
    rollout, by its note as the record keeps it, has still to decide between the two, or clients could be left with neither."""
    if verb == "remove":
        return tuple(Work(stand) for stand in stands.known) or (Work(stands.serves),)
    if stands.twin is None or verb == "heal":
        return (Work(stands.serves),)
    if note.get("state") in IN_HAND or (stands.told and verb != "deploy"):
        return ()
    if stands.told:
        return (Work(stands.serves, points=True),)
    return Work(stands.twin, loses=True), Work(stands.serves)
