# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The phases of a run, and the meeting points between a run and the test that disturbs it. No Ansible: the plugins beside this load it.

A run is told one point by its environment (PD_FAULT_POINT=before:start). When it comes there it makes the file `reached` in PD_FAULTS and,
before and after a phase, stands still until the test makes the file `go`. During a phase it does not stand still: the module runs on.
A run of several waves comes to a phase in each: before:lock:2 is met in the second."""

from __future__ import annotations

import os
import time
from pathlib import Path

# Each phase by how its task is named. A test insists that every one of them is the name of a task.
PHASES = {
    "observe": ("Observe",),
    "plan": ("Plan the",),
    "lock": ("Lock",),
    "leave": ("Take members out of the router of",),
    "router_stop": ("Stop the router of",),
    "stop": ("Stop members of",),
    "start": ("Start the engines of",),
    "wait": ("Wait for the engines of",),
    "router": ("Start the router, and give it its peers, of",),
    "proof": ("Prove that the KV cache moves",),
    "endpoint": ("Write the record of",),
    "forget": ("Forget",),
}
# A test that fell over must not leave a run standing for ever.
PATIENCE = 180.0
TASK = "PD_FAULT_TASK"


def phase_of(task: str) -> str:
    """The phase of a task by its name, without its role's; empty for tasks that are no phase."""
    name = task.rpartition(" : ")[2]
    return next((phase for phase, names in PHASES.items() if name.startswith(names)), "")


def place() -> Path | None:
    """Where runs and tests meet; None when nobody disturbs this run."""
    folder = os.environ.get("PD_FAULTS")
    return Path(folder) if folder else None


def is_point(when: str, phase: str) -> bool:
    wanted = os.environ.get("PD_FAULT_POINT", "").split(":")[:2]
    return bool(phase) and wanted == [when, phase]


def wave() -> int:
    """In which of its waves the run is met, the first being 1."""
    return int(os.environ.get("PD_FAULT_POINT", "").partition(":")[2].partition(":")[2] or 1)


def reach() -> bool:
    """Say that the point has been reached. False when it was before: a point is met once in a run."""
    folder = place()
    if folder is None:
        return False
    try:
        os.close(os.open(folder / "reached", os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


def stand() -> None:
    """Stand still until the test says go."""
    folder = place()
    end = time.monotonic() + PATIENCE
    while folder and not (folder / "go").exists() and time.monotonic() < end:
        time.sleep(0.05)
