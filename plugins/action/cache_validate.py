# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller side of cache_validate: the verdict on the cache services of the inventory, before any host is asked."""

from __future__ import annotations

import typing as t

from ansible.errors import AnsibleActionFail

from ..module_utils._core.base.errors import PdError
from ..module_utils._core.base.finding import Findings, as_text
from ..module_utils._core.spec.cache_service import parse, users_of
from ..module_utils._core.template.cache_template import render
from ..plugin_utils import _caches
from ..plugin_utils._action import PdAction
from ..plugin_utils._batch import check_batch


class ActionModule(PdAction):
    ARGUMENTS: t.ClassVar[dict[str, t.Any]] = {
        "name": {"type": "str"},
        "named": {"type": "bool", "default": False},
        "fail_on": {"type": "str", "choices": ["error", "warning", "never"], "default": "error"},
        "modes_path": {"type": "list", "elements": "path", "default": []},
    }

    def act(self) -> dict[str, t.Any]:
        check_batch(self._task, self.task_vars)
        name = self.args["name"]
        written = _caches.merged(self)
        if self.args["named"] and name in (None, ""):
            raise PdError("Say which cache service: -e pd_cache=NAME, or -e pd_cache=all for every one.")
        one = name not in (None, "", "all")
        gone = self.args["fail_on"] == "never"
        if one and name not in written and not gone:
            known = ", ".join(sorted(written)) or "none; define pd_caches in group_vars"
            raise PdError(f"There is no cache service {name!r} in pd_caches. Services: {known}.")
        if not written and not one:
            raise PdError("No cache service is defined. Write one under pd_caches; docs/cache-services.md tells how.")
        chosen = {name: written[name]} if one and name in written else {} if one else written
        return self._judge(chosen, [name] if one else list(written))

    def _judge(self, chosen: dict[str, t.Any], names: list[str]) -> dict[str, t.Any]:
        findings = Findings()
        recipes, groups = _caches.recipes_of(self), self.groups()
        services = parse(chosen, recipes, findings, groups)
        told = {}
        for name, service in services.items():
            recipe = recipes[service.provider]
            if not service.address:
                render(service, recipe, findings)
                self._check_hosts(name, service.hosts, findings)
            told[name] = {
                **service.to_plain(),
                "users": users_of(name, groups),
                "observe": _caches.observe(service) if not service.address else {},
            }
        plain = findings.to_plain()
        if findings.fails(self.args["fail_on"]):
            count = len(findings.errors)
            head = f"The cache services are refused: {count} error{'s' if count != 1 else ''}."
            raise AnsibleActionFail(f"{head}\n{as_text(plain)}", result={"findings": plain, "failed": True})
        # A service that somebody else runs is nothing to deploy.
        names = [n for n in names if not (told.get(n) or {}).get("address")]
        warnings = [f["message"] for f in plain if f["severity"] != "error"]
        return {"names": names, "services": told, "findings": plain, "warnings": warnings}

    def _check_hosts(self, name: str, pattern: str, findings: Findings) -> None:
        if pattern and not self.pattern_hosts(pattern):
            findings.error(
                "no-hosts",
                f"pd_caches.{name}.hosts: the pattern {pattern!r} matches no host of the inventory.",
                "Name a group or host that exists; see ansible-inventory --graph.",
            )
