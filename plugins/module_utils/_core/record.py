# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# This module util is PRIVATE to the collection.
"""The group record: what the collection keeps of a group, the same file on every host of it. It holds no secret."""

from __future__ import annotations

import typing as t

if t.TYPE_CHECKING:
    # Hosts write records, and need nothing of what makes them.
    from .spec import Group
    from .template import GroupTemplate

# What a run writes by itself and what does not make a record another one.
_BOOKKEEPING = ("serial", "lock", "updated", "endpoint", "state")


def snapshot(
    peers: t.Iterable[t.Mapping[str, t.Any]], starts: t.Mapping[str, t.Mapping[str, t.Any]] | None = None
) -> list[dict[str, t.Any]]:
    """The peers that a router was started with: identity, role, address and named ports, and of `starts` which process of it
    (semantics.md 3.6)."""
    return [
        {
            "member": p["member"],
            "role": p["role"],
            "url": p["url"],
            "ports": {n: dict(b) for n, b in p["ports"].items()},
            **((starts or {}).get(p["member"]) or {}),
        }
        for p in peers
    ]


def of_plan(
    plan: t.Mapping[str, t.Any], group: Group, template: GroupTemplate, before: t.Mapping[str, t.Any]
) -> dict[str, t.Any]:
    """The record as it is after the plan has been carried out. While a change is pending the applied spec stays what it was."""
    router = plan["router"]["member"]
    record: dict[str, t.Any] = {
        "schema": 1,
        "group": group.name,
        "mode": plan["mode"],
        "runtime": plan["runtime"],
        "proof": plan["proof"],
        "generation": plan["generation"],
        "serial": int(before.get("serial", 0)) + 1,
        "revision": plan["revision"],
        "spec": group.to_plain(),
        "templates": template.masked(),
        "desired": dict(plan["desired"]),
        "members": [
            {
                "id": m["id"],
                "role": m["role"],
                "index": m["index"],
                "host": m["parts"][0]["host"],
                "revision": m["revision"],
                "url": m["url"],
                "port": m["parts"][0]["port"],
                "ports": m["parts"][0]["ports"],
                "gpus": m["parts"][0]["gpus"],
            }
            for m in plan["members"]
        ],
        "router": {
            "policy": plan["router"]["policy"],
            "dialect": plan["router"]["dialect"],
            "url": router["url"] if router else None,
            "peers": snapshot(plan["router"]["peers"]),
        },
        "choices": {**(before.get("choices") or {}), **template.choices},
        "endpoint": {**plan["endpoint"], "registered": False},
        "state": "partial",
    }
    if plan["unknown"]:
        known = {m["id"] for m in record["members"]}
        record["members"] += [
            m for m in before.get("members", ()) if m["id"] in plan["unknown"] and m["id"] not in known
        ]
    if plan["pending"]:
        for key in ("revision", "spec", "templates", "choices"):
            record[key] = before.get(key, record[key])
    return record


def differs(after: t.Mapping[str, t.Any], before: t.Mapping[str, t.Any]) -> bool:
    """Whether two records say different things of the group."""
    return {k: v for k, v in after.items() if k not in _BOOKKEEPING} != {
        k: v for k, v in before.items() if k not in _BOOKKEEPING
    }


def same_spec(record: t.Mapping[str, t.Any], group: Group) -> bool:
    """Whether the applied spec is the same but for counts and placement: then only the recipe has changed."""
    return _without_counts(record.get("spec") or {}) == _without_counts(group.to_plain())


def _without_counts(spec: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    plain = dict(spec)
    plain["roles"] = {
        name: {k: v for k, v in role.items() if k not in ("replicas", "hosts")}
        for name, role in (spec.get("roles") or {}).items()
    }
    return plain
