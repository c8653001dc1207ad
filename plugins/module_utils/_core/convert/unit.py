# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A systemd unit, as far as it starts a process: ExecStart, Environment, and a note for each of its other lines."""

from __future__ import annotations

import re
import shlex
import typing as t
from dataclasses import replace

from .found import of_script
from .launch import Launch, Note, Variable, secret_name

_IGNORED = ("Description", "Documentation", "After", "Before", "Wants", "Requires", "WantedBy", "PartOf", "BindsTo", "Type", "ExecStop",
            "ExecStartPre", "ExecReload", "ExecStartPost", "ExecStopPost")  # fmt: skip
_RECIPE = re.compile(
    r"Restart.*|Timeout.*|Kill.*|Start.*|Limit.*|Standard.*|Syslog.*|Oom.*|OOM.*|Tasks.*|Success.*|RemainAfterExit"
)


def is_unit(text: str) -> bool:
    return re.search(r"^\s*\[Service\]\s*$", text, re.M) is not None and "ExecStart" in text


def of_unit(text: str) -> list[Launch]:
    """The launches of a unit's ExecStart."""
    env: list[Variable] = []
    notes: list[Note] = []
    commands: list[tuple[str, int]] = []
    for key, value, line in _lines(text):
        if key == "ExecStart":
            commands += [(value.lstrip("-@:+!|"), line)] if value else []
        elif key == "Environment":
            env += [Variable(*_pair(word), line) for word in _split(value)]
        elif key in ("EnvironmentFile", "PassEnvironment"):
            why = "files of variables are not read: write what is in it under env, and secrets under secrets"
            notes.append(Note("", line, key, "decide", why))
        elif key not in _IGNORED:
            known = _RECIPE.fullmatch(key)
            why = "the runtime's, see limits" if known else "the spec has no such key"
            notes.append(Note("", line, key, "recipe" if known else "dropped", why))
    found = []
    for command, line in commands:
        # systemd knows no shell, but fills in $NAME and ${NAME} from Environment.
        for variable in env:
            if variable.value is not None and not secret_name(variable.name):
                command = re.sub(
                    rf"\$\{{?{re.escape(variable.name)}\b\}}?", variable.value.replace("\\", r"\\"), command
                )
        for one in of_script(command):
            found.append(
                replace(one, text=text, line=line, env=(*env, *(replace(v, line=line) for v in one.env))).noted(*notes)
            )
    return found


def _pair(word: str) -> tuple[str, str]:
    name, _equals, value = word.partition("=")
    return name, value


def _split(value: str) -> list[str]:
    try:
        return shlex.split(value)
    except ValueError:
        return []


def _lines(text: str) -> t.Iterator[tuple[str, str, int]]:
    """(key, value, line) of each setting; a backslash at a line's end goes on."""
    held, start = "", 0
    for number, line in enumerate(text.splitlines(), 1):
        if not held and line.strip().startswith(("#", ";", "[")):
            continue
        start = start if held else number
        if line.rstrip().endswith("\\"):
            held += line.rstrip()[:-1] + " "
            continue
        key, equals, value = (held + line).partition("=")
        held = ""
        if equals:
            yield key.strip(), value.strip(), start
