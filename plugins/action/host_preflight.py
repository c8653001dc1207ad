# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller side of host_preflight: gives each host its own part of the tour, with what the others' listeners have got."""

from __future__ import annotations

import time
import typing as t

from ..module_utils._core.preflight import tour as tours
from ..plugin_utils._action import PdAction
from ..plugin_utils._plain import to_plain
from ..plugin_utils.locking import mark


class ActionModule(PdAction):
    _requires_connection = True
    ARGUMENTS: t.ClassVar[dict[str, t.Any]] = {
        "phase": {"type": "str", "choices": ["listen", "connect", "end"], "required": True},
        "tour": {"type": "dict", "required": True},
        "register": {"type": "str", "default": "preflight_listening"},
        "seconds": {"type": "float", "default": 1.0},
    }

    def act(self) -> dict[str, t.Any]:
        tour, phase, host = to_plain(self.args["tour"]), self.args["phase"], self.task_vars["inventory_hostname"]
        if host not in tour["hosts"]:
            return {"skipped": True, "skip_reason": f"no member of the group is for {host}"}
        if phase == "listen":
            return self._listen(tour, host)
        said = {
            h: r for h, r in self.results_of(self.args["register"], hosts=tour["hosts"]).items() if "listening" in r
        }
        if phase == "end":
            return self._module(phase, tour, {"listener": said.get(host, {}).get("listener")})
        listening = tours.mark_live(tour, {h: r["listening"] for h, r in said.items()})
        return self._module(phase, tour, tours.attempts(tour, host, listening))

    def _listen(self, tour: dict[str, t.Any], host: str) -> dict[str, t.Any]:
        deadline = tours.deadline(tour, int(self.task_vars.get("ansible_forks") or 5), self.args["seconds"])
        before = time.time()
        result = self._module("listen", tour, tour["hosts"][host], deadline=deadline)
        # The host's clock is read between the two.
        result["asked"] = [before, time.time()]
        return result

    def _module(self, phase: str, tour: dict[str, t.Any], part: dict[str, t.Any], **more: t.Any) -> dict[str, t.Any]:
        arguments = {"phase": phase, "tour": part, "token": tour["token"], "seconds": self.args["seconds"], **more}
        arguments["mark"] = mark()
        result = self._execute_module(
            module_name="inferops.pd.host_preflight", module_args=arguments, task_vars=self.task_vars
        )
        result.pop("invocation", None)
        return t.cast("dict[str, t.Any]", result)
