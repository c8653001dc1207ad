# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a host answers to each module where all goes well, from what it was asked alone."""

from __future__ import annotations

import typing as t

Plain = t.Mapping[str, t.Any]
Result = dict[str, t.Any]


def answer(module: str, asked: Plain) -> Result:
    """The result of a module for the arguments that it got."""
    return {"changed": False, "warnings": [], **ANSWERS[module](asked)}


def members(asked: Plain) -> Result:
    plan, phase = asked["plan"], asked["phase"]
    roles = {one["id"]: one["role"] for one in plan["members"]}
    here = next(iter(plan["hosts"].values()))
    coming = [name for name in here.get("create") or () if (roles.get(name) == "router") == (phase == "router")]
    created = coming if phase in ("start", "router") else []
    removed = list(here.get("absent") or ()) if phase in ("stop", "router_stop") else []
    told = {
        "changed": bool(created or removed or phase == "endpoint"), "ok": True, "phase": phase, "group": plan["group"],
        "created": created, "removed": removed, "adopted": [], "kept": [], "failed_members": {}, "drained": {},
        "logs": {}, "doubts": {}, "images": {}, "lock": None,
    }  # fmt: skip
    return {**told, **(_served(asked) if phase == "router" else {})}


def _served(order: Plain) -> Result:
    """What is beside a router's start: it answers, and has its peers."""
    router = {one["id"]: {**_ready(), "role": "router"} for one in order.get("router") or ()}
    urls = [one["url"] for one in (order.get("peers") or {}).get("peers") or ()]
    peers = {
        "changed": bool(urls),
        "added": urls,
        "confirmed": urls,
        "removed": [],
        "missing": [],
        "stale": [],
        "spared": [],
    }
    return {"waited": {"members": router}, "peers": {**peers, "unhealthy": [], "msg": ""} if urls else {}}


def members_wait(asked: Plain) -> Result:
    return _seen(asked)


def _seen(asked: Plain) -> Result:
    return {"members": {one["id"]: {**_ready(), "role": one["role"]} for one in asked["members"]}, "memory": {}}


def _ready() -> Result:
    return {"state": "ready", "why": "", "elapsed": 1.0, "formation": None, "listener_member": None, "pid": 1}


def group_proof(asked: Plain) -> Result:
    return {"good": True, "pairs": [], "router": {}, "why": "", "table": [], "msg": ""}


ANSWERS: dict[str, t.Callable[[Plain], Result]] = {
    "members": members,
    "members_wait": members_wait,
    "group_proof": group_proof,
}
