# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What one inventory host reads of a plan. A plan is written once, and read by hundreds of workers: each reads what all of them need, and
its own part, and so all of them together little more than the whole."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ..base.plain import Plain, every, texts
from ..plan.value import RETIRES, Plan, locked_in_order
from .course import Course

# What is each host's own, or is for people alone.
_OWN = ("members", "hosts", "steps", "diff", "renew", "retire")
# What of the router only its own host needs.
_ROUTERS = ("peers", "add", "starts", "peer_argv")


@dataclass(frozen=True)
class Parcel:
    """A plan as one inventory host has it: `plan` with its own members and places alone. `phases` are those of the whole plan's steps,
    `everyone` all engines of it as {id, role}, `order` all inventory hosts in the order in which they are locked. `waits` are the hosts
    of engines, `limit` the seconds that one of these may take to start. `renews`: whether there are rounds of renewal. Of a round,
    `because` are the members that others are renewed for, `before` those that rounds before it started anew; `retires`: it is one of
    retirement. On the router's host `proof` is what a proof is asked with, and `faces` one member of each role, to read of it what its role
    asks of who calls it."""

    plan: Plan
    host: str
    phases: frozenset[str]
    everyone: tuple[Plain, ...]
    order: tuple[str, ...]
    waits: tuple[str, ...] = ()
    limit: float = 0.0
    renews: bool = False
    because: tuple[str, ...] = ()
    before: tuple[str, ...] = ()
    retires: bool = False
    proof: Plain | None = None
    faces: tuple[Plain, ...] = ()

    @classmethod
    def of(cls, shared: Plain, own: Plain, host: str) -> Parcel:
        raw = {**shared["plan"], "members": own["members"], "hosts": own["hosts"]}
        raw |= {"router": own["router"]} if own.get("router") else {}
        return cls(
            Plan.from_plain(raw, host),
            host,
            frozenset(texts(shared, "phases")),
            every(shared, "everyone"),
            texts(shared, "order"),
            texts(shared, "waits"),
            float(shared.get("limit") or 0),
            bool(shared.get("renews")),
            texts(shared, "because"),
            texts(shared, "before"),
            bool(shared.get("retires")),
            own.get("proof"),
            every(own, "faces"),
        )

    def takes_part(self, course: Course) -> bool:
        """Whether the workload is in this round: of renewal while all goes well, if what its members are renewed for is up, and if all have
        come back that were renewed before: the next one may be the last that serves; of retirement once those that come in their place
        serve. What is no round everybody is in."""
        if self.retires:
            return course.retires
        ready = set(course.ready)
        return not self.because or (course.serves and bool(set(self.because) & ready) and set(self.before) <= ready)

    def for_keys(self) -> dict[str, t.Any]:
        """Of the plan, what says which keys its members ask for."""
        router = self.plan.router.member
        told = {"member": router.to_plain() if router else None}
        return {"group": self.plan.group, "members": list(self.faces), "router": told}

    @classmethod
    def of_plan(cls, plan: Plan, host: str) -> Parcel:
        """The same without a file between."""
        shared, own = split(plan)
        return cls.of(shared, own[host], host)


def split(plan: Plan, number: int | None = None) -> tuple[dict[str, t.Any], dict[str, dict[str, t.Any]]]:
    """(what all hosts of a plan read, what each reads beside it by the name of the inventory host), as JSON has it; with a `number`, of
    that round."""
    rounds, retires = plan.renew or (), number is not None and number >= RETIRES
    because = rounds[number].because if number is not None and not retires else ()
    before = [m.id for one in rounds[:number] for m in one.members] if number is not None and not retires else []
    plan = plan if number is None else plan.round(number)
    raw = plan.to_plain()
    router = raw.get("router") or {}
    lean = {key: value for key, value in router.items() if key not in _ROUTERS}
    engines = [m for m in raw["members"] if m["role"] != "router"]
    shared = {
        "plan": {**{key: value for key, value in raw.items() if key not in _OWN}, "router": lean},
        "phases": sorted({step.phase for step in plan.steps}),
        "everyone": [{"id": m["id"], "role": m["role"]} for m in engines],
        "order": locked_in_order(raw),
        "hook_hosts": list(plan.hook_hosts),
        "waits": sorted({part["through"] for m in engines for part in m["parts"]}),
        "limit": max((m["probe"]["limit"] for m in engines), default=0.0),
        "renews": number is None and bool(rounds),
        "because": list(because),
        "before": before,
        "retires": retires,
    }
    own: dict[str, dict[str, t.Any]] = {}
    for place, here in raw["hosts"].items():
        mine = own.setdefault(here["through"], {"members": [], "hosts": {}})
        mine["hosts"][place] = here
    for host in plan.hook_hosts:
        own.setdefault(host, {"members": [], "hosts": {}})
    for member in raw["members"]:
        for through in dict.fromkeys(part["through"] for part in member["parts"]):
            if through in own:
                own[through]["members"].append(member)
    for through in plan.router.through:
        if through in own:
            own[through] |= {"router": router, "proof": _proof(raw), "faces": _faces(engines)}
    return shared, own


def _faces(engines: t.Sequence[Plain]) -> list[Plain]:
    """One member of each role. All of a role have the same command and environment, but for what is their host's."""
    return list({member["role"]: member for member in reversed(engines)}.values())


def _proof(raw: Plain) -> dict[str, t.Any]:
    """What a proof reads of a plan (proof/asked.py)."""
    router = raw["router"]
    engines = [
        {
            **{key: one.get(key) for key in ("id", "role", "url", "kv_address")},
            "parts": [{"ports": part.get("ports") or {}} for part in one["parts"][:1]],
        }
        for one in raw["members"]
        if one["role"] != "router"
    ]
    return {
        **{key: raw.get(key) for key in ("group", "kind", "endpoint", "proof", "formation")},
        "members": engines,
        "router": {
            "member": {"url": (router.get("member") or {}).get("url")},
            "spare": list(router.get("spare") or ()),
        },
    }
