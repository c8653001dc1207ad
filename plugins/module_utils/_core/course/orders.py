# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a host is told to do about one workload in a phase: of its parcel of the plan, and of the workload's course."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, replace

from ..base.plain import Plain
from ..base.plain import to_plain as plain
from ..base.words import names
from ..plan import router_step
from ..plan.value import RETIRES, Plan, Start
from ..runtimes.table import UNNOTED, traits_of
from ..spec.workload import KINDS
from ..work.share import Share, Slice, Vacated
from .course import Course
from .parcel import Parcel

# In the order of a run. `undo` and `unlock` come where they are asked for.
PHASES = (
    "prepare",
    "lock",
    "unlock",
    "deregister",
    "drain",
    "leave",
    "router_stop",
    "stop",
    "forget",
    "start",
    "undo",
    "router",
    "endpoint",
)
TAKES_DOWN = ("restart", "remove")


@dataclass(frozen=True)
class Order:
    """What one host does: `phase` is the module's. `early`, of a router: before members leave it. `held` is why a router is left as it is,
    which is all that is to be told then."""

    share: Share
    phase: str
    registered: str = "no"
    state: str = "partial"
    why: str = ""
    lift: bool = False
    proven: bool = False
    peers: Plain | None = None
    early: bool = False
    held: str = ""
    hooks: Plain | None = None

    def to_plain(self) -> dict[str, t.Any]:
        """As the module is told it."""
        return {
            "plan": self.share.to_plain(),
            "phase": self.phase,
            "registered": self.registered,
            "state": self.state,
            "why": self.why,
            "lift": self.lift,
            "proven": self.proven,
            "router": [],
            "peers": self.peers,
            "hooks": self.hooks,
        }


def order_of(parcel: Parcel, phase: str, course: Course, check: bool) -> Order | None:
    """What the parcel's host does in a phase; None for nothing. One whose course is over gives its lock back in whatever phase is next."""
    share = parcel.plan.share(parcel.host)
    if share is None:
        return None
    if course.over:
        return Order(share, "unlock") if course.locked and not check else None
    if not course.goes_on or phase == "unlock" or not (check or parcel.takes_part(course)):
        return None
    return _ORDERS[phase](parcel, share, course, check)


# -- a phase each --------------------------------------------------------------------------------------------------------------------


def _here(share: Share) -> Slice:
    return share.here()[1]


def _prepare(parcel: Parcel, share: Share, course: Course, check: bool) -> Order | None:  # noqa: ARG001
    fetches = parcel.plan.action != "remove" and traits_of(parcel.plan.runtime or UNNOTED).images
    return Order(share, "prepare") if fetches and _here(share).create else None


def _lock(parcel: Parcel, share: Share, course: Course, check: bool) -> Order | None:  # noqa: ARG001
    return Order(share, "lock")


def _deregister(parcel: Parcel, share: Share, course: Course, check: bool) -> Order | None:  # noqa: ARG001
    """The record says so before any hook is told: a run that dies between the two leaves nothing that looks as if it served."""
    if not (withdraws(parcel.plan) and _has_part(share)):
        return None
    known = names(hooks_of(parcel.plan))
    why = f"it is taken from {known} before anything stops" if known else "clients are sent to another formation"
    return Order(share, "deregister", why=why)


def _drain(parcel: Parcel, share: Share, course: Course, check: bool) -> Order | None:  # noqa: ARG001
    """Once nobody is sent there any more, what runs is given time to end. A hook that sees that by itself has waited for it."""
    withdrawn = [one for one in parcel.plan.hooks or () if one.withdraws]
    waits = withdraws(parcel.plan) and not (withdrawn and all(one.hook.waits for one in withdrawn))
    return Order(share, "drain") if waits and _has_part(share) and not check else None


def _leave(parcel: Parcel, share: Share, course: Course, check: bool) -> Order | None:  # noqa: ARG001
    """Members that leave are out of the router before they stop: over its API, or by a router without them."""
    plan = parcel.plan
    if not leaves(plan, parcel.phases) or plan.action in TAKES_DOWN or parcel.host not in plan.router.through:
        return None
    router = plan.router
    if router.member is not None and deregisters(plan, parcel.phases):
        told = {"url": router.member.url, "dialect": router.dialect, "model": router.model}
        return Order(share, "leave", peers={**told, "remove": list(router.remove), "only_remove": True})
    if router.early is not None:
        return _of_router(parcel, share, router.early, {}, check, early=True)
    return None


def _router_stop(parcel: Parcel, share: Share, course: Course, check: bool) -> Order | None:  # noqa: ARG001
    wanted = parcel.plan.action in TAKES_DOWN and "router_stop" in parcel.phases
    return Order(share, "router_stop") if wanted and _has_part(share) else None


def _stop(parcel: Parcel, share: Share, course: Course, check: bool) -> Order | None:  # noqa: ARG001
    return Order(share, "stop") if stops(parcel.plan, parcel.phases) and _has_part(share) else None


def _forget(parcel: Parcel, share: Share, course: Course, check: bool) -> Order | None:  # noqa: ARG001
    return Order(share, "forget") if parcel.plan.action == "remove" else None


def _start(parcel: Parcel, share: Share, course: Course, check: bool) -> Order | None:  # noqa: ARG001
    return Order(share, "start") if parcel.plan.action != "remove" and _has_part(share) else None


def _undo(parcel: Parcel, share: Share, course: Course, check: bool) -> Order | None:
    if check or not course.undoes or not _has_part(share):
        return None
    ending = course.ending
    return Order(undone(share, parcel.plan.kind, ending.undo or () if ending else ()), "stop")


def _router(parcel: Parcel, share: Share, course: Course, check: bool) -> Order | None:
    plan = parcel.plan
    if parcel.host not in plan.router.through or not (check or course.serves):
        return None
    if plan.router.step == "none" and (parcel.because or not parcel.phases & {"router", "start", "wait"}):
        return None
    starts = {name: Start.from_plain(one) for name, one in course.starts.items()}
    return _of_router(parcel, share, course.ready, starts, check, early=False)


def _of_router(
    parcel: Parcel, share: Share, ready: t.Collection[str], starts: t.Mapping[str, Start], check: bool, early: bool
) -> Order | None:
    fitted, held = router_step.at_phase(parcel.plan, share, ready, starts, early, check)
    if held:
        return Order(share, "router", early=early, held=held)
    if not fitted.members_of("router"):
        return None
    return Order(fitted, "router", early=early, peers=_registration(parcel.plan, fitted, ready, check))


def _registration(plan: Plan, share: Share, ready: t.Collection[str], check: bool) -> Plain | None:
    """Which peers a router is told, or is seen to know, once it answers."""
    router, step = share.members_of("router")[0], plan.router
    fresh = router.id in _here(share).create
    # A router that has its peers on its command line, and is left as it is, may have others than those that are ready by now.
    registered = step.policy == "dynamic" or (step.policy == "restart" and fresh)
    if not registered or (check and (fresh or step.policy != "dynamic")):
        return None
    return {
        "url": router.url,
        "dialect": step.dialect,
        "model": step.model,
        "peers": plain([one for one in step.peers if not ready or one.member in ready]),
        # A router with its peers on its command line is only read.
        "manage": step.policy == "dynamic",
        "spare": list(step.spare),
    }


def _endpoint(parcel: Parcel, share: Share, course: Course, check: bool) -> Order | None:
    ending = course.ending
    if ending is None or course.left or parcel.plan.action == "remove":
        return None
    if parcel.host in course.refused:
        # It did nothing, and nothing of it is written there. It may have given its lock, though, and refused after that.
        return None if check else Order(share, "unlock")
    if ending.retired:
        share = replace(share, record=parcel.plan.record)
    if ending.undo is not None:
        share = undone(share, parcel.plan.kind, ending.undo)
    if course.took is not None:
        # For how long its next restart will be expected to take it out.
        share = replace(share, record={**share.record, "took": course.took})
    # What this run takes back the router may name from before.
    lift = ending.lift and ending.undo is None
    return Order(
        share, "endpoint", ending.registered, ending.state, ending.why, lift, ending.proven, hooks=ending.hooks
    )


_ORDERS: dict[str, t.Callable[[Parcel, Share, Course, bool], Order | None]] = {
    "prepare": _prepare,
    "lock": _lock,
    "deregister": _deregister,
    "drain": _drain,
    "leave": _leave,
    "router_stop": _router_stop,
    "stop": _stop,
    "forget": _forget,
    "start": _start,
    "undo": _undo,
    "router": _router,
    "endpoint": _endpoint,
}


# -- of a plan -----------------------------------------------------------------------------------------------------------------------


def withdraws(plan: Plan) -> bool:
    """Whether its endpoint goes out of service before anything stops: it is taken from hooks, or has been given to another stand."""
    return bool(plan.drains) or any(one.withdraws for one in plan.hooks or ())


def hooks_of(plan: Plan) -> list[str]:
    """The hooks that it is taken from before anything stops, by name."""
    return list(dict.fromkeys(one.hook.name for one in plan.hooks or () if one.withdraws))


def leaves(plan: Plan, phases: t.Collection[str]) -> bool:
    """Whether members leave the router before anything stops."""
    return "leave" in phases or ("stop" in phases and plan.router.early is not None)


def deregisters(plan: Plan, phases: t.Collection[str]) -> bool:
    """Whether they leave it over its API."""
    return plan.router.policy == "dynamic" and "leave" in phases and plan.router.member is not None


def stops(plan: Plan, phases: t.Collection[str]) -> bool:
    return plan.action in TAKES_DOWN or "stop" in phases or leaves(plan, phases)


def parts_of(plans: t.Iterable[Plan]) -> dict[str, t.Any]:
    """Which parts of what may be done in a wave there are in one of these plans: what the roles go through. Lists are of hosts."""
    found: dict[str, t.Any] = {
        "fetches": False,
        "fences": False,
        "withdraws": False,
        "announces": False,
        "unroutes": False,
        "stops": False,
        "forgets": False,
        "forms": False,
    }
    retirements = 0
    hosts: set[str] = set()
    routers: set[str] = set()
    leaving: set[str] = set()
    for plan in plans:
        phases = {step.phase for step in plan.steps}
        down = plan.action in TAKES_DOWN
        hosts |= {*plan.through, *plan.hook_hosts}
        found["withdraws"] |= withdraws(plan)
        found["announces"] |= bool(plan.hooks)
        creates = any(here.create for here in plan.hosts.values())
        found["fetches"] |= creates and plan.action != "remove" and traits_of(plan.runtime or UNNOTED).images
        found["fences"] |= bool(plan.fence)
        found["unroutes"] |= down and "router_stop" in phases
        found["stops"] |= stops(plan, phases)
        found["forgets"] |= plan.action == "remove"
        found["forms"] |= plan.action != "remove"
        retirements = max(retirements, len(plan.retire or ()))
        routers |= set(plan.router.through) if plan.action != "remove" else set()
        leaving |= set(plan.router.through) if leaves(plan, phases) and not down else set()
    found["retirements"] = list(range(RETIRES, RETIRES + retirements))
    return {**found, "hosts": sorted(hosts), "routers": sorted(routers), "leaves": sorted(leaving)}


def _has_part(share: Share) -> bool:
    """A place without a part of the workload is locked, and the lock is given back: nothing else."""
    return any(here.part for here in share.hosts.values())


def undone(share: Share, kind: str, undo: t.Collection[str]) -> Share:
    """A share that takes back what a run has created, and nothing else."""
    members = [m for m in share.record.get("members") or () if m.get("id") not in undo]
    router = KINDS[kind].router
    hosts = {place: _slice_undone(share, place, undo, router) for place in share.hosts}
    return replace(share, record={**share.record, "members": members}, hosts=hosts)


def _slice_undone(share: Share, place: str, undo: t.Collection[str], router: bool) -> Slice:
    """A slice that takes back what a run has created, in a round of renewal or before. Its ports are held where there is a `router`: one
    that the run has not touched may name them, from before they were taken."""
    here = share.hosts[place]
    going = tuple(m.id for m in share.members if m.id in undo and m.at(place) is not None)
    gone = [(m, part) for m in share.members for part in m.parts if router and m.id in going and part.host == place]
    vacated = tuple(Vacated(m.id, share.formation, m.url, tuple(sorted(part.held_ports))) for m, part in gone)
    present = tuple(name for name in here.present if name not in undo)
    return replace(here, absent=going, create=(), present=present, holds=(*here.holds, *vacated))
