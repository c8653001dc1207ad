# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an inventory says of a host that stands for a cluster: `pd_cluster`, how it is reached, and `pd_nodes`, what differs between its
nodes."""

from __future__ import annotations

import difflib
import typing as t

from ..base.errors import PdError
from ..base.plain import Plain
from ..base.values import blank
from . import node_selector
from .node import NodeSettings

CLUSTER, NODES = "pd_cluster", "pd_nodes"
_TEXTS = ("namespace", "kubeconfig", "context", "host", "api_key", "ca_cert")
_SWITCHES = ("verify_ssl",)
# From where members are spoken to: from who carries out for the cluster, or by errands beside them. The first is meant where nothing is
# said: members are on the network of their nodes, which is mostly reached, and a Pod a question costs seconds of an outage.
REACH = ("direct", "errand")
_OF_NODES = ("kv_interface", "kv_address", "port_range", "gpu_resource", "rdma_resource", "address")


def cluster(written: t.Any, host: str) -> dict[str, t.Any]:
    """`pd_cluster` of an inventory host, checked. Raises PdError that names the key, and never its value: one is a secret."""
    where = f"{CLUSTER} of {host}"
    if not isinstance(written, t.Mapping):
        raise PdError(f"{where}: it is no dictionary. Write {CLUSTER}: {{namespace: NAME, kubeconfig: PATH}}.")
    _known(where, written, (*_TEXTS, *_SWITCHES, "reach"))
    found: dict[str, t.Any] = {}
    for key in _TEXTS:
        value = written.get(key)
        if blank(value):
            continue
        if not isinstance(value, str):
            raise PdError(f"{where}: {key} is no text.")
        found[key] = value
    if "namespace" not in found:
        raise PdError(
            f"{where}: namespace is missing. Write the namespace that the groups are to run in; it must exist."
        )
    if not blank(written.get("reach")):
        if written["reach"] not in REACH:
            raise PdError(f"{where}: reach: {written['reach']!r} is none of {', '.join(REACH)}.")
        found["reach"] = written["reach"]
    for key in _SWITCHES:
        if not blank(written.get(key)):
            if not isinstance(written[key], bool):
                raise PdError(f"{where}: {key} is neither true nor false.")
            found[key] = written[key]
    return found


def nodes(written: t.Any, host: str) -> list[dict[str, t.Any]]:
    """`pd_nodes` of an inventory host, checked: a list of {nodes, and what holds for them}. Raises PdError."""
    where = f"{NODES} of {host}"
    if blank(written):
        return []
    if not isinstance(written, (list, tuple)):
        raise PdError(f"{where}: it is no list. Write [{{nodes: LABELS, kv_interface: NAME}}].")
    found = []
    for number, one in enumerate(written):
        at = f"{where}[{number}]"
        if not isinstance(one, t.Mapping):
            raise PdError(f"{at}: {one!r} is no dictionary. Write {{nodes: LABELS, kv_interface: NAME}}.")
        _known(at, one, ("nodes", *_OF_NODES))
        meant = node_selector.parse(one.get("nodes"), f"{at}.nodes")
        for key in _OF_NODES:
            if not blank(one.get(key)) and not isinstance(one[key], str):
                raise PdError(f"{at}.{key}: {one[key]!r} is no text.")
        found.append({"nodes": meant.to_plain(), **{key: one[key] for key in _OF_NODES if not blank(one.get(key))}})
    return found


def settings(checked: t.Iterable[Plain]) -> tuple[NodeSettings, ...]:
    """The same as it is worked with."""
    return tuple(
        NodeSettings(
            nodes=node_selector.parse(one.get("nodes"), NODES), **{key: one[key] for key in _OF_NODES if key in one}
        )
        for one in checked
    )


def _known(where: str, written: t.Mapping[t.Any, t.Any], keys: t.Sequence[str]) -> None:
    for key in written:
        if key not in keys:
            near = difflib.get_close_matches(str(key), keys, 1, 0.5)
            hint = f"Did you mean {near[0]}? " if near else ""
            raise PdError(f"{where}: there is no key {key!r}. {hint}There are {', '.join(keys)}.")
