# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A chat, as a proof asks it. Prefill and decode each make tokens of it by themselves, by their own tokenizer and chat template: what they
make is compared before any KV cache moves, since a decode that finds blocks of another length may end."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ..base import json_text
from . import evidence

# A short text, whatever the context: the template adds to it.
CHARACTERS = 320


def messages(seed: str, context: int | None) -> list[dict[str, str]]:
    """One turn that no cache has seen."""
    text = evidence.long_prompt(seed, min(context or CHARACTERS, CHARACTERS))
    return [{"role": "user", "content": text}]


@dataclass(frozen=True)
class Rendering:
    """What a member makes of a chat: its tokens, or how many there are; what it says where it takes none. All None: it cannot be told."""

    tokens: tuple[int, ...] | None = None
    count: int | None = None
    refused: str | None = None

    @property
    def length(self) -> int | None:
        return len(self.tokens) if self.tokens is not None else self.count

    @classmethod
    def of_tokenize(cls, found: t.Any) -> Rendering | None:
        """Of an answer to POST /tokenize; None when it tells no tokens."""
        tokens = json_text.member(found, "tokens")
        whole = isinstance(tokens, list) and all(isinstance(one, int) and not isinstance(one, bool) for one in tokens)
        return cls(tuple(tokens)) if whole and tokens else None


UNKNOWN = Rendering()


def difference(one: tuple[str, Rendering], two: tuple[str, Rendering]) -> str:
    """Why two members' renderings, each with the member's name, do not go together; empty where they do, or it cannot be told."""
    (first, mine), (second, its) = one, two
    if (mine.refused is None) != (its.refused is None) and UNKNOWN not in (mine, its):
        refuses, takes, why = (
            (first, second, mine.refused) if mine.refused is not None else (second, first, its.refused)
        )
        return f"{refuses} takes no chat ({why}), {takes} does"
    if None in (mine.length, its.length):
        return ""
    if mine.length != its.length:
        return f"a chat is {mine.length} tokens to {first}, {its.length} to {second}{_CAUSE}"
    if mine.tokens is not None and its.tokens is not None and mine.tokens != its.tokens:
        place = next(at for at, (a, b) in enumerate(zip(mine.tokens, its.tokens)) if a != b)
        return f"a chat is other tokens to {first} than to {second}, from token {place + 1} of {mine.length} on{_CAUSE}"
    return ""


_CAUSE = ": their chat template, its defaults or their tokenizer differ"
