# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller side of endpoint_hooks: tells each host what its hooks are to do about the groups of a wave, and keeps what they said."""

from __future__ import annotations

import typing as t

from ..module_utils._core.base.errors import PdError
from ..module_utils._core.base.printable import printable
from ..module_utils._core.course.hooks import PHASES, acts_of
from ..module_utils._core.hooks.hook import Act
from ..plugin_utils._plain import to_plain
from ..plugin_utils._run import RUN, RunAction
from ..plugin_utils.run_folder import Result

_LONGEST = 600
_UNENDED: Result = {"ok": False, "msg": "its tasks did not end"}


class ActionModule(RunAction):
    ARGUMENTS: t.ClassVar[dict[str, t.Any]] = {
        "run": RUN["run"],
        "wave": RUN["wave"],
        "phase": {"type": "str", "choices": list(PHASES), "required": True},
        "ended": {"type": "dict"},
    }

    def act(self) -> dict[str, t.Any]:
        if self.args["ended"] is not None:
            return self._end(to_plain(self.args["ended"]))
        phase = self.args["phase"]
        acts = {
            name: found
            for name, (parcel, course) in self.every_parcel().items()
            if (found := acts_of(parcel, phase, course))
        }
        if not acts:
            return {"skipped": True, "skip_reason": f"no hook on {self.host} is told anything"}
        away = self.left_alone(phase, acts)
        if away:
            return away
        results = self.ask(phase, acts, lambda: self._told(acts))
        own = [(name, one) for name, found in acts.items() for one in found if one.hook.kind == "tasks"]
        told = {name: {k: one[k] for k in ("hooks", "msg") if one.get(k)} for name, one in results.items()}
        return {
            "changed": any(one.get("changed") for one in results.values()),
            "workloads": told,
            "tasks": [] if self._task.check_mode else [self._task_of(*one) for one in own],
            **({"diff": self._diffs} if self._diffs and self._task.diff else {}),
        }

    def _told(self, acts: t.Mapping[str, t.Sequence[Act]]) -> dict[str, Result]:
        """What the host says of each group. Own tasks have not ended until it is said."""
        given = [one.to_plain() for found in acts.values() for one in found if one.hook.kind != "tasks"]
        names = list(dict.fromkeys(one["group"] for one in given))
        said = self.module("endpoint_hooks", {"acts": given}, names) if given else {}
        # Hooks know a group by its name, and the run by what hosts know it by.
        called = {one.group: name for name, found in acts.items() for one in found}
        results = {called[name]: one for name, one in said.items()}
        for name, found in acts.items():
            result = results.setdefault(name, {"ok": True, "changed": False, "hooks": {}})
            result.setdefault("hooks", {})
            own = [one.hook.name for one in found if one.hook.kind == "tasks"]
            if own and not self._task.check_mode:
                result["hooks"] |= {hook: dict(_UNENDED) for hook in own}
                result["ok"] = False
        return results

    @staticmethod
    def _task_of(name: str, one: Act) -> dict[str, t.Any]:
        return {"hook": one.hook.name, "group": name, "file": one.hook.file, "endpoint": one.told}

    def _end(self, ended: Result) -> dict[str, t.Any]:
        """What became of own tasks: they have ended well where the host answers after them, or they say why not."""
        phase, hook, group = self.args["phase"], str(ended.get("hook")), str(ended.get("group"))
        said = self.folder.said_by(self.wave, phase, self.host).get(group)
        if said is None:
            raise PdError(f"Nothing was asked of hook {hook} on {self.host} about group {group} in this phase.")
        why = printable(ended.get("msg") or "", _LONGEST)
        if not why:
            # A host that was out of reach for a task of theirs is one that has skipped it.
            answer = self._execute_module(module_name="ansible.builtin.ping", module_args={}, task_vars=self.task_vars)
            why = "" if answer.get("ping") else printable(answer.get("msg") or "it did not answer", _LONGEST)
        said["hooks"][hook] = {"ok": not why, **({"msg": why} if why else {})}
        said["ok"] = all(one.get("ok") for one in said["hooks"].values()) and not said.get("failed")
        self.folder.say(self.wave, phase, self.host, {group: said})
        return {"changed": False, **({"workloads": {group: {"msg": why}}} if why else {})}
