# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The Service by which clients in the cluster find a group. It selects its router only while the record says that the group may be served:
after its proof, and until anything of it stops."""

from __future__ import annotations

import typing as t

from .._core.base import json_text
from .._core.cluster import names
from .._core.facts.stands import name_of
from .._runtimes.errors import HostError
from .namespace import Found, Namespace

PORT_NAME = "http"


def serve(namespace: Namespace, group: str, registered: bool, check: bool) -> bool:
    """Have the Service select the group's router, or nobody. Whether that changes anything; with `check` nothing is changed. Raises
    HostError where somebody else's Service has the name."""
    routers = [one for one in namespace.pods() if _is_router(one, group)]
    there = _there(namespace, group)
    wanted = _wanted(namespace, group, routers) if registered and routers else None
    changed = False
    if wanted is not None and not _same(there, wanted):
        changed = True
        if not check:
            _write(namespace, there, wanted)
    for router in routers:
        serves = names.SERVING in _labels(router)
        if serves != registered:
            changed = True
            if not check:
                namespace.mark(router.member, **{names.SERVING: "true" if registered else None})
    return changed


def check_free(namespace: Namespace, group: str) -> None:
    """Raises HostError where the name of the group's Service is somebody else's."""
    _there(namespace, group)


def _is_router(found: Found, group: str) -> bool:
    label = found.label or {}
    return label.get("group") == group and label.get("role") == "router" and not found.state.going


def _labels(found: Found) -> dict[str, t.Any]:
    return json_text.mapping(json_text.mapping(found.pod.get("metadata")).get("labels"))


def _there(namespace: Namespace, group: str) -> dict[str, t.Any] | None:
    """The Service that is there; one of somebody else is refused."""
    name = names.of_service(name_of(group))
    found = namespace.api.find(namespace.path("services", name))
    if found is None:
        return None
    labels = json_text.mapping(json_text.mapping(found.get("metadata")).get("labels"))
    owner = str(labels.get(names.GROUP) or "")
    if labels.get(names.MANAGED_BY) != names.MANAGER or name_of(owner) != name_of(group):
        whose = (
            f"that of group {owner}" if labels.get(names.MANAGED_BY) == names.MANAGER else "none of this collection's"
        )
        raise HostError(
            f"Telling clients of group {group}",
            f"Service {namespace.namespace}/{name} is {whose}",
            "Give the group another name, or delete that Service if nobody needs it.",
        )
    return found


def _wanted(namespace: Namespace, group: str, routers: t.Sequence[Found]) -> dict[str, t.Any]:
    port = int((routers[0].label or {}).get("port") or 0)
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": names.of_service(name_of(group)),
            "namespace": namespace.namespace,
            "labels": names.labels(group),
        },
        "spec": {
            "selector": {names.GROUP: group, names.SERVING: "true"},
            "ports": [{"name": PORT_NAME, "port": port, "targetPort": port, "protocol": "TCP"}],
        },
    }


def _same(there: t.Mapping[str, t.Any] | None, wanted: t.Mapping[str, t.Any]) -> bool:
    """Whether what is there says what is wanted; a server adds to it."""
    if there is None:
        return False
    spec = json_text.mapping(there.get("spec"))
    ports = [{key: one.get(key) for key in wanted["spec"]["ports"][0]} for one in json_text.objects(spec.get("ports"))]
    return spec.get("selector") == wanted["spec"]["selector"] and ports == wanted["spec"]["ports"]


def _write(namespace: Namespace, there: t.Mapping[str, t.Any] | None, wanted: t.Mapping[str, t.Any]) -> None:
    name = wanted["metadata"]["name"]
    if there is None:
        namespace.api.create(namespace.path("services"), wanted)
    else:
        # Of a group that stands twice the one that serves has it.
        labels = {"labels": wanted["metadata"]["labels"]}
        namespace.api.patch(namespace.path("services", name), {"metadata": labels, "spec": wanted["spec"]})
