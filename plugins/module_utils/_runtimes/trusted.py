# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a path can be written to: who owns a folder above it can put a link in its place, and have root write elsewhere."""

from __future__ import annotations

import os
import stat
import typing as t

from .._probes.processes import user_name

# The whole map of a host that is nobody's container: every user is himself.
_EVERYBODY = ["0", "0", "4294967295"]


def untrusted(path: str) -> str:
    """Who but root and the user that looks could exchange what is at a path, in words; empty when nobody can. What is not there yet is
    made by whoever asks."""
    mine = {0, os.geteuid(), *_unmapped()}
    for place in dict.fromkeys((*_above(path), *_above(os.path.realpath(path)))):
        try:
            found = os.lstat(place)
        except OSError:
            continue
        if found.st_uid not in mine:
            return f"{place} belongs to user {user_name(found.st_uid)}"
        shared = found.st_mode & stat.S_IWOTH and not found.st_mode & stat.S_ISVTX
        if shared and not stat.S_ISLNK(found.st_mode):
            return f"everybody may write to {place}"
    return ""


def _above(path: str) -> t.Iterator[str]:
    """A path and every folder above it, from the top."""
    parts = os.path.abspath(path).split(os.sep)
    for count in range(1, len(parts) + 1):
        yield os.sep.join(parts[:count]) or os.sep


def _unmapped() -> set[int]:
    """In a user namespace, the number that stands for all users of the host outside: its root among them, who owns `/`."""
    try:
        with open("/proc/self/uid_map", encoding="ascii") as stream:
            whole = stream.read().split() == _EVERYBODY
        with open("/proc/sys/kernel/overflowuid", encoding="ascii") as stream:
            return set() if whole else {int(stream.read())}
    except (OSError, ValueError):
        return set()
