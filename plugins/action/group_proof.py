# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller side of group_proof: gives the host that sends the requests the keys that the group's members ask for."""

from __future__ import annotations

import json
import typing as t

from ..plugin_utils._action import PdAction
from ..plugin_utils._keys import keys_of
from ..plugin_utils._plain import sealed, to_plain


class ActionModule(PdAction):
    _requires_connection = True
    ARGUMENTS: t.ClassVar[dict[str, t.Any]] = {
        "plan": {"type": "dict", "required": True},
        "members": {"type": "list", "elements": "str"},
        "formations": {"type": "dict"},
        "timeout": {"type": "float", "default": 60},
        "limit": {"type": "float", "default": 600},
        "max_pairs": {"type": "int", "default": 64},
        "keys": {"type": "json", "no_log": True},
        "api_key": {"type": "str", "no_log": True},
    }

    def act(self) -> dict[str, t.Any]:
        given = {name: to_plain(value) for name, value in self.args.items() if value is not None}
        group = str(given["plan"].get("group"))
        # The engines are on other hosts, whose secrets nobody can read here.
        keys = json.loads(given.pop("keys")) if "keys" in given else keys_of(self, given["plan"])
        one = {name: given.pop(name) for name in ("plan", "members", "formations") if name in given}
        arguments = {**given, "workloads": [{**one, "group": group}], "keys": sealed({group: keys})}
        result = self._execute_module(
            module_name="inferops.pd.group_proof", module_args=arguments, task_vars=self.task_vars
        )
        result.pop("invocation", None)
        found = t.cast("dict[str, dict[str, t.Any]]", result.pop("workloads", None) or {})
        return {**result, **(found.get(group) or {}), "group": group}
