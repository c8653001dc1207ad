# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The peers that a router was started with, against those that there are: who is gone or moved, who was started again at the same
address, who is new; and the marks of a router that has lost its peers, or has others."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field

from ..base.plain import Plain, to_plain
from ..facts.label import NotedPeer
from ..facts.observed import LiveMember, Now
from ..spec.spec import ENGINE_ROLES
from .situation import Situation
from .value import Peer, Start


@dataclass
class Change:
    """What separates the peers that a router was started with from those that the group has after this plan. `up` are the ids of peers that
    serve now and stay."""

    gone: list[str] = field(default_factory=list)
    restarted: list[str] = field(default_factory=list)
    added: list[str] = field(default_factory=list)
    up: list[str] = field(default_factory=list)

    @property
    def broken(self) -> bool:
        """Whether the router has a peer that is not there any more, or not the one that it knows."""
        return bool(self.gone or self.restarted)

    def __str__(self) -> str:
        told = (("gone or moved", self.gone), ("started again", self.restarted), ("new", self.added))
        return "; ".join(f"{what}: {', '.join(ids)}" for what, ids in told if ids)


def registered_urls(router: LiveMember) -> set[str] | None:
    """The URLs in a router's registry, as this collection writes them; None when it could not be read."""
    found = router.now.registered
    return None if found is None else {url.rstrip("/") for url in found}


def snapshot(peers: t.Iterable[Peer], starts: t.Mapping[str, Start] | None = None) -> list[Plain]:
    """The peers that a router was started with, as its label and the record keep them: identity, role, address and named ports, and of
    `starts` which process of it."""
    return [
        {
            "member": p.member,
            "role": p.role,
            "url": p.url,
            "ports": {n: dict(b) for n, b in p.ports.items()},
            **(to_plain(starts[p.member]) if starts and p.member in starts else {}),
        }
        for p in peers
    ]


def started(now: Now) -> Start:
    """Which start of a member it is."""
    return Start(now.restarts, now.pid, now.since)


def same_start(noted: NotedPeer, now: Start) -> bool:
    """Whether a peer still is the process that was noted. The time does not count: a clock may have been set since. What was noted by an
    older release without a start is believed."""
    return noted.restarts in (None, now.restarts) and noted.pid in (None, now.pid)


def compare(
    noted: t.Sequence[NotedPeer],
    peers: t.Sequence[Peer],
    kept: t.Mapping[str, LiveMember],
    ignore: t.Collection[str] = (),
) -> Change:
    """The peers of a router's snapshot against `peers`, of which `kept` run already. Of URLs in `ignore` nothing is known."""
    change = Change()
    before = {p.member: p for p in noted if p.url not in ignore}
    after = {p.member: p for p in peers}
    for name, old in before.items():
        new, member = after.get(name), kept.get(name)
        if new is None or member is None or (old.role, old.url, old.bands) != (new.role, new.url, new.ports):
            change.gone.append(name)
        elif not same_start(old, started(member.now)):
            change.restarted.append(name)
        else:
            change.up.append(name)
    change.added = [name for name in after if name not in before]
    fresh = {*change.added, *change.gone, *change.restarted}
    change.up += [name for name, member in kept.items() if name in fresh and name in after and member.ready]
    return change


def unread_peers(situation: Situation) -> list[dict[str, str]]:
    """A router that has its members from its API, answers, and cannot say which: whether anybody is served is not known."""
    router = next((m for m in situation.of_role("router", alive=True)), None)
    if router is None or not router.ready or router.label.policy != "dynamic" or registered_urls(router) is not None:
        return []
    why = f"which members {router.id} reaches is unknown: its list of them cannot be read"
    return [{"mark": "router_peers_unknown", "why": f"{why} ({router.now.unread})" if router.now.unread else why}]


def forgot_peers(situation: Situation) -> list[dict[str, str]]:
    """A router that has its members from its API and was started again by its runtime knows none of them: it answers, and nobody is
    served."""
    router = next((m for m in situation.of_role("router", alive=True)), None)
    have = registered_urls(router) if router is not None else None
    if router is None or router.label.policy != "dynamic" or have is None:
        return []
    empty = []
    for role in ENGINE_ROLES:
        urls = {m.label.url for m in situation.of_role(role, alive=True)}
        if urls and not urls & have:
            empty.append(role)
    if not empty:
        return []
    restarts = router.now.restarts
    how = f"it was started again by its runtime ({restarts}x)" if restarts else "its registry was emptied"
    why = f"{router.id} has no {' and no '.join(empty)} member in its registry: {how}. Deploy registers them again"
    return [{"mark": "router_forgot_peers", "why": why}]


def stale_peers(situation: Situation) -> list[dict[str, str]]:
    """A router with its peers on its command line that has one which is gone, or is not the process that it knows."""
    router = next((m for m in situation.of_role("router", alive=True)), None)
    if router is None or router.label.policy != "restart" or router.label.peers is None:
        return []
    engines = {m.id: m for role in ENGINE_ROLES for m in situation.of_role(role, alive=True)}
    peers = [Peer(m.id, m.role, m.label.url, m.label.bands, None, 0) for m in engines.values()]
    change = compare(router.label.peers, peers, engines, situation.unknown_urls)
    if not change.broken:
        return []
    return [{"mark": "router_peers_stale", "why": f"{router.id} was started with other peers ({change})"}]
