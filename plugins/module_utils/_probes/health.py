# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The health of a member: whether it answers, on its health path, or, where it has none (`tcp://HOST:PORT`), by taking a connection."""

from __future__ import annotations

import typing as t
from urllib.parse import urlsplit

from .._core.base.printable import printable
from . import credentials, http
from .dial import Clock, dial

# Nobody reads what is said with it.
_BODY = 64 * 1024
TCP = "tcp"


def ask(url: str, path: str | None, timeout: float) -> tuple[int | None, str]:
    """The status, and why there is none. A connection that is taken counts as 200."""
    try:
        parts = urlsplit(url)
        if parts.scheme != TCP:
            answer = credentials.request("GET", http.join(url, path or "/health"), None, timeout, _BODY)
            return answer.status, ""
        with dial(parts.hostname or "", parts.port or 0, Clock(timeout)):
            return 200, ""
    except http.Unanswered as exc:
        return None, exc.reason
    except (OSError, ValueError) as exc:
        return None, printable(getattr(exc, "strerror", None) or exc)


def asked(label: t.Mapping[str, t.Any]) -> str:
    """What is asked of a member, as a person reads it."""
    url = str(label["url"])
    return url if urlsplit(url).scheme == TCP else http.join(url, label.get("health") or "/health")
