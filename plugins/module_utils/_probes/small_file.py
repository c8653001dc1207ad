# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Small files that somebody else may have made, read so that nothing in its place can harm: no FIFO, no link, never more than so much."""

from __future__ import annotations

import os
import stat

_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


def read(path: str, limit: int, follow: bool = False) -> bytes | None:
    """What a regular file holds; None when it is not there, cannot be read, is no regular file, or holds more than `limit` bytes.

    A link at the file itself is followed only with `follow`; opening never waits, as it would for the writer of a FIFO."""
    flags = _FLAGS | (0 if follow else os.O_NOFOLLOW)
    content = head(path, limit + 1, flags)
    return content if content is not None and len(content) <= limit else None


def head(path: str, limit: int, flags: int = _FLAGS) -> bytes | None:
    """The first `limit` bytes of a regular file; None for anything else."""
    try:
        descriptor = os.open(path, flags)
    except (OSError, ValueError):  # ValueError: a NUL in the path
        return None
    try:
        with os.fdopen(descriptor, "rb") as stream:
            if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
                return None
            return stream.read(limit)
    except OSError:
        return None


def text(path: str, limit: int, follow: bool = False) -> str | None:
    """The same as text without the space around it; what is no UTF-8 is replaced."""
    content = read(path, limit, follow)
    return None if content is None else content.decode("utf-8", "replace").strip()
