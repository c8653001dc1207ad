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
from ..module_utils._core.convert.launch import Launch
from ..module_utils._core.convert.roles import ROLES

# What is longer is no file of a deployment that a person wrote.
LONGEST = 1024 * 1024
# Where a part of several files, or several services of one, is looked for: deeper is no manifest.
_DEEPEST = 24


def launches_of(text: str, what: str) -> list[Launch]:
    """The launches of a text, whatever it is. Raises PdError, naming `what`, for one that is too long."""
    if len(text) > LONGEST:
        raise PdError(f"{what}: it is longer than {LONGEST} characters. Give the part that starts the engines.")
    if unit.is_unit(text):
        return unit.of_unit(text)
    services = _services(text)
    if services:
        return [one for name, service in services for one in _of_service(name, service, text)]
    return found.of_script(text)


def _of_service(name: str, service: t.Mapping[str, t.Any], text: str) -> list[Launch]:
    match = re.search(rf"^[ \t]*(- name:\s*)?[\"']?{re.escape(name)}[\"']?\s*:?[ \t]*$", text, re.M)
    line = text.count("\n", 0, match.start()) + 1 if match else 0
    return found.of_container(container.of_service(service, line), text, line, name)


def _services(text: str) -> list[tuple[str, t.Mapping[str, t.Any]]]:
    """(name, service) of everything in a YAML text that starts a container; none for what is no such text."""
    try:
        documents = list(yaml.safe_load_all(text))
    except (yaml.YAMLError, RecursionError):
        return []
    return [one for document in documents for one in _containers(document, "", 0)]


def _containers(value: t.Any, name: str, depth: int) -> list[tuple[str, t.Mapping[str, t.Any]]]:
    """Dictionaries with an image, or with a command, each with the name that says whose it is: its own where that tells a role, else that of
    what it stands in."""
    if depth > _DEEPEST:
        return []
    if isinstance(value, dict):
        if (
            "image" in value
            and isinstance(value["image"], str)
            and ("command" in value or "args" in value or "entrypoint" in value)
        ):
            own = str(value.get("name") or name)
            return [(own if any(role in own.lower() for role in ROLES) or not name else name, value)]
        labelled = (
            str((value.get("metadata") or {}).get("name") or "") if isinstance(value.get("metadata"), dict) else ""
        )
        inner = (
            [(labelled or name, value["spec"])]
            if labelled and "spec" in value
            else [(str(k), v) for k, v in value.items()]
        )
        return [one for key, item in inner for one in _containers(item, _better(key, name), depth + 1)]
    if isinstance(value, list):
        return [one for item in value for one in _containers(item, name, depth + 1)]
    return []


def _better(key: str, name: str) -> str:
    """A name that says a role stays until another one says one."""
    return (
        key if any(role in key.lower() for role in ROLES) or not any(role in name.lower() for role in ROLES) else name
    )
