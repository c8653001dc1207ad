# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who goes when a count is lowered: worst first."""

from __future__ import annotations

import typing as t

from ..base.order import natural
from ..facts.observed import LiveMember

UNHEALTHY = 100
# Its KV crosses the network to every peer, that of a member with a peer on its host need not.
REMOTE = 20
# Its host is to be empty.
CORDONED = 50


Cordoned = t.Callable[[LiveMember], bool]


def score(member: LiveMember, peers: t.Sequence[LiveMember], cordoned: Cordoned = lambda _member: False) -> float:
    """How little a member is worth: the higher, the sooner it goes. `peers` are the living members of the other role, `cordoned` tells
    whether a member's host is."""
    near = sum(1 for peer in peers if peer.host == member.host)
    remote = REMOTE * (1 - near / len(peers) if peers else 0)
    return (0 if member.ready else UNHEALTHY) + (CORDONED if cordoned(member) else 0) + remote


def worst_first(
    members: t.Iterable[LiveMember], peers: t.Sequence[LiveMember], cordoned: Cordoned = lambda _member: False
) -> list[LiveMember]:
    """By score, and of equal ones the youngest index first. Who stands at the same place in both goes by name: the order in which hosts and
    members are given decides nothing."""
    return sorted(members, key=lambda m: (-score(m, peers, cordoned), -m.index, natural(m.host), natural(m.id)))
