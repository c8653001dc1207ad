# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The places of a cluster: each of its nodes is a host of the plan, by the name CLUSTER/NODE.

What a module tells of a cluster comes in two parts, so that it grows with the nodes and not with nodes times groups: what each node is, and
what the namespace keeps of each group, which is in the cluster once."""

from __future__ import annotations

import typing as t

from ..base.order import natural
from ..base.plain import Plain

_BETWEEN = "/"


def place(cluster: str, node: str) -> str:
    """The name of a node as a host of the plan."""
    return f"{cluster}{_BETWEEN}{node}"


def node_of(name: str) -> str:
    """The node of a place."""
    return name.rpartition(_BETWEEN)[2]


def cluster_of(name: str) -> str:
    """The inventory host of a place; empty for what is none."""
    return name.rpartition(_BETWEEN)[0]


def asking(name: str) -> str:
    """The command by which a person sees whether a host answers, or a node is well."""
    return f"kubectl describe node {node_of(name)}" if cluster_of(name) else f"ansible -m ping {name}"


def expanded(cluster: str, nodes: t.Mapping[str, Plain], kept: Plain) -> dict[str, dict[str, t.Any]]:
    """The facts of each node (those of module host_facts), by the name of its place. Of what is `kept` of a group, its `records` and
    `locks`, each is told where members of the group are by it, or else at the first node: all of it is in the cluster once. `digests` and
    `holds` are those of every place: a plan rests on what the whole cluster has of a group, and a port that is held is so on all nodes."""
    names = sorted(nodes, key=natural)
    found = {
        place(cluster, name): {
            **nodes[name],
            "records": {},
            "locks": {},
            "damaged": list(nodes[name].get("damaged") or ()),
            "digests": kept.get("digests") or {},
            "holds": kept.get("holds") or [],
        }
        for name in names
    }
    if not found:
        return {}
    first = place(cluster, names[0])
    records, locks = kept.get("records") or {}, kept.get("locks") or {}
    for group in sorted({*records, *locks}):
        its = [one.get("host") for one in (records.get(group) or {}).get("members") or () if isinstance(one, dict)]
        at = sorted({one for one in its if one in found}) or [first]
        for where in at:
            if group in records:
                found[where]["records"][group] = records[group]
            if group in locks:
                found[where]["locks"][group] = locks[group]
    found[first]["damaged"] += kept.get("damaged") or ()
    return found


__all__ = ["asking", "cluster_of", "expanded", "node_of", "place"]
