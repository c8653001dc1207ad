# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Moments and lengths of time, as people read them."""

from __future__ import annotations

import time

from ..base.words import counted


def clock(moment: float) -> str:
    """A moment of the epoch on the controller's clock: "Tue 2026-12-01 08:00 CET"."""
    return time.strftime("%a %Y-%m-%d %H:%M %Z", time.localtime(moment))


def lasting(seconds: float) -> str:
    """How long, as exactly as matters: "45 seconds", "10 minutes", "4 hours"."""
    if seconds < 90:
        return counted(max(1, round(seconds)), "second")
    if seconds < 5400:
        return counted(round(seconds / 60), "minute")
    return counted(round(seconds / 3600), "hour")
