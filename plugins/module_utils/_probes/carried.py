# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The formation and the member that a process carries in its environment, and those of the process that listens on a member's port.

The environment is given at the start and inherited by whatever a member starts, so that it tells which formation really serves: a label
says what was meant."""

from __future__ import annotations

import os
import re
import typing as t

from . import ports, processes

# LEAD: the two names stand in processes.py when whoever starts members has put them there.
GROUP = getattr(processes, "GROUP", "INFEROPS_PD_GROUP")
FORMATION = getattr(processes, "FORMATION", "INFEROPS_PD_FORMATION")
_KEYS = {"member": processes.MEMBER, "state_dir": processes.STATE, "group": GROUP, "formation": FORMATION}
# What we wrote ourselves has these forms. Any user can start a process that carries something else: it is nobody's.
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,199}")
PATH = re.compile(r"/[A-Za-z0-9_./@+,=~-]{0,4000}")
_FORMS = {"member": NAME, "state_dir": PATH, "group": NAME, "formation": NAME}
NOBODY: dict[str, str | None] = {"formation": None, "listener_member": None}
# A container's first process, a shell, an API server, its workers: far less than this.
_GENERATIONS = 16


class Marks(t.TypedDict):
    """What a process of a member carries. `group` and `formation` are None where an earlier version started it."""

    member: str
    state_dir: str
    group: str | None
    formation: str | None


def marks(pid: int, root: str = "/proc") -> Marks | None:
    """What a process carries itself; None when it belongs to no member, is gone, or is another user's."""
    block = processes.environ(pid, root)
    if not block or processes.MEMBER.encode() not in block:
        return None
    given = dict(entry.split(b"=", 1) for entry in block.split(b"\0") if b"=" in entry)
    found: dict[str, str | None] = {}
    for key, name in _KEYS.items():
        value = os.fsdecode(given.get(name.encode(), b""))
        found[key] = value if _FORMS[key].fullmatch(value) else None
    return t.cast("Marks", found) if found["member"] and found["state_dir"] else None


def whose(pid: int, root: str = "/proc") -> Marks | None:
    """What a process carries, or else the nearest of those that it descends from: a process title may overwrite its environment."""
    for _generation in range(_GENERATIONS):
        if pid <= 1:
            return None
        found = marks(pid, root)
        if found:
            return found
        process = processes.read(pid, root)
        if process is None:
            return None
        pid = process.parent
    return None


def carried(
    port: int, listeners: t.Iterable[ports.Listener], addresses: t.Collection[str] = (), root: str = "/proc"
) -> dict[str, str | None] | None:
    """{formation, member} of the process that listens on a port, on one of `addresses` where several do; None when nobody is seen to.

    Both are None when its environment cannot be read, when it is no member's, and when several listen that carry different things: a
    connection may come to any of them."""
    there = [one for one in listeners if one.port == port]
    mine = [one for one in there if one.address in addresses or one.address in ("0.0.0.0", "::")]
    if not there:
        return None
    found = []
    for one in (mine or there) if addresses else there:
        told = whose(one.pid, root) if one.pid and processes.is_believed(one.pid, root) else None
        found.append({"formation": told and told["formation"], "member": told and told["member"]})
    return found[0] if all(one == found[0] for one in found) else {"formation": None, "member": None}


def serving(
    port: int | None, listeners: t.Iterable[ports.Listener], addresses: t.Collection[str] = (), root: str = "/proc"
) -> dict[str, str | None]:
    """The same as a member's facts have it: {formation, listener_member}."""
    found = carried(port, listeners, addresses, root) if port else None
    return {"formation": found["formation"], "listener_member": found["member"]} if found else dict(NOBODY)
