# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the record of a group says after a plan has been carried out. How one is read: facts/record.py."""

from __future__ import annotations

import typing as t

from ..facts.record import REMOVED, SCHEMA
from ..facts.tombstone import Tombstone
from ..spec.spec import Group
from ..template.template import GroupTemplate
from .peer_snapshot import snapshot

# In which members are listed.
_ORDER = {"prefill": 0, "decode": 1, "router": 2}


def of_plan(
    plan: t.Mapping[str, t.Any],
    group: Group,
    template: GroupTemplate,
    before: t.Mapping[str, t.Any],
    identity: t.Mapping[str, t.Any],
    still_there: t.Collection[tuple[str, str]] = (),
) -> dict[str, t.Any]:
    """The record as it is after the plan has been carried out. While a change is pending the applied spec stays what it was. `identity` is
    which formation it is of, and what of earlier ones may still run (formations.py); `still_there` are members (host, id) that are down and
    are left where they are."""
    router = plan["router"]["member"]
    record: dict[str, t.Any] = {
        "schema": SCHEMA,
        "group": group.name,
        **identity,
        "mode": plan["mode"],
        "runtime": plan["runtime"],
        "proof": plan["proof"],
        "generation": plan["generation"],
        "serial": int(before.get("serial", 0)) + 1,
        "revision": plan["revision"],
        "spec": group.to_plain(),
        "templates": template.masked(),
        "desired": dict(plan["desired"]),
        "members": [_place(m) for m in plan["members"]],
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
    known = {m["id"] for m in record["members"]}
    record["members"] += [
        m
        for m in before.get("members", ())
        if (m["id"] in plan["unknown"] or (m["host"], m["id"]) in still_there) and m["id"] not in known
    ]
    # Whoever is known only by the record has the place that it had: that nobody can ask it makes no record another one.
    record["members"].sort(key=lambda m: (_ORDER.get(m["role"], len(_ORDER)), m["index"]))
    _keep_unknown(record, before, plan["unknown"])
    if plan["pending"]:
        for key in ("revision", "spec", "templates", "choices"):
            record[key] = before.get(key, record[key])
    return record


def _place(member: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """Where a member is, and what it holds there."""
    part = member["parts"][0]
    return {
        **{key: member[key] for key in ("id", "role", "index", "revision", "url")},
        **{key: part[key] for key in ("host", "port", "ports", "gpus")},
    }


def _keep_unknown(record: dict[str, t.Any], before: t.Mapping[str, t.Any], unknown: t.Collection[str]) -> None:
    """What the record says of members that nobody can ask it goes on saying: a router's address, peers."""
    old = before.get("router") or {}
    places = [p["member"] for p in old.get("peers") or ()]
    have = {p["member"] for p in record["router"]["peers"]}
    kept = [p for p in old.get("peers") or () if p["member"] in unknown and p["member"] not in have]
    if kept:
        peers = [*record["router"]["peers"], *kept]
        record["router"]["peers"] = sorted(
            peers, key=lambda p: places.index(p["member"]) if p["member"] in places else len(places)
        )
    if any(m["role"] == "router" and m["id"] in unknown for m in before.get("members", ())):
        record["router"]["url"] = old.get("url")
        record["endpoint"] = {**record["endpoint"], "url": (before.get("endpoint") or {}).get("url")}


def of_removal(name: str, before: t.Mapping[str, t.Any], graves: t.Sequence[Tombstone]) -> dict[str, t.Any]:
    """What is left of a record when its group is removed while a tombstone stands: what may still run, and the numbers that the next
    formation comes after. Without a tombstone nothing is kept, and this is never written."""
    kept = {key: before[key] for key in ("formation", "supersedes", "formed", "adopted", "generation") if key in before}
    return {
        "schema": SCHEMA,
        "group": name,
        **kept,
        "serial": int(before.get("serial", 0)) + 1,
        "state": REMOVED,
        "members": [],
        "desired": {},
        "endpoint": {"url": None, "registered": False},
        "tombstones": [grave.to_plain() for grave in graves],
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
