# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller side of group_gate: a user's own command has the last word on a group that is proven, before clients are sent to it."""

from __future__ import annotations

import shlex
import typing as t

from ansible.errors import AnsibleError

from ..module_utils._core.base.errors import PdError
from ..module_utils._core.course.parcel import Parcel
from ..module_utils._core.plan.value import Plan
from ..module_utils._core.rollout.placeholders import fill
from ..plugin_utils import _command
from ..plugin_utils._plain import to_plain
from ..plugin_utils._rollouts import entry_of, gate_command
from ..plugin_utils._run import RUN, RunAction
from ..plugin_utils.run_folder import Result

# What is told of an output where the gate says no, and what is kept of it in any case.
_TOLD, _KEPT = 3, 20


class ActionModule(RunAction):
    _requires_connection = False
    ARGUMENTS: t.ClassVar[dict[str, t.Any]] = {
        "run": RUN["run"],
        "wave": RUN["wave"],
        "rollout": {"type": "str", "required": True},
        "timeout": {"type": "float", "default": 600},
    }

    def act(self) -> dict[str, t.Any]:
        if self._task.check_mode:
            return {"skipped": True, "skip_reason": "check mode: nothing is asked"}
        command = gate_command(entry_of(self, self.args["rollout"]))
        found = {name: parcel for name, parcel in self._proven().items() if command}
        if not found:
            return {"skipped": True, "skip_reason": f"nothing passes a gate from {self.host}"}
        results = self.ask("gate", found, lambda: {n: self._asked(p, command) for n, p in found.items()})
        return {"changed": False, "workloads": results}

    def _proven(self) -> dict[str, Parcel]:
        """The groups with their router here that would be given to clients now."""
        router, proof = (self.folder.said_by(self.wave, step, self.host) for step in ("router", "proof"))
        return {
            name: parcel
            for name, (parcel, course) in self.parcels().items()
            if course.serves and router.get(name, {}).get("ok") and proof.get(name, {"good": True}).get("good")
        }

    def _asked(self, parcel: Parcel, command: t.Any) -> Result:
        plan = self.folder.plan(parcel.plan.group)
        try:
            argv = self._filled(plan, command)
        except (PdError, AnsibleError) as exc:
            return _no(f"its gate cannot be asked: {exc}")
        self._display.display(f"{plan.name} | gate: {shlex.join(argv)}")
        ended = _command.run(argv, {}, self.args["timeout"])
        kept = list(ended.lines[-_KEPT:])
        if not ended.problem:
            return {"good": True, "ok": True, "phase": "gate", "lines": kept}
        said = f" It said: {' | '.join(ended.lines[-_TOLD:])}" if ended.lines else ""
        return {**_no(f"the gate says no: {shlex.join(argv)} {ended.problem}.{said}"), "lines": kept}

    def _filled(self, plan: Plan, command: t.Any) -> list[str]:
        """The command of one group. It is asked at the router, which no client knows yet. Both ways to write a placeholder are taken: the
        inventory's variables stand in double braces, and so may what is the group's own."""
        router, rollout = plan.router.member, str(self.args["rollout"])
        own: dict[str, t.Any] = {
            "endpoint": router.url if router else "",
            "group": plan.name,
            "model": plan.endpoint.served_model_name or "",
            "rollout": rollout,
            "wave": (plan.record.get("rollout") or {}).get("wave", ""),
        }
        templar = self._templar.copy_with_new_env(available_variables={**self.task_vars, **own})
        filled = to_plain(templar.template(command))
        words = _command.read(filled, "The gate's command", f"pd_rollouts.{rollout}.gate.command")
        return [fill(word, own) for word in words]


def _no(why: str) -> Result:
    return {"good": False, "ok": False, "phase": "gate", "msg": why}
