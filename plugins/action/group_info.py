# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller side of group_info: the state of one group or of all, from what the hosts said in this run."""

from __future__ import annotations

import typing as t

from ansible.errors import AnsibleActionFail

from ..module_utils._core.base.errors import PdError
from ..module_utils._core.base.finding import Findings
from ..module_utils._core.report import cache_status, status
from ..module_utils._core.spec.cache_service import parse, users_of
from ..module_utils._core.spec.variables import misspelt
from ..module_utils._core.template.cache_template import render
from ..plugin_utils import _caches
from ..plugin_utils._action import PdAction, known_of
from ..plugin_utils._batch import check_batch
from ..plugin_utils._plain import to_plain


class ActionModule(PdAction):
    ARGUMENTS: t.ClassVar[dict[str, t.Any]] = {
        "name": {"type": "str"},
        "spec": {"type": "dict"},
        "hosts": {"type": "dict"},
        "register": {"type": "str", "default": "pd_facts"},
        "modes_path": {"type": "list", "elements": "path", "default": []},
        "show": {"type": "bool", "default": False},
        "fail_unless_running": {"type": "bool", "default": False},
    }

    def act(self) -> dict[str, t.Any]:
        check_batch(self._task, self.task_vars)
        hosts = self.seen().hosts
        silent = (
            [h for h in self.task_vars.get("ansible_play_hosts_all") or () if h not in hosts]
            if self.args["hosts"] is None
            else sorted(self.seen().hidden)
        )
        groups = {name: self._group(name, spec, hosts, silent) for name, spec in self._specs(hosts).items()}
        caches = self._caches(hosts, silent)
        table = [line for state in groups.values() for line in [*status.table(state), ""]]
        table += [line for state in caches.values() for line in [*cache_status.table(state), ""]]
        if silent:
            table.append(f"No answer from: {', '.join(silent)}")
        if self.args["show"]:
            self._display.display("\n".join(table).rstrip() or "No group is defined, and none runs.")
        answer: dict[str, t.Any] = {"groups": groups, "caches": caches, "table": table, "silent": silent}
        answer["warnings"] = misspelt(self.task_vars)
        if len(groups) == 1:
            answer |= next(iter(groups.values()))
        short = [f"{name} is {state['state']}" for name, state in groups.items() if state["state"] != "running"]
        short += [
            f"cache {name} is {state['state']}"
            for name, state in caches.items()
            if state["state"] not in ("running", "external")
        ]
        if self.args["fail_unless_running"] and short:
            raise AnsibleActionFail("; ".join(short), result={**answer, "failed": True})
        return answer

    def _specs(self, hosts: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
        """What to report on: the group asked for, else those of the inventory and those that only the hosts know."""
        name = self.args["name"]
        running = {m.group for h in hosts.values() for m in h.members} | {g for h in hosts.values() for g in h.records}
        running -= cache_status.names_on(hosts)
        if self.args["spec"] is not None:
            return {name or "group": to_plain(self.args["spec"])}
        groups = self.groups()
        if name and name != "all":
            if name not in groups and name not in running:
                known = ", ".join(sorted({*groups, *running})) or "none"
                raise PdError(f"There is no group {name!r}, neither in pd_groups nor on the hosts. Known: {known}.")
            return {name: groups.get(name)}
        return {**groups, **{g: None for g in sorted(running) if g not in groups}}

    def _caches(self, hosts: t.Mapping[str, t.Any], silent: t.Sequence[str]) -> dict[str, t.Any]:
        """The services of the inventory and those that only the hosts know; beside one group, those that it uses."""
        if self.args["spec"] is not None:
            return {}
        groups, recipes, written = self.groups(), _caches.recipes_of(self), _caches.merged(self)
        named = self.args["name"]
        found = {}
        for name in [*written, *sorted(cache_status.names_on(hosts) - set(written))]:
            named_by = users_of(name, groups)
            if named and named != "all" and named not in (*named_by, *cache_status.running_users(name, hosts)):
                continue
            findings = Findings()
            service = parse({name: written[name]}, recipes, findings, groups).get(name) if name in written else None
            template, wanted = None, None
            if service is not None and not service.address:
                template = render(service, recipes[service.provider], Findings())
                wanted = 1 if service.scope == "group" else len(self.pattern_hosts(service.hosts))
            state = cache_status.of_service(name, service, template, hosts, silent, named_by, wanted)
            if findings.errors:
                state["marks"] = [{"mark": "spec_refused", "why": f.message} for f in findings.errors]
            found[name] = state
        return found

    def _group(self, name: str, spec: t.Any, hosts: t.Mapping[str, t.Any], silent: t.Sequence[str]) -> dict[str, t.Any]:
        if spec is None:
            return status.of_group(name, None, None, hosts, silent, (), self.reach(), self.away())
        verdict = self.verdict(name, spec, known_of(name, hosts, self.patterns_of(name, spec)))
        state = status.of_group(
            name, verdict.group, verdict.template, hosts, silent, verdict.findings.items, self.reach(), self.away()
        )
        errors = [f.to_plain() for f in verdict.findings.errors]
        if errors:
            state["marks"] += [{"mark": "spec_refused", "why": f["message"]} for f in errors]
        return {**state, "findings": verdict.findings.to_plain()}
