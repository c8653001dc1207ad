# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""JSON that somebody else has written: read or refused, whatever it is, and never more than it is worth.

Its fields are read where it comes in, by a table of readers (`fields`): one of another kind is as if it were not there, and takes nothing
else with it."""

from __future__ import annotations

import contextlib
import json
import math
import typing as t

# No counter of ours has more digits: beyond, it is no number that could be reckoned with, and old Pythons take minutes for some.
DIGITS = 18


def loads(text: str | bytes) -> t.Any:
    """What a JSON text says. A number that cannot be reckoned with (NaN, an infinity, more digits than a counter has) is None.

    Raises ValueError for what is no JSON, whatever the reason: not text, cut off, or nested deeper than anybody needs."""
    try:
        return json.loads(text, parse_int=_integer, parse_float=_decimal, parse_constant=lambda _word: None)
    except RecursionError as exc:
        raise ValueError("it is nested too deeply") from exc


def _integer(text: str) -> int | None:
    return int(text) if len(text) <= DIGITS else None


def _decimal(text: str) -> float | None:
    number = float(text[:64])
    return number if math.isfinite(number) else None


def member(value: t.Any, *path: str | int) -> t.Any:
    """What stands at a path of names and positions; None as soon as there is nothing of the kind."""
    for step in path:
        try:
            value = value[step]
        except (KeyError, IndexError, TypeError):
            return None
    return value


Readers = t.Mapping[str, t.Callable[[t.Any], t.Any]]


def fields(value: t.Any, readers: Readers) -> dict[str, t.Any]:
    """What each reader makes of the field of its name in an object, of None where there is none: all of these fields, and no other."""
    found = mapping(value)
    return {name: read(found.get(name)) for name, read in readers.items()}


def mapping(value: t.Any) -> dict[str, t.Any]:
    """An object, or an empty one for all else."""
    return value if isinstance(value, dict) else {}


def objects(value: t.Any) -> list[dict[str, t.Any]]:
    """The objects in a list; none for all else."""
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def texts(value: t.Any) -> list[str]:
    """The texts in a list; none for all else."""
    return [one for one in value if isinstance(one, str)] if isinstance(value, list) else []


def text(value: t.Any) -> str:
    """A text, or "" for all else."""
    return value if isinstance(value, str) else ""


def whole(value: t.Any) -> int | None:
    """A whole number that can be reckoned with; None for all else, a truth value included."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 10**DIGITS else None


def count(value: t.Any) -> int | None:
    """A whole number that counts something, from zero on; None for all else."""
    found = whole(value)
    return found if found is not None and found >= 0 else None


def number(value: t.Any) -> float | None:
    """A number; None for all else, a truth value included."""
    with contextlib.suppress(OverflowError):
        return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None
    return None
