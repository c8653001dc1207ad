# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a user writes in pd_rollouts.NAME, read: which groups, in which waves, what they must show, and when it may happen."""

from __future__ import annotations

import functools
import hashlib
import json
import re
import typing as t
from dataclasses import dataclass, field

from ..base.errors import PdError
from ..base.finding import Findings
from ..base.plain import to_plain
from ..base.reader import Reader
from ..base.values import number as as_number
from ..spec import selector
from ..spec.selector import Selector
from . import placeholders
from .window import Window
from .window import read as read_window

VARIABLE = "pd_rollouts"
KEYS = ("groups", "waves", "gate", "on_failure", "max_failed", "window", "strategy", "notes")
WAVE_KEYS = ("groups", "percent", "soak", "spread_by", "max_unavailable", "parallel")
GATE_KEYS = ("errors", "ttft_p95", "min_requests", "command", "window", "prometheus")
PROMETHEUS_KEYS = ("url", "errors", "ttft_p95", "requests")
OnFailure = t.Literal["return", "hold", "continue"]
ON_FAILURE: tuple[OnFailure, ...] = ("return", "hold", "continue")
STRATEGIES = ("restart", "beside")
# Fewer requests say nothing of an error ratio of one in a hundred.
MIN_REQUESTS = 100
# Seconds: a soak of four weeks, and a look back of a day.
LONGEST_SOAK = 28 * 24 * 3600
LONGEST_LOOK = 24 * 3600
MOST_WAVES = 100
# It is kept in records, and typed on command lines.
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


@dataclass(frozen=True)
class Wave:
    """One wave; `number` is counted from 1. Either `groups` (what a selector says) or `percent`: of all groups of the rollout, how many are
    to have been changed when this wave is over. `soak` is in seconds. `spread_by` is a label of groups over whose values the wave is
    spread. `max_unavailable`: by label, how many groups of one value may be out at the same time. `parallel`: how many groups may be in
    their step, the soak included, at the same time."""

    number: int
    groups: Selector | None = None
    percent: int | None = None
    soak: int = 0
    spread_by: str | None = None
    max_unavailable: t.Mapping[str, int] = field(default_factory=dict)
    parallel: int = 1

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels that each group of the rollout must have for this wave."""
        return tuple(dict.fromkeys([*([self.spread_by] if self.spread_by else []), *self.max_unavailable]))


@dataclass(frozen=True)
class Prometheus:
    """Where the controller asks instead of the members: instant queries, each of one number. Placeholders: `${group}`, `${seconds}`."""

    url: str
    errors: str | None = None
    ttft_p95: str | None = None
    requests: str | None = None


@dataclass(frozen=True)
class Gate:
    """What a changed group must show. `errors`: the ratio of failed requests in its soak, at most. `ttft_p95`: the time to the first token
    that 95 of 100 requests get, at most so many times what it was before. `min_requests`: with fewer in the soak it is not judged, which
    passes only where this is 0. `command` runs on the controller, with `${group}` and `${endpoint}`. Counters are
    compared with what they were since the engines of the group had started; `prometheus` is asked in their place, and `window` is for how
    many seconds back it is asked of what was before (None: 10 minutes)."""

    errors: float | None = None
    ttft_p95: float | None = None
    min_requests: int = MIN_REQUESTS
    command: tuple[str, ...] = ()
    window: int | None = None
    prometheus: Prometheus | None = None

    @property
    def counts(self) -> bool:
        """Whether it compares anything that is counted, so that it must be measured."""
        return self.errors is not None or self.ttft_p95 is not None


@dataclass(frozen=True)
class Rollout:
    """One entry of pd_rollouts, without anything wrong in it. `max_failed` is only with `continue`."""

    name: str
    groups: Selector
    waves: tuple[Wave, ...]
    gate: Gate = Gate()
    on_failure: OnFailure = "return"
    max_failed: int = 0
    window: Window | None = None
    strategy: str = "restart"

    @property
    def beside(self) -> bool:
        """Whether a group is formed anew beside what serves, which then hands over to it."""
        return self.strategy == "beside"

    @functools.cached_property
    def digest(self) -> str:
        """16 hex digits over all that it says but its name: another one is another rollout."""
        said = {key: value for key, value in to_plain(self).items() if key != "name"}
        return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()[:16]

    def wave(self, number: int) -> Wave:
        """The wave of a number; the last one for a number beyond it."""
        return self.waves[max(1, min(number, len(self.waves))) - 1]


def read(name: str, raw: t.Any, findings: Findings) -> Rollout | None:
    """The entry `raw` of `name`. What is wrong becomes findings, all of it; then there is no rollout."""
    where, reader = f"{VARIABLE}.{name}", Reader(findings)
    before = len(findings.errors)
    if not NAME.fullmatch(name):
        findings.error(
            "bad-value",
            f"{VARIABLE}: {name[:60]!r} is no name of a rollout.",
            "Use letters, digits, dots, hyphens and underscores, at most 64, and begin with a letter or a digit.",
        )
    if not isinstance(raw, dict):
        reader.bad(where, raw, "a dictionary: {groups: ..., waves: [...]}")
        return None
    reader.keys(where, raw, KEYS)
    groups = _selector(f"{where}.groups", raw.get("groups"), findings)
    waves = _waves(where, raw, reader)
    gate = _gate(f"{where}.gate", reader.mapping(where, raw, "gate"), reader)
    if gate.counts and not any(wave.soak for wave in waves) and waves:
        findings.error(
            "bad-value",
            f"{where}.gate: it compares what is counted in a soak, and no wave has one.",
            "Write soak: SECONDS in the waves, or leave errors and ttft_p95 out.",
        )
    on_failure = reader.choice(where, raw, "on_failure", ON_FAILURE, ON_FAILURE[0])
    max_failed = _max_failed(where, raw, on_failure, reader)
    window = read_window(f"{where}.window", raw.get("window"), reader)
    strategy = reader.choice(where, raw, "strategy", STRATEGIES, STRATEGIES[0])
    if groups is None or len(findings.errors) > before:
        return None
    return Rollout(name, groups, waves, gate, on_failure, max_failed, window, strategy)


# -- waves -----------------------------------------------------------------------------------------------------------------------------


def _waves(where: str, raw: t.Mapping[str, t.Any], reader: Reader) -> tuple[Wave, ...]:
    written = reader.sequence(where, raw, "waves")
    if not written and raw.get("waves") in (None, []):
        reader.findings.error(
            "missing-value", f"{where}.waves: missing.", "Write waves: [{groups: [CANARY]}, {percent: 100}]."
        )
    if len(written) > MOST_WAVES:
        reader.bad(f"{where}.waves", len(written), f"a list of at most {MOST_WAVES} waves")
        return ()
    waves = []
    for number, one in enumerate(written, 1):
        place = f"{where}.waves[{number - 1}]"
        if isinstance(one, dict):
            waves.append(_wave(place, number, one, reader))
        else:
            reader.bad(place, one, "a dictionary: {groups: [...]} or {percent: N}")
    _rising(where, waves, reader)
    return tuple(waves)


def _wave(place: str, number: int, raw: dict[str, t.Any], reader: Reader) -> Wave:
    reader.keys(place, raw, WAVE_KEYS)
    if (raw.get("groups") is None) == (raw.get("percent") is None):
        told = "groups and percent are both written" if raw.get("groups") is not None else "it says no groups"
        reader.findings.error(
            "bad-value", f"{place}: {told}.", "Write either groups: [NAME, ...], or percent: N of all groups."
        )
    groups = None if raw.get("groups") is None else _selector(f"{place}.groups", raw["groups"], reader.findings)
    limits = reader.mapping(place, raw, "max_unavailable")
    most = {str(label): reader.integer(f"{place}.max_unavailable", limits, label, None, 1) for label in limits}
    spread = reader.text(place, raw, "spread_by")
    if spread and raw.get("percent") is None:
        reader.findings.error(
            "bad-value",
            f"{place}.spread_by: the groups of this wave are named, so that nothing is drawn.",
            "Remove it, or write percent in place of groups.",
        )
    return Wave(
        number=number,
        groups=groups,
        percent=reader.integer(place, raw, "percent", None, 1, maximum=100),
        soak=reader.integer(place, raw, "soak", 0, 0, maximum=LONGEST_SOAK) or 0,
        spread_by=spread,
        max_unavailable={label: count for label, count in most.items() if count is not None},
        parallel=reader.integer(place, raw, "parallel", 1, 1) or 1,
    )


def _rising(where: str, waves: t.Sequence[Wave], reader: Reader) -> None:
    """The percentages are of all groups, each with what went before: they rise, and end with all."""
    said = [(wave.number, wave.percent) for wave in waves if wave.percent is not None]
    for (_number, low), (number, high) in zip(said, said[1:]):
        if high <= low:
            reader.findings.error(
                "bad-value",
                f"{where}.waves[{number - 1}].percent: {high} comes after {low}; percentages count what went before.",
                f"Write more than {low}, or remove the wave.",
            )
    if said and said[-1][1] != 100:
        reader.findings.error(
            "bad-value",
            f"{where}.waves[{said[-1][0] - 1}].percent: the last is {said[-1][1]}, so that some groups would never be changed.",
            "End with {percent: 100}, or select fewer groups.",
        )


# -- gate ------------------------------------------------------------------------------------------------------------------------------


def _gate(place: str, raw: dict[str, t.Any], reader: Reader) -> Gate:
    reader.keys(place, raw, GATE_KEYS)
    gate = Gate(
        errors=_ratio(place, raw, "errors", 0, 1, "a ratio from 0 to 1, such as 0.01", reader),
        ttft_p95=_ratio(place, raw, "ttft_p95", 0.01, 1000, "how many times what it was, such as 1.2", reader),
        min_requests=_count(reader.integer(place, raw, "min_requests", MIN_REQUESTS, 0, maximum=10**9)),
        command=reader.command(place, raw) or (),
        window=reader.integer(place, raw, "window", None, 1, maximum=LONGEST_LOOK),
        prometheus=_prometheus(f"{place}.prometheus", raw, reader),
    )
    for word in gate.command:
        placeholders.check(f"{place}.command", word, placeholders.OF_COMMAND, reader.findings)
    if gate.window is not None and gate.prometheus is None:
        reader.findings.error(
            "bad-value",
            f"{place}.window: without prometheus the counters of the members are compared, since their start.",
            "Remove it, or write prometheus: {url: ..., requests: ...}.",
        )
    for key in ("min_requests", "window", "prometheus"):
        if raw.get(key) is not None and not gate.counts:
            reader.findings.error(
                "bad-value",
                f"{place}.{key}: the gate compares nothing that is counted.",
                f"Write errors or ttft_p95, or remove {key}.",
            )
    _asked_of_prometheus(place, gate, reader)
    return gate


def _count(value: int | None) -> int:
    return MIN_REQUESTS if value is None else value


def _ratio(
    place: str, raw: t.Mapping[str, t.Any], key: str, low: float, high: float, wanted: str, reader: Reader
) -> float | None:
    if raw.get(key) is None:
        return None
    value = as_number(raw[key])
    if value is None or not low <= value <= high:
        reader.bad(f"{place}.{key}", raw[key], wanted)
        return None
    return float(value)


def _prometheus(place: str, gate: t.Mapping[str, t.Any], reader: Reader) -> Prometheus | None:
    if gate.get("prometheus") is None:
        return None
    raw = reader.mapping(place.rpartition(".")[0], gate, "prometheus")
    reader.keys(place, raw, PROMETHEUS_KEYS)
    url = reader.text(place, raw, "url", required="the address of the server, http://ADDRESS:PORT")
    if url and not url.startswith(("http://", "https://")):
        reader.bad(f"{place}.url", url, "an address of the form http://ADDRESS:PORT")
    queries = {key: reader.text(place, raw, key) for key in PROMETHEUS_KEYS[1:]}
    for key, query in queries.items():
        placeholders.check(f"{place}.{key}", query or "", placeholders.OF_QUERY, reader.findings)
    return Prometheus(url or "", **queries)


def _asked_of_prometheus(place: str, gate: Gate, reader: Reader) -> None:
    """What is compared has its query, and a query what it is compared with."""
    asked = gate.prometheus
    if asked is None:
        return
    needed = {
        "errors": (asked.errors, gate.errors is not None, "gives the ratio of failed requests"),
        "ttft_p95": (asked.ttft_p95, gate.ttft_p95 is not None, "gives seconds"),
        "requests": (asked.requests, True, "counts the requests"),
    }
    for key, (query, wanted, what) in needed.items():
        if wanted and not query:
            reader.findings.error(
                "missing-value",
                f"{place}.prometheus.{key}: missing: the query that {what}.",
                f"Write {key}: QUERY, with ${{group}} and ${{seconds}} where they belong.",
            )
        elif query and not wanted:
            reader.findings.error(
                "bad-value",
                f"{place}.prometheus.{key}: {place}.{key} does not say what it is compared with.",
                f"Write {key}: NUMBER beside prometheus, or remove the query.",
            )


# -- small ones ------------------------------------------------------------------------------------------------------------------------


def _selector(where: str, raw: t.Any, findings: Findings) -> Selector | None:
    try:
        found = selector.parse(raw, where)
    except PdError as exc:
        findings.error("bad-value", str(exc), "Write what pd_group takes.")
        return None
    if found is None:
        findings.error("missing-value", f"{where}: missing.", "Write a selector, as pd_group takes it, or all.")
    return found


def _max_failed(where: str, raw: t.Mapping[str, t.Any], on_failure: str, reader: Reader) -> int:
    found = reader.integer(where, raw, "max_failed", None, 0)
    if on_failure == "continue" and raw.get("max_failed") is None:
        reader.findings.error(
            "missing-value",
            f"{where}.max_failed: missing: with on_failure: continue, how many groups may fail before it stops.",
            "Write max_failed: N.",
        )
    if on_failure != "continue" and raw.get("max_failed") is not None:
        reader.findings.error(
            "bad-value",
            f"{where}.max_failed: with on_failure: {on_failure} the first failure stops the rollout.",
            "Remove it, or write on_failure: continue.",
        )
    return found or 0
