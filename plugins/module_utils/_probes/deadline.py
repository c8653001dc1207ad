# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Looks with a deadline, at what may never answer: a file on a network file system whose server is gone, or a FIFO that nobody writes to.

A pool's threads are waited for when a program ends; the one here is not, so that the module ends in any case."""

from __future__ import annotations

import threading
import typing as t

T = t.TypeVar("T")


class Look(t.Generic[T]):
    """One call, begun at once in a thread of its own."""

    def __init__(self, what: t.Callable[..., T], *arguments: t.Any) -> None:
        self._answer: list[T] = []
        self._error: list[BaseException] = []
        self._thread = threading.Thread(target=self._run, args=(what, arguments), daemon=True)
        self._thread.start()

    def _run(self, what: t.Callable[..., T], arguments: tuple[t.Any, ...]) -> None:
        try:
            self._answer.append(what(*arguments))
        except Exception as exc:  # noqa: BLE001  # told to whoever asks for the result
            self._error.append(exc)

    def result(self, seconds: float) -> T:
        """What the call returned or raised. Raises TimeoutError when that takes longer."""
        self._thread.join(max(0.0, seconds))
        if self._error:
            raise self._error[0]
        if not self._answer:
            raise TimeoutError(f"no answer within {seconds:g} s")
        return self._answer[0]
