# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Log symptoms: which line of a log says what is wrong, and what an operator is told. The tables stand in `_probes/symptoms.py`,
`_engines/symptoms.py` and `_routers/symptoms.py`.

The earliest matching error line wins; within a line, the first symptom of the table. A matching warning is held back, and counts only
when the log has no other fatal line. Lines are cut at 400 characters."""

from __future__ import annotations

import re
import typing as t
from dataclasses import dataclass

CUT = 400

# "WARNING 11-29 14:53:24 [...]", "W0828 12:00:00", "[W1129 ...", "2026-... WARN router: ..."
_WARNING = re.compile(r"\bWARN(?:ING)?\b|(?:^|[\[(\s])W\d{4}\b")
_ERROR = re.compile(r"\bERROR\b|\bCRITICAL\b|(?:^|[\[(\s])E\d{4}\b")
# Lines of ordinary operation that may quote an error's words.
_CALM = re.compile(r"(?:^|[\s)])(?:INFO|DEBUG)\b")
_EXCEPTION = re.compile(
    r"(?:^|[\s:\]|])(?!SystemExit|KeyboardInterrupt|CancelledError)"
    r"((?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Failed|Interrupt|Again)(?:\(\d+\))?): (?=\S)"
)
_FATAL = re.compile(
    r"Traceback \(most recent call last\)|(?:^|[\[(\s])[EF]\d{4}\b|\bpanicked at\b|: error: |^error: |\bFATAL\b"
)
# What says only that something else went wrong before.
_ECHO = re.compile(
    r"[Ss]ee (?:root cause|stack trace|the (?:above|error)) |check the stack trace above|EngineCore failed to start|EngineDeadError"
    r"|Engine core initialization failed|WorkerProc initialization failed|EngineCore encountered an issue|Failed core proc"
)
# "(EngineCore pid=31) ", "(APIServer pid=12) ": who of a member's processes wrote the line.
_WRITER = re.compile(r"^\((?:\w+)(?: \w+)? pid=\d+\)\s*")
_STAMP = re.compile(r"^(?:INFO|WARNING|ERROR|DEBUG|CRITICAL) \d\d-\d\d \d\d:\d\d:\d\d (?:\[[^\]]*\] ?)?")


@dataclass(frozen=True)
class Symptom:
    """What a line of a log tells. `fatal`: a member that logs it while it starts will never be ready, whether its process lives or not."""

    name: str
    pattern: re.Pattern[str]
    meaning: str
    advice: str
    fatal: bool = False

    def to_plain(self, line: str) -> dict[str, t.Any]:
        return {
            "name": self.name,
            "meaning": self.meaning,
            "advice": self.advice,
            "line": cut(line),
            "fatal": self.fatal,
        }


@dataclass(frozen=True)
class Diagnosis:
    """The line that says what is wrong; `symptom` is None when the tables do not know it."""

    line: str
    symptom: Symptom | None

    @property
    def fatal(self) -> bool:
        return bool(self.symptom and self.symptom.fatal)

    def to_plain(self) -> dict[str, t.Any]:
        if self.symptom:
            return self.symptom.to_plain(self.line)
        return {"name": "unrecognised", "meaning": "", "advice": "", "line": cut(self.line), "fatal": False}


def symptom(name: str, pattern: str, meaning: str, advice: str, fatal: bool = False) -> Symptom:
    """One row of a table."""
    return Symptom(name, re.compile(pattern), meaning, advice, fatal)


def cut(line: str) -> str:
    """A line as it is shown: without who wrote it and when, and at most 400 characters."""
    text = _STAMP.sub("", _WRITER.sub("", line)).strip()
    return text if len(text) <= CUT else text[: CUT - 1] + "…"


def is_warning(line: str) -> bool:
    return bool(_WARNING.search(line)) and not _ERROR.search(line)


def match(line: str, table: t.Iterable[Symptom]) -> Symptom | None:
    """The first symptom of the table that the line shows."""
    return next((s for s in table if s.pattern.search(line)), None)


def diagnose(lines: t.Iterable[str], table: t.Sequence[Symptom], fatal_only: bool = False) -> Diagnosis | None:
    """What a log says is wrong, or None. With `fatal_only` just what dooms a start (the log of a member that still runs)."""
    rows = [s for s in table if s.fatal] if fatal_only else table
    held: Diagnosis | None = None
    reason: str | None = None
    for line in lines:
        if _CALM.search(line[:60]) and not _ERROR.search(line[:60]):
            continue
        found = match(line, rows)
        if found and not is_warning(line):
            return Diagnosis(line, found)
        if found:
            held = held or Diagnosis(line, found)
        elif not is_warning(line) and not _ECHO.search(line) and (_EXCEPTION.search(line) or _FATAL.search(line)):
            # Python's own header is no reason, but better than none.
            reason = line if reason is None or "Traceback (most recent" not in line else reason
    if reason and not fatal_only:
        return Diagnosis(reason, None)
    return held


def last_line(lines: t.Sequence[str]) -> str:
    """The last line that says something, without the noise of being polled."""
    return next((cut(line) for line in reversed(lines) if not _POLL.search(line)), "")


_POLL = re.compile(r'"(?:GET|HEAD) /(?:health|metrics|version|v1/models|liveness|readiness)\b')
