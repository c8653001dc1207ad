# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hosts behind real ssh, which is cut while a module runs there."""

from __future__ import annotations

import threading
import typing as t

from faults.case import Case
from faults.model import DEPLOY, KEPT, NONE, REMOVE, RESTART, Fault, Play, only
from faults.rows_runs import SLOW, kill_run
from integration.support_runtime import wait_for

if t.TYPE_CHECKING:
    from faults.case_lab import LabCase


def cut_off(host: str) -> t.Callable[[Case], None]:
    def do(case: Case) -> None:
        t.cast("LabCase", case).cut_off(host)

    return do


def cut_off_at_work(host: str) -> t.Callable[[Case], None]:
    """The connection breaks once a module runs at its other end."""

    def do(case: Case) -> None:
        lab_case = t.cast("LabCase", case)
        before = lab_case.modules(host)

        def wait_and_cut() -> None:
            wait_for(lambda: lab_case.modules(host) - before, 60, "a module on the host")
            lab_case.cut_off(host)

        threading.Thread(target=wait_and_cut, daemon=True).start()

    return do


def as_ops(*hosts: str) -> t.Callable[[Case], None]:
    """The inventory names another user there, and no become: what root has on these hosts cannot be seen."""

    def do(case: Case) -> None:
        for host in hosts:
            case.hosts[host]["ansible_user"] = "ops"
        case.write()

    return do


def as_root(case: Case) -> None:
    for host in case.hosts.values():
        host.pop("ansible_user", None)
    case.write()


def hidden(name: str, play: Play, *hosts: str) -> Fault:
    return Fault(
        name,
        "hidden",
        as_ops(*hosts),
        play,
        topology="lab",
        needs=("root", "lab"),
        told=(*hosts, r"become"),
        status=(r"become",),
        runs=KEPT,
        lift=as_root,
        heal=(DEPLOY,),
    )


def row(name: str, kind: str, do: t.Callable[[Case], None], at: str, **how: t.Any) -> Fault:
    return Fault(name, kind, do, RESTART, at=at, edit=True, topology="lab", spec=SLOW, needs=("root", "lab"), **how)


ROWS = [
    row("ssh-cut-before-stop", "cut", cut_off("h2"), "before:stop", told=(r"h2",)),
    row("ssh-cut-before-start", "cut", cut_off("h2"), "before:start", told=(r"h2",)),
    row("ssh-cut-before-wait", "cut", cut_off("h2"), "before:wait", told=(r"h2",)),
    row("ssh-cut-before-endpoint", "cut", cut_off("h2"), "before:endpoint", told=(r"h2",)),
    *[
        row(f"ssh-cut-during-{phase}", "cut", cut_off_at_work("h2"), f"before:{phase}", told=(r"h2",))
        for phase in ("stop", "start", "wait")
    ],
    row("ssh-kill-9-before-start", "kill-9", kill_run, "before:start", fails=None, runs=NONE),
    row("ssh-kill-9-before-wait", "kill-9", kill_run, "before:wait", fails=None, runs=only("prefill", "decode")),
    hidden("removed-without-become", REMOVE, "h1", "h2"),
    hidden("restarted-with-one-host-without-become", RESTART, "h2"),
]
