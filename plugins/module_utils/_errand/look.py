# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The look at a node, from inside of a Pod on its network: what only the machine can tell, with the functions by which a host is looked
at, so that the facts of both have one shape."""

from __future__ import annotations

import platform
import sys
import time
import typing as t

from .._core.base.plain import Plain
from .._core.facts import observed
from .._core.facts.kv_interface import PLANES, names_of
from .._probes import executables, machine, model, network, ports, rdma
from .._probes.deadline import Look

# Files may be on a file system whose server is gone: all looks at them take no longer than this together.
FILES_TIMEOUT = 60.0
_NO_MODEL = {"fingerprint": None, "config": None, "weights": None}
_NO_EXECUTABLE = {"path": None, "version": None, "distribution": None}


def look(order: Plain, _secrets: Plain) -> dict[str, t.Any]:
    """`order`: {ports: range, kv_interface: names or patterns, interface_plane, address: the node's own, models: paths, executables:
    names}. The answer has what the fact of a host has under the same keys."""
    low, high = observed.parse_range(str(order["ports"]), "pd_nodes: port_range")
    end = time.monotonic() + FILES_TIMEOUT
    models = {str(path): Look(model.facts, str(path)) for path in order.get("models") or ()}
    programs = {str(name): Look(executables.facts, str(name)) for name in order.get("executables") or ()}
    found = network.interfaces()
    address = network.http_address(found, str(order.get("address") or "").strip() or None)
    names = names_of(order.get("kv_interface") or ())
    planes = {plane: network.choose(found, names, plane, address).to_plain() for plane in PLANES}
    kernel = ports.kernel_ranges()
    return {
        "address": address,
        "kv_interface": planes[str(order.get("interface_plane") or "data")],
        "kv_interfaces": planes,
        "interfaces": [one.plain() for one in found],
        "rdma_devices": rdma.devices(),
        "ports": {
            "range": f"{low}-{high}",
            # Whose they are is not seen from a Pod, only that they are taken.
            "used": [one.plain() for one in ports.listening()],
            **kernel,
            "exposed": ports.exposed(low, high, kernel),
        },
        "machine": machine.machine(),
        "models": {path: _told(one, end, _NO_MODEL) for path, one in models.items()},
        "executables": {name: _told(one, end, _NO_EXECUTABLE) for name, one in programs.items()},
        "python": {"version": platform.python_version(), "executable": sys.executable},
    }


def _told(look_: Look[t.Any], end: float, otherwise: Plain) -> dict[str, t.Any]:
    try:
        return dict(look_.result(end - time.monotonic()))
    except TimeoutError:
        why = f"looking at it gave no answer within {FILES_TIMEOUT:g} s"
    except (OSError, ValueError, RecursionError) as exc:
        why = f"it cannot be read ({exc})"
    return {**otherwise, "exists": False, "why": why}
