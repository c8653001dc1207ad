# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller side of group_plan: reads the entry and the hosts' facts of this run, lets the core make the plan, and shows it. One way
for groups and cache services; what differs is their kind's (plugin_utils/_workloads.py)."""

from __future__ import annotations

import typing as t
from dataclasses import replace

from ..module_utils._core.base.errors import PdError
from ..module_utils._core.base.finding import Findings, sentences
from ..module_utils._core.base.values import integer
from ..module_utils._core.plan import plan as core_plan
from ..module_utils._core.plan.reserved import Reserved
from ..module_utils._core.plan.value import Plan
from ..module_utils._core.report import status
from ..module_utils._core.spec.spec import ENGINE_ROLES
from ..module_utils._core.spec.workload import GROUP, KINDS
from ..plugin_utils._action import PdAction, Refusal, refuse
from ..plugin_utils._batch import check_batch
from ..plugin_utils._plain import names_list, to_plain
from ..plugin_utils._workloads import Asked, Judged, Workloads, workloads_of
from ..plugin_utils.locking import of_dead

ACTIONS = ("deploy", "scale", "restart", "remove")
# What says that a spec waits for a restart.
PENDING = ("pending-configuration", "identity-moved", "cache-pending")


class ActionModule(PdAction):
    ARGUMENTS: t.ClassVar[dict[str, t.Any]] = {
        "name": {"type": "str", "required": True},
        "kind": {"type": "str", "choices": list(KINDS), "default": GROUP.name},
        "spec": {"type": "dict"},
        "hosts": {"type": "dict"},
        "register": {"type": "str", "default": "pd_facts"},
        "action": {"type": "str", "choices": list(ACTIONS), "default": "deploy"},
        "counts": {"type": "dict", "default": {}},
        "allow_scale_down": {"type": "bool", "default": False},
        "lost_hosts": {"type": "list", "elements": "str", "default": []},
        "planned": {"type": "list", "elements": "dict", "default": []},
        "modes_path": {"type": "list", "elements": "path", "default": []},
        "fail_on": {"type": "str", "choices": ["error", "unverified", "warning", "never"], "default": "error"},
        "fail_on_pending": {"type": "bool", "default": False},
        "forget_tombstone": {"type": "list", "elements": "str", "default": []},
        "fence": {"type": "bool", "default": False},
    }

    def act(self) -> dict[str, t.Any]:
        check_batch(self._task, self.task_vars)
        self._refuse_broken()
        asked = self._asked()
        judged: Judged | None = None
        if asked.action == "remove":
            entry, findings = self._removed(), Findings()
            made = self._works.removal(entry, asked, findings)
        else:
            entry = self.spec_of(asked.name, self._works.kind)
            judged = self._judged(entry)
            self._refuse(judged.findings)
            made, findings = self._works.make(judged, asked), judged.findings
        self._say_hosts(asked.silent(self._works.patterns(asked.name, entry)), findings)
        # A run that was killed here holds its locks on hosts that cannot see that it is gone.
        dead = of_dead(host.locks.get(asked.name) for host in asked.hosts.values())
        if dead:
            made = replace(made, dead_locks=tuple(dead))
        plan = made.to_plain()
        result = {"plan": plan, "findings": findings.to_plain(), "diff": plan.pop("diff")}
        self._refuse(findings)
        self._show(made, result)
        if not made.changed and not made.steps and asked.action != "remove":
            self._show_state(self._works, judged)
        self._refuse_pending(result)
        result["planned"] = self._carried(plan)
        result["warnings"] = sentences(result["findings"])
        return result

    @property
    def _works(self) -> Workloads:
        return workloads_of(self.args["kind"], self)

    def _asked(self) -> Asked:
        """What is wanted, and what this run has seen."""
        return Asked(
            name=self.args["name"],
            hosts=self.seen().hosts,
            action=self.args["action"],
            run=self.new_run(),
            lost=names_list(self.args["lost_hosts"]),
            away=self.away(),
            # A check run fences nobody, and says the same.
            fence="pd_fence_command" if self.args["fence"] else "",
            forget=names_list(self.args["forget_tombstone"]),
            counts=self._counts(),
            allow_scale_down=self.args["allow_scale_down"],
            reserved=Reserved.of(Plan.from_plain(one) for one in to_plain(self.args["planned"]) or ()),
            reach=self.reach(),
        )

    def _judged(self, entry: t.Any) -> Judged:
        name, hosts = self.args["name"], self.seen().hosts
        for host in hosts:
            # The caller may give facts of hosts that the inventory does not know, and a pattern may name them.
            if host not in self._inventory().hosts:
                self._inventory().add_host(host)
        return self._works.judge(name, entry, self._works.known(name, entry, hosts))

    def _removed(self) -> t.Any:
        """The entry of what is to go, as far as there is one."""
        name, given = self.args["name"], self.args["spec"]
        if given is not None:
            return to_plain(given)
        self._works.check_known(name, self.seen().hosts)
        return self.entries(self._works.kind).get(name)

    def _refuse(self, findings: Findings) -> None:
        refusal = refuse(self.args["name"], findings, self.args["fail_on"], self._works.kind)
        if refusal:
            raise self.refused(refusal)

    def _refuse_broken(self) -> None:
        """A host that answered, and whose facts failed over a value, is not out of reach: the value is the user's to mend. Of a workload
        whose members need nothing of each other, a host that does not show what it has would get a second one."""
        seen, findings = self.seen(), Findings()
        self._say_broken(findings)
        for host, why in {} if self._works.kind.joined else seen.hidden.items():
            findings.error("host-facts", f"{host}: {why}", "", [], host)
        self._refuse(findings)

    def _say_broken(self, findings: Findings) -> None:
        for host, one in self.seen().broken.items():
            findings.error("host-facts", f"{host} {one.said}.", one.way_out, [], host)

    def _refuse_pending(self, result: dict[str, t.Any]) -> None:
        if result["plan"]["pending"] and self.args["fail_on_pending"]:
            told = [f for f in result["findings"] if f["code"] in PENDING]
            head = f"{self._works.kind.title} {self.args['name']} has a pending configuration."
            raise self.refused(Refusal(self.args["name"], head, told))

    def _say_hosts(self, silent: t.Collection[str], findings: Findings) -> None:
        """Why nothing is known of a host that the plan would have asked."""
        seen = self.seen()
        reasons = {**seen.silent, **seen.hidden}
        for host in silent:
            if host in reasons:
                way_out = "" if host in seen.hidden else f"Make the host answer: ansible -m ping {host}"
                findings.warning("host-unreachable", f"{host}: {reasons[host]}", way_out, [], host)
        for host in self.away():
            findings.warning(
                "host-out-of-service",
                f"{host} is out of service by the inventory (pd_out_of_service): it is not asked, and nothing is placed there.",
                "",
                [],
                host,
            )

    def _carried(self, plan: dict[str, t.Any]) -> list[dict[str, t.Any]]:
        """What the next plan of this run is to see as taken. A real run finds what was started; a check run would give the same ports and
        GPUs to each, and a group would look for its cache service where none is yet."""
        if not self._task.check_mode:
            return []
        earlier = to_plain(self.args["planned"]) or []
        return earlier if self.args["action"] == "remove" else [*earlier, plan]

    def _counts(self) -> dict[str, int]:
        """The counts that scale asks for; `-e` gives them as text."""
        counts = {}
        for role, value in (to_plain(self.args["counts"]) or {}).items():
            if value in (None, ""):
                continue
            if role not in ENGINE_ROLES:
                raise PdError(f"counts.{role}: only prefill and decode can be scaled; a group has one router.")
            count = integer(value)
            if count is None or count < 1:
                raise PdError(
                    f"pd_{role}: {value!r} is not a count. Give a whole number of at least 1; inferops.pd.remove takes a group down."
                )
            counts[role] = count
        if self.args["action"] == "scale" and not counts:
            raise PdError("scale needs a count: give -e pd_prefill=N, -e pd_decode=N, or both.")
        return counts

    def _show(self, plan: Plan, result: dict[str, t.Any]) -> None:
        """With --diff the plan is shown even where it changes nothing by itself: people read it before they run it."""
        if self._task.diff and result["diff"]:
            self._display.display("\n".join(d["prepared"] for d in result["diff"]).rstrip())
        else:
            self._display.display(core_plan.summary(plan))
            # A peer may be none of the group's: whoever registered it by hand is to know that it goes.
            for step in plan.steps:
                if step.phase == "leave" and step.do == "deregister":
                    self._display.display(f"  {step.why}")

    def _show_state(self, works: Workloads, judged: Judged | None) -> None:
        """Where nothing is to be done, how it is: otherwise a person would have to ask once more."""
        seen, subject = self.seen(), works.subject(self.args["name"], judged)
        state = status.of(subject, seen.hosts, sorted({*seen.silent, *seen.hidden}), self.reach(), self.away())
        self._display.display("\n".join(status.head(state)))
