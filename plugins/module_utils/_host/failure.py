# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What kept one workload of several from being done, as a sentence. No traceback reaches a user, and the others go on."""

from __future__ import annotations

from .._core.base.errors import PdError
from .._core.base.printable import printable


def told(doing: str, exc: BaseException) -> str:
    """What was being `doing`, and why it was not done: a PdError's own words, those of the system, or what a fault of this code is."""
    if isinstance(exc, PdError):
        return f"{doing}: {exc}"
    if isinstance(exc, OSError):
        return f"{doing}: {exc.strerror or exc}" + (f": {exc.filename}" if exc.filename else "")
    return f"{doing} fell over: {type(exc).__name__}: {printable(exc)}"
