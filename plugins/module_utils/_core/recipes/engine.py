# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the core needs to know of an engine. The facts stand in `_engines/`, one file an engine; the core gets them as a value."""

from __future__ import annotations

import re
import typing as t
from dataclasses import dataclass, field

from ..base.arguments import Arguments, is_switch, normal
from ..base.version import at_least
from ..model.model_config import ModelConfig
from ..proof.measured import Counted
from .flags import FlagTable


class Sizes(t.NamedTuple):
    """The parallel sizes of one member. `gpus` is how many devices they need together; `written` says whether any is spelled out. `context`
    are ranks that share the work on one prompt (their devices are of their own, or out of the tensor-parallel ones, as the engine has it),
    `shards` the ranks that a prompt's KV cache is dealt out to."""

    tensor: int
    data: int
    pipeline: int
    gpus: int
    written: bool
    context: int = 1
    shards: int = 1
    # Ranks that hold one copy of the attention layers together; 0: all tensor-parallel ones.
    heads: int = 0

    @property
    def attention(self) -> int:
        """The width of one copy of the attention layers."""
        return self.heads or self.tensor

    @property
    def world(self) -> int:
        """Ranks of the member, each with a port of its own where the transport wants one."""
        return max(self.gpus, self.tensor * self.data * self.pipeline)


class Speculation(t.NamedTuple):
    """Speculative decoding as an engine is told to do it. `draftless` methods guess from the text, and keep nothing in the KV cache;
    `compared` is what both sides must say alike, None when it cannot be read."""

    method: str
    draftless: bool
    compared: t.Mapping[str, t.Any] | None
    # Tokens that are guessed at a time; None where it is not written.
    tokens: str | None = None


class Lack(t.NamedTuple):
    """That an engine does not take a flag: the words for it, behind the flag's name; the flag to write in its place, nothing where none is
    like it; those that it may be short for; and whether the engine is known to be of a version without it, or nothing is known of it."""

    why: str
    instead: str
    begun: tuple[str, ...]
    certain: bool


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
    metrics_path: str = "/metrics"
    # Gauges whose sum is the number of requests in a member, and the one that is above zero while it holds KV.
    busy_metrics: tuple[str, ...] = ()
    held_metrics: tuple[str, ...] = ()
    # Counters of the requests that a member has done with: what was in it at one moment is out when they have grown by as much.
    done_metrics: tuple[str, ...] = ()
    # What became of its requests, and when they got their first token.
    counted: Counted = field(default_factory=Counted)
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
    # Variables whose expandable_segments:True moves memory that a connector has registered, and the flags that make up for it.
    allocator_env: tuple[str, ...] = ()
    allocator_exempt: tuple[str, ...] = ()
    # Variables of how long a member waits for its peer, in seconds, with the engine's default; None: it has no say unless it is set.
    waits: t.Mapping[str, int | None] = field(default_factory=dict)
    # The share of a card that a member takes when it does not say.
    memory_fraction: float | None = None
    # What a handshake compares beyond the common factors, by its name in a mode's `pairing.handshake`.
    handshakes: t.Mapping[str, t.Callable[..., None]] = field(default_factory=dict)

    # All its flags; None where nobody knows them.
    flags: FlagTable | None = None
    # What other engines call the options of this one: their flag's name, and this engine's own.
    foreign: t.Mapping[str, str] = field(default_factory=dict)

    def arguments(self, argv: t.Sequence[str]) -> Arguments:
        """An argv in this engine's reading: abbreviations, short names and underscores are the flags that they stand for."""
        return Arguments(argv, self.flags.canonical if self.flags else normal)

    def names(self, option: str) -> tuple[str, ...]:
        return self.spellings.get(option, (option,))

    def takes_none(self, written: str) -> bool:
        """Whether a flag takes no value: as the table says, or by its name where the table has not got it."""
        flag = self.flags.flag(written) if self.flags else None
        return flag.takes == "none" if flag else is_switch(written)

    def lack(self, written: str, version: str | None) -> Lack | None:
        """Why it does not take a flag; None where it does, or where nobody knows. `version` is the engine's, None where it is not known."""
        table = self.flags
        if table is None or table.flag(written) is not None:
            return None
        begun, was = tuple(sorted(table.begun(written))), table.was(written)
        if was and version and not at_least(version, table.version):
            return None
        name = normal(written).partition(".")[0]
        instead = self.foreign.get(name) or table.instead.get(name) or table.nearest(written) or ""
        if len(begun) > 1:
            why = f"may be any of {', '.join(begun[:6])}"
        elif was:
            why = f"is a flag of older versions: {table.engine} {table.version} does not have it"
        else:
            why = f"is no flag of {table.engine} {table.version}"
        return Lack(
            why, instead, begun if len(begun) > 1 else (), not was and (version is None or _covered(version, table))
        )


def _covered(version: str, table: FlagTable) -> bool:
    """Whether a version's flags were looked at: a release from the oldest to the table's own. A build of somebody's own may have others."""
    plain = re.fullmatch(r"v?\d+(\.\d+)*(\.?post\d+)?", version)
    if not plain:
        return False
    newer = at_least(version, table.version) and not at_least(
        table.version, version.lstrip("v").split("post")[0].rstrip(".")
    )
    return at_least(version, table.since) and not newer
