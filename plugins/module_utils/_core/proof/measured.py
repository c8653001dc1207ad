# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What was counted of a group: the counters of its processes at a moment, and what they come to between two moments. Hosts read them
(_host/measure.py), records keep them, and the gate of a rollout compares them."""

from __future__ import annotations

import math
import typing as t
from dataclasses import dataclass, field

from ..base.checked import Checked
from ..base.words import names

# Buckets of a histogram; engines have some thirty.
MOST_BUCKETS = 200
# Where a bucket without an upper bound is kept.
INF = "+Inf"
# Whose requests are those of clients: of the first of these roles that counts any.
COUNTING = ("router", "decode")
# A request is in one after the other: their times to the first token add up to what a client waits. Of an engine that gives both roles a
# request at once, only the decode's are read (Counted.first_token).
FIRST_TOKEN = ("prefill", "decode")


@dataclass(frozen=True)
class Counted:
    """Which metrics of a kind of process tell what became of its requests; selectors as metrics.py takes them, of which the sum counts.
    `first_token` is the histogram of times to the first token, by role. `late`: a counter appears with its first use, so that one that is
    not there is zero."""

    requests: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()
    first_token: t.Mapping[str, str] = field(default_factory=dict)
    late: bool = False

    def of(self, role: str) -> dict[str, t.Any]:
        """What a host is told to read of a member of a role."""
        told: dict[str, t.Any] = {"requests": list(self.requests), "errors": list(self.errors), "late": self.late}
        return {**told, "first_token": self.first_token.get(role)}


@dataclass(frozen=True)
class Reading:
    """The counters of one process at a moment, since it started; None for one that it has not. `ttft` is the histogram of times to the
    first token: by upper bound in seconds, how many requests had theirs within it. `missing` are the names of metrics that were looked
    for in vain, `why` says that nothing could be read."""

    role: str
    requests: float | None = None
    errors: float | None = None
    ttft: t.Mapping[float, float] = field(default_factory=dict)
    missing: tuple[str, ...] = ()
    why: str = ""

    @classmethod
    def read(cls, value: Checked) -> Reading:
        buckets = value.within("ttft")
        if len(buckets.raw) > MOST_BUCKETS:
            raise value.bad("ttft", f"of more than {MOST_BUCKETS} buckets")
        return cls(
            role=value.text("role"),
            requests=value.seconds("requests"),
            errors=value.seconds("errors"),
            ttft={_bound(buckets, key): buckets.seconds(key) or 0.0 for key in buckets.raw},
            missing=value.texts("missing"),
            why=value.said("why"),
        )

    def to_plain(self) -> dict[str, t.Any]:
        told: dict[str, t.Any] = {"role": self.role}
        for key in ("requests", "errors"):
            if getattr(self, key) is not None:
                told[key] = getattr(self, key)
        if self.ttft:
            told["ttft"] = {INF if math.isinf(le) else f"{le:g}": n for le, n in sorted(self.ttft.items())}
        if self.missing:
            told["missing"] = list(self.missing)
        return {**told, **({"why": self.why} if self.why else {})}


def _bound(buckets: Checked, key: str) -> float:
    try:
        bound = math.inf if key == INF else float(key)
    except ValueError:
        bound = math.nan
    if math.isnan(bound):
        raise buckets.bad(str(key)[:20], "no bound of a bucket")
    return bound


@dataclass(frozen=True)
class Readings:
    """All processes of a group at a moment, by member. `at` is in seconds of the epoch."""

    at: float
    members: t.Mapping[str, Reading] = field(default_factory=dict)

    @classmethod
    def read(cls, value: Checked) -> Readings:
        members = value.within("members")
        for name in members.raw:
            Checked({"member": name}, value.where, members.prefix).name("member")
        return cls(value.moment("at"), {name: Reading.read(members.within(name)) for name in members.raw})

    def to_plain(self) -> dict[str, t.Any]:
        return {"at": self.at, "members": {name: one.to_plain() for name, one in sorted(self.members.items())}}


@dataclass(frozen=True)
class Measured:
    """What an interval of `seconds` comes to. `requests` and `errors` are counts, `ttft_p95` is in seconds; None: it cannot be told.
    `missing` are names of metrics that were looked for in vain, `restarted` the members whose counters went back."""

    seconds: float | None = None
    requests: float | None = None
    errors: float | None = None
    ttft_p95: float | None = None
    missing: tuple[str, ...] = ()
    restarted: tuple[str, ...] = ()
    why: str = ""

    @property
    def error_ratio(self) -> float | None:
        """Failed requests of all; None without any, or where they are not counted."""
        return None if self.errors is None or not self.requests else min(1.0, self.errors / self.requests)

    @classmethod
    def read(cls, value: Checked) -> Measured:
        return cls(
            seconds=value.seconds("seconds"),
            requests=value.seconds("requests"),
            errors=value.seconds("errors"),
            ttft_p95=value.seconds("ttft_p95"),
            missing=value.texts("missing"),
            restarted=value.texts("restarted"),
            why=value.said("why"),
        )

    def to_plain(self) -> dict[str, t.Any]:
        numbers = {key: getattr(self, key) for key in ("seconds", "requests", "errors", "ttft_p95")}
        told: dict[str, t.Any] = {key: one for key, one in numbers.items() if one is not None}
        told.update({key: list(getattr(self, key)) for key in ("missing", "restarted") if getattr(self, key)})
        return {**told, **({"why": self.why} if self.why else {})}


def measured(first: Readings | None, last: Readings) -> Measured:
    """What came between two readings; without `first`, since the processes of `last` started."""
    before = first.members if first is not None else {}
    grown = {name: _grown(before.get(name), one) for name, one in last.members.items()}
    alive = {name: one for name, one in grown.items() if one is not None}
    unread = [f"{name}: {one.why}" for name, one in sorted(last.members.items()) if one.why]
    unread += [f"{name}: nothing was read of it" for name in sorted(set(before) - set(last.members))]
    counting = next((r for r in COUNTING if any(o.role == r and o.requests is not None for o in alive.values())), None)
    mine = [one for one in alive.values() if one.role == counting]
    times = [p95(_summed(one.ttft for one in alive.values() if one.role == role)) for role in FIRST_TOKEN]
    return Measured(
        seconds=max(0.0, last.at - first.at) if first is not None else None,
        requests=_sum(one.requests for one in mine),
        errors=_sum(one.errors for one in mine),
        ttft_p95=sum(one or 0.0 for one in times) if any(one is not None for one in times) else None,
        missing=tuple(sorted({name for one in last.members.values() for name in one.missing})),
        restarted=tuple(sorted(name for name, one in grown.items() if one is None)),
        why=names(unread, 3) if unread else "",
    )


def _grown(first: Reading | None, last: Reading) -> Reading | None:
    """What a process counted between two readings; None where it is not the process of the first, since a counter went back."""
    if first is None or last.why or first.why:
        return last
    pairs = [(first.requests, last.requests), (first.errors, last.errors)]
    pairs += [(first.ttft.get(le), count) for le, count in last.ttft.items()]
    if any(old is not None and new is not None and new < old for old, new in pairs):
        return None
    return Reading(
        last.role,
        _less(last.requests, first.requests),
        _less(last.errors, first.errors),
        {le: count - first.ttft.get(le, 0.0) for le, count in last.ttft.items()},
        last.missing,
    )


def _less(value: float | None, by: float | None) -> float | None:
    return None if value is None else value - (by or 0.0)


def _sum(values: t.Iterable[float | None]) -> float | None:
    found = [value for value in values if value is not None]
    return sum(found) if found else None


def _summed(histograms: t.Iterable[t.Mapping[float, float]]) -> dict[float, float]:
    """Histograms of the same bounds as one."""
    total: dict[float, float] = {}
    for one in histograms:
        for bound, count in one.items():
            total[bound] = total.get(bound, 0.0) + count
    return total


def p95(buckets: t.Mapping[float, float], share: float = 0.95) -> float | None:
    """The time within which `share` of all had theirs, interpolated within its bucket as Prometheus does. None for an empty histogram. Of
    what is beyond the last bound no more is known than that."""
    bounds = sorted(buckets)
    if not bounds or buckets[bounds[-1]] <= 0:
        return None
    rank, below, low = share * buckets[bounds[-1]], 0.0, 0.0
    for bound in bounds:
        count = buckets[bound]
        if count >= rank:
            if math.isinf(bound) or count <= below:
                return low
            return low + (bound - low) * (rank - below) / (count - below)
        below, low = count, bound
    return low
