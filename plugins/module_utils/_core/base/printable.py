# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Text that is not ours, made fit to be shown: what a process calls itself, a model answers, a log holds, a server or a daemon says.

Ansible prints results as they are, so that such a text could clear the screen, rename the window, turn the line around, or end the run: a
lone surrogate cannot be encoded. What enters a result or a message goes through here: a text by `printable`, a line of a log by `fit`."""

from __future__ import annotations

import re
import typing as t
import unicodedata

# Colours and cursor movements, titles and other strings that a terminal keeps, in their forms of seven bits and of eight. Bounded: an
# opening without its end must not be looked for to the end of a log.
_ESCAPES = re.compile(
    r"(?:\x1b\[|\x9b)[0-9;:?<=>!]{0,64}[ -/]{0,8}[@-~]"
    r"|(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c\n]{0,4096}(?:\x07|\x1b\\|\x9c)"
    r"|\x1b[ -/]{0,8}[0-~]"
)
# Controls, formats (they turn the line around, or have no width), surrogates, what has no character or a private one, other line ends.
_UNFIT = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
# Between words it is what a person reads.
_SPACES = frozenset("\t\n\v\f\r\x85\u2028\u2029")
REPLACED = "\ufffd"
LIMIT = 300


def printable(text: t.Any, limit: int = LIMIT) -> str:
    """A text in one line of at most `limit` characters, with nothing in it that a terminal obeys: escape sequences are gone, white space is
    one space, and what has no glyph of its own is told by a replacement character."""
    if isinstance(text, (bytes, bytearray)):
        text = bytes(text[: 8 * limit + 8]).decode("utf-8", "replace")
    # A long one is cut before it is looked at: what is done to it is bounded, whatever somebody sends.
    cut = str(text)[: 8 * limit + 8]
    line = " ".join("".join(_fit(c) for c in _ESCAPES.sub("", cut)).split())
    return line if len(line) <= limit else line[: max(0, limit - 1)] + "…"


def fit(line: str) -> str:
    """One line as it is, spaces and length kept, with nothing in it that a terminal obeys."""
    if line.isascii() and line.isprintable():
        return line
    return "".join(_fit(c) for c in _ESCAPES.sub("", line))


def _fit(character: str) -> str:
    if " " <= character < "\x7f":
        return character
    if character in _SPACES:
        return " "
    return REPLACED if unicodedata.category(character) in _UNFIT else character
