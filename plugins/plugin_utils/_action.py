# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The base of every action of the collection: on the controller it reads arguments, groups and hosts, and turns an error into one
sentence."""

from __future__ import annotations

import getpass
import socket
import time
import typing as t
import uuid
from dataclasses import dataclass, field, replace

from ansible.constants import LOCALHOST
from ansible.errors import AnsibleActionFail
from ansible.inventory.manager import InventoryManager
from ansible.parsing.dataloader import DataLoader
from ansible.plugins.action import ActionBase

from ..module_utils._core.base.errors import PdError
from ..module_utils._core.base.finding import Findings, as_text, in_short
from ..module_utils._core.base.order import natural
from ..module_utils._core.base.values import blank, boolean
from ..module_utils._core.base.words import counted
from ..module_utils._core.cluster import inventory
from ..module_utils._core.cluster.node_selector import Nodes
from ..module_utils._core.cluster.places import cluster_of, expanded, node_of
from ..module_utils._core.facts.cordon import BY_INVENTORY, Cordon
from ..module_utils._core.facts.observed import Host, read_host
from ..module_utils._core.facts.record import Reader
from ..module_utils._core.facts.stands import Stands, name_of, other_of, record_of
from ..module_utils._core.facts.stands import of as stands_of
from ..module_utils._core.plan.hosts import Hosts
from ..module_utils._core.plan.situation import Reach, Run
from ..module_utils._core.rules.validate import Catalogue, Verdict, validate
from ..module_utils._core.runtimes.options import of_variables
from ..module_utils._core.spec import selector as selectors
from ..module_utils._core.spec.cache_service import services_named, users_by_service
from ..module_utils._core.spec.known import NOTHING, Known
from ..module_utils._core.spec.selector import Selector
from ..module_utils._core.spec.spec import Group, parse
from ..module_utils._core.spec.variables import MEANT_EMPTY
from ..module_utils._core.spec.workload import GROUP, Kind
from ..module_utils._engines import registry
from ._absent import VARIABLE as EXPECTED
from ._absent import expected, named
from ._answers import Complaint, last_line
from ._caches import services_of
from ._entries import Entries
from ._modes import load_modes
from ._plain import names_list, sealed, to_plain

_T = t.TypeVar("_T")


@dataclass
class Seen:
    """What the hosts of a run said: facts by host; why a host is out of sight (`silent`), also one that answers and does not show what it
    has (`hidden`); and what it complains of where looking at it failed (`broken`): it lives. `passed` are those that this run did not
    look at."""

    hosts: Hosts = field(default_factory=lambda: Hosts({}))
    silent: dict[str, str] = field(default_factory=dict)
    hidden: dict[str, str] = field(default_factory=dict)
    broken: dict[str, Complaint] = field(default_factory=dict)
    passed: frozenset[str] = frozenset()
    # The clusters that showed their nodes: the labels of each, by the name of its place.
    clusters: dict[str, dict[str, t.Mapping[str, str]]] = field(default_factory=dict)
    # The rights that a change needs and that this run has not, by cluster.
    lacks: dict[str, list[str]] = field(default_factory=dict)


class PdAction(ActionBase):
    """An action that runs on the controller alone. Subclasses give ARGUMENTS and `act`."""

    _requires_connection = False
    _supports_check_mode = True
    _supports_async = False
    TRANSFERS_FILES = False
    ARGUMENTS: t.ClassVar[dict[str, t.Any]] = {}

    def run(self, tmp: str | None = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        super().run(tmp, task_vars)
        self.task_vars = task_vars or {}
        self._task.args = given(self._task.args)
        several = self.ARGUMENTS.get("name", {}).get("type") == "raw"
        if isinstance(self._task.args.get("name"), t.Mapping if several else (t.Mapping, list)):
            # Not shown: it is a group's whole spec, secrets included.
            what = "a dictionary. pd_group takes names, globs or labels" if several else "a dictionary or a list"
            raise AnsibleActionFail(f"The group's name is {what}; specs stand under pd_groups.")
        _spec, self.args = self.validate_argument_spec(argument_spec=self.ARGUMENTS)
        try:
            result = self.act()
        except PdError as exc:
            result = {"failed": True, "msg": str(exc)}
        except AnsibleActionFail as exc:
            # Returned, not raised: before 2.19 Ansible tells a traceback of each, which there is none of.
            result = {**(exc.result or {}), "failed": True, "msg": exc.message}
            result.pop("exception", None)
        result.setdefault("changed", False)
        return result

    def act(self) -> dict[str, t.Any]:
        raise NotImplementedError

    def refused(self, *refusals: Refusal, **more: t.Any) -> AnsibleActionFail:
        """The error for what is refused. A person reads its findings once, above it; Ansible prints a failed task's result as well, and so
        that has of each finding only what a machine asks for."""
        self._display.display("\n\n".join(as_text(one.findings) for one in refusals))
        told = [{**found, "workload": one.name} for one in refusals for found in in_short(one.findings)]
        return AnsibleActionFail(" ".join(one.head for one in refusals), result={"findings": told, **more})

    def as_if(self, arguments: t.Mapping[str, t.Mapping[str, t.Any]], **given: t.Any) -> None:
        """Have the arguments of another action, by its defaults or as `given`: for an action that is a case of it."""
        self.args = {**{name: one.get("default") for name, one in arguments.items()}, **self.args, **given}

    # -- variables -------------------------------------------------------------------------------------------------------------

    def variable(self, name: str, default: t.Any = None) -> t.Any:
        """A variable of the play, templated and plain. One that says nothing is not there."""
        if name not in self.task_vars:
            return default
        value = self._templated(self.task_vars[name])
        return default if blank(value) and name not in MEANT_EMPTY else value

    def _templated(self, raw: t.Any) -> t.Any:
        return to_plain(self._templar.template(raw))

    def _once(self, what: str, make: t.Callable[[], _T]) -> _T:
        """A value that stays the same as long as the task: with hundreds of groups and hosts, none is made for each of them anew."""
        kept: dict[str, t.Any] = self.__dict__.setdefault("_kept", {})
        if what not in kept:
            kept[what] = make()
        return t.cast("_T", kept[what])

    def runtime_options(self) -> dict[str, t.Any]:
        """How this host runs members, as arguments of the host's own modules: what the task says, else the host variables."""
        cluster = self.cluster()
        if cluster:
            return {"cluster": cluster}
        kept = self.args.get("state_dir")
        options = {
            "state_dir": kept if kept is not None else self.variable("pd_state_dir"),
            "runtime_options": of_variables(self.variable, to_plain(self.args.get("runtime_options"))),
        }
        return {name: value for name, value in options.items() if value not in (None, "", {})}

    def cluster(self) -> str | None:
        """This host as modules are told of it where it stands for a cluster; None for one that is itself. Raises PdError for what its
        variables cannot mean."""
        raw = self.task_vars.get(inventory.CLUSTER)
        if blank(raw):
            return None
        host = str(self.task_vars["inventory_hostname"])
        nodes = inventory.nodes(self._templated(self.task_vars.get(inventory.NODES)), host)
        return sealed({"name": host, "access": inventory.cluster(self._templated(raw), host), "nodes": nodes})

    def groups(self) -> Entries:
        """All groups of the inventory."""
        return self.entries(GROUP)

    def entries(self, kind: Kind) -> Entries:
        """All workloads of a kind as the inventory has them, each templated when it is asked for."""
        return self._once(f"entries {kind.name}", lambda: Entries(kind, self.task_vars, self._templated))

    def entry(self, name: str, kind: Kind = GROUP) -> t.Any:
        """One of them, None where there is none. What else stands there, secrets of others among it, is not templated."""
        return self.entries(kind).get(name)

    def spec_of(self, name: str, kind: Kind = GROUP) -> t.Any:
        """The spec to work on: the argument `spec`, else the inventory's entry of that name."""
        if self.args.get("spec") is not None:
            return to_plain(self.args["spec"])
        if name not in self.entries(kind):
            raise PdError(selectors.no_such(name, self.entries(kind), kind))
        return self.entry(name, kind)

    def selector(self, kind: Kind = GROUP) -> Selector | None:
        """What the argument `name` selects; None where it is left to the action. A group is selected by any of its stands."""
        found = selectors.parse(to_plain(self.args.get("name")), kind.variable)
        return replace(found, names=tuple(dict.fromkeys(map(name_of, found.names)))) if found is not None else None

    def select(self, selector: Selector, kind: Kind = GROUP, others: t.Collection[str] | None = None) -> list[str]:
        """The names of what is selected; `others` may be selected by their names beside the inventory's."""
        entries = self.entries(kind)
        known = entries.labels() if selector.labels else {name: {} for name in entries}
        return selectors.choose(selector, known, kind, others)

    def modes_path(self) -> list[str]:
        """Folders with modes, and kinds of cache services, of the user's own."""
        return self._once(
            "modes_path", lambda: names_list(self.args.get("modes_path")) or names_list(self.variable("pd_modes_path"))
        )

    def catalogue(self) -> Catalogue:
        return self._once("catalogue", lambda: Catalogue(load_modes(self.modes_path()), registry.by_backend))

    def verdict(self, name: str, spec: t.Any, known: Known = NOTHING) -> Verdict:
        """The verdict on a spec, with what the inventory says of the cache services that it names."""
        named = services_named(spec)
        if not named:
            return validate(name, spec, self.catalogue(), known)
        services, said = self._once("services", lambda: services_of(self))
        # Of every service: one may be written in two ways.
        known = replace(known, caches=services, cache_users=self.users_by_service())
        verdict = validate(name, spec, self.catalogue(), known)
        # Of the services, what is wrong with those that it uses is its matter, too.
        for finding in (one for name in said if name in named for one in said[name].items):
            verdict.findings.add(finding)
        return verdict

    def users_by_service(self) -> dict[str, list[str]]:
        """The groups of the inventory whose specs name each service."""
        return self._once("users", lambda: users_by_service(self.groups()))

    # -- hosts -----------------------------------------------------------------------------------------------------------------

    def pattern_hosts(self, pattern: str) -> list[str]:
        """The hosts of an Ansible pattern, whatever --limit says, in the order of their names: an inventory's groups may come in any."""
        found = self._once("patterns", dict[str, "list[str]"])
        if pattern not in found:
            hosts = self._inventory().get_hosts(pattern) if pattern else ()
            found[pattern] = sorted((host.name for host in hosts), key=natural)
        return list(found[pattern])

    def workload_hosts(self, pattern: str) -> list[str]:
        """The hosts of a workload's pattern, with those that are absent: what they have nobody knows, and so nothing takes their place."""
        return sorted({*self.pattern_hosts(pattern), *self.absent(pattern)}, key=natural)

    def absent(self, pattern: str) -> list[str]:
        """The hosts that a pattern says by their names, or by a group that is expected to have them, and the inventory of this run has not.
        Where facts are given by hand, there is no inventory."""
        if self.args.get("hosts") or self.args.get("spec") is not None:
            return []
        found = self._once("absent", dict[str, "list[str]"])
        if pattern not in found:
            known, here = self._inventory().hosts, self._once("expecting", self._expecting)
            expected_ = {host.name for host in here.get_hosts(pattern)} if pattern else set()
            missing = {name for name in named(pattern) if name not in here.groups and name not in here.hosts}
            found[pattern] = sorted(
                {one for one in expected_ if one not in known} - set(LOCALHOST) | missing, key=natural
            )
        return list(found[pattern])

    def carriers(self, hosts: t.Iterable[str]) -> list[str]:
        """The hosts of the inventory that carry out what is planned for these: each itself, and for the nodes of a cluster that."""
        clusters = self.host_variables(inventory.CLUSTER)
        found = {cluster_of(host) if cluster_of(host) in clusters else host for host in hosts}
        return sorted(found, key=natural)

    def _expecting(self) -> InventoryManager:
        """The inventory with the hosts that it is expected to have."""
        raw = self.task_vars.get(EXPECTED)
        groups = self._groups_of_inventory()
        wanted = {} if blank(raw) else expected(raw, self._templated, groups)
        every = {"all": [host for hosts in wanted.values() for host in hosts]}
        return _manager(groups, wanted, every)

    def _groups_of_inventory(self) -> dict[str, list[str]]:
        return {str(name): list(hosts) for name, hosts in (self.task_vars.get("groups") or {}).items()}

    def named_hosts(self, name: str, spec: t.Any) -> dict[str, list[str]]:
        """The inventory hosts of each role of a spec, as far as it can be read."""
        group = parse(name, to_plain(spec), Findings()) if spec is not None else None
        found = {role.name: self.workload_hosts(role.hosts) for role in group.roles.values()} if group else {}
        return {role: hosts for role, hosts in found.items() if hosts}

    def patterns_of(self, name: str, spec: t.Any) -> dict[str, list[str]]:
        """The places of each role of a spec, as far as it can be read."""
        group = parse(name, to_plain(spec), Findings()) if spec is not None else None
        found = self.places_of(group) if group else {}
        return {role: hosts for role, hosts in found.items() if hosts}

    def places_of(self, group: Group) -> dict[str, list[str]]:
        """Where members of each role may be: the hosts of its pattern, and of clusters among them the nodes."""
        return {one.name: self.places(self.workload_hosts(one.hosts), one.nodes) for one in group.roles.values()}

    def places(self, hosts: t.Iterable[str], nodes: Nodes | None = None) -> list[str]:
        """The hosts of a plan for these of the inventory: each its own, and for a cluster those of its nodes that are meant. One that has
        not shown its nodes stands for what nobody knows."""
        looked = self.args.get("hosts") is not None or self.args.get("register")
        clusters = self.seen().clusters if looked else {}
        found: list[str] = []
        for host in hosts:
            meant = (p for p, labels in clusters.get(host, {}).items() if not nodes or nodes.meant(node_of(p), labels))
            found += meant if host in clusters else [host]
        return found

    def reach(self) -> Reach:
        """Which hosts could have been asked, and which were. With facts given by hand there is no run that asked anybody."""
        if self.args.get("hosts") is not None:
            return Reach()
        inventory = {host for hosts in (self.task_vars.get("groups") or {}).values() for host in hosts}
        asked = set(self.task_vars.get("ansible_play_hosts_all") or ())
        seen = self.seen()
        broken = {host: one.said for host, one in seen.broken.items()}
        nodes = {place for places in seen.clusters.values() for place in places}
        return Reach(
            inventory | nodes, asked | nodes, frozenset(seen.hidden), broken, seen.passed, frozenset(seen.clusters)
        )

    def seen(self) -> Seen:
        """What the hosts said in this run, read once."""
        if not hasattr(self, "_seen"):
            self._seen = self._look()
        return self._seen

    def asked(self) -> dict[str, dict[str, t.Any]]:
        """What each host that was looked at in this run said, or that it could not be reached. `register` may be several names, of several
        looks: what the last one says counts."""
        names = names_list(self.args["register"])
        return self._once("asked", lambda: {h: said for name in names for h, said in self.results_of(name).items()})

    def living(self) -> set[str]:
        """The hosts that are still in the play."""
        return set(self.task_vars.get("ansible_play_hosts") or ())

    def _look(self) -> Seen:
        found, raw, hosts, reader = Seen(), {}, {}, Reader()
        if self.args.get("hosts") is not None:
            raw = to_plain(self.args["hosts"])
        else:
            # Where others have been looked at. One that left the play before it could be asked is silent.
            found.passed = (
                frozenset(self.living() - set(self.asked()) - set(self.away())) if self.asked() else frozenset()
            )
            for host, result in self.asked().items():
                told = facts_of(host, result)
                if told is not None:
                    raw.update(told)
                    if host not in told:
                        found.clusters[host] = {}
                        found.lacks[host] = list(result["ansible_facts"]["pd_places"].get("lacks") or ())
                elif result.get("unreachable"):
                    found.silent[host] = str(result.get("msg") or "no facts").strip().splitlines()[0]
                else:
                    said = str(result.get("complaint") or f"answers, but looking at it failed: {last_line(result)}")
                    found.broken[host] = Complaint(said, str(result.get("way_out") or ""))
        for host, facts in raw.items():
            node = facts.get("node")
            if node:
                found.clusters.setdefault(node["cluster"], {})[host] = node.get("labels") or {}
            if facts.get("silent"):
                found.silent[host] = str(facts["silent"])
            elif facts.get("hidden"):
                found.hidden[host] = str(facts["hidden"])
            else:
                hosts[host] = read_host(host, facts, reader)
        # By name, not by the inventory's order: the same hosts make the same plan.
        away = set(self.away())
        for host, cordon in self.cordons().items():
            if host in hosts:
                hosts[host] = hosts[host].under(cordon)
        found.hosts = Hosts({host: hosts[host] for host in sorted(hosts, key=natural) if host not in away})
        return found

    def cordons(self) -> dict[str, Cordon]:
        """The hosts on which nobody is to be seated, whatever they say themselves: by the inventory."""
        return {host: BY_INVENTORY for host, value in self.host_variables("pd_cordoned").items() if boolean(value)}

    def away(self) -> list[str]:
        """The hosts that the inventory says are out of service."""
        said = self.host_variables("pd_out_of_service")
        return sorted((host for host, value in said.items() if boolean(value)), key=natural)

    def host_variables(self, name: str) -> dict[str, str]:
        """A variable of each host that has it, as the inventory says."""
        return self._once(f"variable {name}", lambda: self._host_variables(name))

    def _host_variables(self, name: str) -> dict[str, str]:
        hostvars = self.task_vars.get("hostvars") or {}
        hosts = sorted({host for hosts in (self.task_vars.get("groups") or {}).values() for host in hosts})
        said = {host: hostvars[host].get(name) for host in hosts if host in hostvars}
        return {host: str(value) for host, value in said.items() if not blank(value)}

    def stands(self, name: str) -> Stands:
        """Under which names a group stands, by what hosts said in this run."""
        return stands_of(name, self.seen().hosts)

    def new_run(self) -> Run:
        """The identity of this run, and of the formation that it may make. Nothing below draws one."""
        who = f"{getpass.getuser()}@{socket.gethostname()}"
        return Run(str(uuid.uuid4()), str(uuid.uuid4()), time.time(), who)

    def _inventory(self) -> InventoryManager:
        return self._once("inventory", lambda: _manager(self._groups_of_inventory()))

    def results_of(
        self, register: str, workload: str | None = None, hosts: t.Collection[str] | None = None
    ) -> dict[str, dict[str, t.Any]]:
        """What each host of the play registered under that name in this run; hosts without a result are left out.

        A host that had no such task for this workload may still hold the result of the one before: with `workload`, what says that it is of
        another one is left out, and with `hosts` whoever is none of them."""
        hostvars = self.task_vars["hostvars"]
        found: dict[str, dict[str, t.Any]] = {}
        for host in self.task_vars.get("ansible_play_hosts_all") or ():
            if hosts is not None and host not in hosts:
                continue
            result = hostvars[host].get(register) if host in hostvars else None
            # An empty one says that a look of before counts no more (roles/rollout).
            if not isinstance(result, t.Mapping) or not result or result.get("skipped"):
                continue
            if workload is None or result.get("group") in (None, workload):
                found[host] = to_plain(result)
        return found


def facts_of(host: str, result: t.Mapping[str, t.Any]) -> dict[str, dict[str, t.Any]] | None:
    """The facts that a look has registered, by the names of the plan's hosts: the host's own, or those of a cluster's nodes. None where
    there are none."""
    told = result.get("ansible_facts") or {}
    if told.get("pd_host"):
        return {host: told["pd_host"]}
    places = told.get("pd_places")
    return expanded(host, places["nodes"], places["kept"]) if places else None


def _manager(*several: t.Mapping[str, t.Iterable[str]]) -> InventoryManager:
    """An inventory of these groups. Its hosts are in the order of their names, which a subscript of a pattern counts in."""
    found = InventoryManager(loader=DataLoader(), sources=None, parse=False)
    hosts: dict[str, set[str]] = {}
    for groups in several:
        for group, its in groups.items():
            hosts.setdefault(group, set()).update(its)
    for group in sorted(hosts):
        found.add_group(group)
        for host in sorted(hosts[group], key=natural):
            found.add_host(host, group=group)
    return found


@dataclass(frozen=True)
class Refusal:
    """Why a workload is refused: in a sentence, and by its findings, as results have them."""

    name: str
    head: str
    findings: list[dict[str, t.Any]]

    def in_short(self) -> str:
        """What is told at the end of a run that went on with others: the errors, without what is only doubted. That stands by the plan."""
        errors = [one for one in self.findings if one["severity"] == "error"]
        return "\n".join([self.head, as_text(errors or self.findings)])


def given(arguments: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """The arguments of a task without those that say nothing: a survey answers so where nobody did. Its own default holds for each."""
    return {name: one for name, one in arguments.items() if not blank(one) or f"pd_{name}" in MEANT_EMPTY}


def known_of(name: str, hosts: t.Mapping[str, Host], patterns: t.Mapping[str, list[str]]) -> Known:
    """What is known beside a spec: the hosts' facts, the hosts of each role, and the choices that the group's newest record holds. A stand
    without a record is to be what the other one is."""
    noted = record_of(name, hosts) or record_of(other_of(name), hosts)
    return Known(hosts=hosts, patterns=patterns, recorded=(noted.plain.get("choices") or {}) if noted else {})


def refuse(name: str, findings: Findings, fail_on: str, kind: Kind = GROUP) -> Refusal | None:
    """Why a workload is refused, or None."""
    if not findings.fails(fail_on):
        return None
    count = len(findings.errors)
    why = counted(count, "error") if count else f"fail_on: {fail_on}"
    return Refusal(name, f"{kind.title} {name} is refused: {why}.", findings.to_plain())
