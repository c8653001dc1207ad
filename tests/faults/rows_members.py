# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Engines and routers that die, do not start, or do not stop; routers that misbehave; hosts without room."""

from __future__ import annotations

import json
import socket
import subprocess
import typing as t
import urllib.request

from faults.case import Case, end
from faults.model import DEPLOY, KEPT, NEW, RESTART, Fault, Play, only, scale

ENGINES = only("prefill", "decode")
ALL = only("prefill", "decode", "router")
DEPLOY_ALWAYS_PROVED = Play("deploy", {"pd_proof": "always"})


def nothing(case: Case) -> None:
    """The fault is in the spec."""


def caused(case: Case) -> None:
    case.cause.touch()


def mended(case: Case) -> None:
    case.cause.unlink()


def decode_fails(how: str) -> dict[str, t.Any]:
    return {"decode": {"extra_env": {"STANDIN_FAIL": how}}}


def router_fails(how: str) -> dict[str, t.Any]:
    return {"router": {"env": {"STANDIN_ROUTER_FAIL": how}}}


def kill(*members: str) -> t.Callable[[Case], None]:
    def do(case: Case) -> None:
        for member in members:
            end(case.before[f"g-{member}-0"])

    return do


def take_port(case: Case) -> None:
    listener = socket.create_server(("0.0.0.0", case.port))
    case.keep["listener"] = listener
    case.undo.append(listener.close)


def free_port(case: Case) -> None:
    case.keep["listener"].close()


def add_ghost(case: Case) -> None:
    """A peer that is none of the group's, as an older run or a person may have left it."""
    body = json.dumps({"url": "http://127.0.0.1:9", "worker_type": "decode", "model_id": "another"}).encode()
    request = urllib.request.Request(
        case.url.replace("/v1/completions", "/workers"), body, {"Content-Type": "application/json"}
    )
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=10) as answer:
        assert answer.status == 200


def small_disk(case: Case) -> None:
    """The state directory on a file system of its own, that is full."""
    case.state.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m,mode=700", "tmpfs", str(case.state)], check=True)
    case.undo.append(lambda: subprocess.run(["umount", "-l", str(case.state)], check=False))
    fill(case)


def fill(case: Case) -> None:
    with (case.state / "filler").open("wb") as stream:
        try:
            while True:
                stream.write(b"x" * 4096)
                stream.flush()
        except OSError:
            pass


def make_room(case: Case) -> None:
    """A real disk's worth of it."""
    (case.state / "filler").unlink()
    subprocess.run(["mount", "-o", "remount,size=64m", str(case.state)], check=True)


def disk_fills_up(case: Case) -> None:
    fill(case)


def on_small_disk(case: Case) -> None:
    small_disk(case)


def admit(case: Case) -> None:
    """Another build of the router."""
    del case.group["roles"]["router"]["env"]
    case.write()


ROWS = [
    # -- engines -------------------------------------------------------------------------------------------------------------------
    Fault(
        "engine-dies-at-load",
        "engine-dies-at-load",
        caused,
        formed=False,
        spec=decode_fails("die_while:@cause@"),
        told=(
            r"VLLM_KV_CACHE_LAYOUT=NHD does not satisfy",
            r"g-decode-0 on node:",
            r"What runs is kept: g-prefill-0\.",
        ),
        status=(r"g: PARTIAL \(roles not ready: decode, router\)", r"not registered"),
        runs=only("prefill"),
        lift=mended,
        healed=(r"Group g is running",),
        in_selection=True,
    ),
    Fault(
        "engine-dies-at-load-of-a-restart",
        "engine-dies-at-load",
        caused,
        RESTART,
        edit=True,
        at="after:stop",
        spec=decode_fails("die_while:@cause@"),
        told=(r"g-decode-0 on node:", r"What runs is kept: g-prefill-0\."),
        runs=only("prefill"),
        lift=mended,
        heal=(DEPLOY,),
    ),
    Fault(
        "engine-dies-at-first-request",
        "engine-dies-at-first-request",
        caused,
        formed=False,
        spec=decode_fails("die_at_request:@cause@"),
        told=(r"g-decode-0",),
        status=(r"not registered",),
        lift=mended,
        in_selection=True,
    ),
    Fault(
        "decode-dies-under-traffic",
        "engine-dies-under-traffic",
        kill("decode"),
        fails=False,
        runs=ALL,
    ),
    Fault("prefill-dies-under-traffic", "engine-dies-under-traffic", kill("prefill"), fails=False, runs=ALL),
    Fault(
        "all-die-under-traffic", "engine-dies-under-traffic", kill("prefill", "decode", "router"), fails=False, runs=ALL
    ),
    Fault(
        "a-member-ignores-sigterm",
        "ignores-sigterm",
        nothing,
        RESTART,
        edit=True,
        fails=False,
        spec=decode_fails("ignore_term"),
        runs=NEW,
    ),
    Fault(
        "a-member-ignores-sigterm-when-scaled-down",
        "ignores-sigterm",
        nothing,
        scale(decode=1),
        fails=False,
        spec={"decode": {"replicas": 2, "extra_env": {"STANDIN_FAIL": "ignore_term"}}},
        heal=(Play("deploy", {"pd_allow_scale_down": "true"}), scale(decode=2)),
    ),
    # -- routers -------------------------------------------------------------------------------------------------------------------
    Fault("router-dies", "router-dies", kill("router"), fails=False, runs=ALL, in_selection=True),
    Fault(
        "router-dies-while-decode-is-added",
        "router-dies",
        kill("router"),
        scale(decode=2),
        at="before:router",
        fails=None,
        heal=(scale(decode=1),),
    ),
    Fault(
        "routers-port-taken",
        "port-taken",
        take_port,
        formed=False,
        told=(r"port.{0,40} is taken by",),
        lift=free_port,
    ),
    Fault(
        "routers-port-taken-in-the-middle",
        "port-taken",
        take_port,
        at="before:router",
        formed=False,
        told=(r"port.{0,40} is taken by",),
        runs=ENGINES,
        lift=free_port,
    ),
    Fault(
        "registry-answers-500",
        "registry-fails",
        caused,
        scale(decode=2),
        at="before:router",
        spec=router_fails("registry500:@cause@"),
        told=(r"500",),
        lift=mended,
        heal=(scale(decode=2), scale(decode=1)),
    ),
    Fault(
        "registry-hangs",
        "registry-fails",
        caused,
        scale(decode=2),
        at="before:router",
        spec=router_fails("registry_hangs:@cause@"),
        told=(r"timed out|no answer|did not answer",),
        lift=mended,
        heal=(scale(decode=2), scale(decode=1)),
    ),
    Fault(
        "registry-answers-500-when-a-member-leaves",
        "registry-fails",
        caused,
        scale(decode=1),
        at="before:leave",
        spec={**router_fails("registry500:@cause@"), "decode": {"replicas": 2}},
        told=(r"500",),
        runs=KEPT,
        lift=mended,
        heal=(Play("deploy", {"pd_allow_scale_down": "true"}), scale(decode=1), scale(decode=2)),
    ),
    Fault(
        "a-peer-is-admitted-late",
        "peer-admitted-late",
        nothing,
        scale(decode=2),
        spec=router_fails("late:3"),
        fails=False,
        heal=(scale(decode=1),),
    ),
    Fault(
        "a-peer-is-never-admitted",
        "peer-never-admitted",
        nothing,
        formed=False,
        spec=router_fails("late:1000"),
        told=(r"did not admit",),
        status=(r"not registered",),
        runs=ALL,
        lift=admit,
        heal=(RESTART,),
    ),
    Fault(
        "a-ghost-in-the-registry",
        "ghost",
        add_ghost,
        fails=False,
        told=(r"http://127\.0\.0\.1:9",),
        runs=KEPT,
    ),
    # -- room ----------------------------------------------------------------------------------------------------------------------
    Fault(
        "disk-full",
        "disk-full",
        on_small_disk,
        formed=False,
        told=(r"No space left on device",),
        lift=make_room,
        needs=("root",),
    ),
]
