# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# This module util is PRIVATE to the collection.
"""Who goes when a count is lowered: worst first (semantics.md 3.7)."""

from __future__ import annotations

import typing as t

from .observed import Member

UNHEALTHY = 100
# Its KV crosses the network to every peer, that of a member with a peer on its host need not.
REMOTE = 20


def score(member: Member, opposite_hosts: t.Collection[str]) -> int:
    """How little a member is worth: the higher, the sooner it goes. `opposite_hosts` are those with a living member of the other role."""
    return (0 if member.ready else UNHEALTHY) + (0 if member.host in opposite_hosts else REMOTE)


def worst_first(members: t.Iterable[Member], opposite_hosts: t.Collection[str]) -> list[Member]:
    """By score, and of equal ones the youngest index first."""
    return sorted(members, key=lambda m: (-score(m, opposite_hosts), -m.index))
