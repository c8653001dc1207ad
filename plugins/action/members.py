# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller side of members: hands each host its own slice of the plan, and the secrets that its members need apart from it."""

from __future__ import annotations

import typing as t
from dataclasses import replace

from ansible.errors import AnsibleConnectionFailure

from ..module_utils._core.base.errors import PdError
from ..module_utils._core.base.plain import Plain
from ..module_utils._core.base.plain import to_plain as plain
from ..module_utils._core.base.printable import printable
from ..module_utils._core.base.reader import NO_SECRET, no_secret
from ..module_utils._core.plan import router_step
from ..module_utils._core.plan.value import Plan, Roll, Start, locked_in_order
from ..module_utils._core.spec import workload
from ..module_utils._core.spec.spec import secrets_of
from ..module_utils._core.work.share import Share, Slice, Vacated
from ..plugin_utils._action import PdAction
from ..plugin_utils._keys import first_keys, keys_of
from ..plugin_utils._plain import sealed, to_plain
from ..plugin_utils.locking import FirstLock, holder
from ..plugin_utils.waiting import Calls, asked, notes_of, wait_for_members, waited

PHASES = ("prepare", "lock", "unlock", "router_stop", "stop", "start", "router", "endpoint", "forget")


class ActionModule(PdAction):
    _requires_connection = True
    ARGUMENTS: t.ClassVar[dict[str, t.Any]] = {
        "plan": {"type": "dict", "required": True},
        "phase": {"type": "str", "choices": list(PHASES), "required": True},
        "secrets": {"type": "dict", "no_log": True},
        "state_dir": {"type": "path"},
        "runtime_options": {"type": "dict"},
        "break_lock": {"type": "bool", "default": False},
        "registered": {"type": "str", "choices": ["yes", "no", "keep"], "default": "no"},
        "state": {"type": "str", "default": "partial"},
        "strict": {"type": "bool", "default": True},
        "undo": {"type": "bool", "default": False},
        "why": {"type": "str", "default": ""},
        "proven": {"type": "str"},
        "started": {"type": "list", "elements": "str", "default": []},
        "routed": {"type": "list", "elements": "str", "default": []},
        "ready": {"type": "list", "elements": "str", "default": []},
        "early": {"type": "bool", "default": False},
        "waited": {"type": "list", "elements": "str", "default": []},
    }

    def act(self) -> dict[str, t.Any]:
        raw, phase = to_plain(self.args["plan"]), self.args["phase"]
        host = self.task_vars["inventory_hostname"]
        plan = Plan.from_plain(raw, host)
        # All that carry it out: of the plan itself only this host's share is read.
        self._hosts = locked_in_order(raw)
        part = share_of(plan, host, self._created() if self.args["undo"] else None)
        if part is None or not concerns(part, phase):
            return {"skipped": True, "skip_reason": f"phase {phase} has nothing to do on {host}"}
        if phase == "lock":
            self._check_secrets(plan, secrets_coming(raw))
        refusal = self._in_order(plan, host, part, phase)
        if refusal:
            return refusal
        held = ""
        if phase == "router":
            early, ready = self.args["early"], self.args["ready"]
            part, held = router_step.at_phase(plan, part, ready, self._starts(), early, self._task.check_mode)
        if held:
            return {"changed": False, "ok": True, "refused": False, "phase": phase, "held": held, "msg": held}
        arguments = self._arguments(plan, part, phase)
        if phase == "router":
            arguments |= self._service(plan, part, raw)
        result = self._module("members", arguments)
        if phase == "router" and not result.get("failed"):
            self._after_router(plan, part, arguments, result)
        return {**self._told(result, phase), "group": plan.group}

    def _arguments(self, plan: Plan, part: Share, phase: str) -> dict[str, t.Any]:
        return {
            "plan": part.to_plain(),
            "phase": phase,
            "sealed": sealed(self._secrets(plan, part)) if phase in ("start", "router") else None,
            **self.runtime_options(),
            "holder": {**holder(plan.run, plan.hold), "dead": list(plan.dead_locks or ())},
            "break_lock": self.args["break_lock"],
            "registered": self.args["registered"],
            "state": self.args["state"],
            "why": self.args["why"] or self._waits_for(),
            # What this run takes back the router may name from before.
            "lift": phase in ("endpoint", "forget") and not self.args["undo"] and self._router_is_clean(plan),
        }

    def _waits_for(self) -> str:
        """Why the endpoint is not registered, as the router's phase or the proof has said; empty where neither was bad."""
        names = [*self.args["routed"], *([self.args["proven"]] if self.args["proven"] else ())]
        group = str(self.args["plan"]["group"])
        results = [result for name in names for result in self.results_of(name, group).values()]
        bad = (r for r in results if r.get("good") is False or r.get("ok") is False or r.get("failed"))
        return next((str(r.get("why") or r.get("msg")) for r in bad if r.get("why") or r.get("msg")), "")

    def _created(self) -> set[str]:
        """What this run has really created so far, by what its hosts said: a plan is no deed."""
        return {name for result in self._started() for name in result.get("created") or ()}

    def _started(self) -> list[dict[str, t.Any]]:
        """What hosts said of starting members of this workload."""
        group = self.args["plan"]["group"]
        return [r for name in self.args["started"] for r in self.results_of(name, group, self._hosts).values()]

    def _router_is_clean(self, plan: Plan) -> bool:
        """Whether the router was read back, or started anew, in this run without anybody who is gone; and none is left elsewhere."""
        if any(one.get("router") for one in plan.record.get("tombstones") or ()):
            return False
        router = plan.router
        if router.member is None:
            return plan.action == "remove"
        routers = plan.router.through
        results = [r for name in self.args["routed"] for r in self.results_of(name, plan.group, routers).values()]
        said = self._started()
        if any(result.get("failed") or result.get("ok") is False for result in results) or router.policy == "manual":
            return False
        if any(result.get("refused") or result.get("unreachable") for result in said):
            return False
        if router.clean:
            return True
        fresh = any(router.member.id in (result.get("created") or ()) for result in results)
        read = any((result.get("peers") or {}).get("confirmed") for result in results)
        return fresh or (router.policy == "dynamic" and read)

    def _in_order(self, plan: Plan, host: str, part: Share, phase: str) -> dict[str, t.Any] | None:
        """Take the group's lock on its first host before any other one is touched. Two runs that take the locks of all hosts at once could
        each get half. Returns the refusal of this host, None when it may go on."""
        order = self._hosts
        if self._task.check_mode or len(order) == 1 or phase != "lock":
            return None
        notes = FirstLock(f"{plan.group}-{plan.run}-{self._task._uuid}")
        if host != order[0]:
            return self._wait_for_first(notes, order[0], phase) if self._is_before(order[0], host) else None
        try:
            result = self._module("members", self._arguments(plan, part, "lock"))
        except AnsibleConnectionFailure as exc:
            notes.write(f"{host} did not answer: {exc}")
            raise
        notes.write(str(result.get("msg") or "it gave no reason") if result.get("failed") else "")
        return self._told(result, phase)

    def _is_before(self, first: str, host: str) -> bool:
        """Whether Ansible has begun the first host's part by now. In a play whose hosts are not in sorted order it may not have, and never
        would as long as this one waits for it."""
        order = list(self.task_vars.get("ansible_play_hosts_all") or ())
        active = self.task_vars.get("ansible_play_hosts") or ()
        return first in active and first in order and host in order and order.index(first) < order.index(host)

    def _wait_for_first(self, notes: FirstLock, first: str, phase: str) -> dict[str, t.Any] | None:
        said = notes.wait()
        if said == "":
            return None
        why = "it took too long" if said is None else f"it said: {said}"
        text = f"the group's lock is taken on {first} first, and was not: nothing was done here"
        # The reason is told once, by the first host.
        return self._told({"failed": True, "msg": text if said else f"{text} ({why})", "phase": phase}, phase)

    def _told(self, result: dict[str, t.Any], phase: str) -> dict[str, t.Any]:
        """A result as the caller gets it."""
        result.setdefault("ok", not result.get("failed"))
        # The host did nothing at all: a lock, a plan that is out of date, members of another formation.
        refused = phase in ("start", "lock") and result.get("failed") and not result.get("failed_members")
        result["refused"] = bool(refused)
        if not self.args["strict"] and result.get("failed"):
            result |= {"failed": False, "ok": False}
            # A failure that is data is told by the verdict, once: the exception would be printed here as well.
            result.pop("exception", None)
        return result

    def _module(self, name: str, arguments: dict[str, t.Any]) -> dict[str, t.Any]:
        """Run a module of the collection on the host. What it was called with is not repeated in the result: it is long."""
        given = {key: value for key, value in arguments.items() if value is not None}
        result = self._execute_module(module_name=f"inferops.pd.{name}", module_args=given, task_vars=self.task_vars)
        result.pop("invocation", None)
        if result.get("failed") and not result.get("msg"):
            # A module that fell over, or was killed: its last words, without the traceback above them.
            said = str(
                result.get("module_stderr") or result.get("module_stdout") or result.get("exception") or ""
            ).split("\n")
            last = next((line.strip() for line in reversed(said) if line.strip()), "it gave no reason")
            result["msg"] = f"module {name} did not end as it should: {printable(last)}"
        return t.cast("dict[str, t.Any]", result)

    def _starts(self) -> dict[str, Start]:
        """What the wait saw of each member's start."""
        found: dict[str, Start] = {}
        group = self.args["plan"]["group"]
        for register in self.args["waited"]:
            for result in self.results_of(register, group, self._hosts).values():
                found |= {name: Start.seen(seen) for name, seen in (result.get("members") or {}).items()}
        return found

    def _service(self, plan: Plan, part: Share, raw: Plain) -> dict[str, t.Any]:
        """What belongs to the router's phase beside starting it: that it answers, and under dynamic membership knows its peers."""
        router, step = part.members_of("router")[0], plan.router
        host, here = part.here()
        fresh = router.id in here.create
        check = self._task.check_mode
        # A router that has its peers on its command line, and is left as it is, may have others than those that are ready by now.
        registered = step.policy == "dynamic" or (step.policy == "restart" and fresh)
        registered = registered and not (check and (fresh or step.policy != "dynamic"))
        wanted = [one for one in step.peers if not self.args["ready"] or one.member in self.args["ready"]]
        peers = {
            "url": router.url,
            "dialect": step.dialect,
            "model": step.model,
            "peers": plain(wanted),
            # A router with its peers on its command line is only read.
            "manage": step.policy == "dynamic",
            "spare": list(step.spare),
        }
        keys = first_keys(keys_of(self, raw)) if registered else {}
        order = {"router": [asked(router, host)] if fresh else [], "peers": peers if registered else None}
        return {**order, "keys": sealed(keys)}

    def _after_router(self, plan: Plan, part: Share, order: dict[str, t.Any], result: dict[str, t.Any]) -> None:
        """Judge the rest of the router's phase. A router that took longer than the module waits is waited for from here."""
        host, name = self.task_vars["inventory_hostname"], part.members_of("router")[0].id
        if order["router"] and not self._task.check_mode:
            seen = (result.get("waited") or {}).get("members", {}).get(name) or {}
            if seen.get("state") == "ready":
                self._display.display(f"{host} | {name}: ready after {seen.get('elapsed') or 0:.1f} s")
            else:
                alone = Roll(({"id": name, "role": "router"},), (host,), host)
                calls = Calls(self, self.runtime_options(), holder(plan.run))
                one = waited(plan, "router", alone, host)
                seen = wait_for_members(calls, [one], notes_of(self, plan.group))[plan.group]
                result["waited"] = seen
                if seen.get("not_ready"):
                    result |= {"failed": True, "msg": router_msg(name, seen["members"].get(name) or {})}
                    return
                if order["peers"]:
                    # Once more, now that it answers: registering is a change, and needs the lock.
                    again = self._module("members", {**order, "router": []})
                    result["peers"] = again if again.get("failed") else again.get("peers") or {}
        peers = result.get("peers") or {}
        result["changed"] = bool(result.get("changed") or peers.get("changed"))
        result["warnings"] = [*(result.get("warnings") or ()), *(peers.pop("warnings", None) or ())]
        if peers.get("failed"):
            result |= {"failed": True, "msg": peers.get("msg", "the router did not take its peers")}

    def _secrets(self, plan: Plan, part: Share) -> dict[str, dict[str, str]]:
        """Values by member, for the members of this host that need any."""
        wanted = [m for m in part.members if m.secrets]
        by_role = self._secrets_by_role(plan, {m.role for m in wanted})
        return {m.id: {name: str(by_role[m.role].get(name, "")) for name in m.secrets} for m in wanted}

    def _secrets_by_role(self, plan: Plan, roles: t.Collection[str]) -> dict[str, t.Mapping[str, t.Any]]:
        """What was given for each role, as the task has it, else as the workload's own entry has."""
        if not roles:
            return {}
        if self.args["secrets"] is not None:
            given = to_plain(self.args["secrets"])
            return {role: given.get(role) or {} for role in roles}
        spec = self._spec_with_secrets(plan)
        return {role: secrets_of(spec, role) for role in roles}

    def _check_secrets(self, plan: Plan, wanted: t.Collection[tuple[str, str]]) -> None:
        """What no member can be started with, before anything stops: each host refuses alike, and none has been locked. What is wrong with
        those of a spec has been said of the spec."""
        by_role = self._secrets_by_role(plan, {role for role, _name in wanted})
        for role, name in sorted(wanted):
            why = no_secret(by_role[role].get(name))
            if why:
                raise PdError(f"Secret {name} of role {role}: {why}. Nothing was changed. {NO_SECRET}")

    def _spec_with_secrets(self, plan: Plan) -> t.Any:
        """What was written of the plan's workload. A cache service's secrets stand in its own entry, as a group's do in a role's."""
        kind = workload.KINDS[plan.kind]
        if kind is workload.GROUP:
            return self.spec_of(plan.group)
        return {"roles": dict.fromkeys(kind.roles, self.entries(kind).get(plan.group) or {})}


def secrets_coming(raw: t.Mapping[str, t.Any]) -> set[tuple[str, str]]:
    """(role, name) of each secret of the members that a whole plan creates, wherever they are."""
    coming = {name for here in (raw.get("hosts") or {}).values() for name in here.get("create") or ()}
    members = [m for m in raw.get("members") or () if m.get("id") in coming]
    return {
        (m["role"], str(name)) for m in members for part in m.get("parts") or () for name in part.get("secrets") or ()
    }


def router_msg(name: str, seen: t.Mapping[str, t.Any]) -> str:
    """Why a router does not serve, in a sentence."""
    log = f" Log: {seen['log']}" if seen.get("log") else ""
    return f"{name} does not serve: {seen.get('why') or 'it did not answer'}. {seen.get('advice') or ''}".rstrip() + log


def share_of(plan: Plan, host: str, undo: t.Collection[str] | None = None) -> Share | None:
    """What a host carries out of the plan. None for a host that the plan does not name.

    With `undo`, the ids that this run has created, these are what is to go, and nothing else."""
    share = plan.share(host)
    if share is None or undo is None:
        return share
    members = [m for m in share.record.get("members") or () if m.get("id") not in undo]
    record = {**share.record, "members": members}
    return replace(
        share,
        record=record,
        hosts={place: _undone(share, place, undo, workload.KINDS[plan.kind].router) for place in share.hosts},
    )


def _undone(share: Share, place: str, undo: t.Collection[str], router: bool) -> Slice:
    """A slice that takes back what a run has created, in a round of renewal or before. Its ports are held where there is a `router`: one
    that the run has not touched may name them, from before they were taken."""
    here = share.hosts[place]
    going = tuple(m.id for m in share.members if m.id in undo and m.at(place) is not None)
    gone = [(m, part) for m in share.members for part in m.parts if router and m.id in going and part.host == place]
    vacated = tuple(Vacated(m.id, share.formation, m.url, tuple(sorted(part.held_ports))) for m, part in gone)
    present = tuple(name for name in here.present if name not in undo)
    return replace(here, absent=going, create=(), present=present, holds=(*here.holds, *vacated))


def concerns(share: Share, phase: str) -> bool:
    """Whether a phase has work on the host of this share. A place without a part of the workload is locked, and the lock is given back."""
    if not any(here.part for here in share.hosts.values()):
        return phase in ("lock", "unlock", "endpoint", "forget")
    return phase != "router" or bool(share.members_of("router"))
