# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = """
name: tally
type: aggregate
short_description: Counts the tasks that ran, and what each cost the controller
version_added: 0.1.0
description:
  - At the end of a run it writes one JSON file, which E(PD_TALLY) names. Of each task in the order of the run that is its C(name), its
    C(action), the C(hosts) that it ran on, without those that skipped it, C(skipped), a count of these, and the C(cpu) and C(wall) seconds
    until the next one.
author:
  - The inferops.pd contributors (@inferops)
"""

import json
import multiprocessing
import os
import resource
import time
import typing as t

from ansible.plugins.callback import CallbackBase


class CallbackModule(CallbackBase):
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "tally"

    def __init__(self) -> None:
        super().__init__()
        self._tasks: list[dict[str, t.Any]] = []
        self._since = spent()

    def v2_playbook_on_task_start(self, task: t.Any, is_conditional: bool) -> None:
        self._close()
        action = str(task.resolved_action or task.action)
        self._tasks.append({"name": task.get_name(), "action": action, "hosts": [], "skipped": 0})

    def v2_runner_on_ok(self, result: t.Any) -> None:
        # One that ran for all (run_once) is told for one host.
        self._tasks[-1]["hosts"].append(result._host.get_name())

    def v2_runner_on_failed(self, result: t.Any, ignore_errors: bool = False) -> None:
        self.v2_runner_on_ok(result)

    def v2_runner_on_unreachable(self, result: t.Any) -> None:
        self.v2_runner_on_ok(result)

    def v2_runner_on_skipped(self, result: t.Any) -> None:
        self._tasks[-1]["skipped"] += 1

    def v2_playbook_on_stats(self, stats: t.Any) -> None:
        self._close()
        with open(os.environ["PD_TALLY"], "w", encoding="utf-8") as stream:
            json.dump(self._tasks, stream)

    def _close(self) -> None:
        """End the task before: its workers, too, whose time counts once they have been waited for."""
        for worker in multiprocessing.active_children():
            worker.join()
        now = spent()
        if self._tasks:
            self._tasks[-1] |= {"cpu": now[0] - self._since[0], "wall": now[1] - self._since[1]}
        self._since = now


def spent() -> tuple[float, float]:
    """Seconds of CPU of this process and of those that it has waited for, and of the clock."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used), time.monotonic()
