# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The store of groups and their members on a host, whatever keeps it: files (state.py), or the memory of a test."""

from __future__ import annotations

import typing as t


class Damaged(t.NamedTuple):
    """Something that is kept and cannot be believed: where, why, and of which group and member."""

    path: str
    why: str
    group: str | None
    member: str | None


class Store(t.Protocol):
    """Labels and records are checked when they are read: what comes out of here has the shape that _core/facts says. `lock` is held for
    every decision and every change."""

    @property
    def root(self) -> str:
        """What the store is known by on its host."""

    def lock(self, wait: float = ...) -> t.ContextManager[None]:
        """Hold the host's lock. Reentrant within a process; between processes it is waited for."""

    def labels(self) -> list[dict[str, t.Any]]:
        """The label of every member of every group that can be read."""

    def beside(self, place: str) -> list[dict[str, t.Any]]:
        """The labels of members that share ports and GPUs with who comes to a place."""

    def label(self, group: str, member: str) -> dict[str, t.Any] | None:
        """One label; raises DamagedError for one that cannot be believed."""

    def write_label(self, label: t.Mapping[str, t.Any]) -> None: ...

    def records(self) -> dict[str, dict[str, t.Any]]:
        """The record of every group that can be read."""

    def record(self, group: str) -> dict[str, t.Any] | None:
        """One record; raises DamagedError for one that cannot be believed."""

    def write_record(self, group: str, record: t.Mapping[str, t.Any]) -> None: ...

    def bury(self, group: str, hosts: t.Collection[str]) -> None:
        """Have what these places had of a group not come back, where the store is told of it by who brings it back. They are stated to be
        off: nothing is waited for."""

    def serve(self, group: str, registered: bool, check: bool) -> bool:
        """Have clients find the group's router, or not find it, where the store has a way to tell them. Whether that changes anything; a
        check changes nothing."""

    def damaged(self) -> list[Damaged]:
        """What could not be read."""

    def group_lock(self, group: str) -> dict[str, t.Any] | None:
        """Who changes the group; a host without a part of it is locked, too."""

    def write_lock(self, group: str, lock: t.Mapping[str, t.Any] | None) -> None:
        """Take, renew or, with None, release it."""

    def holds(self, group: str | None = None) -> list[dict[str, t.Any]]:
        """Ports of members that are gone and that a router may still name."""

    def write_holds(self, group: str, holds: t.Sequence[t.Mapping[str, t.Any]]) -> None: ...

    def cordon(self) -> dict[str, t.Any] | None:
        """The mark that keeps new members off this host, with who has set it, when and why; one that cannot be believed is one."""

    def write_cordon(self, mark: t.Mapping[str, t.Any] | None) -> None:
        """Set it or, with None, take it away."""

    def draining(self, group: str, member: str) -> bool:
        """Whether a run has begun to take this member away."""

    def mark_draining(self, group: str, member: str) -> None: ...

    def kept_log(self, group: str, member: str) -> str | None:
        """Where the last log of a member that is gone can be read."""

    def delete_member(self, group: str, member: str) -> None: ...

    def delete_group(self, group: str) -> None:
        """Forget a group; its holds stay."""
