# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The table of fields: everything that a group of pd_groups and a service of pd_caches may write, a row each (what one says: spec/row.py).

Which keys are known, how each is read, who inherits it, what is in the revision, and what docs/fields.md lists, follow from here. A new
field is a row, and its use."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field

from ..base import placeholders
from ..base.arguments import is_flag, normal
from ..base.mounts import Mounts
from ..recipes.cache_recipe import Clients, Scope
from ..runtimes import table
from . import endpoint, kubernetes, kv_cache
from .endpoint import Endpoint
from .kubernetes import Kubernetes, Nodes
from .kv_cache import KvCache
from .row import (
    ENGINE_ROLES,
    PROCESSES,
    ROLES,
    At,
    apart,
    choice,
    command,
    env,
    integer,
    items,
    labels,
    limits,
    literal,
    names_of_env,
    needed,
    pattern,
    resources,
    row,
    shown,
    text,
    texts,
)

MAX_PORT = 65535
PULL = ("missing", "always", "never")
LIMITS = {"start": 1800, "stop": 30, "drain": 60}
CACHE_LIMITS = {"start": 600, "stop": 30}


def _kv_cache(at: At) -> KvCache | None:
    return kv_cache.read(at.where, at.written, at.reader, at.role)


@dataclass(frozen=True)
class Process:
    """What is written of a process, whatever it is: a member of a group, or an instance of a cache service."""

    name: str
    version: str | None = row(
        text, *PROCESSES, "cache elsewhere", default=None, inherited_by=ENGINE_ROLES, idle_at=("router",)
    )
    image: str | None = row(text, *PROCESSES, default=None, inherited_by=ROLES, revision="always")
    pull: str = row(choice(*PULL), *PROCESSES, default="missing", inherited_by=ROLES)
    executable: str | None = row(
        literal, *PROCESSES, default=None, inherited_by=ENGINE_ROLES, revision="rendered", told="the recipe's"
    )
    command: tuple[str, ...] | None = row(
        command, *PROCESSES, default=None, inherited_by=ENGINE_ROLES, revision="rendered", told="the recipe's"
    )
    args: tuple[str, ...] = row(
        texts, *PROCESSES, default=(), inherited_by=ENGINE_ROLES, adds="extra_args", revision="rendered"
    )
    env: t.Mapping[str, str] = row(
        env, *PROCESSES, default={}, inherited_by=ROLES, adds="extra_env", revision="rendered"
    )
    # Names alone: values are in nothing that is kept or shown.
    secrets: tuple[str, ...] = row(names_of_env, *PROCESSES, default=(), inherited_by=ROLES, revision="always")
    mounts: tuple[t.Any, ...] = row(items, *PROCESSES, default=(), inherited_by=ENGINE_ROLES, revision="always")
    devices: tuple[t.Any, ...] = row(items, *PROCESSES, default=(), inherited_by=ENGINE_ROLES, revision="always")
    resources: t.Mapping[str, t.Any] = row(resources, "router", "cache", default={}, revision="always")


@dataclass(frozen=True)
class Role(Process):
    """One role with every inherited value filled in. `args` are entries as written; `own` names the keys that the role wrote itself."""

    hosts: str = row(pattern, *ROLES, default="", told="required")
    # Of a cluster: where a role's members may be there. It is where they run, and not what they are.
    nodes: Nodes | None = row(kubernetes.nodes, *ROLES, default=None, told="every node")
    replicas: int = row(integer(1), *ROLES, default=1)
    gpus: int | None = row(integer(0), *ENGINE_ROLES, default=None, revision="rendered", told="what the sizes need")
    backend: str | None = row(
        text,
        "engine",
        *ROLES,
        default=None,
        inherited_by=ENGINE_ROLES,
        revision="rendered",
        told="the mode's",
        idle_at=("router",),
    )
    kv_cache: KvCache | None = row(_kv_cache, *ENGINE_ROLES, default=None, revision="rendered", told="the group's")
    port: int | None = row(integer(1, MAX_PORT), "router", default=None, revision="rendered", told="a free one")
    membership: str | None = row(
        choice("dynamic", "restart", "manual"), "router", default=None, revision="rendered", told="the mode's"
    )
    own: frozenset[str] = frozenset()
    # Where each of its args, and each variable of its env, is written: engine.args[0], roles.decode.extra_env.
    entries: tuple[str, ...] = ()
    variables: t.Mapping[str, str] = field(default_factory=dict)

    @property
    def args_place(self) -> str:
        """Where its args are written: at the role, or at the engine that it inherits them from."""
        if self.name != "router" and "args" not in self.own and "extra_args" not in self.own:
            return "engine.args"
        return f"roles.{self.name}.{'extra_args' if 'extra_args' in self.own and 'args' not in self.own else 'args'}"

    def flag_place(self, *names: str) -> str:
        """Where the last of these flags is written, as the user wrote it; all args where none of them says so."""
        wanted = {normal(name) for name in names}
        for place, entry in zip(reversed(self.entries), reversed(self.args)):
            head, space, rest = entry.strip().partition(" ")
            words = [head, *(rest.split() if space else ())]
            if any(is_flag(word) and normal(word.partition("=")[0]) in wanted for word in words):
                return place.partition("[")[0]
        return self.args_place

    def text_place(self, text: str) -> str:
        """Where a word of its command line is written; its args where none of them has it."""
        found = (place for place, entry in zip(self.entries, self.args) if text in entry)
        return next(found, self.args_place).partition("[")[0]

    def env_place(self, name: str) -> str:
        """Where a variable is written, as the user wrote it."""
        return f"{self.variables.get(name, f'roles.{self.name}.env')}.{name}"

    def to_plain(self) -> dict[str, t.Any]:
        """The role as the user would write it with nothing inherited; of secrets the names alone."""
        plain = shown(self, "router" if self.name == "router" else "prefill")
        for name in ("kv_cache", "nodes"):
            if getattr(self, name) is None:
                plain.pop(name, None)
        return plain


@dataclass(frozen=True)
class Group:
    """A spec, whole. `roles` has prefill, decode and router, always."""

    name: str
    mode: str = row(
        needed("which recipe to use: engine, connector and router (list them with mode_info)"),
        "group",
        default="",
        revision="rendered",
        told="required",
    )
    model: str = row(
        needed("the model's path on the hosts, the same for prefill and decode"),
        "group",
        default="",
        revision="rendered",
        told="required",
    )
    served_model_name: str = row(literal, "group", default="", revision="rendered", told="the group's name")
    runtime: str = row(choice(*table.NAMES), "group", default=table.DEFAULT, revision="rendered")
    kubernetes: Kubernetes = row(
        kubernetes.of_group,
        "group",
        default=kubernetes.NOTHING,
        revision="where set",
        told="host network, node's paths",
    )
    engine: None = row(apart, "group", default=None, told="nothing")
    roles: t.Mapping[str, Role] = row(apart, "group", default={}, revision="rendered", told="required")
    kv_cache: KvCache | None = row(_kv_cache, "group", default=None, revision="rendered", told="none")
    kv_load_failure_policy: str = row(choice("fail", "recompute"), "group", default="fail", revision="rendered")
    kv_lease: int | None = row(integer(1), "group", default=None, revision="rendered", told="the mode's")
    readiness: str = row(choice("any_per_role", "all"), "group", default="any_per_role")
    endpoint: Endpoint = row(
        endpoint.of_group, "group", default=endpoint.NOTHING, told="the router's address, no hooks"
    )
    vendor: str | None = row(text, "group", default=None, told="the hosts'")
    limits: t.Mapping[str, int] = row(limits(**LIMITS), "group", default=LIMITS)
    # What groups are selected by (selector.py): no member, record or revision knows of it.
    labels: t.Mapping[str, str] = row(labels, "group", default={}, idle_at=("group",))
    notes: None = row(apart, "group", default=None, told="none")
    # What `engine` says, for a router that has no recipe of its own and runs the engines' command (mode custom).
    engine_command: tuple[str, ...] | None = None
    engine_executable: str | None = None
    # What is written as the runtime could not be read, which has been said: `runtime` is the default, and nothing follows from it.
    runtime_unread: bool = False
    # Under which name it stands on hosts, where that is not its own (facts/stands.py).
    stands_as: str | None = None

    @property
    def stand(self) -> str:
        """What hosts know it by."""
        return self.stands_as or self.name

    @property
    def engine_roles(self) -> list[Role]:
        return [self.roles[name] for name in ENGINE_ROLES]

    def on_host(self, role: str, path: str) -> str | None:
        """Where a path that a member of `role` reads is on its host: in a container, by its mounts. None where nobody can tell."""
        if not table.traits_of(self.runtime).containers:
            return path
        if path == self.model and self.kubernetes.model is not None:
            return self.kubernetes.model_on_node
        values = {"group": self.name, "role": role, "model": self.model, "served_model_name": self.served_model_name}
        mounts = self.roles[role].mounts
        return Mounts(placeholders.fill(m, values, True) if isinstance(m, str) else m for m in mounts).on_host(path)

    def models(self) -> tuple[str, ...]:
        """The directories that hold the model on the hosts of the engine roles, as far as that can be told."""
        found = (self.on_host(role, self.model) for role in ENGINE_ROLES)
        return tuple(dict.fromkeys(path for path in found if path))

    def to_plain(self) -> dict[str, t.Any]:
        """The spec without secrets' values: what results, records and diffs may show."""
        roles = {name: role.to_plain() for name, role in self.roles.items()}
        return {**shown(self, "group"), "roles": roles}


@dataclass(frozen=True)
class CacheService(Process):
    """One entry of `pd_caches`, with its kind's defaults filled in. `options` has every option of the kind that has a value, those for its
    clients included; of secrets there are only the names."""

    provider: str = row(
        needed("which kind of service it is"),
        "cache",
        "cache elsewhere",
        default="",
        revision="rendered",
        told="required",
    )
    hosts: str = row(pattern, "cache", default="", told="this or address")
    address: str | None = row(text, "cache", "cache elsewhere", default=None, told="this or hosts")
    runtime: str = row(choice(*table.NAMES), "cache", default=table.DEFAULT, revision="rendered")
    port: int | None = row(integer(1, MAX_PORT), "cache", default=None, revision="always", told="a free one")
    bind: str = row(text, "cache", default="address", revision="rendered", told="the kind's")
    # Read by what the kind says of each (spec/cache_service.py).
    options: t.Mapping[str, t.Any] = row(
        apart, "cache", "cache elsewhere", default={}, revision="rendered", told="the kind's"
    )
    limits: t.Mapping[str, int] = row(limits(**CACHE_LIMITS), "cache", default=CACHE_LIMITS)
    labels: t.Mapping[str, str] = row(
        labels, "cache", "cache elsewhere", default={}, idle_at=("cache", "cache elsewhere")
    )
    notes: None = row(apart, "cache", "cache elsewhere", default=None, told="none")
    scope: Scope = "group"
    clients: Clients = "reconnect"
    # The variables that its kind sets, with what `env` has in their place, without those that `secrets` sets.
    environment: t.Mapping[str, str] = field(default_factory=dict)

    @property
    def stand(self) -> str:
        """What hosts know it by."""
        return self.name

    # Where it is run by somebody else: the two halves of `address`.
    given_host: str = ""
    given_port: int = 0

    def to_plain(self) -> dict[str, t.Any]:
        """The service as results and records may show it: no secret's value."""
        return {
            "provider": self.provider,
            "hosts": self.hosts,
            "address": self.address,
            "scope": self.scope,
            "clients": self.clients,
            "runtime": self.runtime,
            "options": dict(self.options),
        }


# Everything that has rows, by what a reader of the docs calls it.
TABLES: dict[str, type] = {
    "a group": Group,
    "what runs: roles, and cache services": Process,
    "roles alone": Role,
    "cache services alone": CacheService,
    "`kv_cache`": KvCache,
}
