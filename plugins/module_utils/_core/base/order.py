# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The order of names, as a person counts: h2 before h10. An inventory gives its hosts in the order of its files, AWX in none that stays,
and the same spec and facts must give the same plan."""

from __future__ import annotations

import re
import typing as t

# Not \d, which takes digits of every script.
_NUMBER = re.compile(r"([0-9]+)")

Key = tuple[tuple[t.Union[str, tuple[int, str]], ...], str]


def natural(name: t.Any) -> Key:
    """A sort key. Text and numbers take turns, so that like is compared with like; names that look equal (h1, h01) are told apart by the
    name itself."""
    text = str(name)
    parts = _NUMBER.split(text)
    return tuple(_number(part) if at % 2 else part for at, part in enumerate(parts)), text


def _number(digits: str) -> tuple[int, str]:
    """Compares as the number does, however long it is: Python refuses to read one of several thousand digits."""
    bare = digits.lstrip("0")
    return len(bare), bare
