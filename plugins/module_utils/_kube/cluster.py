# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A cluster as a module is told of it, in one hidden text that the controller fills in: how it is reached, and what the inventory says of
its nodes."""

from __future__ import annotations

import json
from dataclasses import dataclass

from .._core.base.plain import reading
from .._core.cluster import inventory
from .._core.cluster.node import NodeSettings
from .._core.cluster.pod import Pods
from .._core.work.member import Part
from .api import Access, Api
from .driver import ClusterDriver
from .namespace import Namespace
from .store import ClusterStore


@dataclass(frozen=True)
class Cluster:
    """`name` is the inventory host that stands for it."""

    name: str
    access: Access
    nodes: tuple[NodeSettings, ...] = ()
    by_errand: bool = False

    @classmethod
    def read(cls, text: str) -> Cluster:
        """Raises PdError for what is none: only an action of ours gives it."""
        with reading("Option cluster", "It is filled in by the action plugin from pd_cluster and pd_nodes."):
            raw = json.loads(text)
            access = {key: value for key, value in raw["access"].items() if key != "reach"}
            nodes = inventory.settings(raw.get("nodes") or ())
            return cls(str(raw["name"]), Access(**access), nodes, raw["access"].get("reach") == "errand")

    def open(self) -> Opened:
        """What work asks of it."""
        namespace = Namespace(Api(self.access))
        return Opened(namespace, ClusterStore(namespace), ClusterDriver(namespace, self._pods))

    def _pods(self, part: Part) -> Pods:
        return Pods.of(self.access.namespace, part.pod)


@dataclass(frozen=True)
class Opened:
    """A cluster that is spoken to: store and driver of all of its nodes."""

    namespace: Namespace
    store: ClusterStore
    driver: ClusterDriver
