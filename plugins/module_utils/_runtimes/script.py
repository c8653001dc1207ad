# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# This module util is PRIVATE to the collection.
"""A member as two files that an operator can read and start by hand: `env` (0600) and `run` (0700)."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import typing as t

from .errors import HostError

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def quote(value: str) -> str:
    """A value in single quotes: to a shell nothing in it has a meaning, newlines included."""
    return "'" + value.replace("'", "'\\''") + "'"


def render_env(env: t.Mapping[str, t.Any]) -> str:
    """A file for the shell's `.` that exports every variable. Raises HostError for one that no environment can hold."""
    lines = ["# Environment of this member, secrets included: for its owner only."]
    for name in sorted(env):
        value = str(env[name])
        if not _NAME.fullmatch(name):
            raise HostError(
                f"Writing variable {name!r}",
                "it is no name of an environment variable",
                "Use letters, digits and _ only.",
            )
        if "\0" in value:
            raise HostError(f"Writing variable {name}", "its value holds a NUL character", "Remove it.")
        lines.append(f"export {name}={quote(value)}")
    return "\n".join(lines) + "\n"


def parse_env(text: str) -> dict[str, str]:
    """What render_env wrote, read back."""
    found = {}
    for match in re.finditer(r"^export ([A-Za-z_][A-Za-z0-9_]*)='((?:[^']|'\\'')*)'$", text, re.M):
        found[match[1]] = match[2].replace("'\\''", "'")
    return found


def render_run(
    member: str, group: str, directory: str, argv: t.Sequence[str], markers: t.Mapping[str, str] | None = None
) -> str:
    """The script that becomes the member. `markers` are the variables by which every process of the member is known: what an earlier start
    left behind is ended first, since it holds the member's ports (measured: vLLM's engine process outlives a killed API server)."""
    for token in argv:
        if "\0" in token:
            raise HostError(f"Writing the command of {member}", "an argument holds a NUL character", "Remove it.")
    words = " \\\n    ".join(shlex.quote(str(token)) for token in argv)
    leftover = "".join(
        f" | xargs -r grep -lzxF {shlex.quote(f'{name}={value}')} 2>/dev/null"
        for name, value in (markers or {}).items()
    )
    sweep = (
        f"""# What outlived an earlier start of this member holds its ports.
for left in $(ls -d /proc/[0-9]*/environ 2>/dev/null{leftover}); do
    left=${{left#/proc/}} && kill -KILL "${{left%/environ}}" 2>/dev/null && echo "ended process ${{left%/environ}} of an earlier start"
done
"""
        if leftover
        else ""
    )
    return f"""#!/bin/sh
# Member {member} of group {group}, written by the Ansible collection inferops.pd.
# To start it by hand, stop it first (it holds its ports), then: sh {shlex.quote(os.path.join(directory, "run"))}
# Edits are lost when the member is created again.
cd {shlex.quote(directory)} || exit 1
echo "$(date +%s) $$" >> starts
{sweep}. ./env
exec {words}
"""


def resolve(argv: t.Sequence[str], executable: str | None, path: str | None = None) -> str:
    """The program that argv[0] means: a path as it is, a bare name beside `executable`, else on PATH. Raises HostError without one."""
    if not argv:
        raise HostError("Reading the command", "it is empty", "Set command, or leave it to the mode.")
    name = str(argv[0])
    places = [name] if "/" in name else []
    if not places and executable and "/" in executable:
        places.append(os.path.join(os.path.dirname(executable), name))
    for place in places:
        if os.path.isfile(place) and os.access(place, os.X_OK):
            return place
    found = None if "/" in name else shutil.which(name, path=path)
    if found is None:
        looked = places[0] if places else f"{name} on PATH"
        raise HostError(
            f"Looking for {looked}", "it is not there, or not executable", "Install it, or set executable to its path."
        )
    return os.path.abspath(found)
