# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller side of group_plan: reads the spec and the hosts' facts of this run, lets the core make the plan, and shows it."""

from __future__ import annotations

import typing as t

from ansible.errors import AnsibleActionFail

from ..module_utils._core.base.errors import PdError
from ..module_utils._core.base.finding import Findings, as_text
from ..module_utils._core.facts.observed import Host
from ..module_utils._core.plan import plan as core_plan
from ..module_utils._core.report import cache_status
from ..module_utils._core.rules.validate import Verdict
from ..module_utils._core.spec.spec import ENGINE_ROLES
from ..plugin_utils._action import PdAction, known_of, refuse
from ..plugin_utils._batch import check_batch
from ..plugin_utils._plain import names_list, to_plain
from ..plugin_utils.locking import of_dead


class ActionModule(PdAction):
    ARGUMENTS: t.ClassVar[dict[str, t.Any]] = {
        "name": {"type": "str", "required": True},
        "spec": {"type": "dict"},
        "hosts": {"type": "dict"},
        "register": {"type": "str", "default": "pd_facts"},
        "action": {"type": "str", "choices": ["deploy", "scale", "restart", "remove"], "default": "deploy"},
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
        name = self.args["name"]
        seen = self.seen()
        hosts, reasons = seen.hosts, {**seen.silent, **seen.hidden}
        self._refuse_broken(name, seen.broken)
        if self.args["action"] == "remove":
            findings = Findings()
            self._check_known(name, hosts)
            spec = self.args["spec"] if self.args["spec"] is not None else self.groups().get(name)
            named = {host for found in self.patterns_of(name, spec).values() for host in found}
            lost = names_list(self.args["lost_hosts"])
            silent = sorted(named - set(hosts) - set(lost) - set(self.away()))
            request = core_plan.Removal(
                name,
                hosts,
                self.new_run(),
                silent,
                lost,
                self.away(),
                self._fence(),
                names_list(self.args["forget_tombstone"]),
                self.reach(),
            )
            plan = core_plan.removal(request, findings)
        else:
            self._add_hosts(hosts)
            spec = self.spec_of(name)
            verdict = self.verdict(name, spec, known_of(name, hosts, self.patterns_of(name, spec)))
            self._refuse(name, verdict.findings, {})
            asked, findings = self._request(verdict, hosts), verdict.findings
            silent = list(asked.silent)
            plan = core_plan.make(asked, findings)
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
        # A run that was killed here holds its locks on hosts that cannot see that it is gone.
        dead = of_dead(host.locks.get(name) for host in hosts.values())
        if dead:
            plan["dead_locks"] = dead
        result = {"plan": plan, "findings": findings.to_plain(), "diff": plan.pop("diff")}
        self._refuse(name, findings, {})
        self._show(result)
        self._refuse_pending(name, result)
        result["warnings"] = [f"{f['message']} {f['hint']}".strip() for f in result["findings"]]
        return result

    def _refuse(self, name: str, findings: Findings, result: dict[str, t.Any]) -> None:
        refusal = refuse(name, findings, self.args["fail_on"])
        if refusal:
            raise AnsibleActionFail(refusal, result={"findings": findings.to_plain(), **result, "failed": True})

    def _fence(self) -> str:
        """What makes sure that a lost host is off; nothing when no command is configured. A check run fences nobody, and says the same."""
        return "pd_fence_command" if self.args["fence"] else ""

    def _refuse_broken(self, name: str, broken: t.Mapping[str, str]) -> None:
        """A host that answered, and whose facts failed over a value, is not one that is out of reach: the value is the user's to mend."""
        findings = Findings()
        for host, why in broken.items():
            findings.error(
                "host-facts", f"{host}: {why}", "It is a host variable (pd_...), or the Python there.", [], host
            )
        self._refuse(name, findings, {})

    def _refuse_pending(self, name: str, result: dict[str, t.Any]) -> None:
        if result["plan"]["pending"] and self.args["fail_on_pending"]:
            told = [f for f in result["findings"] if f["code"] in ("pending-configuration", "identity-moved")]
            raise AnsibleActionFail(
                f"Group {name} has a pending configuration.\n{as_text(told)}", result={"findings": told, "failed": True}
            )

    def _check_known(self, name: str, hosts: t.Mapping[str, Host]) -> None:
        """A slip of the keyboard must not look like a group that is gone already."""
        running = {m.group for h in hosts.values() for m in h.members} | {g for h in hosts.values() for g in h.records}
        known = sorted({*self.groups(), *(running - cache_status.names_on(hosts))})
        if self.args["spec"] is None and name not in known:
            raise PdError(
                f"There is no group {name!r}, neither in pd_groups nor on the hosts. Known: {', '.join(known) or 'none'}."
            )

    def _add_hosts(self, hosts: t.Collection[str]) -> None:
        """Hosts that the caller gives facts of and the inventory does not know: a pattern may name them."""
        for name in hosts:
            if name not in self._inventory().hosts:
                self._inventory().add_host(name)

    def _request(self, verdict: Verdict, hosts: dict[str, Host]) -> core_plan.Request:
        group, template = verdict.group, verdict.template
        if group is None or template is None:
            raise PdError("The spec could not be read.")
        patterns = {role.name: self.pattern_hosts(role.hosts) for role in group.roles.values()}
        lost = names_list(self.args["lost_hosts"])
        named = {host for hosts_ in patterns.values() for host in hosts_}
        return core_plan.Request(
            group=group,
            template=template,
            hosts=hosts,
            patterns=patterns,
            action=self.args["action"],
            run=self.new_run(),
            silent=sorted(named - set(hosts) - set(lost) - set(self.away())),
            lost=lost,
            away=self.away(),
            fence=self._fence(),
            forget=names_list(self.args["forget_tombstone"]),
            counts=self._counts(),
            allow_scale_down=self.args["allow_scale_down"],
            reserved=to_plain(self.args["planned"]),
            reach=self.reach(),
        )

    def _counts(self) -> dict[str, int]:
        """The counts that scale asks for; `-e` gives them as text."""
        counts = {}
        for role, value in (to_plain(self.args["counts"]) or {}).items():
            if value in (None, ""):
                continue
            if role not in ENGINE_ROLES:
                raise PdError(f"counts.{role}: only prefill and decode can be scaled; a group has one router.")
            text = str(value).strip()
            if not text.isdigit() or int(text) < 1:
                raise PdError(
                    f"pd_{role}: {value!r} is not a count. Give a whole number of at least 1; inferops.pd.remove takes a group down."
                )
            counts[role] = int(text)
        if self.args["action"] == "scale" and not counts:
            raise PdError("scale needs a count: give -e pd_prefill=N, -e pd_decode=N, or both.")
        return counts

    def _show(self, result: dict[str, t.Any]) -> None:
        """With --diff the plan is shown even where it changes nothing by itself: people read it before they run it."""
        if self._task.diff and result["diff"]:
            self._display.display("\n".join(d["prepared"] for d in result["diff"]).rstrip())
        else:
            self._display.display(core_plan.summary(result["plan"]))
            # A peer may be none of the group's: whoever registered it by hand is to know that it goes.
            for step in result["plan"]["steps"]:
                if step["phase"] == "leave" and step["do"] == "deregister":
                    self._display.display(f"  {step['why']}")
        notes = [f for f in result["findings"] if f["severity"] != "error"]
        if notes and self._display.verbosity:
            self._display.display(as_text(notes))
