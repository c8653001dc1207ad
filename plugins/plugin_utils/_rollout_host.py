# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The base of what a rollout asks of hosts in a turn: each is called once for all of its groups, and what it says is kept. A host that does
not answer says that of each, and ends nothing."""

from __future__ import annotations

import typing as t

from ansible.errors import AnsibleConnectionFailure, AnsibleError

from ..module_utils._core.base.errors import PdError
from ..module_utils._core.base.printable import printable
from ._action import PdAction
from ._rollout_fleet import Known
from .locking import holder
from .rollout_folder import Plain, RolloutFolder

_LONGEST = 300


class RolloutHostAction(PdAction):
    """Subclasses give `what`, under which answers are kept."""

    _requires_connection = True
    what = ""

    @property
    def host(self) -> str:
        return str(self.task_vars["inventory_hostname"])

    def begin(self) -> tuple[RolloutFolder, Plain, dict[str, Known]]:
        """(the rollout's folder, the turn, its groups as they are known)."""
        folder = RolloutFolder(str(self.args["rollout"]))
        state = folder.state()
        known = {name: Known.from_plain(raw) for name, raw in state["known"].items()}
        # A host cannot tell of a run on this machine whether it still lives.
        self.who = {**holder(state["run"]), "dead": sorted({lock for one in known.values() for lock in one.dead})}
        return folder, folder.turn(), known

    def ask(self, called: t.Mapping[str, str], module: str, arguments: t.Mapping[str, t.Any]) -> dict[str, Plain]:
        """What the module says of each group, kept. `called` are the groups by what the module calls them."""
        names = called.values()
        folder = RolloutFolder(str(self.args["rollout"]))
        number = folder.turn()["number"]

        def nothing(why: str) -> dict[str, Plain]:
            return {name: {"failed": True, "changed": False, "msg": printable(why, _LONGEST)} for name in names}

        folder.say(self.what, number, self.host, nothing("it did not end"))
        given = {key: value for key, value in arguments.items() if value is not None}
        try:
            result = self._execute_module(
                module_name=f"inferops.pd.{module}", module_args=given, task_vars=self.task_vars
            )
        except AnsibleConnectionFailure as exc:
            folder.say(self.what, number, self.host, nothing(f"it did not answer ({exc})"))
            raise
        except (PdError, AnsibleError) as exc:
            result = {"failed": True, "msg": str(exc)}
        found = result.get("workloads")
        if not isinstance(found, dict) or result.get("failed"):
            said = "its module fell over" if "module_stdout" in result else str(result.get("msg") or "no reason given")
            found = {key: nothing(said)[name] for key, name in called.items()}
        found = {called[key]: one for key, one in found.items()}
        folder.say(self.what, number, self.host, found)
        return found
