# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""When a rollout may change anything: days and hours of a time zone."""

from __future__ import annotations

import datetime
import difflib
import re
import typing as t
import zoneinfo
from dataclasses import dataclass

from ..base.reader import Reader

KEYS = ("days", "from", "to", "zone")
DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
UTC = "UTC"
_TIME = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)|24:00")
_DAY = 24 * 60


@dataclass(frozen=True)
class Window:
    """`days` are those on which it opens, 0 is Monday; `begins` and `ends` are minutes of the day in `zone`. One that ends before it begins
    ends on the next day."""

    days: tuple[int, ...]
    begins: int
    ends: int
    zone: str = UTC

    @property
    def seconds(self) -> int:
        """How long it is open, on a day without a change of the clocks."""
        return 60 * (self.ends - self.begins if self.ends > self.begins else self.ends + _DAY - self.begins)

    def closes(self, now: float) -> float | None:
        """When the window that is open at `now` closes, both in seconds of the epoch; None while none is open. Those that meet are one."""
        found = None
        for opens, closes in self._around(now):
            if opens <= (now if found is None else found) < closes:
                found = closes
        return found

    def opens(self, now: float) -> float:
        """When the next one opens after `now`."""
        return next(opens for opens, _closes in self._around(now) if opens > now)

    def _around(self, now: float) -> t.Iterator[tuple[float, float]]:
        """Those from yesterday on, (opens, closes), in their order, for nine days: each week has one."""
        zone = zoneinfo.ZoneInfo(self.zone)
        today = datetime.datetime.fromtimestamp(now, zone).date()
        for ahead in range(-1, 9):
            day = today + datetime.timedelta(days=ahead)
            if day.weekday() in self.days:
                begins = self._at(day, self.begins, zone)
                yield begins, self._at(day, self.ends + (0 if self.ends > self.begins else _DAY), zone)

    @staticmethod
    def _at(day: datetime.date, minutes: int, zone: zoneinfo.ZoneInfo) -> float:
        """The wall clock of a day: what the clocks do in between is the zone's."""
        moment = datetime.datetime.combine(day, datetime.time()) + datetime.timedelta(minutes=minutes)
        return moment.replace(tzinfo=zone).timestamp()

    def told(self) -> str:
        """As a person reads it: "mon, tue 08:00 to 16:00 Europe/Berlin"."""
        days = "every day" if len(self.days) == len(DAYS) else ", ".join(DAYS[day] for day in self.days)
        return f"{days} {_clock(self.begins)} to {_clock(self.ends)} {self.zone}"


def _clock(minutes: int) -> str:
    return f"{minutes // 60:02d}:{minutes % 60:02d}"


def read(where: str, raw: t.Any, reader: Reader) -> Window | None:
    """The window as it is written; None for none, and where something of it is wrong, which is a finding."""
    if raw is None:
        return None
    before = len(reader.findings.errors)
    written = reader.mapping(where.rpartition(".")[0], {"window": raw}, "window")
    reader.keys(where, written, KEYS)
    days = _days(f"{where}.days", written.get("days"), reader)
    begins = _minutes(f"{where}.from", written.get("from"), reader)
    ends = _minutes(f"{where}.to", written.get("to"), reader)
    zone = _zone(f"{where}.zone", written, reader)
    if len(reader.findings.errors) > before or begins is None or ends is None:
        return None
    if begins == ends:
        reader.findings.error(
            "bad-value", f"{where}: it ends when it begins.", "Write another time under to, or leave window out."
        )
        return None
    return Window(days, begins, ends, zone)


def _days(place: str, raw: t.Any, reader: Reader) -> tuple[int, ...]:
    """Names of days, and ranges of them (mon-thu), as a list or as text with commas; all where none are written."""
    if raw is None:
        return tuple(range(len(DAYS)))
    words = raw.split(",") if isinstance(raw, str) else raw
    if not isinstance(words, list) or not words:
        reader.bad(place, raw, "a list of days, such as [mon, tue] or [mon-thu]")
        return ()
    found: set[int] = set()
    for word in words:
        first, dash, last = str(word).strip().lower().partition("-")
        ends = [_day(place, end.strip(), reader) for end in (first, last if dash else first)]
        if ends[0] is not None and ends[1] is not None:
            found |= {(ends[0] + step) % 7 for step in range((ends[1] - ends[0]) % 7 + 1)}
    return tuple(sorted(found))


def _day(place: str, word: str, reader: Reader) -> int | None:
    short = next((day for day in DAYS if len(word) > 2 and _LONG[day].startswith(word)), None)
    if short is None:
        near = difflib.get_close_matches(word, DAYS, 1, 0.5)
        hint = f"Did you mean {near[0]!r}?" if near else f"Write one of {', '.join(DAYS)}."
        reader.findings.error("bad-value", f"{place}: {word[:20]!r} is no day.", hint)
        return None
    return DAYS.index(short)


_LONG = {
    "mon": "monday",
    "tue": "tuesday",
    "wed": "wednesday",
    "thu": "thursday",
    "fri": "friday",
    "sat": "saturday",
    "sun": "sunday",
}


def _minutes(place: str, raw: t.Any, reader: Reader) -> int | None:
    """A time of day, in minutes. YAML reads 16:00 without quotes as a number to the base of 60, which is just that."""
    if raw is None:
        reader.findings.error("missing-value", f"{place}: missing.", 'Write a time of the day, such as "08:00".')
        return None
    if isinstance(raw, int) and not isinstance(raw, bool) and 0 <= raw <= _DAY:
        return raw
    if isinstance(raw, str) and _TIME.fullmatch(raw.strip()):
        hours, _colon, minutes = raw.strip().partition(":")
        return int(hours) * 60 + int(minutes)
    reader.bad(place, raw, 'a time of the day in quotes, such as "08:00"')
    return None


def _zone(place: str, written: t.Mapping[str, t.Any], reader: Reader) -> str:
    name = reader.text(place.rpartition(".")[0], written, "zone") or UTC
    try:
        zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        near = difflib.get_close_matches(name, sorted(zoneinfo.available_timezones()), 1, 0.6)
        known = f"Did you mean {near[0]!r}?" if near else "Write a name such as Europe/Berlin."
        reader.findings.error(
            "bad-value",
            f"{place}: the controller knows no time zone {name[:60]!r}.",
            f"{known} Where no zone is known at all, install tzdata there, or write UTC.",
        )
    return name
