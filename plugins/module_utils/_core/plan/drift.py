# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Same spec, another reality: a member that comes must be the same engine and have the same model as those of its generation
that run. Where a host has changed under an unchanged spec the group is pending: nothing of it is started beside the others."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, replace

from ..base.finding import Findings
from ..base.plain import Plain
from ..facts.applied import IDENTITY, Identity
from ..facts.label import Label
from ..facts.observed import Host, LiveMember
from ..spec.spec import ENGINE_ROLES
from .member import identity, identity_of_source, member_id
from .placement import Seats
from .situation import Choice, Request

# How a person is told of each fact.
_CALLED = {
    "image": "image",
    "engine": "engine version",
    "model": "model fingerprint",
    "weights": "model weights (names, sizes, times)",
    "engine files": "engine files (names, sizes, times)",
}
_SHOWN = 19


@dataclass(frozen=True)
class Moved:
    """A fact that is another one on `host` than with the members that run; `member` is who would run it."""

    fact: str
    host: str
    was: str
    now: str
    member: str

    def line(self) -> str:
        """One line of a diff of a pending configuration."""
        return f"{_CALLED[self.fact]} on {self.host}: {self.was[:_SHOWN]} -> {self.now[:_SHOWN]}"


def moved(theirs: t.Sequence[Plain], mine: Plain) -> list[tuple[str, str, str]]:
    """(fact, what the others have, what this one would have) where an identity fits none of the others'. What is not known of either
    side is no difference. An image is the same by its digest or by its id: one that was loaded from a file has no digest."""
    found = []
    for fact in ("engine", "model"):
        value = mine.get(fact)
        peers = [r for r in theirs if r.get(fact) and _comparable(fact, r, mine)]
        if not value or not peers or any(_same(fact, r, mine) for r in peers):
            continue
        image = fact == "engine" and str(value).startswith("sha256:")
        found.append(("image" if image else fact, ", ".join(sorted({str(r[fact]) for r in peers})), str(value)))
    return found


def files(member: LiveMember, host: Host) -> list[tuple[str, str, str]]:
    """(fact, what its files were, what they are) where those that a member was started from have been exchanged on its own host. Their
    times are another thing on every host, so only a host itself can tell: weights of the same sizes under the same config are another
    model."""
    identity_, source = member.label.identity, member.label.source
    looks = (
        ("weights", "weights", (host.model(str(source.get("model"))).get("weights") or {}).get("times")),
        ("engine files", "engine_stamp", host.executable(str(source.get("executable"))).get("stamp")),
    )
    return [
        (fact, str(identity_[key]), str(now))
        for fact, key, now in looks
        if identity_.get(key) and now and identity_[key] != now
    ]


def _comparable(fact: str, one: Plain, other: Plain) -> bool:
    """Of an image without a digest only the id can be compared, and one that is not on its host yet has none."""
    by_id = any(r.get("image_id") and r.get("image_id") == r.get("engine") for r in (one, other))
    return fact != "engine" or not by_id or bool(one.get("image_id") and other.get("image_id"))


def _same(fact: str, one: Plain, other: Plain) -> bool:
    same_image = fact == "engine" and bool(one.get("image_id")) and one.get("image_id") == other.get("image_id")
    return same_image or str(one[fact]) == str(other[fact])


def running(members: t.Iterable[LiveMember]) -> list[Plain]:
    """What the engines that run really are, by their labels."""
    return [identity_of_label(m.label) for m in members if m.role in ENGINE_ROLES and m.alive]


def identity_of_label(label: Label) -> Plain:
    """What a member was started as. A container's label says which image it really got, which the plan may not have known."""
    image = label.image
    known = {"engine": image.get("digest") or image.get("id"), "image_id": image.get("id")} if image else {}
    return {**label.identity, **known}


def identities(members: t.Iterable[LiveMember]) -> t.Mapping[str, Identity]:
    """What the engines really are, or were, by role: what is known of the first of each that knows it."""
    found: dict[str, dict[str, str]] = {}
    for member in members:
        if member.role in ENGINE_ROLES:
            its = identity_of_label(member.label)
            mine = found.setdefault(member.role, {})
            for fact in IDENTITY:
                if its.get(fact):
                    mine.setdefault(fact, str(its[fact]))
    return found


def changed_under(members: t.Iterable[LiveMember], hosts: t.Mapping[str, Host]) -> list[Moved]:
    """What has changed on the hosts under members that run: started again, they would be something else."""
    found: dict[tuple[str, str], Moved] = {}
    for member in members:
        host, source = hosts.get(member.host), member.label.source
        if member.role not in ENGINE_ROLES or not member.alive or host is None or not source:
            continue
        mine = moved([identity_of_label(member.label)], identity_of_source(host, source)) or files(member, host)
        for fact, was, now in mine:
            found.setdefault((fact, member.host), Moved(fact, member.host, was, now, member.id))
    return list(found.values())


def changed_for_dead(members: t.Sequence[LiveMember], hosts: t.Mapping[str, Host]) -> list[Moved]:
    """What has changed on the hosts of members that are down: they are not started again beside those that run."""
    found: dict[tuple[str, str], Moved] = {}
    theirs = running(members)
    for member in members:
        host, source = hosts.get(member.host), member.label.source
        if member.role not in ENGINE_ROLES or member.alive or host is None or not source:
            continue
        mine = moved(theirs, identity_of_source(host, source)) or (files(member, host) if theirs else [])
        for fact, was, now in mine:
            found.setdefault((fact, member.host), Moved(fact, member.host, was, now, member.id))
    return list(found.values())


def changed(members: t.Sequence[LiveMember], hosts: t.Mapping[str, Host]) -> list[Moved]:
    """All that has changed on hosts of a group since its members were started, once a fact and host."""
    every = {(m.fact, m.host): m for m in [*changed_for_dead(members, hosts), *changed_under(members, hosts)]}
    return list(every.values())


def leave_out(
    request: Request, choice: Choice, seats: Seats, findings: Findings
) -> tuple[Choice, Seats, tuple[Moved, ...]]:
    """`choice` and `seats` without what would be of another reality, which is said, and what moved. What a member would be is a fact of the
    host that it was seated on. A restart stops all there is, and forms on what the hosts have now."""
    if request.action == "restart":
        return choice, seats, ()
    # Where something is healed, what runs on is no matter.
    found = changed_under(choice.serving, request.hosts) if request.action != "heal" else []
    theirs = running(choice.serving) or (list(request.kept.identity.values()) if request.kept else [])
    out = {m.member: m for m in reversed(_coming(request, choice, seats, theirs))}
    for name, cause in [(name, m) for name, m in out.items() if name in choice.refresh]:
        # Decode cannot be started anew, so the prefill that it would have to forget does not come either.
        for prefill in choice.refresh[name]:
            if prefill in seats:
                out.setdefault(prefill, Moved(cause.fact, cause.host, cause.was, cause.now, prefill))
    growth = {member_id(request.name, one.role, one.index) for one in choice.create}
    for one in [*out.values(), *(m for m in found if (m.fact, m.host) not in {(o.fact, o.host) for o in out.values()})]:
        refused = request.action in ("scale", "evacuate") and one.member in growth
        _say(request, one, one.member in out, findings.error if refused else findings.warning)
    every = tuple({(m.fact, m.host): m for m in [*out.values(), *found]}.values())
    return (*_without(request, choice, seats, set(out)), every)


def moved_since(request: Request, places: t.Mapping[str, str]) -> list[Moved]:
    """What members of a formation that is kept would be on these hosts, by id, where that is another engine or model than it was proven
    with."""
    kept, found = request.kept, []
    was = (kept.proven.identity if kept.proven else kept.identity) if kept else {}
    for name, place in places.items():
        role = name[len(request.name) + 1 :].rpartition("-")[0]
        if role in ENGINE_ROLES and place in request.hosts:
            model, one = request.workload.on_host(role, request.workload.model), request.template.roles[role]
            mine = identity(request.hosts[place], model, one.executable, one.image)
            other = moved([was.get(role) or {}], mine)
            found += [Moved(fact, place, before, now, name) for fact, before, now in other]
    return found


def check_return(request: Request, seats: Seats, findings: Findings) -> None:
    """What is returned to must be what it was when it was proven: the same image or engine, and the same model, on every host of it."""
    kept = request.kept
    if request.action != "restart" or kept is None or request.to != "previous":
        return
    for one in moved_since(request, {name: seat.host for name, seat in seats.items()}):
        findings.error(
            "return-differs",
            f"{one.member} on {one.host} would run another {_CALLED[one.fact]} ({one.now}) than when revision {kept.revision} was"
            f" proven ({one.was}): it would be another group than the one that it is returned to. Nothing was stopped.",
            "Make the host as it was, or correct the spec and restart onto that.",
            [],
            one.host,
        )


def _coming(request: Request, choice: Choice, seats: Seats, theirs: list[Plain]) -> list[Moved]:
    """What each member that comes would have, where that fits none of those that run."""
    found = []
    again = {m.id: m for m in (*choice.replace, *(m for m in choice.keep if m.id in choice.refresh))}
    names = [(m.id, m.role) for m in again.values()]
    names += [(member_id(request.name, one.role, one.index), one.role) for one in choice.create]
    for name, role in names:
        place = again[name].host if name in choice.refresh else seats[name].host if name in seats else None
        if role not in ENGINE_ROLES or place is None:
            continue
        host, template = request.hosts[place], request.template.roles[role]
        model = request.workload.on_host(role, request.workload.model)
        mine = identity(host, model, template.executable, template.image)
        was_here = again[name] if name in again and again[name].host == host.name else None
        other = moved(theirs, mine) or (files(was_here, host) if was_here and theirs else [])
        found += [Moved(fact, host.name, was, now, name) for fact, was, now in other]
    return found


def _without(request: Request, choice: Choice, seats: Seats, out: set[str]) -> tuple[Choice, Seats]:
    """Who would be started anew only for a prefill that does not come stays as it is."""
    if not out:
        return choice, seats
    left = replace(
        choice,
        replace=tuple(m for m in choice.replace if m.id not in out),
        create=tuple(one for one in choice.create if member_id(request.name, one.role, one.index) not in out),
        refresh={name: for_ for name, for_ in choice.refresh.items() if name not in out and set(for_) - out},
    )
    return left, {name: seat for name, seat in seats.items() if name not in out}


def _say(request: Request, one: Moved, left_out: bool, say: t.Callable[..., None]) -> None:
    restart = f"ansible-playbook inferops.pd.restart -e pd_group={request.name}"
    called = _CALLED[one.fact]
    if not left_out:
        say(
            "identity-moved",
            f"{one.member} on {one.host} runs {called} {one.was}, and its host has {one.now} by now: started again, it would be"
            " another one than its peers.",
            f"Make the host as it was, or apply the new one to the whole group: {restart}.",
            [],
            one.host,
        )
        return
    say(
        "identity-moved",
        f"{one.member} on {one.host} would run another {called} ({one.now}) than the members that serve ({one.was}): it is not"
        " started beside them, and the group is pending.",
        f"Make the host like the others, or apply the new one to the whole group: {restart}.",
        [],
        one.host,
    )
