# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The state of a workload, a group or a cache service: what it is, how many of each role are ready, and the marks beside it. What differs
between the two is their kind's (spec/workload.py), and what only one of them has: a router and an endpoint, or users."""

from __future__ import annotations

import time
import typing as t
from dataclasses import dataclass

from ..base.finding import Finding
from ..base.printable import printable
from ..base.words import MOST_HOSTS, counted, names
from ..facts.kv_interface import PLANES
from ..facts.observed import Host, on_plane
from ..facts.stands import name_of
from ..plan import diff, drift, peer_snapshot, record
from ..plan.peer_snapshot import registered_urls
from ..plan.situation import EVERYWHERE, Reach, Situation
from ..spec.cache_service import CacheService
from ..spec.spec import ENGINE_ROLES, Group
from ..spec.workload import CACHE, GROUP, Kind
from ..template.cache_template import CacheTemplate
from ..template.template import GroupTemplate
from . import marks, members, users
from .users import Users

State = dict[str, t.Any]


@dataclass(frozen=True)
class Subject:
    """Whose state is told, and what is known of it beside the hosts' facts. `spec` is None for one that runs and is in no inventory any
    more, or that cannot be read, which `findings` say then; `wanted` is how many members of a role the inventory asks for where the spec
    does not say; `named_by` are the groups whose specs name a cache service."""

    kind: Kind
    name: str
    spec: Group | CacheService | None = None
    template: GroupTemplate | CacheTemplate | None = None
    findings: t.Sequence[Finding] = ()
    wanted: int = 0
    named_by: t.Sequence[str] = ()

    @property
    def refused(self) -> list[str]:
        return [f.message for f in self.findings if f.severity == "error"]

    @property
    def in_inventory(self) -> bool:
        """A spec that cannot be read is one all the same."""
        return self.spec is not None or bool(self.refused)

    @property
    def group(self) -> Group | None:
        return self.spec if isinstance(self.spec, Group) else None

    @property
    def group_template(self) -> GroupTemplate | None:
        return self.template if isinstance(self.template, GroupTemplate) else None

    @property
    def plane(self) -> str:
        """What it needs of its hosts' KV interfaces."""
        return self.group_template.mode.interface_plane if self.group_template else PLANES[0]

    @property
    def service(self) -> CacheService | None:
        return self.spec if isinstance(self.spec, CacheService) else None


def of(
    subject: Subject,
    hosts: t.Mapping[str, Host],
    silent: t.Collection[str],
    reach: Reach = EVERYWHERE,
    away: t.Collection[str] = (),
) -> State:
    """The state of a workload, with all that is reported of it. `away` are hosts out of service."""
    kind, name, hosts = subject.kind, subject.name, on_plane(hosts, subject.plane)
    situation = Situation.of(name, hosts, silent, away, formations=kind.joined)
    noted, template = situation.last, subject.template
    desired = _desired(subject, situation)
    roles = {role: members.counts_of(role, situation, desired.get(role, 0)) for role in kind.roles}
    registered = noted.endpoint.registered
    pending = template is not None and any(m.revision != template.revision for m in situation.members if m.alive)
    lines = diff.of_templates(noted.templates, template.masked()) if pending and template else []
    recipe_changed = bool(pending and subject.group and record.same_spec(noted, subject.group))
    moved = [one.line() for one in drift.changed(situation.members, hosts)]
    pending = pending or bool(moved)
    state, message = _state(subject, roles, situation, registered)
    if pending and state == "running" and peer_snapshot.stale_peers(situation):
        by = "the restart that applies what is pending" if noted.applied is None else "the next deploy"
        state, message = "partial", f"its router has stale peers, and is replaced by {by}"
    if state == kind.states.nothing and situation.noted is None and silent:
        message = f"nothing is known of it, and {reach.of_hosts(dict.fromkeys(silent, ()))}"
    told = marks.of(
        kind, subject.group, subject.group_template, situation, hosts, roles, state, subject.findings, reach
    )
    told += [{"mark": "spec_refused", "why": why} for why in subject.refused]
    if not subject.in_inventory:
        why = f"the {kind.short} runs, but no {kind.entries} entry names it"
        told.append({"mark": "not_in_inventory", "why": why})
    common = {
        "name": name_of(name),
        "stand": name,
        "state": state,
        "message": message,
        "generation": situation.generation,
        "formation": situation.formation,
        "revision": noted.revision,
        "spec_revision": template.revision if template else None,
        "pending": pending,
        "pending_diff": lines + moved,
        "recipe_changed": recipe_changed,
        "roles": roles,
        "marks": told,
        "members": members.rows_of(kind, situation, reach),
        "strays": members.strays_of(situation),
        "tombstones": [grave.to_plain() for grave in situation.tombstones],
        "in_inventory": subject.in_inventory,
        "lock": next((host.locks[name] for host in hosts.values() if name in host.locks), None),
    }
    if kind.router:
        endpoint = {"url": None, **(noted.plain.get("endpoint") or {}), "registered": registered}
        near = marks.locality(marks.engines_of(situation))
        kept = {"previous": _previous(situation), "held": noted.plain.get("held")}
        return {**common, **kept, "router": _router(situation), "endpoint": endpoint, "locality": near}
    found = users.of(name, subject.named_by, hosts, all_answered=not silent and not reach.passed)
    return {**common, **_of_service(subject, situation, roles), **found.to_plain(), "instances": common["members"]}


def _previous(situation: Situation) -> dict[str, t.Any] | None:
    """What the group can return to: the last configuration before this one that was proven."""
    kept = situation.last.previous
    if kept is None:
        return None
    return {
        "revision": kept.revision,
        "generation": kept.generation,
        "formed": kept.formed,
        "roles": dict(kept.desired),
    }


def _desired(subject: Subject, situation: Situation) -> dict[str, int]:
    """How many members of each role there are to be: as the record says, else as the spec does."""
    if subject.kind is CACHE:
        here = len(situation.members) + len(situation.unknown)
        return dict.fromkeys(CACHE.roles, max(here, subject.wanted))
    desired = dict(situation.last.desired)
    if subject.group is not None:
        desired = {r.name: desired.get(r.name, r.replicas) for r in subject.group.engine_roles}
    return {**desired, "router": 1}


def _of_service(subject: Subject, situation: Situation, roles: t.Mapping[str, t.Mapping[str, int]]) -> dict[str, t.Any]:
    """What only a cache service has: a kind, and clients."""
    service, (counts,) = subject.service, roles.values()
    about = service.to_plain() if service else situation.last.cache
    keys = ("provider", "scope", "clients", "address")
    return {**{key: about.get(key) for key in keys}, "ready": counts["ready"], "desired": counts["desired"]}


def _state(
    subject: Subject, roles: t.Mapping[str, t.Mapping[str, int]], situation: Situation, registered: bool
) -> tuple[str, str]:
    """The state and its reason: the first that fits."""
    kind = subject.kind
    if subject.service is not None and subject.service.address:
        return "external", ""
    readiness = subject.group.readiness if subject.group else "any_per_role" if kind.joined else "all"
    least = {r: 1 if readiness == "any_per_role" or r == "router" else max(1, roles[r]["desired"]) for r in kind.roles}
    short = sorted(r for r in kind.roles if roles[r]["ready"] < least[r])
    forgot = peer_snapshot.forgot_peers(situation)
    unread = peer_snapshot.unread_peers(situation)
    if not short and unread:
        return "partial", "unknown which members its router reaches"
    if not short and (registered or not kind.router) and not forgot:
        return "running", ""
    if not short and forgot:
        told = "the endpoint is registered, and its router has no confirmed peers"
        return "partial", told if registered else forgot[0]["why"]
    if any(m.alive and m.ready for m in situation.members):
        behind = printable(situation.last.endpoint.why, 600)
        waits = "waiting for the endpoint to be registered" + (f": {behind}" if behind else "")
        return "partial", f"roles not ready: {', '.join(short)}" if short else waits
    failed = [m for m in situation.members if not m.alive]
    if failed:
        return "error", f"{len(failed)}/{len(situation.members)} members failed"
    if situation.unknown:
        return kind.states.unseen, "no host that runs a member answered"
    return (kind.states.coming if situation.members else kind.states.nothing), "no member is running yet"


def _router(situation: Situation) -> dict[str, t.Any]:
    router = next((m for m in situation.of_role("router") if m.alive), None)
    if router is None:
        return {"policy": situation.last.policy, "peers": [], "confirmed": False}
    urls = registered_urls(router)
    if urls is None and router.label.policy == "dynamic":
        return {"policy": "dynamic", "peers": None, "confirmed": None, "missing": [], "extra": []}
    if urls is None:
        urls = {peer.url for peer in router.label.peers or () if router.label.policy != "dynamic"}
    wanted = {m.label.url for m in situation.members if m.role in ENGINE_ROLES and m.alive and not m.draining}
    return {
        "policy": router.label.policy,
        "peers": sorted(urls),
        "confirmed": urls == wanted,
        "missing": sorted(str(u) for u in wanted - urls),
        "extra": sorted(urls - wanted - situation.unknown_urls),
    }


# -- what a person is told ---------------------------------------------------------------------------------------------------------


def head(status: t.Mapping[str, t.Any]) -> list[str]:
    """The state in the lines that a table begins with: what it is, how many serve, and where."""
    return [_of_a_service(status)] if "instances" in status else _of_a_group(status)


def table(status: t.Mapping[str, t.Any]) -> list[str]:
    """The state as lines for a terminal: the workload, its marks, then a row a member."""
    kind = CACHE if "instances" in status else GROUP
    lines = head(status)
    if status["state"] == "external":
        return lines
    for mark in status["marks"]:
        lines.append(f"  ! {mark['mark']}: {mark['why']}")
    if status["pending"]:
        why = " (the recipe changed with the collection, the spec did not)" if status["recipe_changed"] else ""
        what = "pending configuration" if kind.router else "pending"
        lines.append(f"  ! {what}{why}, applied by: ansible-playbook {kind.restart(status['name'])}")
        lines += [f"      {line}" for line in status["pending_diff"]]
    if status["lock"]:
        since = time.strftime("%Y-%m-%d %H:%M:%S %Z", time.localtime(float(status["lock"].get("since") or 0)))
        lines.append(f"  ! locked by {printable(status['lock'].get('who'))} since {since}")
    if status.get("rollout"):
        lines.append(f"  {status['rollout']['told']}")
    beside = status.get("twin") or {}
    rows = [*status["members"], *status.get("strays", ()), *beside.get("members", ()), *beside.get("strays", ())]
    return lines + members.table(kind, rows)


def _of_a_group(status: t.Mapping[str, t.Any]) -> list[str]:
    counts = ", ".join(
        f"{role} {one['ready']}/{one['desired']}" + (f" ({one['draining']} draining)" if one["draining"] else "")
        for role, one in status["roles"].items()
    )
    message = f" ({status['message']})" if status["message"] else ""
    endpoint, router = status["endpoint"], status["router"]
    lines = [
        f"{status['name']}: {status['state'].upper()}{message}   {counts}",
        f"  endpoint {endpoint.get('url') or 'none'}"
        + ("" if endpoint["registered"] else " (not registered)")
        + f"   generation {status['generation']}   revision {status['revision'] or '-'}",
    ]
    if endpoint.get("hooks"):
        lines.append(f"  hooks    {', '.join(_hook(name, one) for name, one in endpoint['hooks'].items())}")
    near = status.get("locality")
    if near is not None and 0 < near < 1:
        lines.append(f"  pairs    {near:.0%} on one host, the others' KV crosses the network")
    if router["policy"]:
        confirmed = ", confirmed" if router["confirmed"] else ", NOT the members that run"
        peers = "its peers are unknown"
        if router["peers"] is not None:
            peers = f"{counted(len(router['peers']), 'peer')}{confirmed}"
        lines.append(f"  router   {router['policy']} membership, {peers}")
    return lines


def _hook(name: str, announced: t.Mapping[str, t.Any]) -> str:
    """A hook of the endpoint. What it has not been seen to take, it may know all the same."""
    where = f"{name} on {names(announced['hosts'], MOST_HOSTS)}" if announced["hosts"] else name
    return where if announced["digest"] else f"{where} (NOT told)"


def _of_a_service(status: t.Mapping[str, t.Any]) -> str:
    used = Users.of_plain(status).told()
    if status["state"] == "external":
        return f"cache {status['name']}: {status['provider']} at {status['address']}, run by somebody else, {used}"
    count = f"{status['ready']} of {status['desired']} instances ready"
    return f"cache {status['name']}: {status['state'].upper()}  {status['provider']}, {count}, {used}"
