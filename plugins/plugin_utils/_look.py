# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whose facts a run on some groups needs first: the hosts that the inventory names for them (docs/playbooks.md says why that is enough)."""

from __future__ import annotations

import typing as t

from ..module_utils._core.base.order import natural
from ..module_utils._core.spec.workload import CACHE
from ._action import PdAction
from ._caches import deployed_for
from ._workloads import Caches, Groups, Workloads


def caches_of(action: PdAction, groups: t.Iterable[str]) -> list[str]:
    """The cache services that groups use and that the collection deploys, each once, in the order of the groups."""
    return list(dict.fromkeys(one for name in groups for one in deployed_for(action, name)))


def look_at(action: PdAction, groups: t.Mapping[str, t.Any], caches: t.Iterable[str]) -> list[str] | None:
    """The hosts of the patterns of groups, by name with their entries, and of services. None for all of the play where one of them does
    not say all of its hosts: a spec that cannot be read, or that has left the inventory."""
    parts: list[tuple[Workloads, str, t.Any]] = [(Groups(action), name, entry) for name, entry in groups.items()]
    parts += [(Caches(action), name, action.entry(name, CACHE)) for name in caches]
    found: set[str] = set()
    for works, name, entry in parts:
        patterns = works.named_hosts(name, entry)
        if set(patterns) != set(works.kind.roles):
            return None
        found.update(host for hosts in patterns.values() for host in hosts)
    return sorted(found, key=natural)
