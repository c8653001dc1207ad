# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = """
name: fault_points
type: aggregate
short_description: Lets a test act before and after a phase of a run
version_added: 0.1.0
description:
  - For the fault suite. It says which task runs now, for the connection plugin, and stands still at the point that the test asked for.
author:
  - The inferops.pd contributors (@inferops)
"""

import os
import typing as t

from ansible.plugins.callback import CallbackBase
from faults import points


class CallbackModule(CallbackBase):
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "fault_points"

    def __init__(self) -> None:
        super().__init__()
        self._phase = ""
        self._met = 0

    def v2_playbook_on_task_start(self, task: t.Any, is_conditional: bool) -> None:
        name = task.get_name()
        # The worker of each host is forked after this.
        os.environ[points.TASK] = name
        self._come_to(points.phase_of(name))

    def v2_playbook_on_stats(self, stats: t.Any) -> None:
        self._come_to("")

    def _come_to(self, phase: str) -> None:
        left, self._phase = self._phase, phase
        if left == phase:
            # Several tasks of one phase, one after the other.
            return
        if points.is_point("before", phase) or points.is_point("after", left):
            self._met += 1
            if self._met == points.wave() and points.reach():
                points.stand()
