# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs that end in the middle, meet each other, or leave something out; and what people edit by hand."""

from __future__ import annotations

import json
import os
import signal
import time
import typing as t
from pathlib import Path

from faults.case import Case
from faults.model import DEPLOY, KEPT, NEW, NONE, RESTART, Fault, Play, only, scale

SLOW = {"engine": {"env": {"STANDIN_LOAD": "3"}}}


def interrupt(case: Case) -> None:
    """Ctrl-C: the terminal sends it to the whole foreground process group."""
    run = case.runs[-1].process
    os.killpg(run.pid, signal.SIGINT)


def kill_run(case: Case) -> None:
    """kill -9 of ansible-playbook alone: what it started goes on, as a module on a host does."""
    os.kill(case.runs[-1].process.pid, signal.SIGKILL)
    case.runs[-1].process.wait(10)


def kill_all(case: Case) -> None:
    """kill -9 of ansible-playbook and of the modules that work for it, as when a host's session goes with the run."""
    pids = descendants(case.runs[-1].process.pid)
    kill_run(case)
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue


def descendants(pid: int) -> list[int]:
    """All processes below one that are not members: those live on when a module dies."""
    found = []
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in map(int, path.read_text().split()):
            if not is_member(child):
                found += [child, *descendants(child)]
    return found


def is_member(pid: int) -> bool:
    try:
        return b"INFEROPS_PD_MEMBER=" in Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return False


def second(play: Play, told: str) -> t.Callable[[Case], None]:
    """Another run beside this one, from another terminal, which must be refused and told why."""

    def do(case: Case) -> None:
        first = case.runs[-1]
        there = case.running()
        run = case.start(play)
        done = run.finish()
        text = " ".join(done.out.split())
        assert done.rc != 0, done.out[-4000:]
        assert told.replace("PID", str(first.process.pid)) in text, done.out[-4000:]
        assert case.running() == there, "the second run changed something"

    return do


def overtaken(play: Play) -> t.Callable[[Case], None]:
    """Another run does all its work between this one's plan and its first change."""

    def do(case: Case) -> None:
        done = case.start(play).finish()
        assert done.rc == 0, done.out[-4000:]
        case.keep["after"] = case.running()

    return do


def label_file(case: Case, member: str) -> Path:
    (found,) = [p for state in case.states for p in state.glob(f"groups/g/members/{member}/label.json")]
    return found


def edit_label(**changes: t.Any) -> t.Callable[[Case], None]:
    def do(case: Case) -> None:
        file = label_file(case, "g-decode-0")
        file.write_text(json.dumps({**json.loads(file.read_text()), **changes}))

    return do


def spoil(what: str) -> t.Callable[[Case], None]:
    """A file that a person, or a full disk, has cut short."""

    def do(case: Case) -> None:
        file = label_file(case, "g-decode-0") if what == "label" else case.states[0] / "groups/g/record.json"
        case.keep["whole"] = (file, file.read_text())
        file.write_text(case.keep["whole"][1][:40])

    return do


def mend(case: Case) -> None:
    file, text = case.keep["whole"]
    file.write_text(text)


def lock_from_the_future(case: Case) -> None:
    """The lock of a run whose clock is an hour ahead, on this machine, and which is dead."""
    now = time.time()
    for state in case.states:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        run = {"pid": 4194304, "machine": f"{boot} {os.readlink('/proc/self/ns/pid')}"}
        times = {"since": now + 3600, "expires": now + 3900}
        lock = {"run": "ahead", "who": "ops@ahead pid 4194304", **times, "process": run}
        (state / "groups/g/lock.json").write_text(json.dumps(lock))


def outlived(case: Case) -> None:
    """The run is killed while its module on the host waits for a member to end; another takes its place, and does all its work."""
    kill_run(case)
    # The first may be refused: what that module does meanwhile makes its plan stale.
    if case.do_play(RESTART).rc != 0:
        case.must(RESTART)
    case.keep["after"] = case.running()


def nothing_more(case: Case) -> None:
    """Time for the module of the dead run to do what it was told to."""
    time.sleep(12)
    assert case.running() == case.keep["after"], "a module that outlived its run went on"


def nothing(case: Case) -> None:
    """The fault is in the inventory."""


def remove_b(case: Case) -> None:
    """The other group goes, from the host and from the inventory."""
    done = case.start(Play("remove", {"pd_group": "b"})).finish()
    assert done.rc == 0, done.out[-4000:]
    del case.groups["b"]
    case.write()


def killed(signal_: str, phase: str, when: str, **how: t.Any) -> Fault:
    """A restart onto an edited spec that ends in one of its phases, and is run again at once."""
    kind, do = {"ctrl-c": ("ctrl-c", interrupt), "kill-9": ("kill-9", kill_run), "kill-all": ("kill-9", kill_all)}[
        signal_
    ]
    return Fault(
        f"{signal_}-{when}-{phase}",
        kind,
        do,
        RESTART,
        edit=True,
        at=f"{when}:{phase}",
        spec=SLOW,
        **how,
    )


# What runs when a restart ends before that phase.
BEFORE: dict[str, t.Any] = {
    "observe": KEPT,
    "plan": KEPT,
    "lock": KEPT,
    "router_stop": KEPT,
    "stop": only("prefill", "decode"),
    "start": NONE,
    "wait": only("prefill", "decode"),
    "router": only("prefill", "decode"),
    "proof": only("prefill", "decode", "router"),
    "endpoint": only("prefill", "decode", "router"),
}
TELLING = {("kill-all", "stop")}

ROWS = [
    *[
        killed(
            "ctrl-c",
            phase,
            "before",
            runs=runs,
            told=(r"User interrupted execution",),
            in_selection=("ctrl-c", phase) in TELLING,
        )
        for phase, runs in BEFORE.items()
    ],
    *[killed("ctrl-c", phase, "during") for phase in ("router_stop", "stop", "start", "wait", "router", "endpoint")],
    *[
        killed("kill-9", phase, "before", runs=runs, in_selection=("kill-9", phase) in TELLING)
        for phase, runs in BEFORE.items()
    ],
    *[killed("kill-9", phase, "during") for phase in ("router_stop", "stop", "start", "wait", "router", "endpoint")],
    *[
        killed("kill-all", phase, "during", in_selection=("kill-all", phase) in TELLING)
        for phase in ("observe", "router_stop", "stop", "start", "router", "endpoint")
    ],
    Fault(
        "kill-9-of-a-removal", "kill-9", kill_all, Play("remove", {"pd_group": "g"}), at="during:stop", heal=(DEPLOY,)
    ),
    Fault(
        "kill-9-before-the-group-is-forgotten",
        "kill-9",
        kill_run,
        Play("remove", {"pd_group": "g"}),
        at="before:forget",
        runs=NONE,
        heal=(Play("remove", {"pd_group": "g"}), DEPLOY),
    ),
    Fault("kill-9-of-a-first-deploy", "kill-9", kill_run, at="during:wait", spec=SLOW, formed=False),
    Fault(
        "kill-9-of-a-scale",
        "kill-9",
        kill_run,
        scale(decode=2),
        at="during:wait",
        spec=SLOW,
        heal=(scale(decode=2), scale(decode=1)),
    ),
    Fault(
        "a-module-that-outlives-its-run",
        "kill-9",
        outlived,
        RESTART,
        edit=True,
        at="during:stop",
        spec={
            "decode": {"extra_env": {"STANDIN_FAIL": "ignore_term"}},
            "limits": {"start": 60, "drain": 2, "stop": 8},
        },
        fails=None,
        check=nothing_more,
    ),
    # -- two runs ------------------------------------------------------------------------------------------------------------------
    Fault(
        "two-deploys",
        "two-runs",
        second(DEPLOY, "pid PID is changing it since"),
        at="before:wait",
        formed=False,
        fails=False,
        in_selection=True,
    ),
    Fault(
        "a-restart-beside-a-deploy",
        "two-runs",
        second(RESTART, "pid PID is changing it since"),
        scale(decode=2),
        at="before:wait",
        fails=False,
        heal=(scale(decode=1),),
    ),
    Fault(
        "a-deploy-beside-a-restart",
        "two-runs",
        second(scale(decode=2), "pid PID is changing it since"),
        RESTART,
        edit=True,
        at="before:router",
        fails=False,
    ),
    Fault(
        "a-deploy-that-was-overtaken-by-a-deploy",
        "overtaken",
        overtaken(DEPLOY),
        at="before:lock",
        formed=False,
        told=(r"another run has changed its members since the plan was made",),
        runs=only("prefill", "decode", "router"),
    ),
    Fault(
        "a-restart-that-was-overtaken-by-a-scale",
        "overtaken",
        overtaken(scale(decode=2)),
        RESTART,
        at="before:lock",
        told=(r"another run has changed its members since the plan was made",),
        heal=(scale(decode=1),),
    ),
    Fault(
        "a-scale-that-was-overtaken-by-a-restart",
        "overtaken",
        overtaken(RESTART),
        scale(decode=2),
        edit=False,
        at="before:lock",
        told=(r"another run has changed its members since the plan was made",),
        heal=(DEPLOY,),
        runs=only("prefill", "decode", "router"),
    ),
    # -- two groups, the same GPUs -------------------------------------------------------------------------------------------------
    Fault(
        "two-groups-two-runs-the-same-gpus",
        "same-gpus",
        overtaken(Play("deploy", {"pd_group": "b"})),
        Play("deploy", {"pd_group": "g"}),
        at="before:lock",
        topology="gpus",
        formed=False,
        told=(r"another run has changed the members of this host since the plan was made",),
        lift=remove_b,
        heal=(DEPLOY,),
    ),
    Fault(
        "two-groups-one-run-the-same-gpus",
        "same-gpus",
        nothing,
        DEPLOY,
        topology="gpus",
        formed=False,
        told=(r"does-not-fit",),
        lift=remove_b,
    ),
    # -- edited by hand ------------------------------------------------------------------------------------------------------------
    Fault(
        "a-label-of-another-revision",
        "label-edited",
        edit_label(revision="deadbeef"),
        fails=None,
        told=(r"[Pp]ending",),
        runs=KEPT,
        heal=(RESTART,),
    ),
    Fault(
        "a-label-of-another-generation",
        "label-edited",
        edit_label(generation=7),
        fails=None,
        runs=KEPT,
        heal=(RESTART,),
    ),
    Fault(
        "a-label-of-another-port",
        "label-edited",
        edit_label(url="http://127.0.0.1:9", port=9),
        fails=None,
        heal=(RESTART,),
    ),
    Fault(
        "a-label-that-is-damaged",
        "state-damaged",
        spoil("label"),
        fails=False,
        told=(r"label\.json is damaged", r"whether g-decode-0 runs is not known"),
        status=(r"label\.json is damaged",),
        runs=KEPT,
        lift=mend,
        in_selection=True,
    ),
    Fault(
        "a-record-that-is-damaged",
        "state-damaged",
        spoil("record"),
        told=(r"record\.json is damaged", r"what there is of the group is not known"),
        runs=KEPT,
        lift=mend,
    ),
    # -- clocks --------------------------------------------------------------------------------------------------------------------
    Fault("a-lock-from-the-future", "clock-skew", lock_from_the_future, RESTART, fails=False, runs=NEW),
]
