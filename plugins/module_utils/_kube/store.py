# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A namespace of a cluster as the store of what is ours there: labels are on Pods, records in ConfigMaps, locks are Leases."""

from __future__ import annotations

import contextlib
import json
import typing as t

from .._core.cluster import names
from .._core.cluster.places import node_of
from .._runtimes.errors import BusyError, HostError
from .._runtimes.store import Damaged
from . import endpoint
from .api import CONFLICT, ApiError
from .namespace import Namespace


class ClusterStore:
    """Implements store.Store for all nodes. Orders of one call take turns here; runs on other machines are kept apart by the group's Lease,
    and by the API, where names are unique and ports and devices are counted."""

    def __init__(self, namespace: Namespace) -> None:
        self.namespace = namespace

    @property
    def root(self) -> str:
        return self.namespace.namespace

    @contextlib.contextmanager
    def lock(self, wait: float = 0) -> t.Iterator[None]:  # noqa: ARG002 - of the protocol: threads wait for each other here
        with self.namespace.turns:
            yield

    def labels(self) -> list[dict[str, t.Any]]:
        return [one.label for one in self.namespace.pods() if one.label is not None]

    def beside(self, place: str) -> list[dict[str, t.Any]]:  # noqa: ARG002
        """Nobody: a Pod says which ports of its node and how many devices it takes, and the scheduler refuses the second one."""
        return []

    def label(self, group: str, member: str) -> dict[str, t.Any] | None:
        found = self.namespace.pod(member)
        return found.label if found and found.label and found.label.get("group") == group else None

    def write_label(self, label: t.Mapping[str, t.Any]) -> None:
        self.namespace.note(str(label["member"]), **{names.LABEL: json.dumps(label, sort_keys=True)})

    def records(self) -> dict[str, dict[str, t.Any]]:
        return self.namespace.records()[0]

    def record(self, group: str) -> dict[str, t.Any] | None:
        return self.namespace.record(group)

    def write_record(self, group: str, record: t.Mapping[str, t.Any]) -> None:
        self.namespace.write_record(group, record)

    def bury(self, group: str, hosts: t.Collection[str]) -> None:
        """Take the Pods that lost nodes had from the API: a node that comes back after all ends what is not there any more."""
        nodes = {node_of(host) for host in hosts}
        for one in self.namespace.pods():
            if one.label is not None and one.label.get("group") == group and one.node in nodes:
                self.namespace.api.delete(self.namespace.path("pods", one.name), gracePeriodSeconds=0)

    def serve(self, group: str, registered: bool, check: bool) -> bool:
        return endpoint.serve(self.namespace, group, registered, check)

    def damaged(self) -> list[Damaged]:
        """Records, and Pods whose label cannot be read."""
        return self.namespace.records()[1] + [
            Damaged(f"Pod {self.namespace.namespace}/{one.name}", "its label cannot be read", None, one.member)
            for one in self.namespace.pods()
            if one.label is None
        ]

    def group_lock(self, group: str) -> dict[str, t.Any] | None:
        return self.namespace.lock(group)

    def write_lock(self, group: str, lock: t.Mapping[str, t.Any] | None) -> None:
        try:
            return self.namespace.write_lock(group, lock)
        except ApiError as exc:
            if exc.status != CONFLICT:
                raise
        why = "another run has taken it at this moment"
        raise BusyError(f"Locking group {group}", why, "Wait for that run, then run again.")

    def holds(self, group: str | None = None) -> list[dict[str, t.Any]]:
        held = self.namespace.holds()
        return [one for name, its in held.items() if group in (None, name) for one in its]

    def write_holds(self, group: str, holds: t.Sequence[t.Mapping[str, t.Any]]) -> None:
        self.namespace.write_holds(group, holds)

    def cordon(self) -> dict[str, t.Any] | None:
        """A cluster has none: its nodes do, and the scheduler minds them."""
        return None

    def write_cordon(self, mark: t.Mapping[str, t.Any] | None) -> None:
        raise HostError(
            "Marking a node of a cluster",
            "nodes are the cluster's, and this collection does not write them",
            f"Run kubectl {'cordon' if mark else 'uncordon'} NODE, then run again.",
        )

    def draining(self, group: str, member: str) -> bool:  # noqa: ARG002 - a Pod's name is its own
        found = self.namespace.pod(member)
        return bool(found and found.state.draining)

    def mark_draining(self, group: str, member: str) -> None:  # noqa: ARG002
        self.namespace.note(member, **{names.DRAINING: "true"})

    def kept_log(self, group: str, member: str) -> str | None:  # noqa: ARG002
        """The API keeps no log of a Pod that is gone."""
        return None

    def delete_member(self, group: str, member: str) -> None:
        """A Pod is all there is of a member."""

    def delete_group(self, group: str) -> None:
        self.namespace.forget(group)
