# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rollouts as the inventory has them: the entries of pd_rollouts."""

from __future__ import annotations

import typing as t

from ..module_utils._core.base import braces
from ..module_utils._core.base.errors import PdError
from ..module_utils._core.base.finding import Findings
from ..module_utils._core.base.values import blank
from ..module_utils._core.base.words import counted, names
from ..module_utils._core.rollout.spec import VARIABLE, Rollout, read
from ._action import PdAction, Refusal
from ._plain import to_plain

Entry = t.Mapping[str, t.Any]


def names_of(action: PdAction) -> list[str]:
    """The rollouts that there are."""
    return sorted(str(name) for name in _all(action))


def entry_of(action: PdAction, name: str) -> Entry:
    """One of them, templated, but for the command of its gate, which is filled in for each group when it is asked. Raises PdError where
    there is none of that name."""
    every = _all(action)
    if name not in every:
        there = f"There are {names(sorted(map(str, every)))}." if every else f"None is defined: write {VARIABLE}."
        raise PdError(f"{VARIABLE} has no rollout {name!r}. {there}")
    entry = every[name]
    if not isinstance(entry, t.Mapping):
        return t.cast("Entry", action._templated(entry))
    gate = entry.get("gate")
    if not isinstance(gate, t.Mapping) or "command" not in gate:
        return t.cast("Entry", action._templated(dict(entry)))
    rest = {key: value for key, value in gate.items() if key != "command"}
    told: dict[str, t.Any] = action._templated({**entry, "gate": rest})
    return {**told, "gate": {**told["gate"], "command": gate["command"]}}


def gate_command(entry: Entry) -> t.Any:
    """The command of its gate as it is written, not templated; None where it has none."""
    gate = entry.get("gate")
    return gate.get("command") if isinstance(gate, t.Mapping) else None


def rollout_of(action: PdAction, name: str) -> Rollout:
    """A rollout of the inventory, read. What is wrong with it is told, all of it, and ends the task."""
    findings, entry = Findings(), to_plain(entry_of(action, name))
    gate = entry.get("gate") if isinstance(entry, dict) else None
    # The command of a gate is evaluated later, for each group.
    written = {**entry, "gate": {**gate, "command": None}} if isinstance(gate, dict) else entry
    braces.check(written, f"{VARIABLE}.{name}", findings)
    found = read(name, entry, findings)
    if found is None:
        count = counted(len(findings.errors), "error")
        raise action.refused(Refusal(name, f"Rollout {name} is refused: {count}.", findings.to_plain()))
    return found


def _all(action: PdAction) -> t.Mapping[str, t.Any]:
    raw = action.task_vars.get(VARIABLE)
    if isinstance(raw, str):
        raw = action._templated(raw)
    if blank(raw):
        return {}
    if not isinstance(raw, t.Mapping):
        raise PdError(f"{VARIABLE} is no mapping. Write the rollouts under their names: see docs/rollouts.md.")
    return raw
