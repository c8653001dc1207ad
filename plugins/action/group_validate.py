# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller side of group_validate: the verdict on one spec, or on every group of the inventory."""

from __future__ import annotations

import typing as t

from ansible.errors import AnsibleActionFail

from ..module_utils._core.base.errors import PdError
from ..module_utils._core.base.finding import as_text
from ..module_utils._core.rules.validate import Verdict
from ..module_utils._core.runtimes.table import traits_of
from ..module_utils._core.spec.known import Known
from ..module_utils._core.spec.variables import misspelt
from ..plugin_utils import _caches
from ..plugin_utils._action import PdAction, refuse
from ..plugin_utils._batch import check_batch
from ..plugin_utils._plain import to_plain

# What a playbook hands to its roles as a word: one that is none of these would silently be taken for the default.
WORDS = {"pd_on_failure": ("keep", "stop"), "pd_proof": ("changed", "always", "never")}

# What brings each part of a run to what its spec says: playbooks loop over the parts, so that without services no host gets a task more.
GROUP_ROLE, SERVICE_ROLE = "inferops.pd.group", "inferops.pd.cache"


class ActionModule(PdAction):
    ARGUMENTS: t.ClassVar[dict[str, t.Any]] = {
        "name": {"type": "str"},
        "spec": {"type": "dict"},
        "hosts": {"type": "dict", "default": {}},
        "model_config": {"type": "dict"},
        "fail_on": {"type": "str", "choices": ["error", "unverified", "warning", "never"], "default": "error"},
        "one": {"type": "bool", "default": False},
        "named": {"type": "bool", "default": False},
        "show": {"type": "bool", "default": False},
        "modes_path": {"type": "list", "elements": "path", "default": []},
    }

    def act(self) -> dict[str, t.Any]:
        name = self.args["name"]
        check_batch(self._task, self.task_vars)
        self._check_words()
        specs = {name or "group": to_plain(self.args["spec"])} if self.args["spec"] is not None else self._specs(name)
        results: dict[str, t.Any] = {}
        refusals: list[str] = []
        routers: dict[tuple[str, int], str] = {}
        for group, spec in specs.items():
            if spec is None and self.args["fail_on"] == "never":
                results[group] = {"valid": False, "findings": [], "spec": None, "observe": {}, "caches": []}
                continue
            verdict = self.verdict(group, spec, self._known(group, spec))
            self._check_patterns(verdict)
            self._check_router_port(verdict, routers)
            refusal = refuse(group, verdict.findings, self.args["fail_on"])
            if refusal:
                refusals.append(refusal)
            results[group] = {
                "valid": not verdict.findings.errors,
                "findings": verdict.findings.to_plain(),
                "spec": verdict.group.to_plain() if verdict.group else None,
                "observe": observe(verdict),
                "caches": _caches.deployed_for(self, group) if self.args["spec"] is None else [],
            }
        # In the order of the groups, each once: what is to be there before the first of them starts.
        caches = list(dict.fromkeys(name for result in results.values() for name in result["caches"]))
        parts = [{"role": SERVICE_ROLE, "name": name} for name in caches] + [
            {"role": GROUP_ROLE, "name": name} for name in results
        ]
        answer: dict[str, t.Any] = {"groups": results, "names": list(results), "caches": caches, "parts": parts}
        if len(results) == 1:
            answer |= {**next(iter(results.values())), "caches": caches}
        else:
            answer |= {"valid": all(r["valid"] for r in results.values()), "findings": [], "spec": None}
        if refusals:
            told = [{**f, "group": group} for group, r in results.items() for f in r["findings"]]
            raise AnsibleActionFail("\n\n".join(refusals), result={"valid": False, "findings": told, "failed": True})
        if self.args["show"]:
            self._display.display("\n".join(_line(group, result) for group, result in results.items()))
        told = [f["message"] for r in results.values() for f in r["findings"] if f["severity"] != "error"]
        return {**answer, "warnings": [*misspelt(self.task_vars), *told]}

    def _known(self, group: str, spec: t.Any) -> Known:
        """What the caller gives beside the specs, and which hosts their patterns stand for."""
        patterns = self.patterns_of(group, spec) if self.args["spec"] is None else {}
        return Known(to_plain(self.args["model_config"]), to_plain(self.args["hosts"]) or {}, patterns)

    def _specs(self, name: str | None) -> dict[str, t.Any]:
        if self.args["one"] and name in (None, "", "all"):
            raise PdError(self._which("-e pd_group=NAME. This playbook works on one group."))
        if self.args["named"] and name in (None, ""):
            raise PdError(self._which("-e pd_group=NAME, or -e pd_group=all for every one."))
        groups = self.groups()
        if name and name != "all":
            # With fail_on: never the verdict is not the point: a group that has left the inventory can still be removed.
            gone = self.args["fail_on"] == "never" and name not in groups
            return {name: None if gone else self.spec_of(name)}
        if not groups:
            raise PdError(
                "No group is defined. Write one under pd_groups in group_vars/all/pd.yml; examples/inventories has some."
            )
        return groups

    def _which(self, how: str) -> str:
        return " ".join([f"Say which group: {how}", *misspelt(self.task_vars)])

    def _check_words(self) -> None:
        for variable, words in WORDS.items():
            given = self.variable(variable, words[0])
            if given not in words:
                raise PdError(f"{variable}: {given!r} is not known. Write one of {', '.join(words)}.")

    def _check_router_port(self, verdict: Verdict, routers: dict[tuple[str, int], str]) -> None:
        """Two groups whose routers can only be on one host, with one port: certain before any host is asked."""
        router = verdict.group.roles["router"] if verdict.group else None
        if verdict.group is None or router is None or router.port is None or self.args["spec"] is not None:
            return
        hosts = self.pattern_hosts(router.hosts)
        if len(hosts) != 1:
            return
        first = routers.setdefault((hosts[0], router.port), verdict.group.name)
        if first != verdict.group.name:
            verdict.findings.error(
                "port-taken",
                f"roles.router.port: {router.port} on {hosts[0]} is the router's of group {first} as well.",
                "Give one of them another port.",
                ["router"],
                hosts[0],
            )

    def _check_patterns(self, verdict: Verdict) -> None:
        """With an inventory at hand, a pattern without hosts is told before any host is asked."""
        if verdict.group is None or self.args["spec"] is not None:
            return
        for role in verdict.group.roles.values():
            if role.hosts and not self.pattern_hosts(role.hosts):
                verdict.findings.error(
                    "no-hosts",
                    f"roles.{role.name}.hosts: the pattern {role.hosts!r} matches no host of the inventory.",
                    "Name a group or host that exists; see ansible-inventory --graph.",
                    [role.name],
                )


def _line(group: str, result: dict[str, t.Any]) -> str:
    notes = [f for f in result["findings"] if f["severity"] != "error"]
    return f"{group}: valid" + (
        f", {len(notes)} note{'s' if len(notes) > 1 else ''}\n{as_text(notes)}" if notes else ""
    )


def observe(verdict: Verdict) -> dict[str, t.Any]:
    """What module host_facts is to look at on the group's hosts: the arguments of that module."""
    group, template = verdict.group, verdict.template
    if group is None or template is None:
        return {}
    return {
        "models": [group.model],
        "executables": sorted({role.executable for role in template.roles.values() if role.executable}),
        "images": sorted({r.image for r in template.roles.values() if r.image})
        if traits_of(group.runtime).images
        else [],
        "runtimes": [group.runtime],
        "interface_plane": template.mode.interface_plane,
    }
