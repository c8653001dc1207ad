# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller side of hosts_named: whom to ask first about the groups that are meant, without a verdict on their specs."""

from __future__ import annotations

import typing as t

from ..module_utils._core.spec.workload import CACHE, GROUP
from ..plugin_utils._action import PdAction
from ..plugin_utils._batch import check_batch, check_variables
from ..plugin_utils._look import caches_of, look_at


class ActionModule(PdAction):
    ARGUMENTS: t.ClassVar[dict[str, t.Any]] = {
        "name": {"type": "raw"},
        "every": {"type": "bool", "default": False},
    }

    def act(self) -> dict[str, t.Any]:
        check_batch(self._task, self.task_vars)
        check_variables(self._task, self.variable)
        selector = self.selector()
        if selector is None or selector.every:
            every = list(self.groups()) if self.args["every"] else []
            return {"workloads": [{"kind": GROUP.name, "name": name} for name in every], "look": None}
        # What has left the inventory is known by its name, to hosts alone.
        groups = {name: self.entry(name) for name in self.select(selector, others=selector.literals)}
        caches = caches_of(self, groups)
        parts = [*((CACHE, name) for name in caches), *((GROUP, name) for name in groups)]
        workloads = [{"kind": kind.name, "name": name} for kind, name in parts]
        return {"workloads": workloads, "look": look_at(self, groups, caches)}
