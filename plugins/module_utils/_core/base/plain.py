# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Values as JSON has them: how a frozen value becomes one at a border, and how the parts of one are read back."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import typing as t

from .errors import PdError

# An object of JSON. Only what reads one knows what is in it: everything else has a value with fields.
Plain = t.Mapping[str, t.Any]
# The metadata of a field that is left out of what is told where it is None.
IF_ANY: t.Final = {"if_any": True}


@functools.cache
def _fields(kind: type) -> tuple[tuple[str, bool], ...]:
    return tuple((f.name, bool(f.metadata.get("if_any"))) for f in dataclasses.fields(kind))


_LEAVES = frozenset({str, int, float, bool, type(None)})


def to_plain(value: t.Any) -> t.Any:
    """A value of frozen dataclasses and tuples as JSON has it. A mapping or list that is plain already is shared, not copied: a plan of a
    thousand hosts has a million of such values. Either is of one kind: by its first value it is known whether it is plain."""
    kind = type(value)
    if kind in _LEAVES:
        return value
    if kind is tuple:
        return [one if type(one) in _LEAVES else to_plain(one) for one in value]
    if kind is list:
        return [to_plain(one) for one in value] if value and _is_made(type(value[0])) else value
    if isinstance(value, t.Mapping):
        if _is_made(type(next(iter(value.values()), None))):
            return {key: to_plain(one) for key, one in value.items()}
        return value if kind is dict else dict(value)
    if dataclasses.is_dataclass(kind):
        told = {}
        for name, optional in _fields(kind):
            one = getattr(value, name)
            if not (optional and one is None):
                told[name] = one if type(one) in _LEAVES else to_plain(one)
        return told
    if isinstance(value, (set, frozenset)):
        return sorted(value)
    return value


def _is_made(kind: type) -> bool:
    """Whether values of a type are ours, and not what JSON has already."""
    return kind is tuple or dataclasses.is_dataclass(kind)


def texts(raw: Plain, key: str) -> tuple[str, ...]:
    """A list of texts that may be left out. Raises TypeError for one text, which is no list."""
    found = raw.get(key) or ()
    if isinstance(found, str):
        raise TypeError(f"{key} is no list")
    return tuple(found)


def name(raw: Plain, key: str) -> str:
    """A name that must be there. Raises KeyError, or TypeError for one that is no text."""
    value = raw[key]
    if not isinstance(value, str):
        raise TypeError(f"{key} is no text")
    return value


def names(raw: Plain, key: str) -> tuple[str, ...]:
    """A list of names that may be left out. Raises TypeError for what is none."""
    found = texts(raw, key)
    if not all(isinstance(one, str) for one in found):
        raise TypeError(f"{key} is no list of names")
    return found


def every(raw: Plain, key: str) -> tuple[Plain, ...]:
    """A list of objects that may be left out."""
    return tuple(raw.get(key) or ())


@contextlib.contextmanager
def reading(what: str, way_out: str) -> t.Iterator[None]:
    """Reads an argument that may be anything. Raises PdError with `way_out` for one that is not of the shape that it should have."""
    try:
        yield
    except KeyError as exc:
        raise PdError(f"{what} cannot be read: it has no {exc.args[0]!r}. {way_out}") from exc
    except (TypeError, ValueError, AttributeError) as exc:
        raise PdError(f"{what} cannot be read: a value in it is of another kind than it should be. {way_out}") from exc
