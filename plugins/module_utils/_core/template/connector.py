# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which connector a mode takes, where it has more than one for different KV layouts (docs/modes.md).

The choice follows from the model's config.json, never from a name, and is kept in the group's record: a file that becomes readable later
must not split a pair. It is made anew when the model's inputs change."""

from __future__ import annotations

import hashlib
import json
import typing as t

from ..base.arguments import Arguments, read_json_object
from ..model import model_config
from ..recipes.engine import Engine
from ..recipes.mode import Mode
from ..spec.known import Known
from ..spec.spec import Group


def choose(mode: Mode, group: Group, engine: Engine, prefill: Arguments, known: Known) -> dict[str, t.Any]:
    """The choice to use and to record, as {connector, layout, inputs}; empty for a mode without variants."""
    if mode.connector is None or not mode.connector.variants:
        return {}
    overrides = prefill.value(engine.names("hf_overrides"))
    told = [group.model, prefill.value(engine.names("revision")), overrides, dict(mode.connector.variants)]
    inputs = hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:16]
    kept = known.recorded.get("connector") or {}
    if kept.get("inputs") == inputs and kept.get("connector"):
        return {"connector": dict(kept)}
    config = model_config.read(known.config_of(group), read_json_object(overrides or ""))
    layout = "unknown" if config is None else "hybrid" if config.hybrid else "standard"
    return {"connector": {"connector": mode.connector.variants[layout], "layout": layout, "inputs": inputs}}
