# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nodes of a cluster as the hosts of a plan: what the API says of them and of the Pods there, as the facts that a host would tell."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field

from ..base import json_text
from ..base.plain import Plain
from ..base.printable import printable
from . import names
from .node_selector import EVERY, Nodes
from .quantity import count

# Device plugins' names for a GPU, by vendor.
RESOURCES = {"nvidia.com/gpu": "nvidia", "amd.com/gpu": "amd", "huawei.com/Ascend910": "ascend"}
# Where GPU feature discovery and AMD's labeller say which model it is.
MODELS = {"nvidia.com/gpu.product": "nvidia", "amd.com/gpu.product-name": "amd", "accelerator/huawei-npu": "ascend"}
DEFAULT_PORTS = "28000-28063"


@dataclass(frozen=True)
class NodeSettings:
    """What an inventory says of nodes (pd_nodes): the first entry whose `nodes` mean a node counts for it."""

    nodes: Nodes = EVERY
    kv_interface: str | None = None
    kv_address: str | None = None
    port_range: str | None = None
    gpu_resource: str | None = None
    rdma_resource: str | None = None
    address: str | None = None


@dataclass(frozen=True)
class Node:
    """`ready` is whether kubelet reports; `open` whether new Pods may come (not cordoned). `gpus` is how many the node can give to Pods."""

    name: str
    address: str | None
    ready: bool
    open: bool
    gpu_resource: str | None
    vendor: str | None
    model: str | None
    gpus: int
    labels: t.Mapping[str, str]
    why: str = ""
    settings: NodeSettings = NodeSettings()
    # The digest of each image that is there, by all of its names; empty where none of these has it.
    images: t.Mapping[str, str] = field(default_factory=dict)


def read(raw: Plain, settings: t.Sequence[NodeSettings] = ()) -> Node:
    """One Node of the API."""
    meta, status = json_text.mapping(raw.get("metadata")), json_text.mapping(raw.get("status"))
    spec = json_text.mapping(raw.get("spec"))
    name = json_text.text(meta.get("name"))
    labels = {str(key): str(value) for key, value in json_text.mapping(meta.get("labels")).items()}
    mine = next((one for one in settings if one.nodes.meant(name, labels)), NodeSettings())
    given = json_text.mapping(status.get("allocatable"))
    resource = mine.gpu_resource or next((one for one in RESOURCES if count(given.get(one))), None)
    ready = next(
        (one for one in json_text.objects(status.get("conditions")) if one.get("type") == "Ready"),
        {"status": "Unknown", "message": "it has never reported"},
    )
    addresses = {one.get("type"): one.get("address") for one in json_text.objects(status.get("addresses"))}
    return Node(
        name=name,
        address=mine.address or json_text.text(addresses.get("InternalIP")) or None,
        ready=ready.get("status") == "True",
        open=not spec.get("unschedulable"),
        gpu_resource=resource,
        vendor=RESOURCES.get(resource or ""),
        model=next((labels[key] for key in MODELS if key in labels), None),
        gpus=count(given.get(resource)) if resource else 0,
        labels=labels,
        why=printable(json_text.text(ready.get("message") or ready.get("reason"))).strip(),
        settings=mine,
        images=dict(
            pair
            for image in json_text.objects(status.get("images"))
            for pair in _named(json_text.texts(image.get("names")))
        ),
    )


def _named(told: t.Sequence[str]) -> list[tuple[str, str]]:
    """The names of one image on a node, each with its digest."""
    digest = next((one.rpartition("@")[2] for one in told if "@" in one), "")
    return [(one, digest) for one in told]


def gpus_of(pod: Plain, resource: str) -> int:
    """How many devices a Pod holds as long as it is there: those of its containers together, or of the one before them that has most."""
    spec = json_text.mapping(pod.get("spec"))
    main = sum(_asked(one, resource) for one in json_text.objects(spec.get("containers")))
    return max([main, *(_asked(one, resource) for one in json_text.objects(spec.get("initContainers")))])


def _asked(container: Plain, resource: str) -> int:
    resources = json_text.mapping(container.get("resources"))
    # For devices both are the same, and a limit alone is a request.
    return max(count(json_text.mapping(resources.get(key)).get(resource)) for key in ("requests", "limits"))


def over(pod: Plain) -> bool:
    """Whether nothing of a Pod runs any more, so that it holds nothing."""
    return json_text.mapping(pod.get("status")).get("phase") in ("Succeeded", "Failed")


def ours(pod: Plain) -> bool:
    labels = json_text.mapping(json_text.mapping(pod.get("metadata")).get("labels"))
    return labels.get(names.MANAGED_BY) == names.MANAGER


def slots(node: Node, held: t.Iterable[str], foreign: int) -> tuple[list[dict[str, t.Any]], list[dict[str, t.Any]]]:
    """(the node's GPUs as slots, those that Pods of others have): the device plugin gives any, so that of a slot only the number counts.
    `held` are the slots of our members; others' are taken from the end."""
    numbers = [str(number) for number in range(node.gpus)]
    found = [{"id": number, "model": node.model, "vendor": node.vendor} for number in numbers]
    mine = set(held)
    free = [number for number in reversed(numbers) if number not in mine]
    return found, [{"gpu": number, "member": None} for number in free[:foreign]]
