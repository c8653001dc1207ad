# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The choice of a cache service's instances: one a host, or one for all.

They need nothing of each other: one that runs is never restarted by a deploy, and a changed spec is pending until somebody asks for it. One
that is down is started on the current spec, since nothing that it held is left."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..base.finding import Findings
from ..facts.observed import LiveMember
from ..spec.cache_service import ROLE
from .situation import Choice, Coming, ServiceRequest, Situation


@dataclass
class _Draft:
    """A choice while it is made: the fields are those of a Choice."""

    keep: list[LiveMember] = field(default_factory=list)
    leave: list[tuple[LiveMember, str]] = field(default_factory=list)
    replace: list[LiveMember] = field(default_factory=list)
    whys: dict[str, str] = field(default_factory=dict)
    create: list[Coming] = field(default_factory=list)
    outdated: list[str] = field(default_factory=list)

    def replaces(self, member: LiveMember, why: str) -> None:
        self.replace.append(member)
        self.whys[member.id] = why


def choose(request: ServiceRequest, situation: Situation, findings: Findings) -> Choice:
    """Who of a service stays, leaves and comes."""
    choice = _Draft()
    choice.leave += [(stray.member, stray.why) for stray in situation.strays]
    if request.workload.scope == "host":
        _decide_each(request, situation, choice, findings)
    else:
        _decide_one(request, situation, choice, findings)
    return Choice(
        keep=tuple(choice.keep),
        leave=tuple(choice.leave),
        replace=tuple(choice.replace),
        create=tuple(choice.create),
        whys=choice.whys,
        pending=bool(choice.outdated),
        strays=tuple(s.member for s in situation.strays),
        outdated=tuple(choice.outdated),
    )


def _judge(request: ServiceRequest, member: LiveMember, choice: _Draft) -> None:
    """An instance that is at its place: kept, restarted because that was asked for, or replaced because it is down."""
    changed = member.revision != request.template.revision
    if request.action == "restart":
        choice.leave.append((member, "the service restarts"))
        choice.create.append(Coming(ROLE, member.index, "the service restarts", member.host))
    elif not member.alive:
        choice.replace.append(member)
    elif changed and not member.ready and (member.state == "restarting" or member.now.restarts):
        # It ends again and again, and somebody has mended its spec: there is nothing to keep.
        choice.replaces(member, f"it does not come up, and its spec has changed: {member.why}")
    else:
        choice.keep.append(member)
        if changed:
            choice.outdated.append(f"{member.id} runs another spec")


def _decide_each(request: ServiceRequest, situation: Situation, choice: _Draft, findings: Findings) -> None:
    """Scope host: one instance on every host of the pattern that answers."""
    wanted = [name for name in request.patterns[ROLE] if name in request.hosts and name not in request.reality.silent]
    placed = set()
    for member in sorted(situation.members, key=lambda m: m.index):
        if member.host in request.evacuated or not (member.alive or _takes(request, member.host)):
            choice.leave.append((member, _why(request, member)))
            continue
        if member.host not in wanted or member.host in placed:
            choice.leave.append((member, f"{member.host} is not one of the service's hosts any more"))
            continue
        placed.add(member.host)
        _judge(request, member, choice)
    used = {m.index for m in situation.members} | {place.index for place in situation.unknown}
    free = (n for n in range(len(used) + len(wanted) + 1) if n not in used)
    for name in wanted if request.action != "evacuate" else ():
        if name not in placed and _takes(request, name):
            choice.create.append(Coming(ROLE, next(free), "the host has no instance of the service", name))
    for name in request.patterns[ROLE]:
        if name not in wanted and name not in request.reality.gone:
            findings.warning(
                "host-unreachable",
                f"{name} does not answer: whether its instance of {request.workload.name} runs is unknown.",
                "Bring it back and run again. The other hosts have instances of their own.",
                [],
                name,
            )


def _decide_one(request: ServiceRequest, situation: Situation, choice: _Draft, findings: Findings) -> None:
    """Scope group: exactly one, since a second one would split the store. The one that runs keeps its place, also out of the pattern."""
    if situation.unknown and not any(m.alive for m in situation.members):
        name = situation.unknown[0].host
        findings.error(
            "host-unreachable",
            f"{name} does not answer, and the one instance of {request.workload.name} was started there: it may run.",
            f"Bring it back, or state that it is fenced: -e pd_lost_hosts={name}",
            [],
            name,
        )
        return
    order = {name: number for number, name in enumerate(request.patterns[ROLE])}
    members = sorted(situation.members, key=lambda m: (not m.alive, order.get(m.host, len(order)), m.index))
    for member in members[1:]:
        choice.leave.append((member, "the service has exactly one instance"))
    first = members[0] if members else None
    if first is not None and first.host in request.evacuated and first.alive and _refuse_move(request, first, findings):
        choice.keep.append(first)
        return
    if first is not None and (first.host in request.evacuated or not (first.alive or _takes(request, first.host))):
        choice.leave.append((first, _why(request, first)))
        first = None
    if first is not None and first.host not in order and request.patterns[ROLE]:
        if first.alive and request.action != "restart":
            choice.keep.append(first)
            choice.outdated.append(f"it runs on {first.host}, which is not one of the service's hosts any more")
            return
        choice.leave.append((first, f"{first.host} is not one of the service's hosts any more"))
        first = None
    if first is not None:
        _judge(request, first, choice)
        return
    there = [n for n in request.patterns[ROLE] if n in request.hosts and n not in request.reality.silent]
    place = next((name for name in there if _takes(request, name)), None)
    if place is not None:
        choice.create.append(Coming(ROLE, 0, "the service has no instance", place))
    elif there:
        told = "; ".join(f"{n}: {cordon.told()}" for n in there for cordon in [request.hosts[n].cordon] if cordon)
        findings.error(
            "does-not-fit",
            f"the one instance of {request.workload.name} has no host that it could be on: {told}.",
            f"Add a host to pd_caches.{request.workload.name}.hosts, or give one of these back:"
            f" ansible-playbook inferops.pd.evacuate -e pd_host={there[0]} -e pd_return=true",
        )
    elif request.patterns[ROLE]:
        findings.error(
            "host-unreachable",
            f"none of the hosts of {request.workload.name} answers: {', '.join(request.patterns[ROLE])}.",
            "Make one answer: ansible -m ping HOST",
        )


# -- cordoned hosts ------------------------------------------------------------------------------------------------------------------


def _takes(request: ServiceRequest, host: str) -> bool:
    """Whether an instance may come to a host: one that does not answer is judged elsewhere."""
    return host not in request.hosts or request.hosts[host].cordon is None


def _why(request: ServiceRequest, member: LiveMember) -> str:
    """Why an instance leaves a host where nobody comes any more."""
    if member.host in request.evacuated:
        return f"{member.host} is evacuated"
    cordon = request.hosts[member.host].cordon
    return f"it is down, and {member.host} is {cordon.told() if cordon else 'cordoned'}"


def _refuse_move(request: ServiceRequest, member: LiveMember, findings: Findings) -> bool:
    """Whether the one instance of a service must stay where it is: those that use it know it by its address."""
    users = [n for n in request.reality.users if request.hosts.runs(n)]
    if not users:
        return False
    name = request.workload.name
    findings.error(
        "evacuate-cache",
        f"the one instance of cache service {name} runs on {member.host}, and members of {', '.join(users)} know it by its address:"
        " it is not moved.",
        f"Leave {member.host} out of pd_caches.{name}.hosts, move it with ansible-playbook inferops.pd.caches -e pd_cache={name}"
        f" -e pd_restart_caches=true, and restart {', '.join(users)}; then evacuate again.",
        [],
        member.host,
    )
    return True
