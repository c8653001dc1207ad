# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lock of a group, as a value that hosts keep and the controller sees. It is a nonce of the run: names and pids in it are for people,
and may be another's."""

from __future__ import annotations

import typing as t

from ..base.checked import Checked

Lock = t.Mapping[str, t.Any]


def read(raw: t.Any, where: str) -> Lock:
    """A lock as a file or the facts of a host have it: {run, who, since, expires, process}. Raises DamagedError that names `where`."""
    value = Checked(raw, where)
    for key in ("run", "who"):
        value.text(key, required=False)
    for key in ("since", "expires"):
        value.moment(key)
    process = value.within("process")
    process.maybe("pid", 0, 2**31 - 1)
    return value.raw


def name(lock: Lock) -> str:
    """What a lock is known by; one of an earlier version has no nonce."""
    return str(lock.get("run") or f"{lock.get('who')} {lock.get('since')}")
