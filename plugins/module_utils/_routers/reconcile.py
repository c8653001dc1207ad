# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The reconciliation of a router's registry with the members that are wanted: read, add, remove, and read back until it says so.

The answer to a call proves nothing (sglang-router queues, vllm-router accepts a dead URL): only the list does."""

from __future__ import annotations

import time
import typing as t
from dataclasses import dataclass, field

from .protocol import Peer, RegistryError, RouterDialect, same

CALL_TIMEOUT = 10.0
READ_BACK_EVERY = 0.5
READ_BACK_FOR = 6.0
ATTEMPTS = 3


@dataclass
class Wanted:
    """What the registry is to hold. `remove` are URLs that must not be in it; with `only_remove` nothing else is touched. `spare` are
    members whose host does not answer now: they may serve, so that they are left where they are, and not missed where they are not."""

    url: str
    model: str
    peers: list[dict[str, t.Any]]
    remove: list[str] = field(default_factory=list)
    spare: list[str] = field(default_factory=list)
    only_remove: bool = False
    exclusive: bool = True
    manage: bool = True
    # Seconds to wait for wanted members that the router finds unhealthy: it looks at them only every so often.
    settle: float = 0.0
    # The key that the members of each role ask for.
    keys: t.Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass
class Outcome:
    """What was done. `stale` are entries that nobody wants and that are still there, `spared` those that may stay; `missing` are wanted
    ones that are not there. `foreign` are the stale ones that the router must not keep: all, unless the caller bears with extra ones."""

    before: list[Peer] = field(default_factory=list)
    after: list[Peer] = field(default_factory=list)
    added: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    confirmed: list[str] = field(default_factory=list)
    stale: list[str] = field(default_factory=list)
    foreign: list[str] = field(default_factory=list)
    spared: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    unhealthy: list[str] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)

    @property
    def changed(self) -> bool:
        return bool(self.added or self.removed)


@dataclass
class Difference:
    """What separates the registry from what is wanted. `wrong` are entries of a wanted URL with another role or model."""

    missing: list[dict[str, t.Any]] = field(default_factory=list)
    wrong: list[Peer] = field(default_factory=list)
    extra: list[Peer] = field(default_factory=list)
    unwanted: list[Peer] = field(default_factory=list)
    spared: list[Peer] = field(default_factory=list)
    confirmed: list[str] = field(default_factory=list)


class Reconciler:
    """One run against one router. The clock is injected, so that tests need not wait."""

    def __init__(
        self,
        dialect: RouterDialect,
        wanted: Wanted,
        timeout: float,
        clock: t.Callable[[], float] = time.monotonic,
        sleep: t.Callable[[float], None] = time.sleep,
        may_change: t.Callable[[], None] = lambda: None,
    ) -> None:
        self.dialect, self.wanted = dialect, wanted
        self.clock, self.sleep = clock, sleep
        self.may_change = may_change
        self.deadline = clock() + timeout

    def run(self, check: bool = False) -> Outcome:
        """Raises RegistryError when the registry cannot be read or has no such API; what was refused is in the outcome."""
        outcome = Outcome()
        outcome.before = outcome.after = self._read()
        difference = self._compare(outcome.before)
        if check or not self.wanted.manage:
            if self.wanted.manage:
                outcome.added = [p["url"] for p in difference.missing]
                outcome.removed = [p["url"] for p in self._going(difference)]
            elif not check:
                outcome.after = self._read_until(lambda now: not now.missing)
            return self._finish(outcome) if check else self._settle(outcome)
        for _attempt in range(ATTEMPTS):
            if not difference.missing and not self._going(difference):
                break
            outcome.refusals = []
            difference = self._clear(difference, outcome)
            if not self._going(difference):
                difference = self._admit(difference, outcome)
            if self.clock() >= self.deadline:
                break
        return self._settle(outcome)

    def _settle(self, outcome: Outcome) -> Outcome:
        """The outcome once the router finds all wanted members healthy, or as it is when the time for that is over: a member that has come
        back gets no request before."""
        until = self.clock() + self.wanted.settle
        self._finish(outcome)
        while outcome.unhealthy and not self.wanted.only_remove and self.clock() < until:
            self.sleep(READ_BACK_EVERY)
            self.deadline = max(self.deadline, self.clock() + READ_BACK_EVERY)
            outcome.after = self._read()
            self._finish(outcome)
        return outcome

    def _clear(self, difference: Difference, outcome: Outcome) -> Difference:
        """Take out what must not be there, and see it gone. That comes first: a new prefill beside an old decode would be used, and answer
        wrongly, while a router that is empty for a moment says so (503)."""
        going = self._going(difference)
        for peer in going:
            self._remove(peer, outcome)
        if not going:
            return difference
        outcome.after = self._read_until(lambda now: not self._going(now))
        return self._compare(outcome.after)

    def _admit(self, difference: Difference, outcome: Outcome) -> Difference:
        """Add what is missing, and see it there."""
        for wanted in difference.missing:
            try:
                self.may_change()
                key = self.wanted.keys.get(wanted["role"])
                self.dialect.add(self.wanted.url, wanted, self.wanted.model, self._call_timeout(), key)
                _once(outcome.added, wanted["url"])
            except RegistryError as exc:
                if exc.missing:
                    raise
                outcome.refusals.append(str(exc))
        if difference.missing:
            outcome.after = self._read_until(lambda now: not now.missing)
        return self._compare(outcome.after)

    def _remove(self, peer: Peer, outcome: Outcome) -> None:
        try:
            self.may_change()
            self.dialect.remove(self.wanted.url, peer, self._call_timeout())
            _once(outcome.removed, peer["url"])
        except RegistryError as exc:
            outcome.refusals.append(str(exc))

    def _going(self, difference: Difference) -> list[Peer]:
        extra = difference.extra if self.wanted.exclusive and not self.wanted.only_remove else []
        return [*difference.wrong, *difference.unwanted, *extra]

    def _compare(self, have: list[Peer]) -> Difference:
        unwanted, spare = ({same(u) for u in urls} for urls in (self.wanted.remove, self.wanted.spare))
        peers = [] if self.wanted.only_remove else self.wanted.peers
        by_url = {same(p["url"]): p for p in peers}
        missing = dict(by_url)
        difference = Difference()
        for entry in have:
            url = same(entry["url"])
            peer = by_url.get(url)
            if peer is None:
                kind = (
                    difference.unwanted if url in unwanted else difference.spared if url in spare else difference.extra
                )
                kind.append(entry)
            elif entry["worker_type"] != peer["role"] or (
                # A router with fixed peers files them under "unknown", and goes by no model.
                self.wanted.manage and not self.dialect.same_model(entry, self.wanted.model)
            ):
                difference.wrong.append(entry)
            else:
                missing.pop(url, None)
                difference.confirmed.append(peer["url"])
        difference.missing = list(missing.values())
        return difference

    def _finish(self, outcome: Outcome) -> Outcome:
        difference = self._compare(outcome.after)
        outcome.confirmed = sorted(set(difference.confirmed))
        outcome.missing = [p["url"] for p in difference.missing]
        extra = [] if self.wanted.only_remove else difference.extra
        outcome.foreign = _urls(self._going(difference))
        outcome.stale = _urls([*difference.wrong, *difference.unwanted, *extra])
        outcome.spared = _urls(difference.spared)
        confirmed = {same(url) for url in outcome.confirmed}
        outcome.unhealthy = _urls(p for p in outcome.after if not p["healthy"] and same(p["url"]) in confirmed)
        return outcome

    def _read(self) -> list[Peer]:
        """The registry, asked again while it gives no usable answer: a router that has just started may need a moment."""
        while True:
            try:
                return self.dialect.list(self.wanted.url, self._call_timeout())
            except RegistryError as exc:
                if not exc.unreadable or self.clock() + READ_BACK_EVERY >= self.deadline:
                    raise
                self.sleep(READ_BACK_EVERY)

    def _read_until(self, done: t.Callable[[Difference], bool]) -> list[Peer]:
        """The registry when it says so, or as it is after 6 s."""
        until = min(self.clock() + READ_BACK_FOR, self.deadline)
        while True:
            have = self._read()
            if done(self._compare(have)) or self.clock() >= until:
                return have
            self.sleep(READ_BACK_EVERY)

    def _call_timeout(self) -> float:
        return max(0.5, min(CALL_TIMEOUT, self.deadline - self.clock()))


def _urls(peers: t.Iterable[Peer]) -> list[str]:
    return sorted({p["url"] for p in peers})


def _once(urls: list[str], url: str) -> None:
    if url not in urls:
        urls.append(url)
