# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The choice: who of a group stays, who leaves and why, who comes, and whether the spec waits for a restart."""

from __future__ import annotations

import typing as t

from ..base.finding import Findings
from ..spec.spec import ENGINE_ROLES
from .situation import EVERYWHERE, Choice, Reach, Request, Situation
from .victims import worst_first


def check_reach(
    action: str, situation: Situation, silent: t.Collection[str], findings: Findings, reach: Reach = EVERYWHERE
) -> None:
    """Unknown is not lost: with a part of the group out of reach nothing of it may be stopped or replaced, and nothing may be formed where
    nobody knows whether it is formed already."""
    _check_damaged(action, situation, findings)
    hold: dict[str, list[str]] = {host: [] for host in silent}
    damaged = {(host, d.member) for host, d in situation.damaged}
    for member in situation.unknown:
        if (member["host"], member["id"]) not in damaged:
            hold.setdefault(member["host"], []).append(member["id"])
    if not hold:
        return
    told, way_out = reach.of_hosts(hold), reach.ways_out(hold)
    fenced = "If it is fenced for good, say so: -e pd_lost_hosts=" + ",".join(sorted(hold))
    if action in ("restart", "remove"):
        refused = f"a {action} of a part of the group is refused, nothing was stopped."
        findings.error("host-unreachable", f"{told}: {refused}", f"{way_out} {fenced}")
    elif situation.noted is None:
        findings.error(
            "host-unreachable",
            f"{told}, and no other host has a record of the group: whether it is formed already, there, nobody knows. Nothing is formed.",
            f"{way_out} {fenced}; or pd_out_of_service: true in the inventory, for one that is away for a while.",
        )
    else:
        kept = "nothing of the group is replaced or restarted."
        findings.warning("host-unreachable", f"{told}: {kept}", f"{way_out} {fenced}")


def check_lost(lost: t.Iterable[str], hosts: t.Collection[str], findings: Findings) -> None:
    """A host that answers is not lost: what runs there is seen, and is stopped as anything else."""
    answering = sorted(set(lost) & set(hosts))
    if answering:
        findings.error(
            "lost-host-answers",
            f"pd_lost_hosts names {', '.join(answering)}, and {'it answers' if len(answering) == 1 else 'they answer'}: not lost.",
            "Leave it out of pd_lost_hosts. To keep a host that answers from being used: pd_out_of_service: true in the inventory.",
        )


def _check_damaged(action: str, situation: Situation, findings: Findings) -> None:
    """A file that cannot be read harms the member or the group that it is of, and is named. Beside a member of which nothing is known the
    others are neither stopped nor formed anew."""
    for host, damage in situation.damaged:
        whole = damage.member is None
        if whole and situation.noted is not None:
            findings.warning(
                "state-damaged",
                f"{host}: {damage.path} is damaged ({damage.why}). The record of another host holds, and is written there again.",
                "",
                [],
                host,
            )
            continue
        say = findings.error if whole or action in ("restart", "remove") else findings.warning
        say(
            "state-damaged",
            f"{host}: {damage.path} is damaged ({damage.why}): "
            + ("what there is of the group is not known." if whole else f"whether {damage.member} runs is not known."),
            "Restore the file, or stop what runs and delete it by hand; then run again.",
            [],
            host,
        )


def decide(request: Request, situation: Situation, findings: Findings) -> Choice:
    choice = Choice()
    revision = request.template.revision
    alive = [m for m in situation.members if m.alive]
    choice.desired = _desired(request, situation, findings)
    choice.strays = [s.member for s in situation.strays]
    choice.leave = [(s.member, f"it is a stray: {s.why}") for s in situation.strays]
    if request.action == "restart":
        choice.leave += [(m, "the whole group restarts") for m in situation.members]
        choice.create = [(role, i, "restart") for role in ENGINE_ROLES for i in range(choice.desired[role])]
        choice.create.append(("router", 0, "restart"))
        return choice
    choice.leave += [(m, "a run before this one began to drain it") for m in situation.members if m.draining]
    choice.pending = any(m.revision != revision for m in alive) or (
        bool(situation.unknown) and situation.record.get("revision") not in (None, revision)
    )
    for role in ENGINE_ROLES:
        _decide_role(role, request, situation, choice, findings)
    _refresh(request, choice)
    _decide_router(situation, choice, findings)
    _form_anew(situation, choice)
    _say_outside(request, choice, findings)
    return choice


def _form_anew(situation: Situation, choice: Choice) -> None:
    """Of a group of which nothing runs, all that is down goes before anything starts, as in a restart: what somebody starts by hand, or
    on a host that drops out of this run, would be of the last formation, at addresses of the next."""
    if choice.keep or situation.unknown:
        return
    again = {m.id: (m.role, m.index) for m in choice.replace}
    choice.leave += [(m, "it is down, and the group forms anew") for m in choice.replace]
    choice.create += [(role, index, "the group forms anew") for role, index in again.values()]
    choice.replace, choice.refresh = [], {}


def _say_outside(request: Request, choice: Choice, findings: Findings) -> None:
    """A member keeps its place, also where its role's pattern does not name its host any more: placement restarts nothing."""
    for member in choice.keep:
        names = request.patterns.get(member.role)
        if names and member.host not in names:
            findings.warning(
                "outside-pattern",
                f"{member.id} runs on {member.host}, which roles.{member.role}.hosts does not name any more: it stays there.",
                "A restart forms the group on the hosts that are named; a scale down and up moves one member.",
                [member.role],
                member.host,
            )


def _refresh(request: Request, choice: Choice) -> None:
    """A prefill that comes back leaves stale state with its peers in some engines: the mode says who is started anew with it. A router with
    its peers on its command line is replaced by router_step.py."""
    back = [m.id for m in choice.replace if m.role == "prefill"]
    if not back or "decode" not in request.template.mode.refresh_with_prefill:
        return
    stale = [m for m in choice.keep if m.role == "decode"]
    choice.refresh = {m.id: f"{', '.join(back)} comes back, and decode would keep what it knew of it" for m in stale}
    choice.replace += stale
    choice.keep = [m for m in choice.keep if m not in stale]


def _desired(request: Request, situation: Situation, findings: Findings) -> dict[str, int]:
    """The count of each role: what scale asks for, else the inventory's, which a deploy lowers to only when told."""
    desired = {}
    last = situation.record.get("desired") or {}
    for role in ENGINE_ROLES:
        inventory = request.group.roles[role].replicas
        if request.action == "scale":
            desired[role] = request.counts.get(role, last.get(role, inventory))
        elif request.allow_scale_down:
            desired[role] = inventory
        else:
            # What `scale` has set counts, not what happens to live: a crash is no permission to lower it.
            running = len(situation.of_role(role, alive=True))
            formed = last.get(role, 0) if any(m.alive for m in situation.members) or situation.unknown else 0
            desired[role] = max(inventory, running, formed)
        if desired[role] != inventory:
            findings.warning(
                "count-differs-from-inventory",
                f"{role}: {desired[role]} replicas, the inventory says {inventory}.",
                f"Write replicas: {desired[role]} in the inventory to keep them"
                + (
                    ", or let deploy lower it: -e pd_allow_scale_down=true."
                    if desired[role] > inventory
                    else "; the next deploy raises it again."
                ),
                [role],
            )
    return desired


def _decide_role(role: str, request: Request, situation: Situation, choice: Choice, findings: Findings) -> None:
    want = choice.desired[role]
    alive, dead = situation.of_role(role, alive=True), situation.of_role(role, alive=False)
    unknown = [m for m in situation.unknown if m["role"] == role]
    # Members that nobody can ask do not make a living one superfluous.
    surplus = max(0, len(alive) - want)
    leaving = {m.id for m, _why in choice.leave}
    others = [m for r in ENGINE_ROLES if r != role for m in situation.of_role(r, alive=True)]
    victims = worst_first(alive, [m for m in others if m.id not in leaving])[:surplus]
    choice.leave += [(m, f"{want} of {len(alive)} {role} members are wanted") for m in victims]
    choice.keep += [m for m in alive if m not in victims]
    missing = max(0, want - len(alive) - len(unknown))
    if not missing:
        choice.leave += [(m, "it is down and not wanted any more") for m in dead]
        return
    if choice.pending or situation.unknown:
        reason = "the spec has changed" if choice.pending else "a part of the group is out of reach"
        seen = {m.id for m in (*alive, *dead)} | {m["id"] for m in unknown}
        gone = sorted(m["id"] for m in situation.record.get("members", ()) if m["role"] == role and m["id"] not in seen)
        told = [f"{m.id} is down ({m.why or m.state})" for m in dead] + [f"{name} is gone" for name in gone]
        for what in told:
            findings.warning("member-not-replaced", f"{what} and is not replaced: {reason}.", "", [role])
        more = missing - len(told)
        if more > 0:
            _refuse_growth(role, more, request.action, choice, findings)
            choice.desired[role] = want - more
        return
    replaced = dead[:missing]
    choice.replace += replaced
    choice.leave += [(m, "it is down and not wanted any more") for m in dead[missing:]]
    taken = {m.index for m in situation.of_role(role)} | {m["index"] for m in unknown}
    free = (i for i in range(want + len(taken) + 1) if i not in taken)
    choice.create += [(role, next(free), "wanted by the spec") for dummy in range(missing - len(replaced))]


def _refuse_growth(role: str, more: int, action: str, choice: Choice, findings: Findings) -> None:
    """Who asks for the growth itself is refused; a deploy shows what is pending, and says what has to wait for it."""
    if not choice.pending:
        findings.warning(
            "host-unreachable",
            f"{role}: {more} more are not started while a part of the group is out of reach.",
            "Bring the host back, or state that it is fenced, and deploy again.",
            [role],
        )
        return
    say = findings.error if action == "scale" else findings.warning
    say(
        "pending-no-growth",
        f"{role}: {more} more cannot be started while the group runs an older configuration: they would be built from the"
        " new one beside the old.",
        "Apply the change with inferops.pd.restart (it starts the new count), or undo the edit.",
        [role],
    )


def _decide_router(situation: Situation, choice: Choice, findings: Findings) -> None:
    routers = situation.of_role("router")
    alive = [m for m in routers if m.alive]
    choice.keep += alive[:1]
    choice.leave += [(m, "a group has one router") for m in alive[1:]]
    if alive or any(m["role"] == "router" for m in situation.unknown):
        choice.leave += [(m, "it is down and another runs") for m in routers if not m.alive]
    elif choice.pending:
        for member in routers:
            why = member.why or member.state
            findings.warning(
                "member-not-replaced",
                f"{member.id} is down ({why}) and is not replaced: the spec has changed.",
                "",
                ["router"],
            )
    elif routers:
        choice.replace.append(routers[0])
    else:
        choice.create.append(("router", 0, "wanted by the spec"))
