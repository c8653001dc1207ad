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


# Flags that take no value, by how engines and routers name them: an empty entry behind one is what a template left out.
_SWITCH = re.compile(
    r"(no|enable|disable|skip|use|is|allow|return|log|trust|enforce|async|calculate|headless|vllm-pd|pd|mini-lb)(-|$)"
)


def is_switch(flag: str) -> bool:
    """Whether a flag, by its name, takes no value."""
    return _SWITCH.match(normal(flag)) is not None


def tokens(entries: t.Iterable[str], where: str | t.Sequence[str]) -> list[str]:
    """The argv that `entries` stand for. `where` is their place, or that of each. Raises PdError naming the entry's place, and the position
    in it, when its quotes do not close: never its text, which may be a secret.

    An entry behind one that is a bare flag is its value as it is written, an empty one too."""
    argv: list[str] = []
    open_flag = False
    for number, entry in enumerate(entries):
        place = f"{where}[{number}]" if isinstance(where, str) else where[number]
        text = str(entry).replace("\\\n", " ")
        words = _split(text.strip(), place) if is_flag(text.strip()) else []
        if words:
            argv += words
        elif open_flag:
            # A block of YAML ends in a line break that nobody means.
            argv.append(_without_shell_quotes(text.strip()) or text.strip("\r\n"))
        elif text.strip():
            argv.append(_without_shell_quotes(text.strip()) or text.strip())
        open_flag = len(words) == 1 and "=" not in words[0] and not is_switch(words[0])
    return argv


def _without_shell_quotes(text: str) -> str:
    """A JSON value that is an entry of its own and still in the quotes that a shell would have taken off; nothing for any other text."""
    inner = text[1:-1]
    return inner if len(text) > 1 and text[0] == text[-1] == "'" and _json_end(inner, 0) == len(inner) else ""


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
    quote, opened = "", at
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
                    f"{where}: it ends in a backslash. Remove it, or write the flag and its value as two entries."
                )
        elif char in "'\"":
            quote, opened = char, at
        elif char.isspace():
            return at
        at += 1
    if quote:
        raise PdError(
            f"{where}: the quote at character {opened + 1} is not closed. Close it, or write the flag and its value as two entries."
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
    # The one name that its engine knows it by, where that is known: `-tp` is tensor-parallel-size.
    known: str = ""

    @property
    def name(self) -> str:
        return self.known or normal(self.flag)

    @property
    def text(self) -> str:
        """The option as one readable line."""
        return self.flag if self.value is None else f"{self.flag}={self.value}"


def options(argv: t.Sequence[str], canonical: t.Callable[[str], str] = normal) -> list[Option]:
    """The options of an argv, in order. A token that looks like a flag is never another flag's value; values that follow the first
    (`--prefill URL 8998`) stay in the option's text. `canonical` gives a written flag's one name."""
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
        found.append(Option(flag, " ".join(values) if values else None, start, at, canonical(flag)))
    return found


class Arguments:
    """What an argv says. Names are canonical: the engine's table gives each one's spellings, and `canonical` the name of a written one.

    A key of an object is a name as well: `config.key` is found in `--config.key=value` and in `--config={"key": value}`."""

    def __init__(self, argv: t.Sequence[str], canonical: t.Callable[[str], str] = normal) -> None:
        self.argv = list(argv)
        self.options = options(self.argv, canonical)
        self._by_name: dict[str, list[Option]] = {}
        for option in self.options:
            self._by_name.setdefault(option.name, []).append(option)

    def last(self, spellings: t.Iterable[str]) -> Option | None:
        """The option that wins: the last across all spellings that carries a value (a bare flag does not undo an earlier value)."""
        found = [o for s in spellings for o in self._found(normal(s))]
        valued = [o for o in found if o.value is not None]
        return max(valued or found, key=lambda o: o.start, default=None)

    def value(self, spellings: t.Iterable[str]) -> str | None:
        option = self.last(spellings)
        return option.value if option else None

    def _found(self, name: str) -> list[Option]:
        """The options of a name, in whichever of its two forms a key of an object is written."""
        found = list(self._by_name.get(name, ()))
        head, dot, path = name.partition(".")
        for option in self._by_name.get(head, ()) if dot and not found else ():
            value: t.Any = read_json_object(option.value or "")
            for key in path.split("."):
                keys = {normal(str(k)): v for k, v in value.items()} if isinstance(value, dict) else {}
                value = keys.get(key)
            if value is not None:
                text = value if isinstance(value, str) else json.dumps(value)
                found.append(Option(option.flag, text, option.start, option.stop, name))
        return found

    def object(self, name: str) -> dict[str, t.Any] | None:
        """The object that a flag is given, as its engine puts it together: the last one that is written whole, or the keys that are written
        singly, which then are all of it. {} where it is not written; None where it cannot be read."""
        name = normal(name)
        keys = [o for o in self.options if o.name.startswith(name + ".")]
        if not keys:
            written = self._by_name.get(name)
            return read_json_object(written[-1].value or "") if written else {}
        made: dict[str, t.Any] = {}
        for option in keys:
            *path, last = option.name[len(name) + 1 :].split(".")
            within = made
            for key in path:
                within = within.setdefault(key, {})
                if not isinstance(within, dict):
                    return None
            within[last.rstrip("+")] = _scalar(option.value, last)
        return made

    def has(self, name: str) -> bool:
        return normal(name) in self._by_name

    def toggle(self, on: str, off: str) -> bool | None:
        """A pair of flags, the last one wins; None when neither is written."""
        found = [*self._by_name.get(normal(on), ()), *self._by_name.get(normal(off), ())]
        last = max(found, key=lambda o: o.start, default=None)
        return None if last is None else last.name == normal(on)


def _scalar(text: str | None, key: str) -> t.Any:
    """The value of a key that is written singly; `key+` takes a list with commas."""
    if key.endswith("+"):
        return (text or "").split(",")
    try:
        return json.loads(text or "")
    except ValueError:
        return text


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
