# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# This module util is PRIVATE to the collection.
"""Custom: an engine of the user's own, of which nothing is known. It runs the user's command, and its size is what the spec says."""

from __future__ import annotations

from .._core.arguments import Arguments
from .._core.engine import Engine, Sizes


def _sizes(_arguments: Arguments, gpus: int | None) -> Sizes:
    width = max(1, gpus or 1)
    return Sizes(width, 1, 1, width, False)


ENGINE = Engine(
    backend="Custom",
    spellings={},
    synonyms={},
    toggles={},
    sizes=_sizes,
    width_arguments=lambda _gpus: [],
    auto_context=(),
)
