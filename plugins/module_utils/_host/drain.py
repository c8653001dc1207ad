# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# This module util is PRIVATE to the collection.
"""Letting a member finish what it is doing before it is stopped."""

from __future__ import annotations

import time
import typing as t

from .._probes import http, metrics

POLL = 0.5
# Between two requests of a batch nothing runs for a moment.
QUIET_TIMES = 2
# One that is busy may miss a question; one that misses this many in a row has nothing that could be waited for.
DEAF_TIMES = 3


def drain(label: t.Mapping[str, t.Any], seconds: float) -> str:
    """Wait until a member has nothing left to do. Returns "" when it is idle or cannot have any work, else what was left after `seconds`.

    `label.busy` are metrics that count its requests, `label.held` those of KV blocks that decode members have yet to fetch."""
    probe = label.get("probe") or {}
    wanted = [*(probe.get("busy") or ()), *(probe.get("held") or ())]
    if not wanted or seconds <= 0:
        return ""
    url = http.join(label["url"], probe.get("metrics") or "/metrics")
    deadline = time.monotonic() + seconds
    quiet, deaf, left = 0, 0, "it was not asked"
    while time.monotonic() < deadline:
        try:
            left = _left(http.get(url, timeout=min(5.0, max(0.5, deadline - time.monotonic()))), wanted)
            deaf = 0
        except http.Unanswered as exc:
            if exc.kind == "refused":
                return ""  # nothing listens: there is nothing to wait for
            left, deaf = str(exc), deaf + 1
            if deaf >= DEAF_TIMES:
                return f"it did not answer {deaf} times: {left}"
        quiet = 0 if left else quiet + 1
        if quiet >= QUIET_TIMES:
            return ""
        time.sleep(POLL)
    return f"after {seconds:g} s: {left or 'it was idle only for a moment'}"


def _left(answer: http.Answer, wanted: t.Sequence[str]) -> str:
    """What is still to do, in words; empty when nothing is."""
    if not answer.ok:
        return f"{answer.asked} answered {answer.status}"
    page = metrics.parse(answer.text)
    counts = {name: page.total(name) for name in wanted}
    return ", ".join(f"{name} is {count:g}" for name, count in counts.items() if count)
