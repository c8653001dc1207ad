# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Members of other state folders of this machine: what they hold is taken, though this run has nothing to do with them.

They are found by what their processes carry, and by their containers' labels. What each holds stands in its label, which is another user's
to write: only the numbers that are looked for are taken from it, and no more of them than a member can have."""

from __future__ import annotations

import json
import os
import typing as t
from dataclasses import dataclass, field
from itertools import islice

from . import carried, machine, processes, small_file

LABEL_LIMIT = 256 * 1024
MOST_PORTS = 4096
_MOST_GPUS = 1024
_MOST_GROUPS = 1000
Told = dict[str, t.Any]


@dataclass(frozen=True)
class Container:
    """A container with a label of ours, of whatever state folder."""

    state_dir: str
    label: t.Mapping[str, t.Any]
    running: bool
    host_network: bool


@dataclass
class _Other:
    """One member of another state folder, as it is pieced together."""

    state_dir: str
    member: str
    group: str | None = None
    owner: str | None = None
    label: t.Mapping[str, t.Any] = field(default_factory=dict)
    # In another network namespace its ports are no ports of ours.
    same_network: bool = False


def find(root: str, containers: t.Iterable[Container] = (), proc: str = "/proc") -> list[Told]:
    """{state_dir, member, group, owner, gpus, ports} of each member of another folder than `root` that has a process or a container."""
    found: dict[tuple[str, str], _Other] = {}
    own_network = machine.namespace("self", proc)
    for pid in sorted(int(name) for name in os.listdir(proc) if name.isdigit()):
        said = carried.marks(pid, proc)
        if not said or is_ours(said["state_dir"], root, pid, proc):
            continue
        other = found.setdefault(
            (said["state_dir"], said["member"]), _Other(said["state_dir"], said["member"], said["group"])
        )
        network = machine.namespace(pid, proc)
        other.same_network = other.same_network or network in (own_network, None)
        if other.owner is None:
            other.owner = _owner(f"{proc}/{pid}")
            other.label = _label(other, pid, proc)
    for container in containers:
        _add(found, container, root)
    return [_told(found[key]) for key in sorted(found)]


def is_ours(state_dir: str, root: str, pid: int | None = None, proc: str = "/proc") -> bool:
    """Whether a state folder, as a process writes it, is the one at `root`, under whatever name. In a container's view of the files, or in
    another mount namespace, the same path may be another folder; a container of ours has none there."""
    mine = machine.device(root)
    seen = machine.device(f"{proc}/{pid}/root{state_dir}") if pid else None
    if seen:
        return seen == mine
    return state_dir == root or (mine is not None and machine.device(state_dir) == mine)


def held(label: t.Mapping[str, t.Any], ports: bool = True) -> tuple[list[str], list[int]]:
    """(GPUs, ports) of a label of whatever shape. A band that no member has, one of a hundred million ports say, is left out unexpanded."""
    given = label.get("gpus")
    listed = given[:_MOST_GPUS] if isinstance(given, list) else []
    gpus = [str(gpu) for gpu in listed if isinstance(gpu, int) or (isinstance(gpu, str) and len(gpu) <= 80)]
    bands = label.get("ports")
    wanted = [{"base": label.get("port"), "count": 1}, *(bands.values() if isinstance(bands, dict) else ())]
    taken: set[int] = set()
    for band in wanted if ports else ():
        base, count = (_number(band.get(key)) for key in ("base", "count")) if isinstance(band, dict) else (0, 0)
        if base and count and base + count - 1 <= 65535 and len(taken) + count <= MOST_PORTS:
            taken |= set(range(base, base + count))
    return [gpu for gpu in gpus if gpu.isprintable()], sorted(taken)


def _number(value: t.Any) -> int:
    """A port, or a count of them; 0 for what is none."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= 65535 else 0


def _name(value: t.Any) -> str | None:
    return value if isinstance(value, str) and carried.NAME.fullmatch(value) else None


def _add(found: dict[tuple[str, str], _Other], container: Container, root: str) -> None:
    member, group = _name(container.label.get("member")), _name(container.label.get("group"))
    if not container.running or not member or is_ours(container.state_dir, root):
        return
    key = (container.state_dir, member)
    other = found.get(key)
    if other is None:
        # Its processes are not ours to look at: what is told of its network is believed.
        other = found[key] = _Other(*key, owner=_owner(container.state_dir), same_network=container.host_network)
    other.label, other.group = container.label, other.group or group


def _label(other: _Other, pid: int, proc: str) -> t.Mapping[str, t.Any]:
    """The label file in the member's own folder, as its process sees that, else as we do."""
    for base in (f"{proc}/{pid}/root{other.state_dir}", other.state_dir):
        groups = [other.group] if other.group else _entries(f"{base}/groups")
        for group in groups:
            content = small_file.read(f"{base}/groups/{group}/members/{other.member}/label.json", LABEL_LIMIT)
            label = _object(content)
            if label is not None:
                other.group = group
                return label
    return {}


def _object(content: bytes | None) -> dict[str, t.Any] | None:
    try:
        value = json.loads(content) if content else None
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _entries(path: str) -> list[str]:
    try:
        with os.scandir(path) as entries:
            return sorted(entry.name for entry in islice(entries, _MOST_GROUPS) if carried.NAME.fullmatch(entry.name))
    except OSError:
        return []


def _owner(path: str) -> str | None:
    try:
        return processes.user_name(os.stat(path).st_uid)
    except OSError:
        return None


def _told(other: _Other) -> Told:
    gpus, ports = held(other.label, other.same_network)
    return {
        "state_dir": other.state_dir,
        "member": other.member,
        "group": other.group,
        "owner": other.owner,
        "gpus": gpus,
        "ports": ports,
    }
