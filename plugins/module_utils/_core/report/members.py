# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The members of a workload as they are told, of a group and of a cache service alike: the condition of each, and a row for it."""

from __future__ import annotations

import typing as t

from ..facts.observed import LiveMember
from ..facts.tombstone import Place
from ..plan.situation import Reach, Situation
from ..spec.workload import Kind

Row = dict[str, t.Any]


def rows_of(kind: Kind, situation: Situation, reach: Reach) -> list[Row]:
    """Every member, in the order of the kind's roles; those that nobody can ask come last."""
    order = {role: number for number, role in enumerate(kind.roles)}
    ordered = sorted(situation.members, key=lambda m: (order.get(m.role, len(order)), m.index))
    return [row(m) for m in ordered] + [_unknown(place, reach) for place in situation.unknown]


def strays_of(situation: Situation) -> list[Row]:
    return [{**row(s.member), "state": "stray", "ready": False, "why": s.why} for s in situation.strays]


def row(member: LiveMember) -> Row:
    now, label = member.now, member.label
    return {
        "id": member.id,
        "role": member.role,
        "host": member.host,
        "state": member.condition,
        "ready": member.condition == "ready",
        "why": member.why,
        "pid": now.pid,
        "restarts": now.restarts,
        "since": now.since,
        "url": label.url,
        "address": f"{label.address}:{label.port}" if label.address and label.port else None,
        "port": label.port,
        "ports": label.bands,
        "gpus": member.gpus,
        "revision": member.revision,
        "generation": member.generation,
        "log": now.log,
    }


def _unknown(place: Place, reach: Reach) -> Row:
    """A member that only the record knows of at the moment."""
    known = {"id": place.id, "role": place.role, "host": place.host}
    return {**known, "state": "unknown", "ready": False, "why": f"its host {reach.why(place.host)}"}


def counts_of(role: str, situation: Situation, desired: int) -> dict[str, int]:
    """How many members of a role there are to be, and how they are."""
    members = situation.of_role(role)
    return {
        "desired": desired,
        "ready": sum(1 for m in members if m.condition == "ready"),
        "running": sum(1 for m in members if m.alive),
        "down": sum(1 for m in members if not m.alive),
        "draining": sum(1 for m in members if m.draining),
        "unknown": sum(1 for place in situation.unknown if place.role == role),
    }


def table(kind: Kind, rows: t.Sequence[t.Mapping[str, t.Any]]) -> list[str]:
    """The rows as lines for a terminal, under the kind's columns."""
    if not rows:
        return []
    cells = [[title for title, _key in kind.columns]]
    cells += [[_cell(one, key) for _title, key in kind.columns] for one in rows]
    widths = [max(len(line[i]) for line in cells) for i in range(len(kind.columns))]
    return ["  " + "  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip() for line in cells]


def _cell(one: t.Mapping[str, t.Any], key: str) -> str:
    if key == "pid":
        return str(one.get("pid") or "-")
    if key == "ports":
        return _ports(one)
    if key == "note":
        restarted = f"restarted {one['restarts']}x " if one.get("restarts") else ""
        return (restarted + (one.get("why") or "")).strip()
    return str(one.get(key) or "")


def _ports(one: t.Mapping[str, t.Any]) -> str:
    bands = [
        f"{name} {band['base']}" + (f"-{band['base'] + band['count'] - 1}" if band["count"] > 1 else "")
        for name, band in (one.get("ports") or {}).items()
    ]
    return ", ".join([str(one["port"]), *bands]) if one.get("port") else ""
