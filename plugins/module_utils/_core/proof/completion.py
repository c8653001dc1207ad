# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An engine's answer to a prompt, read from JSON of whatever shape. What is not of its kind is as if it were not there."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ..base import json_text
from .evidence import Generated


@dataclass(frozen=True)
class Completion:
    """A text completion (POST /v1/completions). `cached_tokens` is what the answer itself says was not computed (vLLM with
    --enable-prompt-tokens-details); None where it does not say. `raw` is the answer's object, for what only a handoff knows."""

    generated: Generated
    prompt_tokens: int | None
    completion_tokens: int | None
    cached_tokens: int | None
    raw: t.Mapping[str, t.Any]

    @property
    def text(self) -> str:
        return self.generated.text

    @classmethod
    def read(cls, found: t.Any) -> Completion | None:
        """Of an answer's JSON; None when it is no completion."""
        choice = json_text.member(found, "choices", 0)
        if not isinstance(found, dict) or not isinstance(found.get("choices"), list) or not isinstance(choice, dict):
            return None
        usage = found.get("usage")
        return cls(
            generated=_generated(choice),
            prompt_tokens=json_text.count(json_text.member(usage, "prompt_tokens")),
            completion_tokens=json_text.count(json_text.member(usage, "completion_tokens")),
            cached_tokens=json_text.count(json_text.member(usage, "prompt_tokens_details", "cached_tokens")),
            raw=found,
        )

    def carried(self, key: str) -> t.Mapping[str, t.Any] | None:
        """What the next hop is sent of it; None when there is nothing that could be."""
        found = self.raw.get(key)
        return found if isinstance(found, dict) and found else None


def context_of(found: t.Any) -> int | None:
    """The shortest context that an engine's list of models (GET /v1/models) names; None when it names none."""
    cards = json_text.member(found, "data")
    lengths = [json_text.count(json_text.member(card, "max_model_len")) for card in cards] if _listed(cards) else []
    return min((length for length in lengths if length), default=None)


def _generated(choice: t.Mapping[str, t.Any]) -> Generated:
    text = choice.get("text")
    if not isinstance(text, str):
        # The same of a chat (POST /v1/chat/completions).
        text = json_text.member(choice, "message", "content")
    tokens = json_text.member(choice, "logprobs", "tokens")
    top = json_text.member(choice, "logprobs", "top_logprobs")
    return Generated(
        json_text.text(text),
        tuple(json_text.text(one) for one in tokens) if _listed(tokens) else (),
        tuple(_likely(one) for one in top) if _listed(top) else (),
    )


def _likely(position: t.Any) -> dict[str, float]:
    """Log-probabilities by token, at one position."""
    if not isinstance(position, dict):
        return {}
    numbers = {token: json_text.number(value) for token, value in position.items()}
    return {token: value for token, value in numbers.items() if value is not None}


def _listed(value: t.Any) -> bool:
    return isinstance(value, list)
