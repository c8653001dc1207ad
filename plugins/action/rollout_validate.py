# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller side of rollout_validate: reads one rollout of the inventory, and says which groups it is of."""

from __future__ import annotations

import typing as t

from ..module_utils._core.base.errors import PdError
from ..module_utils._core.base.values import boolean
from ..module_utils._core.base.words import names
from ..module_utils._core.rollout import draw
from ..module_utils._core.rollout.spec import VARIABLE, Rollout
from ..module_utils._core.rollout.standing import Standing
from ..plugin_utils._action import PdAction
from ..plugin_utils._batch import check_batch, check_variables
from ..plugin_utils._rollouts import names_of, rollout_of


class ActionModule(PdAction):
    ARGUMENTS: t.ClassVar[dict[str, t.Any]] = {
        "name": {"type": "str"},
        "pause": {"type": "raw"},
        "abort": {"type": "raw"},
        "resume": {"type": "raw"},
    }

    def act(self) -> dict[str, t.Any]:
        check_batch(self._task, self.task_vars)
        check_variables(self._task, self.variable)
        rollout = rollout_of(self, self._name())
        labels = self.groups().labels()
        fleet = {name: Standing(labels=labels.get(name, {})) for name in self.groups()}
        selected = draw.selected(rollout, fleet)
        # What counts for max_unavailable may be in groups that this rollout leaves alone.
        beside = sorted(set(fleet) - set(selected)) if _counts_others(rollout) else []
        return {"name": rollout.name, "groups": selected, "beside": beside, "state": self._state()}

    def _name(self) -> str:
        """Which rollout: the only one there is, where none is named."""
        there, given = names_of(self), self.args["name"]
        if given:
            return str(given)
        if len(there) == 1:
            return there[0]
        known = f"There are {names(there)}." if there else f"None is defined: write {VARIABLE} (docs/rollouts.md)."
        raise PdError(f"Which rollout? Name it: -e pd_rollout=NAME. {known}")

    def _state(self) -> str:
        """What a person has said to a rollout that is under way. Empty text is left out."""
        pause, abort, resume = (self._flag(key) for key in ("pause", "abort", "resume"))
        said = [key for key, value in (("pause", pause), ("abort", abort), ("resume", resume)) if value]
        if len(said) > 1:
            told = " and ".join(f"pd_rollout_{key}" for key in said)
            raise PdError(f"{told} are true at once. Say one of them.")
        if resume or pause is False:
            return "go"
        return said[0] if said else "run"

    def _flag(self, key: str) -> bool | None:
        given = self.args[key]
        if given is None or given == "":
            return None
        found = boolean(given)
        if found is None:
            raise PdError(f"pd_rollout_{key}: {given!r} is neither true nor false.")
        return found


def _counts_others(rollout: Rollout) -> bool:
    return any(wave.max_unavailable for wave in rollout.waves)
