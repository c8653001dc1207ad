# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Log symptoms: which line of a log says what is wrong, and what an operator is told. The tables stand in `_probes/symptoms.py`,
`_engines/symptoms.py` and `_routers/symptoms.py`.

The earliest matching error line wins; within a line, the first symptom of the table. A matching warning is held back, and counts only
when the log has no other fatal line. Shown lines are cut at 400 characters.

A log is whatever a process wrote: no expression sees a line before `clip` has cut it, and none repeats anything without a bound, so that
the longest line costs no more than so many steps for each of its characters."""

from __future__ import annotations

import re
import typing as t
from dataclasses import dataclass

CUT = 400
# What of a line is looked at: an error stands at its beginning, or at the end of a long dump of settings.
HEAD, END = 3072, 1024
# Where a line's level stands.
_MARK = 60

# "WARNING 11-29 14:53:24 [...]", "2026-... WARN router: ...", and glog's: "W0828 12:00:00", "W20261129 12:00:00", "[W106 06:43:02".
_WARNING = re.compile(r"\bWARN(?:ING)?\b|(?:^|[\[(\s])W\d{3,8} \d\d:")
_ERROR = re.compile(r"\bERROR\b|\bCRITICAL\b|(?:^|[\[(\s])E\d{3,8} \d\d:")
# Lines of ordinary operation that may quote an error's words.
_CALM = re.compile(r"(?:^|[\s)])(?:INFO|DEBUG)\b|(?:^|[\[(\s])I\d{3,8} \d\d:")
_EXCEPTION = re.compile(
    r"(?:^|[\s:\]|])(?!SystemExit|KeyboardInterrupt|CancelledError)"
    r"(?:[A-Za-z_]\w{0,60}\.){0,12}[A-Z]\w{0,80}(?:Error|Exception|Failed|Interrupt|Again)(?:\(\d{1,9}\))?: (?=\S)"
)
_FATAL = re.compile(
    r"Traceback \(most recent call last\)|(?:^|[\[(\s])[EF]\d{3,8} \d\d:|\bpanicked at\b|: error: |^error: |\bFATAL\b"
)
# What Python says of an exception without words: the whole line is its name.
_BARE = re.compile(r"(?:[A-Za-z_]\w{0,60}\.){0,12}[A-Z]\w{0,80}(?:Error|Exception)")
# What says only that something else went wrong before.
_ECHO = re.compile(
    r"[Ss]ee (?:root cause|stack trace|the (?:above|error)) |check the stack trace above|EngineCore failed to start|EngineDeadError"
    r"|Engine core initialization failed|WorkerProc initialization failed|EngineCore encountered an issue|Failed core proc"
    r"|Received sigquit from a child process"
)
# "(EngineCore pid=31) ", "(APIServer pid=12) ": who of a member's processes wrote the line.
_WRITER = re.compile(r"^\(\w{1,64}(?: \w{1,64})? pid=\d{1,9}\)\s{0,8}")
_STAMP = re.compile(r"^(?:INFO|WARNING|ERROR|DEBUG|CRITICAL) \d\d-\d\d \d\d:\d\d:\d\d (?:\[[^\]]{0,200}\] ?)?")


@dataclass(frozen=True)
class Symptom:
    """What a line of a log tells. `fatal`: a member that logs it while it starts will never be ready, whether its process lives or not.
    `spoils`: a member that logs it while it serves may have answered wrongly, with nothing else to show for it."""

    name: str
    pattern: re.Pattern[str]
    meaning: str
    advice: str
    fatal: bool = False
    spoils: bool = False

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


def symptom(name: str, pattern: str, meaning: str, advice: str, fatal: bool = False, spoils: bool = False) -> Symptom:
    """One row of a table."""
    return Symptom(name, re.compile(pattern), meaning, advice, fatal, spoils)


def clip(line: str) -> str:
    """A line as it is looked at: the beginning and the end of a very long one."""
    return line if len(line) <= HEAD + END else f"{line[:HEAD]} … {line[-END:]}"


def cut(line: str) -> str:
    """A line as it is shown: without who wrote it and when, and at most 400 characters."""
    text = _STAMP.sub("", _WRITER.sub("", clip(line))).strip()
    return text if len(text) <= CUT else text[: CUT - 1] + "…"


def is_warning(line: str) -> bool:
    line = clip(line)
    return bool(_WARNING.search(line)) and not _ERROR.search(line)


def match(line: str, table: t.Iterable[Symptom]) -> Symptom | None:
    """The first symptom of the table that the line shows."""
    line = clip(line)
    return next((s for s in table if s.pattern.search(line)), None)


def diagnose(lines: t.Iterable[str], table: t.Sequence[Symptom], fatal_only: bool = False) -> Diagnosis | None:
    """What a log says is wrong, or None. With `fatal_only` just what dooms a start (the log of a member that still runs).

    Of what no row knows, an exception tells more than a known warning, and a line that is only marked as an error less."""
    held: Diagnosis | None = None
    reason: str | None = None
    loud: str | None = None
    for line in map(clip, lines):
        if _calm(line):
            continue
        found = match(line, table)
        if fatal_only and not (found and found.fatal):
            continue
        if found and not is_warning(line):
            return Diagnosis(line, found)
        if found:
            held = held or Diagnosis(line, found)
        elif is_warning(line) or _ECHO.search(line):
            continue
        elif _names_a_fault(line):
            # Python's own header is no reason, but better than none.
            reason = line if reason is None or "Traceback (most recent" not in line else reason
        elif _ERROR.search(line[:_MARK]):
            loud = line
    if fatal_only:
        return held
    if reason:
        return Diagnosis(reason, None)
    return held or (Diagnosis(loud, None) if loud else None)


def spoiled(lines: t.Iterable[str], table: t.Sequence[Symptom]) -> list[Diagnosis]:
    """The lines of a log that say that answers may be wrong: a member that logs them serves, and nothing else shows it."""
    rows = [row for row in table if row.spoils]
    read = [line for line in map(clip, lines) if not _calm(line)] if rows else []
    return [Diagnosis(line, row) for line in read for row in [match(line, rows)] if row]


def _calm(line: str) -> bool:
    return bool(_CALM.search(line[:_MARK])) and not _ERROR.search(line[:_MARK])


def _names_a_fault(line: str) -> bool:
    return bool(_EXCEPTION.search(line) or _FATAL.search(line) or _BARE.fullmatch(cut(line)))


def last_line(lines: t.Sequence[str]) -> str:
    """The last line that says something, without the noise of being polled."""
    return next((cut(line) for line in reversed(lines) if not _POLL.search(clip(line))), "")


_POLL = re.compile(r'"(?:GET|HEAD) /(?:health|metrics|version|v1/models|liveness|readiness)\b')
