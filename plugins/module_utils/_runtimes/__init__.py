# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# This module util is PRIVATE to the collection.
"""Runtimes by name: what runs members on a host."""

from __future__ import annotations

import typing as t

from .errors import HostError
from .protocol import Runtime
from .state import State
from .supervisor import Supervisor

NAMES = ("supervisor",)


def runtime(name: str, state: State, supervisord: str | None = None) -> Runtime:
    """The runtime of that name over one state directory."""
    if name == "supervisor":
        return Supervisor(state, supervisord)
    raise HostError(
        f"Choosing runtime {name}",
        f"there are only {', '.join(NAMES)} here",
        "Set the group's runtime to one of these.",
    )


def labels(state: State) -> list[dict[str, t.Any]]:
    """The labels of all members on this host, of every runtime: what a plan's digest is made of."""
    return state.labels()
