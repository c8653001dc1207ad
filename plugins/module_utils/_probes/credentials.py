# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Asking a member of this host that wants a key: it is shown its own, as its process has it, and as late as it asks for one.

So no option is needed, a secret that has been changed since the start is no fault, and nothing is sent to whoever else took the port."""

from __future__ import annotations

import contextlib
import ipaddress
import os
import shlex
import socket
import time
import typing as t
from dataclasses import replace
from urllib.parse import urlsplit

from .._core.work import key
from . import http, ports, processes, small_file

# A command line of Linux is not longer.
_SCRIPT_LIMIT = 4 * http.MIB
HIDDEN = "********"
# A shell, an API server, its workers: far less than this.
_GENERATIONS = 8
_LENT: dict[str, tuple[str, ...]] = {}


def request(
    method: str,
    url: str,
    body: t.Any = None,
    timeout: float = http.DEADLINE,
    limit: int = http.BODY_LIMIT,
    keys: t.Sequence[str] = (),
) -> http.Answer:
    """The same as http.request. One that is refused for want of a key is asked again with each of `keys`, or, without any, with those that
    the process itself has which listens there, all within `timeout`. A refusal has changed nothing: any method may be asked again."""
    end = time.monotonic() + timeout
    answer = _shown(http.request(method, url, body, timeout, http.bearer(keys[0]) if keys else None, limit), keys[:1])
    if answer.status not in key.WANTS_KEY:
        return answer
    for one in keys[1:] or (() if keys else of_listener(url)):
        left = end - time.monotonic()
        if left <= 0:
            break
        with contextlib.suppress(http.Unanswered):
            again = _shown(http.request(method, url, body, left, http.bearer(one), limit), [one])
            if again.status not in key.WANTS_KEY:
                return again
    return answer


def _shown(answer: http.Answer, keys: t.Sequence[str]) -> http.Answer:
    """The same; a refusal that repeats the key that it was shown does so no more."""
    body = answer.body
    for one in keys if not answer.ok else ():
        body = body.replace(one.encode(), HIDDEN.encode())
    return answer if body == answer.body else replace(answer, body=body)


def lend(url: str, keys: t.Sequence[str]) -> None:
    """Say which keys the process wants that listens at a URL, where it cannot be looked at: from beside it, in a container."""
    _LENT[urlsplit(url).netloc] = tuple(keys)


def of_listener(url: str, root: str = "/proc") -> tuple[str, ...]:
    """The keys that the process may want which listens at a URL of this host; none for another host's, or where nobody may look, unless
    they were lent."""
    with contextlib.suppress(ValueError):
        lent = _LENT.get(urlsplit(url).netloc)
        if lent:
            return lent
    with contextlib.suppress(ValueError):
        parts = urlsplit(url)
        if parts.port and _is_here(parts.hostname or ""):
            found = [one for one in ports.listening({parts.port}, root) if one.pid]
            wanted = _address(parts.hostname or "")
            mine = [one for one in found if wanted is None or one.address in (wanted, "0.0.0.0", "::")]
            return next(filter(None, (of_process(one.pid, root) for one in mine if one.pid)), ())
    return ()


def of_process(pid: int, root: str = "/proc") -> tuple[str, ...]:
    """The keys of a process, or of the nearest that it descends from: a process title may overwrite what it was started with."""
    for _generation in range(_GENERATIONS):
        if pid <= 1:
            break
        found = key.asked_by_router([*_script(pid, root), *_argv(pid, root)], _environment(pid, root))
        process = processes.read(pid, root)
        if found or process is None:
            return found
        pid = process.parent
    return ()


def _address(host: str) -> str | None:
    """An address as listeners have it; None for a name, which may be any of this host's."""
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        return None


def _is_here(host: str) -> bool:
    """Whether an address is one of this host's: only such a one can be bound."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.bind((host, 0))
    except (OSError, ValueError, OverflowError):
        return False
    return True


def _script(pid: int, root: str) -> list[str]:
    """The command line in the script that a process of this host was started by, in the directory that it is in: one that gives itself
    a title has overwritten what it was called with (sglang-router does)."""
    text = small_file.read(f"{root}/{pid}/cwd/run", _SCRIPT_LIMIT) or b""
    if not text.startswith(b"#!/bin/sh\n# Member "):
        return []
    with contextlib.suppress(ValueError):
        return shlex.split(os.fsdecode(text.rpartition(b"\nexec ")[2]))
    return []


def _argv(pid: int, root: str) -> list[str]:
    try:
        with open(f"{root}/{pid}/cmdline", "rb") as stream:
            return [os.fsdecode(word) for word in stream.read(1 << 20).split(b"\0")]
    except OSError:
        return []


def _environment(pid: int, root: str) -> dict[str, str]:
    block = processes.environ(pid, root) or b""
    pairs = (entry.partition(b"=") for entry in block.split(b"\0"))
    wanted = (*key.VARIABLES, key.SHOWN)
    return {os.fsdecode(name): os.fsdecode(value) for name, _equals, value in pairs if os.fsdecode(name) in wanted}
