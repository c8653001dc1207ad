# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sizes as people write them, 8GiB or 500 MB, and as they read them."""

from __future__ import annotations

import re
import typing as t

UNITS = {
    "B": 1,
    **{f"{u}B": 10 ** (3 * n) for n, u in enumerate("KMGT", 1)},
    **{f"{u}iB": 2 ** (10 * n) for n, u in enumerate("KMGT", 1)},
}
_SIZE = re.compile(r"(\d{1,19}(?:\.\d{1,19})?)\s*([KMGT]i?B?|B)$", re.IGNORECASE)
_UNIT_OF = {name.lower(): unit for unit in UNITS for name in (unit, unit[:-1]) if name}


def parse_size(text: t.Any) -> int | None:
    """Bytes of a size with its unit, such as 8GiB, 500 MB or 4G (decimal without an i); None when it is none, or has no unit: a bare number
    says too little."""
    match = _SIZE.match(str(text).strip()) if isinstance(text, str) else None
    return round(float(match[1]) * UNITS[_UNIT_OF[match[2].lower()]]) if match else None


def parse_bytes(text: t.Any) -> int | None:
    """Bytes of a size, or of a bare number, which counts bytes: what limits of memory are written as. None when it is none."""
    if isinstance(text, bool) or not isinstance(text, (str, int, float)):
        return None
    found = str(text).strip()
    return round(float(found)) if re.fullmatch(r"\d{1,19}(\.\d{1,9})?", found) else parse_size(found)


def told_size(size: float) -> str:
    """Bytes as people read them."""
    for unit in ("TiB", "GiB", "MiB", "KiB"):
        if size >= UNITS[unit]:
            return f"{size / UNITS[unit]:.4g}{unit}"
    return f"{size:g}B"
