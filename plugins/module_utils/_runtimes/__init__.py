# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runtimes by name: each runs members on a host."""

from __future__ import annotations

import typing as t

from .errors import HostError
from .protocol import Prepares, Runtime
from .state import State

NAMES = ("supervisor", "docker", "systemd")


def runtime(
    name: str, state: State, supervisord: str | None = None, docker_host: str | None = None, scope: str | None = None
) -> Runtime:
    """The runtime of that name over one state directory. Only that one is imported: each brings a library or a protocol of its own."""
    if name == "supervisor":
        from .supervisor import Supervisor

        return Supervisor(state, supervisord)
    if name == "docker":
        from .docker import Docker

        return Docker(state, docker_host)
    if name == "systemd":
        from .systemd import Systemd

        return Systemd(state, scope)
    raise HostError(
        f"Choosing runtime {name}",
        f"there are only {', '.join(NAMES)} here",
        "Set the group's runtime to one of these.",
    )


def used(state: State, group: str | None = None) -> list[str]:
    """The runtimes of the members on this host, or of those of one group."""
    labels = [label for label in state.labels() if group in (None, label.get("group"))]
    return sorted({str(label["runtime"]) for label in labels if label.get("runtime") in NAMES})


def images(runtimes: t.Mapping[str, Runtime], names: t.Sequence[str]) -> dict[str, dict[str, t.Any]]:
    """What the runtime that has images says of these."""
    for one in runtimes.values():
        if isinstance(one, Prepares):
            return one.images(names)
    return {}
