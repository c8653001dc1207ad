# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# This module util is PRIVATE to the collection.
"""What is known beside a spec when it is judged: each part settles what would otherwise stay open, and none of it is needed."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Known:
    """`config` is the model's config.json; `hosts` are pd_host facts by host name; `choices` what the group's record holds."""

    config: t.Mapping[str, t.Any] | None = None
    hosts: t.Mapping[str, t.Mapping[str, t.Any]] = field(default_factory=dict)
    choices: t.Mapping[str, t.Any] = field(default_factory=dict)


NOTHING = Known()
