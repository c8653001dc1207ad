# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller side of group_measure: which members of a rollout's turn are on the host, and what is read of each."""

from __future__ import annotations

import typing as t

from ..module_utils._core.facts.observed import read_host
from ..plugin_utils._action import facts_of
from ..plugin_utils._counted import read_of
from ..plugin_utils._rollout_host import RolloutHostAction


class ActionModule(RolloutHostAction):
    what = "measured"
    ARGUMENTS: t.ClassVar[dict[str, t.Any]] = {
        "rollout": {"type": "path", "required": True},
        "register": {"type": "str", "default": "pd_facts"},
    }

    def act(self) -> dict[str, t.Any]:
        _folder, turn, known = self.begin()
        said = self.results_of(self.args["register"], hosts=[self.host]).get(self.host) or {}
        facts = facts_of(self.host, said) or {}
        members = [one for name, told in facts.items() for one in read_host(name, told).members]
        asked: dict[str, list[dict[str, t.Any]]] = {}
        for name in turn["measures"]:
            one_of = (known[name].standing.stand, known[name].formation)
            mine = [one for one in members if (one.group, one.formation) == one_of]
            asked[name] = [what for what in map(read_of, mine) if what is not None]
        asked = {name: found for name, found in asked.items() if found}
        if not asked:
            return {"skipped": True, "skip_reason": f"{self.host} has no member that counts anything"}
        self.ask({name: name for name in asked}, "group_measure", {"workloads": asked})
        return {"changed": False, "workloads": {name: {"members": len(found)} for name, found in asked.items()}}
