# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a pasted text says, in one form whatever it was: the launches of engines and routers in it, and a note for each of its lines.

No secret is in a note: it tells flags, names of variables and keys, and values only where they are known to be none."""

from __future__ import annotations

import re
import typing as t
from dataclasses import dataclass, field, replace

from ..base.shell import expressions, is_secret

# What became of a line: it is in the spec; the recipe, or the plan, does it already; it is not in the spec; or a person must decide.
Outcome = t.Literal["taken", "recipe", "dropped", "decide"]
# Values that are secrets whatever their name is: tokens by how providers begin them, and passwords in URLs.
_SECRET_VALUE = re.compile(
    r"(?<![\w./-])(hf_|sk-|ghp_|gho_|github_pat_|glpat-|xox[abp]-|nvapi-|AKIA)[A-Za-z0-9_-]{6,}|://[^/\s:@]*:[^/\s@]+@|Bearer\s+\S{6,}"
)
_SECRET_NAME = re.compile(r"(^|_)(TOKEN|KEY|PASSWORD|PASSWD|PASSPHRASE|SECRET|CREDENTIALS?|PAT)$", re.I)


def secret_name(name: str) -> bool:
    """Whether a variable is treated as a secret: here rather one too many."""
    return is_secret(name) or bool(_SECRET_NAME.search(name))


def secret_value(value: str) -> bool:
    """Whether a value is, or holds, a secret by how it looks."""
    return bool(_SECRET_VALUE.search(value))


def unknown(value: str) -> list[str]:
    """What in a value only a run of the text would tell: a shell's expressions, and variables in any case that the text does not set."""
    return expressions(value) or re.findall(r"(?<![\"\w$])\$\{?([A-Za-z_]\w*)", value)


@dataclass(frozen=True)
class Note:
    """What became of one thing in the text. `line` is its line there, 0 where it has none."""

    role: str
    line: int
    what: str
    outcome: Outcome
    why: str

    def to_plain(self) -> dict[str, t.Any]:
        return {"role": self.role, "line": self.line, "what": self.what, "outcome": self.outcome, "why": self.why}


@dataclass(frozen=True)
class Variable:
    """A variable of the environment. `value` None: it comes from where the text is run."""

    name: str
    value: str | None
    line: int = 0


@dataclass(frozen=True)
class Launch:
    """One process that the text starts: `program` is vLLM, SGLang, or a router's; `words` are what stands behind it. `gpus` is how many
    cards it is given, None where the text does not say. `text` is where its lines are looked up."""

    program: str
    words: tuple[str, ...]
    executable: str = ""
    env: tuple[Variable, ...] = ()
    image: str | None = None
    mounts: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    gpus: int | None = None
    line: int = 0
    text: str = ""
    label: str = ""
    notes: tuple[Note, ...] = field(default=())

    def line_of(self, word: str) -> int:
        """The line that a word of it stands in: the first one from its own on."""
        lines = self.text.splitlines()
        for number in range(max(self.line, 1), len(lines) + 1):
            if word and word in lines[number - 1]:
                return number
        return self.line

    def noted(self, *notes: Note) -> Launch:
        return replace(self, notes=(*self.notes, *notes))
