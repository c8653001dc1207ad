# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller side of rollout_plan: how the groups of a rollout stand, what is in its way, and the folder of its run."""

from __future__ import annotations

import time
import typing as t

from ..module_utils._core.base.errors import PdError
from ..module_utils._core.base.finding import Findings, sentences
from ..module_utils._core.facts.stands import other_of
from ..module_utils._core.report.proposal import Proposal
from ..module_utils._core.rollout.draw import Waves
from ..module_utils._core.rollout.refusals import refuse
from ..module_utils._core.rollout.spec import Rollout
from ..module_utils._core.rollout.standing import Fleet
from ..module_utils._core.rollout.told import table
from ..module_utils._core.spec.workload import GROUP
from ..plugin_utils import approval
from ..plugin_utils._action import PdAction, Refusal
from ..plugin_utils._plain import names_list, to_plain
from ..plugin_utils._rollout_fleet import Looking
from ..plugin_utils._rollouts import rollout_of
from ..plugin_utils.rollout_folder import RolloutFolder


class ActionModule(PdAction):
    ARGUMENTS: t.ClassVar[dict[str, t.Any]] = {
        "name": {"type": "str", "required": True},
        "groups": {"type": "list", "elements": "str", "required": True},
        "beside": {"type": "list", "elements": "str", "default": []},
        "register": {"type": "str", "default": "pd_facts"},
        "state": {"type": "str", "choices": ["run", "pause", "go", "abort"], "default": "run"},
        "release": {"type": "raw", "default": []},
        "ends": {"type": "float"},
        "plan_out": {"type": "path"},
        "plan_digest": {"type": "str"},
        "plan_digests": {"type": "raw"},
        "plan_file": {"type": "path"},
    }

    def act(self) -> dict[str, t.Any]:
        rollout, now = rollout_of(self, str(self.args["name"])), time.time()
        release = names_list(to_plain(self.args["release"]))
        looking = Looking.of(self, rollout, release)
        groups = names_list(to_plain(self.args["groups"]))
        known = {name: looking.at(name) for name in [*groups, *names_list(to_plain(self.args["beside"]))]}
        fleet, state = {name: one.standing for name, one in known.items()}, self.args["state"]
        findings = Findings()
        waves = refuse(rollout, fleet, findings, names_list(to_plain(self.args["release"])))
        self._display.display("\n".join(table(rollout, fleet, waves)))
        # What is paused or given up needs nothing to be in order.
        if findings.errors and state in ("run", "go"):
            raise self.refused(Refusal(rollout.name, f"Rollout {rollout.name} is refused.", findings.to_plain()))
        proposed = _proposal(rollout, fleet, waves)
        asked = self._check_approved(rollout.name, proposed)
        ends = self.args["ends"]
        if ends is not None and ends <= 0:
            raise PdError(
                f"pd_rollout_minutes: {ends / 60:g} is not above zero. Leave it out for a run without an end."
            )
        folder = RolloutFolder.create(
            {
                "name": rollout.name,
                "state": state,
                "run": self.new_run().nonce,
                "began": now,
                "ends": None if ends is None else now + ends,
                "release": release,
                "known": {name: one.to_plain() for name, one in known.items()},
                "groups": groups,
                "tried": {},
            }
        )
        pending = [name for name in groups if fleet[name].pending]
        shown = [
            {"kind": GROUP.name, "name": name, **({"stand": other_of(fleet[name].stand)} if rollout.beside else {})}
            for name in pending
        ]
        return {
            "rollout": folder.path,
            "groups": groups,
            "pending": pending,
            # What a check run shows: the plans that the changes would be.
            "shows": "deploy" if rollout.beside else "restart",
            "changes": shown,
            "digest": proposed.digest,
            "ansible_stats": approval.stats(proposed, "rollout", [], bool(self._task.check_mode), asked),
            "warnings": sentences(findings.to_plain()),
        }

    def _check_approved(self, name: str, proposed: Proposal) -> approval.Approved | None:
        """What was approved. Another rollout than that is refused; it is written down, where that is asked."""
        asked = approval.approved(self.args["plan_digest"], self.args["plan_file"], self.args["plan_digests"])
        if self.args["plan_out"]:
            approval.write(self.args["plan_out"], proposed)
        findings = asked.against(proposed) if asked else Findings()
        if asked and findings.errors:
            self._display.display("\n".join(asked.told(proposed)))
            raise self.refused(Refusal(name, "The rollout is not the one that was approved.", findings.to_plain()))
        if self._task.check_mode:
            self._display.display(f"To carry out this rollout and no other: -e pd_plan_digest={proposed.digest}")
        return asked


def _proposal(rollout: Rollout, fleet: Fleet, waves: Waves) -> Proposal:
    """What is approved of a rollout: what it says, who is in which wave, and what each group is changed to. How far it has come is no
    part of it, so that what was approved on Monday still is on Tuesday."""
    run = (f"rollout {rollout.name}", f"as written: {rollout.digest}")
    return Proposal(
        run, {name: (f"wave {number}", f"changed to {fleet[name].wanted}") for name, number in waves.items()}
    )
