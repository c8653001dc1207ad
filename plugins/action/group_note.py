# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller side of group_note: hands each host the notes of the turn for the groups whose records it keeps."""

from __future__ import annotations

import typing as t

from ..plugin_utils._rollout_host import RolloutHostAction


class ActionModule(RolloutHostAction):
    what = "noted"
    ARGUMENTS: t.ClassVar[dict[str, t.Any]] = {
        "rollout": {"type": "path", "required": True},
        "state_dir": {"type": "path"},
    }

    def act(self) -> dict[str, t.Any]:
        _folder, turn, known = self.begin()
        mine = {name: note for name, note in turn["notes"].items() if self.host in known[name].keeps}
        if not mine:
            return {"skipped": True, "skip_reason": f"{self.host} keeps no record that is to be noted in"}
        given = {
            known[name].standing.stand: {
                "note": note,
                "formation": known[name].formation,
                "serial": known[name].serial,
            }
            for name, note in mine.items()
        }
        kept = {key: value for key, value in self.runtime_options().items() if key != "runtime_options"}
        arguments = {"notes": given, "holder": self.who, **kept}
        results = self.ask({known[name].standing.stand: name for name in mine}, "group_note", arguments)
        return {"changed": any(one.get("changed") for one in results.values()), "workloads": results}
