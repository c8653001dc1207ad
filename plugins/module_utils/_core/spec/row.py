# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rows of the table of fields: what one says, how its value is read, and what follows from all of them.

A row is the default of a dataclass's attribute, so that the table and the type of each value are one thing (spec/fields.py). mypy holds a
row's reader to the attribute's type."""

from __future__ import annotations

import dataclasses
import re
import typing as t

from ..base.reader import Reader, is_text, kind

T = t.TypeVar("T")
Written = t.Mapping[str, t.Any]

# Where a key may stand: at a group, under its `engine`, at prefill or decode, at the router; at a service of pd_caches that is deployed, at
# one that somebody else runs; in `kv_cache`.
PLACES = ("group", "engine", "prefill", "decode", "router", "cache", "cache elsewhere", "kv_cache")
ENGINE_ROLES: tuple[str, ...] = ("prefill", "decode")
ROLES: tuple[str, ...] = (*ENGINE_ROLES, "router")
PROCESSES: tuple[str, ...] = ("engine", *ROLES, "cache")
# Whether a value is in the revision: in what is rendered of it (a command line, say); as it stands, always; as it stands, where it is not
# the default; or not. A field that comes to the table later is `where set`: what does not write it keeps its revision.
Revision = t.Literal["rendered", "always", "where set", "no"]


@dataclasses.dataclass(frozen=True)
class At:
    """One key of what is written at a place, to be read."""

    reader: Reader
    where: str
    written: Written
    key: str
    role: str = ""


Read = t.Callable[[At], t.Optional[T]]


@dataclasses.dataclass(frozen=True)
class Row:
    """A field of the spec. `read` gives None for what is not written, or does not fit: then it is `default`."""

    key: str
    at: tuple[str, ...]
    read: Read[t.Any]
    default: t.Any
    # The roles that take the engine's value where they write none; what they write replaces it whole.
    inherited_by: tuple[str, ...] = ()
    # The key of a role that adds to the value instead of replacing it.
    adds: str = ""
    revision: Revision = "no"
    # The default in the docs' words, where it is not the value's own.
    told: str = ""
    # Places that take the key, and show nothing of it: it has no say there.
    idle_at: tuple[str, ...] = ()


def row(
    read: Read[T],
    *at: str,
    default: T,
    key: str = "",
    inherited_by: tuple[str, ...] = (),
    adds: str = "",
    revision: Revision = "no",
    told: str = "",
    idle_at: tuple[str, ...] = (),
) -> T:
    """The row of an attribute; `key` is what the spec calls it where that is another word."""
    made = {"row": Row(key, at, read, default, inherited_by, adds, revision, told, idle_at)}
    # pylint looks for fields in the bodies of dataclasses, where this function stands for one.
    if isinstance(default, dict):
        fresh = dataclasses.field(default_factory=lambda: dict(default), metadata=made)  # pylint: disable=invalid-field-call
        return t.cast("T", fresh)
    return dataclasses.field(default=default, metadata=made)  # pylint: disable=invalid-field-call


def rows(of: type) -> dict[str, Row]:
    """The rows of a dataclass by attribute, in their order."""
    found = {one.name: one.metadata.get("row") for one in dataclasses.fields(of)}
    return {name: dataclasses.replace(made, key=made.key or name) for name, made in found.items() if made}


def keys(of: type, place: str) -> tuple[str, ...]:
    """Every key that may stand at a place, those that add included."""
    here = [one for one in rows(of).values() if place in one.at]
    return (*(one.key for one in here), *(one.adds for one in here if one.adds and place in ROLES))


def read(of: type, place: str, reader: Reader, where: str, written: Written) -> dict[str, t.Any]:
    """The value of every field that may stand at a place, by attribute."""
    return {
        name: _or_default(one, one.read(At(reader, where, written, one.key)))
        for name, one in rows(of).items()
        if place in one.at
    }


def source(one: Row, role: str, own: Written, engine: Written) -> t.Literal["own", "engine"]:
    """Where the value of a role's field stands: null is the same as not written."""
    inherited = own.get(one.key) is None and role in one.inherited_by and engine.get(one.key) is not None
    return "engine" if inherited else "own"


def read_role(
    of: type, role: str, reader: Reader, own: tuple[str, Written], engine: tuple[str, Written]
) -> dict[str, t.Any]:
    """The value of every field of a role by attribute, inherited ones filled in. `own` and `engine` are (place, what is written there)."""
    found = {}
    for name, one in rows(of).items():
        if role not in one.at:
            continue
        where, written = engine if source(one, role, own[1], engine[1]) == "engine" else own
        value = _or_default(one, one.read(At(reader, where, written, one.key, role)))
        if one.adds:
            more = one.read(At(reader, own[0], own[1], one.adds, role))
            value = value if not more else {**value, **more} if isinstance(value, dict) else (*value, *more)
        found[name] = value
    return found


def pieces(of: type, attribute: str, role: str, own: Written, engine: Written) -> list[tuple[str, t.Any]]:
    """(place, entry or name) of each piece of a value that roles inherit and add to, in the order of the value: `engine.args[1]` for an
    entry of a list, `roles.decode.extra_env` for a name."""
    one = rows(of)[attribute]
    inherited = source(one, role, own, engine) == "engine"
    parts = [("engine" if inherited else f"roles.{role}", one.key, (engine if inherited else own).get(one.key))]
    parts += [(f"roles.{role}", one.adds, own.get(one.adds))] if one.adds else []
    found: list[tuple[str, t.Any]] = []
    for where, key, value in parts:
        if isinstance(value, dict):
            found += [(f"{where}.{key}", name) for name in value]
        elif isinstance(value, list):
            # What is no text is left out of the value, too.
            found += [(f"{where}.{key}[{n}]", item) for n, item in enumerate(value) if is_text(item)]
    return found


def _or_default(one: Row, value: t.Any) -> t.Any:
    return one.default if value is None else value


def shown(value: object, place: str) -> dict[str, t.Any]:
    """The fields of a value as the spec would write them with nothing inherited, for results and records."""
    found = {}
    for name, one in rows(type(value)).items():
        if place not in one.at or place in one.idle_at or one.read is apart:
            continue
        its = getattr(value, name)
        if one.revision != "where set" or its != one.default:
            found[one.key] = plain(its)
    return found


def revised(value: object) -> dict[str, t.Any]:
    """The fields of a value that are in the revision as they stand."""
    found = {}
    for name, one in rows(type(value)).items():
        its = getattr(value, name)
        if one.revision == "always" or (one.revision == "where set" and its != one.default):
            found[one.key] = plain(its)
    return found


def restored(of: type, kept: Written) -> dict[str, t.Any]:
    """The way back from `revised`: the values of these fields by attribute, as `kept` has them."""
    found = {}
    for name, one in rows(of).items():
        if one.revision in ("always", "where set"):
            its = kept.get(one.key, one.default)
            found[name] = tuple(its) if isinstance(one.default, tuple) and its is not None else its
    return found


def plain(value: t.Any) -> t.Any:
    """A value of a field as JSON has it."""
    if hasattr(value, "to_plain"):
        return value.to_plain()
    if isinstance(value, t.Mapping):
        return dict(value)
    return list(value) if isinstance(value, tuple) else value


# -- readers of one kind of value ----------------------------------------------------------------------------------------------------


def apart(_at: At) -> None:
    """Of a key that is read apart, or by nobody: what is written there is no value of the field."""


def text(at: At) -> str | None:
    return at.reader.text(at.where, at.written, at.key)


def literal(at: At) -> str | None:
    """Text that is the same for every member: without placeholders."""
    return _literal(at, text(at))


def needed(why: str) -> Read[str]:
    """The same where it must be written, and for what."""
    return lambda at: _literal(at, at.reader.text(at.where, at.written, at.key, required=why))


def _literal(at: At, value: str | None) -> str | None:
    if value and "${" in value:
        at.reader.findings.error(
            "bad-value",
            f"{at.where}.{at.key}: {value!r} has a placeholder, and is one and the same for all members.",
            "Write it out. Placeholders stand in args, env, command and mounts.",
        )
        # It has been said: where the value is used it is none any more.
        return value.replace("${", "{")
    return value


def texts(at: At) -> tuple[str, ...]:
    return tuple(at.reader.texts(at.where, at.written, at.key))


def items(at: At) -> tuple[t.Any, ...]:
    return tuple(at.reader.sequence(at.where, at.written, at.key))


def env(at: At) -> t.Mapping[str, str]:
    return at.reader.env(at.where, at.written, at.key)


def names_of_env(at: At) -> tuple[str, ...]:
    """Variables whose values are nobody's to see."""
    return at.reader.secrets(at.where, at.written, at.key)


def command(at: At) -> tuple[str, ...] | None:
    return at.reader.command(at.where, at.written)


def resources(at: At) -> t.Mapping[str, t.Any]:
    return at.reader.resources(at.where, at.written, at.role)


def pattern(at: At) -> str:
    """A host pattern, which may be a list of them."""
    return at.reader.pattern(at.where, at.written, at.key, at.role)


def mapping(at: At) -> t.Mapping[str, t.Any]:
    return at.reader.mapping(at.where, at.written, at.key)


# What a label's key is made of: all that can stand in a selector, and no more.
_LABEL_KEY = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._/-]{0,61}[A-Za-z0-9])?")


def label_value(value: t.Any) -> str | None:
    """A label's value as text: text, a number, or true and false. None for what is none."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value).strip() or None if isinstance(value, (str, int, float)) else None


def labels(at: At) -> t.Mapping[str, str]:
    """A free mapping, for selecting by."""
    findings, found = at.reader.findings, {}
    for key, value in at.reader.mapping(at.where, at.written, at.key).items():
        place, its = f"{at.where}.{at.key}.{key}", label_value(value)
        if not isinstance(key, str) or not _LABEL_KEY.fullmatch(key):
            findings.error(
                "bad-value",
                f"{place}: {key!r} is no name for a label.",
                "Use 1 to 63 letters, digits, dots, hyphens, underscores and slashes, in quotes where YAML reads a number or a switch.",
            )
        elif its is None:
            what = "it says nothing" if value is None or isinstance(value, str) else f"its value is {kind(value)}"
            findings.error("bad-value", f"{place}: {what}.", "Write text, a number, true or false, or leave it out.")
        else:
            found[key] = its
    return found


def integer(least: int, most: int | None = None) -> Read[int]:
    """A whole number in these bounds."""
    if most is None:
        return lambda at: at.reader.integer(at.where, at.written, at.key, None, least, at.role)
    return lambda at: at.reader.integer(at.where, at.written, at.key, None, least, at.role, most)


def choice(*words: str) -> Read[str]:
    """One word of these."""
    return lambda at: t.cast("str | None", at.reader.choice(at.where, at.written, at.key, words, None))


def limits(**seconds: int) -> Read[t.Mapping[str, int]]:
    """How long to wait for what, with the seconds where nothing is written."""

    def found(at: At) -> t.Mapping[str, int]:
        given, where = at.reader.mapping(at.where, at.written, at.key), f"{at.where}.{at.key}"
        at.reader.keys(where, given, seconds)
        return {
            name: at.reader.integer(where, given, name, default, 1 if name == "start" else 0) or 0
            for name, default in seconds.items()
        }

    return found
