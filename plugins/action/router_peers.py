# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller side of router_peers: seals the keys of members, and hands all else on as it is."""

from __future__ import annotations

import typing as t

from ansible.plugins.action import ActionBase

from ..plugin_utils._plain import sealed, to_plain


class ActionModule(ActionBase):
    _supports_check_mode = True
    _supports_async = False
    TRANSFERS_FILES = False

    def run(self, tmp: str | None = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        result: dict[str, t.Any] = super().run(tmp, task_vars)
        given = to_plain(self._task.args)
        if isinstance(given.get("keys"), dict):
            given["keys"] = sealed(given["keys"])
        result.update(
            self._execute_module(module_name="inferops.pd.router_peers", module_args=given, task_vars=task_vars)
        )
        return result
