# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The cordon of a host: what runs there stays, and nobody is seated there. It is a mark that the host keeps, or a word of the inventory."""

from __future__ import annotations

import time
from dataclasses import dataclass

from ..base.checked import Checked
from ..base.plain import Plain
from ..base.printable import printable

_LONGEST = 200


@dataclass(frozen=True)
class Cordon:
    """Who has set it, since when (seconds of the epoch, on the host's own clock) and why; empty where that is not known."""

    by: str = ""
    since: float = 0.0
    why: str = ""

    @classmethod
    def read(cls, value: Checked) -> Cordon:
        by, why = (printable(value.said(key), _LONGEST) for key in ("by", "why"))
        return cls(by, value.moment("since"), why)

    def told(self) -> str:
        """In words that follow the host's name and "is"."""
        return "cordoned" + (f" by {self.by}" if self.by else "") + (f" ({self.why})" if self.why else "")

    def since_told(self) -> str:
        """The same with the time, for a person who asks how it is."""
        when = f" since {time.strftime('%Y-%m-%d %H:%M:%S %Z', time.localtime(self.since))}" if self.since else ""
        return f"{self.told()}{when}"

    def to_plain(self) -> Plain:
        return {"by": self.by, "since": self.since, "why": self.why}


BY_INVENTORY = Cordon(by="the inventory", why="pd_cordoned")


def mark(by: str, since: float, why: str) -> Plain:
    """What a host keeps, as JSON has it."""
    return Cordon(by, round(since, 3), why).to_plain()
