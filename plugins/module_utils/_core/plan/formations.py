# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Formations: which one a plan is of, what of earlier ones may still run on hosts that are lost, and that nothing of two serves
together."""

from __future__ import annotations

import hashlib
import json
import typing as t
from dataclasses import dataclass, field, replace

from ..base.errors import PdError
from ..base.finding import Findings
from ..base.plain import Plain
from ..facts.observed import Host
from ..facts.record import REMEMBERED
from ..facts.tombstone import Tombstone
from .situation import Asked, Choice, Reality, Run, Situation, Template, Workload
from .value import Plan


def taken_over(situation: Situation) -> str:
    """The identity of a formation that an earlier version made. It follows from that version's record, so that two runs which each see half
    of its hosts take over one formation and not two."""
    noted = situation.noted
    places = sorted([p.id, p.host, p.url or "", p.revision] for p in noted.members) if noted else []
    about = json.dumps([noted.group if noted else "", situation.generation, places], separators=(",", ":"))
    text = hashlib.sha256(about.encode()).hexdigest()
    return "-".join([text[:8], text[8:12], text[12:16], text[16:20], text[20:32]])


@dataclass(frozen=True)
class Formation:
    """What the members of a plan are of. `made` says that this plan makes it; `graves` are the tombstones that stand after it, `raised`
    those that it ends, by host with why."""

    id: str | None = None
    generation: int = 0
    made: bool = False
    graves: tuple[Tombstone, ...] = ()
    raised: dict[str, str] = field(default_factory=dict)

    @property
    def router_lost(self) -> bool:
        """Whether a router of the group may live where nobody can ask it."""
        return any(grave.router for grave in self.graves)

    @property
    def members_lost(self) -> bool:
        """Whether a member of this very formation may live where nobody can ask it, stop it or start it anew."""
        return any(grave.formation == self.id and not grave.fenced for grave in self.graves)


def formation_of(
    asked: Asked[Workload, Template], situation: Situation, choice: Choice, formations: bool, findings: Findings
) -> Formation:
    """A restart makes a new formation, and so does a group of which nothing runs: what comes is not paired with anything that was. All else
    keeps the one that there is; a group of an earlier version gets one. Without `formations` there is only a number, for people."""
    action, reality = asked.action, asked.reality
    if not formations:
        made = action == "restart" or not situation.generation
        return Formation(None, situation.generation + (1 if made else 0), made)
    # Emptying a host of what is down there forms nothing.
    made = action == "restart" or not (choice.serving or situation.unknown or action == "evacuate")
    generation = situation.generation
    if made:
        # For people a group has one count, whatever it stands as.
        generation = max(generation, asked.beside.other.generation if asked.beside else 0) + 1
    known = None if made else situation.formation
    identity = known or (taken_over(situation) if not made and situation.noted else None) or reality.run.formation
    graves, raised = tombstones(situation, reality)
    if not made:
        # Of a group that is taken over in this very plan.
        graves = tuple(replace(g, formation=g.formation or identity) for g in graves)
    say_graves(asked.name, graves, reality.hosts, findings)
    say_blind(asked.name, situation, reality.gone, findings)
    return Formation(identity, generation, made, graves, raised)


def tombstones(situation: Situation, reality: Reality) -> tuple[tuple[Tombstone, ...], dict[str, str]]:
    """(those that stand after the plan, why each that ends does). One ends when its host has been seen: what is left on it stops in the
    same run. It does not end where the name stands for another machine by now."""
    hosts, lost, away, forget = reality.hosts, reality.lost, reality.away, reality.forget
    standing: dict[tuple[str, str | None], Tombstone] = {}
    raised: dict[str, str] = {}
    for grave in situation.tombstones:
        host = hosts.get(grave.host)
        if grave.host in forget:
            raised[grave.host] = "it is forgotten by hand"
        elif (
            host is None
            or grave.host in lost
            or grave.host in away
            or another_machine(grave, host)
            or (
                # What cannot be read there may be what is looked for.
                any(name == grave.host for name, _damage in situation.damaged)
            )
        ):
            standing[grave.host, grave.formation] = grave
        else:
            raised[grave.host] = "its host has been seen"
    for host_name in sorted({*lost, *away}):
        why = "lost" if host_name in lost else "out-of-service"
        # A host that is away may run what is none of ours: it is not switched off for it.
        fresh = _bury(situation, host_name, why, reality.fence if why == "lost" else "", reality.run)
        if fresh is None or host_name in forget:
            continue
        there = standing.get((host_name, fresh.formation))
        # What it said when it was made stays; that it is fenced by now is news.
        standing[host_name, fresh.formation] = replace(there, fenced=there.fenced or fresh.fenced) if there else fresh
    return tuple(standing[key] for key in sorted(standing, key=str)), raised


def another_machine(grave: Tombstone, host: Host) -> bool:
    return bool(grave.machine and host.machine.id and grave.machine != host.machine.id)


def _bury(situation: Situation, host: str, why: str, fence: str, run: Run) -> Tombstone | None:
    """A tombstone for what the record says of a host; None when it says nothing of it."""
    noted = situation.noted
    mine = [p for p in noted.members if p.host == host] if noted else []
    if noted is None or not mine:
        return None
    # A decode there is spoken to by nobody but its router; a router speaks to every member. Both are kept: who knows what fails over.
    addresses: dict[str, set[int]] = {}
    for place in noted.members:
        for where in place.names if place.role != "router" else ():
            addresses.setdefault(where, set()).update(place.ports)
    return Tombstone(
        host=host,
        machine=(noted.plain.get("machines") or {}).get(host),
        members=tuple(sorted(p.id for p in mine)),
        router=any(p.role == "router" for p in mine),
        formation=noted.formation,
        generation=noted.generation,
        addresses={name: tuple(sorted(ports)) for name, ports in addresses.items() if ports},
        when=round(run.now, 3),
        by=run.by,
        why=why,
        fenced=fence,
    )


def addresses_kept(graves: t.Iterable[Tombstone], formation: str | None) -> dict[str, dict[int, str]]:
    """Ports by host that nothing of `formation` gets: what may still run of an older one has them in its list of peers."""
    kept: dict[str, dict[int, str]] = {}
    for grave in graves:
        if grave.formation == formation and formation is not None:
            continue
        for host, ports in grave.addresses.items():
            kept.setdefault(host, {}).update(
                (port, f"what {grave.host} may still speak to (tombstone)") for port in ports
            )
    return kept


def to_record(formation: Formation, situation: Situation, machines: t.Mapping[str, str | None], run: Run) -> Plain:
    """What the record says of formations."""
    before = situation.last
    supersedes = list(before.supersedes)
    if situation.formation and situation.formation != formation.id:
        supersedes.append(situation.formation)
    supersedes += [s.member.formation for s in situation.strays if s.member.formation]
    after = [one for one in dict.fromkeys(supersedes) if one != formation.id][-REMEMBERED:]
    # Of a host that nobody can ask it stays what it was.
    known = before.machines
    machines = {**{place.host: known.get(place.host) for place in situation.unknown}, **machines}
    adopted = bool(situation.adopt) or before.adopted
    return {
        "formation": formation.id,
        "supersedes": after,
        "formed": round(run.now, 3) if formation.made or not situation.formation else before.formed,
        "adopted": adopted and not formation.made,
        "machines": {host: machine for host, machine in sorted(machines.items()) if machine},
        "tombstones": [grave.to_plain() for grave in formation.graves],
    }


# -- what is told ------------------------------------------------------------------------------------------------------------------


def say_graves(name: str, graves: t.Iterable[Tombstone], hosts: t.Mapping[str, Host], findings: Findings) -> None:
    for grave in graves:
        host = hosts.get(grave.host)
        if host is not None and another_machine(grave, host):
            findings.warning(
                "tombstone-other-machine",
                f"{grave.host} is another machine by now: the one that had {', '.join(grave.members)} of {name} was not seen again.",
                f"Is it gone for good? -e pd_forget_tombstone={grave.host} ends its tombstone.",
                [],
                grave.host,
            )
            continue
        on_trust = "" if grave.fenced else " Nothing made sure of it: this is taken on trust."
        findings.warning(
            "tombstone",
            f"{grave.told()}: its addresses go to nobody newer until it has been seen clean.{on_trust}",
            f"Bring {grave.host} back, and the next run clears it; or -e pd_forget_tombstone={grave.host}."
            + ("" if grave.fenced else " pd_fence_command makes sure that a lost host is off."),
            [],
            grave.host,
        )


def say_blind(name: str, situation: Situation, gone: t.Collection[str], findings: Findings) -> None:
    """Without a record nobody knows what lost hosts had, and so nothing of it can be kept from anybody."""
    if situation.noted is None and gone:
        findings.warning(
            "tombstone-blind",
            f"{', '.join(sorted(gone))}: gone, and nobody who answers has a record of {name}: what they may still run, and speak to, is not"
            " known, and nothing of it is kept from others. This is taken on trust.",
            "Be certain that they are off.",
        )


def say_strays(situation: Situation, word: str, findings: Findings) -> None:
    """What goes because it is none of the group is named: whoever stated its host lost may not know of it."""
    for stray in situation.strays:
        member = stray.member
        findings.warning(
            "stray",
            f"{member.id} on {member.host} is a stray, none of the {word}: {stray.why}. This run stops it.",
            "",
            [],
            member.host,
        )


# -- what must never be ------------------------------------------------------------------------------------------------------------


def assert_one(plan: Plan, choice: Choice, adopt: t.Collection[str]) -> None:
    """The plan refuses itself when what would serve together is not of one formation, or what comes is not of the revision of what stays.
    No rule lets such a plan come about: this is where it would show. Raises PdError."""
    formation = plan.formation
    others = [m.id for m in choice.serving if m.formation != formation and not (m.formation is None and m.id in adopt)]
    kept = {m.id: m.revision for m in choice.keep}
    fresh = [m for m in plan.members if m.id not in kept]
    told = sorted({m.revision for m in plan.engines} | {m.revision for m in choice.retire if m.role != "router"})
    astray = any(part.labels.get("formation") != formation for m in fresh for part in m.parts)
    if others or (fresh and len(told) > 1) or astray:
        what = (
            f"{', '.join(others)} of another formation" if others else f"members of the revisions {' and '.join(told)}"
        )
        raise PdError(
            f"The plan for group {plan.group} would let {what} serve beside the others: it is refused. Nothing was changed."
            f" Restart the group: ansible-playbook inferops.pd.restart -e pd_group={plan.group}; and report this, it is a defect."
        )
