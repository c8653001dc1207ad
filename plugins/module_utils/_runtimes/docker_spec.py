# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A member as the request that creates its container: a value, made from a part of the plan and from what the host has."""

from __future__ import annotations

import json
import math
import shlex
import typing as t
from dataclasses import dataclass, field

from .._core.base import sizes
from .._core.base.plain import Plain
from .._core.base.process_words import is_held
from .._core.runtimes import container as forms
from .._core.runtimes.accepts import UnfitError
from .._core.runtimes.container import INSIDE
from .._core.work.member import Member, Part
from .._probes import processes
from . import boot, guard
from .errors import HostError

LABEL = "com.inferops.pd"
# The directory, not the file in it: that is replaced by another one.
GUARD = f"{INSIDE}/guard"
SHM_LIMIT = 16 * 2**30
LOG_OPTIONS = {"max-size": "50m", "max-file": "3"}
PULL_POLICIES = ("missing", "always", "never")
# What Ascend's own container runtime would bring in. Without that runtime it is bound, as far as the host has it.
ASCEND_DEVICES = ("/dev/davinci_manager", "/dev/devmm_svm", "/dev/hisi_hdc")
ASCEND_DRIVER = (
    "/usr/local/dcmi",
    "/usr/local/bin/npu-smi",
    "/usr/local/Ascend/driver/lib64",
    "/usr/local/Ascend/driver/version.info",
    "/etc/ascend_install.info",
)
AMD_DEVICES = ("/dev/kfd", "/dev/dri")
INFINIBAND = "/dev/infiniband"


@dataclass(frozen=True)
class Traits:
    """What a host and its container engine have. `present` are those of the paths asked about that exist on the host."""

    runtimes: tuple[str, ...] = ()
    default_runtime: str = "runc"
    log_driver: str = "json-file"
    podman: bool = False
    memory: int = 0
    present: frozenset[str] = frozenset()
    # Groups that own the AMD devices: a user other than root must be in them.
    device_groups: tuple[int, ...] = ()
    vendor: str | None = None
    # Docker's mapping of users, SELinux.
    user_namespaces: bool = False
    selinux: bool = False


@dataclass(frozen=True)
class Container:
    """What `render` needs beside the part: paths on the host that are bound, and how the container is started."""

    image: str
    label: t.Mapping[str, t.Any]
    state_dir: str
    # The start script on the host, or None where the image has no shell.
    start: str | None
    # The file of secrets on the host, when the member has any.
    secrets: str | None = None
    # (source, target) of files and models, read-only.
    bound: tuple[tuple[str, str], ...] = ()
    # Secrets as plain environment, where there is no shell to read them from a file.
    exposed: t.Mapping[str, str] = field(default_factory=dict)
    # The directory on the host where the formation of the member's group stands.
    guard: str | None = None


def render(member: Member, part: Part, container: Container, traits: Traits) -> dict[str, t.Any]:
    """The body of POST /containers/create for one part of a member."""
    name, argv = member.id, [str(word) for word in part.argv]
    grace = math.ceil(member.stop.patience)
    attempts = int(member.restart.get("attempts") or 0)
    gpus = _gpus(part, traits, name)
    env = {
        **gpus.env,
        # What a shell holds itself is in the file of secrets, where there is a shell.
        **{str(k): str(v) for k, v in part.env.items() if not (container.start and is_held(str(k)))},
        **container.exposed,
        # What marks the processes of a member, by which ports are told whose they are. Process titles would overwrite it.
        "SPT_NOENV": "1",
        processes.MEMBER: name,
        processes.STATE: container.state_dir,
        processes.GROUP: str(container.label["group"]),
        **({processes.FORMATION: str(container.label["formation"])} if container.label.get("formation") else {}),
    }
    # A router moves no KV cache: it needs neither RDMA devices nor memory that is locked for them.
    moves = member.role != "router"
    infiniband = [INFINIBAND] if moves and INFINIBAND in traits.present else []
    mounts = [
        _bind(source, target, read_only=True) for source, target in (*_own(container), *container.bound, *gpus.bound)
    ]
    given = [parse_mount(mount, name) for mount in part.mounts]
    taken = {mount["Target"] for mount in given}
    host: dict[str, t.Any] = {
        "NetworkMode": "host",
        "IpcMode": "host" if part.ipc == "host" else "private",
        "CapAdd": ["IPC_LOCK", *gpus.capabilities] if moves else [],
        "Ulimits": [{"Name": "memlock", "Soft": -1, "Hard": -1}] if moves else [],
        "Mounts": [m for m in mounts if m["Target"] not in taken] + given,
        "Devices": [parse_device(d, name) for d in (*infiniband, *gpus.devices, *part.devices)],
        "RestartPolicy": {"Name": "on-failure", "MaximumRetryCount": attempts}
        if attempts and container.start
        else {"Name": "no", "MaximumRetryCount": 0},
        **gpus.host,
        **_security(gpus, traits),
        **_limits(part.limits, name, traits, part.ipc == "host"),
    }
    if traits.log_driver == "json-file":
        host["LogConfig"] = {"Type": "json-file", "Config": dict(LOG_OPTIONS)}
    head = ["/bin/sh", f"{INSIDE}/start"] if container.start else argv[:1]
    return {
        "Image": container.image,
        "Entrypoint": head,
        "Cmd": argv if container.start else argv[1:],
        "Env": [f"{key}={value}" for key, value in sorted(env.items())],
        "Labels": labels(container.label, container.state_dir),
        # The script kills what outlives the grace; this is for what outlives the script.
        "StopTimeout": grace + 2,
        "StopSignal": "SIGTERM",
        "HostConfig": host,
    }


def _security(gpus: _Given, traits: Traits) -> dict[str, t.Any]:
    """What stands between a container with the host's network and the files that are bound into it."""
    found: dict[str, t.Any] = {"UsernsMode": "host"} if traits.user_namespaces else {}
    options = [*gpus.security, *(["label=disable"] if traits.selinux else [])]
    return {**found, "SecurityOpt": options} if options else found


def labels(label: t.Mapping[str, t.Any], state_dir: str) -> dict[str, str]:
    """A container's labels: the whole label as JSON, which is the truth, and the words of it that people filter by."""
    words = {
        f"{LABEL}.{key}": str(label[key]) for key in ("group", "member", "role", "index", "revision", "generation")
    }
    return {**words, f"{LABEL}.state": state_dir, f"{LABEL}.label": json.dumps(label, sort_keys=True)}


def render_start(member: str, group: str, created: float, grace: float, watched: guard.Guard | None = None) -> str:
    """The script that is process 1 of the container. `watched` is what must be as it was.

    It hands SIGTERM on and then ends with status 0, so that the engine's on-failure rule restarts what has crashed and never what was
    stopped: dockerd starts containers of that rule which had failed when it comes up itself, and it stops all when it goes down."""
    mark = shlex.quote(f"/tmp/.inferops-pd-{member}-{created:.3f}")
    checks = guard.render(watched or guard.Guard(), 0, '[ -z "$_pd_first" ]')
    return f"""#!/bin/sh
# Start of member {member} of group {group}, written by the Ansible collection inferops.pd.
_pd_boot= _pd_first=
{{
    # Crashes are restarted by the container engine; a boot is not: a member that comes back alone would not know its peers.
    read -r _pd_boot < /proc/sys/kernel/random/boot_id
    read -r _pd_first < {mark} || echo "$_pd_boot" > {mark}
}} 2>/dev/null
{checks}if [ -n "$_pd_first" ] && [ "$_pd_first" != "$_pd_boot" ]; then
    _pd_refuse "{boot.REFUSED}; deploy the group again"
fi
if [ -e {INSIDE}/env ]; then
    _pd_count=$#
    . {INSIDE}/env || exit 126
    [ $# -eq "$_pd_count" ] || set -- /usr/bin/env "$@"
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


def _own(container: Container) -> list[tuple[str, str]]:
    found = [(container.start, f"{INSIDE}/start")] if container.start else []
    found += [(container.guard, GUARD)] if container.start and container.guard else []
    return [*found, (container.secrets, f"{INSIDE}/env")] if container.secrets and container.start else found


# -- GPUs ------------------------------------------------------------------------------------------------------------------------------


@dataclass
class _Given:
    """What the GPUs of a member add to its container."""

    env: dict[str, str] = field(default_factory=dict)
    devices: list[str] = field(default_factory=list)
    bound: list[tuple[str, str]] = field(default_factory=list)
    capabilities: list[str] = field(default_factory=list)
    security: list[str] = field(default_factory=list)
    host: dict[str, t.Any] = field(default_factory=dict)


def _gpus(part: Part, traits: Traits, member: str) -> _Given:
    ids = [str(gpu) for gpu in part.gpus]
    if not ids:
        # Images of CUDA engines ask for all GPUs by a variable, which the nvidia runtime grants when it is the default.
        return _Given(env={"NVIDIA_VISIBLE_DEVICES": "void"} if traits.default_runtime == "nvidia" else {})
    vendor = str(part.vendor or traits.vendor or "nvidia").lower()
    if vendor not in _VENDORS:
        raise HostError(
            f"Creating member {member}",
            f"how containers get GPUs of vendor {vendor} is not known",
            f"Vendors are {', '.join(sorted(_VENDORS))}; set vendor in pd_gpus, or gpus: 0 and devices by hand.",
            member,
        )
    return _VENDORS[vendor](ids, traits)


def _nvidia(ids: list[str], traits: Traits) -> _Given:
    if traits.podman:
        return _Given(
            host={"DeviceRequests": [{"Driver": "cdi", "DeviceIDs": [f"nvidia.com/gpu={gpu}" for gpu in ids]}]}
        )
    return _Given(host={"DeviceRequests": [{"Driver": "nvidia", "DeviceIDs": ids, "Capabilities": [["gpu"]]}]})


def _amd(ids: list[str], traits: Traits) -> _Given:
    # ROCm's own advice for containers: peers' memory is reached by ptrace rights, and the default filter refuses what NUMA needs.
    return _Given(
        env={"HIP_VISIBLE_DEVICES": ",".join(ids)},
        devices=list(AMD_DEVICES),
        capabilities=["SYS_PTRACE"],
        security=["seccomp=unconfined"],
        host={"GroupAdd": [str(number) for number in traits.device_groups]} if traits.device_groups else {},
    )


def _ascend(ids: list[str], traits: Traits) -> _Given:
    env = {"ASCEND_VISIBLE_DEVICES": ",".join(ids)}
    if "ascend" in traits.runtimes:
        return _Given(env, host={"Runtime": "ascend"})
    devices = [f"/dev/davinci{number}" for number in ids] + list(ASCEND_DEVICES)
    return _Given(env, devices, [(path, path) for path in ASCEND_DRIVER if path in traits.present])


_VENDORS: dict[str, t.Callable[[list[str], Traits], _Given]] = {"nvidia": _nvidia, "amd": _amd, "ascend": _ascend}


# -- what users write ------------------------------------------------------------------------------------------------------------------


def parse_mount(mount: t.Any, member: str) -> dict[str, t.Any]:
    """A mount of the spec as the API takes it. One that is none was refused with its spec; a plan may be older than that rule."""
    try:
        found = forms.mount(mount)
    except UnfitError as exc:
        # pylint cannot follow the class to its Exception.
        raise HostError(f"Reading mount {mount!r} of member {member}", f"it {exc.why}", exc.todo, member) from exc  # pylint: disable=bad-exception-cause
    if found.volume:
        return {"Type": "volume", "Source": found.source, "Target": found.target, "ReadOnly": found.read_only}
    return _bind(found.source, found.target, found.read_only)


def _bind(source: str, target: str, read_only: bool) -> dict[str, t.Any]:
    return {"Type": "bind", "Source": source, "Target": target, "ReadOnly": read_only}


def parse_device(device: t.Any, member: str) -> dict[str, str]:
    """A device of the spec as the API takes it."""
    try:
        found = forms.device(device)
    except UnfitError as exc:
        # pylint cannot follow the class to its Exception.
        raise HostError(f"Reading device {device!r} of member {member}", f"it {exc.why}", exc.todo, member) from exc  # pylint: disable=bad-exception-cause
    return {"PathOnHost": found.source, "PathInContainer": found.target, "CgroupPermissions": found.rights}


def _limits(limits: Plain, member: str, traits: Traits, host_ipc: bool) -> dict[str, t.Any]:
    """CPU and memory as the spec limits them, and the size of /dev/shm: 16 GiB, or half of a smaller host's memory. It is a limit, nothing
    is set aside. With host IPC the host's own is used."""
    found: dict[str, t.Any] = {}
    if limits.get("cpu"):
        found["NanoCpus"] = round(float(limits["cpu"]) * 10**9)
    if limits.get("memory"):
        found["Memory"] = parse_size(limits["memory"], member)
    if not host_ipc:
        shm = (
            parse_size(limits["shm"], member) if limits.get("shm") else min(SHM_LIMIT, traits.memory // 2 or SHM_LIMIT)
        )
        found["ShmSize"] = shm
    return found


def parse_size(text: t.Any, member: str) -> int:
    """Bytes of a size such as 2GiB, 512M or 1073741824."""
    found = sizes.parse_bytes(text)
    if found is None:
        raise HostError(
            f"Reading the size {text!r} of member {member}", "it is none", "Write it as 2GiB or 512MiB.", member
        )
    return found
