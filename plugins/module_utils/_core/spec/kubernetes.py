# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a group writes of Kubernetes: the block `kubernetes`, and the nodes of each role."""

from __future__ import annotations

import typing as t
from dataclasses import asdict, dataclass, field

from ..base.errors import PdError
from ..base.plain import Plain
from ..cluster import node_selector
from ..cluster.node_selector import EVERY, Nodes
from .row import At

NETWORKS = ("host",)
_MODELS = ("pvc", "sub_path", "host_path", "image")
_SECURITY = ("run_as_non_root", "drop_all", "seccomp")
_SECCOMP = ("RuntimeDefault", "Unconfined")
# Of a Pod, what a spec's `pod` cannot write: the plan, the recipe or another key says it.
OWNED = (
    "containers",
    "initContainers",
    "ephemeralContainers",
    "volumes",
    "hostNetwork",
    "hostPID",
    "hostIPC",
    "dnsPolicy",
    "restartPolicy",
    "nodeName",
    "nodeSelector",
    "terminationGracePeriodSeconds",
    "automountServiceAccountToken",
    "serviceAccountName",
    "priorityClassName",
    "runtimeClassName",
    "imagePullSecrets",
    "tolerations",
    "securityContext",
    "activeDeadlineSeconds",
)


@dataclass(frozen=True)
class Kubernetes:
    """How the members of a group are Pods. `model` is a volume of the API for the folder of the model, None for the node's own path; `rdma`
    how many of the node's RDMA resource an engine gets; `pod` is laid under all that is ours."""

    network: str = "host"
    model: Plain | None = None
    rdma: int = 0
    rdma_resource: str | None = None
    priority_class: str | None = None
    service_account: str | None = None
    runtime_class: str | None = None
    image_pull_secrets: tuple[str, ...] = ()
    tolerations: tuple[Plain, ...] = ()
    run_as_non_root: bool = False
    drop_all: bool = False
    seccomp: str | None = None
    pod: Plain = field(default_factory=dict)

    def to_plain(self) -> dict[str, t.Any]:
        """Without what is not written, so that what comes later changes no record."""
        plain = {key: list(value) if isinstance(value, tuple) else value for key, value in asdict(self).items()}
        return {key: value for key, value in plain.items() if value != _NOTHING[key]}

    @property
    def model_on_node(self) -> str | None:
        """Where the model is on a node by `model`; None where it comes from a volume that is no node's."""
        path = ((self.model or {}).get("hostPath") or {}).get("path")
        return "/".join([path.rstrip("/"), *filter(None, [(self.model or {}).get("subPath")])]) if path else None

    def settings(self, gpu_resource: str | None, rdma_resource: str | None) -> dict[str, t.Any]:
        """What a Pod of it is made with, on a node that gives GPUs and RDMA devices under these names (cluster/pod.py: Pods)."""
        resource = self.rdma_resource or rdma_resource
        found: dict[str, t.Any] = {
            "gpu_resource": gpu_resource,
            "rdma": [resource, self.rdma] if self.rdma and resource else None,
            "model": self.model,
            "service_account": self.service_account,
            "priority_class": self.priority_class,
            "runtime_class": self.runtime_class,
            "pull_secrets": list(self.image_pull_secrets),
            "tolerations": [dict(one) for one in self.tolerations],
            "run_as_non_root": self.run_as_non_root,
            "drop_all": self.drop_all,
            "seccomp": self.seccomp,
            "overlay": dict(self.pod),
        }
        return {key: value for key, value in found.items() if value}


_NOTHING = {key: list(value) if isinstance(value, tuple) else value for key, value in asdict(Kubernetes()).items()}
NOTHING = Kubernetes()
_KEYS = (
    "network",
    "model",
    "rdma",
    "priority_class",
    "service_account",
    "runtime_class",
    "image_pull_secrets",
    "tolerations",
    "security",
    "pod",
)


def nodes(at: At) -> Nodes | None:
    """The nodes that a role may have: a selector of labels, or a list of names."""
    written = at.written.get(at.key)
    if written in (None, "", []):
        return None
    try:
        return node_selector.parse(written, f"{at.where}.{at.key}")
    except PdError as exc:
        what, _dot, way = str(exc).partition(". ")
        at.reader.findings.error("bad-value", f"{what}.", way or "Write labels such as pool=h100, or a list of names.")
    return None


def of_group(at: At) -> Kubernetes:
    """The block of a group."""
    reader, where = at.reader, f"{at.where}.{at.key}"
    written = reader.mapping(at.where, at.written, at.key)
    reader.keys(where, written, _KEYS)
    rdma, resource = _rdma(at, where, written)
    security = reader.mapping(where, written, "security")
    reader.keys(f"{where}.security", security, _SECURITY)
    return Kubernetes(
        network=reader.choice(where, written, "network", NETWORKS, "host") or "host",
        model=_model(at, where, written),
        rdma=rdma,
        rdma_resource=resource,
        priority_class=reader.text(where, written, "priority_class"),
        service_account=reader.text(where, written, "service_account"),
        runtime_class=reader.text(where, written, "runtime_class"),
        image_pull_secrets=tuple(reader.texts(where, written, "image_pull_secrets")),
        tolerations=_tolerations(at, where, written),
        run_as_non_root=_switch(at, f"{where}.security", security, "run_as_non_root"),
        drop_all=_switch(at, f"{where}.security", security, "drop_all"),
        seccomp=reader.choice(f"{where}.security", security, "seccomp", _SECCOMP, None),
        pod=_pod(at, where, written),
    )


def _rdma(at: At, where: str, written: Plain) -> tuple[int, str | None]:
    given = at.reader.mapping(where, written, "rdma")
    at.reader.keys(f"{where}.rdma", given, ("resource", "count"))
    if not given:
        return 0, None
    count = at.reader.integer(f"{where}.rdma", given, "count", 1, 1)
    return count or 1, at.reader.text(f"{where}.rdma", given, "resource")


def _model(at: At, where: str, written: Plain) -> Plain | None:
    """Where the model's files come from, as a volume of the API."""
    given = at.reader.mapping(where, written, "model")
    at.reader.keys(f"{where}.model", given, _MODELS)
    said = [key for key in ("pvc", "host_path", "image") if given.get(key)]
    if not given:
        return None
    if len(said) != 1:
        at.reader.findings.error(
            "bad-value",
            f"{where}.model: {'nothing says' if not said else 'more than one key says'} where the model is.",
            "Write one of pvc: NAME, host_path: PATH, image: REFERENCE.",
        )
        return None
    value = at.reader.text(f"{where}.model", given, said[0]) or ""
    made: dict[str, dict[str, t.Any]] = {
        "pvc": {"persistentVolumeClaim": {"claimName": value, "readOnly": True}},
        "host_path": {"hostPath": {"path": value, "type": "Directory"}},
        "image": {"image": {"reference": value, "pullPolicy": "IfNotPresent"}},
    }
    path = at.reader.text(f"{where}.model", given, "sub_path")
    return {**made[said[0]], **({"subPath": path} if path else {})}


def _tolerations(at: At, where: str, written: Plain) -> tuple[Plain, ...]:
    found = at.reader.sequence(where, written, "tolerations")
    for number, one in enumerate(found):
        if not isinstance(one, dict):
            at.reader.bad(
                f"{where}.tolerations[{number}]", one, "a toleration such as {key: nvidia.com/gpu, operator: Exists}"
            )
    return tuple(one for one in found if isinstance(one, dict))


def _switch(at: At, where: str, written: Plain, key: str) -> bool:
    value = written.get(key)
    if value is None or isinstance(value, bool):
        return bool(value)
    at.reader.bad(f"{where}.{key}", value, "true or false")
    return False


def _pod(at: At, where: str, written: Plain) -> Plain:
    """A partial Pod spec. What another key says is not taken here."""
    given = at.reader.mapping(where, written, "pod")
    owned = [key for key in given if key in OWNED]
    if owned:
        at.reader.findings.error(
            "owned-flag",
            f"{where}.pod: {', '.join(owned)}: the plan and the keys beside it say this.",
            "Leave it out. The keys of kubernetes are in docs/kubernetes.md; mounts, env and resources are those of the roles.",
        )
    return {key: value for key, value in given.items() if key not in OWNED}


__all__ = ["EVERY", "NOTHING", "Kubernetes", "Nodes", "nodes", "of_group"]
