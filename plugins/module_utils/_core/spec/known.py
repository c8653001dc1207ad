# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is known beside a spec when it is judged: each part settles what would otherwise stay open, and none of it is needed."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field

from ..facts.observed import Gpu, Host
from .cache_service import CacheService
from .spec import Group, Role


@dataclass(frozen=True)
class Known:
    """`model_config` is the model's config.json; `hosts` are those of which there are facts, by name; `patterns` are the names of the
    hosts that each role's pattern stands for; `recorded` are the choices in the group's record; `caches` are the services of pd_caches by
    name, None where nobody has read them; `cache_users` are the other groups that use a cache service, by its name or address."""

    model_config: t.Mapping[str, t.Any] | None = None
    hosts: t.Mapping[str, Host] = field(default_factory=dict)
    patterns: t.Mapping[str, t.Sequence[str]] = field(default_factory=dict)
    recorded: t.Mapping[str, t.Any] = field(default_factory=dict)
    caches: t.Mapping[str, CacheService] | None = None
    cache_users: t.Mapping[str, t.Collection[str]] = field(default_factory=dict)

    def config_of(self, group: Group) -> t.Mapping[str, t.Any] | None:
        """The model's config.json: as given, else as the first host that has read it says."""
        if self.model_config:
            return self.model_config
        return next((config for host in self.hosts.values() for config in configs_of(host, group)), None)

    def hosts_of(self, role: Role) -> list[str] | None:
        """The hosts of a role's pattern; None when nobody has resolved it, and it does not name hosts of which there are facts."""
        if role.name in self.patterns:
            return list(self.patterns[role.name])
        names = [name for name in role.hosts.replace(",", ":").split(":") if name]
        return names if names and all(name in self.hosts for name in names) else None

    def gpus_of(self, role: Role) -> dict[str, tuple[Gpu, ...]]:
        """The GPUs on each host of a role, hosts without any left out. Where the pattern is not resolved, every host may be one of it."""
        names = self.hosts_of(role)
        of_role = (host for name, host in self.hosts.items() if names is None or name in names)
        return {host.name: host.gpus for host in of_role if host.gpus}

    def one_host(self, group: Group) -> bool | None:
        """Whether prefill and decode all run on one host; None when nobody can tell."""
        found = [self.hosts_of(role) for role in group.engine_roles]
        if all(names is not None for names in found):
            return len({name for names in found for name in names or ()}) == 1
        if len({role.hosts for role in group.engine_roles}) > 1:
            return False
        return True if group.engine_roles[0].hosts in ("localhost", "127.0.0.1") else None

    def engine_version(self, role: Role, executable: str) -> str | None:
        """The engine's version on all hosts of a role, where they are known and say the same."""
        versions = {
            str(self.hosts[name].executable(executable).get("version") or "") if name in self.hosts else ""
            for name in self.hosts_of(role) or ()
        }
        return versions.pop() or None if len(versions) == 1 else None


def configs_of(host: Host, group: Group) -> t.Iterator[t.Mapping[str, t.Any]]:
    """The config.json of the group's model that a host has read, wherever its roles find it there."""
    for path in group.models():
        config = host.model(path).get("config")
        if isinstance(config, t.Mapping) and config:
            yield config


NOTHING = Known()
