# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hidden members: whether this host can be judged as the user that Ansible is there. Where members belong to somebody else, an empty state
folder is no empty host, and a plan that took it for one would tear down or double what serves."""

from __future__ import annotations

import os
import typing as t
from dataclasses import dataclass

from .._probes import carried, elsewhere, processes, small_file
from .._runtimes.systemd_unit import PREFIX, belongs_to

# Where root's members are, whoever looks.
SYSTEM_DIR = "/var/lib/inferops-pd"
SYSTEM_UNITS = "/etc/systemd/system"
_UNIT_LIMIT = 64 * 1024
_MOST_LABELS = 10000


@dataclass(frozen=True)
class Place:
    """Where a run looks: its state folder, whether the inventory names that (pd_state_dir), and as whom."""

    root: str
    given: bool = False
    euid: int = 0
    system_dir: str = SYSTEM_DIR
    units_dir: str = SYSTEM_UNITS

    @property
    def user(self) -> str:
        return processes.user_name(self.euid)


def unreadable(place: Place) -> str:
    """Why the state folder cannot be read, with what to do; empty when it can, or when there is none."""
    for path, folder in _kept(place.root):
        try:
            found = os.lstat(path) if path != place.root else os.stat(path)
        except PermissionError:
            return f"user {place.user} may not look into {os.path.dirname(path)}, where {path} would be. {_become()}"
        except OSError:
            continue
        if not os.access(path, os.R_OK | os.X_OK if folder else os.R_OK):
            whose = processes.user_name(found.st_uid)
            return f"{path} belongs to user {whose}, and user {place.user} may not read it. {_become(found.st_uid)}"
        # A folder that its owner has made for us, and in which we write, is ours; what stands in it is of whoever made it.
        if folder and place.euid not in (0, found.st_uid) and not (path == place.root and os.access(path, os.W_OK)):
            whose = processes.user_name(found.st_uid)
            return f"{path} belongs to user {whose}, and Ansible is user {place.user} here. {_become(found.st_uid)}"
    return ""


def hidden(place: Place, containers: t.Iterable[elsewhere.Container] = ()) -> str:
    """Why this user cannot judge the host, with what to do; empty when it can: who names a state folder says which members are meant."""
    if place.euid == 0 or place.given:
        return ""
    if place.root != place.system_dir and os.path.lexists(place.system_dir):
        return _others(f"members of the system are kept in {place.system_dir}", place, _owner(place.system_dir))
    for name, state_dir in _units(place.units_dir):
        if state_dir != place.root:
            whose = f"the members in {state_dir}" if state_dir else "members of somebody else"
            return _others(f"unit {name} belongs to {whose}", place)
    for container in containers:
        if not elsewhere.is_ours(container.state_dir, place.root):
            name = str(container.label.get("member") or "of ours")
            return _others(f"container {name} belongs to the members in {container.state_dir}", place)
    return ""


def _others(what: str, place: Place, owner: int | None = None) -> str:
    """What there is, that it was not looked at, and the two ways on."""
    return (
        f"{what}, and user {place.user} looks into {place.root}. {_become(owner)[:-1]}; if members of user {place.user} alone are"
        f" meant, set pd_state_dir to {place.root}."
    )


def _kept(root: str) -> t.Iterator[tuple[str, bool]]:
    """(path, whether it is a folder) of what a state folder keeps, as far as it can be looked into."""
    yield root, True
    groups = os.path.join(root, "groups")
    yield groups, True
    for group in _entries(groups):
        folder = os.path.join(groups, group)
        yield folder, True
        yield os.path.join(folder, "record.json"), False
        members = os.path.join(folder, "members")
        yield members, True
        for member in _entries(members):
            yield os.path.join(members, member), True
            yield os.path.join(members, member, "label.json"), False


def _entries(path: str) -> list[str]:
    try:
        return sorted(os.listdir(path))[:_MOST_LABELS]
    except OSError:
        return []


def _units(folder: str) -> t.Iterator[tuple[str, str | None]]:
    """(name, state folder) of the units of members, None where it cannot be read."""
    for name in _entries(folder):
        if name.startswith(PREFIX) and name.endswith(".service") and name.isprintable():
            path = os.path.join(folder, name)
            text = small_file.text(path, _UNIT_LIMIT)
            state_dir = belongs_to(text) if text else None
            if text is None and not os.path.islink(path):  # a link masks a unit
                yield name, None
            elif state_dir and carried.PATH.fullmatch(state_dir):
                yield name, state_dir


def _become(owner: int | None = None) -> str:
    who = f", or as user {processes.user_name(owner)}" if owner is not None else ""
    return f"Run with become (ansible_become: true){who}."


def _owner(path: str) -> int | None:
    try:
        return os.stat(path).st_uid
    except OSError:
        return None
