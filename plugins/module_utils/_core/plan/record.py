# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the record of a group says after a plan has been carried out. How one is read: facts/record.py."""

from __future__ import annotations

import typing as t
from dataclasses import replace

from ..base.plain import Plain, to_plain
from ..facts.applied import IDENTITY, Applied, Identity
from ..facts.record import REMOVED, SCHEMA, Record, TookOver
from ..facts.stands import Beside, took_over
from ..facts.tombstone import Place, Tombstone
from ..spec.cache_service import CacheService
from ..spec.spec import ENGINE_ROLES, Group
from ..template.cache_template import CacheTemplate
from ..template.kept import kept_of
from ..work.member import Member
from .peer_snapshot import snapshot
from .situation import Request, Situation
from .value import Plan

# A record while it is made, as it is kept.
Draft = dict[str, t.Any]
# In which members are listed.
_ORDER = {"prefill": 0, "decode": 1, "router": 2}


def of_group(
    plan: Plan,
    asked: Request,
    last: Record,
    made: bool,
    really: t.Mapping[str, Identity],
    identity: Plain,
    still_there: t.Collection[tuple[str, str]] = (),
) -> Plain:
    """The record as it is after the plan has been carried out. While a change is pending the applied spec stays what it was. `made` says
    that the plan makes a formation, `really` what the members that there were really are; `identity` is which formation it is of, and what
    of earlier ones may still run (formations.py); `still_there` are members (host, id) that are down and are left where they are."""
    router, before = plan.router.member, last.plain
    record: Draft = {
        **_of_any(plan, last),
        **identity,
        "proof": to_plain(plan.proof),
        **_rendered(plan, asked, last, made),
        **_earlier(asked, last, made, really),
        "router": {
            "policy": plan.router.policy,
            "dialect": plan.router.dialect,
            "url": router.url if router else None,
            "peers": snapshot(plan.router.peers),
        },
        "endpoint": {**to_plain(plan.endpoint), "registered": False},
        **(_beside(asked.beside, last) if asked.beside else {}),
    }
    known = {m["id"] for m in record["members"]}
    record["members"] += [
        m
        for m in before.get("members") or ()
        if (m["id"] in plan.unknown or (m["host"], m["id"]) in still_there) and m["id"] not in known
    ]
    # Whoever is known only by the record has the place that it had: that nobody can ask it makes no record another one.
    record["members"].sort(key=lambda m: (_ORDER.get(m["role"], len(_ORDER)), m["index"]))
    _keep_unknown(record, last, plan.unknown)
    if plan.pending and asked.kept is None:
        for key in ("revision", "spec", "templates", "choices", "applied"):
            record[key] = before.get(key, record[key])
        if last.applied is None:
            # Of what runs it is not known, and the spec does not say.
            record.pop("applied")
    return record


def _rendered(plan: Plan, asked: Request, last: Record, made: bool) -> Draft:
    """How the formation is rendered: as its record keeps it where it is made of that, and where it is the same as before; else as the spec
    has it."""
    group, template, kept = asked.workload, asked.template, asked.kept
    if kept is not None:
        own = {key: kept.plain[key] for key in ("revision", "spec", "templates", "choices") if key in kept.plain}
    else:
        choices = {**(last.plain.get("choices") or {}), **template.choices}
        own = {"spec": group.to_plain(), "templates": template.masked(), "choices": choices}
    same = last.applied if last.applied and last.applied.revision == template.revision else None
    if kept is not None:
        more = dict(kept.more)
    elif same is not None and not made:
        more = dict(same.more)
    else:
        # It was proven, if it was, however often it is formed.
        proven = {"proven": same.more["proven"]} if same is not None and same.proven else {}
        more = {**kept_of(group, template), **proven}
    if made or "identity" not in more:
        more["identity"] = _identity(plan.members)
    return {**own, "applied": more}


def _beside(beside: Beside, last: Record) -> Draft:
    """That it stands beside another one, in whose place it is given the endpoint, and what a rollout has noted of the group by then."""
    other, mine = beside.other, last.beside
    turn = max(one.beside.turn if one.beside else 0 for one in (other, last))
    if other.formation is not None and not took_over(last, other):
        hosts = tuple(sorted({place.host for place in other.members}))
        mine = TookOver(other.formation, turn + 1, hosts, other.serial)
    elif mine is not None:
        # Hooks are told of this one in place of the other one, whatever became of that since.
        mine = replace(mine, serial=other.serial)
    found = {"beside": to_plain(mine), "rollout": dict(beside.rollout)}
    return {key: value for key, value in found.items() if value}


def _identity(members: t.Iterable[Member]) -> dict[str, dict[str, str]]:
    """What the engines are, by role, as far as their hosts know it before they start."""
    found: dict[str, dict[str, str]] = {}
    for member in members:
        if member.role in ENGINE_ROLES:
            mine = found.setdefault(member.role, {})
            for fact in IDENTITY:
                if member.identity.get(fact):
                    mine.setdefault(fact, str(member.identity[fact]))
    return found


def _earlier(asked: Request, last: Record, made: bool, really: t.Mapping[str, Identity]) -> Draft:
    """What ran before, and whether the group is held at it. The last configuration that was proven takes the place of an earlier one when
    another takes its own; one that never was takes nobody's."""
    found: Draft = {}
    ran = last.applied
    if made and ran is not None and ran.proven is not None and ran.revision != asked.template.revision:
        found["previous"] = _kept(ran, last, really)
    elif last.plain.get("previous"):
        found["previous"] = last.plain["previous"]
    elif asked.beside is not None:
        found |= _before_it(asked, asked.beside.other)
    if asked.kept is not None and asked.to == "previous":
        run = asked.reality.run
        why = f"it was returned to what ran before, by {run.by}" if run.by else "it was returned to what ran before"
        found["held"] = {"revision": asked.kept.revision, "why": why, "since": round(run.now, 3)}
    elif asked.beside is not None and asked.beside.held:
        held = {"revision": asked.template.revision, "why": asked.beside.held}
        found["held"] = {**held, "since": round(asked.reality.run.now, 3)}
    elif last.plain.get("held") and not asked.release:
        found["held"] = last.plain["held"]
    return found


def _before_it(asked: Request, other: Record) -> Draft:
    """What the group ran before, of one that has been formed beside it."""
    ran = other.applied
    if ran is None or ran.proven is None or ran.revision == asked.template.revision:
        return {}
    return {"previous": _kept(ran, other, {})}


def _kept(ran: Applied, last: Record, really: t.Mapping[str, Identity]) -> Draft:
    """A formation that was proven, as what comes after it keeps it. What its members really were their labels know best, as long as they
    are those that were proven."""
    proven = ran.proven
    if proven is None:
        raise ValueError("only what was proven is kept")
    identity = {role: dict(one) for role, one in proven.identity.items()}
    if last.generation == proven.generation:
        identity = {role: {**identity.get(role, {}), **really.get(role, {})} for role in {*identity, *really}}
    told = {"generation": proven.generation, "formed": proven.formed, "identity": identity}
    applied = {**ran.more, "identity": identity, "proven": told}
    return {**ran.plain, "generation": proven.generation, "formed": proven.formed, "applied": applied}


def of_service(plan: Plan, service: CacheService, template: CacheTemplate, situation: Situation) -> Plain:
    """What is kept of a cache service on its hosts. While a change is pending the applied spec stays what it was."""
    last, before = situation.last, situation.last.plain
    record: Draft = {
        **_of_any(plan, last),
        "cache": service.to_plain(),
        "templates": template.masked(),
        "endpoint": {"url": None, "registered": False},
    }
    known = {m["id"] for m in record["members"]}
    record["members"] += [place.to_plain() for place in situation.unknown if place.id not in known]
    if plan.pending and before:
        for key in ("revision", "templates", "cache", "runtime"):
            record[key] = before.get(key, record[key])
    return record


def _of_any(plan: Plan, last: Record) -> Draft:
    """What a record says of whatever workload."""
    return {
        "schema": SCHEMA,
        "group": plan.group,
        "mode": plan.mode,
        "runtime": plan.runtime,
        "generation": plan.generation,
        "serial": last.serial + 1,
        "revision": plan.revision,
        "desired": dict(plan.desired),
        "members": [_place(m).to_plain() for m in plan.members],
        "state": "partial",
        # What a rollout has written of it is its own, and how long a start took is of that start: whoever else plans leaves them.
        **({"rollout": dict(last.rollout)} if last.rollout else {}),
        **({"beside": to_plain(last.beside)} if last.beside else {}),
        **({"took": last.took} if last.took is not None else {}),
    }


def _place(member: Member) -> Place:
    """Where a member is, and what it holds there."""
    part = member.leader
    return Place(
        member.id, member.role, member.index, part.host, member.revision, member.url, part.port, part.ports, part.gpus
    )


def _keep_unknown(record: Draft, last: Record, unknown: t.Collection[str]) -> None:
    """What the record says of members that nobody can ask it goes on saying: a router's address, peers."""
    old = last.plain.get("router") or {}
    places = [p["member"] for p in old.get("peers") or ()]
    have = {p["member"] for p in record["router"]["peers"]}
    kept = [p for p in old.get("peers") or () if p["member"] in unknown and p["member"] not in have]
    if kept:
        peers = [*record["router"]["peers"], *kept]
        record["router"]["peers"] = sorted(
            peers, key=lambda p: places.index(p["member"]) if p["member"] in places else len(places)
        )
    if any(p.role == "router" and p.id in unknown for p in last.members):
        record["router"]["url"] = old.get("url")
        record["endpoint"] = {**record["endpoint"], "url": last.endpoint.url}


def of_removal(last: Record, graves: t.Sequence[Tombstone]) -> Plain:
    """What is left of a record when its group is removed while a tombstone stands: what may still run, and the numbers that the next
    formation comes after. Without a tombstone nothing is kept, and this is never written."""
    before = last.plain
    kept = {key: before[key] for key in ("formation", "supersedes", "formed", "adopted", "generation") if key in before}
    return {
        "schema": SCHEMA,
        "group": last.group,
        **kept,
        "serial": last.serial + 1,
        "state": REMOVED,
        "members": [],
        "desired": {},
        "endpoint": {"url": None, "registered": False},
        "tombstones": [grave.to_plain() for grave in graves],
    }


def same_spec(last: Record, group: Group) -> bool:
    """Whether the applied spec is the same but for counts and placement: then only the recipe has changed."""
    return _without_counts(last.plain.get("spec") or {}) == _without_counts(group.to_plain())


def _without_counts(spec: Plain) -> Plain:
    plain = dict(spec)
    plain["roles"] = {
        name: {k: v for k, v in role.items() if k not in ("replicas", "hosts")}
        for name, role in (spec.get("roles") or {}).items()
    }
    return plain
