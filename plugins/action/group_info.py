# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller side of group_info: the state of one group or of all, and of cache services, from what the hosts said in this run."""

from __future__ import annotations

import typing as t

from ansible.errors import AnsibleActionFail

from ..module_utils._core.base.checked import DamagedError
from ..module_utils._core.base.order import natural
from ..module_utils._core.base.words import about, names
from ..module_utils._core.facts.observed import Host
from ..module_utils._core.facts.stands import record_of
from ..module_utils._core.report import status, users
from ..module_utils._core.rollout import note as notes
from ..module_utils._core.rollout import twice
from ..module_utils._core.rollout.told import line
from ..module_utils._core.spec.variables import misspelt
from ..module_utils._core.spec.workload import GROUP
from ..plugin_utils._action import PdAction
from ..plugin_utils._answers import Complaint
from ..plugin_utils._batch import check_batch, check_variables
from ..plugin_utils._plain import to_plain
from ..plugin_utils._workloads import Caches, Groups, Workloads

# What nothing is to be done about: a group or service that runs, and one that is somebody else's.
WELL = ("running", "external")


def rollout_of(name: str, hosts: t.Mapping[str, Host]) -> dict[str, t.Any]:
    """How far a rollout has come with a group, where one has or had it."""
    noted = record_of(name, hosts)
    if noted is None or not noted.rollout:
        return {}
    try:
        note = notes.read(dict(noted.rollout), f"the record of group {name}")
    except DamagedError as exc:
        return {"rollout": {"state": "damaged", "told": f"its rollout cannot be read: {exc}"}}
    if note is None:
        return {}
    return {
        "rollout": {"name": note.rollout, "state": note.state, "wave": note.wave, "why": note.why, "told": line(note)}
    }


class ActionModule(PdAction):
    ARGUMENTS: t.ClassVar[dict[str, t.Any]] = {
        "name": {"type": "raw"},
        "spec": {"type": "dict"},
        "hosts": {"type": "dict"},
        "register": {"type": "str", "default": "pd_facts"},
        "modes_path": {"type": "list", "elements": "path", "default": []},
        "show": {"type": "bool", "default": False},
        "fail_unless_running": {"type": "bool", "default": False},
    }

    def act(self) -> dict[str, t.Any]:
        check_batch(self._task, self.task_vars)
        check_variables(self._task, self.variable)
        hosts = self.seen().hosts
        silent = self._unseen() if self.args["hosts"] is None else sorted(self.seen().hidden)
        # By workload, the hosts that its entry names and that the inventory of this run has not.
        self._absentees: dict[str, list[str]] = {}
        groups = self._states(Groups(self), self._groups(), silent)
        caches = self._states(Caches(self), self._caches(groups), silent)
        states = [*groups.values(), *caches.values()]
        table = [line for state in states for line in [*status.table(state), ""]]
        broken = self.seen().broken
        quiet = [host for host in silent if host not in broken]
        absent = {host for its in self._absentees.values() for host in its}
        table += [f"Not in the inventory of this run: {names(sorted(absent, key=natural))}"] if absent else []
        table += [f"No answer from: {names(quiet)}"] if quiet else []
        alike: dict[Complaint, list[str]] = {}
        for host, one in broken.items():
            alike.setdefault(one, []).append(host)
        table += [f"{about(hosts, one.said)}. {one.way_out}".rstrip() for one, hosts in alike.items()]
        cordoned = {host: seen.cordon for host, seen in hosts.items() if seen.cordon}
        table += [f"{host} is {cordon.since_told()}: no member comes there." for host, cordon in cordoned.items()]
        if self.args["show"]:
            self._display.display("\n".join(table).rstrip() or "No group is defined, and none runs.")
        answer: dict[str, t.Any] = {"groups": groups, "caches": caches, "table": table, "silent": silent}
        answer["cordoned"] = {host: cordon.to_plain() for host, cordon in cordoned.items()}
        answer["warnings"] = misspelt(self.task_vars)
        if len(groups) == 1:
            answer |= next(iter(groups.values()))
        short = [f"{name} is {state['state']}" for name, state in groups.items() if state["state"] not in WELL]
        short += [f"cache {name} is {state['state']}" for name, state in caches.items() if state["state"] not in WELL]
        if self.args["fail_unless_running"] and short:
            # The table has told the rest.
            found = {name: one["state"] for name, one in {**caches, **groups}.items()}
            raise AnsibleActionFail("; ".join(short), result={"states": found, "silent": silent})
        return answer

    def _unseen(self) -> list[str]:
        """The hosts of the play, and nodes of its clusters, of which nothing is known."""
        seen = self.seen()
        known = {*seen.hosts, *seen.passed, *seen.clusters}
        nodes = {place for places in seen.clusters.values() for place in places}
        asked = self.task_vars.get("ansible_play_hosts_all") or ()
        return [host for host in asked if host not in known] + sorted(nodes & set(seen.silent), key=natural)

    def _states(
        self, works: Workloads, entries: t.Mapping[str, t.Any], silent: t.Sequence[str]
    ) -> dict[str, dict[str, t.Any]]:
        """The state of each by name; an entry is None for one that only the hosts know."""
        hosts, found = self.seen().hosts, {}
        for name, entry in entries.items():
            group = works.kind is GROUP
            stand = self.stands(name).serves if group else name
            judged = works.judge(stand, entry, works.known(stand, entry, hosts)) if entry is not None else None
            self._absentees[name] = self._absent(works, name, entry)
            unseen = [*silent, *self._absentees[name]]
            state = status.of(works.subject(stand, judged), hosts, unseen, self.reach(), self.away())
            state |= rollout_of(stand, hosts) if group else {}
            state |= self._twin(name, state, silent) if group else {}
            found[name] = {**state, "findings": judged.findings.to_plain()} if judged else state
        return found

    def _absent(self, works: Workloads, name: str, entry: t.Any) -> list[str]:
        inventory = self.reach().inventory
        if entry is None or inventory is None:
            return []
        named = {host for hosts in works.patterns(name, entry).values() for host in hosts}
        return sorted(named - set(inventory), key=natural)

    def _twin(self, name: str, state: t.Mapping[str, t.Any], silent: t.Sequence[str]) -> dict[str, t.Any]:
        """What stands beside a group, and a mark that says so; nothing where nothing does."""
        hosts, stands = self.seen().hosts, self.stands(name)
        if stands.twin is None:
            return {}
        beside = status.of(Groups(self).subject(stands.twin, None), hosts, silent, self.reach(), self.away())
        serves = record_of(stands.serves, hosts)
        why = twice.told(stands, serves.rollout if serves else {})
        kept = ("stand", "state", "generation", "revision", "endpoint", "members", "strays", "tombstones")
        marks = [*state["marks"], {"mark": "stands_twice", "why": why}]
        return {"twin": {key: beside[key] for key in kept}, "marks": marks}

    def _groups(self) -> dict[str, t.Any]:
        """What to report on: the groups asked for, else those of the inventory and those that only the hosts know."""
        selector, works, written = self.selector(), Groups(self), self.groups()
        if self.args["spec"] is not None:
            return {selector.names[0] if selector and selector.names else "group": to_plain(self.args["spec"])}
        others = [name for name in works.known_names(self.seen().hosts) if name not in written]
        if selector is None or selector.every:
            return {**written, **dict.fromkeys(others)}
        return {name: self.entry(name) for name in self.select(selector, others=others)}

    def _caches(self, groups: t.Collection[str]) -> dict[str, t.Any]:
        """The services of the inventory and those that only the hosts know; beside groups that were asked for, those that these use."""
        if self.args["spec"] is not None:
            return {}
        selector, hosts, works = self.selector(), self.seen().hosts, Caches(self)
        written = self.entries(works.kind)
        found = [*written, *(name for name in works.known_names(hosts) if name not in written)]
        if selector is not None and not selector.every:
            named_by = self.users_by_service()
            found = [n for n in found if not {*named_by.get(n, ()), *users.running(n, hosts)}.isdisjoint(groups)]
        return {name: written.get(name) for name in found}
