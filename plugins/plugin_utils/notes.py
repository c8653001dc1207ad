# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the hosts of one wait tell each other. Their workers are processes of one ansible-playbook, which share a folder."""

from __future__ import annotations

import contextlib
import os
import typing as t
from urllib.parse import quote, unquote

# What becomes of a member in a wait: ended is one that its host waits for no more, and that is neither ready nor seen to have failed.
READY, FAILED, ENDED = "ready", "failed", "ended"
# One that two hosts tell of, each of its own part, is what the worse of them says.
_WORST = (READY, ENDED, FAILED)


class Notes:
    """A folder of empty files: all that a note says is its name, `what@value` in a folder for each kind. So none is ever seen half written,
    writers need no lock, and two that note the same do no harm. Times are seconds of the one clock that all processes of a machine have
    (time.monotonic); of several the earliest holds.

    A wait goes on without its notes: they only make it shorter. What cannot be written or read is as if nobody had said it."""

    def __init__(self, path: str) -> None:
        self.path = path

    # -- members -------------------------------------------------------------------------------------------------------------------

    def tell(self, group: str, member: str, state: str) -> None:
        self._write(("members", group), member, state)

    def members(self, group: str) -> dict[str, str]:
        """What became of the members of a workload, by id, on all hosts; nothing of one that is still waited for."""
        found: dict[str, str] = {}
        for member, state in self._read(("members", group)):
            if state in _WORST:
                found[member] = max(state, found.get(member, READY), key=_WORST.index)
        return found

    def failed(self, group: str) -> list[str]:
        """The members of a workload that have failed for good."""
        return sorted(member for member, state in self.members(group).items() if state == FAILED)

    # -- moments -------------------------------------------------------------------------------------------------------------------

    def began(self, group: str, now: float) -> float:
        """When the first of its hosts has begun to wait for a workload: now, if none has."""
        return self._first("began", group, now)

    def completed(self, group: str, now: float) -> None:
        """Note that a workload is complete on all of its hosts."""
        self._first("complete", group, now)

    def first_complete(self) -> tuple[str, float] | None:
        """The workload that was complete first, of all of the wait, and since when."""
        return min(self._times("complete").items(), key=lambda item: item[1], default=None)

    def host_began(self, host: str, now: float) -> None:
        self._first("host-began", host, now)

    def host_ended(self, host: str, now: float) -> None:
        self._first("host-ended", host, now)

    def waiting(self, hosts: t.Iterable[str]) -> dict[str, float | None]:
        """Those of `hosts` whose wait has not ended, with when it began: None for one that has no worker yet."""
        began, ended = self._times("host-began"), self._times("host-ended")
        return {host: began.get(host) for host in hosts if host not in ended}

    # -- files ---------------------------------------------------------------------------------------------------------------------

    def _first(self, kind: str, name: str, now: float) -> float:
        known = self._times(kind).get(name)
        if known is None:
            self._write((kind,), name, f"{now:.3f}")
            known = self._times(kind).get(name, now)
        return known

    def _times(self, kind: str) -> dict[str, float]:
        found: dict[str, float] = {}
        for name, value in self._read((kind,)):
            with contextlib.suppress(ValueError):
                found[name] = min(float(value), found.get(name, float(value)))
        return found

    def _folder(self, kind: tuple[str, ...]) -> str:
        return os.path.join(self.path, *(quote(one, safe="") for one in kind))

    def _write(self, kind: tuple[str, ...], name: str, value: str) -> None:
        folder = self._folder(kind)
        with contextlib.suppress(OSError):
            os.makedirs(folder, mode=0o700, exist_ok=True)
            path = os.path.join(folder, f"{quote(name, safe='')}@{value}")
            os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))

    def _read(self, kind: tuple[str, ...]) -> list[tuple[str, str]]:
        """(name, value) of each note of a kind."""
        try:
            entries = sorted(os.listdir(self._folder(kind)))
        except OSError:
            return []
        found = (entry.rpartition("@") for entry in entries if "@" in entry)
        return [(unquote(name), value) for name, _at, value in found]
