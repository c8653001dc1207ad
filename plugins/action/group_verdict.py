# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs on the controller: judges the results of all hosts of a phase, once for the whole workload."""

from __future__ import annotations

import typing as t

from ..module_utils._core.base.errors import PdError
from ..module_utils._core.plan.value import Plan
from ..module_utils._core.report.verdict import PHASES, reach
from ..plugin_utils._action import PdAction
from ..plugin_utils._plain import to_plain


class ActionModule(PdAction):
    ARGUMENTS: t.ClassVar[dict[str, t.Any]] = {
        "plan": {"type": "dict", "required": True},
        "phase": {"type": "str", "choices": list(PHASES), "required": True},
        "register": {"type": "list", "elements": "str"},
        "of_router": {"type": "list", "elements": "str", "default": []},
        "results": {"type": "dict"},
        "readiness": {"type": "str", "choices": ["any_per_role", "all"]},
        "stops": {"type": "bool", "default": False},
        "fail": {"type": "bool", "default": False},
    }

    def act(self) -> dict[str, t.Any]:
        if self._task.check_mode:
            empty: dict[str, t.Any] = {
                "ready": {},
                "ready_members": [],
                "failed_members": {},
                "unreachable_hosts": [],
                "problems": {},
            }
            return {
                "skipped": True,
                "skip_reason": "check mode: nothing was done, so nothing is judged",
                "good": True,
                "complete": True,
                **empty,
            }
        phase = self.args["phase"]
        plan = Plan.from_plain(to_plain(self.args["plan"]))
        verdict = reach(plan, self._results(plan), phase, self.args["readiness"], self.args["stops"])
        head, _line, rest = verdict.msg.partition("\n")
        if self.args["fail"] and not verdict.good:
            # A failed task's result is printed as well: what a person has read stands there no second time.
            self._display.display(rest)
            return {**_in_short(verdict.to_plain()), "msg": head, "failed": True}
        if phase == "final":
            self._display.display(verdict.msg)
        # Where a host has not given its lock, the run ends with a task that tells it.
        elif not verdict.complete and phase != "lock":
            self._display.display(head)
        return {**verdict.to_plain(), "failed": False}

    def _results(self, plan: Plan) -> dict[str, list[dict[str, t.Any]]]:
        """What each host of the plan said, in the order of `register`."""
        given = self.args["results"]
        if given is not None:
            plain = to_plain(given)
            return {host: found if isinstance(found, list) else [found] for host, found in plain.items()}
        if not self.args["register"]:
            raise PdError("group_verdict needs results, or the names that they were registered under (register).")
        found: dict[str, list[dict[str, t.Any]]] = {}
        routers = plan.router.through
        for name in self.args["register"]:
            hosts = routers if name in self.args["of_router"] else plan.through
            for host, result in self.results_of(name, plan.group, hosts).items():
                found.setdefault(host, []).append(result)
        return found


def _in_short(verdict: dict[str, t.Any]) -> dict[str, t.Any]:
    """What a machine asks of a verdict that a person has been told."""
    keys = ("host", "outcome", "symptom")
    failed = {name: {k: seen[k] for k in keys if seen.get(k)} for name, seen in verdict["failed_members"].items()}
    kept = {"failed_members": failed, "unreachable_hosts": verdict["unreachable_hosts"]}
    return {"good": verdict["good"], **{k: v for k, v in kept.items() if v}}
