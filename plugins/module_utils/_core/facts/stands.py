# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Stands: the two names under which a group may stand on hosts, and which of them is the group.

All that hosts keep of a group is known by its stand: labels, ids of members, records, locks, folders, units and containers. The first one
is the group's own name. The second one ends in what no name of a user's may have, so that it is nobody else's. A rollout forms a group
anew under the one that is free, and clears the other away once that serves: nothing is ever renamed, and no two formations meet under one
name."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field

from .observed import Host
from .record import REMOVED, Record, newest

# No name of a group has an underscore (base/reader.py); units, containers, folders and files may.
_SECOND = "_2"


def name_of(stand: str) -> str:
    """The name of the group that stands under it, as its user writes it; that of anything else is its own."""
    return stand[: -len(_SECOND)] if stand.endswith(_SECOND) else stand


def other_of(stand: str) -> str:
    """The one that is free when a group stands under this one."""
    return name_of(stand) if stand.endswith(_SECOND) else stand + _SECOND


def both(name: str) -> tuple[str, str]:
    """All stands of a group."""
    return name_of(name), name_of(name) + _SECOND


@dataclass(frozen=True)
class Stands:
    """Where a group stands by what hosts say: `serves` is the stand that is the group, `twin` the other one where anything of it is there.
    `known` are all of which hosts have a record, a tombstone's included, or a member. `told`: a hook may send clients to the twin."""

    serves: str
    twin: str | None = None
    known: tuple[str, ...] = ()
    told: bool = False


@dataclass(frozen=True)
class Beside:
    """What a plan knows that works on one stand of a group while there is the other one. `other` is the record of that,
    `rollout` what a rollout has noted of the group, wherever: it goes with the endpoint. `loses`: the plan takes away what stands beside
    the group, and no hook is to be told. `held` is why the group is to be held at what it runs, once it is given its endpoint back."""

    other: Record
    rollout: t.Mapping[str, t.Any] = field(default_factory=dict)
    loses: bool = False
    held: str = ""


def of(name: str, hosts: t.Mapping[str, Host]) -> Stands:
    """The stands of a group (or of one that is no group: it has its name). The rule, and the only one: the stand that took over from the
    other and was seen to serve is the group; of two that know nothing of each other the one that was formed later is."""
    members = {m.group for host in hosts.values() for m in host.members}
    records = {stand: record_of(stand, hosts) for stand in both(name)}
    known = tuple(stand for stand, record in records.items() if record is not None or stand in members)
    there = [stand for stand in known if stand in members or _stands(records[stand], hosts)]
    if len(there) < 2:
        serves = there[0] if there else both(name)[0]
        return Stands(serves, None, known)
    first, second = (records[stand] for stand in there)
    serves = there[1] if _is_group(second, first) else there[0]
    group, other = records[serves], records[other_of(serves)]
    told = group is not None and other is not None and may_have_clients(other, group)
    return Stands(serves, other_of(serves), known, told)


def record_of(stand: str, hosts: t.Mapping[str, Host]) -> Record | None:
    """The record that holds of those that hosts have of a stand."""
    return newest(host.records[stand] for host in hosts.values() if stand in host.records)


def took_over(mine: Record | None, its: Record | None) -> bool:
    """Whether a stand was made, or given back the endpoint, in the place of the very formation that the other one has, and after that took
    over from it itself, if it did."""
    if mine is None or its is None or mine.beside is None or mine.beside.formation != its.formation:
        return False
    mutual = its.beside is not None and its.beside.formation == mine.formation
    return not mutual or (its.beside is not None and mine.beside.turn > its.beside.turn)


def _is_group(one: Record | None, other: Record | None) -> bool:
    """Whether `one` is the group, of two that are there."""
    if one is None or other is None:
        return other is None
    if took_over(one, other):
        return _leads(one, other)
    if took_over(other, one):
        return not _leads(other, one)
    return one.formed > other.formed


def _leads(mine: Record, its: Record) -> bool:
    """Whether a stand that took over is the group: as soon as its endpoint is registered, and no sooner as long as that of the other one
    is, or as it was never proven."""
    proven = mine.applied is not None and mine.applied.proven is not None
    return mine.endpoint.registered or (proven and not its.endpoint.registered)


def may_have_clients(other: Record, serves: Record) -> bool:
    """Whether a hook may send clients to the stand that is not the group: it was told of it, or was to be, and has not been seen to be
    told of the group after that."""
    after = took_over(serves, other) and serves.endpoint.registered and not _went_on(other, serves)
    # One that a run went without (pd_skip_hooks) was told nothing.
    after = after and all(one.sure for name, one in serves.endpoint.hooks.items() if name in other.endpoint.hooks)
    return bool(other.endpoint.hooks) and not after


def _went_on(other: Record, serves: Record) -> bool:
    """Whether somebody has worked on what the group took over from, after that: on hosts that could not see the group."""
    known = serves.beside.serial if serves.beside is not None else None
    return known is not None and other.serial > known


def _stands(record: Record | None, hosts: t.Mapping[str, Host]) -> bool:
    """Whether a record says that something is there. Of one that was removed: a host that was lost then and has been seen by now."""
    if record is None or record.state != REMOVED:
        return record is not None
    return any(grave.host in hosts for grave in record.tombstones)
