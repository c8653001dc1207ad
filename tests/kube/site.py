# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A site whose one inventory host is a cluster: an API server on loopback, with nodes at loopback addresses."""

from __future__ import annotations

import typing as t
import uuid
from pathlib import Path

from integration.conftest import STANDIN, Life, ask, spec
from kube.kubelet import Image, Kubelet
from kube.server import Server

from ansible_collections.inferops.pd.plugins.module_utils._core.cluster import names
from ansible_collections.inferops.pd.plugins.module_utils._kube.api import Access, Api
from ansible_collections.inferops.pd.plugins.module_utils._kube.namespace import Namespace

IMAGE = "registry.example/engine@sha256:" + "0" * 64


class Cluster(Life):
    """A site of one cluster, with the kubelets of its nodes by name."""

    api: Api
    address: str
    kubelets: dict[str, Kubelet]

    def ask(self, prompt: str = "once upon a time", port: int | None = None) -> tuple[int, str]:
        return ask(f"http://{self.address}:{port or self.port}", prompt)

    def stop(self) -> None:
        for one in self.kubelets.values():
            one.stop()

    @property
    def namespace(self) -> Namespace:
        return Namespace(self.api)

    def starts(self) -> dict[str, str]:
        """Which container each member's Pod has."""
        found = {}
        for one in self.namespace.pods():
            for status in one.pod.get("status", {}).get("containerStatuses") or ():
                found[one.member] = str(status.get("containerID"))
        return found

    def generation(self, group: str = "g") -> int:
        return int((self.namespace.record(group) or {}).get("generation") or 0)

    def served_by(self, group: str = "g") -> list[str]:
        """The Pods to which the group's Service sends clients. No endpoint of a real one may be at a loopback address."""
        service = self.api.find(self.namespace.path("services", f"pd-{group}"))
        if service is None:
            return []
        chosen = ",".join(f"{key}={value}" for key, value in service["spec"]["selector"].items())
        pods = self.api.listed(self.namespace.path("pods"), labelSelector=chosen)
        return [one["metadata"]["name"] for one in pods]

    def left(self) -> dict[str, list[str]]:
        """What there is of ours in the namespace, by kind."""
        kinds = ("pods", "configmaps", "secrets", "services", "coordination.k8s.io/v1/leases")
        found = {kind: self.api.listed(self.namespace.path(kind), labelSelector=names.SELECTOR) for kind in kinds}
        return {kind: [one["metadata"]["name"] for one in its] for kind, its in found.items() if its}

    @property
    def pods(self) -> dict[str, str]:
        """The state of each member's Pod."""
        return {one.member: one.state.state for one in self.namespace.pods()}


def cluster(folder: Path, server: Server, model: Path, port: int, nodes: int = 2, **changes: t.Any) -> Cluster:
    """A 1P1D group on a namespace of its own, of stand-ins."""
    namespace = f"t-{uuid.uuid4().hex[:8]}"
    api = Api(Access(namespace, kubeconfig=str(server.kubeconfig())))
    api.create("/api/v1/namespaces", {"metadata": {"name": namespace}})
    images = {IMAGE: Image(path=(str(STANDIN),))}
    kubelets = {
        f"n{at}-{namespace[2:7]}": Kubelet(
            server,
            f"n{at}-{namespace[2:7]}",
            folder / f"n{at}",
            f"127.0.1.{at}",
            images,
            allocatable={"nvidia.com/gpu": "8"},
        )
        for at in range(1, nodes + 1)
    }
    its = {name: one.start().address for name, one in kubelets.items()}
    engine = {"executable": None, "image": IMAGE}
    roles = {
        role: {"hosts": "k1", "nodes": [name]} for role, name in zip(("prefill", "decode", "router"), [*its][:2] * 2)
    }
    router = {**roles["router"], "image": IMAGE, "executable": None}
    group = spec(
        model, port, runtime="kubernetes", engine=engine, prefill=roles["prefill"], decode=roles["decode"],
        router=router, **changes,
    )  # fmt: skip
    host = {
        "pd_cluster": {"namespace": namespace, "kubeconfig": str(server.kubeconfig())},
        "pd_nodes": [
            {"nodes": [name], "kv_interface": "eth0", "kv_address": address, "port_range": f"{port + 1}-{port + 24}"}
            for name, address in its.items()
        ],
    }
    made = Cluster(folder, {"k1": host}, {"g": group})
    made.address, made.port, made.api, made.kubelets = "127.0.1.1", port, api, kubelets
    return made
