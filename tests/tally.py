# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a run did, task by task, as the callback `tally` of the bench counts it."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from support import ROOT


@dataclass(frozen=True)
class Task:
    """One task of a run: on which hosts it ran, how many skipped it, and the seconds that it took until the next one."""

    name: str
    action: str
    hosts: list[str]
    skipped: int
    cpu: float
    wall: float


def environment(file: Path) -> dict[str, str]:
    """What has a run write its tally there."""
    folder = ROOT / "tests" / "bench" / "plugins" / "callback"
    return {"ANSIBLE_CALLBACK_PLUGINS": str(folder), "ANSIBLE_CALLBACKS_ENABLED": "tally", "PD_TALLY": str(file)}


def read(file: Path) -> list[Task]:
    return [Task(**task) for task in json.loads(file.read_text())]


def by_host(tasks: list[Task]) -> Counter[str]:
    """How many tasks ran on each host."""
    return Counter(host for task in tasks for host in task.hosts)
