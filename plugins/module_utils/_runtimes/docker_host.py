# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Traits of this host as its container engine gives them to containers, as a value for docker_spec."""

from __future__ import annotations

import os
import typing as t

from .docker_said import Said
from .docker_spec import AMD_DEVICES, ASCEND_DEVICES, ASCEND_DRIVER, INFINIBAND, Traits

_NVIDIA = "/dev/nvidiactl"


def traits(info: Said, exists: t.Callable[[str], bool] = os.path.exists) -> Traits:
    """From what the engine says of itself, and from which device files there are."""
    asked = (INFINIBAND, *AMD_DEVICES, *ASCEND_DEVICES, *ASCEND_DRIVER, _NVIDIA)
    present = frozenset(path for path in asked if exists(path))
    vendors = [
        vendor
        for vendor, path in (("nvidia", _NVIDIA), ("ascend", ASCEND_DEVICES[0]), ("amd", AMD_DEVICES[0]))
        if path in present
    ]
    return Traits(
        runtimes=tuple(sorted(info["Runtimes"])),
        default_runtime=info["DefaultRuntime"],
        log_driver=info["LoggingDriver"],
        # Podman's socket speaks Docker's language, with an accent.
        podman=info["BuildahVersion"],
        memory=info["MemTotal"] or 0,
        present=present,
        device_groups=_groups() if "amd" in vendors else (),
        # A host with several kinds must be told which by the part.
        vendor=vendors[0] if len(vendors) == 1 else None,
        user_namespaces=any("name=userns" in option for option in info["SecurityOptions"]),
        selinux=any("name=selinux" in option for option in info["SecurityOptions"]),
    )


def _groups() -> tuple[int, ...]:
    """The groups of the AMD devices."""
    paths = ["/dev/kfd"]
    if os.path.isdir("/dev/dri"):
        paths += [os.path.join("/dev/dri", name) for name in os.listdir("/dev/dri") if name.startswith("renderD")]
    found = set()
    for path in paths:
        try:
            found.add(os.stat(path).st_gid)
        except OSError:
            continue
    return tuple(sorted(found - {0}))
