# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A module of the collection on a host as it is, past its action plugin: `module` is its full name, `arguments` are its options. Of several
workloads it fails when one does, with what they say."""

from __future__ import annotations

import typing as t

from ansible.plugins.action import ActionBase


class ActionModule(ActionBase):
    _supports_check_mode = True

    def run(self, tmp: str | None = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        super().run(tmp, task_vars)
        given = self._task.args
        result = self._execute_module(
            module_name=given["module"], module_args=dict(given["arguments"]), task_vars=task_vars
        )
        result.pop("invocation", None)
        bad = [one["msg"] for one in (result.get("workloads") or {}).values() if one.get("failed")]
        return {**result, "failed": True, "msg": " ".join(bad)} if bad else result
