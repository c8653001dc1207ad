# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The spec: one entry of `pd_groups`, read, checked for shape, and every inherited value filled in per role.

Inheritance is per field: a field that a role leaves out takes the engine-level value, one that it writes replaces it whole, an empty
list or dictionary included. `extra_args` and `extra_env` are the additive forms."""

from __future__ import annotations

import difflib
import re
import typing as t
from dataclasses import dataclass, field

from ..base.finding import Findings
from ..base.reader import NAME, Reader, kind
from ..runtimes import table
from . import kv_cache
from .kv_cache import KvCache

ENGINE_ROLES = ("prefill", "decode")
ROLES = (*ENGINE_ROLES, "router")
PULL = ("missing", "always", "never")
# What a role inherits from `engine`; the router only what stands in ROUTER_INHERITS.
INHERITED = (
    "backend",
    "version",
    "image",
    "pull",
    "executable",
    "command",
    "args",
    "env",
    "secrets",
    "mounts",
    "devices",
)
ROUTER_INHERITS = ("image", "pull", "env", "secrets")
ADDITIVE = ("extra_args", "extra_env")
GROUP_KEYS = (
    "mode",
    "model",
    "served_model_name",
    "runtime",
    "engine",
    "roles",
    "kv_cache",
    "kv_load_failure_policy",
    "kv_lease",
    "readiness",
    "endpoint",
    "vendor",
    "limits",
    "notes",
)
ROLE_KEYS = ("hosts", "replicas", *INHERITED, *ADDITIVE)
ENGINE_ROLE_KEYS = (*ROLE_KEYS, "gpus", "kv_cache")
ROUTER_KEYS = (*ROLE_KEYS, "port", "membership", "resources")
MAX_PORT = 65535
LIMITS = {"start": 1800, "stop": 30, "drain": 60}


@dataclass(frozen=True)
class Role:
    """One role with every inherited value filled in. `args` are entries as written; `own` names the fields that the role wrote itself."""

    name: str
    hosts: str = ""
    replicas: int = 1
    gpus: int | None = None
    port: int | None = None
    membership: str | None = None
    resources: t.Mapping[str, t.Any] = field(default_factory=dict)
    backend: str | None = None
    version: str | None = None
    image: str | None = None
    executable: str | None = None
    command: tuple[str, ...] | None = None
    args: tuple[str, ...] = ()
    env: t.Mapping[str, str] = field(default_factory=dict)
    secrets: tuple[str, ...] = ()
    mounts: tuple[t.Any, ...] = ()
    devices: tuple[t.Any, ...] = ()
    pull: str = "missing"
    kv_cache: KvCache | None = None
    own: frozenset[str] = frozenset()

    @property
    def args_place(self) -> str:
        """Where its args are written: at the role, or at the engine that it inherits them from."""
        return (
            f"roles.{self.name}.args" if self.name == "router" or self.own & {"args", "extra_args"} else "engine.args"
        )

    def to_plain(self) -> dict[str, t.Any]:
        """The role as the user would write it with nothing inherited; of secrets the names alone."""
        plain: dict[str, t.Any] = {"hosts": self.hosts, "replicas": self.replicas}
        if self.name == "router":
            plain |= {"port": self.port, "membership": self.membership, "resources": dict(self.resources)}
        else:
            plain |= {"gpus": self.gpus, "backend": self.backend, "version": self.version}
            plain |= {"kv_cache": self.kv_cache.to_plain()} if self.kv_cache else {}
        return plain | {
            "image": self.image,
            "pull": self.pull,
            "executable": self.executable,
            "command": list(self.command) if self.command is not None else None,
            "args": list(self.args),
            "env": dict(self.env),
            "secrets": list(self.secrets),
            "mounts": list(self.mounts),
            "devices": list(self.devices),
        }


@dataclass(frozen=True)
class Group:
    """A spec, whole. `roles` has prefill, decode and router, always."""

    name: str
    mode: str
    model: str
    served_model_name: str
    runtime: str
    roles: t.Mapping[str, Role]
    kv_cache: KvCache | None = None
    kv_load_failure_policy: str = "fail"
    kv_lease: int | None = None
    readiness: str = "any_per_role"
    external_url: str | None = None
    vendor: str | None = None
    limits: t.Mapping[str, int] = field(default_factory=lambda: dict(LIMITS))
    # What `engine` says, for a router that has no recipe of its own and runs the engines' command (mode custom).
    engine_command: tuple[str, ...] | None = None
    engine_executable: str | None = None
    # What is written as the runtime could not be read, which has been said: `runtime` is the default, and nothing follows from it.
    runtime_unread: bool = False

    @property
    def engine_roles(self) -> list[Role]:
        return [self.roles[name] for name in ENGINE_ROLES]

    def to_plain(self) -> dict[str, t.Any]:
        """The spec without secrets' values: what results, records and diffs may show."""
        return {
            "mode": self.mode,
            "model": self.model,
            "served_model_name": self.served_model_name,
            "runtime": self.runtime,
            "roles": {name: role.to_plain() for name, role in self.roles.items()},
            "kv_cache": self.kv_cache.to_plain() if self.kv_cache else None,
            "kv_load_failure_policy": self.kv_load_failure_policy,
            "kv_lease": self.kv_lease,
            "readiness": self.readiness,
            "endpoint": {"external_url": self.external_url},
            "vendor": self.vendor,
            "limits": dict(self.limits),
        }


def parse(name: str, spec: t.Any, findings: Findings) -> Group | None:
    """Read one entry of `pd_groups`. What is wrong goes to `findings`; None when the shape leaves nothing to go on with."""
    where = f"pd_groups.{name}"
    reader = Reader(findings)
    if not NAME.fullmatch(name):
        findings.error(
            "bad-group-name",
            f"{where}: {name!r} is no name for a group.",
            "Use 1 to 48 lower-case letters, digits, dots and hyphens; it becomes part of unit, container and file names.",
        )
    if not isinstance(spec, dict):
        findings.error("bad-value", f"{where}: a group is a dictionary, this is {kind(spec)}.", "See docs/spec.md.")
        return None
    reader.keys(where, spec, GROUP_KEYS)
    engine = reader.mapping(where, spec, "engine")
    reader.keys(f"{where}.engine", engine, (*INHERITED,))
    roles = _roles(where, spec, engine, reader)
    mode = reader.text(
        where, spec, "mode", required="which recipe to use: engine, connector and router (list them with mode_info)"
    )
    model = reader.text(where, spec, "model", required="the model's path on the hosts, the same for prefill and decode")
    limits = reader.mapping(where, spec, "limits")
    reader.keys(f"{where}.limits", limits, LIMITS)
    return Group(
        name=name,
        mode=mode or "",
        model=model or "",
        served_model_name=reader.text(where, spec, "served_model_name") or name,
        runtime=reader.choice(where, spec, "runtime", table.NAMES, table.DEFAULT),
        runtime_unread=spec.get("runtime") is not None and spec["runtime"] not in table.NAMES,
        roles=roles,
        kv_cache=kv_cache.read(where, spec, reader),
        kv_load_failure_policy=reader.choice(where, spec, "kv_load_failure_policy", ("fail", "recompute"), "fail"),
        kv_lease=reader.integer(where, spec, "kv_lease", None, 1),
        readiness=reader.choice(where, spec, "readiness", ("any_per_role", "all"), "any_per_role"),
        external_url=_external_url(where, spec, reader),
        vendor=reader.text(where, spec, "vendor"),
        engine_command=reader.command(f"{where}.engine", engine),
        engine_executable=reader.text(f"{where}.engine", engine, "executable"),
        limits={
            key: reader.integer(f"{where}.limits", limits, key, value, 1 if key == "start" else 0) or 0
            for key, value in LIMITS.items()
        },
    )


def _external_url(where: str, spec: dict[str, t.Any], reader: Reader) -> str | None:
    endpoint = reader.mapping(where, spec, "endpoint")
    reader.keys(f"{where}.endpoint", endpoint, ("external_url",))
    url = reader.text(f"{where}.endpoint", endpoint, "external_url")
    if url is not None and not re.match(r"https?://[^/\s]+", url):
        reader.bad(f"{where}.endpoint.external_url", url, "a URL that begins with http:// or https://")
    return url


def _roles(where: str, spec: dict[str, t.Any], engine: dict[str, t.Any], reader: Reader) -> dict[str, Role]:
    written = spec.get("roles")
    if not isinstance(written, dict) or not written:
        reader.findings.error(
            "missing-role",
            f"{where}.roles: "
            + ("no roles are given." if not written else f"roles are a dictionary by name, this is {kind(written)}."),
            "Write roles: {prefill: {hosts: ...}, decode: {hosts: ...}, router: {hosts: ...}}.",
        )
        written = {}
    for name in written:
        if name not in ROLES:
            near = difflib.get_close_matches(str(name), ROLES, 1, 0.5)
            reader.findings.error(
                "unknown-role",
                f"{where}.roles.{name}: there is no role {name!r}.",
                (f"Did you mean {near[0]!r}? " if near else "") + "Roles are prefill, decode and router.",
                [str(name)],
            )
    return {name: _role(f"{where}.roles.{name}", name, written, engine, reader) for name in ROLES}


def _own_fields(where: str, name: str, written: dict[str, t.Any], reader: Reader) -> dict[str, t.Any]:
    """What a role writes itself, as a dictionary whatever was there."""
    if written and name not in written:
        reader.findings.error(
            "missing-role",
            f"{where}: a group needs exactly one {name} role, none is written.",
            f"Add {name}: {{hosts: ...}}.",
            [name],
        )
    own = written.get(name)
    if own is not None and not isinstance(own, dict):
        reader.findings.error(
            "bad-value",
            f"{where}: a role is a dictionary, this is {kind(own)}.",
            "Write {hosts: ..., replicas: ...}.",
            [name],
        )
        own = None
    return own or {}


def _role(where: str, name: str, written: dict[str, t.Any], engine: dict[str, t.Any], reader: Reader) -> Role:
    own = _own_fields(where, name, written, reader)
    reader.keys(where, own, ROUTER_KEYS if name == "router" else ENGINE_ROLE_KEYS, name)
    inherits = ROUTER_INHERITS if name == "router" else INHERITED
    merged: dict[str, t.Any] = {key: engine[key] for key in inherits if engine.get(key) is not None}
    merged |= {key: value for key, value in own.items() if value is not None}
    at = {key: where if own.get(key) is not None else f"{where.split('.roles.')[0]}.engine" for key in merged}
    replicas = reader.integer(where, own, "replicas", 1, 1, name)
    if name == "router" and (replicas or 1) != 1:
        reader.findings.error(
            "router-replicas",
            f"{where}.replicas: a group has exactly one router, {replicas} are asked for.",
            "A second would split the prefix cache and give the group two addresses. Put a load balancer before several groups instead.",
            [name],
        )
    if not own.get("hosts") and name in written:
        reader.findings.error(
            "missing-value",
            f"{where}.hosts: missing: the Ansible host pattern that the {name} members run on.",
            "Write hosts: GROUP_OR_HOST.",
            [name],
        )

    def place(key: str) -> str:
        return at.get(key, where)

    args = reader.texts(place("args"), merged, "args") + reader.texts(where, own, "extra_args")
    env = reader.env(place("env"), merged, "env") | reader.env(where, own, "extra_env")
    return Role(
        name=name,
        hosts=reader.pattern(where, own, "hosts", name),
        replicas=replicas or 1,
        gpus=reader.integer(where, own, "gpus", None, 0, name) if name != "router" else 0,
        port=reader.integer(where, own, "port", None, 1, name, MAX_PORT) if name == "router" else None,
        membership=reader.choice(where, own, "membership", ("dynamic", "restart", "manual"), None)
        if name == "router"
        else None,
        resources=reader.resources(where, own, name) if name == "router" else {},
        backend=reader.text(place("backend"), merged, "backend"),
        version=reader.text(place("version"), merged, "version"),
        image=reader.text(place("image"), merged, "image"),
        executable=reader.text(place("executable"), merged, "executable"),
        command=reader.command(place("command"), merged),
        args=tuple(args),
        env=env,
        secrets=tuple(sorted(reader.env(place("secrets"), merged, "secrets"))),
        mounts=tuple(reader.sequence(place("mounts"), merged, "mounts")),
        devices=tuple(reader.sequence(place("devices"), merged, "devices")),
        pull=reader.choice(place("pull"), merged, "pull", PULL, "missing"),
        kv_cache=kv_cache.read(where, own, reader, name) if name != "router" else None,
        own=frozenset(key for key, value in own.items() if value is not None),
    )


def secrets_of(spec: t.Any, role: str) -> dict[str, str]:
    """The values of a role's secrets, for the members action alone: they are in no plan, record, revision or result."""
    roles = spec.get("roles") if isinstance(spec, dict) else None
    own = (roles or {}).get(role) or {}
    found = (
        own.get("secrets")
        if own.get("secrets") is not None
        else ((spec.get("engine") or {}).get("secrets") if isinstance(spec, dict) else None)
    )
    return {str(key): str(value) for key, value in (found or {}).items()}
