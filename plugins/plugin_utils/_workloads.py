# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The workloads of one kind on the controller: what the actions ask of groups and of cache services alike. An action knows the steps, in
one order for both; here stands how each kind reads its entries, and what a plan of it is made from."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, replace

from ..module_utils._core.base import braces
from ..module_utils._core.base.errors import PdError
from ..module_utils._core.base.finding import Finding, Findings
from ..module_utils._core.facts.observed import Host, on_plane
from ..module_utils._core.facts.stands import Beside, name_of, other_of, record_of
from ..module_utils._core.plan import hooks
from ..module_utils._core.plan import plan as core_plan
from ..module_utils._core.plan.hosts import Hosts
from ..module_utils._core.plan.reserved import NOTHING as NOTHING_RESERVED
from ..module_utils._core.plan.reserved import Reserved
from ..module_utils._core.plan.situation import (
    EVERYWHERE,
    Action,
    Reach,
    Reality,
    Request,
    Run,
    ServiceRequest,
    Situation,
    To,
)
from ..module_utils._core.plan.source import FromRecord, no_return
from ..module_utils._core.plan.value import Plan
from ..module_utils._core.report import users
from ..module_utils._core.report.status import Subject
from ..module_utils._core.rules import checks_runtime
from ..module_utils._core.runtimes.table import traits_of
from ..module_utils._core.spec import workload
from ..module_utils._core.spec.cache_service import CacheService, parse
from ..module_utils._core.spec.known import NOTHING, Known
from ..module_utils._core.spec.selector import no_such
from ..module_utils._core.spec.spec import Group
from ..module_utils._core.spec.spec import parse as spec_parse
from ..module_utils._core.template.cache_template import CacheTemplate, render
from ..module_utils._core.template.template import GroupTemplate
from . import _caches, _hooks
from ._action import PdAction, known_of


@dataclass(frozen=True)
class Judged:
    """What is said of an entry, and as much of it as could be read."""

    name: str
    findings: Findings
    spec: Group | CacheService | None
    template: GroupTemplate | CacheTemplate | None


@dataclass(frozen=True)
class Place:
    """A pattern of hosts in an entry: where it stands, and the roles that it is of."""

    where: str
    pattern: str
    roles: tuple[str, ...] = ()


@dataclass(frozen=True)
class Asked:
    """What is wanted of a workload, and what this run has seen; `name` is what hosts know it by. `lost`, `away`, `fence`, `forget`, `to`,
    `release`, `beside` and `evacuated` as in a plan's Request."""

    name: str
    hosts: t.Mapping[str, Host]
    action: str
    run: Run
    lost: t.Sequence[str] = ()
    away: t.Sequence[str] = ()
    fence: str = ""
    forget: t.Sequence[str] = ()
    counts: t.Mapping[str, int] | None = None
    allow_scale_down: bool = False
    evacuated: t.Sequence[str] = ()
    reserved: Reserved = NOTHING_RESERVED
    reach: Reach = EVERYWHERE
    to: To = "spec"
    release: bool = False
    beside: Beside | None = None

    def on_plane(self, plane: str) -> Asked:
        """The same as a mode sees the hosts that needs this of their KV interfaces."""
        return replace(self, hosts=on_plane(self.hosts, plane))

    def silent(self, patterns: t.Mapping[str, t.Collection[str]]) -> list[str]:
        """Hosts of the patterns of which nothing is known, and should be."""
        named = {host for found in patterns.values() for host in found}
        return sorted(named - set(self.hosts) - set(self.lost) - set(self.away))

    def reality(self, silent: t.Sequence[str], users: t.Sequence[str] = ()) -> Reality:
        """What a plan rests on beside its spec."""
        return Reality(
            hosts=Hosts.of(self.hosts),
            run=self.run,
            silent=silent,
            lost=self.lost,
            away=self.away,
            fence=self.fence,
            forget=self.forget,
            reach=self.reach,
            users=users,
            reserved=self.reserved,
        )


class Workloads:
    """All workloads of a kind, as an action sees them."""

    kind: t.ClassVar[workload.Kind]

    def __init__(self, action: PdAction) -> None:
        self.action = action

    def known_names(self, hosts: t.Mapping[str, Host]) -> list[str]:
        """Those of the inventory, and those that only the hosts know."""
        return sorted({*self.action.entries(self.kind), *workload.names_on(hosts, self.kind)})

    def check_known(self, name: str, hosts: t.Mapping[str, Host]) -> None:
        """A slip of the keyboard must not look like a workload that is gone already."""
        if name_of(name) not in self.known_names(hosts):
            raise PdError(no_such(name, self.action.entries(self.kind), self.kind, workload.names_on(hosts, self.kind)))

    def known(self, name: str, entry: t.Any, hosts: t.Mapping[str, Host]) -> Known:  # noqa: ARG002
        """What is known beside an entry, from the hosts' facts of this run."""
        return NOTHING

    def named_hosts(self, name: str, entry: t.Any) -> dict[str, list[str]]:
        """The inventory hosts of each role of an entry, as far as it can be read: who is asked."""
        raise NotImplementedError

    def patterns(self, name: str, entry: t.Any) -> dict[str, list[str]]:
        """The hosts of a plan for each role of an entry, as far as it can be read: where members may be."""
        return self.named_hosts(name, entry)

    def judge(self, name: str, entry: t.Any, known: Known = NOTHING) -> Judged:
        raise NotImplementedError

    def places(self, judged: Judged) -> list[Place]:
        raise NotImplementedError

    def observe(self, judged: Judged) -> dict[str, t.Any]:
        """What module host_facts is to look at: its arguments."""
        raise NotImplementedError

    def deployed(self, judged: Judged) -> bool:  # noqa: ARG002
        """Whether it is the collection's to deploy."""
        return True

    def told(self, judged: Judged) -> dict[str, t.Any]:
        """What group_validate says of an entry beside its findings."""
        raise NotImplementedError

    def make(self, judged: Judged, asked: Asked) -> Plan:
        """The plan; what stands in its way goes to the findings of `judged`."""
        raise NotImplementedError

    def from_record(self, entry: t.Any, asked: Asked, findings: Findings) -> Plan:
        """The plan that is made of what the record keeps, whatever the entry says."""
        raise NotImplementedError

    def removal(self, entry: t.Any, asked: Asked, findings: Findings) -> Plan:
        """The plan that takes it down. It needs no entry: what runs, and the record, say all of it."""
        raise NotImplementedError

    def subject(self, name: str, judged: Judged | None) -> Subject:
        """Whose state is told; `judged` is None for one that is in no inventory any more."""
        spec, template = (judged.spec, judged.template) if judged else (None, None)
        found: t.Sequence[Finding] = judged.findings.items if judged else ()
        return Subject(self.kind, name, spec, template, found)


class Groups(Workloads):
    kind = workload.GROUP

    def known(self, name: str, entry: t.Any, hosts: t.Mapping[str, Host]) -> Known:
        return known_of(name, hosts, self.patterns(name, entry))

    def named_hosts(self, name: str, entry: t.Any) -> dict[str, list[str]]:
        return self.action.named_hosts(name_of(name), entry)

    def patterns(self, name: str, entry: t.Any) -> dict[str, list[str]]:
        return self.action.patterns_of(name_of(name), entry)

    def judge(self, name: str, entry: t.Any, known: Known = NOTHING) -> Judged:
        verdict = self.action.verdict(name_of(name), entry, known)
        if verdict.group is None:
            return Judged(name, verdict.findings, None, verdict.template)
        _hooks.check(self.action, verdict.group, verdict.findings)
        return Judged(name, verdict.findings, replace(verdict.group, stands_as=name), verdict.template)

    def places(self, judged: Judged) -> list[Place]:
        roles = judged.spec.roles.values() if isinstance(judged.spec, Group) else ()
        return [Place(f"roles.{role.name}", role.hosts, (role.name,)) for role in roles if role.hosts]

    def observe(self, judged: Judged) -> dict[str, t.Any]:
        group, template = judged.spec, judged.template
        if not isinstance(group, Group) or not isinstance(template, GroupTemplate):
            return {}
        images = {r.image for r in template.roles.values() if r.image} if traits_of(group.runtime).images else set()
        return {
            "models": list(group.models()),
            "executables": sorted({role.executable for role in template.roles.values() if role.executable}),
            "images": sorted(images),
            "runtimes": [group.runtime],
            "interface_plane": template.mode.interface_plane,
            **({"pods": _pods_of(group)} if traits_of(group.runtime).pods else {}),
        }

    def told(self, judged: Judged) -> dict[str, t.Any]:
        inventory = self.action.args["spec"] is None
        return {
            "spec": judged.spec.to_plain() if judged.spec else None,
            "observe": self.observe(judged),
            "caches": _caches.deployed_for(self.action, judged.name) if inventory else [],
        }

    def make(self, judged: Judged, asked: Asked) -> Plan:
        return core_plan.make(self.request(judged, asked), judged.findings)

    def request(self, judged: Judged, asked: Asked) -> Request:
        group, template = judged.spec, judged.template
        if not isinstance(group, Group) or not isinstance(template, GroupTemplate):
            raise PdError("The spec could not be read.")
        asked = asked.on_plane(template.mode.interface_plane)
        patterns = self.action.places_of(group)
        return Request(
            group,
            template,
            patterns,
            t.cast(Action, asked.action),
            asked.reality(asked.silent(patterns)),
            counts=asked.counts or {},
            allow_scale_down=asked.allow_scale_down,
            evacuated=asked.evacuated,
            wired=self._wired(group.endpoint.hooks, asked, Findings()),
            release=asked.release,
            beside=asked.beside,
            catalogue=self.action.catalogue(),
        )

    def from_record(self, entry: t.Any, asked: Asked, findings: Findings) -> Plan:
        return core_plan.from_record(self._of_record(entry, asked), findings)

    def no_return(self, entry: t.Any, asked: Asked) -> str:
        """Why what the record keeps could not be returned to, as far as this look shows it."""
        request = self._of_record(entry, asked)
        reality = request.reality
        return no_return(request, Situation.of(asked.name, reality.hosts, reality.silent, reality.gone))

    def _of_record(self, entry: t.Any, asked: Asked) -> FromRecord:
        patterns = self.patterns(asked.name, entry)
        group = spec_parse(name_of(asked.name), entry, Findings()) if entry is not None else None
        named = group.endpoint.hooks if group else ()
        noted = record_of(asked.name, asked.hosts)
        if group is not None and noted is not None and asked.beside is not None:
            # It gets its endpoint back as it is.
            counts = {role: noted.desired.get(role, one.replicas) for role, one in group.roles.items()}
            roles = {role: replace(one, replicas=counts[role]) for role, one in group.roles.items()}
            group = replace(group, roles=roles)
        return FromRecord(
            asked.name,
            t.cast("Action", asked.action),
            asked.to,
            patterns,
            asked.reality(asked.silent(patterns)),
            self.action.catalogue(),
            group,
            asked.release,
            self._wired(named, asked, Findings()),
            asked.beside,
        )

    def removal(self, entry: t.Any, asked: Asked, findings: Findings) -> Plan:
        silent = asked.silent(self.patterns(asked.name, entry))
        known = self._wired((), asked, findings)
        removed = core_plan.Removal(asked.name, asked.reality(silent), wired=known, beside=asked.beside)
        return core_plan.removal(removed, findings)

    def _wired(self, named: t.Iterable[str], asked: Asked, findings: Findings) -> hooks.Wired:
        """The hooks that a plan may have to tell: those that are named, and those that know the group by the record of either stand."""
        stands = (asked.name, other_of(asked.name)) if asked.beside is not None else (asked.name,)
        noted = (record_of(stand, asked.hosts) for stand in stands)
        recorded = [one.endpoint.hooks for one in noted if one is not None]
        return _hooks.wired(self.action, recorded, named, asked.hosts, findings)


class Caches(Workloads):
    kind = workload.CACHE

    def named_hosts(self, name: str, entry: t.Any) -> dict[str, list[str]]:  # noqa: ARG002
        hosts = self.action.workload_hosts(str(entry.get("hosts") or "")) if isinstance(entry, dict) else []
        return dict.fromkeys(self.kind.roles, hosts) if hosts else {}

    def judge(self, name: str, entry: t.Any, known: Known = NOTHING) -> Judged:  # noqa: ARG002
        findings, recipes = Findings(), _caches.recipes_of(self.action)
        braces.check(entry, f"{self.kind.entries}.{name}", findings)
        service = parse({name: entry}, recipes, findings, self.action.groups()).get(name)
        ours = service is not None and not service.address
        template = render(service, recipes[service.provider], findings) if service is not None and ours else None
        if service is not None and ours:
            checks_runtime.check_service(service, findings)
        return Judged(name, findings, service, template)

    def places(self, judged: Judged) -> list[Place]:
        service = _service(judged)
        return [Place(f"pd_caches.{judged.name}", service.hosts)] if service and service.hosts else []

    def observe(self, judged: Judged) -> dict[str, t.Any]:
        service = _service(judged)
        return _caches.observe(service) if service and not service.address else {}

    def deployed(self, judged: Judged) -> bool:
        service = _service(judged)
        return service is None or not service.address

    def told(self, judged: Judged) -> dict[str, t.Any]:
        about = judged.spec.to_plain() if judged.spec else {}
        return {**about, "users": self._named_by(judged.name), "observe": self.observe(judged)}

    def make(self, judged: Judged, asked: Asked) -> Plan:
        service, template = judged.spec, judged.template
        if not isinstance(service, CacheService) or not isinstance(template, CacheTemplate):
            raise PdError(f"Cache service {judged.name} is run by somebody else: there is nothing to deploy.")
        if asked.action == "scale":
            raise PdError(
                f"Cache service {judged.name} cannot be scaled: its kind, and its pattern of hosts, say how many there are."
            )
        pattern = self.action.workload_hosts(service.hosts)
        asked = asked.on_plane("data")
        reality = asked.reality(asked.silent({"": pattern}), self._named_by(judged.name))
        patterns = dict.fromkeys(self.kind.roles, pattern)
        action = t.cast(Action, asked.action)
        request = ServiceRequest(service, template, patterns, action, reality, evacuated=asked.evacuated)
        return core_plan.make(request, judged.findings)

    def removal(self, entry: t.Any, asked: Asked, findings: Findings) -> Plan:
        name, silent = asked.name, asked.silent(self.patterns(asked.name, entry))
        gone = [*asked.lost, *asked.away]
        using = users.running(name, asked.hosts)
        if using:
            findings.error(
                "cache-in-use",
                f"cache service {name} is used by members of {', '.join(using)} that run.",
                "Take kv_cache out of the group's spec and restart it, or remove the group; then remove the service.",
            )
        # Also those that only the record names: what they run would be forgotten.
        unknown = Situation.of(name, asked.hosts, silent, gone, formations=self.kind.joined).unknown
        for host in sorted({*silent, *(place.host for place in unknown)}):
            findings.error(
                "host-unreachable",
                f"{host} does not answer: whether an instance of {name} runs there is unknown.",
                f"Bring it back, or state that it is fenced: -e pd_lost_hosts={host}",
                [],
                host,
            )
        return core_plan.removal(
            core_plan.Removal(name, asked.reality(silent, self._named_by(name)), self.kind), findings
        )

    def subject(self, name: str, judged: Judged | None) -> Subject:
        plain, service = super().subject(name, judged), _service(judged) if judged else None
        one = service is not None and service.scope == "group"
        wanted = 1 if one else len(self.action.workload_hosts(service.hosts)) if service else 0
        return Subject(self.kind, name, plain.spec, plain.template, plain.findings, wanted, self._named_by(name))

    def _named_by(self, name: str) -> list[str]:
        """The groups of the inventory whose specs name the service."""
        return self.action.users_by_service().get(name, [])


def _service(judged: Judged) -> CacheService | None:
    return judged.spec if isinstance(judged.spec, CacheService) else None


# Of the settings of Pods, those that are said of each group and hold for a look at all of them.
_OF_ALL = ("tolerations", "pull_secrets")


def _pods_of(group: Group) -> dict[str, t.Any]:
    """Which nodes of a cluster are looked at for a group, and how its Pods are there."""
    nodes = [role.nodes.to_plain() if role.nodes else "" for role in group.roles.values()]
    return {
        "nodes": [one for at, one in enumerate(nodes) if one not in nodes[:at]],
        "settings": group.kubernetes.settings(None, None),
    }


def _pods_of_all(each: t.Sequence[t.Mapping[str, t.Any]]) -> dict[str, t.Any]:
    """The same for several groups at once: their models are looked at by their paths on the nodes."""
    if len(each) == 1:
        return dict(each[0])
    nodes = [one for part in each for one in part["nodes"]]
    every = {key: [one for part in each for one in part["settings"].get(key) or ()] for key in _OF_ALL}
    return {
        "nodes": [one for at, one in enumerate(nodes) if one not in nodes[:at]],
        "settings": {
            key: [one for at, one in enumerate(its) if one not in its[:at]] for key, its in every.items() if its
        },
    }


# What host_facts is to look at in lists; the rest is a word.
_LOOKED_AT = ("models", "executables", "images")


def united(each: t.Iterable[t.Mapping[str, t.Any]]) -> dict[str, t.Any]:
    """What module host_facts is to look at for several workloads at once: its arguments. One of which nothing is known may run under any
    runtime: then all of them are looked at."""
    parts = list(each)
    found: dict[str, t.Any] = {
        key: list(dict.fromkeys(one for part in parts for one in part.get(key) or ())) for key in _LOOKED_AT
    }
    if parts and all(part.get("runtimes") for part in parts):
        found["runtimes"] = list(dict.fromkeys(one for part in parts for one in part["runtimes"]))
    pods = [part["pods"] for part in parts if part.get("pods")]
    if pods:
        found["pods"] = _pods_of_all(pods)
    planes = {part["interface_plane"] for part in parts if part.get("interface_plane")}
    if planes:
        # host_facts tells the interfaces of both planes; each plan takes its own (Workloads.hosts_of).
        found["interface_plane"] = planes.pop() if len(planes) == 1 else "data"
    return found


def workloads_of(kind: str, action: PdAction) -> Workloads:
    return {one.kind.name: one for one in (Groups, Caches)}[t.cast("workload.KindName", kind)](action)
