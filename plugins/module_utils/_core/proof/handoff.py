# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Handoffs: how the two hops of one request are sent without a router, to prove one exact pair. A row of HANDOFFS is all there is to one;
a mode names its row by `handoff`."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Handoff:
    """One way from prefill to decode. `first` is what the first hop is asked beside its prompt, and None where only the router can send the
    two; `carries` is the key of its answer that the second hop is sent."""

    first: t.Mapping[str, t.Any] | None
    carries: str = ""
    # What makes two answers comparable: asked of every completion of more than one token, ...
    asks: t.Mapping[str, t.Any] = field(default_factory=dict)
    # ... and where texts need not be equal to the letter.
    asks_likelihood: t.Mapping[str, t.Any] = field(default_factory=dict)

    @property
    def measured(self) -> bool:
        """Whether a pair can be measured without its router."""
        return self.first is not None

    def beside(self, tokens: int, exact_text: bool) -> dict[str, t.Any]:
        """What a completion of so many tokens is asked beside its prompt."""
        if not self.measured or tokens <= 1:
            return {}
        return {**self.asks, **({} if exact_text else self.asks_likelihood)}


HANDOFFS: dict[str, Handoff] = {
    # Prefill computes one token, and answers where its blocks are; decode is told so, and fetches them.
    "kv_transfer_params": Handoff(
        first={
            "max_tokens": 1,
            "kv_transfer_params": {
                "do_remote_decode": True,
                "do_remote_prefill": False,
                **dict.fromkeys(("remote_engine_id", "remote_block_ids", "remote_host", "remote_port")),
            },
        },
        carries="kv_transfer_params",
        # A model may end its answer at once, and then there is nothing to compare.
        asks={"ignore_eos": True},
        asks_likelihood={"logprobs": 5},
    ),
    # Both get the request at once, and meet in a room of prefill's bootstrap server, whose number the router draws.
    "bootstrap_room": Handoff(first=None),
}
NONE = Handoff(first=None)


def handoff_of(name: str | None) -> Handoff:
    """The row of that name; one that measures nothing where there is no such row."""
    return HANDOFFS.get(name or "", NONE)
