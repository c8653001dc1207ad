# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The group record: what the collection keeps of a group, the same file on every host of it. It holds no secret. It is read and checked
at the one place where it enters; plan/record.py makes it. Hosts keep records, and need nothing of what makes them."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field

from ..base.checked import Checked, DamagedError
from .tombstone import Place, Tombstone

# 1: up to 22a08ae, without a formation and with the lock among its keys.
SCHEMA = 2
# What a run writes by itself and what does not make a record another one.
_BOOKKEEPING = ("serial", "lock", "updated", "endpoint", "state", "formed")
# How many formations back a record remembers what it came after.
REMEMBERED = 32
REMOVED = "removed"


@dataclass(frozen=True)
class Record:
    """A record, checked. `formation` is None in one of an earlier version. `plain` is the record as it is kept."""

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
    plain: t.Mapping[str, t.Any] = field(repr=False, compare=False)


def read(raw: t.Any, where: str, host: str = "") -> Record:
    """A record as a file or the facts of `host` have it. Raises DamagedError that names `where`."""
    value = Checked(raw, where)
    schema = value.number("schema", 1, 1_000_000, default=1)
    if schema > SCHEMA:
        raise DamagedError(
            where, f"it is of schema {schema}, written by a later version; this one reads up to {SCHEMA}"
        )
    for key in ("router", "spec", "templates", "desired", "choices", "endpoint", "cache", "proof", "lock", "machines"):
        value.mapping(key)
    for role in value.mapping("desired"):
        Checked(value.mapping("desired"), where, "desired.").number(role, 0, 1_000_000)
    return Record(
        schema=schema,
        group=value.name("group"),
        formation=value.text("formation", required=False) or None,
        supersedes=value.texts("supersedes"),
        formed=value.moment("formed"),
        adopted=bool(value.raw.get("adopted")),
        generation=value.number("generation", 0, 10**9, default=0),
        serial=value.number("serial", 0, 10**9, default=0),
        revision=value.text("revision", required=False) or None,
        state=value.text("state", required=False),
        members=tuple(Place.read(one) for one in value.each("members")),
        tombstones=tuple(Tombstone.read(one) for one in value.each("tombstones")),
        updated=value.moment("updated"),
        host=host,
        plain=value.raw,
    )


def newest(found: t.Iterable[Record]) -> Record | None:
    """The record that holds, of those on the hosts of a group. One that came after another's formation wins over it, whatever the numbers
    say: a group that was removed and formed anew may have small ones. One whose host another buried loses to that. Of two that do not know
    of each other, the later forming. One of an earlier version has no formation: it wins where it was written later, under a higher
    generation."""
    every = list(found)
    above = [r for r in every if not any(_buried(r, other) for other in every)] or every
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
