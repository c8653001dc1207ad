# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan: spec and observed in, one value out. Check mode returns it, a run executes the same value; nothing later decides again.

How it is made, one file a step, each of which returns a new value: situation.py says what there is of the workload, source.py whether what
is started is of the spec or of the record, group_choice.py and service_choice.py who stays, leaves and comes, formations.py of which
formation that is, seating.py where, drift.py leaves out what would be another engine or model than its peers, preconditions.py says what a
host must have, rendering.py what each member is, router_step.py what the router does, steps.py in which order, slices.py what each host is
told, record.py what is kept. What a kind of workload does in its own way is in group.py and service.py."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, replace

from ..base.finding import Findings
from ..facts.observed import LiveMember
from ..facts.record import differs
from ..facts.stands import Beside, name_of
from ..facts.tombstone import Tombstone
from ..hooks.hook import Hooked
from ..spec.cache_service import CacheService
from ..spec.workload import GROUP, Kind
from . import diff, formations, hooks, machines, record
from .formations import formation_of
from .group import Groups
from .group_choice import is_short
from .reach import check_damaged, check_lost, check_reach, say_cordons
from .service import Services
from .situation import AnyRequest, Asked, Reality, Situation, Template, Workload
from .slices import removal_slices, slices_of
from .source import FromRecord, recorded
from .steps import removal_steps, steps_of, tombstone_steps
from .value import Lost, Plan, Renewal, RouterStep
from .way import Draft, Way

WAYS: tuple[Groups, Services] = (Groups(), Services())


def make(asked: AnyRequest, findings: Findings) -> Plan:
    """The plan. What stands in its way is in `findings`; a plan with errors is for reading only."""
    groups, services = WAYS
    if isinstance(asked.workload, CacheService):
        return _make(asked, services, findings)
    return _make(asked, groups, findings)


def _make(asked: Asked[Workload, Template], way: Way[Workload, Template], findings: Findings) -> Plan:
    situation = _situation(asked.name, asked.reality, way.kind, asked.action, findings)
    say_cordons(asked, situation, way.kind, findings)
    return _planned(Draft(way.source(asked, situation, findings), situation, findings), way)


def _planned(draft: Draft[Workload, Template], way: Way[Workload, Template]) -> Plan:
    asked, situation, findings = draft.asked, draft.situation, draft.findings
    draft = replace(draft, choice=way.choose(draft))
    draft = replace(draft, formation=formation_of(asked, situation, draft.choice, way.kind.joined, findings))
    choice, seats = way.seat(draft)
    draft = replace(draft, choice=choice, seats=seats)
    choice, seats, moved = way.drift(draft)
    draft = replace(draft, choice=choice, seats=seats, moved=moved)
    way.check_hosts(draft)
    draft = replace(draft, members=way.render(draft))
    router = way.router(draft)
    if router.member is not None:
        members = tuple(router.member if m.id == router.member.id else m for m in draft.members)
        draft = replace(draft, members=members, router=router)
    else:
        draft = replace(draft, router=router)
    draft = replace(draft, renew=way.renew(draft))
    draft = replace(draft, retire=way.retire(draft))
    draft = replace(draft, hooks=way.hooks(draft))
    return _assembled(draft, way)


def _assembled(draft: Draft[Workload, Template], way: Way[Workload, Template]) -> Plan:
    asked, choice, formation = draft.asked, draft.choice, draft.formation
    situation: Situation = draft.situation
    request = t.cast("AnyRequest", asked)
    plan = Plan(
        group=asked.name,
        kind=way.kind.name,
        action=asked.action,
        run=asked.reality.run.nonce,
        revision=(asked.waits or asked).template.revision,
        formation=formation.id,
        generation=formation.generation,
        members=draft.members,
        router=draft.router,
        steps=tuple(steps_of(draft, way.kind.short)),
        hosts=slices_of(request, situation, choice, draft.members, draft.router, formation),
        unknown=tuple(place.id for place in situation.unknown),
        hold=_hold((*choice.going, *choice.retire))
        + sum(_round_takes(one) for one in draft.renew)
        + _hooks_take(draft.hooks, situation),
        fence=_fence_of(situation, asked.reality.lost, formation.graves),
        renew=draft.renew or None,
        retire=draft.retire or None,
        hooks=draft.hooks or None,
        spare=(asked.beside is not None) or None,
        **way.fields(draft),
    )
    plan = replace(plan, record=way.record(draft, plan))
    plan = replace(plan, meanwhile=way.meanwhile(draft, plan))
    # Waiting for a member that comes up by itself is work, and changes nothing.
    worked = any(s.do != "wait" for s in plan.steps)
    plan = replace(plan, changed=worked or differs(plan.record, situation.last.plain))
    plan = way.say(draft, plan)
    return plan.with_diff(diff.of_plan(plan, situation.last, (asked.waits or asked).template.masked()))


# -- from the record ---------------------------------------------------------------------------------------------------------------


def from_record(asked: FromRecord, findings: Findings) -> Plan:
    """The plan that is made of the group's record, whatever its spec says: what `heal` replaces, or a restart onto what ran before."""
    way = WAYS[0]
    if asked.action == "heal":
        return _healed(asked, way, findings)
    situation = _situation(asked.name, asked.reality, way.kind, asked.action, findings)
    request = recorded(asked, situation, findings)
    return _planned(Draft(request, situation, findings), way) if request else _nothing(asked, situation)


# What is said of a group that is not healed: everything else is a deploy's to say.
_SAID_BY_HEAL = ("member-not-replaced", "host-unreachable", "identity-moved", "does-not-fit")


def _healed(asked: FromRecord, way: Groups, findings: Findings) -> Plan:
    """What is down is replaced in its formation. Where nothing is, nothing is done, and nothing said."""
    name, reality, found = asked.name, asked.reality, Findings()
    situation = Situation.of(name, reality.hosts, reality.silent, reality.gone, way.kind.joined)
    lives = any(m.alive and not m.draining for m in situation.members)
    if situation.noted is None or not (lives or situation.unknown):
        unseen = dict.fromkeys(reality.silent if situation.noted is None else (), ())
        what = "nothing of it runs" if situation.noted and situation.last.members else "it is not deployed"
        if unseen:
            what = f"no host that was looked at has a record of it ({reality.reach.of_hosts(unseen)})"
        findings.warning(
            "nothing-runs",
            f"{name}: {what}, and what is healed is a group that serves in part: nothing is formed anew.",
            reality.reach.ways_out(unseen) or f"Deploy it: ansible-playbook inferops.pd.deploy -e pd_group={name}.",
        )
        return _nothing(asked, situation)
    situation = _situation(name, reality, way.kind, asked.action, found)
    # What cannot be started again is no matter as long as nothing has to be.
    request = recorded(asked, situation, found if is_short(situation) else Findings())
    plan = _planned(Draft(request, situation, found), way) if request else _nothing(asked, situation)
    heals = any(s.do in ("create", "replace", "register") and s.phase != "endpoint" for s in plan.steps)
    for one in found.items:
        if heals or one.severity == "error" or one.code in _SAID_BY_HEAL:
            findings.add(one)
    return plan if heals or found.errors else _nothing(asked, situation)


def _nothing(asked: FromRecord, situation: Situation) -> Plan:
    """The plan of a run that does nothing."""
    noted = situation.last
    return Plan(
        group=asked.name,
        kind=GROUP.name,
        action=asked.action,
        run=asked.reality.run.nonce,
        mode=noted.mode,
        runtime=noted.runtime,
        revision=noted.revision,
        formation=situation.formation,
        generation=situation.generation,
        router=RouterStep(policy=noted.policy, why="nothing is done"),
        unknown=tuple(place.id for place in situation.unknown),
        record=noted.plain,
    )


def _situation(name: str, reality: Reality, kind: Kind, action: str, findings: Findings) -> Situation:
    """What there is of the workload, and what of it stands in the way of any plan."""
    situation = Situation.of(name, reality.hosts, reality.silent, reality.gone, kind.joined)
    for finding in reality.hosts.doubles:
        findings.add(finding)
    machines.check_group(name, reality.hosts, situation.noted, findings)
    check_lost(reality.lost, situation, reality.hosts, findings)
    check_damaged(action, situation, findings)
    if kind.joined:
        check_reach(action, situation, reality, findings)
    if action != "heal":
        formations.say_strays(situation, kind.short, findings)
    return situation


# -- removal -----------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Removal:
    """What takes a workload down is asked with; it needs no spec."""

    name: str
    reality: Reality
    kind: Kind = GROUP
    wired: hooks.Wired = hooks.NOTHING
    beside: Beside | None = None


def removal(asked: Removal, findings: Findings) -> Plan:
    """The plan that takes a workload down. What runs, and the record, say all of it. What a lost host had is not forgotten: the record of
    the rest keeps its tombstone until it has been seen."""
    kind, name, reality = asked.kind, asked.name, asked.reality
    situation = _situation(name, reality, kind, "remove", findings)
    noted = situation.last
    graves, raised = formations.tombstones(situation, reality) if kind.joined else ((), {})
    formations.say_graves(name, graves, reality.hosts, findings)
    going = [*situation.members, *(s.member for s in situation.strays)]
    mine = {m.host for m in going} | {host for host, _record in reality.hosts.sight(name).records}
    loses = asked.beside is not None and asked.beside.loses
    # What stands beside the group has no clients, and what hooks say of the group is of the other one.
    known = () if loses else hooks.hooked(asked.wired, hooks.Given(name_of(name), stops=True), noted, findings)
    steps = (
        hooks.first_steps(known)
        + removal_steps(situation, sorted(mine), kind.short)
        + tombstone_steps(situation, graves, raised)
    )
    plan = Plan(
        group=name,
        kind=kind.name,
        action="remove",
        run=reality.run.nonce,
        mode=noted.mode,
        runtime=noted.runtime or next((m.label.runtime for m in going), None),
        revision=noted.revision,
        formation=situation.formation,
        generation=situation.generation,
        readiness="any_per_role" if kind is GROUP else "all",
        router=RouterStep(policy=noted.policy, why=f"the {kind.short} is removed"),
        steps=tuple(steps),
        hosts=removal_slices(name, situation, reality, any(grave.router for grave in graves)),
        unknown=tuple(place.id for place in situation.unknown),
        hold=_hold(going) + _hooks_take(known, situation) + (_drains(situation) if loses else 0),
        fence=_fence_of(situation, reality.lost, graves),
        drains=loses or None,
        record=record.of_removal(noted, graves),
        cache=None if kind is GROUP else {**noted.cache, "users": list(reality.users), "clients_note": ""},
        changed=bool(steps),
        hooks=known or None,
    )
    return plan.with_diff(diff.of_plan(plan, noted, {}))


def _fence_of(situation: Situation, gone: t.Collection[str], graves: t.Iterable[Tombstone]) -> tuple[Lost, ...]:
    """Hosts that the fence command is run for: those stated to be gone of which the record knows members."""
    before = {(g.host, g.formation) for g in situation.tombstones if g.fenced}
    addresses: dict[str, str] = {}
    for place in situation.noted.members if situation.noted else ():
        if place.host in gone and place.address:
            addresses.setdefault(place.host, place.address)
    return tuple(
        Lost(grave.host, grave.machine, addresses.get(grave.host), tuple(grave.members))
        for grave in graves
        if grave.host in gone and grave.fenced and (grave.host, grave.formation) not in before
    )


def _hold(going: t.Iterable[LiveMember]) -> float:
    """For how many seconds at most members of this plan drain and stop: the lock must live longer on hosts that have nothing to do then."""
    return max(((m.label.drain or 0.0) + (m.label.grace or 0.0) for m in going), default=0.0)


def _hooks_take(known: t.Iterable[Hooked], situation: Situation) -> float:
    """For how many seconds at most hooks, and the members behind them, let end what runs."""
    every = list(known)
    hooks_drain = {one.hook.name: float(one.hook.drain) for one in every}
    return sum(hooks_drain.values()) + (_drains(situation) if any(one.withdraws for one in every) else 0.0)


def _drains(situation: Situation) -> float:
    """For how many seconds at most its members let end what runs."""
    return max((float(m.label.drain or 0.0) for m in situation.members), default=0.0)


def _round_takes(one: Renewal) -> float:
    """For how many seconds at most the members of a round drain, stop and start."""
    return max((m.stop.drain or 0.0) + (m.stop.grace or 0.0) + m.probe.limit for m in one.members)


def summary(plan: Plan) -> str:
    """The plan for a run without --diff: in one line, and below it what a restart changes."""
    counts: dict[str, int] = {}
    for step in plan.steps:
        if step.member or step.do in ("withdraw", "announce"):
            counts[step.do] = counts.get(step.do, 0) + 1
    done = ", ".join(f"{do} {number}" for do, number in counts.items()) or (
        "write the record" if plan.changed else "nothing to change"
    )
    pending = "; a change is pending" if plan.pending else ""
    revision = f", revision {plan.revision}" if plan.revision else ""
    head = f"plan for {plan.group} ({plan.action}{revision}): {done}{pending}"
    return "\n".join([head, *(diff.changes(plan) if plan.action == "restart" else ())])
