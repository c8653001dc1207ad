# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Evidence: from what was measured of one request to whether its KV cache moved, and whether the answer is right.

Other requests may run meanwhile. Counters only grow, and each prompt token is counted under exactly one source. So when all sources
together grew by our prompt alone, every count is ours. When they grew by more, two things still prove it for us: that `recomputed` did not
grow at all, or that `moved` grew by just our prompt (its length is odd enough not to be met by chance). All else is unclear, and is
measured again with another prompt."""

from __future__ import annotations

import random
import typing as t
from dataclasses import dataclass, field

from ..base.printable import printable

# Some engines compute the last token of a prompt again, to have something to sample from.
SLACK = 1
# Two tokens of which the likelier one is so much likelier are no rounding difference between the roles' kernels.
MARGIN = 1.0
MIB = 1024 * 1024


@dataclass(frozen=True)
class Growth:
    """What the counters of the receiving side grew by. None: the engine has no such counter."""

    moved: float | None
    recomputed: float | None
    total: float | None = None
    bytes: float | None = None
    seconds: float | None = None
    faults: t.Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Transfer:
    """`clear` is false when other traffic spoils the measurement: measure again. Counts that are not certainly ours are upper bounds."""

    good: bool
    clear: bool
    why: str
    transferred: int | None = None
    recomputed: int | None = None
    quiet: bool = False


@dataclass(frozen=True)
class Generated:
    """What was generated. `top` are the likeliest tokens of each position with their log-probabilities, when these were asked for."""

    text: str
    tokens: tuple[str, ...] = ()
    top: tuple[t.Mapping[str, float], ...] = ()


@dataclass(frozen=True)
class Likeness:
    equal: bool
    good: bool
    why: str


def growth(before: t.Mapping[str, float | None], after: t.Mapping[str, float | None]) -> dict[str, float | None]:
    """What each counter grew by. A counter that appears with its first use began at zero."""
    grown: dict[str, float | None] = {}
    for name, value in after.items():
        grown[name] = None if value is None else value - (before.get(name) or 0.0)
    return grown


def transfer(prompt_tokens: int, grown: Growth, cached_tokens: int | None = None) -> Transfer:
    """Whether the KV cache of a prompt of our own moved. `cached_tokens` is what the answer itself says was not computed, if it does."""
    moved, recomputed = grown.moved, grown.recomputed
    if moved is None:
        return Transfer(False, True, "the engine has no counter of transferred tokens: are its metrics switched off?")
    total = grown.total if grown.total is not None else moved + (recomputed or 0)
    if min(moved, recomputed or 0, total) < 0:
        return Transfer(False, False, "its counters fell: the engine was restarted while it was measured")
    faults = ", ".join(f"{name} +{value:.0f}" for name, value in sorted(grown.faults.items()) if value > 0)
    quiet = total <= prompt_tokens
    need = prompt_tokens - SLACK
    own = int(min(moved, prompt_tokens)), int(min(recomputed or 0, prompt_tokens))
    if moved < need:
        why = f"{own[0]} of {prompt_tokens} prompt tokens were transferred" + (
            f", {own[1]} computed again by decode" if own[1] else ""
        )
        return Transfer(False, True, why + (f" ({faults})" if faults else ""), *own, quiet)
    ours = moved <= prompt_tokens or (cached_tokens is not None and cached_tokens >= need)
    if (recomputed or 0) > SLACK and not (ours and not quiet):
        if quiet:
            return Transfer(
                False, True, f"decode computed {own[1]} of {prompt_tokens} prompt tokens again", *own, quiet
            )
        why = f"other requests ran on this decode, and prompts were computed there ({recomputed:.0f} tokens): whose cannot be told"
        return Transfer(False, False, why, own[0], None, quiet)
    if faults:
        return Transfer(False, False, f"the tokens moved, but {faults}", own[0], 0, quiet)
    return Transfer(True, True, "", own[0], own[1] if quiet else 0, quiet)


def likeness(expected: Generated, got: Generated, exact: bool) -> Likeness:
    """Whether decode says what prefill alone says. With `exact` letter by letter; else up to a first difference between near equals."""
    if got.text == expected.text:
        return Likeness(True, True, "")
    if exact:
        return Likeness(
            False,
            False,
            f"the answer is not what prefill alone gives: {_short(got.text)} instead of {_short(expected.text)}",
        )
    place = next((i for i, (a, b) in enumerate(zip(expected.tokens, got.tokens)) if a != b), None)
    if place is None or place >= len(expected.top):
        return Likeness(
            False, True, "the texts differ, and without log-probabilities it cannot be told whether by rounding"
        )
    likely = expected.top[place]
    best, other = max(likely.values(), default=0.0), likely.get(got.tokens[place])
    where = f"the texts differ from token {place + 1} on"
    if other is None or best - other > MARGIN:
        far = (
            "which prefill alone finds unlikely"
            if other is None
            else f"which prefill alone finds {best - other:.1f} nats less likely"
        )
        return Likeness(
            False,
            False,
            f"{where}: decode chose {printable(got.tokens[place])!r}, {far} ({_short(got.text)} instead of {_short(expected.text)})",
        )
    return Likeness(False, True, f"{where}, between two tokens that are about as likely")


def _short(text: str, limit: int = 60) -> str:
    return repr(printable(text, limit))


# -- what is sent ------------------------------------------------------------------------------------------------------------------

_WORDS = [
    *(
        "river",
        "mountain",
        "letter",
        "window",
        "market",
        "garden",
        "music",
        "winter",
        "bridge",
        "silver",
        "morning",
        "paper",
    ),
    *(
        "engine",
        "copper",
        "island",
        "forest",
        "teacher",
        "signal",
        "harbor",
        "meadow",
        "candle",
        "thunder",
        "village",
        "orange",
    ),
    *("station", "pocket", "mirror", "ladder", "velvet", "compass"),
]
SHORT_PROMPT = "Hello, how are you"
LONG_CHARACTERS = 1000


def long_prompt(seed: str, context: int | None) -> str:
    """A prompt of some hundred tokens that no cache has seen: it differs from its first word on, and is not as long as another one. A
    token is a character at least, so that it fits a context of any tokenizer."""
    room = LONG_CHARACTERS if not context else max(40, min(LONG_CHARACTERS, int(context * 0.8) - 40))
    rng = random.Random(seed)
    room -= rng.randrange(room // 8)
    text = f"{seed}:"
    while len(text) < room:
        text += f" {rng.choice(_WORDS)}"
        if rng.random() < 0.1:
            text += f" {rng.randrange(1000)}."
    return text[:room]


def pairs(prefills: t.Sequence[str], decodes: t.Sequence[str], most: int) -> list[tuple[str, str]]:
    """The pairs to measure: all, when they are at most `most`; else each member at least once, and others up to `most`."""
    if not prefills or not decodes:
        return []
    if len(prefills) * len(decodes) <= most:
        return [(p, d) for p in prefills for d in decodes]
    wide = max(len(prefills), len(decodes))
    chosen: dict[tuple[str, str], None] = {}
    for shift in range(wide):
        for i in range(wide):
            if len(chosen) >= most and shift:
                return list(chosen)
            chosen.setdefault((prefills[i % len(prefills)], decodes[(i + shift) % len(decodes)]))
    return list(chosen)


# -- what is told ------------------------------------------------------------------------------------------------------------------


def table(found: t.Sequence[t.Mapping[str, t.Any]]) -> list[str]:
    """The pairs as lines for a person."""
    heads = ("prefill", "decode", "prompt", "moved", "recomputed", "MiB", "GB/s", "text")
    rows = [heads, *(_row(pair) for pair in found)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(heads))]
    lines = [
        "  ".join(c.ljust(w) if i < 2 else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths))) for row in rows
    ]
    return [
        line.rstrip() + (f"  {pair['why']}" if pair and pair.get("why") else "")
        for line, pair in zip(lines, [None, *found])
    ]


def _row(pair: t.Mapping[str, t.Any]) -> tuple[str, ...]:
    def number(name: str) -> str:
        return "-" if pair.get(name) is None else str(pair[name])

    size = pair.get("bytes")
    speed = rate(size, pair.get("seconds"))
    equal = {True: "equal", False: "differs", None: "-"}[pair.get("text_equal")]
    return (
        str(pair["prefill"]),
        str(pair["decode"]),
        number("prompt_tokens"),
        number("transferred_tokens"),
        number("recomputed_tokens"),
        "-" if size is None else f"{size / MIB:.2f}",
        "-" if speed is None else f"{speed:.3f}",
        equal,
    )


def rate(size: float | None, seconds: float | None) -> float | None:
    """GB/s."""
    return size / seconds / 1e9 if size and seconds else None
