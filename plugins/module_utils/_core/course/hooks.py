# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The phases in which hooks are told of an endpoint: what each host of theirs is asked, and what follows of what it said.

`withdraw` comes before anything stops, and ends the course where a hook may still send requests: then what was taken out by then is given
back (`restore`), since all of it runs on. `announce` comes once it is known what is written, and before that is: what the record calls
registered is an endpoint that every hook has taken."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, replace

from ..base.plain import Plain, to_plain
from ..base.printable import printable
from ..base.words import names
from ..facts.announced import Announced
from ..hooks.hook import Act, Event, Hooked
from ..plan.hooks import SKIP
from ..plan.value import Plan
from ..report import verdict
from ..spec.workload import KINDS
from .course import Course, Ending
from .parcel import Parcel

PHASES = ("withdraw", "restore", "announce")
_LONGEST = 600
# What each host said of a workload, by step.
Said = t.Mapping[str, t.Mapping[str, verdict.Result]]


@dataclass(frozen=True)
class _Asked:
    """What is asked of a hook on all of its hosts."""

    one: Hooked
    event: Event
    gone: bool = False


def _withdrawals(plan: Plan) -> list[_Asked]:
    """A hook that the group comes back to keeps its place there."""
    return [_Asked(one, "out", not one.stays) for one in plan.hooks or () if one.withdraws]


def _announcements(plan: Plan, ending: Ending | None) -> list[_Asked]:
    """What an ending asks for: the endpoint given to each hook that does not have it, or taken from each that does. One that leaves the
    endpoint as it was asks for nothing."""
    if ending is None or ending.registered == "keep":
        return []
    every = plan.hooks or ()
    if plan.spare and ending.registered != "yes":
        return []
    left = [_Asked(one, "out", gone=True) for one in every if one.leaves]
    if ending.registered == "yes":
        return left + [_Asked(one, "in") for one in every if one.announces]
    known = [one for one in every if one.stays and one.was is not None and not one.withdraws]
    return left + [_Asked(one, "out") for one in known]


def acts_of(parcel: Parcel, phase: str, course: Course) -> tuple[Act, ...]:
    """What a host is asked about one workload in a phase."""
    plan = parcel.plan
    if phase == "restore":
        known = [one for one in plan.hooks or () if one.withdraws and one.was is not None and one.was.sure]
        return tuple(one.act_before(plan.name) for one in known if course.restores and parcel.host in one.hosts)
    if not course.goes_on or course.left or (phase == "announce" and plan.action == "remove"):
        return ()
    asked = _withdrawals(plan) if phase == "withdraw" else _announcements(plan, course.ending)
    return tuple(a.one.act(plan.name, a.event, a.gone) for a in asked if parcel.host in a.one.hosts)


# -- what follows ----------------------------------------------------------------------------------------------------------------------


def _wrong(asked: t.Iterable[_Asked], told: t.Mapping[str, verdict.Result]) -> dict[tuple[str, str], str]:
    """Why a hook was not seen to do what it was asked, by (hook, host). Silence is no yes."""
    found = {}
    for one in asked:
        name = one.one.hook.name
        for host in one.one.hosts:
            result = told.get(host) or {}
            said = (result.get("hooks") or {}).get(name) or {}
            if said.get("ok"):
                continue
            why = said.get("msg") or result.get("msg") or ""
            silent = result.get("unreachable") or not result
            found[name, host] = printable(f"it did not answer{f': {why}' if why else ''}" if silent else why, _LONGEST)
    return found


def _listed(wrong: t.Mapping[tuple[str, str], str]) -> list[str]:
    return [f"- {host}: hook {name}: {why or 'it gave no reason'}" for (name, host), why in wrong.items()]


def _where(wrong: t.Iterable[tuple[str, str]]) -> str:
    return names(f"{name} on {host}" for name, host in wrong)


def _without(wrong: t.Iterable[tuple[str, str]]) -> str:
    return f"-e {SKIP}={','.join(dict.fromkeys(name for name, _host in wrong))}"


def not_withdrawn(plan: Plan, said: Said) -> str:
    """Why nothing may stop: hooks that may still send requests, or a record that does not say so. Empty where all is well."""
    subject, marked = f"{KINDS[plan.kind].title} {plan.group}", {h: [r] for h, r in said.get("deregister", {}).items()}
    unmarked = [host for host in sorted(verdict.parts(plan)) if verdict.out_of_reach(marked, host)]
    lines = [f"- {host}: {verdict.reason(r)}" for host, rs in sorted(marked.items()) for r in rs if verdict.refusal(r)]
    lines += [f"- {host} did not answer" for host in unmarked]
    wrong = _wrong(_withdrawals(plan), said.get("withdraw", {}))
    if not (lines or wrong):
        return ""
    what = f"could not be taken from {_where(wrong)}" if wrong else "is not seen to be out of service in every record"
    deploy = f"ansible-playbook {KINDS[plan.kind].deploy(plan.group)}"
    back = f"It runs on, and is given back to its hooks as far as they answer; {deploy} makes sure of that."
    again = "Mend that, then run the same playbook again"
    again += f"; or go on without the hook, whose clients lose what runs: {_without(wrong)}" if wrong else "."
    return "\n".join([f"{subject}: its endpoint {what}, so nothing was stopped.", *lines, *_listed(wrong), back, again])


def announced(plan: Plan, ending: Ending, said: Said) -> Ending:
    """The ending once hooks were told: what the record says of each, and whether the endpoint is registered at all."""
    asked = _announcements(plan, ending)
    wrong = _wrong(asked, said.get("announce", {}))
    kept = _kept(plan, ending, asked, wrong)
    told_of: Plain = to_plain(kept)
    ending = replace(ending, hooks=told_of)
    if not wrong:
        return ending
    verb = "given to" if ending.registered == "yes" else "taken from"
    why = f"its endpoint could not be {verb} {_where(wrong)}"
    head = f"{KINDS[plan.kind].title} {plan.group} is not registered: {why}."
    again = f"Mend that, then run {KINDS[plan.kind].deploy(plan.group)}; or go on without the hook: {_without(wrong)}"
    told = "\n".join([head, *_listed(wrong), f"It serves at {plan.endpoint.url} all the same.", again])
    if ending.registered != "yes":
        return replace(ending, unhooked="\n".join([head, *_listed(wrong), again]))
    reasons = "; ".join(dict.fromkeys(wrong.values()))
    return replace(
        ending, registered="no", state="partial", why=printable(f"{why}: {reasons}", _LONGEST), unhooked=told
    )


def _kept(
    plan: Plan, ending: Ending, asked: t.Iterable[_Asked], wrong: t.Collection[tuple[str, str]]
) -> dict[str, Announced]:
    """What the record says of each hook: where it may know of the group, and what of."""
    kept = {
        str(name): Announced.from_plain(raw)
        for name, raw in ((plan.record.get("endpoint") or {}).get("hooks") or {}).items()
    }
    for one in plan.hooks or ():
        if not one.stays and one.withdraws:
            kept.pop(one.hook.name, None)
    bad = {name for name, _host in wrong}
    every = list(asked)
    for each in every:
        name, one = each.one.hook.name, each.one
        if name in bad:
            kept[name] = one.before
        elif each.event == "in":
            kept[name] = one.announced
        elif each.gone:
            kept.pop(name, None)
        else:
            kept[name] = one.before
    if ending.registered == "keep":
        for one in plan.hooks or ():
            if one.was is not None and not one.withdraws:
                kept[one.hook.name] = one.was
    return kept
