# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller side of members: tells each host what to do about all workloads of a wave in a phase, and hands it the secrets that its
members need apart from that."""

from __future__ import annotations

import functools
import os
import typing as t

from ansible.errors import AnsibleConnectionFailure, AnsibleError

from ..module_utils._core.base.errors import PdError
from ..module_utils._core.base.reader import NO_SECRET, no_secret
from ..module_utils._core.course.course import Course
from ..module_utils._core.course.orders import PHASES, Order, order_of
from ..module_utils._core.course.parcel import Parcel
from ..module_utils._core.facts.stands import name_of
from ..module_utils._core.spec import workload
from ..module_utils._core.spec.spec import secrets_of
from ..plugin_utils._keys import first_keys, keys_of
from ..plugin_utils._plain import sealed, to_plain
from ..plugin_utils._run import RUN, RunAction
from ..plugin_utils.locking import FirstLock
from ..plugin_utils.run_folder import Result
from ..plugin_utils.waiting import Calls, asked, notes_of, of_router, wait_for_members

Orders = dict[str, Order]
Parcels = t.Mapping[str, Parcel]
# What is told of a result in the task's own: the rest is kept in the run's folder.
_TOLD = ("created", "removed", "adopted", "drained", "failed_members")


class ActionModule(RunAction):
    ARGUMENTS: t.ClassVar[dict[str, t.Any]] = {
        **RUN,
        "phase": {"type": "str", "choices": list(PHASES), "required": True},
        "secrets": {"type": "dict", "no_log": True},
        "state_dir": {"type": "path"},
        "runtime_options": {"type": "dict"},
        "break_lock": {"type": "bool", "default": False},
    }

    def act(self) -> dict[str, t.Any]:
        phase, check = self.args["phase"], self._task.check_mode
        found = self.parcels()
        parcels = {name: parcel for name, (parcel, _course) in found.items()}
        orders = self._orders(phase, found, check)
        if not orders:
            return {"skipped": True, "skip_reason": f"phase {phase} has nothing to do on {self.host}"}
        away = self.left_alone(self.step(phase), orders)
        if away:
            for name in orders if phase == "lock" else ():
                if parcels[name].order[0] == self.host:
                    self._first(parcels[name]).write(f"{self.host} did not answer in an earlier phase")
            return away
        results: dict[str, Result] = {}
        if phase == "lock" and not check:
            results = self._lock(orders, parcels)
        else:
            results = self._carry_out(orders, parcels)
        if phase == "router":
            self._see_through(orders, parcels, results)
        return self._told(phase, results)

    def _orders(self, phase: str, found: t.Mapping[str, tuple[Parcel, Course]], check: bool) -> Orders:
        orders = {name: order_of(parcel, phase, course, check) for name, (parcel, course) in found.items()}
        # A lock is given back once.
        unlocked = self.folder.said_by(self.wave, "unlock", self.host)
        return {name: one for name, one in orders.items() if one and not (one.phase == "unlock" and name in unlocked)}

    def _carry_out(self, orders: Orders, parcels: Parcels) -> dict[str, Result]:
        """What the host says of each. Orders to give a lock back are kept as what they are, whatever the phase."""
        unlocks = {name for name, order in orders.items() if order.phase == "unlock"}
        results: dict[str, Result] = {}
        refused, secrets = self._refused(orders, parcels)
        for step, names in ((self.step(self.args["phase"]), set(orders) - unlocks), ("unlock", unlocks)):
            if names:
                some = {name: orders[name] for name in orders if name in names}
                call = functools.partial(self._call, some, parcels, refused, secrets)
                results |= self.ask(step, some, call)
        return results

    def _call(
        self, orders: Orders, parcels: Parcels, refused: t.Mapping[str, Result], secrets: t.Mapping[str, t.Any]
    ) -> dict[str, Result]:
        told = {n: {**_HELD, "msg": order.held, "held": order.held} for n, order in orders.items() if order.held}
        some = {name: order for name, order in orders.items() if name not in refused and not order.held}
        results = self._members(some, parcels, secrets) if some else {}
        return {**told, **{n: r for n, r in refused.items() if n in orders}, **results}

    def _members(self, orders: Orders, parcels: Parcels, secrets: t.Mapping[str, t.Any]) -> dict[str, Result]:
        keys, refused = self._keys(orders, parcels)
        given = {name: self._given(order) for name, order in orders.items() if name not in refused}
        if not given:
            return refused
        arguments = {
            "orders": list(given.values()),
            "sealed": sealed({name: values for name, values in secrets.items() if name in orders and values}),
            "keys": sealed(keys),
            "holder": self.holder(parcels[name] for name in orders),
            "break_lock": self.args["break_lock"],
            **self.runtime_options(),
        }
        results = self.module("members", arguments, list(given))
        for name, result in results.items():
            result.setdefault("ok", not result.get("failed"))
            phase = orders[name].phase
            result["refused"] = phase in ("start", "lock") and _did_nothing(result)
            result["phase"], result["group"] = phase, name
        return {**results, **refused}

    def _keys(self, orders: Orders, parcels: Parcels) -> tuple[dict[str, t.Any], dict[str, Result]]:
        """(the keys that members ask for, by workload and role; workloads whose entry does not say them here, with why)."""
        keys: dict[str, t.Any] = {}
        refused: dict[str, Result] = {}
        for name, order in orders.items():
            if order.peers is None:
                continue
            try:
                keys[name] = first_keys(keys_of(self, parcels[name].for_keys()))
            except (PdError, AnsibleError) as exc:
                refused[name] = {"failed": True, "ok": False, "msg": str(exc), "phase": order.phase, "group": name}
        return keys, refused

    @staticmethod
    def _given(order: Order) -> dict[str, t.Any]:
        """An order as the module is told it, with the router that it is to see answer."""
        told = order.to_plain()
        if order.phase == "router":
            router = order.share.members_of("router")[0]
            here = order.share.here()[1]
            told["router"] = [asked(router, here.through)] if router.id in here.create else []
        return told

    # -- the lock ------------------------------------------------------------------------------------------------------------------

    def _lock(self, orders: Orders, parcels: Parcels) -> dict[str, Result]:
        """Take each lock on its first host before any other one is touched: two runs that take the locks of all hosts at once could each
        get half. What this host is the first one of is locked at once; the rest once the first hosts of it have said how it went."""
        mine = {name: order for name, order in orders.items() if parcels[name].order[0] == self.host}
        results: dict[str, Result] = {}
        if mine:
            try:
                results |= self._carry_out(mine, parcels)
            except AnsibleConnectionFailure as exc:
                results = {name: {"failed": True, "msg": f"{self.host} did not answer: {exc}"} for name in mine}
                raise
            finally:
                # Whatever became of it: the other hosts wait to be told.
                for name in mine:
                    self._first(parcels[name]).write(_why_not(results.get(name)))
        others = {name: order for name, order in orders.items() if name not in mine}
        late = {name: self._first_said(parcels[name]) for name in others}
        refused = {name: self._told_refused(why) for name, why in late.items() if why is not None}
        if refused:
            self.folder.say(self.wave, "lock", self.host, refused)
        free = {name: order for name, order in others.items() if name not in refused}
        return {**results, **refused, **(self._carry_out(free, parcels) if free else {})}

    def _first(self, parcel: Parcel) -> FirstLock:
        return FirstLock(f"{parcel.plan.group}-{parcel.plan.run}-{self._task._uuid}")

    def _first_said(self, parcel: Parcel) -> str | None:
        """Why the first host has not given a workload's lock; None where it has, or is not waited for."""
        first = parcel.order[0]
        if not self._is_before(first):
            return None
        said = self._first(parcel).wait()
        if said == "":
            return None
        why = "it took too long" if said is None else f"it said: {said}"
        text = f"the group's lock is taken on {first} first, and was not: nothing was done here"
        # The reason is told once, by the first host.
        return text if said else f"{text} ({why})"

    def _is_before(self, first: str) -> bool:
        """Whether Ansible has begun the first host's part by now. In a play whose hosts are not in sorted order it may not have, and never
        would as long as this one waits for it."""
        order = list(self.task_vars.get("ansible_play_hosts_all") or ())
        active = self.task_vars.get("ansible_play_hosts") or ()
        return first in active and first in order and self.host in order and order.index(first) < order.index(self.host)

    @staticmethod
    def _told_refused(why: str) -> Result:
        return {"failed": True, "ok": False, "refused": True, "follows": True, "msg": why, "phase": "lock"}

    # -- secrets -------------------------------------------------------------------------------------------------------------------

    def _refused(self, orders: Orders, parcels: Parcels) -> tuple[dict[str, Result], dict[str, t.Any]]:
        """(workloads that cannot be started for a secret that is none, the secrets of the others' members by workload and member). Asked
        for before anything stops: with the lock."""
        refused: dict[str, Result] = {}
        secrets: dict[str, t.Any] = {}
        for name, order in orders.items():
            if order.phase not in ("lock", "start", "router"):
                continue
            try:
                found = self._secrets(parcels[name], order)
            except (PdError, AnsibleError) as exc:
                refused[name] = {"failed": True, "ok": False, "refused": True, "msg": str(exc), "phase": order.phase}
                continue
            if order.phase != "lock":
                secrets[name] = found
        return refused, secrets

    def _secrets(self, parcel: Parcel, order: Order) -> dict[str, dict[str, str]]:
        """Values by member, for those that this host is to create."""
        creates = set(order.share.here()[1].create)
        wanted = [m for m in order.share.members if m.secrets and m.id in creates]
        by_role = self._secrets_by_role(parcel, {m.role for m in wanted})
        for role, name in sorted({(m.role, name) for m in wanted for name in m.secrets}):
            why = no_secret(by_role[role].get(name))
            if why:
                raise PdError(f"Secret {name} of role {role}: {why}. Nothing was changed. {NO_SECRET}")
        return {m.id: {name: str(by_role[m.role].get(name, "")) for name in m.secrets} for m in wanted}

    def _secrets_by_role(self, parcel: Parcel, roles: t.Collection[str]) -> dict[str, t.Mapping[str, t.Any]]:
        """What was given for each role, by workload and role as the task has it, else as the workload's own entry has."""
        if not roles:
            return {}
        if self.args["secrets"] is not None:
            # By the names that users write, whatever stand of a group is worked on.
            given = to_plain(self.args["secrets"]).get(name_of(parcel.plan.group)) or {}
            return {role: given.get(role) or {} for role in roles}
        kind = workload.KINDS[parcel.plan.kind]
        spec = self.spec_of(parcel.plan.group, kind)
        # A cache service's secrets stand in its own entry, as a group's do in a role's.
        spec = spec if kind is workload.GROUP else {"roles": dict.fromkeys(kind.roles, spec or {})}
        return {role: secrets_of(spec, role) for role in roles}

    # -- the router ----------------------------------------------------------------------------------------------------------------

    def _see_through(self, orders: Orders, parcels: Parcels, results: dict[str, Result]) -> None:
        """Judge the rest of the routers' phase. Those that took longer than the module waits are waited for from here, all together, and
        then told their peers."""
        late: dict[str, Order] = {}
        for name, order in orders.items():
            result = results.get(name) or {}
            if order.phase != "router" or order.held or result.get("failed") or self._task.check_mode:
                continue
            router = order.share.members_of("router")[0].id
            seen = ((result.get("waited") or {}).get("members") or {}).get(router)
            if seen is None:
                continue
            if seen.get("state") == "ready":
                self._display.display(f"{self.host} | {router}: ready after {seen.get('elapsed') or 0:.1f} s")
            else:
                late[name] = order
        if late:
            self._wait_for_routers(late, parcels, results)
        for name, order in orders.items():
            if order.phase == "router" and name in results and not order.held:
                _judge_peers(results[name])
        self.folder.say(
            self.wave, self.step(self.args["phase"]), self.host, {n: results[n] for n in orders if n in results}
        )

    def _wait_for_routers(self, late: Orders, parcels: Parcels, results: dict[str, Result]) -> None:
        waits = [of_router(parcels[name], order.share.members_of("router")[0]) for name, order in late.items()]
        calls = Calls(self, self.runtime_options(), self.holder(parcels[name] for name in late))
        step = self.step(self.args["phase"])
        notes = notes_of(self, f"{os.path.basename(self.folder.path)}-{self.host}")
        waited = self.ask(step, late, lambda: wait_for_members(calls, waits, notes))
        again: Orders = {}
        for name, order in late.items():
            found = waited.get(name) or {}
            router = order.share.members_of("router")[0].id
            results[name]["waited"] = found
            if found.get("not_ready"):
                msg = router_msg(router, (found.get("members") or {}).get(router) or {})
                results[name] |= {"failed": True, "ok": False, "msg": msg}
            elif order.peers is not None:
                again[name] = order
        if again:
            # Once more, now that it answers: registering is a change, and needs the lock.
            told = self.ask(step, again, lambda: self._members(again, parcels, {}))
            for name, result in told.items():
                results[name]["peers"] = result if result.get("failed") else result.get("peers") or {}

    def _told(self, phase: str, results: t.Mapping[str, Result]) -> dict[str, t.Any]:
        """The task's result: what was done, in short. What went wrong is data, which the verdict tells."""
        told = {
            name: {key: result[key] for key in _TOLD if result.get(key)}
            | ({} if result.get("ok", True) else {"ok": False})
            for name, result in results.items()
        }
        changed = any(result.get("changed") for result in results.values())
        return {"changed": changed, "phase": phase, "workloads": {name: one for name, one in told.items() if one}}


def _did_nothing(result: Result) -> bool:
    """Whether the host refused: a lock, a plan that is out of date, members of another formation. One that fell over may have begun."""
    return bool(result.get("failed")) and not (result.get("failed_members") or result.get("fell"))


_HELD: Result = {"changed": False, "ok": True, "refused": False, "phase": "router"}


def _judge_peers(result: Result) -> None:
    peers = result.get("peers") or {}
    result["changed"] = bool(result.get("changed") or peers.get("changed"))
    if peers.get("failed"):
        result |= {"failed": True, "ok": False, "msg": peers.get("msg", "the router did not take its peers")}


def _why_not(result: t.Mapping[str, t.Any] | None) -> str:
    """What the others are told of the first host's lock: empty when it has it."""
    if result is None:
        return "it gave no reason"
    return str(result.get("msg") or "it gave no reason") if result.get("failed") else ""


def router_msg(name: str, seen: t.Mapping[str, t.Any]) -> str:
    """Why a router does not serve, in a sentence."""
    log = f" Log: {seen['log']}" if seen.get("log") else ""
    return f"{name} does not serve: {seen.get('why') or 'it did not answer'}. {seen.get('advice') or ''}".rstrip() + log
