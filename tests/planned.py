# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Members of a plan from the little that a test says of them."""

from __future__ import annotations

import typing as t

from ansible_collections.inferops.pd.plugins.module_utils._core.work.member import Member, Part
from ansible_collections.inferops.pd.plugins.module_utils._runtimes.protocol import Wanted

Plain = t.Mapping[str, t.Any]


def part(raw: Plain) -> Part:
    return Part.from_plain({"host": "h1", **raw})


def member(raw: Plain) -> Member:
    """One with a single part, which may be left out."""
    (one,) = raw.get("parts") or ({},)
    return Member.from_plain({"role": "prefill", **raw, "parts": [{"host": "h1", **one}]})


def wanted(raw: Plain, secrets: t.Mapping[str, str] | None = None) -> Wanted:
    made = member(raw)
    return Wanted(made, made.leader, secrets or {})
