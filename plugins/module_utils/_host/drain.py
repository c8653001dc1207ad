# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Draining: a member finishes what it is doing before it is stopped, and a decode also what is still on its way to it.

A router chooses the decode of a request before it sends it to prefill. A decode that has left the router may so get requests for as long
as a prefill computes, while its own counters say that it is idle: the path is drained, not the stage."""

from __future__ import annotations

import time
import typing as t
from concurrent.futures import ThreadPoolExecutor

from .._probes import credentials, http, metrics

POLL = 0.5
# Between two requests of a batch nothing runs for a moment.
QUIET_TIMES = 2
# One that is busy may miss a question; one that misses this many in a row has nothing that could be waited for.
DEAF_TIMES = 3
# An engine's counters are as old as its last step, and a request may be between the router and it: what is seen within this time was
# there when the drain began. What computes in one step from before until after it is not seen (a prefill of long steps, otherwise idle).
SETTLE = 1.0
# Prefills that are asked at a time.
SIDE_BY_SIDE = 32


def drain(label: t.Mapping[str, t.Any], seconds: float, upstream: t.Sequence[t.Mapping[str, t.Any]] = ()) -> str:
    """Wait until a member has nothing left to do. Returns "" when it is idle or cannot have any work, else what was left after `seconds`.

    `label.busy` are metrics that count its requests, `label.held` those of KV blocks that decode members have yet to fetch.

    `upstream` are, for a decode, the prefill members that may still send requests to it: {"id": member, "url": base URL, "metrics": path of
    its metrics ("/metrics" when left out), "busy": [gauges whose sum is the requests in it], "done": [counters of finished requests]}.
    They are waited for first, then the member itself, all within `seconds`."""
    if seconds <= 0:
        return ""
    deadline = time.monotonic() + seconds
    late, unheard = _path(upstream, deadline)
    if late:
        return f"after {seconds:g} s: {'; '.join(late)}"
    return "; ".join(filter(None, [*unheard, _idle(label, seconds, deadline)]))


# -- the member itself -----------------------------------------------------------------------------------------------------------------


def _idle(label: t.Mapping[str, t.Any], seconds: float, deadline: float) -> str:
    """Wait until its own counters say that it does nothing."""
    probe = label.get("probe") or {}
    wanted = [*(probe.get("busy") or ()), *(probe.get("held") or ())]
    if not wanted:
        return ""
    url = http.join(label["url"], probe.get("metrics") or "/metrics")
    quiet, deaf, left = 0, 0, "it was not asked"
    while time.monotonic() < deadline:
        try:
            left = _left(_ask(url, deadline), wanted)
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


# -- what is on its way ----------------------------------------------------------------------------------------------------------------


def _path(upstream: t.Sequence[t.Mapping[str, t.Any]], deadline: float) -> tuple[list[str], list[str]]:
    """Wait for every prefill. Returns what some still had to do in the end, and which could not be asked."""
    if not upstream:
        return [], []
    with ThreadPoolExecutor(max_workers=min(SIDE_BY_SIDE, len(upstream))) as pool:
        ended = list(pool.map(lambda one: Prefill(one).wait(deadline), upstream))
    return [late for late, _deaf in ended if late], [deaf for _late, deaf in ended if deaf]


class Prefill:
    """One prefill, until what was in it when the drain began has left it: it has been idle since, or has finished as many requests as it
    had then. Engines serve in the order of arrival, near enough: one that is overtaken by later ones is not waited for."""

    def __init__(self, one: t.Mapping[str, t.Any], clock: t.Callable[[], float] = time.monotonic) -> None:
        self.name = str(one.get("id") or one["url"])
        self.url = http.join(one["url"], one.get("metrics") or "/metrics")
        self.busy, self.done = list(one.get("busy") or ()), list(one.get("done") or ())
        self.clock = clock
        self.began: float | None = None  # its first answer
        self.seen = self.goal = 0.0
        self.left = "it was not asked"

    def wait(self, deadline: float) -> tuple[str, str]:
        """("", "") when nothing is on its way from it any more, else (what it still has, "") or ("", why that cannot be known)."""
        deaf = 0
        while self.clock() < deadline:
            try:
                answer = _ask(self.url, deadline)
                deaf = 0 if answer.ok else deaf + 1
                if answer.ok and self._clear(metrics.parse(answer.text)):
                    return "", ""
                self.left = self.left if answer.ok else f"{answer.asked} answered {answer.status}"
            except http.Unanswered as exc:
                if exc.kind == "refused":
                    return "", ""  # it is gone, and what it had with it
                self.left, deaf = str(exc), deaf + 1
            if deaf >= DEAF_TIMES:
                return "", f"{self.name} could not be asked what it still has for this one: {self.left}"
            time.sleep(max(0.0, min(POLL, deadline - self.clock())))
        return f"{self.name}: {self.left}", ""

    def _clear(self, page: metrics.Metrics) -> bool:
        """One look. What is there while the counters settle is what must leave."""
        now = self.clock()
        self.began = now if self.began is None else self.began
        inside = sum(page.total(name) or 0.0 for name in self.busy)
        done = sum(page.total(name) or 0.0 for name in self.done)
        self.left = f"{inside:g} requests are in it, some of which may be for this one"
        if done < self.seen:
            return True  # it was started again, and what it had is gone
        self.seen = done
        if now - self.began < SETTLE:
            self.goal = max(self.goal, done + inside)
            return False
        return not inside or (bool(self.done) and done >= self.goal)


def _ask(url: str, deadline: float) -> http.Answer:
    timeout = min(5.0, max(0.5, deadline - time.monotonic()))
    return credentials.request("GET", url, None, timeout, http.PAGE_LIMIT)
