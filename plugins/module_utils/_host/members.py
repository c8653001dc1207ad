# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The phases of a plan on one host: each is carried out on the host's own slice, all of its members in one call."""

from __future__ import annotations

import contextlib
import hashlib
import json
import threading
import time
import typing as t
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from .._core.base.checked import Checked, DamagedError, ports_of
from .._core.base.errors import PdError
from .._core.base.plain import to_plain
from .._core.base.printable import printable
from .._core.facts import applied, observed, record
from .._core.facts.cordon import Cordon
from .._core.facts.label import SCHEMA
from .._core.work.member import Member, Part, Stop
from .._core.work.share import Share
from .._probes import ports
from .._probes.logs import TAIL_LINES
from .._runtimes.errors import BusyError, HostError
from .._runtimes.protocol import Driver, Foresees, Live, Prepares, Wanted
from .._runtimes.store import Store
from . import lock
from .drain import drain
from .wait import ENGINE_ROLES, doubts

PHASES = (
    "prepare",
    "lock",
    "unlock",
    "deregister",
    "drain",
    "leave",
    "router_stop",
    "stop",
    "start",
    "router",
    "endpoint",
    "forget",
)
# What one record says differently from another without saying another thing.
_BOOKKEEPING = ("serial", "lock", "updated")
_NEW_PLAN = "Run again: the new plan takes what is free then."


@dataclass
class Order:
    """What is to be done: the host's share of the plan, at one place, and the phase. `registered` is whether the endpoint is, None to leave
    that as it is, and `why` it is not; `lift` whether the router is seen to name nobody that is gone, `proven` whether a
    proof was good. What a router's phase is to see to
    beside members: `router` is the one that was started, or nobody, `peers` what it is to be told (service.py), `keys` by role."""

    share: Share
    phase: str
    holder: t.Mapping[str, t.Any]
    secrets: t.Mapping[str, t.Mapping[str, str]] = field(default_factory=dict)
    break_lock: bool = False
    registered: bool | None = False
    state: str = "partial"
    lift: bool = False
    proven: bool = False
    check: bool = False
    why: str = ""
    router: t.Sequence[t.Mapping[str, t.Any]] = ()
    peers: t.Mapping[str, t.Any] | None = None
    keys: t.Mapping[str, str] = field(default_factory=dict, repr=False)
    # What the record says of hooks that were told of the endpoint; None for what the plan says of them.
    hooks: t.Mapping[str, t.Any] | None = None


def look(driver: Driver) -> t.Sequence[Live]:
    """Every member that a runtime has on this host."""
    return driver.members()


@dataclass(frozen=True)
class World:
    """What work asks of its host beside store and runtimes. A test has a world of its own."""

    now: t.Callable[[], float] = time.time
    busy: t.Callable[[t.Collection[int]], t.Mapping[int, str]] = ports.busy
    drain: t.Callable[..., str] = drain
    look: t.Callable[[Driver], t.Sequence[Live]] = look


class Work:
    """One phase on this host. `driver` makes members; `others` are those that members of the group run under since before its spec named
    another one: what they run must be seen, and be stopped, all the same."""

    def __init__(
        self, order: Order, store: Store, driver: Driver, others: t.Sequence[Driver] = (), world: World | None = None
    ) -> None:
        self.order, self.store, self.driver = order, store, driver
        self.world = world or World()
        self.drivers = {one.name: one for one in (*others, driver)}
        self.share = order.share
        self.group, self.formation = self.share.group, self.share.formation
        self.host, self.part = self.share.here()
        self.before = self._mine()
        self.created: list[str] = []
        self.removed: list[str] = []
        self.adopted: list[str] = []
        self.failed: dict[str, str] = {}
        self.drained: dict[str, str] = {}
        self.warnings: list[str] = []
        self.logs: dict[str, str] = {}
        self.doubts: dict[str, t.Any] = {}
        self.images: dict[str, t.Any] = {}
        self.lock: dict[str, t.Any] | None = None
        self.record_changed = False

    def _mine(self) -> dict[str, Live]:
        every = (live for one in self.drivers.values() for live in self.world.look(one))
        return {live["label"]["member"]: live for live in every if live["label"]["group"] == self.group}

    def _sweep(self) -> None:
        for one in self.drivers.values():
            one.sweep()

    def run(self) -> dict[str, t.Any]:
        """Do it. Members that fail are told in the result; what stops the phase as a whole is a PdError."""
        phases: dict[str, t.Callable[[], None]] = {
            "prepare": self._prepare,
            "lock": self._lock,
            "unlock": self._unlock,
            "deregister": self._take_out,
            "drain": self._drain,
            "leave": self._leave,
            "router_stop": self._router_stop,
            "stop": self._stop,
            "start": self._start,
            "router": self._router,
            "endpoint": self._endpoint,
            "forget": self._forget,
        }
        phases[self.order.phase]()
        # What a check run would leave is told from what it would have done; what nobody has touched needs no second look.
        touched = self.created or self.removed or self.failed
        gone = set(self.removed) - set(self.created)
        after = self._mine() if touched and not self.order.check else set(self.before) - gone
        return {
            "changed": bool(self.created or self.removed or self.adopted or self.record_changed),
            "phase": self.order.phase,
            "group": self.group,
            "created": self.created,
            "removed": self.removed,
            "adopted": self.adopted,
            "kept": sorted(set(after) - set(self.created)),
            "failed_members": self.failed,
            "drained": self.drained,
            "logs": self.logs,
            "doubts": self.doubts,
            "images": self.images,
            "warnings": self.warnings,
            "lock": self.lock,
        }

    # -- phases --------------------------------------------------------------------------------------------------------------------

    def _prepare(self) -> None:
        """What takes long, or may not work at all, before anything stops: a run that ends here has changed nothing that serves."""
        if not self.order.check and isinstance(self.driver, Prepares):
            batch = [self._wanted(m) for m in self.share.members if m.id in self.part.create]
            self.warnings += self.driver.prepare(batch)
            self.images = self.driver.images(sorted({one.part.image for one in batch if one.part.image}))

    def _lock(self) -> None:
        """The last moment at which nothing has changed anywhere: what this host cannot start is said now, and not after the stop."""
        if isinstance(self.driver, Foresees):
            wanted = [self._wanted(m) for m in self.share.members if m.id in self.part.create]
            refused = self.driver.refusals(wanted)
            if refused:
                raise HostError(
                    f"Starting members of group {self.group} on {self.host}",
                    "; ".join(dict.fromkeys(refused)),
                    "Nothing was changed. Correct that, then run again.",
                )
        self._begin()

    def _unlock(self) -> None:
        if not self.order.check:
            lock.release(self.store, self.group, self.order.holder)
            if not self.part.part:
                # It was locked and nothing else: nothing of that stays.
                self._sweep()

    def _take_out(self) -> None:
        """Before any hook is told that clients go elsewhere, the record says so: a run that dies after it is seen to have begun."""
        self._begin()
        self._deregister()

    def _drain(self) -> None:
        """Clients are sent elsewhere, and the router goes next: what runs in the engines behind it is given time to end. These are of the
        formation that the record has: that of a restart is still to come."""
        self._begin()
        formation = (self._record() or {}).get("formation")
        labels = [live["label"] for live in self.before.values() if live["state"] == "running"]
        engines = [
            label for label in labels if label["role"] in ENGINE_ROLES and label.get("formation") in (None, formation)
        ]
        if self.order.check or not engines:
            return
        with self._held(), ThreadPoolExecutor(max_workers=min(16, len(engines))) as pool:
            left = pool.map(lambda one: self.world.drain(one, _drain_of(one), ()), engines)
            self.drained = {label["member"]: text for label, text in zip(engines, left) if text}

    def _leave(self) -> None:
        """Members are taken out of the router, which is a change like any other (service.py makes it)."""
        self._begin()

    def _router_stop(self) -> None:
        self._begin()
        self._deregister()
        self._remove([i for i in self.part.absent if i in self.before and self.before[i]["label"]["role"] == "router"])

    def _stop(self) -> None:
        self._begin()
        draining = self.share.action not in ("restart", "remove")
        self._hold_ports()
        if draining and not self.order.check:
            self._mark_draining()
        self._remove(list(self.part.absent), draining)
        if not self.part.create and not self.order.check:
            self._sweep()

    def _start(self) -> None:
        self._begin()
        self._assert_one_formation()
        with self._locked():
            # First what is to be, then what is: whoever comes after a run that dies here finds the places in the record. And before the
            # record forgets a place, its ports are held.
            self._hold_ports()
            self._write_forming()
            self._bury_lost()
            self._adopt()
        self._create(self._coming(router=False))

    def _router(self) -> None:
        self._begin()
        self._assert_one_formation()
        self._create(self._coming(router=True))
        if not self.order.check:
            # Registration comes next, and is a change like any other.
            with self._locked():
                lock.check(self.store, self.group, self.order.holder)

    def _endpoint(self) -> None:
        self.doubts = {} if self.order.check else self._doubted()
        if self.part.forgets and not self.before:
            self._forget_record()
        elif self.part.part:
            with self._locked():
                now = self._record() or {}
                after = self._after(now)
                self.record_changed = _says(after) != _says(now)
                served = bool(after["endpoint"]["registered"])
                if self.order.check:
                    self.record_changed |= self.store.serve(self.group, served, True)
                    return
                if self.record_changed:
                    lock.check(self.store, self.group, self.order.holder)
                    self.store.write_record(self.group, {**after, "updated": round(self.world.now(), 3)})
                self.record_changed |= self.store.serve(self.group, served, False)
        if not self.order.check:
            if self.order.lift and self.store.holds(self.group):
                with self.store.lock():
                    lock.check(self.store, self.group, self.order.holder)
                    self.store.write_holds(self.group, [])
            lock.release(self.store, self.group, self.order.holder)
            self._sweep()

    def _forget_record(self) -> None:
        """Of a host that was emptied: with the last member its record goes, and the host is nobody's concern."""
        with self._locked():
            self.record_changed = self._record() is not None
            if not self.order.check:
                lock.check(self.store, self.group, self.order.holder)
                self.store.delete_group(self.group)

    def _doubted(self) -> dict[str, t.Any]:
        """What members have logged that makes their answers doubtful: the proof has just sent them requests."""
        found = {}
        for name, live in self._mine().items():
            driver = self.drivers.get(str(live["label"].get("runtime")), self.driver)
            with contextlib.suppress(PdError):
                if live["state"] == "running" and live["label"]["role"] in ENGINE_ROLES:
                    found[name] = doubts(live, driver.logs(self.group, name, TAIL_LINES))
        return {name: doubt for name, doubt in found.items() if doubt}

    def _after(self, now: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
        """The record as it is once all is done."""
        after = {**self.share.record, "state": self.order.state}
        if self.order.proven:
            after = applied.as_proven(after)
        endpoint = after.get("endpoint") or {}
        registered = self.order.registered
        if registered is None:
            # What nobody could see leaves what was said as it is.
            after["state"] = now.get("state", after["state"])
            registered = bool((now.get("endpoint") or {}).get("registered"))
            why = str((now.get("endpoint") or {}).get("why") or "")
        else:
            why = "" if registered else printable(self.order.why, 600)
        told: dict[str, t.Any] = {"why": why} if why else {}
        told |= {} if self.order.hooks is None else {"hooks": dict(self.order.hooks)}
        return {**after, "endpoint": {**endpoint, "registered": registered, **told}}

    def _forget(self) -> None:
        if not self.part.part:
            return self._unlock()
        try:
            self._forget_all()
        except PdError:
            # No phase comes after it that would.
            self._unlock()
            raise
        self._unlock()
        if not self.order.check:
            self._sweep()
        return None

    def _forget_all(self) -> None:
        with self._locked():
            if not self.order.check:
                # First who holds it: that members are there may follow from it.
                lock.check(self.store, self.group, self.order.holder)
            if self.before and not self.order.check:
                raise HostError(
                    f"Forgetting group {self.group} on {self.host}",
                    f"{', '.join(sorted(self.before))} of it are still there",
                    "Remove the group again: what could not be stopped is told then.",
                )
            self.record_changed = self._record() is not None
            if not self.order.check:
                self._bury()

    def _bury_lost(self) -> None:
        """What lost hosts had, by the record: it is written first, so that nobody takes them for places where nothing was."""
        lost = sorted({str(grave.get("host")) for grave in self.share.record.get("tombstones") or ()})
        if lost and not self.order.check:
            lock.check(self.store, self.group, self.order.holder)
            self.store.bury(self.group, lost)

    def _bury(self) -> None:
        """What is left of a group that was removed: nothing, but for what a lost host may still run."""
        if not self.part.hold:
            self.store.write_holds(self.group, [])
        self._bury_lost()
        if self.share.record.get("tombstones"):
            self.store.write_record(self.group, {**self.share.record, "updated": round(self.world.now(), 3)})
        else:
            self.store.delete_group(self.group)

    def _deregister(self) -> None:
        """Out of service before anything stops: the record says so on every host."""
        with self._locked():
            now = self._record() or {}
            endpoint = now.get("endpoint") or {}
            if endpoint.get("registered"):
                self.record_changed = True
                if not self.order.check:
                    lock.check(self.store, self.group, self.order.holder)
                    told = {"why": printable(self.order.why, 600)} if self.order.why else {}
                    self.store.write_record(self.group, {**now, "endpoint": {**endpoint, "registered": False, **told}})
                    self.store.serve(self.group, False, False)

    # -- may we? -------------------------------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        """Take or renew the group's lock. Where this run does not have it yet, a plan that is out of date is refused."""
        with self._locked():
            now = self.store.group_lock(self.group)
            # First who holds it: that members have changed since the plan follows from it.
            self.lock = lock.taken(now, self.order.holder, self.group, self.world.now(), self.order.break_lock)
            if not lock.same(now, self.order.holder):
                lock.apart(self.store, self.group, self.order.holder, self.world.now(), self.order.break_lock)
                self._check_fresh()
            if not self.order.check:
                self.store.write_lock(self.group, self.lock)

    def _locked(self) -> t.ContextManager[None]:
        """The host's lock; check mode leaves nothing behind, not even that."""
        return contextlib.nullcontext() if self.order.check else self.store.lock()

    def _record(self) -> dict[str, t.Any] | None:
        """The group's record; one that is damaged is none, and is written again."""
        try:
            return self.store.record(self.group)
        except DamagedError:
            return None

    @contextlib.contextmanager
    def _held(self) -> t.Iterator[None]:
        """Renew the group's lock while members drain and stop, which may take longer than it lives."""
        over = threading.Event()
        holder = self.order.holder

        def renew() -> None:
            while not over.wait(float(holder.get("ttl") or lock.DEFAULT_TTL) / 3):
                # A look at the disk that fails is tried again: the next phase says so if the lock has been lost.
                with contextlib.suppress(PdError):
                    lock.hold(self.store, self.group, holder)

        renewer = threading.Thread(target=renew, daemon=True)
        renewer.start()
        try:
            yield
        finally:
            over.set()
            renewer.join()

    def _check_fresh(self) -> None:
        """Refuse a plan that rests on what is no more: what the group has here; and where places are taken, what any group has."""
        seen = self.part.observed
        labels = self.store.labels()
        stale = ""
        if seen.group and observed.digest_of_group(self.group, labels, self._record()) != seen.group:
            stale = "another run has changed its members since the plan was made"
        elif seen.host and observed.digest(labels, seen.together) != seen.host:
            stale = "another run has changed the members of this host since the plan was made"
        cordon = self.store.cordon() if self.part.create and not seen.cordoned else None
        if cordon:
            self._refuse_cordoned(Cordon.read(Checked(cordon, "the mark of this host")))
        if not stale:
            return
        newest = sorted(labels, key=lambda label: -float(label.get("created") or 0))[:3]
        ages = [
            f"{label['member']} ({max(0, round(self.world.now() - float(label.get('created') or 0)))} s ago)"
            for label in newest
        ]
        raise BusyError(
            f"Checking the plan for {self.host}",
            f"{stale}; " + (f"created last: {', '.join(ages)}" if ages else "there are none any more"),
            "Nothing was changed here. Run again: the new plan takes it into account.",
        )

    def _refuse_cordoned(self, cordon: Cordon) -> t.NoReturn:
        raise HostError(
            f"Checking the plan for {self.host}",
            f"it has been {cordon.told()} since the plan was made",
            "Nothing was changed here. Run again: the new plan seats nobody there.",
        )

    def _assert_one_formation(self) -> None:
        """Whatever a plan says: beside members of another formation nothing starts and nothing is registered."""
        if self.formation is None or self.order.check:
            return
        others = [
            name
            for name, live in self.before.items()
            if live["state"] in observed.ALIVE
            and name not in self.part.create
            and live["label"].get("formation") != self.formation
            and name not in self.part.adopt
        ]
        if others:
            raise HostError(
                f"Starting members of group {self.group} on {self.host}",
                f"{', '.join(sorted(others))} of another formation still run here",
                f"Nothing was started here. Run again; or restart the group: inferops.pd.restart -e pd_group={self.group}.",
            )

    # -- removing ------------------------------------------------------------------------------------------------------------------

    def _hold_ports(self) -> None:
        """A router that may still name who leaves must not find anybody else at that port."""
        wanted = self.part.holds
        if not wanted or self.order.check:
            return
        with self._locked():
            there = self.store.holds(self.group)
            held = {(h["member"], h.get("formation"), tuple(h["ports"])) for h in there}
            fresh = [h for h in wanted if (h.member, h.formation, h.ports) not in held]
            if fresh:
                lock.check(self.store, self.group, self.order.holder)
                since = {"group": self.group, "since": round(self.world.now(), 3)}
                self.store.write_holds(self.group, [*there, *({**to_plain(h), **since} for h in fresh)])

    def _remove(self, ids: t.Sequence[str], draining: bool = False) -> None:
        """Remove members side by side: their graces must not add up."""
        found = [i for i in ids if i in self.before]
        if self.order.check:
            self.removed += found
            return
        if not found:
            return
        with self._held(), ThreadPoolExecutor(max_workers=min(16, len(found))) as pool:
            for name, problem in zip(found, pool.map(lambda i: self._remove_one(i, draining), found)):
                if problem:
                    self.failed[name] = problem
                else:
                    self.removed.append(name)
                    log = self.store.kept_log(self.group, name)
                    self.logs |= {name: log} if log else {}

    def _mark_draining(self) -> None:
        """Before a member is waited for: it has left the router, and whoever comes after a run that is killed now goes on removing it. The
        count that this run was asked for is noted with it."""
        going = [i for i in self.part.absent if i in self.before and self.before[i]["state"] == "running"]
        going = [i for i in going if self.before[i]["label"]["role"] != "router" and self._is_ours(i)]
        if not going:
            return
        with self._locked():
            lock.check(self.store, self.group, self.order.holder)
            for name in going:
                self.store.mark_draining(self.group, name)
            now = self._record()
            after = self.share.record
            if now and now.get("desired") != after.get("desired") and now.get("formation") == after.get("formation"):
                told = {"desired": after.get("desired"), "serial": after.get("serial")}
                self.store.write_record(self.group, {**now, **told})

    def _is_ours(self, name: str) -> bool:
        """Whether a member that goes is one of the group: what a stray is doing is not waited for."""
        label = self.before[name]["label"]
        return self.formation is None or label.get("formation") in (None, self.formation)

    def _remove_one(self, name: str, draining: bool) -> str:
        """Drain and remove one member. Returns why it could not be removed."""
        live = self.before[name]
        stop = live["label"].get("stop") or {}
        try:
            if draining and live["state"] == "running" and self._is_ours(name):
                upstream = to_plain(self.share.upstream) if live["label"]["role"] == "decode" else ()
                left = self.world.drain(live["label"], _drain_of(live["label"]), upstream)
                if left:
                    self.drained[name] = left
            with self.store.lock():
                lock.check(self.store, self.group, self.order.holder)
            its = self.drivers.get(str(live["label"].get("runtime")), self.driver)
            its.remove(self.group, name, Stop.from_plain(stop).patience)
        except PdError as exc:
            return str(exc)
        return ""

    # -- creating ------------------------------------------------------------------------------------------------------------------

    def _coming(self, router: bool) -> list[Member]:
        return [m for m in self.share.members if m.id in self.part.create and (m.role == "router") == router]

    def _create(self, wanted: t.Sequence[Member]) -> None:
        todo = [m for m in wanted if not self._is_there(m)]
        # In check mode those that an earlier phase removes are still there.
        self._remove([m.id for m in todo if not (self.order.check and m.id in self.part.absent)])
        todo = [m for m in todo if m.id not in self.failed]
        if self.order.check:
            self.created += [m.id for m in todo]
            return
        with self.store.lock():
            for done in self.driver.create([self._wanted(member) for member in todo], self._admit):
                if done.error is not None:
                    self.failed[done.member] = done.error
                else:
                    self.created.append(done.member)
                    self.warnings += done.warnings

    def _wanted(self, member: Member) -> Wanted:
        return Wanted(member, self._here(member), self.order.secrets.get(member.id, {}))

    def _admit(self, wanted: Wanted) -> dict[str, t.Any]:
        """The label of a member that may be created now; PdError for one that may not."""
        lock.check(self.store, self.group, self.order.holder)
        self._check_room(wanted)
        return self._label(wanted)

    def _adopt(self) -> None:
        """Members that an earlier version started get the formation in their label. What they run is not touched."""
        for name in self.part.adopt:
            live = self.before.get(name)
            if live is None or live["label"].get("formation") is not None:
                continue
            self.adopted.append(name)
            if not self.order.check:
                lock.check(self.store, self.group, self.order.holder)
                kept = self.store.label(self.group, name) or live["label"]
                taken_over = {"schema": SCHEMA, "formation": self.formation, "adopted": True}
                self.store.write_label({**kept, **taken_over})

    def _here(self, member: Member) -> Part:
        """The part of a member at this place. A share has no other members."""
        part = self.share.part_of(member)
        if part is None:
            raise PdError(f"Member {member.id} has no part on {self.host}: the plan is not this host's.")
        return part

    def _is_there(self, member: Member) -> bool:
        """Whether this run has made the member already: a phase may be carried out twice. One that runs from before counts for nothing: the
        plan says create, because it is stuck, or because a router's peers were replaced at the same addresses."""
        live = self.before.get(member.id)
        if live is None or live["state"] not in observed.ALIVE:
            return False
        label, part = live["label"], self._here(member)
        same = all(label.get(key) == part.labels.get(key) for key in ("revision", "generation", "formation"))
        if not same or label.get("argv_digest") != argv_digest(part):
            return False
        return bool(self.lock and label.get("run") == self.lock["run"])

    def _label(self, wanted: Wanted) -> dict[str, t.Any]:
        member, part, _secrets = wanted
        probe = to_plain(member.probe)
        return {
            **part.labels,
            "runtime": self.driver.name,
            "identity": dict(member.identity),
            "argv_digest": argv_digest(part),
            "secrets": list(part.secrets),
            # A member that leaves is in no plan any more: how it is stopped stays with it.
            "restart": int(member.restart.get("attempts") or 0),
            "stop": to_plain(member.stop),
            "probe": {key: probe[key] for key in ("busy", "done", "held", "metrics", "listening")},
            "created": round(self.world.now(), 3),
            "run": self.order.holder.get("run"),
        }

    def _check_room(self, wanted: Wanted) -> None:
        """Ports and GPUs of a member must be free now, whatever the plan took for granted."""
        part, name = wanted.part, wanted.member.id
        doing = f"Creating member {name} on {self.host}"
        mine = part.held_ports
        for label in self.store.beside(part.host):
            if label["member"] == name and label["group"] == self.group:
                continue
            clash = sorted(mine & ports_of(label.get("port"), label.get("ports") or {}))
            if clash:
                raise HostError(doing, f"port {clash[0]} is held by member {label['member']}", _NEW_PLAN, name)
            shared = sorted(set(part.gpus) & set(map(str, label.get("gpus") or ())))
            if shared:
                raise HostError(doing, f"GPU {shared[0]} is held by member {label['member']}", _NEW_PLAN, name)
        for hold in self.store.holds():
            clash = sorted(mine & set(hold["ports"]))
            if clash and (hold["group"] != self.group or self.part.hold):
                why = f"port {clash[0]} is held: a router of group {hold['group']} may still name it"
                raise HostError(doing, why, _NEW_PLAN, name)
        for port, who in sorted(self.world.busy(mine).items()):
            raise HostError(doing, f"port {port} is taken by {who}", f"End what holds it. {_NEW_PLAN}", name)

    def _write_forming(self) -> None:
        """The record of what is being formed. One that says the same already is left alone; an endpoint of this formation that is
        registered stays so, until it is known that it does not serve."""
        now = self._record() or {}
        after = self.share.record
        hooked = _hooks(after) != _hooks(now)
        if not (self.part.create or self.part.adopt or hooked or record.differs(after, now)):
            return
        if now.get("formation") == after.get("formation") and now.get("state") != record.REMOVED:
            after = {**after, "endpoint": {**(after.get("endpoint") or {}), **_registered(now)}}
        after = {**after, "state": "forming"}
        if _says(after) == _says(now):
            return
        self.record_changed = True
        if not self.order.check and self.part.part:
            lock.check(self.store, self.group, self.order.holder)
            self.store.write_record(self.group, {**after, "updated": round(self.world.now(), 3)})

    # -- telling -------------------------------------------------------------------------------------------------------------------


def argv_digest(part: Part) -> str:
    """What a member is started with, as one value: command, environment, files, names of secrets."""
    told = [list(part.argv), dict(part.env), list(part.files), sorted(part.secrets), part.image]
    return hashlib.sha256(json.dumps(told, sort_keys=True, default=str).encode()).hexdigest()[:16]


def _registered(rec: t.Mapping[str, t.Any]) -> dict[str, bool]:
    return {"registered": bool((rec.get("endpoint") or {}).get("registered"))}


def _drain_of(label: t.Mapping[str, t.Any]) -> float:
    """For how many seconds a member may drain."""
    return float((label.get("stop") or {}).get("drain") or 0)


def _hooks(rec: t.Mapping[str, t.Any]) -> t.Mapping[str, t.Any]:
    return (rec.get("endpoint") or {}).get("hooks") or {}


def _says(rec: t.Mapping[str, t.Any]) -> str:
    return json.dumps({k: v for k, v in rec.items() if k not in _BOOKKEEPING}, sort_keys=True)
