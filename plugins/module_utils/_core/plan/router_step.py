# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the router does about its peers, and why."""

from __future__ import annotations

import typing as t
from dataclasses import replace

from ..base.finding import Findings
from ..facts.observed import LiveMember
from ..spec.spec import ENGINE_ROLES
from ..work.member import Member, Part
from ..work.share import Share
from . import peer_snapshot
from .peer_snapshot import Change, compare, forgot_peers, registered_urls, started
from .rendering import peers_of
from .situation import Choice, Request, Situation
from .value import Peer, PeerArgv, Plan, RouterStep, Start


def router_step(
    request: Request, situation: Situation, choice: Choice, members: t.Sequence[Member], findings: Findings
) -> RouterStep:
    """What the router does about its peers."""
    template = request.template
    router = next((m for m in members if m.role == "router"), None)
    peers = peers_of(members)
    retiring = {str(m.label.url) for m in choice.retire if m.role in ENGINE_ROLES and m.label.url}
    kept = next((m for m in choice.keep if m.role == "router"), None)
    policy, dialect = template.policy, template.recipe.dialect if template.recipe else None
    if choice.pending and kept is not None:
        # The router that runs is asked in its own way, whatever the spec says by now.
        policy, dialect = kept.label.policy or policy, kept.label.dialect or dialect
    base = RouterStep(
        member=router,
        peers=peers,
        policy=policy,
        dialect=dialect,
        gives_up=template.membership.gives_up if template.membership else "",
        # Members on hosts that do not answer now may serve, and stay registered; those that retire serve until others do.
        spare=tuple(sorted(situation.unknown_urls | (retiring if kept is not None else set()))),
        model=served_name(request, situation, choice),
        starts={m.id: started(m.now) for m in choice.keep if m.role in ENGINE_ROLES},
        read=kept is None or registered_urls(kept) is not None,
    )
    if router is None:
        return replace(base, why="the group has no router after this")
    if policy == "manual":
        return _manual(base, request, choice, findings)
    if policy == "dynamic":
        for mark in forgot_peers(situation) if kept is not None else ():
            findings.warning("router-forgot-peers", f"{mark['why']}.", "", ["router"])
        return _dynamic(base, kept, situation, choice)
    tail = () if choice.pending and kept is not None else _peer_argv(request, router, peers)
    step = _restart(replace(base, peer_argv=tail), kept, situation, choice, findings)
    _say_outage(request, kept, choice, step, findings)
    return step


def served_name(request: Request, situation: Situation, choice: Choice) -> str:
    """The name that the members serve: while a change is pending, the one that they were started with."""
    noted = situation.last.endpoint.model if choice.pending else None
    return str(noted or request.workload.served_model_name)


def _leaving(request: Request, choice: Choice) -> list[str]:
    """Engines that run and go while the others stay."""
    if request.action == "restart":
        return []
    strays = {id(m) for m in choice.strays}
    leaving = [m for m, _why in choice.leave if m.alive and id(m) not in strays]
    return [m.id for m in (*leaving, *choice.retire) if m.role in ENGINE_ROLES]


def _manual(base: RouterStep, request: Request, choice: Choice, findings: Findings) -> RouterStep:
    """What the operator has to do: `first` are the peers to apply before this run, when members go that the router still has."""
    who = "the router runs a command of your own" if request.template.membership is None else "the membership is manual"
    why = f"peers are the operator's to set: {who}"
    leaving, kept = _leaving(request, choice), {m.id for m in choice.keep}
    if not (choice.create or choice.replace or choice.leave or choice.retire):
        return replace(base, why=why)
    first = tuple(p for p in base.peers if p.member in kept) if leaving else None
    if first is not None:
        findings.warning(
            "router-peers-by-hand",
            f"{', '.join(leaving)} will be removed, and {who}: it goes on sending requests there unless you take them out first.",
            f"Before you run this, make the router's peers: {peer_list(first)}.",
            ["router"],
        )
    return replace(base, step="operator", why=why, first=first)


def peer_list(peers: t.Sequence[Peer]) -> str:
    """The exact peer list, as an operator applies it. Ports that a router may have to be told are named."""
    texts = []
    for p in peers:
        bands = "".join(f", {name} {band['base']}" for name, band in p.ports.items())
        texts.append(f"{p.role} {p.url} ({p.member}{bands})")
    return "; ".join(texts) or "none"


def _say_outage(
    request: Request, kept: LiveMember | None, choice: Choice, router: RouterStep, findings: Findings
) -> None:
    leaving = _leaving(request, choice)
    if kept is None or not leaving:
        return
    if router.step == "replace":
        findings.warning(
            "router-brief-outage",
            f"{', '.join(leaving)} will be removed, and {kept.id} has its peers on its command line: it is replaced first. For about a"
            " second nothing is served, and requests that run may fail.",
            "Do it when that can be borne, or choose roles.router.membership: dynamic (applied by a restart).",
            ["router"],
        )
        return
    findings.warning(
        "router-brief-outage",
        f"{', '.join(leaving)} will be removed, and stay on the command line of {kept.id}: it is not replaced ({router.why}).",
        "Requests that it still sends there fail. Remove members when the router can be replaced.",
        ["router"],
    )


def _dynamic(base: RouterStep, kept: LiveMember | None, situation: Situation, choice: Choice) -> RouterStep:
    registered = registered_urls(kept) if kept is not None else set()
    if kept is not None:
        # One that is there already stays; and where that is not known, it is neither told of it nor rid of it.
        outside = {p.member for p in base.peers if p.member in choice.waits and p.url not in (registered or ())}
        spare = {*base.spare, *(str(p.url) for p in base.peers if p.member in outside)}
        peers = tuple(p for p in base.peers if p.member not in outside)
        base = replace(base, peers=peers, spare=tuple(sorted(spare)))
    wanted = {p.url: p for p in base.peers}
    have: set[str | None] = set(registered or ())
    # Who comes back where the router still has one that is gone gets no request before it serves; nor does one for which others are
    # renewed, before they are.
    late = {name for causes in choice.refresh.values() for name in causes}
    stay = {m.id for m in choice.keep} - late
    again = {str(p.url) for p in base.peers if p.url in have and p.member not in stay}
    if registered is None:
        # What it may have of those that leave or move is taken out before they stop, whether it can be read now or not.
        going = [*(m for m, _why in choice.leave), *choice.replace]
        have |= {m.label.url for m in going if m.role in ENGINE_ROLES and m.label.url}
        have |= {
            str(p.url) for p in (situation.noted.members if situation.noted else ()) if p.role in ENGINE_ROLES and p.url
        }
    add = tuple(p for url, p in wanted.items() if url not in have or url in again)
    gone = {str(url) for url in have - set(wanted) - set(base.spare)}
    remove = tuple(sorted(gone | again))
    found = replace(base, step="register", add=add, remove=remove)
    if kept is None:
        return replace(found, why="a new router learns its peers over its API")
    if registered is None:
        return replace(found, add=base.peers, why="the router's registry could not be read")
    # It has those that retire until they leave.
    found = replace(found, clean=not gone and not any(m.label.url in have for m in choice.retire))
    why = f"{len(add)} to add, {len(remove)} to remove over the router's API"
    if not have and wanted and kept.now.restarts:
        why = "it was started again by its runtime, and has forgotten its peers: all of them are registered anew"
    if add or remove:
        return replace(found, why=why)
    return replace(found, step="none", why="its peers are the members")


# -- membership restart ------------------------------------------------------------------------------------------------------------


def _restart(
    base: RouterStep, kept: LiveMember | None, situation: Situation, choice: Choice, findings: Findings
) -> RouterStep:
    """A router with its peers on its command line is replaced when they change, unless something says that it must wait."""
    instead = replace(base, step="replace", late=True)
    if kept is None:
        return replace(instead, why="a new router gets its peers on its command line")
    snapshot = kept.label.peers
    engines = {m.id: m for m in choice.keep if m.role in ENGINE_ROLES}
    # Those that retire are its peers until it is replaced by one without them.
    change = compare(snapshot or (), base.peers, engines, base.spare)
    named = {p.member for p in snapshot or ()}
    retiring = [m.id for m in choice.retire if m.id in named]
    if snapshot is not None and not change.broken and not change.added and not retiring:
        return replace(base, clean=True, why="its peers are the members")
    if choice.pending:
        _say_stale(kept, change, findings)
        return replace(base, why="its peers stay until the pending configuration is applied")
    if any(place.role in ENGINE_ROLES for place in situation.unknown):
        # A peer that Ansible does not reach may well serve, and would be missing on the new command line.
        return replace(base, why="its peers stay while a part of the group is out of reach")
    if {p.role for p in base.peers} != set(ENGINE_ROLES):
        return replace(base, why="one role has no member that it could send to")
    if snapshot is None:
        return replace(instead, why="the router has no snapshot of its peers")
    roles = {p.member: p.role for p in base.peers}
    short = [r for r in ENGINE_ROLES if list(roles.values()).count(r) < choice.desired.get(r, 0)]
    leave = f"retire: {', '.join(retiring)}" if retiring else ""
    why = f"its peers are on its command line, and they change ({'; '.join(filter(None, [str(change), leave]))})"
    if not change.broken:
        if short:
            return replace(base, why=f"it is replaced when all {' and '.join(short)} members that are wanted are there")
        return replace(instead, hold=True, why=why)
    # One for which others are renewed is not beside them before they are.
    up = set(change.up) - {name for causes in choice.refresh.values() for name in causes}
    if {roles[name] for name in up} != set(ENGINE_ROLES):
        return replace(instead, why=why)
    coming = set(roles) - up
    return replace(instead, early=tuple(sorted(up)), late=bool(coming), hold=bool(coming), why=why)


def _say_stale(router: LiveMember, change: Change, findings: Findings) -> None:
    findings.warning(
        "router-not-replaced",
        f"{router.id} has its peers on its command line, and they have changed ({change}): it is not replaced, since the spec has"
        " changed.",
        f"Apply the change to the whole group: ansible-playbook inferops.pd.restart -e pd_group={router.group}.",
        ["router"],
    )


def _peer_argv(request: Request, router: Member, peers: t.Sequence[Peer]) -> tuple[PeerArgv, ...]:
    """The end of the router's command line, peer by peer: the router is started with those of them that are ready."""
    membership = request.template.membership
    counts = [len(membership.peers.get(p.role, ())) if membership else 0 for p in peers]
    argv = router.leader.argv
    at = len(argv) - sum(counts)
    found = []
    for peer, count in zip(peers, counts):
        found.append(PeerArgv(peer.member, argv[at : at + count]))
        at += count
    return tuple(found)


# -- evaluated when it is known who is ready ------------------------------------------------------------------------------------------


def at_phase(
    plan: Plan, share: Share, ready: t.Collection[str], starts: t.Mapping[str, Start], early: bool, check: bool
) -> tuple[Share, str]:
    """The router's share, fitted to what is known by now: which peers are ready, and so whether a router that has them on its command line
    is replaced, and with which; and why it is not, when that has been told only now. The rule is the plan's; nothing is decided anew."""
    router, name = plan.router, plan.router.member.id if plan.router.member else ""
    place, here = share.here()
    if router.policy != "restart" or name not in here.create:
        return share, ""
    if not early and not router.late:
        return replace(share, hosts={place: here.without_create(name)}), ""
    if check:
        return share, ""
    held = "" if early else held_back(plan, ready)
    if not held:
        made = with_peers(router, ready, starts)
        share = replace(share, members=tuple(made if m.id == name else m for m in share.members))
    return share, held


def held_back(plan: Plan, ready: t.Collection[str]) -> str:
    """Why a router that gets only additions is left as it is, now that it is known who is ready; empty when it is replaced."""
    router = plan.router
    if not router.hold or router.member is None:
        return ""
    lacking = []
    for role in ENGINE_ROLES:
        names = [p.member for p in router.peers if p.role == role]
        late = [name for name in names if name not in ready]
        if len(names) - len(late) < int(plan.desired.get(role) or 0):
            lacking += late or [f"another {role} member"]
    if not lacking:
        return ""
    return (
        f"{router.member.id} keeps serving the peers that it has; it is replaced, with the new ones, by a deploy once all are"
        f" ready. Not ready: {', '.join(lacking)}."
    )


def with_peers(router: RouterStep, ready: t.Collection[str], starts: t.Mapping[str, Start]) -> Member:
    """The router's member as it is started: with the peers that are ready on its command line, and these as its snapshot. `starts` is what
    was last seen of the start of each."""
    if router.member is None:
        raise ValueError("a plan without a router starts none")
    peers = [p for p in router.peers if p.member in ready] or router.peers
    names = {p.member for p in peers}
    tail = sum(len(one.argv) for one in router.peer_argv)
    words = [word for one in router.peer_argv if one.member in names for word in one.argv]
    noted = peer_snapshot.snapshot(peers, {**router.starts, **starts})

    def told_of(part: Part) -> Part:
        argv = (*part.argv[: len(part.argv) - tail], *words)
        return replace(part, argv=argv, labels={**part.labels, "peers": noted})

    return router.member.with_parts(told_of)
