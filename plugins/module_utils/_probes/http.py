# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A small HTTP client. Proxies are never used, every call has one deadline as a whole, and bodies are bounded."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import ssl
import threading
import time
import typing as t
from dataclasses import dataclass
from urllib.parse import urlsplit

from .._core.base.errors import PdError

DEADLINE = 10.0
# A metrics page of a busy engine is some hundred KiB; an answer to a prompt is less.
BODY_LIMIT = 8 * 1024 * 1024

Kind = t.Literal["refused", "timeout", "unreachable", "broken", "invalid"]


class Unanswered(PdError):  # noqa: N818 - reads as what it is
    """No HTTP answer came. `kind` says why, `reason` in a few words; the text says what was being asked of whom."""

    def __init__(self, asked: str, kind: Kind, reason: str) -> None:
        super().__init__(f"{asked}: {reason}")
        self.kind = kind
        self.reason = reason


@dataclass(frozen=True)
class Answer:
    """What a server said."""

    asked: str
    status: int
    body: bytes
    seconds: float

    @property
    def ok(self) -> bool:
        return 200 <= self.status < 300

    @property
    def text(self) -> str:
        return self.body.decode("utf-8", "replace")

    def json(self) -> t.Any:
        """The body as JSON. Raises PdError that names the call."""
        try:
            return json.loads(self.body)
        except ValueError as exc:
            raise PdError(f"{self.asked}: answered {self.status}, but not with JSON: {self.excerpt()!r}") from exc

    def excerpt(self, limit: int = 300) -> str:
        """The body in one line, cut: the error message alone where it is an engine's usual error object."""
        text = self.text
        with contextlib.suppress(ValueError, AttributeError, TypeError):
            found = json.loads(text)
            error = found.get("error", found.get("message"))
            error = error.get("message") if isinstance(error, dict) else error
            text = error if isinstance(error, str) else text
        return " ".join(text.split())[:limit]


def request(
    method: str,
    url: str,
    body: t.Any = None,
    timeout: float = DEADLINE,
    headers: t.Mapping[str, str] | None = None,
    limit: int = BODY_LIMIT,
) -> Answer:
    """One HTTP call; `body` is sent as JSON. Raises Unanswered when no answer came within `timeout` seconds."""
    asked = f"{method} {url}"
    connection, path = _connect(asked, url, timeout)
    sent = {"Accept": "application/json, */*", "Connection": "close", **(headers or {})}
    data = None
    if body is not None:
        data = json.dumps(body).encode()
        sent["Content-Type"] = "application/json"
    started = time.monotonic()
    # The socket's timeout starts anew with each byte: only a watchdog bounds a server that drips.
    late = threading.Event()
    watchdog = threading.Timer(timeout, _cut, (connection, late))
    watchdog.daemon = True
    watchdog.start()
    try:
        connection.request(method, path, body=data, headers=sent)
        response = connection.getresponse()
        content = response.read(limit + 1)
        if late.is_set():
            raise Unanswered(asked, "timeout", f"no complete answer within {timeout:g} s")
        return Answer(asked, response.status, content[:limit], time.monotonic() - started)
    except (OSError, http.client.HTTPException, ValueError) as exc:
        if isinstance(exc, Unanswered):
            raise
        raise _unanswered(asked, exc, late.is_set(), timeout) from exc
    finally:
        watchdog.cancel()
        connection.close()


def get(url: str, timeout: float = DEADLINE, headers: t.Mapping[str, str] | None = None) -> Answer:
    return request("GET", url, timeout=timeout, headers=headers)


def join(base: str, path: str) -> str:
    """A path of a server whose base URL may end with a slash."""
    return base.rstrip("/") + "/" + path.lstrip("/")


def _connect(asked: str, url: str, timeout: float) -> tuple[http.client.HTTPConnection, str]:
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError as exc:
        raise Unanswered(asked, "invalid", f"not a URL ({exc})") from exc
    if parts.scheme not in ("http", "https") or not host:
        raise Unanswered(asked, "invalid", "not a URL of the form http://ADDRESS:PORT")
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    # http.client knows no proxies: HTTP_PROXY of the host's environment has no effect here.
    if parts.scheme == "https":
        return http.client.HTTPSConnection(host, port, timeout=timeout, context=ssl.create_default_context()), path
    return http.client.HTTPConnection(host, port, timeout=timeout), path


def _cut(connection: http.client.HTTPConnection, late: threading.Event) -> None:
    late.set()
    sock = connection.sock
    if sock is not None:
        with contextlib.suppress(OSError):
            sock.shutdown(socket.SHUT_RDWR)


def _unanswered(asked: str, exc: Exception, late: bool, timeout: float) -> Unanswered:
    if late or isinstance(exc, socket.timeout):
        return Unanswered(asked, "timeout", f"no answer within {timeout:g} s")
    if isinstance(exc, ConnectionRefusedError):
        return Unanswered(asked, "refused", "connection refused, nothing listens there")
    if isinstance(exc, ssl.SSLError):
        return Unanswered(asked, "broken", f"TLS failed ({exc.reason or exc})")
    if isinstance(exc, (ConnectionError, http.client.HTTPException)):
        return Unanswered(asked, "broken", f"the connection was closed without an answer ({type(exc).__name__})")
    if isinstance(exc, socket.gaierror):
        return Unanswered(asked, "unreachable", f"the name cannot be resolved ({exc.strerror})")
    if isinstance(exc, OSError):
        return Unanswered(asked, "unreachable", f"cannot be reached ({exc.strerror or exc})")
    return Unanswered(asked, "invalid", str(exc))
