# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A running HAProxy, told over its runtime socket what its file says of servers by now: so that nothing is reloaded for a weight, and what
runs is seen to end."""

from __future__ import annotations

import contextlib
import socket
import time
import typing as t

from .._core.base.errors import PdError
from .._core.hooks import runtime_api
from .._core.hooks.hook import Act
from .._core.hooks.runtime_api import Running

# Seconds for one command, for a reload to be seen, and between two looks.
COMMAND, RELOADED, POLL = 5.0, 15.0, 0.25
_MOST = 4 << 20


class HAProxy:
    """`changed`: something was told that it did not know. What cannot be asked tells nothing, and is reloaded."""

    def __init__(self, path: str, backend: str) -> None:
        self.path, self.backend = path, backend
        self.changed = False

    def tell(self, acts: t.Sequence[Act], warnings: list[str]) -> list[Act]:
        """Have the running process do what these ask for. Returns those that it cannot be told, which its file tells it after a reload."""
        try:
            now = self.servers()
            todo = [act for act in acts if not runtime_api.as_wanted(act, now, _addresses(act))]
            there = [act for act in todo if act.group in now]
            self.changed = bool(there)
            self._drain([act for act in there if act.event == "out"], warnings)
            for act in there:
                for text in runtime_api.commands(act):
                    self.ask(text)
            now = self.servers()
        except (OSError, PdError):
            return list(acts)
        return [act for act in acts if not runtime_api.as_wanted(act, now, _addresses(act))]

    def wait_for(self, acts: t.Sequence[Act]) -> dict[str, str]:
        """After a reload: why a group is not there as wanted, for those that are not."""
        deadline = time.monotonic() + RELOADED
        while True:
            try:
                now = self.servers()
                left = {a.group: _told(a, now) for a in acts if not runtime_api.as_wanted(a, now, _addresses(a))}
            except (OSError, PdError) as exc:
                why = f"it was reloaded, and its runtime API does not answer at {self.path}: {exc}"
                left = {act.group: why for act in acts}
            if not left or time.monotonic() > deadline:
                return left
            time.sleep(POLL)

    def _drain(self, acts: t.Sequence[Act], warnings: list[str]) -> None:
        """No new requests, and time for those that run."""
        for act in acts:
            self.ask(runtime_api.commands(act, drains=True)[0])
        deadlines = {act.group: time.monotonic() + act.hook.drain for act in acts}
        while deadlines:
            busy = runtime_api.sessions(self.ask(runtime_api.SESSIONS.format(backend=self.backend)))
            for name, deadline in list(deadlines.items()):
                if not busy.get(name):
                    del deadlines[name]
                elif time.monotonic() >= deadline:
                    del deadlines[name]
                    warnings.append(
                        f"{busy[name]} sessions of group {name} still ran in backend {self.backend} after its drain."
                    )
            time.sleep(POLL if deadlines else 0)

    def servers(self) -> dict[str, Running]:
        """Its servers. Raises OSError where it does not answer, PdError for an answer that is none."""
        return runtime_api.running(self.ask(runtime_api.STATE.format(backend=self.backend)))

    def ask(self, text: str) -> str:
        """What it answers to a command. Raises OSError."""
        deadline = time.monotonic() + COMMAND
        found = b""
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as link:
            link.settimeout(COMMAND)
            link.connect(self.path)
            link.sendall(f"{text}\n".encode())
            while len(found) < _MOST and time.monotonic() < deadline:
                piece = link.recv(65536)
                if not piece:
                    break
                found += piece
        return found.decode("utf-8", "replace")


def _addresses(act: Act) -> set[str]:
    """What the host name of an endpoint stands for: a running process knows addresses alone."""
    if act.event == "out":
        return set()
    host, port = act.place
    with contextlib.suppress(OSError):
        return {str(one[4][0]) for one in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)}
    return set()


def _told(act: Act, now: t.Mapping[str, Running]) -> str:
    one = now.get(act.group)
    if one is None:
        return (
            f"it was reloaded, and its backend {act.hook.backend} has no server {act.group}: does it load {act.path}?"
        )
    how = "ready" if one.ready else "in maintenance" if one.in_maintenance else "draining"
    return f"it was reloaded, and has {act.group} at {one.host}:{one.port} with weight {one.weight}, {how}"
