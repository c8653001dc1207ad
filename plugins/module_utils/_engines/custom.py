# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Custom: an engine of the user's own. It runs the user's command, and its size is what the spec says. Its flags are read by the names that
engines commonly give them, since it is mostly one of those in another shell; what they do not say is not known."""

from __future__ import annotations

from .._core.base.arguments import Arguments
from .._core.recipes.engine import Engine, Sizes

_SPELLINGS = {
    "context_length": ("max-model-len", "context-length"),
    "tensor_parallel_size": ("tensor-parallel-size", "tp-size", "tp"),
    "dtype": ("dtype",),
    "kv_cache_dtype": ("kv-cache-dtype",),
    "block_size": ("block-size", "page-size"),
    "kv_cache_layout": ("kv-cache-layout",),
}


def _sizes(_arguments: Arguments, gpus: int | None) -> Sizes:
    width = max(1, gpus or 1)
    return Sizes(width, 1, 1, width, False)


ENGINE = Engine(
    backend="Custom",
    spellings=_SPELLINGS,
    synonyms={"dtype": {"half": "float16", "float": "float32"}},
    toggles={},
    sizes=_sizes,
    width_arguments=lambda _gpus: [],
    auto_context=(),
)
