# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Speaking to routers and members of a cluster: from where its phases are carried out, or by errands where their addresses lead nowhere
from there. Either way the process of a router is not looked at for the key that it wants, as on its host: the key is lent."""

from __future__ import annotations

import typing as t

from .._core.base.errors import PdError
from .._core.base.plain import Plain
from .._host.proving import KeysOf
from .._host.service import Register
from .._probes import credentials
from .._routers import registration
from .beside import Beside, Lent
from .namespace import Namespace

Result = dict[str, t.Any]


def lent(asked: Plain) -> Lent:
    """The key that a router itself wants, of what it is asked (options of router_peers)."""
    key = (asked.get("keys") or {}).get("router")
    return {str(asked["url"]): [str(key)]} if key else {}


def from_here(_group: str) -> Register:
    """As registration.register, for a router that is reached from here."""

    def tell(asked: Plain, check: bool, may_change: t.Callable[[], None]) -> Result:
        for url, keys in lent(asked).items():
            credentials.lend(url, keys)
        return registration.register(asked, check, may_change)

    return tell


class ByErrand:
    """What a host does to routers and members, beside these."""

    def __init__(self, namespace: Namespace) -> None:
        self.namespace = namespace

    def peers(self, routers: t.Sequence[Plain]) -> list[tuple[list[dict[str, t.Any]] | None, str]]:
        """Whom each router knows, {url, dialect} each; None where that cannot be read, and why."""
        try:
            return Beside.of(self.namespace).peers(routers)
        except PdError as exc:
            return [(None, str(exc))] * len(routers)

    def register(self, group: str) -> Register:
        """As registration.register, for a group's router. Whether it may change is asked once, before the errand goes: its time is shorter
        than that of the lock."""

        def tell(asked: Plain, check: bool, may_change: t.Callable[[], None]) -> Result:
            try:
                if not check:
                    may_change()
                return Beside.of(self.namespace, group).register(asked, check, lent(asked))
            except PdError as exc:
                return {"failed": True, "msg": str(exc)}

        return tell

    def drain(self, label: t.Mapping[str, t.Any], seconds: float, upstream: t.Sequence[Plain] = ()) -> str:
        """As drain.drain."""
        if seconds <= 0:
            return ""
        member = str(label["member"])
        asked = {"label": dict(label), "seconds": seconds, "upstream": list(upstream)}
        _peers, left = Beside.of(self.namespace, str(label["group"])).leave(None, [asked])
        return left.get(member, "")

    def prove_all(self, workloads: t.Sequence[Plain], keys: KeysOf, api_key: str | None = None) -> dict[str, Result]:
        """As proving.prove_all: each beside its own members."""
        found: dict[str, Result] = {}
        for one in workloads:
            group = str(one["group"])
            try:
                beside = Beside.of(self.namespace, group)
                found |= beside.prove_all([one], {group: keys.get(group) or {}}, api_key)
            except PdError as exc:
                why = str(exc)
                nothing: Result = {"good": False, "pairs": [], "router": None, "failed": True}
                found[group] = {**nothing, "why": why, "msg": why, "table": [why], "group": group}
        return found
