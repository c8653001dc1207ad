# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files that the workers of one ansible-playbook leave for each other, in the temporary folder that they share."""

from __future__ import annotations

import json
import os
import tempfile
import typing as t
from urllib.parse import quote, unquote


def write_json(value: t.Any, *place: str) -> None:
    """Write a value, its folders with it, for this user alone."""
    path = os.path.join(*place)
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    # Whole or not at all: another worker may be reading.
    handle, temporary = tempfile.mkstemp(prefix=".", dir=os.path.dirname(path))
    with os.fdopen(handle, "w", encoding="utf-8") as stream:
        # As one text: json.dump goes by pieces, which takes ten times as long.
        stream.write(json.dumps(value, separators=(",", ":")))
    os.replace(temporary, path)


def read_json(*place: str) -> t.Any:
    """A value that was written, None where none was."""
    try:
        with open(os.path.join(*place), encoding="utf-8") as stream:
            return json.load(stream)
    except FileNotFoundError:
        return None


def file_of(name: str) -> str:
    """The file of a workload or a host."""
    return f"{quote(name, safe='')}.json"


def name_of(file: str) -> str:
    """Whose file it is."""
    return unquote(file.removesuffix(".json"))
