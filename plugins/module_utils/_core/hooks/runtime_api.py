# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a running HAProxy says of its servers, and what it is told of them, as texts of its runtime API (one command a connection)."""

from __future__ import annotations

import csv
import io
import typing as t

from ..base.address import bracketed
from ..base.errors import PdError
from .hook import Act

STATE, SESSIONS = "show servers state {backend}", "show stat {backend} 4 -1"
# Bits of srv_admin_state: maintenance, whoever asked for it; draining, whoever did. That its file had it disabled when it was started is
# another bit (0x04), which stays once it is ready.
_MAINT, _DRAIN = 0x01 | 0x02 | 0x20, 0x08 | 0x10


class Running(t.NamedTuple):
    """A server as the running process has it."""

    host: str
    port: int
    weight: int
    admin: int

    @property
    def ready(self) -> bool:
        return not self.admin & (_MAINT | _DRAIN)

    @property
    def in_maintenance(self) -> bool:
        return bool(self.admin & _MAINT)


def running(answer: str) -> dict[str, Running]:
    """The servers of a backend by name. Raises PdError for an answer that is none."""
    lines = answer.splitlines()
    head = next((line[1:].split() for line in lines if line.startswith("# ")), None)
    if head is None:
        raise PdError(f"HAProxy's runtime API does not tell its servers: {answer.strip()[:200] or 'it says nothing'}")
    found = {}
    for line in lines:
        row = dict(zip(head, line.split()))
        if line.startswith("#") or "srv_name" not in row:
            continue
        numbers = [
            int(row[key]) if row.get(key, "").isdigit() else 0 for key in ("srv_port", "srv_uweight", "srv_admin_state")
        ]
        found[row["srv_name"]] = Running(row.get("srv_addr", "-"), *numbers)
    return found


def sessions(answer: str) -> dict[str, int]:
    """How many sessions each server has, those that wait for it included."""
    text = answer.lstrip("# ")
    rows = csv.DictReader(io.StringIO(text))
    return {row["svname"]: sum(int(row.get(key) or 0) for key in ("scur", "qcur")) for row in rows if row.get("svname")}


def commands(act: Act, drains: bool = False) -> list[str]:
    """What is said to a server that is there: `drains` to let what runs end, before it is taken out."""
    server = f"{act.hook.backend}/{act.group}"
    if act.event == "out":
        return [f"set server {server} state {'drain' if drains else 'maint'}"]
    host, port = act.place
    return [
        f"set server {server} addr {host} port {port}",
        f"set server {server} weight {act.weight}",
        f"set server {server} state ready",
    ]


def as_wanted(act: Act, now: t.Mapping[str, Running], addresses: t.Collection[str] = ()) -> bool:
    """Whether the running process has the server as it is to be. `addresses` are those that the endpoint's host name stands for."""
    one = now.get(act.group)
    if act.event == "out":
        return one is None or one.in_maintenance
    host, port = act.place
    hosts = {host, bracketed(host), *addresses}
    return one is not None and one.ready and one.host in hosts and (one.port, one.weight) == (port, act.weight)
