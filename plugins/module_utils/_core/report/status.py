# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The state of a group: what it is, how many of each role are ready, and the marks beside it."""

from __future__ import annotations

import time
import typing as t

from ..base.finding import Finding
from ..facts.observed import Host, Member
from ..plan import diff, peer_snapshot, reality, record
from ..plan.peer_snapshot import registered_urls
from ..plan.situation import EVERYWHERE, Reach, Situation
from ..spec.spec import ENGINE_ROLES, ROLES, Group
from ..template.template import GroupTemplate
from . import marks


def of_group(
    name: str,
    group: Group | None,
    template: GroupTemplate | None,
    hosts: t.Mapping[str, Host],
    silent: t.Collection[str],
    findings: t.Sequence[Finding] = (),
    reach: Reach = EVERYWHERE,
    away: t.Collection[str] = (),
) -> dict[str, t.Any]:
    """Everything that is to be said of a group. `group` is None for one that runs but is in no inventory any more; `away` are hosts out of
    service."""
    situation = Situation.of(name, hosts, silent, away)
    noted = situation.record
    desired = dict(noted.get("desired") or {})
    if group is not None:
        desired = {r.name: desired.get(r.name, r.replicas) for r in group.engine_roles}
    roles = {role: _role(role, situation, 1 if role == "router" else desired.get(role, 0)) for role in ROLES}
    registered = bool((noted.get("endpoint") or {}).get("registered"))
    readiness = group.readiness if group else "any_per_role"
    pending = template is not None and any(m.revision != template.revision for m in situation.members if m.alive)
    lines = diff.of_templates(noted.get("templates") or {}, template.masked()) if pending and template else []
    recipe_changed = bool(pending and group and record.same_spec(noted, group))
    moved = [one.line() for one in reality.changed(situation.members, hosts)]
    pending = pending or bool(moved)
    lines += moved
    state, message = _state(roles, situation, registered, readiness)
    if pending and state == "running" and peer_snapshot.stale_peers(situation):
        state, message = (
            "partial",
            "its router has stale peers, and is replaced by the restart that applies what is pending",
        )
    if state == "pending" and not noted and silent:
        message = f"nothing is known of it, and {', '.join(sorted(silent))} did not answer"
    return {
        "name": name,
        "state": state,
        "message": message,
        "generation": situation.generation,
        "formation": situation.formation,
        "revision": noted.get("revision"),
        "spec_revision": template.revision if template else None,
        "pending": pending,
        "pending_diff": lines,
        "recipe_changed": recipe_changed,
        "roles": roles,
        "marks": marks.of_group(group, template, situation, hosts, roles, state, findings, reach),
        "router": _router(situation),
        "endpoint": {**(noted.get("endpoint") or {"url": None}), "registered": registered},
        "members": [_member(m) for m in _ordered(situation.members)] + [_unknown(m, reach) for m in situation.unknown],
        "strays": [{**_member(s.member), "state": "stray", "ready": False, "why": s.why} for s in situation.strays],
        "tombstones": [grave.to_plain() for grave in situation.tombstones],
        "in_inventory": group is not None,
        "lock": next((host.locks[name] for host in hosts.values() if name in host.locks), None),
    }


def _unknown(member: t.Mapping[str, t.Any], reach: Reach) -> dict[str, t.Any]:
    """A member that only the record knows of at the moment."""
    known = {key: member[key] for key in ("id", "role", "host")}
    return {**known, "state": "unknown", "ready": False, "why": f"its host {reach.why(member['host'])}"}


def _ordered(members: t.Iterable[Member]) -> list[Member]:
    return sorted(members, key=lambda m: (ROLES.index(m.role), m.index))


def _role(role: str, situation: Situation, desired: int) -> dict[str, int]:
    members = situation.of_role(role)
    return {
        "desired": desired,
        "ready": sum(1 for m in members if m.condition == "ready"),
        "running": sum(1 for m in members if m.alive),
        "down": sum(1 for m in members if not m.alive),
        "draining": sum(1 for m in members if m.draining),
        "unknown": sum(1 for m in situation.unknown if m["role"] == role),
    }


def _state(
    roles: t.Mapping[str, t.Mapping[str, int]], situation: Situation, registered: bool, readiness: str
) -> tuple[str, str]:
    """The state and its reason: the first that fits."""
    short = sorted(
        r
        for r in ROLES
        if roles[r]["ready"] < (1 if readiness == "any_per_role" or r == "router" else max(1, roles[r]["desired"]))
    )
    forgot = peer_snapshot.forgot_peers(situation)
    if not short and registered and not forgot:
        return "running", ""
    if not short and forgot:
        return "partial", "the endpoint is registered, and its router has no confirmed peers" if registered else forgot[
            0
        ]["why"]
    if any(m.alive and m.ready for m in situation.members):
        return (
            "partial",
            f"roles not ready: {', '.join(short)}" if short else "waiting for the endpoint to be registered",
        )
    failed = [m for m in situation.members if not m.alive]
    if failed:
        return "error", f"{len(failed)}/{len(situation.members)} members failed"
    if situation.unknown:
        return "partial", "no host that runs a member answered"
    return "pending", "no member is running yet"


def _router(situation: Situation) -> dict[str, t.Any]:
    router = next((m for m in situation.of_role("router") if m.alive), None)
    if router is None:
        return {"policy": (situation.record.get("router") or {}).get("policy"), "peers": [], "confirmed": False}
    registered = router.live.get("registered")
    if registered is None and router.label.get("policy") != "dynamic":
        registered = router.label.get("peers") or []
    wanted = {m.label.get("url") for m in situation.members if m.role in ENGINE_ROLES and m.alive and not m.draining}
    urls = registered_urls({"registered": registered or ()}) or set()
    return {
        "policy": router.label.get("policy"),
        "peers": sorted(urls),
        "confirmed": urls == wanted,
        "missing": sorted(str(u) for u in wanted - urls),
        "extra": sorted(urls - wanted - situation.unknown_urls),
    }


def _member(member: Member) -> dict[str, t.Any]:
    live = member.live
    return {
        "id": member.id,
        "role": member.role,
        "host": member.host,
        "state": member.condition,
        "ready": member.condition == "ready",
        "why": member.why,
        "pid": live.get("pid"),
        "restarts": live.get("restarts", 0),
        "since": live.get("since"),
        "url": member.label.get("url"),
        "port": member.label.get("port"),
        "ports": member.label.get("ports") or {},
        "gpus": member.gpus,
        "revision": member.revision,
        "generation": member.generation,
        "log": live.get("log"),
    }


def table(status: t.Mapping[str, t.Any]) -> list[str]:
    """The state as lines for a terminal: the group, its marks, then a row a member."""
    roles = status["roles"]
    counts = ", ".join(
        f"{role} {roles[role]['ready']}/{roles[role]['desired']}"
        + (f" ({roles[role]['draining']} draining)" if roles[role]["draining"] else "")
        for role in ROLES
    )
    lines = [
        f"{status['name']}: {status['state'].upper()}"
        + (f" ({status['message']})" if status["message"] else "")
        + f"   {counts}"
    ]
    endpoint = status["endpoint"]
    lines.append(
        f"  endpoint {endpoint.get('url') or 'none'}"
        + ("" if endpoint["registered"] else " (not registered)")
        + f"   generation {status['generation']}   revision {status['revision'] or '-'}"
    )
    router = status["router"]
    if router["policy"]:
        lines.append(
            f"  router   {router['policy']} membership, {len(router['peers'])} peers"
            + (", confirmed" if router["confirmed"] else ", NOT the members that run")
        )
    for mark in status["marks"]:
        lines.append(f"  ! {mark['mark']}: {mark['why']}")
    if status["pending"]:
        why = " (the recipe changed with the collection, the spec did not)" if status["recipe_changed"] else ""
        lines.append(
            f"  ! pending configuration{why}, applied by: ansible-playbook inferops.pd.restart -e pd_group={status['name']}"
        )
        lines += [f"      {line}" for line in status["pending_diff"]]
    if status["lock"]:
        since = time.strftime("%Y-%m-%d %H:%M:%S %Z", time.localtime(float(status["lock"].get("since") or 0)))
        lines.append(f"  ! locked by {status['lock'].get('who')} since {since}")
    return lines + _rows([*status["members"], *status.get("strays", ())])


def _rows(members: t.Sequence[t.Mapping[str, t.Any]]) -> list[str]:
    if not members:
        return []
    rows = [("MEMBER", "ROLE", "HOST", "STATE", "PID", "PORTS", "NOTE")]
    for m in members:
        bands = [
            f"{n} {b['base']}" + (f"-{b['base'] + b['count'] - 1}" if b["count"] > 1 else "")
            for n, b in (m.get("ports") or {}).items()
        ]
        note = (f"restarted {m['restarts']}x " if m.get("restarts") else "") + (m.get("why") or "")
        ports = ", ".join([str(m["port"]), *bands]) if m.get("port") else ""
        rows.append((m["id"], m["role"], m["host"], m["state"], str(m.get("pid") or "-"), ports, note.strip()))
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return ["  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows]
