# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The observation of a cluster: each of its nodes as a host of the plan, by what the API says, and what errands have seen on the node."""

from __future__ import annotations

import typing as t
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from .._core.base import json_text
from .._core.base.checked import ports_of
from .._core.base.plain import Plain
from .._core.base.printable import printable
from .._core.cluster import names, rights
from .._core.cluster import node as nodes
from .._core.cluster.node import Node, NodeSettings
from .._core.cluster.node_selector import EVERY, Nodes
from .._core.cluster.pod import Pods
from .._core.facts import observed
from .._host.observe import mark_stuck, registered
from .._runtimes.protocol import Driver, Live
from .api import Api, ApiError
from .driver import ClusterDriver, live_of
from .namespace import Found, Namespace

_REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"
# Routers that are asked for their peers at a time.
ASKED_AT_ONCE = 16
# Whom a router knows; None where that cannot be read, and why.
Peers = tuple[t.Optional[list[dict[str, t.Any]]], str]
# What is told of a node that no errand has looked at.
_NOT_LOOKED = "the API of the cluster knows no KV interface of its nodes."


@dataclass
class Request:
    """What to look at. `cluster` is the inventory host: its nodes are CLUSTER/NODE. `nodes` are those that are asked about, beside all that
    have members of ours. `looked` is what errands have seen, by node."""

    cluster: str
    settings: t.Sequence[NodeSettings] = ()
    nodes: t.Sequence[Nodes] = (EVERY,)
    looked: t.Mapping[str, Plain] = field(default_factory=dict)
    groups: t.Sequence[str] | None = None
    # Looks at nodes that are well, and says what was seen, by node.
    look: t.Callable[[t.Sequence[Node]], t.Mapping[str, Plain]] | None = None
    # Asks routers for their peers by an errand; None where they are asked from here.
    peers: t.Callable[[t.Sequence[Plain]], t.Sequence[Peers]] | None = None
    warnings: list[str] = field(default_factory=list)


def observe(request: Request, api: Api) -> dict[str, t.Any]:
    """{nodes, kept}: the facts of each node, and what the namespace keeps of groups (cluster/places.py puts them together). A node that is
    out of the API server's sight says so, and what it has is not known."""
    namespace = Namespace(api)
    version = json_text.text(api.get("/version").get("gitVersion"))
    found = [nodes.read(raw, request.settings) for raw in api.listed("/api/v1/nodes")]
    if request.look is not None:
        request.looked = request.look([node for node in found if node.ready])
    pods, foreign = _pods(namespace, request)
    of_node: dict[str, list[Found]] = defaultdict(list)
    for one in pods:
        of_node[one.node or ""].append(one)
    members = _members(namespace, pods, request)
    told = {
        node.name: _node(request, node, of_node.get(node.name, []), foreign.get(node.name, []), version, members)
        for node in found
        if node.name in of_node or any(wanted.meant(node.name, node.labels) for wanted in request.nodes)
    }
    return {"nodes": told, "kept": _kept(namespace, pods, request.groups), "lacks": _lacks(namespace)}


def _lacks(namespace: Namespace) -> list[str]:
    """The rights that a change needs, and that whoever looks has not. A server that does not say all of them is believed to give them."""
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectRulesReview",
        "spec": {"namespace": namespace.namespace},
    }
    status = json_text.mapping(namespace.api.create(_REVIEWS, body).get("status"))
    return [] if status.get("incomplete") else rights.missing(json_text.objects(status.get("resourceRules")))


def _kept(namespace: Namespace, pods: t.Sequence[Found], groups: t.Sequence[str] | None) -> dict[str, t.Any]:
    records, damaged = namespace.records()
    every = [one.label for one in pods if one.label is not None]
    return {
        "records": {group: record for group, record in records.items() if groups is None or group in groups},
        "locks": namespace.locks(),
        "holds": [one for its in namespace.holds().values() for one in its],
        # Of a group in the whole cluster, which is one host to who carries it out; what else is there the scheduler minds.
        "digests": {
            group: observed.digest_of_group(group, every, records.get(group))
            for group in sorted({str(label["group"]) for label in every} | set(records))
        },
        "damaged": [dict(one._asdict()) for one in damaged],
    }


def _node(
    request: Request,
    node: Node,
    mine: t.Sequence[Found],
    foreign: t.Sequence[Plain],
    version: str,
    members: t.Mapping[str, dict[str, t.Any]],
) -> dict[str, t.Any]:
    looked = request.looked.get(node.name) or {}
    lost = "" if node.ready else f"its kubelet does not report ({node.why})"
    shut = lost or ("" if node.open else "unschedulable")
    labels = [one.label for one in mine if one.label is not None]
    return {
        **_network(node, looked, labels),
        **_gpus(node, labels, foreign),
        "node": {
            "cluster": request.cluster,
            "labels": dict(node.labels),
            "gpu_resource": node.gpu_resource,
            "rdma_resource": node.settings.rdma_resource,
            "ready": node.ready,
            "looked": bool(looked),
        },
        # One that has nothing of ours hides nothing: the API has all Pods.
        "silent": lost if mine else "",
        "members": [members[one.member] for one in mine if one.label is not None],
        "damaged": [
            {
                "path": f"Pod {one.name}",
                "why": "its label cannot be read",
                "group": json_text.mapping(json_text.mapping(one.pod.get("metadata")).get("labels")).get(names.GROUP),
                "member": one.member,
            }
            for one in mine
            if one.label is None
        ],
        "runtimes": {ClusterDriver.name: {"available": True, "why": "", "hint": "", "version": version}},
        "images": {
            name: {"exists": True, **({"digest": digest} if digest else {})}
            for name, digest in sorted(node.images.items())
        },
        "cordon": {"by": "the cluster", "since": 0.0, "why": shut} if shut else None,
        "hidden": None,
    }


def _pods(namespace: Namespace, request: Request) -> tuple[list[Found], dict[str, list[dict[str, t.Any]]]]:
    """(Pods of ours in the namespace, by node those of others that may hold GPUs). Without the right to see other namespaces' it is said
    that these are not counted."""
    mine = namespace.pods()
    names = {one.name for one in mine}
    others: dict[str, list[dict[str, t.Any]]] = defaultdict(list)
    try:
        every = namespace.api.listed("/api/v1/pods", fieldSelector="spec.nodeName!=")
    except ApiError as exc:
        if exc.status != 403:
            raise
        request.warnings.append(
            "Pods of other namespaces are not seen (no right to list them): which GPUs they hold is not known, and the scheduler has the"
            " last word."
        )
        every = namespace.api.listed(namespace.path("pods"))
    for pod in every:
        meta, spec = json_text.mapping(pod.get("metadata")), json_text.mapping(pod.get("spec"))
        is_mine = meta.get("namespace") == namespace.namespace and meta.get("name") in names
        if not is_mine and not nodes.over(pod):
            others[json_text.text(spec.get("nodeName"))].append(pod)
    return mine, others


def _gpus(node: Node, labels: t.Sequence[Plain], foreign: t.Sequence[Plain]) -> dict[str, t.Any]:
    held = [str(gpu) for label in labels for gpu in label.get("gpus") or ()]
    taken = sum(nodes.gpus_of(pod, node.gpu_resource) for pod in foreign) if node.gpu_resource else 0
    slots, busy = nodes.slots(node, held, taken)
    return {"gpus": slots, "gpu_processes": busy, "gpu_tools": None}


def _network(node: Node, looked: Plain, labels: t.Sequence[Plain]) -> dict[str, t.Any]:
    """Addresses and ports. A node's own address is the API's; what the KV cache travels over the inventory says, or the node itself."""
    given = node.settings
    kv = {**(looked.get("kv_interface") or {"names": [], "error": _NOT_LOOKED})}
    if given.kv_address:
        kv |= {"names": [given.kv_interface] if given.kv_interface else [], "address": given.kv_address, "error": None}
        looked = {key: value for key, value in looked.items() if key != "kv_interfaces"}
    ports = looked.get("ports") or {}
    # From within a Pod it is not seen whose they are: what members of ours have by their labels is theirs.
    ours = {
        port: str(label["member"]) for label in labels for port in ports_of(label.get("port"), label.get("ports") or {})
    }
    return {
        "address": node.address,
        "kv_interface": kv,
        **({"kv_interfaces": looked["kv_interfaces"]} if looked.get("kv_interfaces") else {}),
        "interfaces": looked.get("interfaces") or [],
        "rdma_devices": looked.get("rdma_devices"),
        "ports": {
            "range": given.port_range or nodes.DEFAULT_PORTS,
            "used": [{**one, "member": ours.get(one["port"])} for one in ports.get("used") or ()],
            "exposed": ports.get("exposed") or 0,
            **({"ephemeral": ports["ephemeral"]} if ports.get("ephemeral") else {}),
        },
        # In a cluster a node is who its name says.
        "machine": {},
        "models": looked.get("models") or {},
        "executables": looked.get("executables") or {},
    }


def _peers(routers: t.Sequence[dict[str, t.Any]], request: Request) -> t.Sequence[Peers]:
    """Whom each router knows: asked from here, or beside the members."""
    if not routers:
        return []
    if request.peers is None:
        with ThreadPoolExecutor(max_workers=min(ASKED_AT_ONCE, len(routers))) as pool:
            return list(pool.map(lambda one: registered(t.cast(Live, one)), routers))
    asked = [one for one in routers if one["label"].get("dialect") and one["label"].get("url")]
    told = request.peers([{key: one["label"][key] for key in ("url", "dialect")} for one in asked]) if asked else []
    found = {one["label"]["member"]: peers for one, peers in zip(asked, told)}
    return [found.get(one["label"]["member"], (None, "")) for one in routers]


def _members(namespace: Namespace, pods: t.Sequence[Found], request: Request) -> dict[str, dict[str, t.Any]]:
    """What is told of each member, by its name: how its Pod is, and whom a router knows, which only it can say."""
    told = {one.member: _member(one) for one in pods if one.label is not None}
    routers = [one for one in told.values() if one["label"]["role"] == "router" and one["ready"]]
    for router, (peers, why) in zip(routers, _peers(routers, request)):
        router["registered"], router["registered_why"] = peers, why
    # One that runs and never will serve says so in its log; of those that serve nobody is asked for it.
    drivers: dict[str, Driver] = {ClusterDriver.name: ClusterDriver(namespace, lambda _part: Pods(namespace.namespace))}
    loading = [one for one in told.values() if one["state"] == "running" and not one["ready"] and one["since"]]
    for one in loading:
        mark_stuck(one, drivers)
    return told


def _member(found: Found) -> dict[str, t.Any]:
    state = found.state
    told: dict[str, t.Any] = {**live_of(found)}
    if state.draining or state.going:
        told["draining"] = True
    if state.image:
        told["image"] = {"digest": printable(state.image)}
    return told
