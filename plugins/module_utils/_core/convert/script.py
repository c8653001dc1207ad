# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A shell script, as far as it starts processes: statements, the variables that it sets itself, and their values filled in.

Words are split by shlex. What only a run would tell (`$(hostname -I)`, a variable that the script does not set) stays in the text, and is
seen there by base/shell.py. Loops and conditions are not run: a statement in one is read once."""

from __future__ import annotations

import re
import shlex
import typing as t
from dataclasses import dataclass

from .launch import secret_name

_NAME = r"[A-Za-z_]\w*"
_ASSIGNMENT = re.compile(rf"({_NAME})=(.*)", re.S)
_ARRAY = re.compile(rf"\s*(?:(?:local|declare|export|readonly)\s+(?:-\w+\s+)?)?({_NAME})(\+?)=\(", re.S)
_REFERENCE = re.compile(rf"\$(?:({_NAME})|\{{({_NAME})(\[[@*]\])?(?:(:?[-=+])([^{{}}]*))?\}})")
_QUOTED_ARRAY = re.compile(rf'"\$\{{({_NAME})\[[@*]\]\}}"')
# `> FILE`, `2>&1`; the file may be a word of its own.
_REDIRECTION = re.compile(r"(\d?>{1,2}|&>{1,2}|\d?<{1,3}(?=$|[^<\s]*[./]))")
# `$` and the like: the prompt of a terminal, copied with its line.
_KEYWORDS = ("$", "%", ">", ">>>", "then", "do", "else", "(", "{", "!", "if", "while")
# A variable that is longer, or a script with more to fill in, or to export, is none that a person wrote: what is beyond stays as it is.
_LONGEST = 4096
_ROOM = 1 << 20
_EXPORTS = 500


@dataclass(frozen=True)
class Statement:
    """One command of a script: its words with what the script knows filled in, the variables in front of them, and those that are exported
    before it."""

    words: tuple[str, ...]
    env: t.Mapping[str, str]
    exported: t.Mapping[str, tuple[str, int]]
    line: int


def statements(text: str, known: t.Mapping[str, str] | None = None) -> list[Statement]:
    """The commands of a script, in order. `known` are variables that are set around it. What no shell could read is left out."""
    variables: dict[str, str] = dict(known or {})
    exported: dict[str, tuple[str, int]] = {}
    found = []
    room = _ROOM
    for raw, line in _split(text.replace("\r\n", "\n")):
        array = _ARRAY.match(raw)
        if array:
            inner, room = _fill(raw[array.end() : raw.rstrip().rfind(")")], variables, room)
            before = variables.get(array.group(1), "") + " " if array.group(2) else ""
            variables[array.group(1)] = (before + inner.replace("\n", " "))[:_LONGEST]
            continue
        filled, room = _fill(raw, variables, room)
        try:
            words = _without_redirections(shlex.split(filled))
        except ValueError:
            continue
        while words and words[0] in _KEYWORDS:
            words.pop(0)
        exports = bool(words) and words[0] in ("export", "declare", "local", "readonly", "typeset")
        is_export = exports and (words[0] == "export" or "-x" in words)
        own, rest = _assignments([word for word in words[1:] if not word.startswith("-")] if exports else words)
        if rest and not exports:
            found.append(Statement(tuple(rest), own, exported, line))
            continue
        # A secret stays where it is set: filled in, it could come out with a flag.
        variables.update({name: value[:_LONGEST] for name, value in own.items() if not secret_name(name)})
        if is_export and len(exported) < _EXPORTS:
            # Another dictionary: statements before keep theirs.
            told = {**own, **{name: variables.get(name, "") for name in rest if name in variables or secret_name(name)}}
            exported = {**exported, **{name: (value, line) for name, value in told.items()}}
    return found


def _assignments(words: t.Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """(the variables at the front, what is behind them)."""
    own: dict[str, str] = {}
    for number, word in enumerate(words):
        match = _ASSIGNMENT.fullmatch(word)
        if not match:
            return own, list(words[number:])
        own[match.group(1)] = match.group(2)
    return own, []


def _split(text: str) -> t.Iterator[tuple[str, int]]:
    """(statement, its first line): cut at line ends and operators outside of quotes, without comments."""
    out: list[str] = []
    line = start = 1
    at, quote, depth = 0, "", 0
    while at < len(text):
        char, end = text[at], _piece_end(text, at, quote)
        if char == "#" and not quote and (not out or out[-1].isspace()):
            found = text.find("\n", at)
            at = found if found >= 0 else len(text)
            continue
        cuts = False
        if end == at + 1 and (quote or char in "'\""):
            quote = ("" if char == quote else quote) if quote else char
        elif end == at + 1 and char in "()" and (depth or (char == "(" and _ARRAY.match("".join(out) + char))):
            depth += 1 if char == "(" else -1
        else:
            cuts = depth == 0 and char in "\n;|&()" and not _redirects(out, text, at)
        if cuts:
            if out:
                yield "".join(out), start
            out = []
        else:
            # A line that goes on: one space, or nothing within quotes.
            piece = {False: " ", True: ""}[bool(quote)] if text[at:end] == "\\\n" else text[at:end]
            start = start if out else line
            out += [piece] if out or not piece.isspace() else []
        line += text.count("\n", at, end)
        at = end
    if out:
        yield "".join(out), start


def _piece_end(text: str, at: int, quote: str) -> int:
    """Where what begins at `at` ends: a substitution, an escaped character, or one character."""
    if quote != "'" and text.startswith("$(", at):
        return _substitution_end(text, at + 1)
    return at + 2 if quote != "'" and text[at] == "\\" else at + 1


def _redirects(out: t.Sequence[str], text: str, at: int) -> bool:
    """Whether an & is a part of `2>&1` or `&>`."""
    return text[at] == "&" and ((bool(out) and out[-1] in "<>") or text[at + 1 : at + 2] == ">")


def _substitution_end(text: str, at: int) -> int:
    """Where `$(...)` ends, its opening parenthesis being at `at`."""
    depth = 0
    for position in range(at, len(text)):
        depth += {"(": 1, ")": -1}.get(text[position], 0)
        if depth == 0:
            return position + 1
    return len(text)


def _fill(raw: str, variables: t.Mapping[str, str], room: int) -> tuple[str, int]:
    """(a statement with the variables that are known filled in, safe for shlex: a substitution is one word; the room that is left)."""
    if raw.count("@]}") * _LONGEST < _ROOM:
        raw = _QUOTED_ARRAY.sub(lambda m: variables.get(m.group(1), m.group()), raw)
    out: list[str] = []
    at, quote = 0, ""
    while at < len(raw):
        char = raw[at]
        match = _REFERENCE.match(raw, at) if quote != "'" else None
        if char == "\\" and quote != "'":
            out.append(raw[at : at + 2])
            at += 2
        elif quote != "'" and (raw.startswith("$(", at) or char == "`"):
            end = _substitution_end(raw, at + 1) if char == "$" else raw.find("`", at + 1) + 1 or len(raw)
            out.append(_safe(raw[at:end], quote))
            at = end
        elif match:
            value = _value(match, variables)
            value = None if value is None or len(value) > room else value
            room -= len(value or "")
            # Outside of quotes a value is split into words, as a shell does.
            out.append(_safe(match.group(), quote) if value is None else value if not quote else _escaped(value))
            at = match.end()
        else:
            if char in "'\"" and quote in ("", char):
                quote = "" if quote else char
            out.append(char)
            at += 1
    return "".join(out), room


def _without_redirections(words: t.Sequence[str]) -> list[str]:
    kept: list[str] = []
    skip = False
    for word in words:
        if skip or _REDIRECTION.match(word):
            skip = not skip and _REDIRECTION.fullmatch(word) is not None
        else:
            kept.append(word)
    return kept


def _value(match: re.Match[str], variables: t.Mapping[str, str]) -> str | None:
    """What a reference comes to; None where only the run would tell."""
    name = match.group(1) or match.group(2)
    operator, word = match.group(4), match.group(5)
    if operator and "+" in operator:
        return word if name in variables else ""
    if name in variables:
        return variables[name]
    return word.strip("\"'") if operator else None


def _safe(text: str, quote: str) -> str:
    return _escaped(text) if quote else shlex.quote(text)


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')
