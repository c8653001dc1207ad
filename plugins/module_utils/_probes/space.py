# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Room on the disks of this host, and who is on its GPUs.

Who is on GPUs is what the drivers' tools say: NVIDIA's and Ascend's. AMD's (rocm-smi --showpids, amd-smi process) name processes in forms
that differ by version and could not be tried: strangers on AMD GPUs are not seen."""

from __future__ import annotations

import os
import re
import typing as t

from .._core.base.printable import printable
from .._core.base.values import integer
from . import carried, command, elsewhere, processes

_APPS = ["nvidia-smi", "--query-compute-apps=gpu_uuid,pid,used_memory,process_name", "--format=csv,noheader,nounits"]
_NPU_APPS = ["npu-smi", "info"]
# The server by which processes share a GPU: it holds a little memory of every GPU of a host, for whoever comes.
_SERVICES = ("nvidia-cuda-mps-server",)


def room(path: str) -> dict[str, t.Any]:
    """{path, there, free, total, files, writable} of a directory, or of the nearest one above it that exists."""
    there = os.path.abspath(path)
    while not os.path.isdir(there) and there != "/":
        there = os.path.dirname(there)
    try:
        found = os.statvfs(there)
    except OSError as exc:
        return {"path": path, "there": there, "why": str(exc.strerror)}
    return {
        "path": path,
        "there": there,
        "free": found.f_bavail * found.f_frsize if os.geteuid() else found.f_bfree * found.f_frsize,
        "total": found.f_blocks * found.f_frsize,
        # Some file systems have no count of files.
        "files": found.f_favail if found.f_files else None,
        "writable": os.access(there, os.W_OK | os.X_OK) and not found.f_flag & os.ST_RDONLY,
    }


def on_gpus() -> list[dict[str, t.Any]]:
    """The processes that hold memory of NVIDIA GPUs, each with the member that it belongs to."""
    said = command.run(_APPS)
    return parse_apps(said.out) if said and not said.error else []


def parse_apps(
    said: str, marker: t.Callable[[int], tuple[str, str] | None] = processes.marker
) -> list[dict[str, t.Any]]:
    """nvidia-smi --query-compute-apps=gpu_uuid,pid,used_memory,process_name"""
    found = []
    for line in said.splitlines():
        cells = [cell.strip() for cell in line.split(",", 3)]
        pid = integer(cells[1]) if len(cells) == 4 else None
        if pid is not None and pid >= 0:
            mark = marker(pid)
            found.append(
                {
                    "uuid": cells[0],
                    "pid": pid,
                    "used_mib": integer(cells[2]),
                    "command": _program(cells[3]),
                    "member": mark[0] if mark else None,
                }
            )
    return found


def parse_npu_apps(said: str) -> list[dict[str, t.Any]]:
    """The list of processes below the table of npu-smi info: NPU and chip, the pid on the host, its name. A newer tool has a column more,
    the pid in the process's container."""
    found = []
    _table, _title, rows = said.partition("Process id")
    for line in rows.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        chip = re.fullmatch(r"(\d+)\s+(\d+)", cells[0])
        pid = integer(cells[1]) if chip and len(cells) > 3 else None
        if chip and pid is not None and pid >= 0:
            found.append({"uuid": f"{chip[1]}.{chip[2]}", "pid": pid, "command": _program(cells[2])})
    return found


def users(ask: t.Callable[[t.Sequence[str]], command.Said | None] = command.run) -> tuple[list[dict[str, t.Any]], str]:
    """(Who is on the GPUs of this host: {uuid, pid, command}, what went wrong in looking). `uuid` is the tool's own name of the GPU."""
    found: list[dict[str, t.Any]] = []
    problems = []
    for argv, parse in ((_APPS, _nvidia_apps), (_NPU_APPS, parse_npu_apps)):
        said = ask(argv)
        if said and said.error:
            problems.append(f"who is on the GPUs could not be read: {said.error}")
        elif said:
            found += parse(said.out)
    return found, "; ".join(problems)


def strangers(
    found: t.Iterable[t.Mapping[str, t.Any]],
    names: t.Mapping[str, t.Sequence[str]],
    root: str,
    ours: t.Collection[str] = (),
    proc: str = "/proc",
    known: t.Collection[str] | None = None,
) -> list[dict[str, t.Any]]:
    """{gpu, pid, command, member} of those who are on a GPU and are no members of the state folder `root`. `names` gives the ids of each
    GPU, `ours` the GPUs of members that live here, `known` the members that a label tells of (None: all): the GPUs of others nobody else
    knows.

    A process that cannot be looked at (a container's, to a user who is not root; one with a number of another pid namespace) counts as the
    member's where one has that GPU: it would be a stranger to itself."""
    told = []
    for one in found:
        if one["command"] in _SERVICES:
            continue
        mark = carried.whose(one["pid"], proc)
        ours_too = bool(mark and elsewhere.is_ours(mark["state_dir"], root, one["pid"], proc))
        if mark and ours_too and (known is None or mark["member"] in known):
            continue
        unseen = not mark and not processes.environ(one["pid"], proc)
        for gpu in names.get(one["uuid"], ()):
            if not (unseen and gpu in ours):
                member = mark["member"] if mark and ours_too else None
                told.append({"gpu": gpu, "pid": one["pid"], "command": one["command"], "member": member})
    return sorted(told, key=lambda one: (one["gpu"], one["pid"]))


def _nvidia_apps(said: str) -> list[dict[str, t.Any]]:
    return [{key: one[key] for key in ("uuid", "pid", "command")} for one in parse_apps(said, lambda _pid: None)]


def _program(words: str) -> str:
    """The name of a program without its path and arguments, fit for a screen: it is a stranger's."""
    name = os.path.basename(words.split()[0]) if words.split() else ""
    return printable(name, 100)
