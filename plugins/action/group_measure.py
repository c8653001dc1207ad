# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller side of group_measure: which members of a rollout's turn are on the host, where their metrics are, and which of these say
what the gate compares."""

from __future__ import annotations

import typing as t

from ..module_utils._core.facts.observed import LiveMember, read_host
from ..module_utils._core.proof.measured import Counted
from ..module_utils._core.spec.spec import ENGINE_ROLES
from ..module_utils._engines import registry
from ..module_utils._routers import DIALECTS
from ..plugin_utils._rollout_host import RolloutHostAction

# The band of a router's ports that its metrics are at; those of an engine are beside its API.
_METRICS = "prometheus"


class ActionModule(RolloutHostAction):
    what = "measured"
    ARGUMENTS: t.ClassVar[dict[str, t.Any]] = {
        "rollout": {"type": "path", "required": True},
        "register": {"type": "str", "default": "pd_facts"},
    }

    def act(self) -> dict[str, t.Any]:
        _folder, turn, known = self.begin()
        said = self.results_of(self.args["register"], hosts=[self.host]).get(self.host) or {}
        facts = (said.get("ansible_facts") or {}).get("pd_host")
        members = read_host(self.host, facts).members if facts else ()
        asked: dict[str, list[dict[str, t.Any]]] = {}
        for name in turn["measures"]:
            mine = [one for one in members if one.group == name and one.formation == known[name].formation]
            asked[name] = [what for what in map(read_of, mine) if what is not None]
        asked = {name: found for name, found in asked.items() if found}
        if not asked:
            return {"skipped": True, "skip_reason": f"{self.host} has no member that counts anything"}
        self.ask(list(asked), "group_measure", {"workloads": asked})
        return {"changed": False, "workloads": {name: {"members": len(found)} for name, found in asked.items()}}


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
