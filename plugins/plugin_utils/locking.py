# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Locking a group from the controller: who holds its lock, which locks are those of dead runs, and how the workers of one run agree that
the first host has given it before any other is asked."""

from __future__ import annotations

import getpass
import os
import re
import socket
import time
import typing as t

from ansible import constants

from ..module_utils._core.facts.lock import Lock, name
from ..module_utils._probes import runs

# A lock that nobody renewed for this long belongs to a dead run.
LOCK_TTL = 300
# A host's own lock is waited for up to a minute, and a connection may have to be made.
FIRST_LOCK_WAIT = 180.0


def holder(run: str, longest: float = 0) -> dict[str, t.Any]:
    """Who holds a group's lock: this run, by the nonce that its plan has; and told so that another one can say whom to ask. The parent
    process is ansible-playbook. `longest` is for how many seconds at most one phase keeps a host busy: another host's lock must outlive
    it."""
    process = runs.own()
    who = f"{getpass.getuser()}@{socket.gethostname()} pid {process['pid']}"
    return {"run": run, "who": who, "ttl": LOCK_TTL + longest, "process": process}


def of_dead(locks: t.Iterable[Lock | None]) -> list[str]:
    """What those locks are known by whose run was one of this machine, and is gone. A host knows nothing of the processes here."""
    return [name(lock) for lock in locks if lock and runs.died(lock.get("process"))]


def mark() -> str:
    """How a host knows what this run has left there to listen."""
    return runs.mark()


def living() -> dict[str, t.Any]:
    """Which runs of this machine may still need what they have left on a host."""
    return runs.living()


class FirstLock:
    """What the worker of the first host tells those of the others, in the temporary folder that they share: the empty text when it has the
    lock, else why not."""

    def __init__(self, name: str, clock: t.Callable[[], float] = time.monotonic, pause: float = 0.1) -> None:
        folder = vars(constants)["DEFAULT_LOCAL_TMP"]
        self.path = os.path.join(folder, re.sub(r"[^\w.-]", "_", f"pd-lock-{name}"))
        self.clock, self.pause = clock, pause

    def write(self, text: str) -> None:
        temporary = self.path + ".new"
        with open(temporary, "w", encoding="utf-8") as stream:
            stream.write(text)
        os.rename(temporary, self.path)

    def wait(self, seconds: float = FIRST_LOCK_WAIT) -> str | None:
        """What the first host's worker has written; None when that took too long."""
        end = self.clock() + seconds
        while self.clock() < end:
            try:
                with open(self.path, encoding="utf-8") as stream:
                    return stream.read()
            except FileNotFoundError:
                time.sleep(self.pause)
        return None
