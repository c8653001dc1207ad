# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Versions of engines and routers, compared as far as they can be told."""

from __future__ import annotations

import re

_RELEASE = re.compile(r"v?(\d{1,6}(?:\.\d{1,6}){0,7})$")
_ANY = re.compile(r"v?(\d{1,6}(?:\.\d{1,6}){0,7})([.-]?(?:a|b|rc|dev)\d*)?(?:[.-]?(?:post|dev)\d*)*(?:\+[\w.]+)?$")


def _numbers(text: str) -> list[int]:
    numbers = [int(n) for n in text.split(".")]
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return numbers


def below(version: str, known: str) -> bool:
    """Whether a plain release version is positively below the floor of `known` (">=0.27.1"). Local and pre-release versions never are."""
    floor = re.match(r">=\s*(\d+(?:\.\d+)*)$", known)
    mine = _RELEASE.match(version)
    return bool(floor and mine and _numbers(mine.group(1)) < _numbers(floor.group(1)))


def at_least(version: str | None, floor: str) -> bool:
    """Whether a version is known to be `floor` or newer. Local builds count as their release, a pre-release as older than it."""
    match = _ANY.match(version or "")
    if not match:
        return False
    mine, least = _numbers(match.group(1)), _numbers(floor)
    return mine > least or (mine == least and not match.group(2))
