# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Modes from pd_modes/ and a user's own folders: one YAML file a mode, checked against the schema, refused with the file, the
place and the reason."""

from __future__ import annotations

import json
import os
import typing as t
from functools import lru_cache

import yaml

from ..module_utils._core.base.errors import PdError
from ..module_utils._core.recipes.library import Library, whole
from ..module_utils._core.recipes.mode import Mode, from_plain
from ..module_utils._routers import DIALECTS

COLLECTION_ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILT_IN = os.path.join(COLLECTION_ROOT, "pd_modes")
SCHEMA = os.path.join(BUILT_IN, "schema.json")
# What modes share: a folder beside them, and the word of the schema for a file of it.
_SHARED = {"routers": "router", "providers": "provider"}
# A file as it is now: its path and when it was changed. What is read is kept for as long as nothing has.
Stamp = tuple[str, int]


def load_modes(paths: t.Sequence[str] = ()) -> dict[str, Mode]:
    """All modes by name: the built-in ones, then those of each folder of `paths`. Raises PdError for a bad file, or a name twice."""
    modes: dict[str, Mode] = {}
    shared = _shared(paths)
    for folder in (BUILT_IN, *paths):
        for path, changed in _files(_absolute(folder)):
            mode = _load(path, changed, shared)
            if mode.name in modes:
                raise PdError(
                    f"{path}: mode {mode.name!r} is defined in {modes[mode.name].source} already. Give it another name."
                )
            modes[mode.name] = mode
    return modes


def read_mode(path: str, paths: t.Sequence[str] = ()) -> dict[str, t.Any]:
    """The whole content of a mode's file, what it shares with other modes included."""
    return whole(read_yaml(path, "a mode file"), _library(_shared(paths)), path)


def _shared(paths: t.Sequence[str]) -> tuple[tuple[str, Stamp], ...]:
    """The files that modes may name, each with its folder's name."""
    folders = [os.path.join(_absolute(base), kind) for base in (BUILT_IN, *paths) for kind in _SHARED]
    return tuple((os.path.basename(f), stamp) for f in folders if os.path.isdir(f) for stamp in _files(f))


@lru_cache(maxsize=16)
def _library(shared: tuple[tuple[str, Stamp], ...]) -> Library:
    found: dict[str, dict[str, dict[str, t.Any]]] = {kind: {} for kind in _SHARED}
    where: dict[tuple[str, str], str] = {}
    for kind, (path, _changed) in shared:
        what = _SHARED[kind]
        raw = read_yaml(path, f"a {what}'s file")
        check_name(raw, path)
        name = raw.pop("name")
        check_schema(raw, path, SCHEMA, "docs/modes.md", what)
        if name in found[kind]:
            raise PdError(f"{path}: {what} {name!r} is defined in {where[kind, name]} already. Give it another name.")
        found[kind][name] = raw
        where[kind, name] = path
    return Library(**found)


def _absolute(folder: str) -> str:
    return os.path.abspath(os.path.expanduser(folder))


def _files(folder: str) -> list[Stamp]:
    if not os.path.isdir(folder):
        raise PdError(f"modes_path: {folder} is not a folder. Give the folder that holds your mode files (*.yml).")
    names = sorted(name for name in os.listdir(folder) if name.endswith((".yml", ".yaml")))
    paths = [os.path.join(folder, name) for name in names]
    return [(path, os.stat(path).st_mtime_ns) for path in paths]


def read_yaml(path: str, what: str) -> dict[str, t.Any]:
    """A file's dictionary. Raises PdError that names the file and the reason."""
    try:
        with open(path, encoding="utf-8") as handle:
            raw = yaml.load(handle, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except yaml.YAMLError as exc:
        raise PdError(f"{path}: not readable as YAML: {_one_line(exc)}") from exc
    except OSError as exc:
        raise PdError(f"{path}: cannot be read: {exc.strerror}.") from exc
    if not isinstance(raw, dict):
        raise PdError(f"{path}: {what} is one dictionary; see docs/modes.md.")
    return raw


@lru_cache(maxsize=256)
def _load(path: str, _changed: int, shared: tuple[tuple[str, Stamp], ...]) -> Mode:
    raw = read_yaml(path, "a mode file")
    check_schema(raw, path, SCHEMA, "docs/modes.md")
    check_name(raw, path)
    return from_plain(whole(raw, _library(shared), path), path)


def check_name(raw: dict[str, t.Any], path: str) -> None:
    """Raise PdError where a file is not named like what it describes."""
    expected = os.path.splitext(os.path.basename(path))[0]
    if raw.get("name") != expected:
        told = (
            f"{raw['name']!r} does not match the file's name. Name the file {raw['name']}.yml"
            if raw.get("name")
            else "missing"
        )
        raise PdError(f"{path}: name: {told}.")


def check_schema(raw: dict[str, t.Any], path: str, schema: str, docs: str, part: str = "") -> None:
    """Raise PdError with all places where a file does not fit its schema, or a `part` of it. Those of the collection have been checked by
    its tests."""
    try:
        import jsonschema
    except ImportError as exc:
        if path.startswith(BUILT_IN + os.sep):
            return
        raise PdError(
            f"{path}: checking your own mode needs the Python package jsonschema on the controller (pip install jsonschema)."
        ) from exc
    problems = sorted(
        jsonschema.Draft7Validator(_schema(schema, part)).iter_errors(raw),
        key=lambda e: [str(p) for p in e.absolute_path],
    )
    if problems:
        told = [f"{'.'.join(str(p) for p in e.absolute_path) or 'the file'}: {e.message}" for e in problems[:8]]
        raise PdError(f"{path}: " + "; ".join(told) + f". See {docs} for each key.")


@lru_cache(maxsize=8)
def _schema(path: str, part: str) -> dict[str, t.Any]:
    with open(path, encoding="utf-8") as handle:
        found = t.cast("dict[str, t.Any]", json.load(handle))
    if path == SCHEMA:
        # Which registries there is an API for is said once, where it is.
        found["definitions"]["router"]["properties"]["dialect"]["enum"] = sorted(DIALECTS)
    return {"$ref": f"#/definitions/{part}", "definitions": found["definitions"]} if part else found


def _one_line(exc: Exception) -> str:
    return " ".join(str(exc).split())
