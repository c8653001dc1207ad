# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Values of secrets made unreadable in text that people get to see: lines of logs, and what a container engine says."""

from __future__ import annotations

import json
import typing as t
import urllib.parse

HIDDEN = "********"
# What is shorter is a word of any text: hiding it would tell the value, and leave nothing to read.
SHORTEST = 4


def masked(lines: t.Iterable[str], values: t.Iterable[str]) -> list[str]:
    """The lines without the values. A value of several lines is hidden line by line; values that lie over each other are hidden as far as
    they reach together."""
    words = {piece for value in values for form in _forms(value) for piece in _pieces(form)}
    return [_hide(line, words) for line in lines] if words else list(lines)


def _forms(value: str) -> tuple[str, ...]:
    """A value as programs write it: as it is, in JSON, in a Python text, in a URL."""
    return (
        value,
        json.dumps(value)[1:-1],
        json.dumps(value, ensure_ascii=False)[1:-1],
        repr(value)[1:-1],
        _quoted(value),
    )


def _quoted(value: str) -> str:
    return urllib.parse.quote(value, safe="", errors="replace")


def _pieces(value: str) -> t.Iterator[str]:
    for piece in (value, *value.splitlines()):
        if len(piece.strip()) >= SHORTEST:
            yield piece.strip()


def _hide(line: str, words: t.Collection[str]) -> str:
    found: list[tuple[int, int]] = []
    for word in words:
        at = line.find(word)
        while at >= 0:
            found.append((at, at + len(word)))
            at = line.find(word, at + 1)
    if not found:
        return line
    out, done = [], 0
    for start, stop in _joined(sorted(found)):
        out += [line[done:start], HIDDEN]
        done = stop
    return "".join([*out, line[done:]])


def _joined(spans: t.Sequence[tuple[int, int]]) -> t.Iterator[tuple[int, int]]:
    """Spans in their order, those that touch as one."""
    start, stop = spans[0]
    for begin, end in spans[1:]:
        if begin <= stop:
            stop = max(stop, end)
        else:
            yield start, stop
            start, stop = begin, end
    yield start, stop
