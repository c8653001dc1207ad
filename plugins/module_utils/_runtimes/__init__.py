# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runtimes by name: each runs members on a host."""

from __future__ import annotations

import os
import typing as t

from .._core.runtimes import options, table
from .errors import HostError
from .protocol import Driver
from .state import State
from .store import Store


# Each brings a library or a protocol of its own, so only the one that is asked for is imported. Ansible ships a host what it finds in
# import statements: a name put together at run time would not be there.
def _docker() -> t.Callable[..., Driver]:
    from .docker import Docker

    return Docker


def _systemd() -> t.Callable[..., Driver]:
    from .systemd import Systemd

    return Systemd


def _supervisor() -> t.Callable[..., Driver]:
    from .supervisor import Supervisor

    return Supervisor


DRIVERS: dict[str, t.Callable[[], t.Callable[..., Driver]]] = {
    "docker": _docker,
    "systemd": _systemd,
    "supervisor": _supervisor,
}


def driver(name: str, state: State, runtime_options: t.Mapping[str, t.Any] | None = None) -> Driver:
    """The driver of that runtime over one state directory, with its own of the options of all (_core/runtimes/options.py)."""
    if name not in DRIVERS:
        raise HostError(
            f"Choosing runtime {name}",
            f"there are only {', '.join(DRIVERS)} here",
            "Set the group's runtime to one of these.",
        )
    given = options.read(runtime_options)[name]
    for option in table.runtime_of(name).options:
        value = given[option.name]
        if option.type == "path" and value is not None:
            given[option.name] = os.path.expanduser(os.path.expandvars(value))
    return DRIVERS[name]()(state, **given)


def used(state: Store, group: str | None = None) -> list[str]:
    """The runtimes of the members on this host, or of those of one group."""
    labels = [label for label in state.labels() if group in (None, label.get("group"))]
    return sorted({str(label["runtime"]) for label in labels if label.get("runtime") in DRIVERS})
