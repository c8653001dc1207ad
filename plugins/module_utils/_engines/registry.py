# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The engines, by backend name. A new engine is a new file here and one line below; what its log can show is a line of symptoms.py.

Hosts read an engine's symptoms and need nothing else of it. Ansible ships them all that a file imports, inside functions as well: so there
are two registries, and a test that both have every engine."""

from __future__ import annotations

from .._core.recipes.engine import Engine
from . import custom, sglang, vllm


def engines() -> dict[str, Engine]:
    """Every engine, by its backend's name."""
    return {engine.backend: engine for engine in (vllm.ENGINE, sglang.ENGINE, custom.ENGINE)}


def by_backend(backend: str | None) -> Engine | None:
    """The engine of a backend, spelled in any case; None when there is none."""
    return next((e for name, e in engines().items() if name.lower() == (backend or "").lower()), None)
