# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The base of every action that carries out a part of a run's plan: it reads its host's part of a wave from the run's folder, calls the
host once for all workloads of it, and keeps what the host said of each."""

from __future__ import annotations

import typing as t

from ansible.errors import AnsibleConnectionFailure, AnsibleError

from ..module_utils._core.base.errors import PdError
from ..module_utils._core.base.printable import printable
from ..module_utils._core.course.course import Course
from ..module_utils._core.course.parcel import Parcel
from ._action import PdAction
from .locking import holder
from .run_folder import Result, RunFolder

RUN: dict[str, t.Any] = {
    "run": {"type": "path", "required": True},
    "wave": {"type": "int", "default": 0},
    "round": {"type": "int"},
}
_LONGEST = 300


class RunAction(PdAction):
    """Subclasses give `step`, under which what hosts say is kept."""

    _requires_connection = True
    # The differences that modules of this task have told.
    _diffs: t.Sequence[t.Any] = ()

    @property
    def host(self) -> str:
        return str(self.task_vars["inventory_hostname"])

    @property
    def folder(self) -> RunFolder:
        return RunFolder(str(self.args["run"]))

    @property
    def wave(self) -> int:
        return int(self.args["wave"])

    def parcels(self) -> dict[str, tuple[Parcel, Course]]:
        """This host's part of the wave, with how far each workload has come. A host that only has hooks of a workload has none of it."""
        return {name: one for name, one in self.every_parcel().items() if one[0].plan.hosts}

    def every_parcel(self) -> dict[str, tuple[Parcel, Course]]:
        """The same with those of which it only has hooks."""
        found = self.folder.parcels(self.wave, self.host, self.args.get("round"))
        courses = self.folder.courses(self.wave, found)
        return {name: (parcel, courses[name]) for name, parcel in found.items()}

    def step(self, name: str) -> str:
        """The name of a step; in a round of renewal, with its number."""
        number = self.args.get("round")
        return name if number is None else f"{name}.{number + 1}"

    def left_alone(self, step: str, names: t.Iterable[str]) -> Result | None:
        """What is answered for a host that has not answered in an earlier phase; None for one that is asked. Each phase in which it is
        missing waits for a connection: once is enough."""
        why = self.folder.silent(self.host)
        if not why:
            return None
        self.folder.say(self.wave, step, self.host, {name: {"unreachable": True, "msg": why} for name in names})
        return {"skipped": True, "skip_reason": f"{self.host} is not asked again in this run: {why}"}

    def ask(self, step: str, names: t.Collection[str], call: t.Callable[[], dict[str, Result]]) -> dict[str, Result]:
        """What `call` says of each workload, kept. A host that does not answer is noted, and what it would have said with it; one on which
        the module falls over, or that cannot be asked for what its variables say, fails all of them, and nothing else."""
        # First that it has not ended: whatever keeps the answer from coming, silence is no yes.
        unended = {"failed": True, "ok": False, "good": False, "phase": step.partition(".")[0], "msg": "it did not end"}
        self.folder.say(self.wave, step, self.host, dict.fromkeys(names, unended))
        try:
            results = call()
        except AnsibleConnectionFailure as exc:
            why = printable(exc, _LONGEST)
            self.folder.note_silent(self.host, f"it did not answer ({why})")
            self.folder.say(self.wave, step, self.host, {name: {"unreachable": True, "msg": why} for name in names})
            raise
        except (PdError, AnsibleError) as exc:
            told = {"failed": True, "ok": False, "phase": step.partition(".")[0], "msg": str(exc)}
            results = {name: dict(told) for name in names}
        self.folder.say(self.wave, step, self.host, results)
        return results

    def module(self, name: str, arguments: t.Mapping[str, t.Any], names: t.Collection[str]) -> dict[str, Result]:
        """Run a module of the collection on the host for these workloads, and give what it says of each."""
        given = {key: value for key, value in arguments.items() if value is not None}
        result = self._execute_module(module_name=f"inferops.pd.{name}", module_args=given, task_vars=self.task_vars)
        self._diffs = [*self._diffs, *t.cast("t.Iterable[t.Any]", result.get("diff") or ())]
        self._told_too += [str(one) for one in t.cast("t.Iterable[t.Any]", result.get("warnings") or ())]
        found = result.get("workloads")
        if isinstance(found, dict) and not result.get("failed"):
            return found
        if result.get("unreachable"):
            raise AnsibleConnectionFailure(str(result.get("msg") or f"{self.host} did not answer"))
        fell = "module_stdout" in result
        msg = str(result.get("msg") or "it gave no reason")
        if fell:
            msg = f"module {name} fell over, so that nobody knows what it had done by then: {_last_words(result)}"
        return {one: {"failed": True, "ok": False, "fell": fell, "msg": printable(msg, 2 * _LONGEST)} for one in names}

    def run(self, tmp: str | None = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        self._told_too: list[str] = []
        result = super().run(tmp, task_vars)
        if self._told_too:
            result["warnings"] = [*(result.get("warnings") or ()), *dict.fromkeys(self._told_too)]
        return result

    def holder(self, parcels: t.Iterable[Parcel], longest: float = 0) -> dict[str, t.Any]:
        """Who holds the locks of these workloads: they are all of one run."""
        plans = [parcel.plan for parcel in parcels]
        dead = sorted({one for plan in plans for one in plan.dead_locks or ()})
        hold = max((plan.hold for plan in plans), default=0.0)
        return {**holder(plans[0].run if plans else "", hold + longest), "dead": dead}


def _last_words(result: t.Mapping[str, t.Any]) -> str:
    """Of a module that fell over, or was killed, without the traceback above them."""
    said = str(result.get("module_stderr") or result.get("module_stdout") or result.get("exception") or "")
    return next((line.strip() for line in reversed(said.split("\n")) if line.strip()), "it gave no reason")
