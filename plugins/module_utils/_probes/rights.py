# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rights of this user's processes over memory and RDMA devices, and the drivers that the kernel has for them."""

from __future__ import annotations

import glob
import os
import re
import resource
import typing as t

from .links import text

_IPC_LOCK = 14


def rights(proc: str = "/proc") -> dict[str, t.Any]:
    """{user, memlock, ipc_lock}: memlock in bytes, None without a limit; what a process started from here has."""
    soft, _hard = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    effective = re.search(r"^CapEff:\s*([0-9a-f]+)", text(f"{proc}/self/status"), re.M)
    return {
        "user": os.geteuid(),
        "memlock": None if soft == resource.RLIM_INFINITY else soft,
        "ipc_lock": bool(effective and int(effective[1], 16) >> _IPC_LOCK & 1),
    }


def rdma(dev: str = "/dev", sys: str = "/sys", proc: str = "/proc") -> dict[str, t.Any]:
    """{verbs, open, peermem, dma_buf}: whether programs can use RDMA devices, and whether these reach into GPUs' memory."""
    verbs = sorted(glob.glob(f"{dev}/infiniband/uverbs*"))
    driver = text(f"{proc}/driver/nvidia/version")
    return {
        "verbs": [os.path.basename(path) for path in verbs],
        "open": all(os.access(path, os.R_OK | os.W_OK) for path in verbs),
        "peermem": [name for name in ("nvidia_peermem", "nv_peer_mem") if os.path.isdir(f"{sys}/module/{name}")],
        # The open kernel modules export memory as DMA-BUF, which the RDMA core takes since 5.12.
        "dma_buf": "Open Kernel Module" in driver and _kernel(proc) >= (5, 12),
    }


def drivers(
    proc: str = "/proc", sys: str = "/sys", ascend: str = "/usr/local/Ascend/driver/version.info"
) -> dict[str, str]:
    """The versions of the drivers that are there, by vendor."""
    found = {}
    nvidia = re.search(r"Kernel Module(?: for \S+)?\s+([\d.]+)", text(f"{proc}/driver/nvidia/version"))
    if nvidia:
        found["nvidia"] = nvidia[1]
    if text(f"{sys}/module/amdgpu/version"):
        found["amd"] = text(f"{sys}/module/amdgpu/version")
    npu = re.search(r"^Version=(\S+)", text(ascend), re.M)
    if npu:
        found["ascend"] = npu[1]
    return found


def _kernel(proc: str) -> tuple[int, int]:
    found = re.match(r"(\d+)\.(\d+)", text(f"{proc}/sys/kernel/osrelease"))
    return (int(found[1]), int(found[2])) if found else (0, 0)
