# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller side of group_preflight: from the plan of a group, who tries what; and from what all hosts said, the verdict."""

from __future__ import annotations

import secrets
import typing as t

from ansible.errors import AnsibleActionFail

from ..module_utils._core.base.finding import Findings, as_text, in_short
from ..module_utils._core.base.words import counted
from ..module_utils._core.cluster.places import asking
from ..module_utils._core.plan import plan as core_plan
from ..module_utils._core.plan.reserved import Reserved
from ..module_utils._core.plan.situation import Reach, Request
from ..module_utils._core.plan.value import Plan
from ..module_utils._core.preflight import between
from ..module_utils._core.preflight import hosts as of_hosts
from ..module_utils._core.preflight import tour as tours
from ..plugin_utils._action import refuse
from ..plugin_utils._workloads import Groups
from .group_plan import ActionModule as PlanAction
from .group_plan import One

# What a deploy would say of its own accord is not what a person asked a preflight for.
NOT_ASKED = ("pending-configuration", "pending-no-growth", "member-not-replaced")


class ActionModule(PlanAction):
    ARGUMENTS: t.ClassVar[dict[str, t.Any]] = {
        "name": {"type": "str", "required": True},
        "phase": {"type": "str", "choices": ["plan", "verdict"], "required": True},
        "spec": {"type": "dict"},
        "hosts": {"type": "dict"},
        "register": {"type": "str", "default": "pd_facts"},
        "listening": {"type": "str", "default": "preflight_listening"},
        "connected": {"type": "str", "default": "preflight_connected"},
        "lost_hosts": {"type": "list", "elements": "str", "default": []},
        "max_pairs": {"type": "int", "default": tours.MAX_PAIRS},
        "modes_path": {"type": "list", "elements": "path", "default": []},
        "fail_on": {"type": "str", "choices": ["error", "unverified", "warning", "never"], "default": "error"},
        "show": {"type": "bool", "default": True},
        "strict": {"type": "bool", "default": True},
    }

    def act(self) -> dict[str, t.Any]:
        name = self.args["name"]
        seen = self.seen()
        hosts = seen.hosts
        # What is there of the group is checked like what is to come: as if all of it were started.
        stand = self.stands(name).serves
        running = any(m.group == stand and m.alive for h in hosts.values() for m in h.members)
        self.as_if(PlanAction.ARGUMENTS, action="restart" if running else "deploy", release=[name])
        one = One(Groups(self), stand, self.args["action"], Findings())
        judged = self._judged(one, self.spec_of(name))
        findings = judged.findings
        refusal = refuse(name, findings, "error")
        if refusal:
            raise self.refused(refusal)
        request = Groups(self).request(judged, self._asked(one, self.new_run(), {}, Reserved()))
        plan = core_plan.make(request, findings)
        # Without it nothing was tried: what the plan could do without it is no answer.
        findings.items = [f for f in findings.items if f.code not in (*NOT_ASKED, "host-unreachable")]
        for host, said in seen.broken.items():
            findings.error("host-facts", f"{host} {said.said}.", said.way_out, [], host)
        for host in request.reality.silent:
            if host not in seen.broken:
                self._say_silent(host, request.reality.reach, findings)
        if self.args["phase"] == "plan":
            tour = self._tour(request, plan)
            # Good for this tour alone: what keeps strangers from using a listener in the seconds of its life.
            return {"tour": {**tour, "token": secrets.token_hex(16)}, "findings": findings.to_plain()}
        return self._judge(request, plan, findings)

    def _say_silent(self, host: str, reach: Reach, findings: Findings) -> None:
        """Why nothing is known of a host of the group: what it said, or why it could not be asked."""
        seen, why = self.seen(), reach.why(host)
        said = {**seen.silent, **seen.hidden}.get(host)
        if said is None:
            findings.error("host-unreachable", f"{host} {why}.", reach.way_out(why), [], host)
            return
        way_out = "" if host in seen.hidden else f"Make it answer: {asking(host)}"
        findings.error("host-unreachable", f"{host}: {said}", way_out, [], host)

    def _tour(self, request: Request, plan: Plan) -> dict[str, t.Any]:
        told = tours.announced(request.template.mode)
        return tours.make(plan, request.hosts, told, self.args["max_pairs"])

    def _judge(self, request: Request, plan: Plan, findings: Findings) -> dict[str, t.Any]:
        tour = self._tour(request, plan)
        said = {h: r for h, r in self.results_of(self.args["listening"]).items() if "listening" in r}
        marked = tours.mark_live(tour, {h: r["listening"] for h, r in said.items() if h in tour["hosts"]})
        flight = of_hosts.Preflight(
            request=request,
            plan=plan,
            tour=tour,
            looks={h: {**said[h], "listening": got} for h, got in marked.items()},
            reaches={h: r for h, r in self.results_of(self.args["connected"]).items() if "peers" in r},
            clocks={h: (r["asked"][0], r["asked"][1]) for h, r in said.items() if r.get("asked")},
        )
        of_hosts.judge_hosts(flight, findings)
        of_hosts.judge_band(request.template.mode.ports_to_avoid, flight, findings)
        between.judge_between(flight, findings)
        return self._tell(request, flight, findings)

    def _tell(self, request: Request, flight: of_hosts.Preflight, findings: Findings) -> dict[str, t.Any]:
        name = request.name
        plain = findings.to_plain()
        table = of_hosts.table(flight.rows)
        errors = len(findings.errors)
        warnings = len([f for f in plain if f["severity"] == "warning"])
        unverified = len([f for f in plain if f["severity"] == "unverified"])
        hosts = counted(len(flight.tour["hosts"]), "host")
        counts = f"{counted(errors, 'error')}, {unverified} unverified, {counted(warnings, 'warning')}"
        head = f"preflight of {name}: {counts} on {hosts}"
        failed = findings.fails(self.args["fail_on"])
        if self.args["show"]:
            text = as_text(plain)
            self._display.display("\n".join([head, *(f"  {line}" for line in table), *([text] if text else [])]))
        if failed and self.args["strict"]:
            raise AnsibleActionFail(f"{head}.", result={"good": not errors, "findings": in_short(plain)})
        checks = [row.to_plain() for row in flight.rows]
        answer = {"good": not errors, "findings": plain, "checks": checks, "table": table}
        return {**answer, "refused": failed, "ended": tours.all_told(flight.tour, flight.reaches), "msg": head}
