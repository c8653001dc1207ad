# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The routers' worker registries, by dialect name. A new router is a new file here and one line below."""

from __future__ import annotations

from .._core.base.errors import PdError
from . import sglang_router, vllm_router
from .protocol import RouterDialect

DIALECTS: dict[str, RouterDialect] = {d.name: d for d in (vllm_router.DIALECT, sglang_router.DIALECT)}


def dialect(name: str | None) -> RouterDialect:
    """The registry API of that name. Raises PdError naming the known ones."""
    found = DIALECTS.get(name or "")
    if found is None:
        raise PdError(f"{name!r} is no router dialect that has a registry. Known: {', '.join(sorted(DIALECTS))}.")
    return found
