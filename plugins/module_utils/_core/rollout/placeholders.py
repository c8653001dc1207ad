# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Placeholders in what a gate runs and asks: a closed list for each, as in specs. (Double braces would be Jinja in the inventory.)"""

from __future__ import annotations

import difflib
import re
import typing as t

from ..base.finding import Findings
from ..base.placeholders import PLACEHOLDER, names

OF_COMMAND = ("group", "endpoint", "model", "rollout", "wave")
OF_QUERY = ("group", "seconds")


def check(where: str, text: str, known: t.Sequence[str], findings: Findings) -> None:
    """A finding for each placeholder of `text` that is none."""
    for name in names(text):
        if name not in known:
            near = difflib.get_close_matches(name, known, 1, 0.5)
            there = ", ".join(f"${{{one}}}" for one in known)
            findings.error(
                "unknown-placeholder",
                f"{where}: there is no placeholder ${{{name[:60]}}} here.",
                f"Did you mean ${{{near[0]}}}?" if near else f"There are {there}.",
            )


def fill(text: str, values: t.Mapping[str, t.Any]) -> str:
    """The text with all placeholders filled in, which `check` has found to be known; `$${` stands for `${` itself."""

    def one(match: re.Match[str]) -> str:
        return "${" if match.group(1) is None else str(values[match.group(1)])

    return PLACEHOLDER.sub(one, text)
