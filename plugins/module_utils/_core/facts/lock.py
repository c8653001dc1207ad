# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lock of a group, as a value that hosts keep and the controller sees. It is a nonce of the run: names and pids in it are for people,
and may be another's."""

from __future__ import annotations

import typing as t

Lock = t.Mapping[str, t.Any]


def name(lock: Lock) -> str:
    """What a lock is known by; one of an earlier version has no nonce."""
    return str(lock.get("run") or f"{lock.get('who')} {lock.get('since')}")
