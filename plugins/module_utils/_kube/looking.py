# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Looks at nodes by errands: what the API does not tell of them, in the shape of a host's facts."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field, replace

from .._core.base.plain import Plain
from .._core.cluster import node_selector
from .._core.cluster.errand_pod import Errand
from .._core.cluster.node import DEFAULT_PORTS, Node
from .._core.cluster.node_selector import Nodes
from .errand import Errands, Outcome

# With the time that it takes to pull an engine's image, which members need anyway.
SECONDS = 1800
# What a look tells of a model that is not there, as model.facts does on hosts.
_NO_MODEL = {"exists": False, "fingerprint": None, "config": None, "weights": None}


@dataclass(frozen=True)
class Look:
    """One node, and what to look at there. `models` are folders of the node, or of what kubernetes.model mounts there; `pull` is false
    where nothing may be pulled."""

    node: str
    image: str
    ports: str
    address: str | None = None
    kv_interface: tuple[str, ...] = ()
    plane: str = "data"
    models: tuple[str, ...] = ()
    executables: tuple[str, ...] = ()
    pull: bool = True

    def errand(self) -> Errand:
        order = {
            "ports": self.ports,
            "address": self.address,
            "kv_interface": list(self.kv_interface),
            "interface_plane": self.plane,
            "models": list(self.models),
            "executables": list(self.executables),
        }
        return Errand("look", self.node, self.image, order, seconds=SECONDS, pull=self.pull, folders=self.models)


# More nodes than these are looked at by nobody at once: what is not looked at is told as that.
MOST = 64


@dataclass(frozen=True)
class Wanted:
    """What a run wants to know of nodes: on those that `nodes` mean and that have one of the `images`, since nothing is pulled for it. The
    rest as members of the groups have it."""

    images: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    plane: str = "data"
    nodes: tuple[Nodes, ...] = ()
    settings: Plain = field(default_factory=dict)

    @classmethod
    def read(cls, raw: Plain) -> Wanted:
        """As module cluster_facts is given it."""
        return cls(
            tuple(map(str, raw.get("images") or ())),
            tuple(map(str, raw.get("models") or ())),
            str(raw.get("interface_plane") or "data"),
            tuple(node_selector.parse(one, "nodes") for one in raw.get("nodes") or (None,)),
            raw.get("settings") or {},
        )

    def at(self, node: Node) -> Look | None:
        """The look at a node; None where there is nothing to look with, or nobody asks."""
        image = next((one for one in self.images if one in node.images), None)
        if image is None or not any(one.meant(node.name, node.labels) for one in self.nodes):
            return None
        interface = (node.settings.kv_interface,) if node.settings.kv_interface else ()
        ports = node.settings.port_range or DEFAULT_PORTS
        return Look(node.name, image, ports, node.address, interface, self.plane, self.models, pull=False)


def look_at(
    errands: Errands, wanted: Wanted, nodes: t.Sequence[Node], warnings: list[str]
) -> dict[str, dict[str, t.Any]]:
    """What was seen, by node. Why one could not be looked at goes to the warnings: a plan tells what it does not know of it."""
    looks = [one for one in map(wanted.at, nodes) if one is not None]
    if len(looks) > MOST:
        warnings.append(f"{len(looks)} nodes could be looked at, and {MOST} are. Name fewer in roles.ROLE.nodes.")
    seen, problems = look(errands, looks[:MOST])
    warnings += [f"Node {node} was not looked at: {why}" for node, why in sorted(problems.items())]
    return seen


def look(errands: Errands, looks: t.Sequence[Look]) -> tuple[dict[str, dict[str, t.Any]], dict[str, str]]:
    """(what was seen, by node; why a node could not be looked at, by node). A model that is not there is a fact of its node."""
    outcomes = errands.run([one.errand() for one in looks])
    missing = {
        one.node: found.word for one, found in zip(looks, outcomes) if found.word == "FailedMount" and one.models
    }
    again = [replace(one, models=()) for one in looks if one.node in missing]
    outcomes = [found for found in outcomes if found.errand.node not in missing] + errands.run(
        [one.errand() for one in again]
    )
    seen = {found.errand.node: _facts(found) for found in outcomes if not found.error}
    for one in looks:
        if one.node in missing and one.node in seen:
            why = {"why": "there is no such directory on the node"}
            seen[one.node]["models"] = {path: {**_NO_MODEL, **why} for path in one.models}
    return seen, {found.errand.node: found.error for found in outcomes if found.error}


def _facts(found: Outcome) -> dict[str, t.Any]:
    return dict(found.result)
