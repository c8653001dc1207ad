# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a host said that answers, and on which a module did not run: an old Python, a password that is missing. It lives, and is never to be
taken for one that is gone."""

from __future__ import annotations

import re
import typing as t
from dataclasses import dataclass

# What modules are written for, see README.md.
PYTHON = (3, 9)
ASK = "import sys; print('pd-python %d.%d' % sys.version_info[:2])"
# A module's own words for a value that it cannot use.
OWN = "Looking at the host failed. "
_BECOME = re.compile(r"\b(sudo|su|doas|pbrun|pfexec|dzdo|become|privilege escalation)\b", re.I)


@dataclass(frozen=True)
class Complaint:
    """Why there is nothing of a host: `said` follows its name."""

    said: str
    way_out: str


def version_in(text: str) -> tuple[int, int] | None:
    """The version that ASK printed, among whatever else a login shell says."""
    found = re.search(r"pd-python (\d+)\.(\d+)", text)
    return (int(found[1]), int(found[2])) if found else None


def complaint(result: t.Mapping[str, t.Any], python: str, version: tuple[int, int] | None) -> Complaint:
    """From a failed module's result, and the version of the interpreter that it was given, where that could be asked."""
    said = str(result.get("msg") or "")
    if said.startswith(OWN):
        return Complaint(
            f"answers, but {said.removeprefix(OWN).rstrip('.')}", "It is a host variable (pd_...), or what it names."
        )
    need = ".".join(map(str, PYTHON))
    if version is not None and version < PYTHON:
        return Complaint(
            f"answers, but {python} is {version[0]}.{version[1]}; {need} is needed",
            f"Name a newer one for it: ansible_python_interpreter, as python{need} or newer.",
        )
    last = last_line(result)
    if result.get("rc") == 127 or "interpreter" in said.lower():
        return Complaint(
            f"answers, but {python} cannot be run: {last}",
            f"Install Python {need} or newer, or name it: ansible_python_interpreter.",
        )
    if _BECOME.search(last) or _BECOME.search(said):
        return Complaint(
            f"answers, but becoming another user there fails: {last}",
            "Give the password (--ask-become-pass, or ansible_become_password), or take ansible_become away.",
        )
    return Complaint(f"answers, but looking at it failed: {last}", "Run it again with -vvv to see all of it.")


def last_line(result: t.Mapping[str, t.Any]) -> str:
    """The last line of a module's own error, else of what Ansible says of it."""
    for key in ("module_stderr", "module_stdout", "exception", "msg"):
        lines = [line.strip() for line in str(result.get(key) or "").splitlines() if line.strip()]
        # Some versions of Ansible say in place of a traceback that there is none.
        if lines and not lines[-1].startswith("(traceback"):
            return lines[-1].rstrip(".")
    return "it gave no reason"
