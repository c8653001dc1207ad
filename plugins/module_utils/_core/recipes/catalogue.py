# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The catalogue of modes: what a spec is judged by; and as a user asks for it, which modes fit an engine and the GPUs of a fleet, which is
preferred, and why not the others."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from .engine import Engine
from .mode import Mode


@dataclass(frozen=True)
class Catalogue:
    """What a spec is judged by: the modes by name, and the engine of a backend."""

    modes: t.Mapping[str, Mode]
    engine: t.Callable[[str | None], Engine | None]


def describe(
    modes: t.Mapping[str, Mode], backend: str | None, vendors: t.Sequence[str], vendor: str | None
) -> dict[str, t.Any]:
    """Every mode with available and the reason when not; the preferred one, or why none is derived."""
    seen = sorted({v.lower() for v in vendors})
    chosen = vendor.lower() if vendor else (seen[0] if len(seen) == 1 else None)
    rows = {
        name: {**_summary(mode), **_availability(mode, backend, seen, chosen)} for name, mode in sorted(modes.items())
    }
    preferred, why = _preferred(modes, rows, seen, vendor, chosen)
    return {"modes": rows, "preferred": preferred, "why_none": why}


def _summary(mode: Mode) -> dict[str, t.Any]:
    router = mode.router
    return {
        "summary": mode.summary,
        "backend": mode.backend,
        "vendors": list(mode.vendors),
        "known_versions": mode.known_versions,
        "router": router.executable if router else None,
        "membership": router.default_membership if router else "manual",
        "memberships": list(router.memberships) if router else ["manual"],
        "tensor_parallel": mode.pairing.get("tensor_parallel", "any"),
        "interface_plane": mode.interface_plane,
        "source": mode.source,
    }


def _availability(mode: Mode, backend: str | None, seen: list[str], chosen: str | None) -> dict[str, t.Any]:
    if backend and mode.backend and mode.backend.lower() != backend.lower():
        return {
            "available": False,
            "code": "backend_mismatch",
            "reason": f"it configures {mode.backend}, not {backend}",
        }
    fleet = [chosen] if chosen else seen
    if mode.vendors and fleet and not any(v in mode.vendors for v in fleet):
        return {
            "available": False,
            "code": "vendor_mismatch",
            "reason": f"it needs {' or '.join(mode.vendors)} GPUs, the hosts have {', '.join(fleet)}",
        }
    return {"available": True, "code": None, "reason": None}


def _preferred(
    modes: t.Mapping[str, Mode],
    rows: t.Mapping[str, dict[str, t.Any]],
    seen: list[str],
    vendor: str | None,
    chosen: str | None,
) -> tuple[str | None, dict[str, str] | None]:
    if vendor and seen and vendor.lower() not in seen:
        return None, {"code": "vendor_not_in_fleet", "reason": f"no host has {vendor} GPUs (seen: {', '.join(seen)})"}
    if not chosen and len(seen) > 1:
        return None, {
            "code": "multiple_vendors",
            "reason": f"the hosts have {', '.join(seen)} GPUs and one group cannot span them: set vendor",
        }
    if not chosen:
        return None, {"code": "vendors_unknown", "reason": "no host reports its GPUs: name the mode, or give vendors"}
    built_in = [name for name, mode in modes.items() if rows[name]["available"] and mode.vendors]
    if not built_in:
        return None, {
            "code": "no_built_in_recipe",
            "reason": f"no mode is made for {chosen} GPUs with this engine; custom stays possible",
        }
    best = [name for name in built_in if modes[name].preferred] or (built_in if len(built_in) == 1 else [])
    if len(best) == 1:
        return best[0], None
    return None, {
        "code": "no_preferred_recipe",
        "reason": f"several fit and none is preferred: {', '.join(sorted(built_in))}",
    }
