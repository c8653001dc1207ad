# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Single values as users write them, `yes`, `"8"` or 8GiB, and what each is: the one reading of an option's value, whoever's option it is.

A reader returns None for what is no value of its kind; who asked says so, with the place and what belongs there."""

from __future__ import annotations

import math
import re
import typing as t

from .sizes import parse_size

# As YAML, Ansible and people write them; `-e` gives text.
_WORDS = {**dict.fromkeys(("true", "yes", "on", "1"), True), **dict.fromkeys(("false", "no", "off", "0"), False)}


def blank(value: t.Any) -> bool:
    """Whether it says nothing: None, or text without a sign in it, as a survey gives of a question that nobody answered."""
    return value is None or (isinstance(value, str) and not value.strip())


def boolean(value: t.Any) -> bool | None:
    """A switch: a boolean, or a word for one."""
    return value if isinstance(value, bool) else _WORDS.get(str(value).strip().lower())


def integer(value: t.Any) -> int | None:
    """A whole number, also as text."""
    if isinstance(value, str) and re.fullmatch(r"-?\d{1,15}", value.strip()):
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def number(value: t.Any) -> int | float | None:
    """A number, also as text."""
    if isinstance(value, str) and re.fullmatch(r"-?\d{1,15}(\.\d{1,9})?", value.strip()):
        value = float(value) if "." in value else int(value)
    real = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    return value if real else None


def text(value: t.Any) -> str | None:
    """Text, or a number in its place."""
    return str(value) if isinstance(value, (str, int, float)) and not isinstance(value, bool) else None


READERS: dict[str, t.Callable[[t.Any], t.Any]] = {
    "boolean": boolean,
    "integer": integer,
    "number": number,
    "text": text,
    # In bytes.
    "size": parse_size,
}
