# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a host answers to each module where all goes well, from what it was asked alone. A question of an earlier version is about one
workload, and so is its answer."""

from __future__ import annotations

import typing as t

Plain = t.Mapping[str, t.Any]
Result = dict[str, t.Any]


def answer(module: str, asked: Plain) -> Result:
    """The result of a module for the arguments that it got."""
    parts, group_of, one = MODULES[module]
    if parts not in asked:
        return {"changed": False, **one(asked)}
    told = {group_of(part): one(part) for part in asked[parts]}
    return {"changed": any(result.get("changed") for result in told.values()), "workloads": told}


def carried_out(order: Plain) -> Result:
    """A phase of one workload, as `members` tells it."""
    plan, phase = order["plan"], order["phase"]
    roles = {member["id"]: member["role"] for member in plan["members"]}
    here = next(iter(plan["hosts"].values()))
    coming = [name for name in here.get("create") or () if (roles.get(name) == "router") == (phase == "router")]
    created = coming if phase in ("start", "router") else []
    removed = list(here.get("absent") or ()) if phase in ("stop", "router_stop") else []
    done = {
        "changed": bool(created or removed or phase == "endpoint"), "ok": True, "phase": phase, "group": plan["group"],
        "created": created, "removed": removed, "adopted": [], "kept": [], "failed_members": {}, "drained": {},
        "logs": {}, "doubts": {}, "images": {}, "lock": None,
    }  # fmt: skip
    return {**done, **_served(order)} if phase in ("router", "leave") else done


def _served(order: Plain) -> Result:
    """What is beside a router's start: it answers, and has its peers."""
    waited, peers = order.get("router") or (), order.get("peers")
    urls = [peer["url"] for peer in (peers or {}).get("peers") or ()]
    registered = {
        "changed": bool(urls), "added": urls, "confirmed": urls, "removed": [], "missing": [], "stale": [], "spared": [],
        "unhealthy": [], "msg": "",
    }  # fmt: skip
    seen = {"waited": seen_ready({"members": waited})} if waited else {}
    return {**seen, **({"peers": registered} if peers else {})}


def seen_ready(asked: Plain) -> Result:
    """The wait for members of one workload, as `members_wait` tells it."""
    seen = {"state": "ready", "why": "", "elapsed": 1.0, "formation": None, "listener_member": None, "pid": 1}
    return {"members": {one["id"]: {**seen, "role": one["role"]} for one in asked["members"]}, "memory": {}}


def proven(asked: Plain) -> Result:
    """The proof of one group, as `group_proof` tells it."""
    return {"good": True, "pairs": [], "router": {}, "why": "", "table": [], "msg": "", "changed": False}


def _planned(order: Plain) -> str:
    return str(order["plan"]["group"])


def _named(asked: Plain) -> str:
    return str(asked["group"])


# Of each module under which option its workloads are, how one is called there, and what is answered for it.
MODULES: dict[str, tuple[str, t.Callable[[Plain], str], t.Callable[[Plain], Result]]] = {
    "members": ("orders", _planned, carried_out),
    "members_wait": ("workloads", _named, seen_ready),
    "group_proof": ("workloads", _named, proven),
}
