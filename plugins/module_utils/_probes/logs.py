# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The end of a log file, as clean lines."""

from __future__ import annotations

import os
import typing as t

from .._core.base.errors import PdError
from .._core.base.printable import fit
from .._core.watch.symptom import clip

TAIL_KIB = 256
# More than a tail holds: a limit where lines are asked for, not bytes.
TAIL_LINES = 4000


class Tail(t.NamedTuple):
    """The end of a log. `offset` is where the file ended: a later look may start there."""

    lines: list[str]
    offset: int


def tail(path: str, kib: int = TAIL_KIB, start: int = 0) -> Tail:
    """The last `kib` KiB of a log file, from byte `start` at the earliest. A file that is not there is an empty log.

    Raises PdError when there is a file that cannot be read."""
    try:
        with open(path, "rb") as stream:
            size = stream.seek(0, os.SEEK_END)
            if start > size:  # it was rotated or truncated
                start = 0
            begin = max(start, size - kib * 1024)
            stream.seek(begin)
            data = stream.read(size - begin)
    except FileNotFoundError:
        return Tail([], 0)
    except OSError as exc:
        raise PdError(f"Reading the log {path}: {exc.strerror}. Run as a user who may read it.") from exc
    lines = clean(data.decode("utf-8", "replace"))
    # The first line of a cut is half a line.
    return Tail(lines[1:] if begin > start else lines, size)


def clean(text: str) -> list[str]:
    """The lines of a log as a person would see them: no colours, of a progress bar only its last state, of an endless line its two ends, no
    blank lines; and nothing in them that a terminal obeys, since what a member writes is in part what its clients sent."""
    # A file that was cut under its writer begins with a hole, which is read as NULs.
    ended = (line.replace("\0", "").rstrip("\r") for line in text.split("\n"))
    lines = (fit(clip(line.rpartition("\r")[2])).rstrip() for line in ended)
    return [line for line in lines if line.strip()]
