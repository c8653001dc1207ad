# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The member label as a plan makes it, of whatever kind of workload: what a member is, what it holds, how it is asked. Its host adds how
it was started; facts/label.py reads all of it again."""

from __future__ import annotations

from ..base.plain import Plain
from ..facts.label import SCHEMA
from .placement import Seat


def compose(
    *,
    group: str,
    member: str,
    role: str,
    index: int,
    revision: str,
    generation: int,
    seat: Seat,
    address: str | None,
    kv_address: str | None,
    url: str | None,
    health: str | None,
    formation: str | None = None,
    backend: str | None = None,
    dialect: str | None = None,
    policy: str | None = None,
) -> dict[str, object]:
    """`group` is the workload's name. `backend` is an engine's, `dialect` and `policy` are a router's. What has no formation names none."""
    known: Plain = {"formation": formation} if formation is not None else {}
    return {
        "schema": SCHEMA,
        "group": group,
        "member": member,
        "role": role,
        "index": index,
        **known,
        "generation": generation,
        "revision": revision,
        "port": seat.port,
        "ports": seat.ports,
        "gpus": list(seat.gpus),
        "address": address,
        "kv_address": kv_address,
        "url": url,
        "health": health,
        "backend": backend,
        "dialect": dialect,
        "policy": policy,
    }
