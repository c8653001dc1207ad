# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller side of group_validate: the verdict on one entry, or on every group or cache service of the inventory."""

from __future__ import annotations

import typing as t
from dataclasses import replace

import yaml

from ..module_utils._core.base.errors import PdError
from ..module_utils._core.base.finding import as_text, sentences
from ..module_utils._core.base.order import natural
from ..module_utils._core.base.values import boolean, integer
from ..module_utils._core.base.words import by_number, counted, names
from ..module_utils._core.cluster import inventory, rights
from ..module_utils._core.cluster.inventory import CLUSTER
from ..module_utils._core.facts.observed import read_host
from ..module_utils._core.runtimes import table
from ..module_utils._core.spec.known import Known
from ..module_utils._core.spec.selector import Selector
from ..module_utils._core.spec.spec import Group
from ..module_utils._core.spec.variables import misspelt
from ..module_utils._core.spec.workload import CACHE, GROUP, KINDS, Kind
from ..plugin_utils import approval
from ..plugin_utils._absent import named, say
from ..plugin_utils._action import PdAction, Refusal, refuse
from ..plugin_utils._batch import check_batch, check_variables
from ..plugin_utils._look import look_at
from ..plugin_utils._plain import names_list, to_plain
from ..plugin_utils._workloads import Caches, Judged, Place, Workloads, united, workloads_of

# What a playbook hands to its roles as a word: one that is none of these would silently be taken for the default.
WORDS = {"pd_on_failure": ("keep", "stop"), "pd_proof": ("changed", "always", "never")}

# The same of numbers: the least of each, and what it counts.
NUMBERS = {"pd_patience": (0, "seconds"), "pd_parallel": (1, "workloads")}


class ActionModule(PdAction):
    ARGUMENTS: t.ClassVar[dict[str, t.Any]] = {
        "name": {"type": "raw"},
        "kind": {"type": "str", "choices": list(KINDS), "default": GROUP.name},
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
        check_batch(self._task, self.task_vars)
        check_variables(self._task, self.variable)
        self._check_words()
        approval.check_given(self.variable)
        works = workloads_of(self.args["kind"], self)
        results: dict[str, dict[str, t.Any]] = {}
        refusals: list[Refusal] = []
        skipped: set[str] = set()
        routers: dict[tuple[str, int], str] = {}
        entries, beside = self._entries(works), self._beside()
        for name, entry in entries.items():
            gone = entry is None and self.args["fail_on"] == "never"
            judged = None if gone else works.judge(name, entry, self._known(works, name, entry, beside))
            if judged is None:
                results[name] = {"valid": False, "findings": [], "spec": None, "observe": {}, "caches": []}
                continue
            if self.args["spec"] is None:
                self._check_patterns(works, judged)
                self._check_router_port(judged, routers)
            refusal = refuse(name, judged.findings, self.args["fail_on"], works.kind)
            refusals += [refusal] if refusal else []
            skipped |= set() if works.deployed(judged) else {name}
            found = judged.findings
            results[name] = {"valid": not found.errors, "findings": found.to_plain(), **works.told(judged)}
        if refusals:
            raise self.refused(*refusals, valid=False)
        if self.args["show"]:
            self._display.display("\n".join(_line(name, result) for name, result in results.items()))
            if boolean(self.variable("pd_show_rbac")):
                self._display.display(self._rbac())
        # A plan that follows warns in the same words, which Ansible then does not repeat.
        notes = [f for r in results.values() for f in r["findings"] if f["severity"] != "error"]
        messages = [] if self.args["show"] else sentences(notes)
        deployed = [name for name in results if name not in skipped]
        answer = self._answer(works, results, deployed)
        answer["look"] = self._first(works, entries, answer.get("caches") or ())
        return {**answer, "warnings": [*misspelt(self.task_vars), *messages]}

    def _rbac(self) -> str:
        """What an administrator of each cluster applies, once for each namespace: YAML, and nothing else on its lines."""
        hostvars, found = self.task_vars["hostvars"], dict[str, str]()
        for host in sorted(self.host_variables(CLUSTER), key=natural):
            namespace = inventory.cluster(self._templated(hostvars[host][CLUSTER]), host)["namespace"]
            told = yaml.safe_dump_all(rights.objects(namespace), sort_keys=False, explicit_start=True)
            found[host] = f"# For {host}, to be applied by who administers it: kubectl apply -f FILE\n{told}"
        if not found:
            raise PdError(f"pd_show_rbac: no host of the inventory stands for a cluster: none has {CLUSTER}.")
        return "\n".join(found.values())

    def _answer(self, works: Workloads, results: dict[str, dict[str, t.Any]], deployed: list[str]) -> dict[str, t.Any]:
        """What a playbook goes through: the cache services that groups use, each once, in the order of the groups, and then these."""
        caches = list(dict.fromkeys(one for result in results.values() for one in result.get("caches") or ()))
        services = Caches(self)
        judged = [services.judge(name, self.entry(name, CACHE)) for name in caches]
        looks = [services.observe(one) for one in judged] + [results[name].get("observe") or {} for name in deployed]
        workloads = [{"kind": CACHE.name, "name": one.name} for one in judged]
        workloads += [{"kind": works.kind.name, "name": name} for name in deployed]
        answer: dict[str, t.Any] = {
            "names": deployed,
            "workloads": workloads,
            "valid": all(r["valid"] for r in results.values()),
        }
        if works.kind is CACHE:
            answer |= {"services": results, "findings": [f for r in results.values() for f in r["findings"]]}
        else:
            only = next(iter(results.values())) if len(results) == 1 else {"findings": [], "spec": None}
            answer |= {**only, "groups": results, "caches": caches}
        # Of all at once: a run looks at each host once.
        return {**answer, "observe": united(looks)}

    def _known(self, works: Workloads, name: str, entry: t.Any, beside: Known) -> Known:
        """What the caller gives beside the specs, and which hosts their patterns stand for."""
        return replace(beside, patterns=works.patterns(name, entry)) if self.args["spec"] is None else beside

    def _beside(self) -> Known:
        """The part of it that is the same for all."""
        hosts = {name: read_host(name, facts) for name, facts in (to_plain(self.args["hosts"]) or {}).items()}
        ranges = self.host_variables("pd_port_range") if self.args["spec"] is None else {}
        return Known(to_plain(self.args["model_config"]), hosts, ranges=ranges)

    def _entries(self, works: Workloads) -> dict[str, t.Any]:
        """What was asked for, by name; None for one of which only hosts may know."""
        kind, selector, entries = works.kind, self.selector(works.kind), self.entries(works.kind)
        if self.args["spec"] is not None:
            return {self._own_name(selector, kind): to_plain(self.args["spec"])}
        if self.args["one"] and (selector is None or selector.every):
            raise PdError(self._which(works, f"-e {kind.variable}=NAME. This playbook works on one {kind.short}."))
        if self.args["named"] and selector is None:
            raise PdError(self._which(works, f"-e {kind.variable}=NAME, or -e {kind.variable}=all for every one."))
        if not entries and (selector is None or selector.every):
            raise PdError(f"No {kind.noun} is defined. {kind.example}")
        if selector is None:
            return dict(entries)
        # With fail_on: never the verdict is not the point: what has left the inventory can still be removed, by its name.
        gone = selector.literals if self.args["fail_on"] == "never" else None
        chosen = self.select(selector, kind, gone)
        if self.args["one"] and len(chosen) > 1:
            raise PdError(f"{kind.variable} selects {names(chosen)}. This playbook works on one {kind.short}: name it.")
        return {name: self.entry(name, kind) for name in chosen}

    @staticmethod
    def _own_name(selector: Selector | None, kind: Kind) -> str:
        """What a spec that is given as an argument is called."""
        if selector is None:
            return kind.name
        if selector.labels or len(selector.names) != 1:
            raise PdError("A spec that is given has one name.")
        return selector.names[0]

    def _first(self, works: Workloads, entries: t.Mapping[str, t.Any], caches: t.Sequence[str]) -> list[str] | None:
        """The hosts to look at for what was selected. None for all of the play: also for services, which members anywhere may use, and
        where the verdict is not the point, as for a removal: a host that a group has left keeps a record, and nothing is to stay."""
        selector = self.selector(works.kind)
        everywhere = selector is None or selector.every or works.kind is CACHE or self.args["fail_on"] == "never"
        return None if everywhere or self.args["spec"] is not None else look_at(self, entries, caches)

    def _which(self, works: Workloads, how: str) -> str:
        return " ".join([f"Say which {works.kind.noun}: {how}", *misspelt(self.task_vars)])

    def _check_words(self) -> None:
        for variable, words in WORDS.items():
            given = self.variable(variable, words[0])
            if given not in words:
                raise PdError(f"{variable}: {given!r} is not known. Write one of {', '.join(words)}.")
        for variable, (least, what) in NUMBERS.items():
            given = self.variable(variable, least)
            number = integer(given)
            if number is None or number < least:
                raise PdError(f"{variable}: {given!r} is no number of {what}. Write a whole one of at least {least}.")

    def _check_router_port(self, judged: Judged, routers: dict[tuple[str, int], str]) -> None:
        """Two groups whose routers can only be on one host, with one port: certain before any host is asked."""
        router = judged.spec.roles["router"] if isinstance(judged.spec, Group) else None
        hosts = self.pattern_hosts(router.hosts) if router is not None and router.port is not None else []
        if router is None or router.port is None or len(hosts) != 1:
            return
        first = routers.setdefault((hosts[0], router.port), judged.name)
        if first != judged.name:
            judged.findings.error(
                "port-taken",
                f"roles.router.port: {router.port} on {hosts[0]} is the router's of group {first} as well.",
                "Give one of them another port.",
                ["router"],
                hosts[0],
            )

    def _check_patterns(self, works: Workloads, judged: Judged) -> None:
        """With an inventory at hand, a pattern without hosts is told before any host is asked, and one that names what is not there:
        Ansible would go on without it."""
        lost = set(names_list(self.variable("pd_lost_hosts")))
        absentees: dict[tuple[str, ...], list[Place]] = {}
        for place in works.places(judged):
            absent = set(named(place.pattern)) & set(self.absent(place.pattern)) - lost
            if absent:
                absentees.setdefault(tuple(sorted(absent, key=natural)), []).append(place)
            elif not self.workload_hosts(place.pattern):
                judged.findings.error(
                    "no-hosts",
                    f"{place.where}.hosts: the pattern {place.pattern!r} matches no host of the inventory.",
                    "Name a group or host that exists; see ansible-inventory --graph.",
                    list(place.roles),
                )
        self._check_clusters(works, judged)
        known = self._inventory()
        for gone, places in absentees.items():
            is_ = by_number(gone, "it is", "they are")
            say(
                judged.findings,
                [f"{place.where}.hosts" for place in places],
                gone,
                [*known.hosts, *known.groups],
                f"If {is_} fenced for good, say so: -e pd_lost_hosts={','.join(gone)}",
                [role for place in places for role in place.roles],
            )

    def _check_clusters(self, works: Workloads, judged: Judged) -> None:
        """All members of a group are on hosts, or all in one cluster: the KV cache crosses no cluster's edge."""
        runtime = getattr(judged.spec, "runtime", None)
        if runtime not in table.NAMES:
            return
        clusters = self.host_variables(CLUSTER)
        hosts = {host: place for place in works.places(judged) for host in self.workload_hosts(place.pattern)}
        ours = [host for host in hosts if host in clusters]
        pods = table.traits_of(str(runtime)).pods
        if not pods and ours:
            judged.findings.error(
                "no-cluster",
                f"{hosts[ours[0]].where}.hosts: {names(ours)} is a cluster ({CLUSTER}), and runtime {runtime} runs members on hosts.",
                f"Write runtime: {next(one.name for one in table.RUNTIMES if one.traits.pods)}, or name other hosts.",
            )
        if not pods:
            return
        others = [host for host in hosts if host not in clusters]
        if others:
            judged.findings.error(
                "no-cluster",
                f"{hosts[others[0]].where}.hosts: {names(others)} {by_number(others, 'is', 'are')} no cluster, and runtime {runtime} runs"
                " members in one.",
                f"Name the inventory host that stands for the cluster: it has the variable {CLUSTER} (docs/kubernetes.md).",
            )
        if len(ours) > 1:
            judged.findings.error(
                "several-clusters",
                f"{judged.name}: its roles name {len(ours)} clusters: {names(ours)}. The KV cache crosses no cluster's edge.",
                "Have all roles name one of them, or make a group for each.",
            )


def _line(group: str, result: dict[str, t.Any]) -> str:
    notes = [f for f in result["findings"] if f["severity"] != "error"]
    return f"{group}: valid" + (f", {counted(len(notes), 'note')}\n{as_text(notes)}" if notes else "")
