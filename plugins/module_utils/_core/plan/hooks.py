# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a run does about the hooks of a group's endpoint: whom it is given to, whom it is taken from, and before what."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field, replace

from ..base.finding import Findings
from ..base.plain import Plain, to_plain
from ..base.words import about, by_number, names
from ..facts.announced import Announced
from ..facts.record import Record
from ..hooks.hook import WEIGHT, Hook, Hooked
from .value import Step

SKIP = "pd_skip_hooks"


@dataclass(frozen=True)
class Wired:
    """The hooks of the inventory: each with the hosts of its pattern. `skip` are those that this run goes without; `away` says of hosts
    that they cannot be asked in it, and why; `out` are hosts out of service, which nobody asks; `gone` those that records name and the
    inventory does not."""

    hooks: t.Mapping[str, tuple[Hook, tuple[str, ...]]] = field(default_factory=dict)
    skip: frozenset[str] = frozenset()
    away: t.Mapping[str, str] = field(default_factory=dict)
    out: frozenset[str] = frozenset()
    gone: frozenset[str] = frozenset()


NOTHING = Wired()


@dataclass(frozen=True)
class Given:
    """What is given to hooks: the endpoint of `group` as it is after the run. `names` are the hooks of its spec; `stops`: its router is
    stopped, or goes elsewhere; `registered`: the run before this one got as far as that."""

    group: str
    names: tuple[str, ...] = ()
    url: str = ""
    model: str = ""
    weight: int = WEIGHT
    stops: bool = False


def hooked(wired: Wired, given: Given, noted: Record, findings: Findings) -> tuple[Hooked, ...]:
    """What is done about each hook that the spec names, or that the record says the group is known by. What cannot be done is a finding."""
    announced = noted.endpoint.hooks
    every = list(dict.fromkeys((*given.names, *announced)))
    skipped = [name for name in every if name in wired.skip]
    found: list[Hooked] = []
    for name in (one for one in every if one not in skipped):
        if name in wired.hooks:
            found += _of(name, wired, given, noted)
            _say_gone(given.group, name, announced.get(name), wired, findings)
        elif name in announced:
            _say_unknown(given.group, name, announced[name], findings)
    if skipped:
        _say_skipped(given, skipped, announced, findings)
    _check_reach(given.group, found, wired, findings)
    return tuple(found)


def _of(name: str, wired: Wired, given: Given, noted: Record) -> list[Hooked]:
    """At the file that it has left, and at the one that it has."""
    hook, pattern = wired.hooks[name]
    hosts = tuple(host for host in pattern if host not in wired.out)
    was, stays = noted.endpoint.hooks.get(name), name in given.names
    if stays and not given.url:
        # A router that nobody can ask goes on serving whom it serves.
        return [Hooked(hook, hosts, was.url, digest=was.digest, was=was)] if was else []
    found = []
    left = _left(hook, hosts, was, stays, wired.out | wired.gone)
    if was is not None and (left or not stays):
        why = "its spec does not name it" if not stays else f"it has moved from {was.file or 'there'} on {names(left)}"
        moved = was.file and was.file != hook.file
        # Without the backend, of which there is one section: the last one to leave takes the old file with it.
        there = replace(hook, file=was.file, backend="") if moved else hook
        found.append(Hooked(there, left, stays=False, withdraws=given.stops, was=replace(was, hosts=left), why=why))
    if not stays:
        return found
    digest = hook.digest(given.url, given.model, given.weight)
    why = _news(digest, hosts, was, given, noted.endpoint.registered)
    here = was is not None and not (left and was.file != hook.file)
    told = Hooked(
        hook, hosts, given.url, given.model, given.weight, True, given.stops and here, bool(why), digest, was, why
    )
    return [*found, told]


def _left(
    hook: Hook, hosts: t.Collection[str], was: Announced | None, stays: bool, out: t.Collection[str]
) -> tuple[str, ...]:
    """The hosts on which the group is to be known no more at the file that it was known by."""
    before = [host for host in (was.hosts if was else ()) if host not in out]
    moved = was is not None and bool(was.file) and was.file != hook.file
    return tuple(host for host in before if not stays or moved or host not in hosts)


def _news(digest: str, hosts: t.Collection[str], was: Announced | None, given: Given, registered: bool) -> str:
    """Why a hook is to be told (again); empty when it knows."""
    if was is None:
        return "it is new to the group"
    if given.stops:
        return "the group comes back"
    if not was.sure or not registered:
        return "the run before this one did not get as far"
    if set(was.hosts) != set(hosts):
        return "it is on other hosts by now"
    if was.url != given.url:
        return f"the endpoint was {was.url}"
    return "" if was.digest == digest else "its weight, or what the hook says of it, has changed"


# -- what is said of them ------------------------------------------------------------------------------------------------------------


def _say_unknown(group: str, name: str, was: Announced, findings: Findings) -> None:
    findings.error(
        "endpoint-hook-gone",
        f"group {group} is known by hook {name} on {names(was.hosts) or 'its hosts'}, and pd_endpoint_hooks has no such hook any more:"
        " nobody knows how to take it out there.",
        f"Put {name} back, run this, and take it away then; or take the group out there by hand, and go on without it: -e {SKIP}={name}",
    )


def _say_gone(group: str, name: str, was: Announced | None, wired: Wired, findings: Findings) -> None:
    """A gateway that was taken away for good must not stand in the way of every run from then on."""
    hosts = sorted(wired.gone & {*(was.hosts if was else ())})
    if hosts:
        findings.warning(
            "endpoint-hook-host-gone",
            f"hook {name} has told {names(hosts)} of group {group}, and the inventory does not have {by_number(hosts, 'it', 'them')} any"
            " more: nothing is told there.",
            f"If {by_number(hosts, 'it', 'one of them')} still sends requests, take the group out there by hand.",
        )


def _say_skipped(
    given: Given, skipped: t.Sequence[str], announced: t.Mapping[str, Announced], findings: Findings
) -> None:
    for name in skipped:
        known = announced.get(name)
        where = f" on {names(known.hosts)}" if known and known.hosts else ""
        still = (
            f": what it says of {given.group}{where} stays as it is" if known else f": it is not told of {given.group}"
        )
        findings.warning(
            "endpoint-hook-skipped",
            f"hook {name} is left out of this run ({SKIP}){still}.",
            "Run without it later: a deploy tells the hook then. What a removal leaves there is yours to take out.",
        )


def _check_reach(group: str, found: t.Iterable[Hooked], wired: Wired, findings: Findings) -> None:
    """Before anything stops: whoever must be told is in this run, and has answered as far as it was asked."""
    for one in found:
        if not (one.withdraws or one.announces or one.leaves):
            continue
        by_why: dict[str, list[str]] = {}
        for host in one.hosts:
            if host in wired.away:
                by_why.setdefault(wired.away[host], []).append(host)
        for why, hosts in by_why.items():
            them = by_number(hosts, "it", "them")
            findings.error(
                "endpoint-hook-away",
                f"hook {one.hook.name}: {about(hosts, why)}, so that the endpoint of group {group} cannot be told to {them}.",
                f"Have {them} in the run, and answering; or go on without the hook: -e {SKIP}={one.hook.name}",
                host=hosts[0] if len(hosts) == 1 else None,
            )


# -- of a plan -----------------------------------------------------------------------------------------------------------------------


def first_steps(found: t.Iterable[Hooked]) -> list[Step]:
    """Who is told before anything stops."""
    return [
        Step(
            "withdraw",
            "withdraw",
            None,
            host,
            f"hook {one.hook.name}: clients are sent elsewhere before anything stops",
        )
        for one in found
        if one.withdraws
        for host in one.hosts
    ]


def last_steps(found: t.Iterable[Hooked]) -> list[Step]:
    """Who is told once the group serves; those that it has left before."""
    every = list(found)
    steps = [
        Step("announce", "withdraw", None, host, f"hook {one.hook.name}: {one.why}")
        for one in every
        if one.leaves
        for host in one.hosts
    ]
    return steps + [
        Step("announce", "announce", None, host, f"hook {one.hook.name}: {one.why}")
        for one in every
        if one.announces
        for host in one.hosts
    ]


def to_record(found: t.Iterable[Hooked], noted: Record, skip: t.Collection[str] = ()) -> Plain:
    """What the record says of hooks before they are told: wherever the group may be known by the end of the run, come what may."""
    told = {one.hook.name: one for one in sorted(found, key=lambda one: one.stays)}
    kept: dict[str, Announced] = dict(noted.endpoint.hooks)
    for name, one in told.items():
        if one.withdraws or one.announces or one.leaves:
            kept[name] = one.before
        elif one.was is not None:
            kept[name] = one.was
    # Of one that is left out nobody knows afterwards whether what it says is true.
    kept |= {name: one.unsure() for name, one in noted.endpoint.hooks.items() if name in skip}
    return t.cast("Plain", to_plain(kept))
