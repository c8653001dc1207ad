# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How a workload's course goes on after a phase: of what the hosts of its plan said of it. Nothing here knows of another workload."""

from __future__ import annotations

import typing as t
from dataclasses import replace

from ..base.plain import Plain
from ..base.words import by_number, names
from ..plan.value import Plan, Start
from ..report import verdict
from ..report.verdict import Result
from ..spec.workload import KINDS
from . import hooks
from .course import Course, Ending
from .orders import TAKES_DOWN, deregisters, leaves, stops, withdraws

# What each host of a plan said of the workload, by the step that it was said in, in the order of STEPS. A step of a round of renewal has
# the round's number behind a dot, and comes after all that have none.
Said = t.Mapping[str, t.Mapping[str, Result]]

STEPS = (
    "prepare",
    "lock",
    "unlock",
    "deregister",
    "withdraw",
    "restore",
    "drain",
    "leave",
    "router_stop",
    "stop",
    "forget",
    "start",
    "wait",
    "undo",
    "router",
    "proof",
    "gate",
    "announce",
    "endpoint",
)
# Phases after which a course is judged, and the steps that each verdict rests on.
PHASES = (
    "prepare",
    "lock",
    "withdraw",
    "leave",
    "router_stop",
    "stop",
    "forget",
    "start",
    "renewal",
    "settle",
    "announce",
    "final",
)
_ENGINES = ("start", "wait")
_ROUTER = ("leave", "router", "proof", "gate")
_NOTHING: Result = {"unreachable": True}
_UNSAID: Result = {"failed": True, "ok": False, "phase": "router", "msg": "nothing was said of the router here"}


def judge(plan: Plan, course: Course, phase: str, said: Said, stops: bool = False, check: bool = False) -> Course:
    """The course after a phase. `stops`: what the run has started is stopped again when the verdict on it is bad (pd_on_failure: stop).
    `check`: of a check run, in which nothing was done and all goes well."""
    if not course.goes_on or not applies(plan, phase):
        return course
    if check:
        return _checked(plan, course, phase, said)
    if phase == "start":
        return _started(plan, course, said, stops)
    if phase == "renewal":
        return _renewed(plan, _started(plan, course, said, stops), said)
    own = {
        "settle": _settled,
        "final": _final,
        "leave": _left,
        "forget": _forgotten,
        "withdraw": _withdrawn,
        "announce": _announced,
    }
    return own.get(phase, _stepped(phase))(plan, course, said, stops)


def applies(plan: Plan, phase: str) -> bool:
    """Whether a workload goes through a phase at all: others of its wave may, and it may not."""
    phases = {step.phase for step in plan.steps}
    down, goes = plan.action in TAKES_DOWN, plan.action == "remove"
    return {
        "leave": leaves(plan, phases) and not down,
        "router_stop": down and "router_stop" in phases,
        "stop": stops(plan, phases),
        "forget": goes,
        "withdraw": withdraws(plan),
        "announce": bool(plan.hooks) and not goes,
    }.get(phase, phase in ("prepare", "lock") or not goes)


# -- until members start ---------------------------------------------------------------------------------------------------------------


def _stepped(phase: str) -> t.Callable[[Plan, Course, Said, bool], Course]:
    """A phase that a run goes on after, or ends at: what is locked by then is given back."""

    def after(plan: Plan, course: Course, said: Said, stops: bool) -> Course:  # noqa: ARG001
        found = verdict.reach(plan, _results(said, [phase], {}), phase)
        locked = replace(course, locked=course.locked or phase == "lock")
        if found.good:
            return locked
        if phase == "lock" and plan.action == "heal" and _is_busy(said.get("lock", {})):
            return locked.skips(f"{KINDS[plan.kind].title} {plan.group}: not healed now, another run is at it.")
        return _ended(locked, found)

    return after


def _withdrawn(plan: Plan, course: Course, said: Said, stops: bool) -> Course:  # noqa: ARG001
    """A hook that was not seen to take the endpoint out still sends requests: nothing stops."""
    told = hooks.not_withdrawn(plan, said)
    return replace(course.ends(told, {"good": False}), restores=True) if told else course


def _announced(plan: Plan, course: Course, said: Said, stops: bool) -> Course:  # noqa: ARG001
    if course.left or course.ending is None:
        return course
    ending = hooks.announced(plan, course.ending, said)
    # A hook that has not taken the endpoint may go on sending requests to a router that retires.
    retires = course.retires and not ending.unhooked
    return replace(course, ending=replace(ending, retired=retires), retires=retires)


def _is_busy(said: t.Mapping[str, Result]) -> bool:
    """Whether all that keeps a run from its locks is another run."""
    bad = [result for result in said.values() if verdict.bad(result)]
    return any(r.get("busy") for r in bad) and all(r.get("busy") or r.get("follows") for r in bad)


def _left(plan: Plan, course: Course, said: Said, stops: bool) -> Course:  # noqa: ARG001
    """A router that members did not leave still sends them requests: none of them is stopped."""
    told = said.get("leave", {})
    # Silence is no yes. Only of a router that is replaced before they leave there may be nothing to say.
    asked = plan.router.through if deregisters(plan, {step.phase for step in plan.steps}) else ()
    for host, result in {**dict.fromkeys(asked, _NOTHING), **told}.items():
        if verdict.bad(result) or (result.get("peers") or {}).get("failed"):
            why = result.get("msg") or (result.get("peers") or {}).get("msg") or f"{host} did not answer"
            head = f"{KINDS[plan.kind].title} {plan.group}: members could not leave its router, so none was stopped."
            again = "Mend that, then run the same playbook again: it goes on from here."
            return course.ends("\n".join([head, f"- {host}: {why}", again]), {"good": False})
    return course


def _forgotten(plan: Plan, course: Course, said: Said, stops: bool) -> Course:  # noqa: ARG001
    kind = KINDS[plan.kind]
    results = {host: [result] for host, result in said.get("forget", {}).items()}
    silent = sorted(host for host in verdict.parts(plan) if verdict.out_of_reach(results, host))
    lines = [f"- {host}: {verdict.reason(r)}" for host, rs in sorted(results.items()) for r in rs if verdict.refusal(r)]
    lines += [f"- {host} did not answer" for host in silent]
    if not lines:
        return replace(course, done=True, told=f"{kind.title} {plan.group} is removed.")
    head = f"{kind.title} {plan.group}: not all of it is forgotten."
    return course.ends("\n".join([head, *lines, "Run the same playbook again: it goes on from here."]), {"good": False})


# -- members start ---------------------------------------------------------------------------------------------------------------------


def _started(plan: Plan, course: Course, said: Said, stops: bool) -> Course:
    results = _results(said, _ENGINES, {})
    found = verdict.reach(plan, results, "start", stops=stops)
    waited: dict[str, Result] = {}
    for rs in results.values():
        for result in rs:
            waited |= result.get("members") or {}
    starts = {name: Start.seen(seen) for name, seen in waited.items()} if plan.router.policy == "restart" else {}
    left = any(result.get("left") for rs in results.values() for result in rs)
    refused = tuple(sorted(host for host, rs in results.items() if any(r.get("refused") for r in rs)))
    return replace(
        course,
        good=found.good,
        left=left,
        ready=tuple(sorted(name for ids in found.ready.values() for name in ids)),
        refused=refused,
        formations=found.formations,
        registered=found.registered,
        undoes=stops and not found.good and not left,
        starts={name: vars(start) for name, start in starts.items()},
        ending=Ending(undo=_created(said)) if stops and not found.good and not left else None,
        told="" if found.complete or left else found.msg.partition("\n")[0],
    )


def _renewed(plan: Plan, course: Course, said: Said) -> Course:
    """The same after a round of renewal, or after all. Where a member has not come back from its round, no other one is renewed: it may be
    the last that serves. So those for which these should have been are not told to the router, nor asked for a proof; they wait for the
    next run."""
    ready, waits = set(course.ready), set[str]()
    back = True
    for number, one in enumerate(plan.renew or (), 1):
        if not back and f"start.{number}" not in said:
            waits |= set(one.because)
        back &= {m.id for m in one.members} <= ready
    if not (waits and course.serves):
        return course
    roles = {m.role for m in plan.engines if m.id in ready - waits}
    good = roles >= set(KINDS[plan.kind].serving)
    return replace(course, good=good, ready=tuple(sorted(ready - waits)), waits=tuple(sorted(waits)))


def _created(said: Said) -> tuple[str, ...]:
    """What this run has really created of members, by what its hosts said: a plan is no deed. Of rounds of renewal the last one: those
    before it went well."""
    steps = [step for step in said if _is(step, ("start",))]
    every = (result for step in {*steps[:1], *steps[-1:]} for result in said[step].values())
    return tuple(sorted({name for result in every for name in result.get("created") or ()}))


def _undone(plan: Plan, said: Said) -> tuple[str, ...]:
    """What of it has been taken back. On a host that did not answer it may run on, and the record goes on naming it."""
    silent = {host for host, result in said.get("undo", {}).items() if result.get("unreachable")}
    kept = {m.id for m in plan.members for part in m.parts if part.through in silent}
    return tuple(name for name in _created(said) if name not in kept)


def _may_retire(plan: Plan, course: Course, said: Said, shown: bool) -> bool:
    """Whether those may stop whose place others have taken: all that come are ready, the router has taken them, and what was `shown` of
    them is good."""
    fresh = {name for here in plan.hosts.values() for name in here.create}
    ready = {m.id for m in plan.engines} & fresh <= set(course.ready)
    router = _of_router(plan, said, "router")
    served = router is None or (bool(router.get("ok")) and not router.get("held"))
    return bool(plan.retire and course.serves and ready and served and shown)


def _settled(plan: Plan, course: Course, said: Said, stops: bool) -> Course:  # noqa: ARG001
    """What is to be written of it, after router and proof."""
    if course.left:
        return course
    said = _with_silence(plan, course, said)
    router, proof = _of_router(plan, said, "router"), _of_router(plan, said, "proof")
    has_router = bool(plan.router.member)
    router_ok = router is None or bool(router.get("ok"))
    gate = _of_router(plan, said, "gate")
    shown = all(one is None or bool(one.get("good")) for one in (proof, gate))
    good = has_router and course.good and router_ok and shown
    serves = not KINDS[plan.kind].router and course.good
    # With a part of the group out of sight, what was said of the endpoint stays: a proof may have been sent there.
    unseen = bool(plan.unknown) and course.registered in ("yes", "keep") and router_ok
    # What this run started is stopped again, and the router that served before was not touched: the endpoint is what it was.
    as_before = course.registered == "undone" and course.undoes
    retires = _may_retire(plan, course, said, shown)
    stayed = not retires and _stayed(plan, router_ok and shown)
    ending = Ending(
        registered="yes" if good or stayed else "keep" if unseen or as_before else "no",
        state="running" if good or serves or stayed else "partial",
        why=_waits_for(plan, said) if course.good else "",
        lift=is_clean(plan, said),
        proven=good and bool(proof and proof.get("good")),
        undo=_undone(plan, said) if course.undoes else None,
        retired=retires,
    )
    unproven = bool(proof) and not (proof or {}).get("good")
    return replace(course, ending=ending, retires=retires, unproven=unproven)


def _stayed(plan: Plan, well: bool) -> bool:
    """Whether the group serves as before, since those stay that were to retire: not all that came in their place has come up. `well`:
    nothing is wrong with those that have, and that the router reaches by now."""
    before = (plan.meanwhile or {}).get("endpoint") or {}
    # One that moves is there as well, and reaches none of them.
    there = well or _routers(plan.meanwhile or {}) > _routers(plan.record)
    return bool(plan.retire and before.get("registered") and there)


def _routers(record: Plain) -> int:
    return sum(1 for one in record.get("members") or () if one.get("role") == "router")


def _with_silence(plan: Plan, course: Course, said: Said) -> Said:
    """The same, with what a router's host has not said of its router, and should have: silence is no yes."""
    phases = {step.phase for step in plan.steps}
    asked = course.good and (plan.router.step != "none" or phases & {"router", "start", "wait"})
    there = set(plan.router.through) & set(plan.through) if asked else set()
    silent = sorted(there - set(said.get("router", {})))
    return {**said, "router": {**said.get("router", {}), **dict.fromkeys(silent, _UNSAID)}} if silent else said


def _waits_for(plan: Plan, said: Said) -> str:
    """Why the endpoint is not registered, as the router's phase or the proof has said; empty where neither was bad."""
    results = (_of_router(plan, said, step) or {} for step in _ROUTER)
    bad = (r for r in results if r.get("good") is False or r.get("ok") is False or r.get("failed"))
    return next((str(r.get("why") or r.get("msg")) for r in bad if r.get("why") or r.get("msg")), "")


def is_clean(plan: Plan, said: Said) -> bool:
    """Whether the router was read back, or started anew, in this run without anybody who is gone; and none is left elsewhere."""
    if any(one.get("router") for one in plan.record.get("tombstones") or ()):
        return False
    router = plan.router
    if router.member is None:
        return plan.action == "remove"
    steps = [name for name in said if _is(name, ("leave", "router"))]
    results = [r for name in steps for host, r in said[name].items() if host in router.through]
    started = [r for name in said if _is(name, ("start",)) for r in said[name].values()]
    if any(verdict.bad(r) for r in results) or router.policy == "manual":
        return False
    if any(r.get("refused") or r.get("unreachable") for r in started):
        return False
    if router.clean:
        return True
    fresh = any(router.member.id in (r.get("created") or ()) for r in results)
    read = any((r.get("peers") or {}).get("confirmed") for r in results)
    return fresh or (router.policy == "dynamic" and read)


def _final(plan: Plan, course: Course, said: Said, stops: bool) -> Course:
    if course.left:
        return course
    said = _with_silence(plan, course, said)
    of_router = _ROUTER if KINDS[plan.kind].router and course.good else ()
    results = _results(said, (*_ENGINES, *of_router, "endpoint"), dict.fromkeys(_ROUTER, plan.router.through))
    found = verdict.reach(plan, results, "final", stops=stops)
    unhooked = course.ending.unhooked if course.ending else ""
    if not found.good or unhooked:
        told = "\n".join(filter(None, [unhooked, "" if found.good else found.msg]))
        short = {**in_short(found), "good": False}
        return replace(course, failed=True, done=True, told=told, short=short)
    return replace(course, done=True, told="\n".join([found.msg, *_waiting(plan, course)]))


def _waiting(plan: Plan, course: Course) -> list[str]:
    """What is told of members that did not enter the router, for what became of a round of renewal."""
    if not course.waits:
        return []
    who = f"{names(course.waits)} {by_number(course.waits, 'waits', 'wait')} outside of the router"
    why = "a decode member did not come back from its renewal, so no other one was renewed"
    return [f"{who}: {why}. Mend it, then run {KINDS[plan.kind].deploy(plan.group)} again."]


# -- in all phases -----------------------------------------------------------------------------------------------------------------------


def _checked(plan: Plan, course: Course, phase: str, said: Said) -> Course:
    """Check mode tells what a run in which all goes well would write; and where a host knows by now that it would not start a member, that.
    Another run that is at work is over by the time of the real one."""
    if phase == "lock" and any(verdict.refusal(r) and not r.get("busy") for r in said.get("lock", {}).values()):
        return _ended(course, verdict.reach(plan, _results(said, ["lock"], {}), "lock"))
    if phase == "settle":
        state = "running" if plan.router.member or not KINDS[plan.kind].router else "partial"
        registered = "yes" if plan.router.member else "no"
        ending = Ending(registered, state, lift=is_clean(plan, {}), retired=bool(plan.retire))
        return replace(course, ending=ending, retires=bool(plan.retire))
    return replace(course, done=True) if phase in ("final", "forget") else course


def _ended(course: Course, found: verdict.Verdict) -> Course:
    return course.ends(found.msg, in_short(found))


def in_short(found: verdict.Verdict) -> dict[str, t.Any]:
    """What a machine asks of a verdict that a person has been told."""
    keys = ("host", "outcome", "symptom")
    failed = {name: {k: seen[k] for k in keys if seen.get(k)} for name, seen in found.failed.items()}
    kept = {"failed_members": failed, "unreachable_hosts": found.unreachable}
    return {"good": found.good, **{k: v for k, v in kept.items() if v}}


def _is(step: str, names: t.Collection[str]) -> bool:
    return step.partition(".")[0] in names


def _of_router(plan: Plan, said: Said, step: str) -> Result | None:
    """What the router's host said in a step, outside of rounds: it comes after them."""
    return next((said[step][host] for host in plan.router.through if host in said.get(step, {})), None)


def _results(said: Said, steps: t.Collection[str], only: t.Mapping[str, t.Collection[str]]) -> dict[str, list[Result]]:
    """What each host said in these steps, in order; of a step in `only`, what those hosts said alone."""
    found: dict[str, list[Result]] = {}
    for step, hosts in said.items():
        if not _is(step, steps):
            continue
        allowed = only.get(step.partition(".")[0])
        for host, result in hosts.items():
            if allowed is None or host in allowed:
                found.setdefault(host, []).append(result)
    return found
