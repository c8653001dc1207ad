# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller side of cache_plan: group_plan, of a cache service."""

from __future__ import annotations

import typing as t

from ..module_utils._core.spec.workload import CACHE
from .group_plan import ActionModule as PlanAction

OPTIONS = ("name", "hosts", "register", "lost_hosts", "modes_path")


class ActionModule(PlanAction):
    ARGUMENTS: t.ClassVar[dict[str, t.Any]] = {
        **{name: PlanAction.ARGUMENTS[name] for name in OPTIONS},
        "action": {"type": "str", "choices": ["deploy", "restart", "remove"], "default": "deploy"},
        "fail_on": {"type": "str", "choices": ["error", "warning", "never"], "default": "error"},
    }

    def act(self) -> dict[str, t.Any]:
        self.as_if(PlanAction.ARGUMENTS, kind=CACHE.name)
        return super().act()
