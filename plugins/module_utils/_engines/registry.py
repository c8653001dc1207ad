# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The engines, by backend name. A new engine is a new file here and one line below; what its log can show is a line of symptoms.py.

Hosts read an engine's symptoms and need nothing else of it. Ansible ships them all that a file imports, inside functions as well: so there
are two registries, and a test that both have every engine."""

from __future__ import annotations

import functools
from dataclasses import replace

from .._core.recipes.engine import Engine
from . import custom, sglang, vllm


@functools.lru_cache(maxsize=1)
def engines() -> dict[str, Engine]:
    """Every engine, by its backend's name. Each knows what the others call its options, so that a slip between two can be told."""
    found = (vllm.ENGINE, sglang.ENGINE, custom.ENGINE)
    return {engine.backend: replace(engine, foreign=_foreign(engine, found)) for engine in found}


def _foreign(engine: Engine, every: tuple[Engine, ...]) -> dict[str, str]:
    own = {name for names in engine.spellings.values() for name in names}
    return {
        name: f"--{engine.spellings[option][0]}"
        for other in every
        for option, names in other.spellings.items()
        for name in names
        if option in engine.spellings and name not in own
    }


def by_backend(backend: str | None) -> Engine | None:
    """The engine of a backend, spelled in any case; None when there is none."""
    return next((e for name, e in engines().items() if name.lower() == (backend or "").lower()), None)
