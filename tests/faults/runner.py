# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Carries out any row of the table, always in the same order, and looks for what must be true of each."""

from __future__ import annotations

import re
from dataclasses import replace

from faults.case import SECRET, Case, Client
from faults.model import DEPLOY, KEPT, NEW, NONE, STATUS, Fault, Play
from support import Run

REMOVE_ALL = Play("remove", {"pd_group": "all"})


def carry_out(fault: Fault, case: Case, leave: bool = False) -> bool:
    """The whole row. Whatever fails is an assertion that says which step of it. With `leave` the healed group is left for the next row,
    and removed after that: returns whether it was."""
    if fault.formed:
        if not case.running():
            finished(case, replace(DEPLOY, version=fault.formed_by))
        case.serves()
        case.before = case.running()
    places = case.places()
    with Client(case.urls) as client:
        run = meet(fault, case)
        with case.going_on():
            check_run(fault, run)
        with case.going_on():
            check_state(fault, case)
        with case.going_on():
            if fault.lift:
                fault.lift(case)
        case.reachable()
        for play in fault.healing()[:-1]:
            case.do_play(play)
        with case.going_on():
            healed = finished(case, fault.healing()[-1])
            for pattern in fault.healed:
                said(pattern, healed, "the run that heals")
        with case.going_on():
            case.serves()
    told = case.complaints
    told += ["pairs served that must not:\n" + "\n".join(client.mixed())] if client.mixed() else []
    assert not told, "\n\n".join(told)
    for state in case.records():
        assert state["state"] == "running", state
        assert state["endpoint"]["registered"], state
        assert "lock" not in state, state
    assert not case.locks()
    again = finished(case, DEPLOY)
    assert again.changed == 0, f"a deploy of the healed group changed something:\n{again.out[-4000:]}"
    assert client.pairs, f"the client never got an answer: {client.statuses}"
    check_outputs(case)
    # The next row wants the group as a first forming makes it.
    if leave and case.told() == case.written and case.places() == places and not case.undo:
        return True
    finished(case, REMOVE_ALL)
    assert case.left() == [], "the removal left something"
    check_outputs(case)
    return False


def meet(fault: Fault, case: Case) -> Run:
    """Disturb the group, and play."""
    if fault.edit:
        case.edit()
    if not fault.at:
        fault.do(case)
        return case.do_play(fault.play)
    run = case.start(fault.play, fault.at)
    case.reached(run)
    fault.do(case)
    case.go()
    return run.finish()


def check_run(fault: Fault, run: Run) -> None:
    if fault.fails is not None:
        assert (run.rc != 0) == fault.fails, f"it ended with {run.rc}:\n{run.out[-6000:]}"
    for pattern in fault.told:
        said(pattern, run, "the run")


def check_state(fault: Fault, case: Case) -> None:
    """What runs, and what a person is told who asks."""
    now = case.running()
    told = f"of {sorted(case.before)} before, there is {sorted(now)} now"
    if fault.runs == KEPT:
        assert now == case.before, f"not kept: {told}"
    elif fault.runs == NONE:
        assert not now, told
    elif fault.runs == NEW:
        assert set(now) == set(case.before), told
        assert not set(now.values()) & set(case.before.values()), told
    elif fault.runs is not None:
        assert set(now) == set(fault.runs), f"{sorted(fault.runs)} should: {told}"
    if fault.check:
        fault.check(case)
    if fault.status:
        status = case.do_play(STATUS)
        for pattern in fault.status:
            said(pattern, status, "the status")


def finished(case: Case, play: Play) -> Run:
    run = case.do_play(play)
    assert run.rc == 0, f"{play.book} ended with {run.rc}:\n{run.out[-6000:]}"
    return run


def said(pattern: str, run: Run, who: str) -> None:
    text = " ".join(run.out.split())
    assert re.search(pattern, text), f"{who} does not say {pattern!r}:\n{run.out[-6000:]}"


def check_outputs(case: Case) -> None:
    """What no run may ever print."""
    for run in case.runs:
        text = run.out.read_text(errors="replace")
        assert "Traceback (most recent call last)" not in text, f"{run.out.name}:\n{text[-6000:]}"
        assert SECRET not in text, f"{run.out.name} shows a secret"
