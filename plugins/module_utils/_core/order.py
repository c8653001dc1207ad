# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# This module util is PRIVATE to the collection.
"""order"""

from __future__ import annotations

import re


def natural(name: str) -> tuple[object, ...]:
    parts = re.split(r"([0-9]+)", name)
    return (tuple((1, int(p), "") if p.isdigit() else (0, 0, p) for p in parts), name)
