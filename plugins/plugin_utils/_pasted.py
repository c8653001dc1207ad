# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Text that people paste, as launches of engines and routers: a compose file or a manifest by PyYAML, all else in the core."""

from __future__ import annotations

import re
import typing as t

import yaml

from ..module_utils._core.base.errors import PdError
from ..module_utils._core.convert import container, found, unit
from ..module_utils._core.convert.launch import Launch, Note
from ..module_utils._core.convert.roles import ROLES

# What is longer is no file of a deployment that a person wrote.
LONGEST = 256 * 1024
# Where a part of several files, or several services of one, is looked for: deeper is no manifest.
_DEEPEST = 24
Named = tuple[str, t.Mapping[str, t.Any]]


def launches_of(text: str, what: str) -> tuple[list[Launch], list[Note]]:
    """(the launches of a text, whatever it is; notes of what in it is none). Raises PdError, naming `what`, for one that is too long."""
    if len(text) > LONGEST:
        raise PdError(f"{what}: it is longer than {LONGEST} characters. Give the part that starts the engines.")
    if unit.is_unit(text):
        return unit.of_unit(text), []
    services = _services(text)
    if services:
        return [one for name, service in services for one in _of_service(name, service, text)], []
    return found.of_script(text), found.left_out(text)


def _of_service(name: str, service: t.Mapping[str, t.Any], text: str) -> list[Launch]:
    match = re.search(rf"^[ \t]*(-\s*)?(name:\s*)?[\"']?{re.escape(name)}[\"']?\s*:?[ \t]*$", text, re.M)
    line = text.count("\n", 0, match.start()) + 1 if match else 0
    return found.of_container(container.of_service(service, line), text, line, name)


def _services(text: str) -> list[Named]:
    """(name, service) of everything in a YAML text that starts a container; none for what is no such text."""
    try:
        documents = list(yaml.safe_load_all(text))
    except (yaml.YAMLError, RecursionError, ValueError):
        return []
    # Names of YAML that stand for much are gone through once.
    return _containers(documents, "", 0, set())


def _containers(
    value: t.Any, name: str, depth: int, seen: set[tuple[str, int]]
) -> list[tuple[str, t.Mapping[str, t.Any]]]:
    """Dictionaries with an image and a command, each with the name that says whose it is: its own where that tells a role, else that of
    what it stands in."""
    if depth > _DEEPEST or not isinstance(value, (dict, list)) or (name, id(value)) in seen:
        return []
    seen.add((name, id(value)))
    if isinstance(value, list):
        return [one for item in value for one in _containers(item, name, depth + 1, seen)]
    if isinstance(value.get("image"), str) and any(key in value for key in ("command", "args", "entrypoint")):
        own = str(value.get("name") or name)
        return [(_better(own, name) or own, value)]
    about = value.get("metadata")
    labelled = str(about.get("name") or "") if isinstance(about, dict) else ""
    inner = [(labelled, value["spec"])] if labelled and "spec" in value else list(value.items())
    return [one for key, item in inner for one in _containers(item, _better(str(key), name), depth + 1, seen)]


def _better(key: str, name: str) -> str:
    """A name that says a role stays until another one says one."""
    says = [any(role in text.lower() for role in ROLES) for text in (key, name)]
    return key if says[0] or not says[1] else name
