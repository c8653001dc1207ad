# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""HOST:PORT as users write it, and as a URL has it: the one reading, so that all who meet an address see the same one."""

from __future__ import annotations

import re

LAST_PORT = 65535
_PORT = re.compile(r"[0-9]{1,5}")
# A host is what a resolver may know: an underscore is in no host name by the letter, and in many by use.
_PLACE = re.compile(r"(?:\[([0-9A-Fa-f:.]+(?:%[\w.-]+)?)\]|([^:\s/\[\]]+)):(\d{1,5})")


def port(text: str) -> int | None:
    """A port as text, 0 (any free one) to 65535; None when it is none."""
    found = int(text) if _PORT.fullmatch(text) else None
    return found if found is not None and found <= LAST_PORT else None


def split(text: str) -> tuple[str, int] | None:
    """(host, port) of HOST:PORT, IPv6 in brackets; None when it is not of that form."""
    match = _PLACE.fullmatch(text.strip())
    if not match or not 1 <= int(match[3]) <= LAST_PORT:
        return None
    return match[1] or match[2], int(match[3])


def of_url(url: str | None) -> tuple[str, int] | None:
    """(host, port) of a URL that names its port; None for any other."""
    return split((url or "").partition("://")[2].partition("/")[0])


def join(host: str, port: int) -> str:
    """HOST:PORT, an IPv6 address in brackets."""
    return f"{bracketed(host)}:{port}"


def bracketed(host: str) -> str:
    """A host as it stands before a port."""
    return f"[{host}]" if ":" in host and not host.startswith("[") else host
