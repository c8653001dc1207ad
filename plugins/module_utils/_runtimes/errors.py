# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""HostError, the one exception of what runs on hosts: it says what was being done, to which member, and what to do next."""

from __future__ import annotations

from .._core.base.errors import PdError
from .._core.base.printable import printable


class HostError(PdError):
    """Something on the host did not work. The text is complete for a user: what was being done, what came back, what to do."""

    def __init__(self, doing: str, reason: str, hint: str = "", member: str | None = None) -> None:
        # Mostly it is what a daemon or a program said.
        reason = printable(reason, 1000)
        text = f"{doing}: {reason.rstrip('.')}." + (f" {hint}" if hint else "")
        super().__init__(text)
        self.reason = reason
        self.hint = hint
        self.member = member


class BusyError(HostError):
    """Another run is at the workload, or was since the plan was made: nothing is wrong, and nothing was changed."""
