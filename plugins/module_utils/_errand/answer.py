# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an errand says, as lines of a log: each with its number, so that what stands between them, lines that come twice and a log that
was cut are no riddle. The last one has the digest of the whole."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import typing as t
import zlib

from .._core.base.errors import PdError
from .._core.base.plain import Plain

MARK = "inferops.pd/answer"
# What writes logs may cut a line at 16 KiB.
_WIDTH = 12_000
# What comes out of a log that is no errand's must not fill a memory.
_LARGEST = 64 * 2**20


class CutError(PdError):
    """The log has no whole answer. `begun`: it has a part of one."""

    def __init__(self, text: str, begun: bool) -> None:
        super().__init__(text)
        self.begun = begun


def lines(token: str, answer: Plain) -> t.Iterator[str]:
    """The answer of the errand of that token. The empty first line ends what stands unfinished in the log."""
    body = zlib.compress(json.dumps(answer, sort_keys=True).encode(), 9)
    text = base64.b64encode(body).decode()
    parts = [text[at : at + _WIDTH] for at in range(0, len(text), _WIDTH)]
    yield ""
    for number, part in enumerate(parts, 1):
        yield f"{MARK} {token} {number}/{len(parts)} {part}"
    yield f"{MARK} {token} sha256 {hashlib.sha256(body).hexdigest()}"


def read(log: str, token: str) -> dict[str, t.Any]:
    """The answer that a log has. Raises CutError."""
    parts: dict[int, str] = {}
    of, digest = 0, ""
    for part in re.finditer(rf"^{re.escape(MARK)} {re.escape(token)} (\S+) (\S+)\s*$", log, re.MULTILINE):
        at, _slash, whole = part[1].partition("/")
        if part[1] == "sha256":
            digest = part[2]
        elif at.isdigit() and whole.isdigit():
            parts[int(at)], of = part[2], int(whole)
    if not parts and not digest:
        raise CutError("its log has no answer", begun=False)
    lost = [number for number in range(1, of + 1) if number not in parts]
    if lost or not digest or not of:
        gone = f"{len(lost)} of {of} lines are missing" if lost else "its end is missing"
        raise CutError(f"its log was cut: {gone}", begun=True)
    return _opened("".join(parts[number] for number in range(1, of + 1)), digest)


def _opened(text: str, digest: str) -> dict[str, t.Any]:
    try:
        body = base64.b64decode(text, validate=True)
        if hashlib.sha256(body).hexdigest() != digest:
            raise CutError("its log was changed: the digest of the answer is another one", begun=True)
        opener = zlib.decompressobj()
        found = json.loads(opener.decompress(body, _LARGEST))
    except (ValueError, zlib.error) as exc:
        if isinstance(exc, CutError):
            raise
        raise CutError(f"its log was changed: the answer cannot be read ({exc})", begun=True) from exc
    if not isinstance(found, dict):
        raise CutError("its log was changed: the answer is none", begun=True)
    return found
