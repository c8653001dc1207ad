# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller side of members_wait: waits for this host's members of all workloads of a wave, and tells what changes as it comes."""

from __future__ import annotations

import os
import typing as t

from ..plugin_utils._run import RUN, RunAction
from ..plugin_utils.run_folder import AGAIN
from ..plugin_utils.waiting import SLICE, Calls, notes_of, nothing_comes, of_engines, wait_for_members


class ActionModule(RunAction):
    ARGUMENTS: t.ClassVar[dict[str, t.Any]] = {
        **RUN,
        "limit": {"type": "float"},
        "patience": {"type": "float"},
        "slice": {"type": "int", "default": SLICE},
        "again": {"type": "bool", "default": False},
        "explain": {"type": "bool", "default": False},
        "state_dir": {"type": "path"},
        "runtime_options": {"type": "dict"},
    }

    def act(self) -> dict[str, t.Any]:
        if self._task.check_mode:
            return {"skipped": True, "skip_reason": "check mode: nothing was started, so nothing is waited for"}
        again, explain = self.args["again"], self.args["explain"]
        found = {
            name: parcel
            for name, (parcel, course) in self.parcels().items()
            if (course.unproven if explain else course.goes_on and not (again and (course.left or not parcel.renews)))
            and not self._refused(name)
            and parcel.takes_part(course)
        }
        # What is seen once more, after rounds of renewal or a proof, is the last word on it.
        step = f"wait.{AGAIN}" if again or explain else self.step("wait")
        notes = notes_of(self, f"{os.path.basename(self.folder.path)}-{self.wave}-{step}")
        if not found:
            nothing_comes(self.host, (), notes)
            return {"skipped": True, "skip_reason": f"nothing is waited for on {self.host}"}
        spent = {} if again or explain else self.folder.said_by(self.wave, step, self.host)
        waits = [
            of_engines(parcel, self.args["limit"], float((spent.get(name) or {}).get("elapsed") or 0))
            for name, parcel in found.items()
        ]
        away = self.left_alone(step, found)
        if away:
            nothing_comes(self.host, waits, notes)
            return away
        calls = Calls(self, self.runtime_options(), self.holder(found.values()), explain)
        slice_ = min(30, max(1, self.args["slice"]))
        patience, (hosts, longest) = self.args["patience"], self.folder.waits(self.wave)
        results = self.ask(step, found, lambda: wait_for_members(calls, waits, notes, patience, slice_, hosts, longest))
        told = {name: result["msg"] for name, result in results.items() if result.get("not_ready")}
        return {"changed": False, "not_ready": told}

    def _refused(self, name: str) -> bool:
        """A host that refused the plan or the lock has started nothing: another run's members are not this one's to wait for."""
        said = self.folder.said_by(self.wave, self.step("start"), self.host).get(name)
        return bool(said and said.get("refused"))
