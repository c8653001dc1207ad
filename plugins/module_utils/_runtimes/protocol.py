# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The protocol of a runtime: what each can do. The use cases know this and no runtime."""

from __future__ import annotations

import typing as t

from .store import Damaged


class Ended(t.TypedDict, total=False):
    """What is told only of a member that has ended: the last line of its log, cut."""

    log_line: str


class Live(Ended):
    """A member as its host sees it. `state` is running, restarting, exited or missing (_core/facts/observed.py)."""

    label: dict[str, t.Any]
    state: str
    pid: int | None
    since: float | None
    restarts: int
    exit: int | None
    why: str
    log: str | None


class Availability(t.TypedDict):
    available: bool
    why: str
    hint: str


@t.runtime_checkable
class Prepares(t.Protocol):
    """A runtime that gets something onto the host before members can be created: images."""

    def prepare(self, members: t.Sequence[t.Mapping[str, t.Any]]) -> list[str]:
        """Have what these members need here, or raise HostError. Returns warnings."""

    def images(self, names: t.Sequence[str]) -> dict[str, dict[str, t.Any]]:
        """Of each image whether it exists, its id and digest; of a missing one whether it is pullable, and why not."""


@t.runtime_checkable
class TellsDamage(t.Protocol):
    """A runtime that keeps labels of its own, beside those in the state directory."""

    def damaged(self) -> list[Damaged]:
        """What it keeps and cannot be believed."""


class Runtime(t.Protocol):
    """Runs members on this host. Every call has a deadline; what does not work is a HostError."""

    name: str

    def available(self) -> Availability:
        """Whether members can be created here; else why not, and what to do."""

    def members(self) -> list[Live]:
        """Every member on this host, of every group, with its live state."""

    def create(self, member: t.Mapping[str, t.Any], label: dict[str, t.Any], secrets: t.Mapping[str, str]) -> list[str]:
        """Create and start one member (a member of the plan, one part). Returns warnings."""

    def remove(self, group: str, member: str, grace: float) -> None:
        """Stop a member, see that every process of it is gone, and delete what was kept of it. Not being there is no error."""

    def logs(self, group: str, member: str, lines: int) -> list[str]:
        """The last lines of its log, secrets masked."""

    def sweep(self) -> None:
        """When no member is left: end what the runtime itself keeps running, and delete its files."""
