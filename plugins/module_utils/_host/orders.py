# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The orders that a host gets in one call, one a workload: carried out side by side, so that none waits while another one drains, and each
fails alone.

What they share is made for threads: the store, whose lock is held by one of them at a time and never while members drain; the drivers, of
which each call opens a connection of its own thread; and a look at all members, which would else be taken by each."""

from __future__ import annotations

import threading
import time
import typing as t
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

from .. import _runtimes
from .._core.base.errors import PdError
from .._core.base.plain import Plain, every, reading
from .._core.runtimes.table import NAMES, ON_HOSTS, UNNOTED
from .._core.work.share import Share
from .._runtimes.errors import BusyError
from .._runtimes.masking import masked
from .._runtimes.protocol import Driver, Live
from .._runtimes.state import State
from .._runtimes.store import Store
from .failure import told
from .members import PHASES, Order, Work, World

if t.TYPE_CHECKING:
    from .service import Register

# What there can be on a host.
HERE = tuple(dict.fromkeys((UNNOTED, *ON_HOSTS)))
# Each may have as many threads again, for members that drain or stop.
SIDE_BY_SIDE = 16
# The phases in which a router is spoken to.
ROUTED = ("leave", "router")
_REGISTERED = {"yes": True, "no": False, "keep": None}
_WAY_OUT = "It is made by the action plugin of module members: do not call the module by itself."
Result = dict[str, t.Any]


class Looks:
    """Looks at the members of a runtime, shared by works that run side by side: who asks while another one looks gets the look after that,
    with all who have asked by then."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._began = float("-inf")
        self._seen: t.Sequence[Live] | PdError = ()

    def at(self, driver: Driver) -> t.Sequence[Live]:
        asked = time.monotonic()
        with self._mutex:
            if self._began <= asked:
                self._began = time.monotonic()
                self._seen = self._look(driver)
            if isinstance(self._seen, PdError):
                raise self._seen
            return self._seen

    @staticmethod
    def _look(driver: Driver) -> t.Sequence[Live] | PdError:
        """One that fails has failed for all: a container engine that hangs is not waited for again by each."""
        try:
            return driver.members()
        except PdError as exc:
            return exc


class Host:
    """What the orders of a call have in common: store, drivers and world. `driver` makes that of a runtime, which is done once; `runtimes`
    are those that there can be here, the first one for what is noted nowhere; `register` speaks to a workload's router where this host does
    not."""

    def __init__(
        self,
        store: Store,
        driver: t.Callable[[str], Driver],
        world: World | None = None,
        runtimes: t.Sequence[str] = HERE,
        register: t.Callable[[str], Register] | None = None,
    ) -> None:
        self.store, self.runtimes, self.register = store, runtimes, register
        self._make = driver
        self._mutex = threading.Lock()
        self._drivers: dict[str, Driver] = {}
        self._looks: dict[str, Looks] = {}
        self.world = replace(world or World(), look=lambda one: self._looks[one.name].at(one))

    @classmethod
    def here(cls, state: State, options: t.Mapping[str, t.Any] | None = None, world: World | None = None) -> Host:
        """This very host."""
        return cls(state, lambda name: _runtimes.driver(name, state, options), world)

    def driver(self, name: str) -> Driver:
        with self._mutex:
            if name not in self._drivers:
                made = self._make(name)
                self._drivers[name], self._looks[made.name] = made, Looks()
            return self._drivers[name]

    def work(self, order: Order) -> Work:
        """The work of an order, with the drivers of all that its group may have here: what is asked for, and what runs."""
        share = order.share
        # A group that has moved between hosts and clusters: what it had here is of what there can be here.
        moved = share.runtime in NAMES and share.runtime not in self.runtimes
        chosen = self.driver(share.runtime if share.runtime and not moved else self.runtimes[0])
        there = {*_runtimes.used(self.store, share.group), *(n for here in share.hosts.values() for n in here.runtimes)}
        others = sorted((there & set(self.runtimes)) - {chosen.name})
        return Work(order, self.store, chosen, [self.driver(name) for name in others], self.world)


@dataclass(frozen=True)
class Call:
    """What is the same for all orders of a call. `secrets` are values by workload, member and variable, `keys` those that members ask for
    by workload and role."""

    holder: t.Mapping[str, t.Any] = field(default_factory=lambda: {"who": "unknown"})
    break_lock: bool = False
    check: bool = False
    secrets: t.Mapping[str, t.Mapping[str, t.Mapping[str, str]]] = field(default_factory=dict, repr=False)
    keys: t.Mapping[str, t.Mapping[str, str]] = field(default_factory=dict, repr=False)

    def order(self, raw: Plain) -> Order:
        """An order as it is given: {plan, phase} and what that phase needs (Order). Raises PdError for what is none."""
        share, phase = Share.from_plain(raw.get("plan") or {}), raw.get("phase")
        if phase not in PHASES:
            raise PdError(f"There is no such phase. {_WAY_OUT}")
        with reading("An order", _WAY_OUT):
            return Order(
                share=share,
                phase=phase,
                holder=self.holder,
                secrets=self.secrets.get(share.group) or {},
                break_lock=self.break_lock,
                registered=_REGISTERED[raw.get("registered") or "no"],
                state=raw.get("state") or "partial",
                lift=bool(raw.get("lift")),
                proven=bool(raw.get("proven")),
                check=self.check,
                why=raw.get("why") or "",
                router=every(raw, "router"),
                peers=raw.get("peers"),
                keys=self.keys.get(share.group) or {},
                hooks=raw.get("hooks"),
            )


def run_orders(orders: t.Sequence[Plain], call: Call, host: Host) -> dict[str, Result]:
    """Carry out all of them. Returns the result of each by its workload; nothing is raised, one that fails is `failed` and says why."""
    names = [workload_of(raw) for raw in orders]
    if len(set(names)) < len(names):
        return refused_all(orders, PdError(f"it has two orders in one call. {_WAY_OUT}"))
    if len(orders) < 2:
        return {name: _alone(raw, call, host) for name, raw in zip(names, orders)}
    with ThreadPoolExecutor(max_workers=min(SIDE_BY_SIDE, len(orders))) as pool:
        return dict(zip(names, pool.map(lambda raw: _alone(raw, call, host), orders)))


def workload_of(raw: Plain) -> str:
    """Whose order it is, of whatever shape it is."""
    plan = raw.get("plan")
    return str(plan.get("group")) if isinstance(plan, t.Mapping) else "unknown"


def refused(raw: Plain, exc: Exception) -> Result:
    """The result of an order that was not carried out, or not to its end."""
    phase, group = raw.get("phase"), workload_of(raw)
    what: Result = {"changed": False, "failed": True, "ok": False, "phase": phase, "group": group, "warnings": []}
    busy = {"busy": True} if isinstance(exc, BusyError) else {}
    return {**what, **busy, "msg": told(f"Phase {phase} of group {group}", exc)}


def refused_all(orders: t.Sequence[Plain], exc: Exception) -> dict[str, Result]:
    """The results of a call that cannot be carried out at all."""
    return {workload_of(raw): refused(raw, exc) for raw in orders}


def _alone(raw: Plain, call: Call, host: Host) -> Result:
    """The result of one order, whatever becomes of it: the others must not fall with it."""
    try:
        result = _carry_out(call.order(raw), host)
    except Exception as exc:  # noqa: BLE001 - a fault of this code, too, is the workload's own
        result = refused(raw, exc)
    return _hidden(result, call.secrets.get(workload_of(raw)) or {})


def _carry_out(order: Order, host: Host) -> Result:
    work = host.work(order)
    result = work.run()
    if result["failed_members"]:
        reasons = " ".join(result["failed_members"].values())
        msg = f"Phase {order.phase} of group {work.group} on {work.host}: {reasons}"
        return {**result, "failed": True, "ok": False, "msg": msg}
    if order.phase in ROUTED:
        # The other phases need nothing of what looks at members.
        from .service import see_to_router

        told = (host.register(work.group),) if host.register else ()
        result |= see_to_router(order, host.store, work.driver, *told)
    return _judged({**result, "ok": True})


def _judged(result: Result) -> Result:
    """The result with what became of a router's peers. A router that does not answer yet is no failure: the controller waits for it."""
    peers = result.get("peers") or {}
    result["changed"] = bool(result["changed"] or peers.get("changed"))
    result["warnings"] = [*result["warnings"], *(peers.pop("warnings", None) or ())]
    if peers.get("failed"):
        result |= {"failed": True, "ok": False, "msg": peers.get("msg") or "the router did not take its peers"}
    return result


def _hidden(result: Result, secrets: t.Mapping[str, t.Mapping[str, str]]) -> Result:
    """The result without values of its secrets in texts that are not this collection's own words: a container engine may repeat what it was
    given."""
    values = [value for one in secrets.values() for value in one.values()]
    result["warnings"] = masked(result["warnings"], values)
    if "failed_members" in result:
        failed = result["failed_members"]
        result["failed_members"] = dict(zip(failed, masked(failed.values(), values)))
    if "msg" in result:
        result["msg"] = masked([result["msg"]], values)[0]
    return result
