# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An errand as the Pod that it runs in, and what its Pod says of how it goes: a short run of our own code beside the members.

An errand is on the node's network, asks for no GPU, and is allowed where members are, also on a node that takes no new ones: what leaves
such a node has to be seen off."""

from __future__ import annotations

import json
import typing as t
from dataclasses import dataclass, field

from ..base import json_text
from ..base.plain import Plain
from ..base.printable import printable
from . import names
from .pod import ENGINE, STAYS, Pods, merged, model_mount, model_volume, on, security

# Where an errand finds its code, its order, and what came to it as a secret.
PLACE = "/run/inferops-pd-errand"
CODE_FILE, ORDER_FILE, SECRETS_FILE = "errand.zip", "order", "secrets"
TOLD, KEPT, _CODE = f"{PLACE}/told", f"{PLACE}/kept", f"{PLACE}/code"
# What an object may have of annotations is 256 KiB; beyond this an order goes the way of a secret.
ORDER_LIMIT = 128 * 1024
# How long a scheduler may look for room: errands need next to none.
SCHEDULE = 30.0
UNSCHEDULED = "Unschedulable"
_RESOURCES = {"requests": {"cpu": "50m", "memory": "64Mi"}, "limits": {"cpu": "1", "memory": "512Mi"}}
_LONGEST = 400


@dataclass(frozen=True)
class Errand:
    """What is to be done on a node. `order` is for everybody to read; `secrets` are given by a Secret that goes with the Pod. `seconds` is
    all the time that the Pod may take, what it takes to pull its image included. `folders` are of the node, to be looked at."""

    kind: str
    node: str
    image: str
    order: Plain
    secrets: Plain = field(default_factory=dict, repr=False)
    seconds: int = 120
    pull: bool = True
    group: str = ""
    folders: tuple[str, ...] = ()

    @property
    def doing(self) -> str:
        return f"Errand {self.kind} on {self.node}"

    def told(self, token: str) -> str:
        """The order as the Pod has it."""
        return json.dumps({"token": token, "kind": self.kind, "order": self.order}, sort_keys=True)

    def kept(self, token: str) -> dict[str, str]:
        """The files of its Secret; none where it needs none."""
        order = self.told(token)
        large = {ORDER_FILE: order} if len(order.encode()) > ORDER_LIMIT else {}
        keys = {SECRETS_FILE: json.dumps(self.secrets, sort_keys=True)} if self.secrets else {}
        return {**large, **keys}


def render(errand: Errand, token: str, code: str, pods: Pods) -> dict[str, t.Any]:
    """The Pod; `code` is the ConfigMap with the errands' code, `pods` what members of the cluster have in common."""
    name, kept = names.of_errand(token), errand.kept(token)
    spec = {
        "containers": [_container(errand, kept, pods)],
        "volumes": _volumes(errand, name, kept, code, pods),
        "hostNetwork": True,
        "dnsPolicy": "ClusterFirstWithHostNet",
        "restartPolicy": "Never",
        "activeDeadlineSeconds": errand.seconds,
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": on(errand.node)}},
        "tolerations": [*STAYS, _CORDONED, *pods.tolerations],
        # It has nothing to finish that anybody would wait for.
        "terminationGracePeriodSeconds": 1,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        **({"serviceAccountName": pods.service_account} if pods.service_account else {}),
        **({"priorityClassName": pods.priority_class} if pods.priority_class else {}),
        **({"imagePullSecrets": [{"name": one} for one in pods.pull_secrets]} if pods.pull_secrets else {}),
        **security(pods),
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": pods.namespace,
            "labels": {**names.labels(errand.group), names.ERRAND: errand.kind, names.NODE: errand.node},
            "annotations": {} if ORDER_FILE in kept else {names.ORDER: errand.told(token)},
        },
        "spec": merged(pods.overlay, spec),
    }


def secret(errand: Errand, token: str, pod: Plain) -> dict[str, t.Any] | None:
    """The Secret of an errand whose Pod has been created, which takes it along when it goes; None where there is nothing secret."""
    kept, meta = errand.kept(token), json_text.mapping(pod.get("metadata"))
    if not kept:
        return None
    owner = {"apiVersion": "v1", "kind": "Pod", "name": meta.get("name"), "uid": meta.get("uid")}
    named = {
        "name": names.of_errand(token),
        "namespace": meta.get("namespace"),
        "labels": {**names.labels(errand.group), names.ERRAND: errand.kind},
        "ownerReferences": [owner],
    }
    return {"apiVersion": "v1", "kind": "Secret", "metadata": named, "type": "Opaque", "stringData": kept}


_CORDONED = {"key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoSchedule"}


def _container(errand: Errand, kept: Plain, pods: Pods) -> dict[str, t.Any]:
    mounts = [
        {"name": "pd-code", "mountPath": _CODE, "readOnly": True},
        {"name": "pd-told", "mountPath": TOLD, "readOnly": True},
        *([{"name": "pd-kept", "mountPath": KEPT, "readOnly": True}] if kept else []),
        *({"name": f"pd-folder-{n}", **model_mount(pods, path)} for n, path in enumerate(errand.folders)),
    ]
    return {
        "name": ENGINE,
        "image": errand.image,
        "imagePullPolicy": "IfNotPresent" if errand.pull else "Never",
        # Without what the image's own environment would have Python do first.
        "command": ["python3", "-I", f"{_CODE}/{CODE_FILE}"],
        "resources": {kind: dict(its) for kind, its in _RESOURCES.items()},
        "volumeMounts": mounts,
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }


def _volumes(errand: Errand, name: str, kept: Plain, code: str, pods: Pods) -> list[dict[str, t.Any]]:
    order = {"path": ORDER_FILE, "fieldRef": {"fieldPath": f"metadata.annotations['{names.ORDER}']"}}
    return [
        {"name": "pd-code", "configMap": {"name": code}},
        {"name": "pd-told", "downwardAPI": {"items": [order]}},
        *([{"name": "pd-kept", "secret": {"secretName": name, "defaultMode": 0o444}}] if kept else []),
        *({"name": f"pd-folder-{n}", **model_volume(pods, path)} for n, path in enumerate(errand.folders)),
    ]


# -- how it goes -----------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Seen:
    """How an errand is: `over` and then, by `failed`, why there is no answer to be read; else `waits` says for what, "" for one that runs.
    `word` is the cluster's own for it."""

    over: bool = False
    failed: str = ""
    hint: str = ""
    waits: str = ""
    word: str = ""


# Kubelet's words for a container that will not be, with what we say.
_IMAGE = (
    "ErrImagePull",
    "ImagePullBackOff",
    "ErrImageNeverPull",
    "InvalidImageName",
    "RegistryUnavailable",
    "ErrImageInspect",
)
_NOT_MADE = ("CreateContainerConfigError", "CreateContainerError", "RunContainerError")
_NO_PROGRAM = ("executable file not found", "no such file or directory")
_NO_PYTHON = "Errands need Python >= 3.9 as python3 in the image of the member that they are sent beside."
_NO_IMAGE = "Check the image's name and the registry's secret (image_pull_secrets), or pull it on the node."
_NEVER = "Nothing is pulled for it: pull the image on the node, or deploy."


def seen(pod: Plain, errand: Errand) -> Seen:
    """How the errand is, by its Pod."""
    status = json_text.mapping(pod.get("status"))
    (container,) = json_text.objects(status.get("containerStatuses"))[:1] or [{}]
    how = json_text.mapping(container.get("state"))
    waiting, ended = json_text.mapping(how.get("waiting")), json_text.mapping(how.get("terminated"))
    word = json_text.text(waiting.get("reason"))
    if status.get("reason") == "DeadlineExceeded":
        return Seen(
            True,
            f"it did not end within {errand.seconds} s",
            "Is the node overloaded, or its registry slow?",
            word="DeadlineExceeded",
        )
    if ended:
        return _ended(ended)
    if status.get("phase") in ("Failed", "Succeeded"):
        return Seen(True, _said("its Pod has failed", status), word=json_text.text(status.get("reason")))
    if word in _IMAGE:
        never = word == "ErrImageNeverPull"
        why = (
            f"image {errand.image} is not on the node"
            if never
            else _said(f"image {errand.image} cannot be pulled", waiting)
        )
        return Seen(True, why, _NEVER if never else _NO_IMAGE, word=word)
    if word in _NOT_MADE:
        return _not_made(waiting, word)
    if "running" in how:
        return Seen()
    if json_text.mapping(pod.get("spec")).get("nodeName"):
        return Seen(waits="its container is being made")
    return Seen(waits=_said("no node takes it", {"message": _condition(status).get("message")}), word=UNSCHEDULED)


def _ended(ended: Plain) -> Seen:
    code, word = json_text.count(ended.get("exitCode")), json_text.text(ended.get("reason"))
    if code == 0:
        return Seen(True)
    if word in ("StartError", "ContainerCannotRun"):
        return _not_made(ended, word)
    if word == "OOMKilled":
        return Seen(True, "it was ended for want of memory (OOMKilled)", word=word)
    lines = json_text.text(ended.get("message")).strip().splitlines()
    said = f": {printable(lines[-1])[:_LONGEST]}" if lines else ""
    return Seen(True, f"it exited with status {code}{said}", _NO_PYTHON if code == _OLD_PYTHON else "", word=word)


# What the code's first lines end with on a Python that cannot read the rest.
_OLD_PYTHON = 69


def _not_made(said: Plain, word: str) -> Seen:
    text = json_text.text(said.get("message"))
    if any(one in text for one in _NO_PROGRAM):
        return Seen(True, "its image has no python3", _NO_PYTHON, word=word)
    return Seen(True, _said("its container was not made", said), word=word)


def _condition(status: Plain) -> dict[str, t.Any]:
    conditions = json_text.objects(status.get("conditions"))
    return next((one for one in conditions if one.get("type") == "PodScheduled"), {})


def _said(what: str, of: Plain) -> str:
    words = [printable(json_text.text(of.get(key))).strip() for key in ("reason", "message")]
    told = ": ".join(word for word in words if word)[:_LONGEST]
    return f"{what} ({told})" if told else what
