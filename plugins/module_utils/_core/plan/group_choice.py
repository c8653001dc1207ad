# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The choice of a group's members: who stays, who leaves and why, who comes, and whether the spec waits for a restart."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field

from ..base.finding import Findings
from ..base.words import counted, names
from ..facts.observed import LiveMember
from ..facts.tombstone import Place
from ..spec.spec import ENGINE_ROLES, ROLES
from ..spec.workload import GROUP
from .scale_down import worst_first
from .situation import Choice, Coming, Request, Situation


@dataclass
class _Draft:
    """A choice while it is made: the fields are those of a Choice."""

    keep: list[LiveMember] = field(default_factory=list)
    leave: list[tuple[LiveMember, str]] = field(default_factory=list)
    replace: list[LiveMember] = field(default_factory=list)
    create: list[Coming] = field(default_factory=list)
    retire: list[LiveMember] = field(default_factory=list)
    desired: dict[str, int] = field(default_factory=dict)
    pending: bool = False

    def made(self, situation: Situation) -> Choice:
        return Choice(
            keep=tuple(self.keep),
            leave=tuple(self.leave),
            replace=tuple(self.replace),
            create=tuple(self.create),
            retire=tuple(self.retire),
            desired=self.desired,
            pending=self.pending,
            strays=tuple(s.member for s in situation.strays),
        )


def decide(request: Request, situation: Situation, findings: Findings) -> Choice:
    """Who of a group stays, leaves and comes."""
    choice = _Draft()
    if request.action == "heal":
        _heal(request, situation, choice, findings)
        return choice.made(situation)
    revision = request.template.revision
    alive = [m for m in situation.members if m.alive]
    choice.desired = _desired(request, situation, findings)
    choice.leave = [(s.member, f"it is a stray: {s.why}") for s in situation.strays]
    if request.action == "restart":
        choice.leave += [(m, "the whole group restarts") for m in situation.members]
        choice.create = [Coming(role, i, "restart") for role in ENGINE_ROLES for i in range(choice.desired[role])]
        choice.create.append(Coming("router", 0, "restart"))
        return choice.made(situation)
    choice.leave += [(m, "a run before this one began to drain it") for m in situation.members if m.draining]
    # What is made of the record is what runs: then nothing that is started waits for anything.
    choice.pending = request.kept is None and (
        any(m.revision != revision for m in alive)
        or (bool(situation.unknown) and situation.last.revision not in (None, revision))
    )
    if request.action == "evacuate":
        _refuse_evacuation(request, choice, findings)
        if not alive:
            # What is down is not formed by emptying a host: nothing of it is left there, and a deploy forms it.
            choice.leave += [
                (m, _emptied(m)) for m in situation.members if m.host in request.evacuated and not m.draining
            ]
            return choice.made(situation)
    for role in ENGINE_ROLES:
        _decide_role(role, request, situation, choice, findings)
    _decide_router(request, situation, choice, findings)
    _form_anew(situation, choice)
    _say_outside(request, choice, findings)
    return choice.made(situation)


def _form_anew(situation: Situation, choice: _Draft) -> None:
    """Of a group of which nothing runs, all that is down goes before anything starts, as in a restart: what somebody starts by hand, or
    on a host that drops out of this run, would be of the last formation, at addresses of the next."""
    if choice.keep or choice.retire or situation.unknown:
        return
    again = {m.id: (m.role, m.index) for m in choice.replace}
    choice.leave += [(m, "it is down, and the group forms anew") for m in choice.replace]
    choice.create += [Coming(role, index, "the group forms anew") for role, index in again.values()]
    choice.replace = []


def _say_outside(request: Request, choice: _Draft, findings: Findings) -> None:
    """A member keeps its place, also where its role's pattern does not name its host any more: placement restarts nothing."""
    for member in choice.keep:
        pattern = request.patterns.get(member.role)
        if pattern and member.host not in pattern:
            findings.warning(
                "outside-pattern",
                f"{member.id} runs on {member.host}, which roles.{member.role}.hosts does not name any more: it stays there.",
                "A restart forms the group on the hosts that are named; a scale down and up moves one member.",
                [member.role],
                member.host,
            )


def _desired(request: Request, situation: Situation, findings: Findings) -> dict[str, int]:
    """The count of each role: what scale asks for, else the inventory's, which a deploy lowers to only when told."""
    desired = {}
    last = situation.last.desired
    if request.action == "heal":
        return {role: last.get(role, len(situation.of_role(role))) for role in ENGINE_ROLES}
    for role in ENGINE_ROLES:
        inventory = request.workload.roles[role].replicas
        if request.action in ("scale", "evacuate"):
            desired[role] = request.counts.get(role, last.get(role, inventory))
        elif request.action == "restart" and request.kept is not None:
            desired[role] = request.kept.desired.get(role, inventory)
        elif request.allow_scale_down:
            desired[role] = inventory
        else:
            # What `scale` has set counts, not what happens to live: a crash is no permission to lower it. Who is left on a cordoned host
            # beside the one that came in its place makes no higher one.
            running = len([m for m in situation.of_role(role, alive=True) if not _is_cordoned(request, m)])
            formed = last.get(role, 0) if any(m.alive for m in situation.members) or situation.unknown else 0
            desired[role] = max(inventory, running, formed)
        if desired[role] != inventory:
            findings.warning(
                "count-differs-from-inventory",
                f"{role}: {counted(desired[role], 'replica')}, the inventory says {inventory}.",
                f"Write replicas: {desired[role]} in the inventory to keep them"
                + (
                    ", or let deploy lower it: -e pd_allow_scale_down=true."
                    if desired[role] > inventory
                    else "; the next deploy raises it again."
                ),
                [role],
            )
    return desired


def _decide_role(role: str, request: Request, situation: Situation, choice: _Draft, findings: Findings) -> None:
    want = choice.desired[role]
    alive, dead = situation.of_role(role, alive=True), situation.of_role(role, alive=False)
    emptied = [m for m in (*alive, *dead) if m.host in request.evacuated]
    if emptied:
        choice.retire += [m for m in emptied if m.alive]
        choice.leave += [(m, _emptied(m)) for m in emptied if not m.alive]
        alive, dead = ([m for m in some if m not in emptied] for some in (alive, dead))
    unknown = [place for place in situation.unknown if place.role == role]
    # Members that nobody can ask do not make a living one superfluous, nor does a host that is emptied.
    surplus = max(0, len(alive) - want) if request.action != "evacuate" else 0
    leaving = {m.id for m, _why in choice.leave}
    others = [m for r in ENGINE_ROLES if r != role for m in situation.of_role(r, alive=True)]
    peers = [m for m in others if m.id not in leaving]
    victims = worst_first(alive, peers, lambda m: _is_cordoned(request, m))[:surplus]
    choice.leave += [(m, f"{want} of {len(alive)} {role} members are wanted") for m in victims]
    choice.keep += [m for m in alive if m not in victims]
    missing = max(0, want - len(alive) - len(unknown))
    if not missing:
        choice.leave += [(m, "it is down and not wanted any more") for m in dead]
        return
    if choice.pending or situation.unknown:
        more = missing - _say_not_replaced(role, request, situation, choice, findings)
        if more > 0:
            _refuse_growth(role, more, request, choice, findings)
            choice.desired[role] = want - more
        return
    if request.waits is not None:
        more = missing - _replace_lost(role, missing, situation, choice, emptied)
        choice.leave += [(m, "it is down and not wanted any more") for m in dead[missing:]]
        if more > 0:
            _refuse_growth(role, more, request, choice, findings)
            choice.desired[role] = want - more
        return
    replaced = dead[:missing]
    choice.replace += replaced
    choice.leave += [(m, "it is down and not wanted any more") for m in dead[missing:]]
    taken = {m.index for m in situation.of_role(role)} | {place.index for place in unknown}
    free = (i for i in range(want + len(taken) + 1) if i not in taken)
    whys = [*map(_instead, emptied), *["wanted by the spec"] * missing]
    choice.create += [Coming(role, next(free), whys[number]) for number in range(missing - len(replaced))]


def _gone(role: str, situation: Situation, draining: bool = True) -> list[Place]:
    """Members of the record that are not there any more, where somebody has looked; with `draining` also those that are on their way."""
    seen = {m.id for m in situation.of_role(role) if not (draining and m.draining)} | {p.id for p in situation.unknown}
    return sorted((p for p in situation.last.members if p.role == role and p.id not in seen), key=lambda p: p.index)


def is_short(situation: Situation) -> bool:
    """Whether anything is down that the record says is there."""
    return any(_gone(role, situation, False) or situation.of_role(role, alive=False) for role in ROLES)


def _replace_lost(
    role: str,
    most: int,
    situation: Situation,
    choice: _Draft,
    emptied: t.Sequence[LiveMember] = (),
    draining: bool = True,
) -> int:
    """Have what was lost come again, `most` of it: what is down where it was, what is gone under its name, and what is on a host that is
    emptied under another one. How many come."""
    down = [m for m in situation.of_role(role, alive=False) if m not in emptied][:most]
    choice.replace += down
    taken = {m.index for m in situation.of_role(role)}
    free = (i for i in range(len(taken) + most + 1) if i not in taken)
    comes: list[tuple[int, str]] = [(place.index, "it is gone") for place in _gone(role, situation, draining)]
    comes += [(m.index, _instead(m)) for m in emptied]
    comes = comes[: most - len(down)]
    for place, why in comes:
        index = next(free) if place in taken else place
        taken.add(index)
        choice.create.append(Coming(role, index, why))
    return len(down) + len(comes)


def _say_not_replaced(role: str, request: Request, situation: Situation, choice: _Draft, findings: Findings) -> int:
    """Tell of what is lost and stays so, and why. How much that is."""
    reason = "the spec has changed" if choice.pending else "a part of the group is out of reach"
    reason += f", and what ran cannot be started again: {request.unkept}" if choice.pending and request.unkept else ""
    told = [f"{m.id} is down ({m.why or m.state})" for m in situation.of_role(role, alive=False)]
    told += [f"{place.id} is gone" for place in _gone(role, situation)]
    for what in told:
        findings.warning("member-not-replaced", f"{what} and is not replaced: {reason}.", "", [role])
    return len(told)


def _heal(request: Request, situation: Situation, choice: _Draft, findings: Findings) -> None:
    """What is down comes again, as many as there were, and nothing else changes. Strays go only where something comes: beside them nothing
    would be started."""
    choice.desired = _desired(request, situation, findings)
    for role in ROLES:
        alive = situation.of_role(role, alive=True)
        choice.keep += alive
        if situation.unknown:
            _say_not_replaced(role, request, situation, choice, findings)
            continue
        leaving = sum(m.draining for m in situation.of_role(role))
        want = choice.desired.get(role, 1)
        _replace_lost(role, max(0, want - len(alive) - leaving), situation, choice, draining=False)
    if choice.replace or choice.create:
        choice.leave = [(s.member, f"it is a stray: {s.why}") for s in situation.strays]


def _refuse_growth(role: str, more: int, request: Request, choice: _Draft, findings: Findings) -> None:
    """Who asks for the growth itself is refused; a deploy shows what is pending, and says what has to wait for it."""
    if not choice.pending and request.waits is None:
        findings.warning(
            "host-unreachable",
            f"{role}: {more} more are not started while a part of the group is out of reach.",
            "Bring the host back, or state that it is fenced, and deploy again.",
            [role],
        )
        return
    say = findings.error if request.action == "scale" else findings.warning
    say(
        "pending-no-growth",
        f"{role}: {more} more cannot be started while the group runs an older configuration: they would be built from the"
        " new one beside the old.",
        "Apply the change with inferops.pd.restart (it starts the new count), or undo the edit.",
        [role],
    )


def _decide_router(request: Request, situation: Situation, choice: _Draft, findings: Findings) -> None:
    every = situation.of_role("router")
    emptied = [m for m in every if m.host in request.evacuated]
    choice.retire += [m for m in emptied if m.alive]
    choice.leave += [(m, _emptied(m)) for m in emptied if not m.alive]
    routers = [m for m in every if m not in emptied]
    # The one on a cordoned host is the one whose place another has taken.
    alive = sorted((m for m in routers if m.alive), key=lambda m: _is_cordoned(request, m))
    choice.keep += alive[:1]
    choice.leave += [(m, "a group has one router") for m in alive[1:]]
    if alive or any(place.role == "router" for place in situation.unknown):
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
        index = next(i for i in range(len(every) + 1) if i not in {m.index for m in every})
        choice.create.append(Coming("router", index, next(map(_instead, emptied), "wanted by the spec")))


# -- hosts that are emptied ---------------------------------------------------------------------------------------------------------


def _refuse_evacuation(request: Request, choice: _Draft, findings: Findings) -> None:
    """Who comes elsewhere serves beside those that run, and so must be what they are. While the spec says another thing, it is made of the
    record (source.py); where the record does not tell what runs, nobody can come."""
    if choice.pending:
        findings.error(
            "evacuate-pending",
            f"{request.name} runs an older configuration than its spec, and what runs cannot be started again:"
            f" {request.unkept or 'its record does not keep it'}. Nothing of it on {names(request.evacuated)} is moved.",
            f"Apply the change first: ansible-playbook {GROUP.restart(request.name)} (it seats nobody on a cordoned host); or undo"
            " the edit.",
        )


def _is_cordoned(request: Request, member: LiveMember) -> bool:
    host = request.hosts.get(member.host)
    return host is not None and host.cordon is not None


def _emptied(member: LiveMember) -> str:
    return f"it is down, and {member.host} is evacuated"


def _instead(member: LiveMember) -> str:
    return f"in the place of {member.id}, whose host {member.host} is evacuated"
