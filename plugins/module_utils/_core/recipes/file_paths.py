# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where a recipe may put a member's files: beside its label and start script, and never in their place."""

from __future__ import annotations

import re
import typing as t

from ..base.errors import PdError
from ..runtimes.container import INSIDE

# What the collection, or a runtime, keeps in a member's folder, or brings into its container, by the first part of the path.
TAKEN = re.compile(r"label\.json|run|start|starts|env|guard|files|draining|member\.log.*|\.new-.*")


def check(files: t.Iterable[t.Mapping[str, t.Any]], place: str) -> None:
    """Raise PdError for a file that would take the place of the collection's own, lead out of the member's folder, or is there twice for
    one role."""
    seen: dict[tuple[str, str], int] = {}
    for number, file in enumerate(files):
        path, where = str(file["path"]), f"{place}[{number}].path"
        parts = [part for part in path.split("/") if part not in ("", ".")]
        if not parts or ".." in parts or path.endswith("/"):
            raise PdError(f"{where}: {path!r} is no path of a file. Write a name, or folders and a name.")
        if path.startswith("/"):
            inside = "/" + "/".join(parts)
            if inside == INSIDE or inside.startswith(INSIDE + "/"):
                raise PdError(
                    f"{where}: {path} is where the collection's own files are. Write the name alone, which is put there."
                )
        elif TAKEN.fullmatch(parts[0]):
            raise PdError(
                f"{where}: {path} would take the place of the collection's own {parts[0]}. Give the file another name."
            )
        for role in file.get("roles") or ("prefill", "decode"):
            first = seen.setdefault((role, "/".join(parts)), number)
            if first != number:
                raise PdError(f"{where}: {path} is that of {place}[{first}]. Write each file of a role once.")
