# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller side of cache_plan: reads one service and the hosts' facts of this run, lets the core make the plan, and shows it."""

from __future__ import annotations

import typing as t

from ansible.errors import AnsibleActionFail

from ..module_utils._core.base.errors import PdError
from ..module_utils._core.base.finding import Findings, as_text
from ..module_utils._core.facts.observed import Host, Member
from ..module_utils._core.plan.plan import Removal, make, removal, summary
from ..module_utils._core.plan.situation import Reality, ServiceRequest
from ..module_utils._core.plan.value import Plan
from ..module_utils._core.spec.cache_service import ROLE, parse, users_of
from ..module_utils._core.template.cache_template import render
from ..plugin_utils import _caches
from ..plugin_utils._action import PdAction
from ..plugin_utils._plain import names_list, to_plain


class ActionModule(PdAction):
    ARGUMENTS: t.ClassVar[dict[str, t.Any]] = {
        "name": {"type": "str", "required": True},
        "hosts": {"type": "dict"},
        "register": {"type": "str", "default": "pd_facts"},
        "action": {"type": "str", "choices": ["deploy", "restart", "remove"], "default": "deploy"},
        "lost_hosts": {"type": "list", "elements": "str", "default": []},
        "planned": {"type": "list", "elements": "dict", "default": []},
        "modes_path": {"type": "list", "elements": "path", "default": []},
        "fail_on": {"type": "str", "choices": ["error", "warning", "never"], "default": "error"},
    }

    def act(self) -> dict[str, t.Any]:
        name, findings = self.args["name"], Findings()
        hosts = self._hosts(findings)
        self._refuse(name, findings)
        if self.args["action"] == "remove":
            made = self._removal(name, hosts, findings)
        else:
            made = self._plan(name, hosts, findings)
        plan = made.to_plain()
        result = {"plan": plan, "findings": findings.to_plain(), "diff": plan.pop("diff")}
        self._refuse(name, findings)
        if self._task.diff and result["diff"]:
            self._display.display("\n".join(d["prepared"] for d in result["diff"]).rstrip())
        else:
            self._display.display(summary(made))
        result["warnings"] = [f"{f['message']} {f['hint']}".strip() for f in result["findings"]]
        return result

    def _plan(self, name: str, hosts: dict[str, Host], findings: Findings) -> Plan:
        written = _caches.merged(self)
        if name not in written:
            raise PdError(f"There is no cache service {name!r} in pd_caches. Services: {', '.join(sorted(written))}.")
        recipes, groups = _caches.recipes_of(self), self.groups()
        service = parse({name: written[name]}, recipes, findings, groups).get(name)
        template = render(service, recipes[service.provider], findings) if service and not service.address else None
        self._refuse(name, findings)
        if service is None or template is None:
            raise PdError(f"Cache service {name} is run by somebody else: there is nothing to deploy.")
        for host in hosts:
            if host not in self._inventory().hosts:
                self._inventory().add_host(host)
        pattern = self.pattern_hosts(service.hosts)
        lost = names_list(self.args["lost_hosts"])
        reality = self._reality(name, hosts, sorted(set(pattern) - set(hosts) - set(lost) - set(self.away())), lost)
        return make(ServiceRequest(service, template, {ROLE: pattern}, self.args["action"], reality), findings)

    def _reality(
        self, name: str, hosts: t.Mapping[str, Host], silent: t.Sequence[str], lost: t.Sequence[str]
    ) -> Reality:
        return Reality(
            hosts=hosts,
            run=self.new_run(),
            silent=silent,
            lost=lost,
            away=self.away(),
            reach=self.reach(),
            users=users_of(name, self.groups()),
            reserved=[Plan.from_plain(one) for one in to_plain(self.args["planned"]) or ()],
        )

    def _removal(self, name: str, hosts: dict[str, Host], findings: Findings) -> Plan:
        known = {m.group for h in hosts.values() for m in h.members if m.role == ROLE}
        known |= {g for h in hosts.values() for g, noted in h.records.items() if noted.plain.get("cache")}
        written = _caches.merged(self)
        if name not in known and name not in written:
            told = ", ".join(sorted({*known, *written})) or "none"
            raise PdError(f"There is no cache service {name!r}, neither in pd_caches nor on the hosts. Known: {told}.")
        entry = written.get(name)
        pattern = self.pattern_hosts(str(entry.get("hosts") or "")) if isinstance(entry, dict) else []
        lost = names_list(self.args["lost_hosts"])
        silent = sorted(set(pattern) - set(hosts) - set(lost) - set(self.away()))
        using = sorted({m.group for h in hosts.values() for m in h.members if m.alive and _uses(m, name)})
        if using:
            findings.error(
                "cache-in-use",
                f"cache service {name} is used by members of {', '.join(using)} that run.",
                "Take kv_cache out of the group's spec and restart it, or remove the group; then remove the service.",
            )
        for host in silent:
            findings.error(
                "host-unreachable",
                f"{host} does not answer: whether an instance of {name} runs there is unknown.",
                f"Bring it back, or state that it is fenced: -e pd_lost_hosts={host}",
                [],
                host,
            )
        return removal(Removal(name, self._reality(name, hosts, silent, lost), "cache"), findings)

    def _refuse(self, name: str, findings: Findings) -> None:
        if findings.fails(self.args["fail_on"]):
            plain = findings.to_plain()
            count = len(findings.errors)
            head = f"Cache service {name} is refused: {count} error{'s' if count != 1 else ''}."
            raise AnsibleActionFail(f"{head}\n{as_text(plain)}", result={"findings": plain, "failed": True})

    def _hosts(self, findings: Findings) -> dict[str, Host]:
        """The facts by host. A host that answered, and whose facts failed over a value, is an error: the value is the user's to mend."""
        seen = self.seen()
        for host, why in {**seen.broken, **seen.hidden}.items():
            findings.error(
                "host-facts", f"{host}: {why}", "It is a host variable (pd_...), or the Python there.", [], host
            )
        return seen.hosts


def _uses(member: Member, service: str) -> bool:
    """Whether a member was started with the service, as its label says."""
    cache = member.label.get("cache") or {}
    return cache.get("service") == service and bool(cache.get("injected"))
