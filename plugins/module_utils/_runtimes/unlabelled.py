# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Unlabelled members, which only their processes tell of: the state directory, or the part of it that was theirs, was deleted while they
ran.

They hold GPUs and ports, and answer. So they are listed, and can be stopped by their id, as any other member."""

from __future__ import annotations

import os
import re
import typing as t

from .._probes import processes
from .protocol import Live
from .state import State

_ID = re.compile(r"([A-Za-z0-9][A-Za-z0-9_.-]*)-([a-z]+)-([0-9]{1,6})", re.ASCII)
_UNIT = re.compile(r"/inferops-pd-([A-Za-z0-9_.-]+)\.service(?:/|$)", re.M)
# With a user's own systemd above it.
_USER = re.compile(r"/user@[0-9]+\.service/")


class Unlabelled(Live):
    """A member without a label of its own. `label` is what is known of it."""

    unlabelled: bool


def members(state: State, runtime: str) -> list[Unlabelled]:
    """Those of one runtime: of systemd what is in the cgroup of a unit of ours, of supervisor what is in nobody's."""
    # In this order: a member's label is written before it starts, and deleted after it has ended.
    marked = processes.marked(state.root)
    labelled = {label.get("member") for label in state.labels()} if marked else set()
    found = []
    for member, its in sorted(marked.items()):
        main = main_of(its)
        if member in labelled or runner(main.pid) != runtime or not processes.alive(main):
            continue
        label = label_of(member, processes.marks(main.pid), runtime)
        if label is None:
            continue
        if runtime == "systemd":
            label["scope"] = "user" if _USER.search(processes.cgroup(main.pid)) else "system"
        found.append(live(state, label, its))
    return found


def main_of(its: t.Sequence[processes.Process]) -> processes.Process:
    """The first of a member's processes: the one that none of the others has started."""
    pids = {process.pid for process in its}
    return min(its, key=lambda process: (process.parent in pids, process.start, process.pid))


def runner(pid: int) -> str:
    """The runtime that a member's process belongs to, by its cgroup."""
    text = processes.cgroup(pid)
    if _UNIT.search(text):
        return "systemd"
    return "docker" if processes.in_container(pid) else "supervisor"


def label_of(member: str, known: t.Mapping[str, str], runtime: str) -> dict[str, t.Any] | None:
    """What can be known of a member by its id and by its marks; None for an id that this collection does not give."""
    found = _ID.fullmatch(member)
    if found is None:
        return None
    group, role, index = found.groups()
    formation = known.get(processes.FORMATION)
    return {
        "group": known.get(processes.GROUP) or group,
        "member": member,
        "role": role,
        "index": int(index),
        **({"formation": formation} if formation else {}),
        "runtime": runtime,
        "generation": 0,
        "revision": "",
        "created": 0.0,
    }


def live(state: State, label: dict[str, t.Any], its: t.Sequence[processes.Process]) -> Unlabelled:
    main = main_of(its)
    log = state.log_path(label["group"], label["member"])
    told = ", ".join(str(process.pid) for process in sorted(its, key=lambda process: process.pid)[:8])
    return {
        "label": label,
        "state": "running",
        "pid": main.pid,
        "since": main.since,
        "restarts": 0,
        "exit": None,
        "why": f"its label is gone: what {state.root} had of it was deleted, and only its processes tell of it (pid {told})",
        "log": log if os.path.exists(log) else None,
        "unlabelled": True,
    }
