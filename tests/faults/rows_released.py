# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Groups that a released version formed (tests/released), and with which this one goes on."""

from __future__ import annotations

import json
import os
import time
import typing as t
from pathlib import Path

from faults.case import Case
from faults.model import DEPLOY, KEPT, NEW, RESTART, Fault, scale

OLD = "22a08ae"
MEMBERS = ("g-prefill-0", "g-decode-0", "g-router-0")


def nothing(case: Case) -> None:
    """Somebody has installed this version."""


def taken_over(case: Case) -> None:
    """Label and record have one formation, on every host."""
    formations = {record.get("formation") for record in case.records()}
    assert len(formations) == 1, formations
    assert formations != {None}, "the record has no formation"
    for member in MEMBERS:
        for label in case.labels(member):
            has = (label.get("formation"), label.get("schema"), label.get("adopted"))
            assert has == (*formations, 2, True), label


def goes_on(case: Case) -> None:
    """What a user does next finds the members where they are."""
    again = case.must(DEPLOY)
    assert again.changed == 0, again.out[-4000:]
    case.must(scale(decode=2))
    now = case.running()
    assert {member: now.get(member) for member in MEMBERS} == case.before, "adopted members were restarted"
    case.must(scale(decode=1))


def taken_over_in_containers(case: Case) -> None:
    """Docker's labels are as its container was made with: what was added is beside it."""
    formations = {record.get("formation") for record in case.records()}
    assert len(formations) == 1, formations
    assert formations != {None}, "the record has no formation"


def its_run_died(case: Case) -> None:
    """A run of that version ended in the middle, on this machine, with the lock in the record."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    run = {"pid": 4194304, "machine": f"{boot} {os.readlink('/proc/self/ns/pid')}"}
    now = time.time()
    for state in case.states:
        file = state / "groups/g/record.json"
        lock = {"who": "ops@here pid 4194304", "since": now - 9, "expires": now + 290, "process": run}
        file.write_text(json.dumps({**json.loads(file.read_text()), "lock": lock}))


def row(name: str, do: t.Callable[[Case], None] = nothing, *words: t.Any, **how: t.Any) -> Fault:
    return Fault(name, "earlier-version", do, *words, formed_by=OLD, fails=False, **how)


ROWS = [
    row("taken-over", runs=KEPT, check=taken_over, lift=goes_on, heal=(RESTART,), in_selection=True),
    row(
        "taken-over-on-two-hosts", topology="two", runs=KEPT, check=taken_over, lift=goes_on, heal=(RESTART,), needs=("nic",)
    ),
    row("taken-over-and-restarted-on-an-edited-spec", nothing, RESTART, topology="two", edit=True, runs=NEW, needs=("nic",)),
    row("taken-over-from-a-run-that-died", its_run_died, runs=KEPT, check=taken_over, heal=(DEPLOY,)),
    row(
        "taken-over-in-containers", topology="docker", runs=KEPT, check=taken_over_in_containers, lift=goes_on, heal=(RESTART,),
        needs=("root", "docker"),
    ),
]  # fmt: skip
