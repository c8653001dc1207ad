# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hosts that do not answer, or whose connection breaks in the middle; hosts that are left out; clocks. Prefill and router are on h1, decode
on h2."""

from __future__ import annotations

import typing as t

from faults.case import Case, end
from faults.model import DEPLOY, KEPT, NEW, NONE, RESTART, STATUS, Fault, Play, only, scale

from ansible_collections.inferops.pd.plugins.module_utils._probes import processes

LIMITED = Play("restart", {"pd_group": "g"}, ("--limit", "h1"))
UNANSWERED = (
    r"h2 (did not answer|was not reached|is unreachable|does not answer)|h2.{0,20}UNREACHABLE|UNREACHABLE.{0,40}h2"
)


def down(host: str) -> t.Callable[[Case], None]:
    def do(case: Case) -> None:
        case.down(host)

    return do


def cut(host: str, phase: str) -> t.Callable[[Case], None]:
    def do(case: Case) -> None:
        case.cut(host, phase)

    return do


def skewed(seconds: float, host: str = "h2") -> t.Callable[[Case], None]:
    def do(case: Case) -> None:
        case.skew(host, seconds)

    return do


def reboot(case: Case) -> None:
    """What a boot of h2 leaves of its members: no process, and starts of another boot."""
    state = case.state_of("h2")
    end(int((state / "supervisor" / "supervisord.pid").read_text()))
    for pid in case.pids([state]).values():
        end(pid)
    for starts in state.glob("groups/*/members/*/starts"):
        # "epoch pid boot ticks": a day before this machine's own boot.
        lines = [line.split() for line in starts.read_text().splitlines()]
        earlier = processes.boot_time() - 86400
        starts.write_text("".join(f"{earlier:.0f} {words[1]} {'0' * 8}-1-1-1-1 1\n" for words in lines))


def leave_out(case: Case) -> None:
    """h2 is in no inventory any more. Where the spec wants decode, it wants it on h1 now."""
    case.keep["h2"] = case.hosts.pop("h2")
    case.group["roles"]["decode"]["hosts"] = "h1"
    case.write()


def take_back(case: Case) -> None:
    case.hosts["h2"] = case.keep["h2"]
    case.group["roles"]["decode"]["hosts"] = "h2"
    case.write()


def out_of_the_pattern(case: Case) -> None:
    case.group["roles"]["decode"]["hosts"] = "h1"
    case.write()


def unreachable(phase: str, host: str = "h2", **how: t.Any) -> Fault:
    """A restart onto an edited spec, and a host that is gone when that phase begins."""
    return Fault(
        f"unreachable-before-{phase}",
        "unreachable",
        down(host),
        RESTART,
        edit=True,
        at=f"before:{phase}",
        topology="two",
        told=(UNANSWERED.replace("h2", host),),
        needs=("nic",),
        **how,
    )


def lost(phase: str, host: str = "h2", **how: t.Any) -> Fault:
    """The same, but the phase's module has done its work when the connection breaks."""
    return Fault(
        f"connection-cut-during-{phase}",
        "cut",
        cut(host, phase),
        RESTART,
        edit=True,
        topology="two",
        told=(UNANSWERED.replace("h2", host),),
        needs=("nic",),
        **how,
    )


ROWS = [
    unreachable("observe", runs=KEPT),
    unreachable("lock", runs=KEPT),
    unreachable("router_stop"),
    unreachable("stop", runs=only("decode"), in_selection=True),
    unreachable("start", runs=only("prefill")),
    unreachable("wait", runs=only("prefill", "decode")),
    unreachable("router", "h1", runs=only("prefill", "decode")),
    unreachable("proof", "h1", runs=only("prefill", "decode", "router")),
    unreachable("endpoint", runs=only("prefill", "decode", "router")),
    Fault(
        "unreachable-after-endpoint",
        "unreachable",
        down("h2"),
        RESTART,
        edit=True,
        at="after:endpoint",
        topology="two",
        fails=None,
        runs=NEW,
        needs=("nic",),
        heal=(DEPLOY,),
    ),
    Fault(
        "unreachable-when-a-member-leaves",
        "unreachable",
        down("h1"),
        scale(decode=1),
        at="before:leave",
        topology="two",
        spec={"decode": {"replicas": 2}},
        runs=KEPT,
        needs=("nic",),
        heal=(scale(decode=1), scale(decode=2)),
    ),
    Fault(
        "unreachable-and-a-removal",
        "unreachable",
        down("h2"),
        Play("remove", {"pd_group": "g"}),
        topology="two",
        told=(r"h2 did not answer and may still run g-decode-0: a remove of a part of the group is refused",),
        runs=KEPT,
        needs=("nic",),
        heal=(DEPLOY,),
    ),
    lost("observe", runs=KEPT),
    lost("router_stop"),
    lost("stop", runs=NONE),
    lost("start", runs=only("prefill", "decode")),
    lost("wait", runs=only("prefill", "decode")),
    lost("router", "h1", runs=only("prefill", "decode", "router")),
    lost("proof", "h1", runs=only("prefill", "decode", "router")),
    lost("endpoint", runs=only("prefill", "decode", "router")),
    # -- left out ------------------------------------------------------------------------------------------------------------------
    Fault(
        "limit",
        "limit",
        lambda case: None,
        LIMITED,
        edit=True,
        topology="two",
        runs=KEPT,
        needs=("nic",),
        heal=(RESTART,),
        told=(r"h2 was left out of this run.{0,80}a restart of a part of the group is refused",),
        in_selection=True,
    ),
    Fault(
        "host-gone-from-the-inventory",
        "host-removed",
        leave_out,
        RESTART,
        topology="two",
        runs=KEPT,
        needs=("nic",),
        told=(r"h2 is not in the inventory.{0,40}g-decode-0.{0,80}a restart of a part of the group is refused",),
        lift=take_back,
    ),
    Fault(
        "host-gone-from-the-inventory-and-a-deploy",
        "host-removed",
        leave_out,
        DEPLOY,
        topology="two",
        runs=KEPT,
        needs=("nic",),
        fails=None,
        told=(r"h2.{0,80}g-decode-0",),
        lift=take_back,
    ),
    Fault(
        "host-gone-from-the-pattern",
        "pattern-changed",
        out_of_the_pattern,
        RESTART,
        topology="two",
        fails=False,
        needs=("nic",),
        runs=NEW,
    ),
    Fault(
        "host-gone-from-the-pattern-and-a-deploy",
        "pattern-changed",
        out_of_the_pattern,
        DEPLOY,
        topology="two",
        fails=False,
        told=(r"which roles\.\w+\.hosts does not name any more: it stays there",),
        needs=("nic",),
        runs=KEPT,
        heal=(RESTART,),
    ),
    # -- clocks --------------------------------------------------------------------------------------------------------------------
    Fault(
        "clock-ahead",
        "clock-skew",
        skewed(900),
        RESTART,
        edit=True,
        topology="two",
        fails=False,
        runs=NEW,
        needs=("nic",),
    ),
    Fault(
        "clock-behind",
        "clock-skew",
        skewed(-900),
        RESTART,
        edit=True,
        topology="two",
        fails=False,
        runs=NEW,
        needs=("nic",),
    ),
    Fault(
        "clock-behind-at-a-first-deploy",
        "clock-skew",
        skewed(-900),
        topology="two",
        formed=False,
        fails=False,
        needs=("nic",),
    ),
    Fault(
        "a-host-is-booted",
        "host-booted",
        reboot,
        STATUS,
        topology="two",
        fails=False,
        told=(
            r"the host booted at \d{4}-\d\d-\d\d .{0,20}, and no member starts by itself then; deploy starts it again",
        ),
        runs=only("prefill", "router"),
        heal=(DEPLOY,),
        needs=("nic",),
    ),
]
