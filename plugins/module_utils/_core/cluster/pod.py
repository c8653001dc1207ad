# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A member as the Pod that it runs in: a value, made from the part of the plan at its node.

A member is one bare Pod, pinned to its node by affinity, so that the scheduler still judges taints, devices and ports, and never started
again: nothing but a run may make a member, since one that comes back alone would not know its peers."""

from __future__ import annotations

import hashlib
import json
import math
import typing as t
from dataclasses import dataclass, field

from ..base import address, sizes
from ..base.errors import PdError
from ..base.plain import Plain
from ..runtimes import container as forms
from ..runtimes.container import INSIDE
from ..work.member import Member, Part
from . import names

ENGINE = "engine"
SHM_LIMIT = 16 * 2**30
# Where the start script notes that it has run.
_ONCE = f"{INSIDE}-once"
# What an object may have of annotations, in bytes, less what is not the files'.
FILES_LIMIT = 200 * 1024
_PROBE_EVERY = 2
# Of a mount, and not of its volume.
_SUB_PATH = "subPath"
# Status of a start that the script refuses, as that of the other runtimes.
REFUSED = 78
SAID = "inferops.pd: not started: "


@dataclass(frozen=True)
class Pods:
    """What the cluster and the spec's block `kubernetes` say of all members of a group. `gpu_resource` is the device plugin's name for a
    GPU, `rdma` of (resource, count) for engines, `model` a volume for the folder of the model, with its `subPath`; `overlay` is merged
    under all of ours."""

    namespace: str
    gpu_resource: str = "nvidia.com/gpu"
    rdma: tuple[str, int] | None = None
    model: Plain | None = None
    service_account: str | None = None
    priority_class: str | None = None
    runtime_class: str | None = None
    pull_secrets: tuple[str, ...] = ()
    tolerations: tuple[Plain, ...] = ()
    run_as_non_root: bool = False
    drop_all: bool = False
    seccomp: str | None = None
    overlay: Plain = field(default_factory=dict)

    @classmethod
    def of(cls, namespace: str, raw: Plain) -> Pods:
        """As a part of the plan carries it (Kubernetes.settings)."""
        known: dict[str, t.Any] = {key: tuple(one) if isinstance(one, list) else one for key, one in raw.items()}
        return cls(namespace=namespace, **known)


def render(member: Member, part: Part, label: t.Mapping[str, t.Any], node: str, pods: Pods) -> dict[str, t.Any]:
    """The Pod of one part of a member, on that node. Raises PdError for what a Pod cannot have."""
    group, generation = str(label["group"]), int(label["generation"])
    if not names.legal(names.of_member(member.id)):
        raise PdError(
            f"Member {member.id}: objects of Kubernetes cannot be named so. Give group {group} a name of a-z, 0-9 and -."
        )
    annotations = {
        names.LABEL: json.dumps(label, sort_keys=True),
        names.START: start_script(member.id, group, member.stop.patience),
        **_files(member, part),
    }
    spec = {
        "containers": [_container(member, part, group, generation, pods)],
        "volumes": _volumes(part, pods),
        "hostNetwork": True,
        "dnsPolicy": "ClusterFirstWithHostNet",
        **({"hostIPC": True} if part.ipc == "host" else {}),
        "restartPolicy": "Never",
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": on(node)}},
        "tolerations": [*STAYS, *pods.tolerations],
        # The script kills what outlives the grace; this is for what outlives the script.
        "terminationGracePeriodSeconds": math.ceil(member.stop.patience) + 2,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        **({"serviceAccountName": pods.service_account} if pods.service_account else {}),
        **({"priorityClassName": pods.priority_class} if pods.priority_class else {}),
        **({"runtimeClassName": pods.runtime_class} if pods.runtime_class else {}),
        **({"imagePullSecrets": [{"name": name} for name in pods.pull_secrets]} if pods.pull_secrets else {}),
        **security(pods),
    }
    made: dict[str, t.Any] = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": names.of_member(member.id),
            "namespace": pods.namespace,
            "labels": {
                **names.labels(group),
                names.MEMBER: member.id,
                names.NODE: node,
                names.ROLE: member.role,
                names.INDEX: str(member.index),
                names.REVISION: member.revision,
                names.GENERATION: str(generation),
            },
            "annotations": annotations,
        },
        "spec": merged(pods.overlay, spec),
    }
    made["metadata"]["annotations"][names.MANIFEST] = digest(made)
    return made


def digest(manifest: Plain) -> str:
    """What tells a Pod from one that would be made otherwise: all of it but the label, in which there are times."""
    notes = {k: v for k, v in manifest["metadata"]["annotations"].items() if k not in (names.LABEL, names.MANIFEST)}
    told = [manifest["metadata"]["labels"], notes, manifest["spec"]]
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:16]


def merged(under: Plain, over: Plain) -> dict[str, t.Any]:
    """`over` laid on `under`: mappings key by key, all else as `over` has it."""
    found = dict(under)
    for key, value in over.items():
        both = isinstance(found.get(key), t.Mapping) and isinstance(value, t.Mapping)
        found[key] = merged(found[key], value) if both else value
    return found


def literal(text: t.Any) -> str:
    """A text that kubelet hands on as it is: it would expand $(NAME), and takes $$ for a dollar."""
    return str(text).replace("$", "$$")


def start_script(member: str, group: str, grace: float) -> str:
    """The script that is process 1 of the container: it starts the member once, and hands SIGTERM on."""
    return f"""#!/bin/sh
# Start of member {member} of group {group}, written by the Ansible collection inferops.pd.
# Kubelet may start a container a second time, whatever the restart policy says: after a boot, or when it was itself interrupted.
if ! mkdir {_ONCE}/started 2>/dev/null; then
    echo "{SAID}it has run before, and would not know its peers; deploy the group again" >&2
    exit {REFUSED}
fi
_pd_stopped= _pd_child=
_pd_stop() {{
    _pd_stopped=1
    [ -n "$_pd_child" ] || return
    kill -TERM "$_pd_child" 2>/dev/null
    {{ sleep {max(1, math.ceil(grace))} && kill -KILL "$_pd_child"; }} >/dev/null 2>&1 &
}}
trap _pd_stop TERM
# Shells let what runs beside them ignore these two, and not every shell takes it back.
_pd_plain="env --default-signal=INT,QUIT"
$_pd_plain true 2>/dev/null || _pd_plain=
$_pd_plain "$@" &
_pd_child=$!
[ -z "$_pd_stopped" ] || _pd_stop
while :; do
    wait "$_pd_child"
    _pd_code=$?
    kill -0 "$_pd_child" 2>/dev/null || break
done
[ -z "$_pd_stopped" ] || _pd_code=0
exit "$_pd_code"
"""


def _container(member: Member, part: Part, group: str, generation: int, pods: Pods) -> dict[str, t.Any]:
    if not part.image:
        raise PdError(f"Member {member.id} has no image.")
    moves = member.role != "router"
    env = {
        **part.env,
        # Process titles would overwrite what marks the processes of a member.
        "SPT_NOENV": "1",
        "INFEROPS_PD_MEMBER": member.id,
        "INFEROPS_PD_GROUP": group,
    }
    secret = names.of_secrets(group, generation, member.role)
    return {
        "name": ENGINE,
        "image": part.image,
        "imagePullPolicy": "Never" if part.pull == "never" else "IfNotPresent",
        "command": ["/bin/sh", f"{INSIDE}/start"],
        "args": [literal(word) for word in part.argv],
        "env": [
            *({"name": key, "value": literal(value)} for key, value in sorted(env.items())),
            *({"name": name, "valueFrom": {"secretKeyRef": {"name": secret, "key": name}}} for name in part.secrets),
        ],
        "ports": [{"containerPort": port, "hostPort": port} for port in sorted(part.held_ports)],
        "resources": _resources(member, part, pods, moves),
        "volumeMounts": _mounts(part, pods),
        "readinessProbe": _ready(member, part),
        "securityContext": _capabilities(pods, moves),
        # The last words of the log tell a person why it ended.
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }


def _ready(member: Member, part: Part) -> dict[str, t.Any]:
    """Kubelet asks what hosts ask: 200 at the health path. Nobody asks whether it lives: engines fail such probes under load."""
    path, port = member.probe.health, part.port
    asked: dict[str, t.Any] = {"tcpSocket": {"port": port}}
    if path:
        found = address.of_url(member.url)
        asked = {"httpGet": {"path": path, "port": port, **({"host": found[0]} if found else {})}}
    return {**asked, "periodSeconds": _PROBE_EVERY, "timeoutSeconds": 3, "failureThreshold": 3}


def _resources(member: Member, part: Part, pods: Pods, moves: bool) -> dict[str, t.Any]:
    limits: dict[str, t.Any] = {}
    if part.gpus:
        limits[pods.gpu_resource] = str(len(part.gpus))
    if moves and pods.rdma:
        limits[pods.rdma[0]] = str(pods.rdma[1])
    if part.limits.get("cpu"):
        limits["cpu"] = f"{round(float(part.limits['cpu']) * 1000)}m"
    if part.limits.get("memory"):
        limits["memory"] = str(_bytes(part.limits["memory"], member.id))
    return {"limits": limits, "requests": dict(limits)} if limits else {}


def _bytes(text: t.Any, member: str) -> int:
    found = sizes.parse_bytes(text)
    if found is None:
        raise PdError(f"Member {member}: {text!r} is no size. Write it as 2GiB or 512MiB.")
    return found


def _capabilities(pods: Pods, moves: bool) -> dict[str, t.Any]:
    added = ["IPC_LOCK"] if moves and not pods.drop_all else []
    capabilities = {**({"drop": ["ALL"]} if pods.drop_all else {}), **({"add": added} if added else {})}
    found: dict[str, t.Any] = {"capabilities": capabilities} if capabilities else {}
    return {**found, "allowPrivilegeEscalation": False} if pods.drop_all else found


def security(pods: Pods) -> dict[str, t.Any]:
    found: dict[str, t.Any] = {"runAsNonRoot": True} if pods.run_as_non_root else {}
    if pods.seccomp:
        found["seccompProfile"] = {"type": pods.seccomp}
    return {"securityContext": found} if found else {}


# -- where it runs ---------------------------------------------------------------------------------------------------------------------

# A node that is out of sight keeps its members: nothing of ours may be taken away because an API server cannot see it.
STAYS = tuple(
    {"key": f"node.kubernetes.io/{what}", "operator": "Exists", "effect": "NoExecute"}
    for what in ("not-ready", "unreachable")
)


def on(node: str) -> dict[str, t.Any]:
    """By the name of the node's object: its label for the host's name may be another one."""
    named = {"key": "metadata.name", "operator": "In", "values": [node]}
    return {"nodeSelectorTerms": [{"matchFields": [named]}]}


# -- what it finds there ---------------------------------------------------------------------------------------------------------------


def _files(member: Member, part: Part) -> dict[str, str]:
    """The member's files, as annotations of its own: no object stands beside the Pod that could be another generation's."""
    found = {f"{names.FILE}{number}": str(file["content"]) for number, file in enumerate(part.files)}
    size = sum(len(content.encode()) for content in found.values())
    if size > FILES_LIMIT:
        raise PdError(
            f"Member {member.id}: its files are {sizes.told_size(size)}, and a Pod can bring {sizes.told_size(FILES_LIMIT)}."
            " Put the large one on the nodes or into the image, and name its path."
        )
    return found


def _volumes(part: Part, pods: Pods) -> list[dict[str, t.Any]]:
    notes = [{"path": "start", "fieldRef": {"fieldPath": f"metadata.annotations['{names.START}']"}}]
    notes += [
        {"path": _within(str(file["path"])), "fieldRef": {"fieldPath": f"metadata.annotations['{names.FILE}{number}']"}}
        for number, file in enumerate(part.files)
    ]
    found: list[dict[str, t.Any]] = [
        {"name": "pd", "downwardAPI": {"items": notes, "defaultMode": 0o555}},
        {"name": "pd-once", "emptyDir": {}},
    ]
    if part.ipc != "host":
        size = _bytes(part.limits.get("shm") or SHM_LIMIT, "")
        found.append({"name": "pd-shm", "emptyDir": {"medium": "Memory", "sizeLimit": str(size)}})
    if part.model:
        found.append({"name": "pd-model", **model_volume(pods, part.model)})
    found += [
        {"name": f"pd-mount-{number}", "hostPath": {"path": forms.mount(mount).source}}
        for number, mount in enumerate(part.mounts)
    ]
    return found


def model_volume(pods: Pods, path: str) -> dict[str, t.Any]:
    """Where the folder of a model comes from that is found at `path`. Of another kind than a folder it would be made where it is not."""
    volume = pods.model or {"hostPath": {"path": path, "type": "Directory"}}
    return {key: one for key, one in volume.items() if key != _SUB_PATH}


def model_mount(pods: Pods, path: str) -> dict[str, t.Any]:
    """How they find it there."""
    within = (pods.model or {}).get(_SUB_PATH)
    return {"mountPath": path, "readOnly": True, **({_SUB_PATH: within} if within else {})}


def _mounts(part: Part, pods: Pods) -> list[dict[str, t.Any]]:
    found: list[dict[str, t.Any]] = [
        {"name": "pd", "mountPath": INSIDE, "readOnly": True},
        {"name": "pd-once", "mountPath": _ONCE},
    ]
    if part.ipc != "host":
        found.append({"name": "pd-shm", "mountPath": "/dev/shm"})
    if part.model:
        found.append({"name": "pd-model", **model_mount(pods, part.model)})
    for number, mount in enumerate(part.mounts):
        given = forms.mount(mount)
        found.append(
            {"name": f"pd-mount-{number}", "mountPath": given.target, **({"readOnly": True} if given.read_only else {})}
        )
    return found


def _within(path: str) -> str:
    """The place of a file in the folder of ours."""
    return path[len(INSIDE) + 1 :] if path.startswith(f"{INSIDE}/") else path.lstrip("/")
