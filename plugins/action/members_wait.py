# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller side of members_wait: calls the module in slices and tells what changes as it comes."""

from __future__ import annotations

import typing as t

from ..module_utils._core.plan.value import Plan, Roll
from ..plugin_utils._action import PdAction
from ..plugin_utils._plain import to_plain
from ..plugin_utils.locking import holder
from ..plugin_utils.waiting import SLICE, Calls, notes_of, wait_for_members, waited


class ActionModule(PdAction):
    _requires_connection = True
    ARGUMENTS: t.ClassVar[dict[str, t.Any]] = {
        "plan": {"type": "dict", "required": True},
        "phase": {"type": "str", "choices": ["engines", "router"], "default": "engines"},
        "limit": {"type": "float"},
        "give_up": {"type": "str", "choices": ["decided", "first"], "default": "decided"},
        "hold": {"type": "bool", "default": True},
        "slice": {"type": "int", "default": SLICE},
        "explain": {"type": "bool", "default": False},
        "state_dir": {"type": "path"},
        "runtime_options": {"type": "dict"},
        "strict": {"type": "bool", "default": False},
    }

    def act(self) -> dict[str, t.Any]:
        raw, phase = to_plain(self.args["plan"]), self.args["phase"]
        plan = Plan.from_plain(raw, self.task_vars["inventory_hostname"])
        if self._task.check_mode:
            return {"skipped": True, "skip_reason": "check mode: nothing was started, so nothing is waited for"}
        roll = Roll.of(raw, phase)
        name = self.task_vars["inventory_hostname"]
        one = waited(plan, phase, roll, name, self.args["limit"], first=self.args["give_up"] == "first")
        if not one.members:
            return {"skipped": True, "skip_reason": f"no {phase} of {plan.group} is on {name}", "changed": False}
        calls = Calls(
            self, self.runtime_options(), holder(plan.run) if self.args["hold"] else None, self.args["explain"]
        )
        slice_ = min(30, max(1, self.args["slice"]))
        result = wait_for_members(calls, [one], notes_of(self, plan.group), slice_=slice_)[plan.group]
        result["failed"] = bool(self.args["strict"] and result.get("not_ready"))
        return result
