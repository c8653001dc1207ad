# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller side of cache_validate: group_validate, of cache services."""

from __future__ import annotations

import typing as t

from ..module_utils._core.spec.workload import CACHE
from .group_validate import ActionModule as ValidateAction


class ActionModule(ValidateAction):
    ARGUMENTS: t.ClassVar[dict[str, t.Any]] = {
        **{name: ValidateAction.ARGUMENTS[name] for name in ("name", "named", "modes_path")},
        "fail_on": {"type": "str", "choices": ["error", "warning", "never"], "default": "error"},
    }

    def act(self) -> dict[str, t.Any]:
        self.as_if(ValidateAction.ARGUMENTS, kind=CACHE.name)
        return super().act()
