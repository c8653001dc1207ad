# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whom to ask after the first look at a workload: the hosts that its records and tombstones point at, wherever its spec has it by now.

A record says where all of a workload is, and stands on each of these hosts. So one that is found is enough; where none is found, nobody
knows whether the workload is elsewhere, and that is no reason to form it once more."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ..cluster.places import cluster_of
from ..facts.observed import Host
from ..facts.stands import both


@dataclass(frozen=True)
class Pointed:
    """`hosts` are those that records name; `why` says, by workload, why no record says all of where it may be."""

    hosts: frozenset[str]
    why: t.Mapping[str, str]


def pointed(names: t.Iterable[str], hosts: t.Mapping[str, Host], inventory: t.Collection[str]) -> Pointed:
    """From the facts of the first look. `inventory` are all hosts that there are: one that a record names and that is not there may have
    another name now, which only the machine itself can tell."""
    found: set[str] = set()
    why: dict[str, str] = {}
    for name in names:
        # The one stand of a group may point at what is left of the other.
        records = [host.records[one] for host in hosts.values() for one in both(name) if one in host.records]
        its = {place.host for record in records for place in record.members}
        its |= {host for record in records if record.beside for host in record.beside.hosts}
        its |= {grave.host for record in records for grave in record.tombstones}
        its = {_asked(host, inventory) for host in its}
        found |= its
        strangers = sorted(its - set(inventory))
        if not records:
            why[name] = "no host that was looked at has a record of it"
        elif strangers:
            why[name] = (
                f"its record names {', '.join(strangers)}, not in the inventory: it may be there under another name"
            )
    return Pointed(frozenset(found), why)


def _asked(host: str, inventory: t.Collection[str]) -> str:
    """Who is asked about a host: itself, or the cluster of which it is a node."""
    cluster = cluster_of(host)
    return cluster if host not in inventory and cluster in inventory else host
