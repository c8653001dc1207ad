# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Command line flags, in one reading for every engine and every place that looks at them.

A user writes `args` as they come to hand: one flag an entry, `flag value`, `flag=value`, or a whole pasted line with shell quotes.
`tokens` turns them into the argv; `Arguments` answers what a flag says, across its spellings, as the engine's argparse would: the
last one wins. A JSON value is one value however it is written."""

from __future__ import annotations

import json
import re
import shlex
import typing as t
from dataclasses import dataclass

from .errors import PdError

_NUMBER = re.compile(r"-\d+(\.\d+)?$")
_JSON = json.JSONDecoder()
PLACEHOLDER = re.compile(r"\$\{[^}]{0,400}\}")
_BARE = re.compile(r'(?<!")\$\{[^}]{0,400}\}(?!")')
_FLAG = re.compile(r"--?[A-Za-z][\w.-]*=")
_HUMAN = re.compile(r"(\d+(?:\.\d+)?)([A-Za-z]+)$")


def is_flag(token: str) -> bool:
    """Whether a token starts an option: a dash that is not a negative number nor the bare separators."""
    return token.startswith("-") and token not in ("-", "--") and not _NUMBER.match(token)


def tokens(entries: t.Iterable[str], where: str) -> list[str]:
    """The argv that `entries` stand for. Raises PdError naming `where` and the entry when its quotes do not close."""
    argv: list[str] = []
    for entry in entries:
        text = str(entry).replace("\\\n", " ").strip()
        if is_flag(text):
            argv += _split(text, where)
        elif text:
            argv.append(_without_shell_quotes(text))
    return argv


def _without_shell_quotes(text: str) -> str:
    """A JSON value that is an entry of its own and still in the quotes that a shell would have taken off."""
    inner = text[1:-1]
    return inner if len(text) > 1 and text[0] == text[-1] == "'" and _json_end(inner, 0) == len(inner) else text


def _split(line: str, where: str) -> list[str]:
    """Split one line like a shell does, except that a JSON object or array stays whole, quotes and spaces included."""
    if "'" not in line and '"' not in line and "\\" not in line and "{" not in line and "[" not in line:
        return line.split()
    out: list[str] = []
    at, readable = 0, _with_digits(line)
    while at < len(line):
        if line[at].isspace():
            at += 1
            continue
        flag = _FLAG.match(line, at)
        head = flag.group() if flag else ""
        end = _json_end(line, at + len(head), readable)
        if end is None:
            end = _word_end(line, at, where)
            out += shlex.split(line[at:end])
        else:
            out.append(line[at:end])
        at = end
    return out


def _with_digits(line: str) -> str:
    """A line in which its placeholders are numbers: one may stand where a number does, and digits of its length keep every position."""
    return PLACEHOLDER.sub(lambda match: "1" * len(match.group()), line)


def _json_end(line: str, at: int, readable: str | None = None) -> int | None:
    """Where a JSON object or array that starts at `at` ends, or None when there is none. `readable` is the line with digits, made once for
    all of its words."""
    if at >= len(line) or line[at] not in "{[":
        return None
    try:
        _value, end = _JSON.raw_decode(_with_digits(line) if readable is None else readable, at)
    except (ValueError, RecursionError):
        return None
    return end if end == len(line) or line[end].isspace() else None


def _word_end(line: str, at: int, where: str) -> int:
    """Where the shell word that starts at `at` ends; an unclosed quote is the user's error."""
    quote = ""
    while at < len(line):
        char = line[at]
        if quote:
            if char == "\\" and quote == '"':
                at += 1
            elif char == quote:
                quote = ""
        elif char == "\\":
            at += 1
            if at == len(line):
                raise PdError(
                    f"{where}: {line!r} ends in a backslash. Remove it, or write the flag and its value as two entries."
                )
        elif char in "'\"":
            quote = char
        elif char.isspace():
            return at
        at += 1
    if quote:
        raise PdError(
            f"{where}: a quote is not closed in {line!r}. Close it, or write the flag and its value as two entries."
        )
    return at


def normal(flag: str) -> str:
    """A flag's name without leading dashes; underscores read as hyphens, as vLLM's and SGLang's parsers do."""
    return flag.lstrip("-").replace("_", "-")


@dataclass(frozen=True)
class Option:
    """One flag as it stands in an argv: its name as written, the value or None, and where it stands."""

    flag: str
    value: str | None
    start: int
    stop: int

    @property
    def name(self) -> str:
        return normal(self.flag)

    @property
    def text(self) -> str:
        """The option as one readable line."""
        return self.flag if self.value is None else f"{self.flag}={self.value}"


def options(argv: t.Sequence[str]) -> list[Option]:
    """The options of an argv, in order. A token that looks like a flag is never another flag's value; values that follow the first
    (`--prefill URL 8998`) stay in the option's text."""
    found: list[Option] = []
    at = 0
    while at < len(argv):
        token = argv[at]
        if not is_flag(token):
            at += 1
            continue
        start = at
        flag, equals, inline = token.partition("=")
        at += 1
        values = [inline] if equals else []
        while at < len(argv) and not is_flag(argv[at]):
            values.append(argv[at])
            at += 1
        found.append(Option(flag, " ".join(values) if values else None, start, at))
    return found


class Arguments:
    """What an argv says. Names are canonical: the engine's table gives each one's spellings."""

    def __init__(self, argv: t.Sequence[str]) -> None:
        self.argv = list(argv)
        self.options = options(self.argv)
        self._by_name: dict[str, list[Option]] = {}
        for option in self.options:
            self._by_name.setdefault(option.name, []).append(option)

    def last(self, spellings: t.Iterable[str]) -> Option | None:
        """The option that wins: the last across all spellings that carries a value (a bare flag does not undo an earlier value)."""
        found = [o for s in spellings for o in self._by_name.get(normal(s), ())]
        valued = [o for o in found if o.value is not None]
        return max(valued or found, key=lambda o: o.start, default=None)

    def value(self, spellings: t.Iterable[str]) -> str | None:
        option = self.last(spellings)
        return option.value if option else None

    def has(self, name: str) -> bool:
        return normal(name) in self._by_name

    def toggle(self, on: str, off: str) -> bool | None:
        """A pair of flags, the last one wins; None when neither is written."""
        found = [*self._by_name.get(normal(on), ()), *self._by_name.get(normal(off), ())]
        last = max(found, key=lambda o: o.start, default=None)
        return None if last is None else last.name == normal(on)


def read_integer(text: str, units: t.Mapping[str, int] | None = None) -> int | None:
    """An integer as an engine reads it: 131072, or with one of the engine's `units` behind it, as in 128k. A binary unit takes no
    fraction. None when the text is none of these."""
    text = text.strip()
    match = _HUMAN.match(text)
    try:
        if match and units and match.group(2) in units:
            number, factor = match.group(1), units[match.group(2)]
            if "." not in number:
                return int(number) * factor
            return int(float(number) * factor) if factor % 10 == 0 else None
        return int(text)
    except ValueError:
        return None


def read_json_object(text: str) -> dict[str, t.Any] | None:
    """A JSON object, placeholders in it included (`${...}` stands where a number may); None when it is no object."""
    try:
        value = json.loads(_BARE.sub("0", text))
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
