# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Double braces that are still there: Ansible does not evaluate text that came to it as a value, from a survey or a file, say; nor keys.

Of what has them only the place is told: any value may hold a secret."""

from __future__ import annotations

import re
import typing as t

from .finding import Findings

_STATEMENT = re.compile(r"\{%-?\s*\w")
# Behind the braces of a template of Go, as docker's --format has them: no expression of Jinja begins so.
_OF_GO = re.compile(r"\s*\.")
# Flags whose value is a template itself.
_OF_TEMPLATES = re.compile(r"chat[-_]template")
WAY_OUT = "Write the value. Ansible evaluates braces in inventories and playbooks, not in what is given at a launch, or marked !unsafe."


def has(text: str) -> bool:
    """Whether there is an expression or a statement of Jinja in it."""
    at, end = text.find("{{"), text.rfind("}}")
    while at >= 0 and at + 2 < end:
        if not _OF_GO.match(text, at + 2):
            return True
        at = text.find("{{", at + 2)
    return "{%" in text and bool(_STATEMENT.search(text))


def of_template(text: str) -> bool:
    """Whether a flag, alone or before its value, is given a template."""
    return bool(_OF_TEMPLATES.search(text))


def places(value: t.Any, place: str, behind: str = "") -> t.Iterator[tuple[str, str]]:
    """(place, what has them) of all in a value; `place` is its own, `behind` the entry before it in a list."""
    if isinstance(value, t.Mapping):
        for key, item in value.items():
            if isinstance(key, str) and has(key):
                yield place, "a key"
            else:
                yield from places(item, f"{place}.{key}" if place else str(key))
    elif isinstance(value, (list, tuple)):
        for number, item in enumerate(value):
            yield from places(item, f"{place}[{number}]", str(value[number - 1]) if number else "")
    elif isinstance(value, str) and has(value) and not of_template(behind + value):
        yield place, "it"


def check(value: t.Any, place: str, findings: Findings, but: t.Collection[str] = ()) -> None:
    """Tell all in an entry that a user wrote, but for what stands at some keys of it, which are people's or are evaluated later."""
    if isinstance(value, t.Mapping):
        value = {key: one for key, one in value.items() if key not in but}
    for where, what in places(value, place):
        findings.error("unevaluated", told(where or "it", what), WAY_OUT if what == "it" else "Write the key.")


def told(place: str, what: str) -> str:
    """What is found at a place, in a sentence."""
    if what == "it":
        return f"{place}: the double braces in it were not evaluated."
    return f"{place}: one of its keys has double braces, and Ansible evaluates no key."
