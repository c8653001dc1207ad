# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A constant load on a group's endpoint, and what became of every request. For loopback: it is as impolite as its rate.

    python tests/load.py http://127.0.0.1:8000 --model tiny --rate 100 --seconds 60

Requests are due at fixed times, whatever became of those before (an open loop), so a server that stalls is not asked less. Half of the
senders keep their connection, as a client library does; the others open one for each request. Nothing is ever sent twice: what fails has
failed."""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import sys
import threading
import time
import typing as t
from collections import Counter
from dataclasses import dataclass, field
from urllib.parse import urlsplit

TIMEOUT = 30.0
Check = t.Callable[[str, str], bool]


@dataclass
class Report:
    """What was seen. `good` are (sent, answered) of right answers, `bad` (sent, answered, why) of all others, in time.monotonic()."""

    good: list[tuple[float, float]] = field(default_factory=list)
    bad: list[tuple[float, float, str]] = field(default_factory=list)
    # Requests sent so late that the rate was not held: the sender's own fault, and said.
    late: int = 0

    @property
    def sent(self) -> int:
        return len(self.good) + len(self.bad)

    def latency(self, share: float) -> float:
        """Seconds that this share of the right answers took at most: 0.5 is the median."""
        taken = sorted(end - begin for begin, end in self.good)
        return taken[min(len(taken) - 1, int(share * len(taken)))] if taken else float("nan")

    def gap(self) -> tuple[float, float]:
        """(seconds, when it began): the longest time between two right answers."""
        ends = sorted(end for _begin, end in self.good)
        return max(((b - a, a) for a, b in zip(ends, ends[1:])), default=(0.0, 0.0))

    def reasons(self) -> dict[str, int]:
        """How often each reason of a failure was met."""
        return dict(Counter(why for _begin, _end, why in self.bad).most_common())

    def told(self) -> str:
        return (
            f"{self.sent} requests, {len(self.bad)} failed; p50 {self.latency(0.5) * 1000:.0f} ms,"
            f" p99 {self.latency(0.99) * 1000:.0f} ms, longest gap {self.gap()[0]:.2f} s"
            + (f", {self.late} sent late" if self.late else "")
            + "".join(f"\n  {count} x {why}" for why, count in self.reasons().items())
        )


class Load:
    """`with Load(url) as load: ...` keeps sending until the end of the block, and `load.report` is whole then.

    `right` says whether a text is the answer to a prompt; without it any text counts. Every `stream`-th request is streamed, 0 for none."""

    def __init__(
        self, url: str, model: str = "tiny", rate: float = 100, senders: int = 16, right: Check | None = None,
        tokens: int = 4, stream: int = 0,
    ) -> None:  # fmt: skip
        self.address = t.cast("tuple[str, int]", (urlsplit(url).hostname, urlsplit(url).port))
        self.model, self.rate, self.right, self.tokens, self.stream = model, rate, right, tokens, stream
        self.report = Report()
        self._next, self._lock, self._stop = 0, threading.Lock(), threading.Event()
        self._begun = 0.0
        self._threads = [threading.Thread(target=self._run, args=(n % 2 == 0,)) for n in range(senders)]

    def __enter__(self) -> Load:
        self._begun = time.monotonic()
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_exc: t.Any) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(2 * TIMEOUT)

    def reached(self, count: int) -> bool:
        """Whether so many requests have been answered, or have failed."""
        return self.report.sent >= count

    def _due(self) -> tuple[int, float]:
        with self._lock:
            number = self._next
            self._next += 1
        return number, self._begun + number / self.rate

    def _run(self, keep: bool) -> None:
        connection: http.client.HTTPConnection | None = None
        while not self._stop.is_set():
            number, due = self._due()
            if self._stop.wait(max(0.0, due - time.monotonic())):
                break
            if time.monotonic() - due > 1:
                self.report.late += 1
            connection = self._one(number, connection if keep else None)
            if connection is not None and not keep:
                connection.close()
        if connection is not None:
            connection.close()

    def _one(self, number: int, connection: http.client.HTTPConnection | None) -> http.client.HTTPConnection | None:
        """Send one request, and note what became of it. The connection, when it can be used again."""
        begin = time.monotonic()
        connection = connection or http.client.HTTPConnection(*self.address, timeout=TIMEOUT)
        try:
            why = self._ask(connection, number)
        except (OSError, http.client.HTTPException, ValueError, LookupError) as exc:
            why = f"{type(exc).__name__}: {exc}"
            with contextlib.suppress(OSError):
                connection.close()
            connection = None
        end = time.monotonic()
        if why:
            self.report.bad.append((begin, end, why[:300]))
        else:
            self.report.good.append((begin, end))
        return connection

    def _ask(self, connection: http.client.HTTPConnection, number: int) -> str:
        """Why the answer is none; empty when it is right."""
        prompt = f"request {number}: " + "once upon a time " * 8
        streamed = bool(self.stream) and number % self.stream == 0
        asked = {"model": self.model, "prompt": prompt, "max_tokens": self.tokens, "temperature": 0, "stream": streamed}
        connection.request("POST", "/v1/completions", json.dumps(asked), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        body = answer.read().decode("utf-8", "replace")
        if answer.status != 200:
            return f"status {answer.status}: {body.strip()[:200]}"
        text = _streamed(body) if streamed else json.loads(body)["choices"][0]["text"]
        if text is None:
            return "a stream without its end"
        return "" if self.right is None or self.right(prompt, text) else f"a wrong answer: {text[:80]!r}"


def _streamed(body: str) -> str | None:
    """The text of a stream of events; None when it does not end as one must."""
    events = [line[len("data: ") :] for line in body.splitlines() if line.startswith("data: ")]
    if not events or events[-1] != "[DONE]":
        return None
    return "".join(json.loads(event)["choices"][0].get("text", "") for event in events[:-1])


def main() -> int:
    parser = argparse.ArgumentParser(description="Constant load on an endpoint; exit status 1 when a request failed.")
    parser.add_argument("url")
    parser.add_argument("--model", default="tiny")
    parser.add_argument("--rate", type=float, default=20, help="requests a second")
    parser.add_argument("--senders", type=int, default=16, help="requests in flight at most")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--stream", type=int, default=0, help="stream every N-th request")
    given = parser.parse_args()
    with Load(given.url, given.model, given.rate, given.senders, stream=given.stream) as load:
        time.sleep(given.seconds)
    print(load.report.told())
    return 1 if load.report.bad else 0


if __name__ == "__main__":
    sys.exit(main())
