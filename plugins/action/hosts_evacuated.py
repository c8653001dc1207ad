# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller side of hosts_evacuated: which hosts are meant, what is there, and who may come there."""

from __future__ import annotations

import typing as t

from ..module_utils._core.base.errors import PdError
from ..module_utils._core.base.order import natural
from ..module_utils._core.base.values import boolean
from ..module_utils._core.base.words import MOST_HOSTS, about, names
from ..module_utils._core.cluster.inventory import CLUSTER
from ..module_utils._core.cluster.places import cluster_of, node_of
from ..module_utils._core.facts.stands import name_of
from ..module_utils._core.spec.selector import nearest
from ..module_utils._core.spec.workload import CACHE, GROUP, Kind
from ..plugin_utils._action import PdAction
from ..plugin_utils._batch import check_batch, check_variables
from ..plugin_utils._look import caches_of, look_at
from ..plugin_utils._plain import names_list
from ..plugin_utils._workloads import united, workloads_of

_WHICH = "Say which host: -e pd_host=NAME (a name, several with commas, or a pattern of hosts)."


class ActionModule(PdAction):
    ARGUMENTS: t.ClassVar[dict[str, t.Any]] = {
        "host": {"type": "raw"},
        "register": {"type": "str", "default": "pd_facts"},
        "returned": {"type": "bool", "default": False},
    }

    def act(self) -> dict[str, t.Any]:
        check_batch(self._task, self.task_vars)
        check_variables(self._task, self.variable)
        meant = self._meant()
        nodes = [host for host in meant if host in self._nodes()]
        if nodes:
            self._check_nodes(nodes)
        ours = [host for host in meant if host not in nodes]
        if self.args["returned"]:
            return self._returned(ours)
        groups, services = self._on(meant, GROUP), self._on(meant, CACHE)
        each = [*((GROUP, name) for name in groups), *((CACHE, name) for name in services)]
        workloads = [{"kind": kind.name, "name": name} for kind, name in each]
        looks = [self._observe(kind, name) for kind, name in each]
        first = look_at(self, {name: self.entry(name) for name in groups}, [*services, *caches_of(self, groups)])
        asked = sorted({*ours, *map(cluster_of, nodes)}, key=natural)
        look = None if first is None else sorted({*first, *asked}, key=natural)
        told = {"hosts": meant, "asked": asked, "marked": ours}
        return {**told, "workloads": workloads, "observe": united(looks), "look": look}

    # -- which hosts ---------------------------------------------------------------------------------------------------------------

    def _meant(self) -> list[str]:
        """The hosts that are meant, all of which can be asked."""
        # Where facts of hosts are kept, a variable of that name is theirs.
        given = None if isinstance(self.args["host"], t.Mapping) else self.args["host"]
        parts = [part.strip() for one in names_list(given) for part in one.split(",") if part.strip()]
        if not parts:
            raise PdError(_WHICH)
        nodes = [part for part in parts if part in self._nodes(parts)]
        parts = [part for part in parts if part not in nodes]
        for part in parts:
            if not self.pattern_hosts(part.lstrip("!&")):
                raise PdError(f"pd_host: {part!r} matches no host of the inventory. {self._near(part)}".rstrip())
        found = [*(self.pattern_hosts(",".join(parts)) if parts else ()), *nodes]
        if not found:
            raise PdError(f"pd_host: {','.join(parts)!r} leaves no host.")
        away = [host for host in found if host in self.away()]
        if away:
            told = about(away, "is out of service by the inventory (pd_out_of_service), and is not asked", MOST_HOSTS)
            raise PdError(f"{told}: what is there nobody can say. Take pd_out_of_service away first.")
        clusters = [host for host in found if host in self.host_variables(CLUSTER)]
        if clusters:
            raise PdError(
                f"pd_host: {names(clusters)} is a whole cluster. Name the nodes that are to be empty: {clusters[0]}/NODE."
            )
        asked = {cluster_of(host) if host in nodes else host for host in found}
        outside = sorted(asked - set(self.task_vars.get("ansible_play_hosts_all") or ()), key=natural)
        if outside:
            told = about(outside, "is not one of the hosts of this run", MOST_HOSTS)
            raise PdError(f"{told}. Run without --limit, and with pd_hosts covering it and the hosts of its groups.")
        return found

    def _nodes(self, named: t.Iterable[str] | None = None) -> set[str]:
        """Those of the names that are nodes of clusters of the inventory, CLUSTER/NODE."""
        clusters = self.host_variables(CLUSTER)
        every = named if named is not None else names_list(self.args["host"])
        return {one for one in every if cluster_of(one) in clusters}

    def _check_nodes(self, nodes: t.Sequence[str]) -> None:
        """A cluster's nodes are its own: whoever looks after it has them cordoned, or not, and nothing here changes that."""
        if self.args["returned"]:
            commands = "; ".join(f"kubectl uncordon {node_of(one)}" for one in nodes)
            self._display.display(f"{names(nodes)}: members come again once the cluster lets them: {commands}.")
            return
        seen = self.seen()
        if not seen.clusters:
            return
        unknown = [one for one in nodes if one not in seen.hosts and one not in seen.silent]
        if unknown:
            raise PdError(
                f"pd_host: {names(unknown)}: the cluster has no such node. kubectl get nodes shows those that it has."
            )
        loose = [one for one in nodes if one in seen.hosts and seen.hosts[one].cordon is None]
        if loose:
            commands = "; ".join(f"kubectl cordon {node_of(one)}" for one in loose)
            raise PdError(
                f"{about(loose, 'is not cordoned', MOST_HOSTS)}: members would come there again. Nodes are the cluster's, and nothing here"
                f" marks them. First run: {commands}."
            )

    def _near(self, part: str) -> str:
        known = [host for hosts in (self.task_vars.get("groups") or {}).values() for host in hosts]
        return nearest(part, known)

    # -- what is there -------------------------------------------------------------------------------------------------------------

    def _on(self, meant: t.Collection[str], kind: Kind) -> list[str]:
        """The workloads of a kind that have a member on one of the hosts, in the inventory's order. What no entry names, nobody can plan:
        it is told at the end, with the way out."""
        seen = self.seen().hosts
        mine = {name_of(m.group) for host in meant if host in seen for m in seen[host].members if m.role in kind.roles}
        return [name for name in self.entries(kind) if name in mine]

    def _observe(self, kind: Kind, name: str) -> dict[str, t.Any]:
        works = workloads_of(kind.name, self)
        return works.observe(works.judge(name, self.entry(name, kind)))

    # -- who may come --------------------------------------------------------------------------------------------------------------

    def _returned(self, meant: t.Sequence[str]) -> dict[str, t.Any]:
        """What may be seated on hosts whose mark is gone, as the inventory says; a host that the inventory cordons stays so."""
        said = self.host_variables("pd_cordoned")
        kept = [host for host in meant if boolean(said.get(host))]
        lines = []
        for host in meant:
            if host in kept:
                lines.append(f"{host} stays cordoned: the inventory says so (pd_cordoned). Take it out there.")
                continue
            may = self._may_come(host)
            told = (
                f"deploys and scales may seat there: {'; '.join(may)}" if may else "no group or cache service names it"
            )
            lines.append(f"{host} takes members again: {told}. Nothing moves back by itself.")
        self._display.display("\n".join(lines))
        return {"hosts": list(meant), "cordoned": kept}

    def _may_come(self, host: str) -> list[str]:
        """Each workload whose patterns name a host, with the roles."""
        found = []
        for kind in (GROUP, CACHE):
            works = workloads_of(kind.name, self)
            for name, entry in self.entries(kind).items():
                roles = [role for role, hosts in works.patterns(name, entry).items() if host in hosts]
                if roles:
                    found.append(f"{name} ({names(roles)})")
        return found
