# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller side of group_fence: a user's command makes the statement that a host is lost a fact, before anything else is touched."""

from __future__ import annotations

import typing as t

from ansible.errors import AnsibleActionFail

from ..module_utils._core.base.errors import PdError
from ..module_utils._core.plan.value import Plan
from ..plugin_utils import _fence
from ..plugin_utils._action import PdAction
from ..plugin_utils._plain import to_plain
from ..plugin_utils.run_folder import RunFolder


class ActionModule(PdAction):
    ARGUMENTS: t.ClassVar[dict[str, t.Any]] = {
        "plan": {"type": "dict"},
        "run": {"type": "path"},
        "wave": {"type": "int", "default": 0},
        "command": {"type": "raw"},
        "timeout": {"type": "float", "default": 60},
        "env": {"type": "dict", "default": {}, "no_log": True},
    }

    def act(self) -> dict[str, t.Any]:
        if self.args["run"] is None:
            return self._all(Plan.from_plain(to_plain(self.args["plan"]), ""))
        return self._wave(RunFolder(self.args["run"]), self.args["wave"])

    def _wave(self, folder: RunFolder, wave: int) -> dict[str, t.Any]:
        """All workloads of a wave. One whose lost host could not be fenced ends there: what is locked of it is given back."""
        courses, fenced = folder.courses(wave), []
        commands: list[str] = []
        for name, course in courses.items():
            plan = folder.plan(name) if course.goes_on else None
            if plan is None or not plan.fence:
                continue
            try:
                done = self._all(plan)
                fenced += done["fenced"]
                commands += done["commands"]
            except (PdError, AnsibleActionFail) as exc:
                courses[name] = course.ends(str(exc), {"good": False})
        folder.write_courses(wave, courses)
        return {"changed": bool(commands), "fenced": fenced, "commands": commands}

    def _all(self, plan: Plan) -> dict[str, t.Any]:
        argv, environment = _fence.read_command(to_plain(self.args["command"])), self._environment()
        if self.args["timeout"] <= 0:
            raise PdError(
                "The fence command's timeout is not above zero. Give it the seconds that it may take at most."
            )
        lost = plan.fence
        if not argv or not lost:
            why = "no host that is lost is known to have had members" if argv else "no fence command is set"
            return {"skipped": True, "skip_reason": why, "fenced": [], "commands": []}
        # All of them before any is run: one that cannot be filled in ends the task while nothing has happened.
        commands = [_fence.command_for(argv, one, plan.group, self._of_host, environment) for one in lost]
        shown = [command.shown for command in commands]
        if self._task.check_mode:
            text = "; ".join(f"{c.host}: {c.shown}" for c in commands)
            for command in commands:
                self._display.display(f"{command.host} | would be fenced: {command.shown}")
            return {
                "changed": True,
                "fenced": [],
                "commands": shown,
                "msg": f"Would fence, from the controller, {text}",
            }
        fenced: list[str] = []
        for command in commands:
            self._display.display(f"{command.host} | fencing it: {command.shown}")
            self._run(command, environment, fenced)
            fenced.append(command.host)
        return {"changed": True, "fenced": fenced, "commands": shown, "msg": f"Fenced: {', '.join(fenced)}"}

    def _run(self, command: _fence.Command, environment: t.Mapping[str, str], before: t.Sequence[str]) -> None:
        ended = _fence.run(command, environment, self.args["timeout"])
        if not ended.problem:
            return
        said = f" Its last line: {ended.line}" if ended.line else ""
        done = f" Fenced before it: {', '.join(before)}." if before else ""
        text = (
            f"Fencing {command.host}: the command {command.shown} {ended.problem}.{said}{done} It counts as not fenced: nothing of the"
            " group has been stopped or started. Fence it by hand and leave pd_fence_command out, or mend the command, and run again."
        )
        raise AnsibleActionFail(text, result={"fenced": list(before), "host": command.host})

    def _environment(self) -> dict[str, str]:
        return _fence.read_environment(to_plain(self.args["env"]))

    def _of_host(self, host: str, name: str) -> t.Any:
        """A variable of a lost host, as its own plays would see it. One that has left the inventory has none."""
        hostvars = self.task_vars.get("hostvars") or {}
        return to_plain(hostvars[host].get(name)) if host in hostvars else None
