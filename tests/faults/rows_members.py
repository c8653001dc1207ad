# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Engines and routers that die, do not start, or do not stop."""

from __future__ import annotations

import json
import os
import socket
import typing as t

from faults.case import Case, end
from faults.model import DEPLOY, KEPT, NEW, NONE, RESTART, Fault, Play, only, scale

ENGINES = only("prefill", "decode")
ALL = only("prefill", "decode", "router")


def failing(how: str) -> t.Callable[[Case], None]:
    """Decode fails in a way of the stand-in's while the case's cause is there."""

    def do(case: Case) -> None:
        case.group["roles"]["decode"]["extra_env"] = {"STANDIN_FAIL": f"{how}:{case.cause}"}
        case.write()
        case.cause.touch()

    return do


def mended(case: Case) -> None:
    case.cause.unlink()


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


ROWS = [
    Fault(
        "engine-dies-at-load", "engine-dies-at-load", failing("die_while"), formed=False,
        told=(r"VLLM_KV_CACHE_LAYOUT=NHD does not satisfy", r"g-decode-0 on node:", r"What runs is kept: g-prefill-0\."),
        status=(r"g: PARTIAL \(roles not ready: decode, router\)", r"not registered"),
        runs=only("prefill"), lift=mended, healed=(r"Group g is running",), in_selection=True,
    ),
    Fault(
        "engine-dies-at-load-of-a-restart", "engine-dies-at-load", lambda case: case.cause.touch(), RESTART, edit=True,
        at="after:stop",
        spec={"decode": {}},
        told=(r"g-decode-0 on node:", r"What runs is kept: g-prefill-0\."),
        runs=only("prefill"), lift=mended,
    ),
    Fault(
        "engine-dies-at-first-request", "engine-dies-at-first-request", failing("die_at_request"), formed=False,
        told=(r"g-decode-0", r"proof|KV cache"), status=(r"not registered",), lift=mended, in_selection=True,
    ),
    Fault(
        "decode-dies-under-traffic", "engine-dies-under-traffic", kill("decode"), fails=False, told=(r"g-decode-0",), runs=ALL,
        in_selection=True,
    ),
    Fault("prefill-dies-under-traffic", "engine-dies-under-traffic", kill("prefill"), fails=False, runs=ALL),
    Fault("all-die-under-traffic", "engine-dies-under-traffic", kill("prefill", "decode", "router"), fails=False, runs=ALL),
    Fault("router-dies", "router-dies", kill("router"), fails=False, runs=ALL),
    Fault("router-dies-while-decode-is-added", "router-dies", kill("router"), scale(decode=2), at="before:router", fails=None),
    Fault(
        "routers-port-taken", "port-taken", take_port, formed=False, told=(r"port \d+ is taken by|held by",), runs=None,
        lift=free_port, in_selection=True,
    ),
    Fault(
        "routers-port-taken-in-the-middle", "port-taken", take_port, at="before:router", formed=False,
        told=(r"port \d+ is taken by",), runs=ENGINES, lift=free_port,
    ),
    Fault(
        "a-member-ignores-sigterm", "ignores-sigterm", lambda case: None, RESTART, edit=True, fails=False,
        spec={"decode": {"extra_env": {"STANDIN_FAIL": "ignore_term"}}}, runs=NEW,
    ),
]
