# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# This module util is PRIVATE to the collection.
"""Room on the disks of this host, and what is left on its GPUs."""

from __future__ import annotations

import os
import typing as t

from . import command, processes

_APPS = ["nvidia-smi", "--query-compute-apps=gpu_uuid,pid,used_memory,process_name", "--format=csv,noheader,nounits"]


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
    found = []
    for line in said.splitlines():
        cells = [cell.strip() for cell in line.split(",", 3)]
        if len(cells) == 4 and cells[1].isdigit():
            mark = marker(int(cells[1]))
            found.append(
                {
                    "uuid": cells[0],
                    "pid": int(cells[1]),
                    "used_mib": int(cells[2]) if cells[2].isdigit() else None,
                    "command": os.path.basename(cells[3].split()[0]) if cells[3] else "",
                    "member": mark[0] if mark else None,
                }
            )
    return found
