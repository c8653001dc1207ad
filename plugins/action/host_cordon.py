# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller side of host_cordon: adds who runs the playbook, and where the host keeps its members."""

from __future__ import annotations

import typing as t

from ansible.plugins.action import ActionBase
from ansible.utils.vars import merge_hash

from ..plugin_utils._action import PdAction, given


class ActionModule(PdAction):
    """As Ansible runs any module: the module itself checks its arguments."""

    _requires_connection = True

    def run(self, tmp: str | None = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        result = ActionBase.run(self, tmp, task_vars)
        self.task_vars, self.args = task_vars or {}, given(self._task.args)
        place = {key: value for key, value in self.runtime_options().items() if key == "state_dir"}
        arguments = {"by": self.new_run().by, **self.args, **place}
        said = self._execute_module(module_args=arguments, task_vars=task_vars)
        return t.cast("dict[str, t.Any]", merge_hash(result, said))
