# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Quantities as Kubernetes writes them: 500m, 16Gi, 1e3."""

from __future__ import annotations

import re
import typing as t

_FACTORS = {
    "n": 1e-9,
    "u": 1e-6,
    "m": 1e-3,
    "": 1.0,
    **{unit: 1000.0**power for power, unit in enumerate("kMGTPE", 1)},
    **{f"{unit}i": 1024.0**power for power, unit in enumerate("KMGTPE", 1)},
}
_QUANTITY = re.compile(r"([+-]?(?:\d{1,18}(?:\.\d{0,18})?|\.\d{1,18}))(?:[eE]([+-]?\d{1,2})|([numkMGTPE]|[KMGTPE]i)?)")


def number(value: t.Any) -> float | None:
    """What a quantity comes to; None for what is none."""
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        return None
    found = _QUANTITY.fullmatch(str(value).strip())
    if not found:
        return None
    digits, exponent, unit = found.groups()
    return float(digits) * (10.0 ** int(exponent) if exponent else _FACTORS[unit or ""])


def count(value: t.Any) -> int:
    """How many whole ones a quantity is, as of devices; 0 for what is no quantity."""
    return max(0, int(number(value) or 0))
