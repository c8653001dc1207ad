# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan: spec and observed in, one value out. Check mode returns it, a run executes the same value; nothing later decides again.

How it is made, one file a step: situation.py says what there is of the group, choice.py who stays, leaves and comes, formations.py of which
formation that is, seating.py where, preconditions.py what a host must have, rendering.py what each member is, router_step.py what the
router does, steps.py in which order."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ..base.finding import Findings
from ..facts.observed import Host, Member
from ..facts.record import differs
from ..facts.tombstone import Tombstone
from ..recipes.engine import Engine
from ..rules import checks_cache, checks_hardware
from . import diff, formations, machines, reality, record
from .choice import check_lost, check_reach, decide
from .formations import Formation, formation_of
from .peer_snapshot import snapshot
from .preconditions import check_hosts, check_pasted
from .rendering import peers_of, render_members
from .router_step import router_step
from .seating import seat_members
from .situation import EVERYWHERE, Action, Choice, Reach, Request, Run, Situation
from .steps import hold_vacated, leaves, removal_steps, slice_of, slices_of, steps_of, tombstone_steps


def make(request: Request, findings: Findings) -> dict[str, t.Any]:
    """The plan. What stands in its way is in `findings`; a plan with errors is for reading only."""
    situation = Situation.of(request.group.name, request.hosts, request.silent, request.gone)
    machines.check(request.hosts, findings)
    machines.check_group(request.group.name, request.hosts, situation.noted, findings)
    check_lost(request.lost, {*request.hosts, *situation.renamed}, findings)
    check_reach(request.action, situation, request.silent, findings, request.reach)
    formations.say_strays(situation, findings)
    choice = decide(request, situation, findings)
    formation = formation_of(request, situation, choice, findings)
    seats = seat_members(request, choice, formation, findings)
    moved = reality.leave_out(request, choice, seats, findings)
    check_hosts(request, seats, {m.host for m in choice.keep}, findings)
    members = render_members(request, choice, seats, formation, situation.record, findings)
    check_pasted(request, [m for m in members if m["revision"] == request.template.revision], findings)
    checks_hardware.check_members(members, request.hosts, request.template.engines, findings)
    checks_cache.check_members(members, request.template, findings)
    return _assemble(request, situation, choice, members, formation, moved, findings)


@dataclass
class Removal:
    """Everything that the plan which takes a group down is made from; it needs no spec. The fields are those of a Request."""

    name: str
    hosts: t.Mapping[str, Host]
    run: Run
    silent: t.Collection[str] = ()
    lost: t.Collection[str] = ()
    away: t.Collection[str] = ()
    fence: str = ""
    forget: t.Collection[str] = ()
    reach: Reach = EVERYWHERE


def removal(request: Removal, findings: Findings) -> dict[str, t.Any]:
    """The plan that takes a group down. What runs, and the record, say all of it. What a lost host had is not forgotten: the record of
    the rest keeps its tombstone until it has been seen."""
    name, hosts = request.name, request.hosts
    situation = Situation.of(name, hosts, request.silent, {*request.lost, *request.away})
    machines.check(hosts, findings)
    machines.check_group(name, hosts, situation.noted, findings)
    check_lost(request.lost, {*hosts, *situation.renamed}, findings)
    check_reach("remove", situation, request.silent, findings, request.reach)
    formations.say_strays(situation, findings)
    noted = situation.record
    graves, raised = formations.tombstones(
        situation, hosts, request.lost, request.away, request.forget, request.fence, request.run
    )
    formations.say_graves(name, graves, hosts, findings)
    going = [*situation.members, *(s.member for s in situation.strays)]
    mine = {m.host for m in going} | {n for n, host in hosts.items() if name in host.records}
    watched = {p.host for p in situation.noted.members} if situation.noted else set()
    watched |= {grave.host for grave in situation.tombstones}
    hold = any(grave.router for grave in graves)
    slices = {
        host: {**slice_of(hosts[host], name, host in mine), "hold": hold}
        for host in sorted(mine | {h for h in watched if h in hosts and h not in request.silent})
    }
    for member in going:
        leaves(slices[member.host], member)
    if hold:
        hold_vacated(slices, situation, {})
    steps = removal_steps(situation, sorted(mine)) + tombstone_steps(situation, graves, raised)
    plan: dict[str, t.Any] = {
        "group": name,
        "mode": noted.get("mode"),
        "runtime": noted.get("runtime"),
        "action": "remove",
        "run": request.run.nonce,
        "revision": noted.get("revision"),
        "formation": situation.formation,
        "generation": situation.generation,
        "pending": False,
        "moved": [],
        "desired": {},
        "readiness": "any_per_role",
        "members": [],
        "router": {**_NO_ROUTER, "policy": (noted.get("router") or {}).get("policy")},
        "steps": steps,
        "endpoint": {"url": None, "served_model_name": None},
        "hosts": slices,
        "proof": {},
        "unknown": [m["id"] for m in situation.unknown],
        "hold": _hold(going),
        "fence": fence_of(situation, request.lost, graves),
        "record": record.of_removal(name, noted, graves),
        "changed": bool(steps),
    }
    plan["diff"] = diff.of_plan(plan, noted, {})
    return plan


_NO_ROUTER: dict[str, t.Any] = {
    "member": None,
    "starts": {},
    "early": None,
    "late": False,
    "hold": False,
    "clean": False,
    "read": True,
    "peer_argv": [],
    "first": None,
    "peers": [],
    "policy": None,
    "dialect": None,
    "gives_up": "",
    "add": [],
    "remove": [],
    "spare": [],
    "step": "none",
    "why": "the group is removed",
    "model": "",
}


def fence_of(situation: Situation, gone: t.Collection[str], graves: t.Iterable[Tombstone]) -> list[dict[str, t.Any]]:
    """Hosts that the fence command is run for: those stated to be gone of which the record knows members."""
    before = {(g.host, g.formation) for g in situation.tombstones if g.fenced}
    addresses: dict[str, str] = {}
    for place in situation.noted.members if situation.noted else ():
        if place.host in gone and place.address:
            addresses.setdefault(place.host, place.address)
    return [
        {
            "host": grave.host,
            "machine": grave.machine,
            "address": addresses.get(grave.host),
            "members": list(grave.members),
        }
        for grave in graves
        if grave.host in gone and grave.fenced and (grave.host, grave.formation) not in before
    ]


def _assemble(
    request: Request,
    situation: Situation,
    choice: Choice,
    members: list[dict[str, t.Any]],
    formation: Formation,
    moved: list[reality.Moved],
    findings: Findings,
) -> dict[str, t.Any]:
    group, template = request.group, request.template
    router = router_step(request, situation, choice, members, findings)
    if router["member"] is not None and (
        router["step"] == "replace" or not any(m.role == "router" for m in choice.keep)
    ):
        router["member"]["parts"][0]["labels"] |= {"peers": snapshot(router["peers"], router["starts"])}
    steps = steps_of(request, situation, choice, router, members, formation)
    address = router["member"]["url"] if router["member"] else None
    endpoint = {"url": group.external_url or address, "served_model_name": router["model"]}
    if choice.pending:
        _say_pending(request, situation, findings)
    plan: dict[str, t.Any] = {
        "group": group.name,
        "mode": template.mode.name,
        "runtime": group.runtime,
        "action": request.action,
        "run": request.run.nonce,
        "revision": template.revision,
        "formation": formation.id,
        "generation": formation.generation,
        "pending": choice.pending or bool(moved),
        "moved": [one.line() for one in moved],
        "desired": choice.desired,
        "readiness": group.readiness,
        "members": members,
        "router": router,
        "steps": steps,
        "endpoint": endpoint,
        "hosts": slices_of(request, situation, choice, members, router, formation),
        "proof": _proof(request),
        "kv_cache": template.cache_block,
        "unknown": [m["id"] for m in situation.unknown],
        "hold": _hold(m for m, _why in [*choice.leave, *((m, "") for m in choice.replace)]),
        "fence": fence_of(situation, request.lost, formation.graves),
        "upstream": _upstream(choice, template.engines),
    }
    if choice.pending:
        # Nothing comes, and what goes, waits or is proved is as it was started.
        plan |= {key: situation.record[key] for key in ("mode", "runtime", "proof") if situation.record.get(key)}
    formations.assert_one(plan, choice, {m.id for m in situation.adopt})
    ids = {h: request.hosts[h].machine.id for h in {m["parts"][0]["host"] for m in members}}
    identity = formations.to_record(formation, situation, ids, request.run)
    left = {(m.host, m.id) for m, _why in choice.leave}
    still_there = {(m.host, m.id) for m in situation.members} - left
    plan["record"] = record.of_plan(plan, group, template, situation.record, identity, still_there)
    # Waiting for a member that comes up by itself is work, and changes nothing.
    plan["changed"] = any(s["do"] != "wait" for s in steps) or differs(plan["record"], situation.record)
    plan["diff"] = diff.of_plan(plan, situation.record, template.masked())
    return plan


def _hold(going: t.Iterable[Member]) -> float:
    """For how many seconds at most members of this plan drain and stop: the lock must live longer on hosts that have nothing to do then."""
    stops = [m.label.get("stop") or {} for m in going]
    return max((float(s.get("drain") or 0) + float(s.get("grace") or 0) for s in stops), default=0.0)


def _upstream(choice: Choice, engines: t.Mapping[str, Engine]) -> list[dict[str, t.Any]]:
    """The prefills that may still hand requests to a decode which leaves: their running requests are waited for, too."""
    engine = engines.get("prefill")
    if engine is None or not any(m.role == "decode" for m, _why in choice.leave):
        return []
    return [
        {
            "id": m.id,
            "url": m.label.get("url"),
            "metrics": engine.metrics_path,
            "busy": list(engine.busy_metrics),
            "done": list(engine.done_metrics),
        }
        for m in choice.keep
        if m.role == "prefill" and m.ready and m.label.get("url")
    ]


def _proof(request: Request) -> dict[str, t.Any]:
    """What the proof needs of the mode: how to send the two hops, and which counters say that KV moved."""
    mode = request.template.mode
    prefill, decode = request.template.roles["prefill"], request.template.roles["decode"]
    exact = prefill.sizes.tensor == decode.sizes.tensor and any("float32" in a or a == "float" for a in prefill.argv)
    return {"handoff": mode.handoff, "counters": dict(mode.counters), "exact_text": exact}


def _say_pending(request: Request, situation: Situation, findings: Findings) -> None:
    lines = diff.of_templates(situation.record.get("templates") or {}, request.template.masked())
    recipe_only = record.same_spec(situation.record, request.group)
    findings.warning(
        "pending-configuration",
        "the spec differs from what the members run"
        + (" (the spec is the same; the recipe has changed with the collection)" if recipe_only else "")
        + ": nothing is restarted. "
        + "; ".join(line.strip() for line in lines[:6])
        + (f"; and {len(lines) - 6} more lines" if len(lines) > 6 else "")
        + ".",
        f"Apply it to the whole group: ansible-playbook inferops.pd.restart -e pd_group={request.group.name}. Undo the edit to clear it.",
    )


def summary(plan: t.Mapping[str, t.Any]) -> str:
    """The plan in one line, for a run without --diff."""
    counts: dict[str, int] = {}
    for step in plan["steps"]:
        if step["member"]:
            counts[step["do"]] = counts.get(step["do"], 0) + 1
    done = ", ".join(f"{do} {number}" for do, number in counts.items()) or (
        "write the record" if plan["changed"] else "nothing to change"
    )
    pending = "; a change is pending" if plan["pending"] else ""
    revision = f", revision {plan['revision']}" if plan["revision"] else ""
    return f"plan for {plan['group']} ({plan['action']}{revision}): {done}{pending}"


__all__ = [
    "Action",
    "Choice",
    "Reach",
    "Removal",
    "Request",
    "Run",
    "Situation",
    "make",
    "peers_of",
    "removal",
    "summary",
]
