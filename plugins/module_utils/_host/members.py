# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# This module util is PRIVATE to the collection.
"""Carrying out one phase of a plan on one host: its own slice, all of its members in one call."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import threading
import time
import typing as t
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from .. import _runtimes
from .._core import observed, record
from .._core.errors import PdError
from .._probes import ports
from .._runtimes.errors import HostError
from .._runtimes.protocol import Live, Prepares, Runtime
from .._runtimes.state import State
from . import lock
from .drain import drain

PHASES = ("prepare", "lock", "router_stop", "stop", "start", "router", "endpoint", "forget")
DEFAULT_GRACE = 30.0
# What one record says differently from another without saying another thing.
_BOOKKEEPING = ("serial", "lock", "updated")
_NEW_PLAN = "Run again: the new plan takes what is free then."


@dataclass
class Order:
    """What is to be done: the host's slice of the plan, and the phase."""

    plan: t.Mapping[str, t.Any]
    phase: str
    holder: t.Mapping[str, t.Any]
    secrets: t.Mapping[str, t.Mapping[str, str]] = field(default_factory=dict)
    break_lock: bool = False
    registered: bool = False
    state: str = "partial"
    check: bool = False


class Work:
    """One phase on this host. `runtime` makes members; `others` are those that members of the group run under since before its spec named
    another one: what they run must be seen, and be stopped, all the same."""

    def __init__(self, order: Order, state: State, runtime: Runtime, others: t.Sequence[Runtime] = ()) -> None:
        self.order, self.state, self.runtime = order, state, runtime
        self.runtimes = {one.name: one for one in (*others, runtime)}
        self.plan = order.plan
        self.group: str = self.plan["group"]
        self.host, self.part = next(iter(self.plan["hosts"].items()))
        self.before = self._mine()
        self.created: list[str] = []
        self.removed: list[str] = []
        self.failed: dict[str, str] = {}
        self.drained: dict[str, str] = {}
        self.warnings: list[str] = []
        self.logs: dict[str, str] = {}
        self.lock: dict[str, t.Any] | None = None
        self.record_changed = False

    def _mine(self) -> dict[str, Live]:
        every = (live for one in self.runtimes.values() for live in one.members())
        return {live["label"]["member"]: live for live in every if live["label"]["group"] == self.group}

    def _sweep(self) -> None:
        for one in self.runtimes.values():
            one.sweep()

    def run(self) -> dict[str, t.Any]:
        """Do it. Members that fail are told in the result; what stops the phase as a whole is a PdError."""
        before = self._snapshot(self.state.record(self.group), self.before)
        getattr(self, "_" + self.order.phase)()
        # What a check run would leave is told from what it would have done.
        gone = set(self.removed) - set(self.created)
        after = {k: v for k, v in self.before.items() if k not in gone} if self.order.check else self._mine()
        rec = self.state.record(self.group)
        return {
            "changed": bool(self.created or self.removed or self.record_changed),
            "phase": self.order.phase,
            "created": self.created,
            "removed": self.removed,
            "kept": sorted(set(after) - set(self.created)),
            "failed_members": self.failed,
            "drained": self.drained,
            "logs": {name: path for name, path in self.logs.items() if os.path.exists(path)},
            "warnings": self.warnings,
            "lock": self.lock,
            "diff": {
                "before_header": f"{self.group} on {self.host}",
                "after_header": f"{self.group} on {self.host}, after {self.order.phase}",
                "before": before,
                "after": self._expected(rec, after),
            },
        }

    # -- phases --------------------------------------------------------------------------------------------------------------------

    def _prepare(self) -> None:
        """What takes long, or may not work at all, before anything stops: a run that ends here has changed nothing that serves."""
        if not self.order.check:
            wanted = [m for m in self.plan["members"] if m["id"] in self.part["create"]]
            self.warnings += self.runtime.prepare(wanted) if isinstance(self.runtime, Prepares) else []

    def _lock(self) -> None:
        """The group's lock and nothing else: of a run that is refused here, nothing has been done anywhere."""
        self._begin(changing=True)

    def _router_stop(self) -> None:
        self._begin(changing=True)
        self._deregister()
        self._remove(
            [i for i in self.part["absent"] if i in self.before and self.before[i]["label"]["role"] == "router"]
        )

    def _stop(self) -> None:
        self._begin(changing=True)
        draining = self.plan["action"] in ("scale", "deploy")
        if draining and not self.order.check:
            self._mark_draining()
        self._remove(list(self.part["absent"]), draining)
        if not self.part["create"] and not self.order.check:
            self._sweep()

    def _start(self) -> None:
        self._begin(changing=True)
        self._create(
            [m for m in self.plan["members"] if m["id"] in self.part["create"] and m["role"] != "router"], forming=True
        )

    def _router(self) -> None:
        self._begin(changing=False)
        self._create([m for m in self.plan["members"] if m["id"] in self.part["create"] and m["role"] == "router"])

    def _endpoint(self) -> None:
        with self._locked():
            now = self.state.record(self.group) or {}
            self._mine_to_change(now)
            after = {**self.plan["record"], "state": self.order.state}
            after["endpoint"] = {**(after.get("endpoint") or {}), "registered": self.order.registered}
            self.record_changed = _says(after) != _says(now)
            if self.order.check:
                return
            kept = {k: v for k, v in now.items() if k != "lock"}
            if self.record_changed:
                kept = {**after, "updated": round(time.time(), 3)}
            if self.record_changed or "lock" in now:
                self.state.write_record(self.group, kept)
        self._sweep()

    def _forget(self) -> None:
        with self._locked():
            now = self.state.record(self.group)
            self._mine_to_change(now or {})
            if self.before and not self.order.check:
                raise HostError(
                    f"Forgetting group {self.group} on {self.host}",
                    f"{', '.join(sorted(self.before))} of it are still there",
                    "Remove the group again: what could not be stopped is told then.",
                )
            self.record_changed = now is not None
            if not self.order.check:
                self.state.delete_group(self.group)
        if not self.order.check:
            self._sweep()

    def _deregister(self) -> None:
        """Out of service before anything stops: the record says so on every host."""
        with self._locked():
            now = self.state.record(self.group) or {}
            endpoint = now.get("endpoint") or {}
            if endpoint.get("registered"):
                self.record_changed = True
                if not self.order.check:
                    self.state.write_record(self.group, {**now, "endpoint": {**endpoint, "registered": False}})

    # -- may we? -------------------------------------------------------------------------------------------------------------------

    def _begin(self, changing: bool) -> None:
        """Refuse a plan that is out of date, and take or renew the group's lock."""
        with self._locked():
            now = self.state.record(self.group) or self._new_record()
            mine = lock.same(now.get("lock"), self.order.holder)
            # First who holds it: that members have changed since the plan follows from it.
            self.lock = lock.taken(now.get("lock"), self.order.holder, self.group, time.time(), self.order.break_lock)
            if changing and not mine:
                self._check_fresh()
            if not self.order.check:
                self.state.write_record(self.group, {**now, "lock": self.lock})

    def _locked(self) -> t.ContextManager[None]:
        """The host's lock; check mode leaves nothing behind, not even that."""
        return contextlib.nullcontext() if self.order.check else self.state.lock()

    @contextlib.contextmanager
    def _held(self) -> t.Iterator[None]:
        """Renew the group's lock while members drain and stop, which may take longer than it lives."""
        over = threading.Event()
        holder = {**self.order.holder, "since": self.lock["since"]} if self.lock else None

        def renew() -> None:
            while holder and not over.wait(float(holder.get("ttl") or lock.DEFAULT_TTL) / 3):
                # A look at the disk that fails is tried again: the next phase says so if the lock has been lost.
                with contextlib.suppress(PdError):
                    lock.hold(self.state, self.group, holder)

        renewer = threading.Thread(target=renew, daemon=True)
        renewer.start()
        try:
            yield
        finally:
            over.set()
            renewer.join()

    def _mine_to_change(self, now: t.Mapping[str, t.Any]) -> None:
        """Raise when another run has the lock by now: ours had run out."""
        if now.get("lock"):
            lock.taken(now["lock"], self.order.holder, self.group, time.time(), self.order.break_lock)

    def _new_record(self) -> dict[str, t.Any]:
        if self.plan["action"] == "remove":
            return {
                "schema": 1,
                "group": self.group,
                "generation": self.plan["generation"],
                "serial": 0,
                "state": "partial",
            }
        return {**self.plan["record"], "state": "forming"}

    def _check_fresh(self) -> None:
        seen = self.part.get("observed")
        labels = _runtimes.labels(self.state)
        if not seen or observed.digest(labels) == seen:
            return
        newest = sorted(labels, key=lambda label: -float(label.get("created") or 0))[:3]
        ages = [
            f"{label['member']} ({max(0, round(time.time() - float(label.get('created') or 0)))} s ago)"
            for label in newest
        ]
        raise HostError(
            f"Checking the plan for {self.host}",
            "another run has changed its members since the plan was made; "
            + (f"created last: {', '.join(ages)}" if ages else "there are none any more"),
            "Nothing was changed here. Run again: the new plan takes it into account.",
        )

    # -- removing ------------------------------------------------------------------------------------------------------------------

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
                    self.logs[name] = self.state.kept_log_path(self.group, name)

    def _mark_draining(self) -> None:
        """Before a member is waited for: it has left the router, and whoever comes after a run that is killed now goes on removing it. The
        count that this run was asked for is noted with it."""
        going = [i for i in self.part["absent"] if i in self.before and self.before[i]["state"] == "running"]
        going = [i for i in going if self.before[i]["label"]["role"] != "router"]
        if not going:
            return
        with self._locked():
            for name in going:
                self.state.mark_draining(self.group, name)
            now = self.state.record(self.group)
            after = self.plan["record"]
            if now and now.get("desired") != after.get("desired"):
                told = {"desired": after.get("desired"), "serial": after.get("serial")}
                self.state.write_record(self.group, {**now, **told})

    def _remove_one(self, name: str, draining: bool) -> str:
        """Drain and remove one member. Returns why it could not be removed."""
        live = self.before[name]
        stop = live["label"].get("stop") or {}
        try:
            if draining and live["state"] == "running":
                left = drain(live["label"], float(stop.get("drain") or 0))
                if left:
                    self.drained[name] = left
            its = self.runtimes.get(str(live["label"].get("runtime")), self.runtime)
            its.remove(self.group, name, float(stop.get("grace") or DEFAULT_GRACE))
        except PdError as exc:
            return str(exc)
        return ""

    # -- creating ------------------------------------------------------------------------------------------------------------------

    def _create(self, wanted: t.Sequence[t.Mapping[str, t.Any]], forming: bool = False) -> None:
        todo = [m for m in wanted if not self._is_there(m)]
        # In check mode those that an earlier phase removes are still there.
        self._remove([m["id"] for m in todo if not (self.order.check and m["id"] in self.part["absent"])])
        todo = [m for m in todo if m["id"] not in self.failed]
        if self.order.check:
            self.created += [m["id"] for m in todo]
            return
        with self.state.lock():
            for member in todo:
                try:
                    self._check_room(member)
                    self.warnings += self.runtime.create(
                        member, self._label(member), self.order.secrets.get(member["id"], {})
                    )
                    self.created.append(member["id"])
                except PdError as exc:
                    self.failed[member["id"]] = str(exc)
            if forming:
                self._write_forming()

    def _is_there(self, member: t.Mapping[str, t.Any]) -> bool:
        """Whether this run has made the member already: a phase may be carried out twice. One that runs from before counts for nothing: the
        plan says create, because it is stuck, or because a router's peers were replaced at the same addresses."""
        live = self.before.get(member["id"])
        if live is None or live["state"] not in observed.ALIVE:
            return False
        label, part = live["label"], member["parts"][0]
        same = all(label.get(key) == part["labels"].get(key) for key in ("revision", "generation"))
        if not same or label.get("argv_digest") != argv_digest(part):
            return False
        return bool(self.lock and float(label["created"]) >= _epoch(self.lock["since"]))

    def _label(self, member: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
        part, probe = member["parts"][0], member.get("probe") or {}
        return {
            **part["labels"],
            "runtime": self.runtime.name,
            "identity": dict(member.get("identity") or {}),
            "argv_digest": argv_digest(part),
            "secrets": list(part.get("secrets") or ()),
            # A member that leaves is in no plan any more: how it is stopped stays with it.
            "restart": int((member.get("restart") or {}).get("attempts") or 0),
            "stop": dict(member.get("stop") or {}),
            "probe": {key: probe.get(key) for key in ("busy", "held", "metrics", "listening")},
            "created": round(time.time(), 3),
        }

    def _check_room(self, member: t.Mapping[str, t.Any]) -> None:
        """Ports and GPUs of a member must be free now, whatever the plan took for granted."""
        part = member["parts"][0]
        doing = f"Creating member {member['id']} on {self.host}"
        mine = _ports(part)
        for label in _runtimes.labels(self.state):
            if label["member"] == member["id"]:
                continue
            clash = sorted(mine & _ports(label))
            if clash:
                raise HostError(doing, f"port {clash[0]} is held by member {label['member']}", _NEW_PLAN, member["id"])
            shared = sorted(set(map(str, part["gpus"])) & set(map(str, label.get("gpus") or ())))
            if shared:
                raise HostError(doing, f"GPU {shared[0]} is held by member {label['member']}", _NEW_PLAN, member["id"])
        for port, who in sorted(ports.busy(mine).items()):
            raise HostError(doing, f"port {port} is taken by {who}", f"End what holds it. {_NEW_PLAN}", member["id"])

    def _write_forming(self) -> None:
        """The record of what is being formed, with the lock still held. One that says the same already is left alone."""
        now = self.state.record(self.group) or {}
        if self.created or record.differs(self.plan["record"], now):
            mine = {"state": "forming", "lock": self.lock, "updated": round(time.time(), 3)}
            self.state.write_record(self.group, {**self.plan["record"], **mine})

    # -- telling -------------------------------------------------------------------------------------------------------------------

    def _snapshot(self, rec: t.Mapping[str, t.Any] | None, members: t.Mapping[str, Live]) -> dict[str, t.Any]:
        keys = ("role", "revision", "generation", "port", "gpus")
        return {
            "members": {name: {key: live["label"].get(key) for key in keys} for name, live in sorted(members.items())},
            "record": {key: rec.get(key) for key in ("revision", "generation", "state")} if rec else None,
            "endpoint": rec.get("endpoint") if rec else None,
        }

    def _expected(self, rec: t.Mapping[str, t.Any] | None, members: t.Mapping[str, Live]) -> dict[str, t.Any]:
        """What there is after the phase; in check mode, what there would be."""
        if not self.order.check:
            return self._snapshot(rec, members)
        if self.order.phase == "forget":
            return self._snapshot(None, {})
        keys = ("role", "revision", "generation", "port", "gpus")
        told = self._snapshot(rec, members)
        for member in self.plan["members"]:
            if member["id"] in self.created:
                told["members"][member["id"]] = {key: member["parts"][0]["labels"].get(key) for key in keys}
        if self.order.phase == "endpoint" and self.record_changed:
            after = self.plan["record"]
            told["record"] = {
                "revision": after.get("revision"),
                "generation": after.get("generation"),
                "state": self.order.state,
            }
            told["endpoint"] = {**(after.get("endpoint") or {}), "registered": self.order.registered}
        return told


def argv_digest(part: t.Mapping[str, t.Any]) -> str:
    """What a member is started with, as one value: command, environment, files, names of secrets."""
    told = [
        part["argv"],
        part.get("env") or {},
        part.get("files") or [],
        sorted(part.get("secrets") or ()),
        part.get("image"),
    ]
    return hashlib.sha256(json.dumps(told, sort_keys=True, default=str).encode()).hexdigest()[:16]


def _ports(held: t.Mapping[str, t.Any]) -> set[int]:
    """The ports of a part, or of a label."""
    bands = (held.get("ports") or {}).values()
    return (
        {int(held["port"])} | {b["base"] + i for b in bands for i in range(b["count"])} if held.get("port") else set()
    )


def _says(rec: t.Mapping[str, t.Any]) -> str:
    return json.dumps({k: v for k, v in rec.items() if k not in _BOOKKEEPING}, sort_keys=True)


def _epoch(moment: t.Any) -> float:
    return float(moment) if isinstance(moment, (int, float)) else 0.0
