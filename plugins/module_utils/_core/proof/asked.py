# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a proof is asked to show: of a plan, what the host needs that sends the requests. Hosts are not shipped the plan itself."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field, replace

from ..base.order import natural
from ..base.plain import Plain, every, reading, texts
from .handoff import Handoff, handoff_of

ROLES = ("prefill", "decode")


@dataclass(frozen=True)
class Engine:
    """A member that is proven, and where it is asked. `kv` is where its KV cache comes from or goes to, as a person reads it: its address
    on the KV interface, and the ports of its own that the other side connects to."""

    id: str
    role: str
    url: str
    kv: str = ""

    @classmethod
    def from_plain(cls, raw: Plain) -> Engine:
        if not raw["url"]:
            raise ValueError(raw["id"])
        return cls(raw["id"], raw["role"], raw["url"], _kv(raw))


def _kv(raw: Plain) -> str:
    bands = (next(iter(every(raw, "parts")), {}).get("ports") or {}).items()
    ports = [
        f"{band} {one['base']}" + (f"-{one['base'] + one['count'] - 1}" if one["count"] > 1 else "")
        for band, one in sorted(bands)
    ]
    return ", ".join([str(raw["kv_address"]), *ports]) if raw.get("kv_address") else ""


@dataclass(frozen=True)
class Counters:
    """Metrics that tell what became of a prompt, by what each counts, and of which role's members they are read. What an engine does not
    count is None. None of `must_not_grow` may."""

    role: str = "decode"
    moved: str | None = None
    recomputed: str | None = None
    bytes: str | None = None
    seconds: str | None = None
    must_not_grow: tuple[str, ...] = ()

    @property
    def selectors(self) -> dict[str, str]:
        """What is read of the receiving members. Where `moved` is one of several sources, `total` is all of them."""
        told = {"moved": self.moved, "recomputed": self.recomputed, "bytes": self.bytes, "seconds": self.seconds}
        wanted = {name: selector for name, selector in told.items() if selector}
        if self.moved and "{" in self.moved:
            wanted["total"] = self.moved.partition("{")[0]
        return wanted

    @classmethod
    def from_plain(cls, raw: Plain) -> Counters:
        role = raw.get("role")
        return cls(
            role=role if role in ROLES else "decode",
            moved=raw.get("moved"),
            recomputed=raw.get("recomputed"),
            bytes=raw.get("bytes"),
            seconds=raw.get("seconds"),
            must_not_grow=texts(raw, "must_not_grow"),
        )


@dataclass(frozen=True)
class Asked:
    """What is proven of a group. `group` is its name, `router` its router's URL, `model` the name that it serves, `handoff` how a pair is
    sent a request without it. `formation` is the plan's. `spare` are members that the router keeps while their host does not answer: what
    goes through them is not judged."""

    group: str
    model: str
    router: str | None = None
    engines: tuple[Engine, ...] = ()
    handoff: str | None = None
    counters: Counters = field(default_factory=Counters)
    exact_text: bool = False
    formation: str | None = None
    spare: tuple[str, ...] = ()

    def urls(self, role: str) -> dict[str, str]:
        return {one.id: one.url for one in self.engines if one.role == role}

    @property
    def ids(self) -> list[str]:
        return sorted((one.id for one in self.engines), key=natural)

    @property
    def hops(self) -> Handoff:
        return handoff_of(self.handoff)

    def only(self, ids: t.Collection[str]) -> Asked:
        """The same of these members alone."""
        return replace(self, engines=tuple(one for one in self.engines if one.id in ids))

    @classmethod
    def from_plain(cls, plan: Plain) -> Asked:
        """Of a plan, as group_plan returned it."""
        with reading("The plan", "Give the value `plan` that group_plan returned, whole."):
            router, proof = plan.get("router") or {}, plan.get("proof") or {}
            return cls(
                group=plan["group"],
                model=plan["endpoint"]["served_model_name"],
                router=(router.get("member") or {}).get("url"),
                engines=tuple(Engine.from_plain(one) for one in every(plan, "members") if one["role"] in ROLES),
                handoff=proof.get("handoff"),
                counters=Counters.from_plain(proof.get("counters") or {}),
                exact_text=bool(proof.get("exact_text")),
                formation=plan.get("formation"),
                spare=texts(router, "spare"),
            )
