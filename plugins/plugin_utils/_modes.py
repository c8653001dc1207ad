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
from ..module_utils._core.recipes.mode import Mode, from_plain

COLLECTION_ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILT_IN = os.path.join(COLLECTION_ROOT, "pd_modes")
SCHEMA = os.path.join(BUILT_IN, "schema.json")


def load_modes(paths: t.Sequence[str] = ()) -> dict[str, Mode]:
    """All modes by name: the built-in ones, then those of each folder of `paths`. Raises PdError for a bad file, or a name twice."""
    modes: dict[str, Mode] = {}
    for folder in (BUILT_IN, *paths):
        for path in _files(os.path.abspath(os.path.expanduser(folder))):
            mode = _load(path, os.stat(path).st_mtime_ns)
            if mode.name in modes:
                raise PdError(
                    f"{path}: mode {mode.name!r} is defined in {modes[mode.name].source} already. Give it another name."
                )
            modes[mode.name] = mode
    return modes


def _files(folder: str) -> list[str]:
    if not os.path.isdir(folder):
        raise PdError(f"modes_path: {folder} is not a folder. Give the folder that holds your mode files (*.yml).")
    return sorted(os.path.join(folder, name) for name in os.listdir(folder) if name.endswith((".yml", ".yaml")))


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
def _load(path: str, _changed: int) -> Mode:
    raw = read_yaml(path, "a mode file")
    check_schema(raw, path, SCHEMA, BUILT_IN, "docs/modes.md")
    expected = os.path.splitext(os.path.basename(path))[0]
    if raw["name"] != expected:
        raise PdError(f"{path}: name: {raw['name']!r} does not match the file's name. Name the file {raw['name']}.yml.")
    return from_plain(raw, path)


def check_schema(raw: dict[str, t.Any], path: str, schema: str, built_in: str, docs: str) -> None:
    """Raise PdError with all places where a file does not fit its schema. Those of the collection have been checked by its tests."""
    try:
        import jsonschema
    except ImportError as exc:
        if os.path.dirname(path) == built_in:
            return
        raise PdError(
            f"{path}: checking your own mode needs the Python package jsonschema on the controller (pip install jsonschema)."
        ) from exc
    problems = sorted(
        jsonschema.Draft7Validator(_schema(schema)).iter_errors(raw), key=lambda e: [str(p) for p in e.absolute_path]
    )
    if problems:
        told = [f"{'.'.join(str(p) for p in e.absolute_path) or 'the file'}: {e.message}" for e in problems[:8]]
        raise PdError(f"{path}: " + "; ".join(told) + f". See {docs} for each key.")


@lru_cache(maxsize=4)
def _schema(path: str) -> dict[str, t.Any]:
    with open(path, encoding="utf-8") as handle:
        return t.cast("dict[str, t.Any]", json.load(handle))


def _one_line(exc: Exception) -> str:
    return " ".join(str(exc).split())
