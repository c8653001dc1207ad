# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the core needs to know of an engine. The facts stand in `_engines/`, one file an engine; the core gets them as a value."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field

from ..base.arguments import Arguments
from ..model.model_config import ModelConfig


class Sizes(t.NamedTuple):
    """The parallel sizes of one member. `gpus` is how many devices they need together; `written` says whether any is spelled out."""

    tensor: int
    data: int
    pipeline: int
    gpus: int
    written: bool

    @property
    def attention(self) -> int:
        """The width of one copy of the attention layers: data-parallel ranks that share the devices split them among themselves."""
        shared = self.gpus < self.tensor * self.data * self.pipeline
        return max(1, self.tensor // self.data) if shared else self.tensor


class Speculation(t.NamedTuple):
    """Speculative decoding as an engine is told to do it. `draftless` methods guess from the text, and keep nothing in the KV cache;
    `compared` is what both sides must say alike, None when it cannot be read."""

    method: str
    draftless: bool
    compared: t.Mapping[str, t.Any] | None


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
    # Counters of the requests that a member has done with: what was in it at one moment is out when they have grown by as much.
    done_metrics: tuple[str, ...] = ()
    # What a letter behind a number multiplies it by, where the engine reads such numbers.
    units: t.Mapping[str, int] = field(default_factory=dict)
    # Words of a context length that mean "what fits in memory": it may come out differently on two members.
    auto_context: tuple[str, ...] = ("auto", "-1")
    # What an option that is silent or auto comes to, by the model's config.json, the option and the dtype that is written; None: it
    # cannot be told.
    settle: t.Callable[[ModelConfig, str, str | None], str | None] = lambda _config, _option, _dtype: None
    # Flags that turn speculative decoding on, and what they say; methods that need no draft of their own in the KV cache.
    speculation: t.Callable[[Arguments], Speculation | None] = lambda _arguments: None
    # Flags of adapters, which no router can address.
    adapter_flags: tuple[str, ...] = ()
    # Flag and variables of the key that clients must show.
    key_flags: tuple[str, ...] = ("api-key",)
    key_env: tuple[str, ...] = ()
    # Flags of a file in which any other flag may stand.
    config_flags: tuple[str, ...] = ()
    # Flags and variables that shape what the two sides exchange: written on one side alone, or differently, they misplace it.
    equal_flags: tuple[str, ...] = ()
    equal_env: tuple[str, ...] = ()
    # Variables whose expandable_segments:True moves memory that a connector has registered, and the flags that make up for it.
    allocator_env: tuple[str, ...] = ()
    allocator_exempt: tuple[str, ...] = ()
    # Variables of how long a member waits for its peer, in seconds, with the engine's default; None: it has no say unless it is set.
    waits: t.Mapping[str, int | None] = field(default_factory=dict)
    # The share of a card that a member takes when it does not say.
    memory_fraction: float | None = None
    # What a handshake compares beyond the common factors, by its name in a mode's `pairing.handshake`.
    handshakes: t.Mapping[str, t.Callable[..., None]] = field(default_factory=dict)

    def names(self, option: str) -> tuple[str, ...]:
        return self.spellings.get(option, (option,))
