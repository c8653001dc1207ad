# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller side of hosts_emptied: the end of an evacuation. What is left on its hosts, each with why; and what failed of the run."""

from __future__ import annotations

import typing as t

from ..module_utils._core.base.words import by_number, names
from ..module_utils._core.cluster.places import cluster_of
from ..module_utils._core.facts.observed import LiveMember
from ..module_utils._core.facts.stands import name_of
from ..module_utils._core.spec.workload import CACHE, GROUP
from ..plugin_utils._action import PdAction
from ..plugin_utils._closing import close, courses_of
from ..plugin_utils._plain import names_list
from ..plugin_utils.run_folder import RunFolder

_RETURN = "ansible-playbook inferops.pd.evacuate -e pd_host={} -e pd_return=true"


class ActionModule(PdAction):
    ARGUMENTS: t.ClassVar[dict[str, t.Any]] = {
        "hosts_meant": {"type": "list", "elements": "str", "required": True},
        "run": {"type": "path"},
        "register": {"type": "str", "default": "pd_facts"},
    }

    def act(self) -> dict[str, t.Any]:
        meant, seen = names_list(self.args["hosts_meant"]), self.seen()
        folder = RunFolder(str(self.args["run"])) if self.args["run"] else None
        result = close(folder, self._display.display) if folder else {"good": True}
        why = _Why(self, folder)
        left = {host: self._left(host, why) for host in meant if host in seen.hosts}
        left = {host: found for host, found in left.items() if found}
        unseen = {host: self._unseen(host) for host in meant if host not in seen.hosts}
        empty = [host for host in meant if host not in left and host not in unseen]
        self._tell(empty, left, unseen)
        answer = {**result, "empty": empty, "left": {host: sorted(found) for host, found in left.items()}}
        lacking = [host for host in meant if host not in empty]
        if not lacking:
            return answer
        head = f"{names(lacking)} {by_number(lacking, 'is', 'are')} not empty."
        return {**answer, "failed": True, "good": False, "msg": " ".join([head, str(result.get("msg") or "")]).rstrip()}

    def _left(self, host: str, why: _Why) -> dict[str, str]:
        """The members that are still there, or that a run that is no check would leave there, each with why."""
        members = self.seen().hosts[host].members
        if self._task.check_mode:
            members = [m for m in members if not why.goes(m)]
        return {m.id: why.told(m) for m in members}

    def _unseen(self, host: str) -> str:
        seen = self.seen()
        said = seen.silent.get(host) or seen.hidden.get(host)
        broken = seen.broken.get(host)
        return said or (f"it {broken.said}" if broken else "it was not looked at")

    def _tell(
        self, empty: t.Sequence[str], left: t.Mapping[str, t.Mapping[str, str]], unseen: t.Mapping[str, str]
    ) -> None:
        lines = []
        for host, found in left.items():
            alike: dict[str, list[str]] = {}
            for member, why in sorted(found.items()):
                alike.setdefault(why, []).append(member)
            lines.append(f"{host} is not empty:")
            lines += [f"- {names(members)}: {why}" for why, members in alike.items()]
        lines += [f"{host}: what is there is not known: {why}" for host, why in unseen.items()]
        if empty:
            would = "would be" if self._task.check_mode else by_number(empty, "is", "are")
            lines.append(
                f"{names(empty)} {would} empty, and may be switched off: no member is there, and no record names one."
            )
        hosts = [host for host in (*empty, *left) if not cluster_of(host)]
        if hosts:
            them = by_number(hosts, "it", "them")
            lines.append(
                f"Nobody comes to {names(hosts)} before {_RETURN.format(','.join(hosts))}: that lets members come to {them} again, and"
                " moves none."
            )
        self._display.display("\n".join(lines))


class _Why:
    """Why a member is still on a host that was to be empty."""

    def __init__(self, action: PdAction, folder: RunFolder | None) -> None:
        self.action = action
        # By what their users call them: of a group that stands twice either stand may be here.
        self.refused = {name_of(n): why for n, why in folder.index().refused.items()} if folder else {}
        self.courses = courses_of(folder) if folder else {}

    def goes(self, member: LiveMember) -> bool:
        """Whether the run has it leave."""
        return member.group in self.courses

    def told(self, member: LiveMember) -> str:
        kind = CACHE if member.role in CACHE.roles else GROUP
        name = member.group
        if name_of(name) in self.refused:
            # What follows the head are its findings, of which the first is the worst.
            head, _line, found = self.refused[name_of(name)].partition("\n")
            return found.partition("\n")[0].removeprefix("- ERROR ") or head
        course = self.courses.get(name)
        if course is not None and course.failed:
            return course.told.partition("\n")[0]
        if name not in self.action.entries(kind):
            remove = "caches_remove" if kind is CACHE else "remove"
            return (
                f"no entry of {kind.entries} names {kind.noun} {name}, so nobody can say what should come in its place: put it back, or"
                f" ansible-playbook inferops.pd.{remove} -e {kind.variable}={name}"
            )
        if course is not None:
            return "what came in its place is not all ready, and it stays until that is: run the same playbook again"
        return "it came after the plan was made: run the same playbook again"
