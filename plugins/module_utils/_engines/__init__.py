# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# This module util is PRIVATE to the collection.
"""The engines, by backend name. A new engine is a new file here and one line below.

They are imported when one is asked for: hosts read an engine's symptoms, and need none of the rules, which would cost every module call
a tenth of a second."""

from __future__ import annotations

import functools
import typing as t

if t.TYPE_CHECKING:
    from .._core.recipes.engine import Engine


@functools.cache
def engines() -> dict[str, Engine]:
    """Every engine, by its backend's name."""
    from . import custom, sglang, vllm

    return {engine.backend: engine for engine in (vllm.ENGINE, sglang.ENGINE, custom.ENGINE)}


def by_backend(backend: str | None) -> Engine | None:
    """The engine of a backend, spelled in any case; None when there is none."""
    return next((e for name, e in engines().items() if name.lower() == (backend or "").lower()), None)
