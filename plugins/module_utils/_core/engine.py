# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# This module util is PRIVATE to the collection.
"""What the core needs to know of an engine. The facts stand in `_engines/`, one file an engine; the core gets them as a value."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field

from .arguments import Arguments


class Sizes(t.NamedTuple):
    """The parallel sizes of one member. `gpus` is how many devices they need together; `written` says whether any is spelled out."""

    tensor: int
    data: int
    pipeline: int
    gpus: int
    written: bool


@dataclass(frozen=True)
class Engine:
    """One engine's command line and HTTP surface, as data, with the two functions that are arithmetic of its own."""

    backend: str
    # canonical option name -> spellings without dashes; underscores are read as hyphens everywhere.
    spellings: t.Mapping[str, tuple[str, ...]]
    # Values of a text option that mean the same.
    synonyms: t.Mapping[str, t.Mapping[str, str]]
    # (on flag, off flag, default) of each toggle that both sides of a pair must agree on.
    toggles: t.Mapping[str, tuple[str, str, bool | None]]
    sizes: t.Callable[[Arguments, int | None], Sizes]
    # The argv that makes a member use `gpus` devices when its args write no parallel size.
    width_arguments: t.Callable[[int], list[str]]
    health_path: str = "/health"
    version_path: str | None = None
    metrics_path: str = "/metrics"
    # Gauges whose sum is the number of requests in a member, and the one that is above zero while it holds KV.
    busy_metrics: tuple[str, ...] = ()
    held_metrics: tuple[str, ...] = ()
    # What a letter behind a number multiplies it by, where the engine reads such numbers.
    units: t.Mapping[str, int] = field(default_factory=dict)
    # Words of a context length that mean "what fits in memory": it may come out differently on two members.
    auto_context: tuple[str, ...] = ("auto", "-1")

    def names(self, option: str) -> tuple[str, ...]:
        return self.spellings.get(option, (option,))
