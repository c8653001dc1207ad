# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where the metrics of a member are, and which of them say what became of the requests of clients."""

from __future__ import annotations

import typing as t

from ..module_utils._core.facts.observed import LiveMember
from ..module_utils._core.proof.measured import Counted
from ..module_utils._core.spec.spec import ENGINE_ROLES
from ..module_utils._engines import registry
from ..module_utils._routers import DIALECTS

# The band of a router's ports that its metrics are at; those of an engine are beside its API.
_METRICS = "prometheus"


def read_of(member: LiveMember) -> dict[str, t.Any] | None:
    """What is read of a member, and where; None for one that is down, or of a kind whose metrics nobody knows."""
    label = member.label
    if not member.alive or not label.url:
        return None
    counted, url = _of_engine(member) if member.role in ENGINE_ROLES else _of_router(member)
    if not url or not (counted.requests or counted.first_token):
        return None
    return {"id": member.id, "role": member.role, "url": url, **counted.of(member.role)}


def _of_engine(member: LiveMember) -> tuple[Counted, str]:
    engine = registry.by_backend(member.label.backend)
    path = member.label.metrics or (engine.metrics_path if engine else "/metrics")
    return (engine.counted if engine else Counted()), f"{str(member.label.url).rstrip('/')}{path}"


def _of_router(member: LiveMember) -> tuple[Counted, str]:
    """The metrics of a router are at a port of their own, on the address that it serves at."""
    label, band = member.label, member.label.bands.get(_METRICS)
    dialect = DIALECTS.get(label.dialect or "")
    if dialect is None or band is None or not label.address:
        return Counted(), ""
    address = f"[{label.address}]" if ":" in label.address else label.address
    return dialect.counted, f"http://{address}:{band['base']}/metrics"
