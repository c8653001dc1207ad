# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which workloads go through the phases together."""

from __future__ import annotations

import typing as t

from .value import Plan


def waves(
    plans: t.Mapping[str, Plan], needs: t.Mapping[str, t.Collection[str]], parallel: int | None = None
) -> tuple[tuple[str, ...], ...]:
    services = tuple(n for n in plans if plans[n].kind == "cache")
    groups = [n for n in plans if n not in services]
    return tuple(one for one in (services, tuple(groups)) if one)
