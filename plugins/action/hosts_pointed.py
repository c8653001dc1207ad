# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller side of hosts_pointed: from what the hosts of the first look said, whom to ask as well."""

from __future__ import annotations

import typing as t

from ..module_utils._core.base.order import natural
from ..module_utils._core.facts.stands import name_of
from ..module_utils._core.plan.pointed import pointed
from ..module_utils._core.report.users import uses
from ..module_utils._core.spec.workload import CACHE
from ..plugin_utils._action import PdAction
from ..plugin_utils._caches import deployed
from ..plugin_utils._plain import names_list


class ActionModule(PdAction):
    ARGUMENTS: t.ClassVar[dict[str, t.Any]] = {
        "names": {"type": "list", "elements": "str", "required": True},
        "look": {"type": "list", "elements": "str"},
        "register": {"type": "str", "default": "pd_facts"},
    }

    def act(self) -> dict[str, t.Any]:
        inventory = {host for hosts in (self.task_vars.get("groups") or {}).values() for host in hosts}
        names = names_list(self.args["names"])
        found = pointed([*names, *self._used(names)], self.seen().hosts, inventory)
        # One whose facts are of an earlier look than the first is asked again.
        first = self.args["look"]
        asked = set(self.asked()) if first is None else set(names_list(first))
        left = self.living() - asked - set(self.away())
        return {"hosts": sorted(left if found.why else left & found.hosts, key=natural), "why": dict(found.why)}

    def _used(self, names: t.Collection[str]) -> list[str]:
        """Services that members of these groups run with although their specs name others by now."""
        mine = [m for host in self.seen().hosts.values() for m in host.members if name_of(m.group) in names]
        ours = {name: entry for name, entry in self.entries(CACHE).items() if name not in names and deployed(entry)}
        return [name for name in ours if any(uses(member, name) for member in mine)]
