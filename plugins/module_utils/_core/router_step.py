# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# This module util is PRIVATE to the collection.
"""What the router does about its peers (semantics.md 3.6), and why."""

from __future__ import annotations

import typing as t

from . import record
from .rendering import peers_of
from .situation import Choice, Request, Situation
from .spec import ENGINE_ROLES


def router_step(
    request: Request, situation: Situation, choice: Choice, members: list[dict[str, t.Any]]
) -> dict[str, t.Any]:
    """What the router does about its peers (semantics.md 3.6), and why."""
    template = request.template
    router = next((m for m in members if m["role"] == "router"), None)
    peers = peers_of(members)
    kept = next((m for m in choice.keep if m.role == "router"), None)
    base: dict[str, t.Any] = {
        "member": router,
        "peers": peers,
        "policy": template.policy,
        "dialect": template.recipe.dialect if template.recipe else None,
        "gives_up": template.membership.gives_up if template.membership else "",
        "add": [],
        "remove": [],
        "model": request.group.served_model_name,
    }
    if router is None:
        return {**base, "step": "none", "why": "the group has no router after this"}
    if template.policy == "manual":
        changed = bool(choice.create or choice.replace or choice.leave)
        return {
            **base,
            "step": "operator" if changed else "none",
            "why": "peers are the operator's to set: "
            + ("the router runs a command of your own" if template.membership is None else "the membership is manual"),
        }
    registered = (kept.live.get("registered") if kept else None) if kept is not None else []
    wanted = {p["url"]: p for p in peers}
    if template.policy == "dynamic":
        have = {r["url"] for r in registered or ()}
        base |= {
            "add": [p for url, p in wanted.items() if url not in have],
            "remove": sorted(have - set(wanted) - situation.unknown_urls),
        }
        if kept is None:
            return {**base, "step": "register", "why": "a new router learns its peers over its API"}
        if registered is None:
            return {**base, "step": "register", "add": peers, "why": "the router's registry could not be read"}
        why = f"{len(base['add'])} to add, {len(base['remove'])} to remove over the router's API"
        return (
            {**base, "step": "register", "why": why}
            if base["add"] or base["remove"]
            else {**base, "step": "none", "why": "its peers are the members"}
        )
    if kept is None:
        return {**base, "step": "replace", "why": "a new router gets its peers on its command line"}
    if choice.pending:
        return {**base, "step": "none", "why": "its peers stay until the pending configuration is applied"}
    if {p["role"] for p in peers} != set(ENGINE_ROLES):
        return {**base, "step": "none", "why": "one role has no member that it could send to"}
    snapshot = kept.label.get("peers")
    replaced = [m.id for m in choice.replace if m.role in ENGINE_ROLES]
    if snapshot is None:
        return {**base, "step": "replace", "why": "the router has no snapshot of its peers"}
    noted = [p for p in snapshot if p["url"] not in situation.unknown_urls]
    if record.snapshot(peers) != noted or replaced:
        return {**base, "step": "replace", "why": "its peers are on its command line, and they change"}
    return {**base, "step": "none", "why": "its peers are the members"}
