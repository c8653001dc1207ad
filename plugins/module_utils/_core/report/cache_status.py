# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The state of a cache service: what it is, where its instances run, who uses it, and the marks beside it."""

from __future__ import annotations

import typing as t

from ..facts.observed import Host, Member
from ..plan import diff
from ..plan.situation import Situation
from ..spec.cache_service import ROLE, CacheService
from ..template.cache_template import CacheTemplate


def names_on(hosts: t.Mapping[str, Host]) -> set[str]:
    """The cache services of which the hosts have instances or records: these names are no group's."""
    found = {m.group for h in hosts.values() for m in h.members if m.role == ROLE}
    return found | {name for h in hosts.values() for name, noted in h.records.items() if noted.plain.get("cache")}


def running_users(name: str, hosts: t.Mapping[str, Host]) -> list[str]:
    """The groups of which a living member serves with the service, by the members' labels: a spec may have been edited since."""
    found = set()
    for member in (m for h in hosts.values() for m in h.members if m.alive and m.role != ROLE):
        cache = member.label.get("cache")
        if isinstance(cache, t.Mapping) and cache.get("service") == name and cache.get("injected"):
            found.add(member.group)
    return sorted(found)


def of_service(
    name: str,
    service: CacheService | None,
    template: CacheTemplate | None,
    hosts: t.Mapping[str, Host],
    silent: t.Collection[str],
    named_by: t.Sequence[str],
    wanted: int | None = None,
) -> dict[str, t.Any]:
    """Everything that is to be said of a service. `service` is None for one that runs but is in no inventory any more; `named_by` are the
    groups whose specs name it, `wanted` is how many instances its pattern stands for."""
    situation = Situation.of(name, hosts, silent, (), formations=False)
    noted = situation.record
    users = running_users(name, hosts)
    about = service.to_plain() if service else dict(noted.get("cache") or {})
    alive = [m for m in situation.members if m.alive]
    pending = template is not None and any(m.revision != template.revision for m in alive)
    lines = diff.of_templates(noted.get("templates") or {}, template.masked()) if pending and template else []
    ready = sum(1 for m in alive if m.condition == "ready")
    total = max(len(situation.members) + len(situation.unknown), wanted or 0)
    state = _state(service, situation, ready, total)
    marks = (
        [{"mark": "not_in_inventory", "why": "the service runs, but no pd_caches entry names it"}]
        if not service
        else []
    )
    if situation.unknown:
        ids = ", ".join(m["id"] for m in situation.unknown)
        marks.append({"mark": "members_unknown", "why": f"no answer from the host of {ids}"})
    return {
        "name": name,
        "provider": about.get("provider"),
        "scope": about.get("scope"),
        "clients": about.get("clients"),
        "address": about.get("address"),
        "state": state,
        "ready": ready,
        "desired": total,
        "users": users,
        "wanted_by": [group for group in named_by if group not in users],
        "left_by": [group for group in users if group not in named_by],
        "all_answered": not silent,
        "pending": pending,
        "pending_diff": lines,
        "marks": marks,
        "in_inventory": service is not None,
        "instances": [_instance(m) for m in sorted(situation.members, key=lambda m: m.index)]
        + [
            {"id": m["id"], "host": m["host"], "state": "unknown", "ready": False, "why": "its host did not answer"}
            for m in situation.unknown
        ],
    }


def _state(service: CacheService | None, situation: Situation, ready: int, total: int) -> str:
    if service is not None and service.address:
        return "external"
    if total and ready == total:
        return "running"
    if ready or any(m.alive for m in situation.members):
        return "partial"
    return "error" if situation.members else "unknown" if situation.unknown else "absent"


def _instance(member: Member) -> dict[str, t.Any]:
    label, live = member.label, member.live
    return {
        "id": member.id,
        "host": member.host,
        "state": member.condition,
        "ready": member.condition == "ready",
        "why": member.why,
        "pid": live.get("pid"),
        "restarts": live.get("restarts"),
        "address": f"{label.get('address')}:{label.get('port')}",
        "revision": member.revision,
        "log": live.get("log"),
    }


def _used(state: t.Mapping[str, t.Any]) -> str:
    """Who serves with it, and whose spec names it although no member does yet."""
    told = [
        f"{group} (running{', its spec no longer names it' if group in state['left_by'] else ''})"
        for group in state["users"]
    ]
    missing = "pending" if state["all_answered"] else "unknown: not every host answered"
    wanted = [f"{group} ({missing})" for group in state["wanted_by"]]
    parts = [f", used by {', '.join(told)}"] if told else []
    parts += [f", wanted by {', '.join(wanted)}"] if wanted else []
    return "".join(parts) or ", used by no group"


def table(state: t.Mapping[str, t.Any]) -> list[str]:
    """The service as a person reads it."""
    used = _used(state)
    if state["state"] == "external":
        return [f"cache {state['name']}: {state['provider']} at {state['address']}, run by somebody else{used}"]
    count = f"{state['ready']} of {state['desired']} instances ready"
    lines = [f"cache {state['name']}: {state['state'].upper()}  {state['provider']}, {count}{used}"]
    if state["pending"]:
        lines.append(
            f"  ! pending, applied by: ansible-playbook inferops.pd.caches -e pd_cache={state['name']} -e pd_restart_caches=true:"
        )
        lines += [f"      {line}" for line in state["pending_diff"]]
    lines += [f"  ! {mark['mark']}: {mark['why']}" for mark in state["marks"]]
    rows = [("INSTANCE", "HOST", "STATE", "PID", "ADDRESS", "NOTE")] if state["instances"] else []
    for one in state["instances"]:
        note = (f"restarted {one['restarts']}x " if one.get("restarts") else "") + (one.get("why") or "")
        pid = str(one.get("pid") or "-")
        rows.append((one["id"], one["host"], one["state"], pid, one.get("address") or "", note.strip()))
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))] if rows else []
    return lines + ["  " + "  ".join(c.ljust(w) for c, w in zip(row, widths)).rstrip() for row in rows]
