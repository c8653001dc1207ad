# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A small HTTP client: for members, routers and whatever else is asked. A call has one deadline as a whole, whatever comes dripping; what
is read of an answer is bounded; no proxy is used, and no redirect followed. A secret is sent in a header and stands in no message."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import ssl
import time
import typing as t
from dataclasses import dataclass
from urllib.parse import urlsplit

from .._core.base import json_text
from .._core.base.errors import PdError
from .._core.base.printable import printable
from .dial import Clock, Line, TooMuchError, dial, secured

DEADLINE = 10.0
MIB = 1024 * 1024
# An answer to a prompt, or a registry of a thousand members, is less. JSON takes up to twenty times its size in memory.
BODY_LIMIT = 2 * MIB
# A metrics page of a busy engine is some hundred KiB.
PAGE_LIMIT = 8 * MIB
# What an error message is looked for in.
_EXCERPT_OF = 64 * 1024
# Beside the body: heads, the interim ones that a server may send before, and what chunks add.
_OVERHEAD = MIB

Kind = t.Literal["refused", "timeout", "unreachable", "broken", "invalid"]
Headers = t.Mapping[str, str]


class Unanswered(PdError):  # noqa: N818 - reads as what it is
    """No HTTP answer came. `kind` says why, `reason` in a few words; the text says what was being asked of whom."""

    def __init__(self, asked: str, kind: Kind, reason: str) -> None:
        super().__init__(f"{asked}: {reason}")
        self.kind = kind
        self.reason = reason


@dataclass(frozen=True)
class Answer:
    """What a server said. `whole` is false for a body that was longer than is read."""

    asked: str
    status: int
    body: bytes
    seconds: float
    whole: bool = True

    @property
    def ok(self) -> bool:
        return 200 <= self.status < 300

    @property
    def text(self) -> str:
        return self.body.decode("utf-8", "replace")

    def json(self) -> t.Any:
        """The body as JSON, of whatever shape it is. Raises PdError that names the call."""
        if not self.whole:
            raise PdError(f"{self.asked}: answered {self.status} with more than {len(self.body) / MIB:.0f} MiB")
        try:
            return json_text.loads(self.body)
        except ValueError as exc:
            raise PdError(f"{self.asked}: answered {self.status}, but not with JSON: {self.excerpt()!r}") from exc

    def excerpt(self, limit: int = 300) -> str:
        """The body in one line that can be shown, cut: the error message alone where it is an engine's usual error object."""
        text: str | None = None
        if len(self.body) <= _EXCERPT_OF:
            with contextlib.suppress(ValueError):
                found = json_text.loads(self.body)
                error = json_text.member(found, "error") or json_text.member(found, "message")
                text = json_text.text(error) or json_text.text(json_text.member(error, "message"))
        return printable(text or self.body, limit)

    @property
    def refusal(self) -> str:
        """What it said, where it is not what was wanted: "answered 500 'the reason'"."""
        away = " (a redirect, which is not followed)" if 300 <= self.status < 400 else ""
        return f"answered {self.status}{away} {self.excerpt()!r}"


def request(
    method: str,
    url: str,
    body: t.Any = None,
    timeout: float = DEADLINE,
    headers: Headers | None = None,
    limit: int = BODY_LIMIT,
) -> Answer:
    """One HTTP call; `body` is sent as JSON. Raises Unanswered when no answer came within `timeout` seconds, from the name's resolving to
    the last byte."""
    asked = f"{method} {_shown(url)}"
    data = None if body is None else json.dumps(body).encode()
    sent = {"Accept": "application/json, */*", "Connection": "close", **(headers or {})}
    if data is not None:
        sent["Content-Type"] = "application/json"
    _check_headers(asked, sent)
    target = _target(asked, url)
    started, clock = time.monotonic(), Clock(timeout)
    try:
        return _call(asked, method, target, data, sent, clock, limit, started)
    except (OSError, http.client.HTTPException, ValueError) as exc:
        raise _unanswered(asked, exc, timeout, clock.heard) from exc


def get(url: str, timeout: float = DEADLINE, headers: Headers | None = None, limit: int = BODY_LIMIT) -> Answer:
    return request("GET", url, timeout=timeout, headers=headers, limit=limit)


def bearer(key: str | None) -> dict[str, str]:
    """The headers that show a key; none without one."""
    return {"Authorization": f"Bearer {key}"} if key else {}


def join(base: str, path: str) -> str:
    """A path of a server whose base URL may end with a slash."""
    return base.rstrip("/") + "/" + path.lstrip("/")


# -- one call --------------------------------------------------------------------------------------------------------------------------


class _Target(t.NamedTuple):
    secure: bool
    host: str
    port: int
    path: str


def _call(
    asked: str,
    method: str,
    target: _Target,
    data: bytes | None,
    headers: Headers,
    clock: Clock,
    limit: int,
    started: float,
) -> Answer:
    sock = dial(target.host, target.port, clock)
    try:
        if target.secure:
            sock = secured(sock, target.host, clock)
        # It knows no proxies: HTTP_PROXY of the host's environment has no effect here.
        connection = http.client.HTTPConnection(target.host, target.port)
        connection.sock = t.cast("socket.socket", Line(sock, clock, limit + _OVERHEAD))
        connection.request(method, target.path, body=data, headers=dict(headers))
        response = connection.getresponse()
        content = response.read(limit + 1)
        return Answer(asked, response.status, content[:limit], time.monotonic() - started, len(content) <= limit)
    finally:
        sock.close()


def _target(asked: str, url: str) -> _Target:
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError as exc:
        raise Unanswered(asked, "invalid", f"not a URL ({printable(exc)})") from exc
    if parts.scheme not in ("http", "https") or not host:
        raise Unanswered(asked, "invalid", "not a URL of the form http://ADDRESS:PORT")
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    if not (path.isascii() and path.isprintable()) or " " in path:
        raise Unanswered(asked, "invalid", "its path holds characters that a URL has only encoded (%20)")
    secure = parts.scheme == "https"
    # The zone of a link-local address (%eth0) stands encoded in a URL.
    return _Target(secure, host.replace("%25", "%"), port or (443 if secure else 80), path)


def _shown(url: str) -> str:
    """A URL in a message: without who asks, which may be a password, and as it can be shown."""
    with contextlib.suppress(ValueError):
        parts = urlsplit(url)
        if "@" in parts.netloc:
            url = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
    return printable(url)


def _check_headers(asked: str, headers: Headers) -> None:
    """http.client would repeat a bad value in its message, and it may be a key."""
    for name, value in headers.items():
        if not (value.isascii() and value.isprintable()):
            raise Unanswered(asked, "invalid", f"the value of its header {name} holds characters that HTTP has not")


def _unanswered(asked: str, exc: Exception, timeout: float, heard: bool) -> Unanswered:
    if isinstance(exc, (socket.timeout, TimeoutError)):
        return Unanswered(asked, "timeout", f"no {'complete ' if heard else ''}answer within {timeout:g} s")
    if isinstance(exc, TooMuchError):
        return Unanswered(asked, "broken", "it sends more than any answer has")
    if isinstance(exc, ConnectionRefusedError):
        return Unanswered(asked, "refused", "connection refused, nothing listens there")
    if isinstance(exc, ssl.SSLError):
        return Unanswered(asked, "broken", f"TLS failed ({printable(exc.reason or exc)})")
    if isinstance(exc, (ConnectionError, http.client.HTTPException)):
        return Unanswered(asked, "broken", f"the connection was closed without an answer ({type(exc).__name__})")
    if isinstance(exc, socket.gaierror):
        return Unanswered(asked, "unreachable", f"the name cannot be resolved ({exc.strerror})")
    if isinstance(exc, OSError):
        return Unanswered(asked, "unreachable", f"cannot be reached ({exc.strerror or exc})")
    # What is no HTTP at all, or cannot be asked for: the exception's words may be the server's.
    return Unanswered(asked, "broken", f"the answer is not HTTP ({type(exc).__name__}: {printable(exc, 120)})")
