# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A group's own steps of a plan: prefill and decode members of one formation, a router, and a proof."""

from __future__ import annotations

from dataclasses import replace

from ..base.finding import Findings
from ..base.plain import Plain
from ..facts.record import Record
from ..facts.starts import Starts, plain
from ..hooks.hook import Hooked
from ..rules import checks_cache, checks_hardware, resources
from ..rules.stands_for import Placed
from ..spec.spec import Group
from ..spec.workload import GROUP
from ..template.template import GroupTemplate
from ..work.member import Member
from ..work.share import Upstream
from . import diff, drift, formations, hooks, record, renewal, retirement
from .drift import Moved
from .group_choice import decide
from .peer_snapshot import snapshot
from .placement import Seats
from .preconditions import check_hosts, check_pasted
from .rendering import render_members
from .router_step import router_step
from .seating import seat_members
from .situation import Choice, Request, Situation
from .source import resolve
from .value import Endpoint, Plan, Proof, Renewal, Retirement, RouterStep
from .way import Draft, Way

GroupDraft = Draft[Group, GroupTemplate]


class Groups(Way[Group, GroupTemplate]):
    """The kind of workload that a group is."""

    kind = GROUP

    def source(self, asked: Request, situation: Situation, findings: Findings) -> Request:
        return resolve(asked, situation, findings)

    def choose(self, draft: GroupDraft) -> Choice:
        return decide(draft.asked, draft.situation, draft.findings)

    def seat(self, draft: GroupDraft) -> tuple[Choice, Seats]:
        return seat_members(draft.asked, draft.situation, draft.choice, draft.formation, draft.findings)

    def drift(self, draft: GroupDraft) -> tuple[Choice, Seats, tuple[Moved, ...]]:
        choice = draft.choice
        stale, waits = renewal.stale(draft.asked, draft.situation, choice, draft.seats, _starts(draft))
        choice = retirement.at_once(choice, stale)
        left = {m.id for m in choice.keep}
        choice = replace(choice, refresh={name: why for name, why in stale.items() if name in left}, waits=waits)
        choice, seats, moved = drift.leave_out(draft.asked, choice, draft.seats, draft.findings)
        choice, seats = renewal.at_once(draft.asked, choice, seats)
        return choice, seats, moved

    def check_hosts(self, draft: GroupDraft) -> None:
        check_hosts(draft.asked, draft.seats, {m.host for m in draft.choice.serving}, draft.findings)
        drift.check_return(draft.asked, draft.seats, draft.findings)

    def render(self, draft: GroupDraft) -> tuple[Member, ...]:
        asked, findings = draft.asked, draft.findings
        members = render_members(asked, draft.choice, draft.seats, draft.formation, draft.situation.last, findings)
        if renewal.wanted(asked):
            kept, counted = {m.id for m in draft.choice.keep}, _starts(draft)
            members = tuple(
                renewal.with_starts(m, counted) if m.role == "decode" and m.id not in kept else m for m in members
            )
        check_pasted(asked, [m for m in members if m.revision == asked.template.revision], findings)
        checks_hardware.check_members(members, asked.hosts, asked.template.engines, findings)
        checks_cache.check_members(members, asked.template, findings)
        come = {m.id for m in members} - {m.id for m in draft.choice.keep}
        placed = Placed(asked.workload, asked.template, members, come, asked.hosts, asked.others)
        resources.check_members(placed, findings)
        return members

    def router(self, draft: GroupDraft) -> RouterStep:
        step = router_step(draft.asked, draft.situation, draft.choice, draft.members, draft.findings)
        fresh = step.step == "replace" or not any(m.role == "router" for m in draft.choice.keep)
        if step.member is None or not fresh:
            return step
        peers = snapshot(step.peers, step.starts)
        noted = step.member.with_parts(lambda part: replace(part, labels={**part.labels, "peers": peers}))
        return replace(step, member=noted)

    def renew(self, draft: GroupDraft) -> tuple[Renewal, ...]:
        renewal.say_waits(draft.choice, draft.findings)
        if not draft.choice.refresh:
            return ()
        renewal.say(draft.asked, draft.choice, draft.router, draft.findings)
        return renewal.rounds(draft.choice, draft.members, draft.router, _starts(draft))

    def hooks(self, draft: GroupDraft) -> tuple[Hooked, ...]:
        asked, router, endpoint = draft.asked, draft.router, draft.asked.workload.endpoint
        moves = any(m.role == "router" for m, _why in draft.choice.leave)
        given = hooks.Given(
            asked.workload.name,
            endpoint.hooks,
            (router.member.url if router.member else None) or "",
            router.model,
            endpoint.weight,
            stops=asked.action == "restart" or moves,
        )
        return hooks.hooked(asked.wired, given, _told(draft), draft.findings)

    def fields(self, draft: GroupDraft) -> Plain:
        asked, choice, router = draft.asked, draft.choice, draft.router
        group, template, noted = asked.workload, asked.template, draft.situation.last
        told = {
            "mode": template.mode.name,
            "runtime": group.runtime,
            "pending": asked.action != "heal" and (choice.pending or asked.waits is not None or bool(draft.moved)),
            "moved": tuple(one.line() for one in draft.moved),
            "desired": choice.desired,
            "readiness": group.readiness,
            "endpoint": Endpoint(
                group.endpoint.external_url or (router.member.url if router.member else None), router.model
            ),
            "proof": _proof(template),
            "kv_cache": template.cache_block,
            "upstream": _upstream(draft),
        }
        if choice.pending:
            # Nothing comes, and what goes, waits or is proved is as it was started.
            told |= {"mode": noted.mode or told["mode"], "runtime": noted.runtime or told["runtime"]}
            told |= {"proof": Proof.from_plain(noted.proof)} if noted.proof else {}
        return told

    def record(self, draft: GroupDraft, plan: Plan) -> Plain:
        asked, choice, situation = draft.asked, draft.choice, draft.situation
        formations.assert_one(plan, choice, {m.id for m in situation.adopt})
        machines = {host: asked.hosts[host].machine.id for member in plan.members for host in member.hosts}
        identity = formations.to_record(draft.formation, situation, machines, asked.reality.run)
        left = {(m.host, m.id) for m in (*(m for m, _why in choice.leave), *choice.retire)}
        still_there = {(m.host, m.id) for m in situation.members} - left
        really = drift.identities(situation.members)
        made = record.of_group(plan, asked, situation.last, draft.formation.made, really, identity, still_there)
        known = hooks.to_record(draft.hooks, _told(draft), asked.wired.skip)
        made = {**made, "endpoint": {**made["endpoint"], "hooks": known}} if known else made
        counted, emptied = _starts(draft), retirement.emptied(asked, made, situation.last)
        starts = {"starts": plain(counted)} if counted or renewal.wanted(asked) else {}
        return {**made, **starts, **({"emptied": emptied} if emptied else {})}

    def meanwhile(self, draft: GroupDraft, plan: Plan) -> Plain | None:
        return retirement.meanwhile(plan.record, draft.choice, draft.situation.last) if plan.retire else None

    def retire(self, draft: GroupDraft) -> tuple[Retirement, ...]:
        retirement.say(draft.asked.workload, draft.choice, draft.router, draft.findings)
        return retirement.rounds(draft.choice, draft.router)

    def say(self, draft: GroupDraft, plan: Plan) -> Plan:
        asked, noted = draft.asked.waits or draft.asked, draft.situation.last
        if not draft.choice.pending and draft.asked.waits is None:
            return plan
        lines = diff.of_templates(noted.templates, asked.template.masked())
        recipe_only = record.same_spec(noted, asked.workload)
        draft.findings.warning(
            "pending-configuration",
            "the spec differs from what the members run"
            + (" (the spec is the same; the recipe has changed with the collection)" if recipe_only else "")
            + ": nothing is restarted. "
            + "; ".join(line.strip() for line in lines[:6])
            + (f"; and {len(lines) - 6} more lines" if len(lines) > 6 else "")
            + ".",
            f"Apply it to the whole group: ansible-playbook {self.kind.restart(plan.group)}. Undo the edit to clear it.",
        )
        return plan


def _told(draft: GroupDraft) -> Record:
    """The record that says what hooks know of the group: with what they were told of its other stand, where there is one."""
    last, beside = draft.situation.last, draft.asked.beside
    if beside is None:
        return _unsure(last) if _may_stand_twice(draft) else last
    known = {**last.endpoint.hooks, **beside.other.endpoint.hooks}
    return replace(last, endpoint=replace(last.endpoint, hooks=known))


def _may_stand_twice(draft: GroupDraft) -> bool:
    """Whether a formation that a rollout was about to form beside this one may have its clients, on hosts that nobody can ask."""
    reality = draft.asked.reality
    return draft.situation.last.rollout.get("state") == "changing" and bool(reality.silent or reality.gone)


def _unsure(last: Record) -> Record:
    return replace(last, endpoint=replace(last.endpoint, registered=False))


def _starts(draft: GroupDraft) -> Starts:
    return renewal.starts(draft.asked, draft.situation, draft.choice, draft.seats, draft.formation)


def _upstream(draft: GroupDraft) -> tuple[Upstream, ...]:
    """The prefills that may still hand requests to a decode which leaves: their running requests are waited for, too. Beside one that
    retires those that come serve already."""
    choice, engine = draft.choice, draft.asked.template.engines.get("prefill")
    going = [*(m for m, _why in choice.leave), *choice.retire]
    if engine is None or not (choice.refresh or any(m.role == "decode" for m in going)):
        return ()
    found = {m.id: str(m.label.url) for m in choice.serving if m.role == "prefill" and m.ready and m.label.url}
    if choice.retire:
        kept = {m.id for m in choice.keep}
        found |= {m.id: str(m.url) for m in draft.members if m.role == "prefill" and m.id not in kept and m.url}
    told = (engine.metrics_path, tuple(engine.busy_metrics), tuple(engine.done_metrics))
    return tuple(Upstream(name, url, *told) for name, url in found.items())


def _proof(template: GroupTemplate) -> Proof:
    prefill, decode = template.roles["prefill"], template.roles["decode"]
    exact = prefill.sizes.tensor == decode.sizes.tensor and any("float32" in a or a == "float" for a in prefill.argv)
    return Proof(template.mode.handoff, template.mode.counters, exact)
