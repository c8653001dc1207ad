# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An entry of pd_rollouts, read: every wrong key and value is told with its place and the way out."""

from __future__ import annotations

import copy
import datetime
import os
import re
import zoneinfo

import pytest
from builders import ROOT
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.inferops.pd.plugins.module_utils._core.base.finding import Findings
from ansible_collections.inferops.pd.plugins.module_utils._core.base.reader import Reader
from ansible_collections.inferops.pd.plugins.module_utils._core.rollout import note, placeholders, spec, window

GOOD = {
    "groups": "engine=vllm",
    "waves": [
        {"groups": ["canary-fra"], "soak": 1800},
        {"percent": 25, "spread_by": "site", "max_unavailable": {"site": 1}, "soak": 600},
        {"percent": 100, "parallel": 4},
    ],
    "gate": {"errors": 0.01, "ttft_p95": 1.2, "min_requests": 100, "command": ["/opt/checks/quality", "${endpoint}"]},
    "on_failure": "return",
    "window": {"days": ["mon", "tue", "wed", "thu"], "from": "08:00", "to": "16:00", "zone": "Europe/Berlin"},
}


def read(change=None, **keys):
    """(the rollout, its findings). `change` maps a path (waves.1.percent) to what is written there; None removes it."""
    raw = copy.deepcopy({**GOOD, **keys})
    for path, value in (change or {}).items():
        *parents, last = path.split(".")
        at = raw
        for step in parents:
            at = at[int(step)] if isinstance(at, list) else at.setdefault(step, {})
        if value is None:
            del at[last]
        else:
            at[int(last) if isinstance(at, list) else last] = value
    findings = Findings()
    return spec.read("vllm-0.33", raw, findings), findings.items


def test_the_example_of_the_documentation_is_read():
    rollout, findings = read()
    assert findings == []
    first, second, third = rollout.waves
    assert (first.groups.names, first.soak, first.parallel) == (("canary-fra",), 1800, 1)
    assert (second.percent, second.spread_by, second.max_unavailable) == (25, "site", {"site": 1})
    assert (third.percent, third.parallel, third.soak) == (100, 4, 0)
    assert rollout.gate == spec.Gate(0.01, 1.2, 100, ("/opt/checks/quality", "${endpoint}"))
    assert (rollout.on_failure, rollout.strategy) == ("return", "restart")
    assert rollout.window == window.Window((0, 1, 2, 3), 480, 960, "Europe/Berlin")


# What is written where, the code, the place that is named, and a word of the way out.
WRONG = [
    ({"wave": []}, "unknown-key", "pd_rollouts.vllm-0.33.wave:", "waves"),
    ({"groups": None}, "missing-value", "pd_rollouts.vllm-0.33.groups:", "selector"),
    ({"groups": "site=fra, g1"}, "bad-value", "pd_rollouts.vllm-0.33.groups:", "pd_group"),
    ({"waves": []}, "missing-value", "waves: missing", "percent: 100"),
    ({"waves.0": "canary"}, "bad-value", "waves[0]", "dictionary"),
    ({"waves.0.percent": 10}, "bad-value", "waves[0]: groups and percent are both", "either"),
    ({"waves.2.percent": None}, "bad-value", "waves[2]: it says no groups", "either"),
    ({"waves.1.percent": 0}, "bad-value", "waves[1].percent", "1"),
    ({"waves.1.percent": 100}, "bad-value", "waves[2].percent: 100 comes after 100", "more than 100"),
    ({"waves.2.percent": 90}, "bad-value", "waves[2].percent: the last is 90", "100"),
    ({"waves.1.soak": "10m"}, "bad-value", "waves[1].soak", "whole number"),
    ({"waves.0.spread_by": "site"}, "bad-value", "waves[0].spread_by", "percent"),
    ({"waves.1.max_unavailable": 1}, "bad-value", "waves[1].max_unavailable", "dictionary"),
    ({"waves.1.max_unavailable.site": 0}, "bad-value", "waves[1].max_unavailable.site", "at least 1"),
    ({"waves.2.paralel": 4}, "unknown-key", "waves[2].paralel", "parallel"),
    ({"waves.2.parallel": 0}, "bad-value", "waves[2].parallel", "at least 1"),
    ({"gate.errors": 2}, "bad-value", "gate.errors", "ratio"),
    ({"gate.ttft_p95": "fast"}, "bad-value", "gate.ttft_p95", "1.2"),
    ({"gate.min_requests": -1}, "bad-value", "gate.min_requests", "at least 0"),
    ({"gate.command": ["/check", "${endpont}"]}, "unknown-placeholder", "gate.command", "${endpoint}"),
    ({"gate.window": 300}, "bad-value", "gate.window", "prometheus"),
    ({"gate": {"min_requests": 5}}, "bad-value", "gate.min_requests", "errors or ttft_p95"),
    ({"waves": [{"percent": 100}]}, "bad-value", "gate: it compares", "soak"),
    ({"gate.prometheus": {"url": "prom:9090"}}, "bad-value", "gate.prometheus.url", "http://"),
    ({"gate.prometheus": {"errors": "x"}}, "missing-value", "gate.prometheus.url", "url"),
    ({"gate.prometheus": {"url": "http://p", "errors": "x", "ttft_p95": "y"}}, "missing-value", "prometheus.requests", "QUERY"),
    ({"gate.prometheus": {"url": "http://p", "errors": "${grp}"}}, "unknown-placeholder", "prometheus.errors", "${group}"),
    ({"on_failure": "retry"}, "bad-value", "on_failure", "return"),
    ({"on_failure": "continue"}, "missing-value", "max_failed", "max_failed: N"),
    ({"max_failed": 2}, "bad-value", "max_failed", "continue"),
    ({"strategy": "blue"}, "bad-value", "strategy", "restart"),
    ({"window.days": ["mon", "mitwoch"]}, "bad-value", "window.days: 'mitwoch'", "mon"),
    ({"window.from": None}, "missing-value", "window.from", "08:00"),
    ({"window.to": "25:00"}, "bad-value", "window.to", "time of the day"),
    ({"window.to": "08:00"}, "bad-value", "window: it ends when it begins", "another time"),
    ({"window.zone": "Europe/Berln"}, "bad-value", "window.zone", "Europe/Berlin"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("change", "code", "place", "hint"), WRONG, ids=[f"{next(iter(w[0]))}-{n}" for n, w in enumerate(WRONG)]
)
def test_what_is_wrong_is_told_with_its_place_and_the_way_out(change, code, place, hint):
    rollout, findings = read(change)
    assert rollout is None
    told = [f for f in findings if f.code == code and place in f.message]
    assert told, findings
    assert hint in told[0].hint, told[0]


@pytest.mark.parametrize("name", ["", "-x", "a b", "x" * 65, "a/b"])
def test_a_name_is_one_that_can_be_typed_and_kept(name):
    findings = Findings()
    assert spec.read(name, copy.deepcopy(GOOD), findings) is None
    assert [f.code for f in findings.items] == ["bad-value"]


def test_all_that_is_wrong_is_told_at_once():
    _rollout, findings = read({"wave": 1, "gate.errors": 2, "window.to": "x", "waves.1.soak": -1})
    assert len(findings) == 4


def test_a_secret_at_a_wrong_place_is_not_repeated():
    _rollout, findings = read({"gate.errors": "hf_abcdefghijklmnopqrstuvwxyz"})
    assert "hf_abc" not in str(findings)


PLACES = [
    "groups", "waves", "waves.0", "waves.1", "gate", "window", "on_failure", "max_failed", "strategy", "notes", "waves.1.percent",
    "waves.1.soak", "waves.1.spread_by", "waves.1.max_unavailable", "waves.1.max_unavailable.site", "waves.1.parallel", "waves.0.groups",
    "gate.errors", "gate.ttft_p95", "gate.min_requests", "gate.command", "gate.window", "gate.prometheus", "gate.prometheus.url",
    "gate.prometheus.errors", "window.days", "window.from", "window.to", "window.zone",
]  # fmt: skip
ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=12)
    | st.sampled_from(["all", "${x}", "mon", "08:00"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=5,
)


@settings(max_examples=150, deadline=None, derandomize=True, database=None)
@given(changes=st.dictionaries(st.sampled_from(PLACES), ANYTHING, min_size=1, max_size=3))
def test_whatever_is_written_is_read_or_told(changes):
    """One change may take the place of another away: the deepest are made first."""
    raw = copy.deepcopy(GOOD)
    raw["gate"]["prometheus"] = {"url": "http://p", "requests": "r", "errors": "e", "ttft_p95": "t"}
    for path in sorted(changes, key=lambda one: -one.count(".")):
        *parents, last = path.split(".")
        at = raw
        for step in parents:
            at = at[int(step)] if isinstance(at, list) else at[step]
        at[int(last) if isinstance(at, list) else last] = changes[path]
    findings = Findings()
    rollout = spec.read("vllm-0.33", raw, findings)
    assert (rollout is None) == bool(findings.errors)
    assert rollout is None or len(rollout.digest) == 16


def test_the_digest_is_of_what_is_said_and_not_of_how_it_is_written():
    one, _found = read()
    alike, _found = read({"waves.1.percent": "25", "window.days": "mon-thu", "gate.errors": "0.01"})
    assert len(one.digest) == 16
    assert int(one.digest, 16)
    assert alike.digest == one.digest
    for change in ({"waves.1.soak": 601}, {"gate.errors": 0.02}, {"groups": "engine=sglang"}, {"on_failure": "hold"}):
        assert read(change)[0].digest != one.digest


def test_placeholders_are_filled_in():
    values = {"group": "g1", "seconds": 600}
    text = 'sum(rate(x{group="${group}"}[${seconds}s])) $${kept}'
    assert placeholders.fill(text, values) == 'sum(rate(x{group="g1"}[600s])) ${kept}'


def test_every_key_and_every_state_is_explained():
    with open(os.path.join(ROOT, "docs", "rollouts.md"), encoding="utf-8") as handle:
        page = handle.read()
    told = {word for cell in re.findall(r"^\| *(`[^|]*?) *\|", page, re.M) for word in re.findall(r"`([^`]+)`", cell)}
    assert {*spec.KEYS, *spec.WAVE_KEYS, *spec.GATE_KEYS} <= told
    assert set(note.STATES) <= told
    assert all(f"`{key}" in page or f"{key}:" in page for key in (*spec.PROMETHEUS_KEYS, *window.KEYS))


# -- windows ----------------------------------------------------------------------------------------------------------------------

BERLIN = zoneinfo.ZoneInfo("Europe/Berlin")


def at(text: str, zone=BERLIN) -> float:
    return datetime.datetime.fromisoformat(text).replace(tzinfo=zone).timestamp()


def written(**keys) -> window.Window:
    findings = Findings()
    found = window.read("pd_rollouts.r.window", {"zone": "Europe/Berlin", **keys}, Reader(findings))
    assert found is not None, findings.items
    return found


@pytest.mark.parametrize(
    ("keys", "now", "closes", "opens"),
    [
        ({"days": ["mon-thu"], "from": "08:00", "to": "16:00"}, "2026-11-30T09:00", "2026-11-30T16:00", "2026-12-01T08:00"),
        ({"days": ["mon-thu"], "from": "08:00", "to": "16:00"}, "2026-11-30T07:59", None, "2026-11-30T08:00"),
        ({"days": ["mon-thu"], "from": "08:00", "to": "16:00"}, "2026-11-30T16:00", None, "2026-12-01T08:00"),
        ({"days": ["mon-thu"], "from": "08:00", "to": "16:00"}, "2026-12-03T17:00", None, "2026-12-07T08:00"),
        # It belongs to the day on which it opens.
        ({"days": ["fri"], "from": "22:00", "to": "04:00"}, "2026-12-05T03:00", "2026-12-05T04:00", "2026-12-11T22:00"),
        ({"days": ["fri"], "from": "22:00", "to": "04:00"}, "2026-12-04T03:00", None, "2026-12-04T22:00"),
        # Two that meet are one.
        ({"days": ["mon", "tue"], "from": "00:00", "to": "24:00"}, "2026-11-30T12:00", "2026-12-02T00:00", "2026-12-01T00:00"),
        # Sexagesimal of YAML; the clocks go forward in the night.
        ({"days": "sun", "from": 0, "to": 960}, "2026-03-29T01:00", "2026-03-29T16:00", "2026-04-05T00:00"),
        ({"from": "08:00", "to": "16:00"}, "2026-03-29T03:30", None, "2026-03-29T08:00"),
    ],
)  # fmt: skip
def test_a_window_opens_and_closes_by_the_clock_of_its_zone(keys, now, closes, opens):
    found = written(**keys)
    assert found.closes(at(now)) == (at(closes) if closes else None)
    assert found.opens(at(now)) == at(opens)


def test_a_window_is_told_as_it_is_meant():
    assert (
        written(days=["thu", "mon-tue"], **{"from": "08:00", "to": "16:00"}).told()
        == "mon, tue, thu 08:00 to 16:00 Europe/Berlin"
    )
    assert written(**{"from": "22:00", "to": "04:00"}).seconds == 6 * 3600
