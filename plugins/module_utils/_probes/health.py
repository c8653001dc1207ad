# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The health of a member: whether it answers, on its health path, or, where it has none (`tcp://HOST:PORT`), by taking a connection."""

from __future__ import annotations

import socket
import typing as t
from urllib.parse import urlsplit

from . import http

TCP = "tcp"


def ask(url: str, path: str | None, timeout: float) -> tuple[int | None, str]:
    """The status, and why there is none. A connection that is taken counts as 200."""
    parts = urlsplit(url)
    if parts.scheme != TCP:
        try:
            return http.get(http.join(url, path or "/health"), timeout=timeout).status, ""
        except http.Unanswered as exc:
            return None, exc.reason
    try:
        with socket.create_connection((parts.hostname or "", parts.port or 0), timeout):
            return 200, ""
    except OSError as exc:
        return None, exc.strerror or str(exc)


def asked(label: t.Mapping[str, t.Any]) -> str:
    """What is asked of a member, as a person reads it."""
    url = str(label["url"])
    return url if urlsplit(url).scheme == TCP else http.join(url, label.get("health") or "/health")
