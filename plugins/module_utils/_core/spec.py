# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# This module util is PRIVATE to the collection.
"""The spec: one entry of `pd_groups`, read, checked for shape, and every inherited value filled in per role.

Inheritance is per field: a field that a role leaves out takes the engine-level value, one that it writes replaces it whole, an empty
list or dictionary included. `extra_args` and `extra_env` are the additive forms."""

from __future__ import annotations

import difflib
import re
import shlex
import typing as t
from dataclasses import dataclass, field

from . import kv_cache
from .finding import Findings
from .kv_cache import KvCache

ENGINE_ROLES = ("prefill", "decode")
ROLES = (*ENGINE_ROLES, "router")
PULL = ("missing", "always", "never")
RUNTIMES = ("docker", "systemd", "supervisor")
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
# What a plan of one group may hold: more is a slip of the finger.
MAX_COUNT = 100_000
MAX_PORT = 65535
RESOURCES = {"cpu": r"\d+(\.\d+)?", "memory": r"\d+(\.\d+)?\s*([KMGT]i?B?|B)?"}
LIMITS = {"start": 1800, "stop": 30, "drain": 60}
# Keys that mean something this product refuses: the reason is the answer (semantics.md 2.2).
REFUSED = {
    "scaling_schedule": "scheduled scaling does not go with prefill/decode groups: a schedule would change one role's count while the other"
    " serves. Scale with the playbook inferops.pd.scale.",
    "schedule": "scheduled scaling does not go with prefill/decode groups. Scale with the playbook inferops.pd.scale.",
    "lora_list": "LoRA adapters cannot be addressed through the router (it knows members by the base model's name and answers 503).",
    "lora": "LoRA adapters cannot be addressed through the router (it knows members by the base model's name and answers 503).",
    "lora_modules": "LoRA adapters cannot be addressed through the router (it knows members by the base model's name and answers 503).",
    "adapters": "LoRA adapters cannot be addressed through the router (it knows members by the base model's name and answers 503).",
}
_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,46}[a-z0-9])?$")
_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*$")


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
    reader = _Reader(findings)
    if not _NAME.fullmatch(name):
        findings.error(
            "bad-group-name",
            f"{where}: {name!r} is no name for a group.",
            "Use 1 to 48 lower-case letters, digits, dots and hyphens; it becomes part of unit, container and file names.",
        )
    if not isinstance(spec, dict):
        findings.error("bad-value", f"{where}: a group is a dictionary, this is {_kind(spec)}.", "See docs/spec.md.")
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
        runtime=reader.choice(where, spec, "runtime", RUNTIMES, "docker"),
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


def _external_url(where: str, spec: dict[str, t.Any], reader: _Reader) -> str | None:
    endpoint = reader.mapping(where, spec, "endpoint")
    reader.keys(f"{where}.endpoint", endpoint, ("external_url",))
    url = reader.text(f"{where}.endpoint", endpoint, "external_url")
    if url is not None and not re.match(r"https?://[^/\s]+", url):
        reader.bad(f"{where}.endpoint.external_url", url, "a URL that begins with http:// or https://")
    return url


def _roles(where: str, spec: dict[str, t.Any], engine: dict[str, t.Any], reader: _Reader) -> dict[str, Role]:
    written = spec.get("roles")
    if not isinstance(written, dict) or not written:
        reader.findings.error(
            "missing-role",
            f"{where}.roles: "
            + ("no roles are given." if not written else f"roles are a dictionary by name, this is {_kind(written)}."),
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


def _own_fields(where: str, name: str, written: dict[str, t.Any], reader: _Reader) -> dict[str, t.Any]:
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
            f"{where}: a role is a dictionary, this is {_kind(own)}.",
            "Write {hosts: ..., replicas: ...}.",
            [name],
        )
        own = None
    return own or {}


def _role(where: str, name: str, written: dict[str, t.Any], engine: dict[str, t.Any], reader: _Reader) -> Role:
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


def _kind(value: t.Any) -> str:
    names = {
        dict: "a dictionary",
        list: "a list",
        str: "text",
        bool: "a boolean",
        int: "a number",
        float: "a number",
        type(None): "empty",
    }
    return names.get(type(value), type(value).__name__)


class _Reader:
    """Reads one key at a time; what does not fit becomes a finding that names the place, the value and what would fit."""

    def __init__(self, findings: Findings) -> None:
        self.findings = findings

    def bad(self, place: str, value: t.Any, wanted: str, roles: t.Iterable[str] = ()) -> None:
        # What a dictionary or list holds may be a secret at the wrong place: its kind is told, not its content.
        told = _kind(value) if isinstance(value, (dict, list)) else repr(value)
        self.findings.error("bad-value", f"{place}: {told} is not {wanted}.", f"Write {wanted}.", roles)

    def keys(self, where: str, mapping: t.Mapping[str, t.Any], known: t.Iterable[str], role: str = "") -> None:
        known = list(known)
        roles = [role] if role else []
        for key in mapping:
            key = str(key)
            if key in known:
                continue
            if key in REFUSED:
                self.findings.error("refused-key", f"{where}.{key}: {REFUSED[key]}", f"Remove {key}.", roles)
            elif key == "replicas":
                self.findings.error(
                    "refused-key",
                    f"{where}.{key}: a group has no count of its own.",
                    "Set replicas on prefill and decode.",
                    roles,
                )
            elif key == "resources" and role in ENGINE_ROLES:
                self.findings.error(
                    "refused-key",
                    f"{where}.{key}: CPU and memory limits are for the router alone.",
                    "An engine takes whole GPUs: set gpus.",
                    roles,
                )
            else:
                # What is written already is hardly what was meant.
                absent = [k for k in known if k not in mapping]
                near = difflib.get_close_matches(key, absent, 1, 0.6) or difflib.get_close_matches(key, known, 1, 0.5)
                self.findings.error(
                    "unknown-key",
                    f"{where}.{key}: there is no such key.",
                    f"Did you mean {near[0]!r}?" if near else f"Known keys: {', '.join(known)}.",
                    roles,
                )

    def text(self, where: str, mapping: t.Mapping[str, t.Any], key: str, required: str = "") -> str | None:
        value = mapping.get(key)
        if value is None or value == "":
            if required:
                self.findings.error("missing-value", f"{where}.{key}: missing: {required}.", f"Write {key}: ...")
            return None
        if isinstance(value, (dict, list, bool)):
            self.bad(f"{where}.{key}", value, "text")
            return None
        return str(value)

    def choice(
        self, where: str, mapping: t.Mapping[str, t.Any], key: str, choices: tuple[str, ...], default: t.Any
    ) -> t.Any:
        value = mapping.get(key)
        if value is None:
            return default
        if value not in choices:
            near = difflib.get_close_matches(str(value), choices, 1, 0.5)
            self.findings.error(
                "bad-value",
                f"{where}.{key}: {value!r} is not one of {', '.join(choices)}.",
                f"Did you mean {near[0]!r}?" if near else f"Write one of {', '.join(choices)}.",
            )
            return default
        return value

    def integer(
        self,
        where: str,
        mapping: t.Mapping[str, t.Any],
        key: str,
        default: int | None,
        minimum: int,
        role: str = "",
        maximum: int = MAX_COUNT,
    ) -> int | None:
        """A count; text such as "2" (from `-e`) is read as one."""
        value = mapping.get(key)
        if value is None or value == "":
            return default
        number = value if isinstance(value, int) and not isinstance(value, bool) else None
        if isinstance(value, str) and re.fullmatch(r"-?\d{1,9}", value.strip()):
            number = int(value)
        if number is None or not minimum <= number <= maximum:
            wanted = f"a whole number of at least {minimum}"
            if (number is not None and number > maximum) or (isinstance(value, str) and len(value) > 9):
                wanted = f"a whole number from {minimum} to {maximum}"
            self.bad(f"{where}.{key}", value, wanted, [role] if role else [])
            return default
        return number

    def mapping(self, where: str, mapping: t.Mapping[str, t.Any], key: str) -> dict[str, t.Any]:
        value = mapping.get(key)
        if value is None:
            return {}
        if not isinstance(value, dict):
            # The value is not repeated: it may be a secret, or hold one.
            self.findings.error(
                "bad-value", f"{where}.{key}: a dictionary belongs here, this is {_kind(value)}.", "Write a dictionary."
            )
            return {}
        return value

    def pattern(self, where: str, mapping: t.Mapping[str, t.Any], key: str, role: str) -> str:
        """A host pattern, as text or as a list of patterns."""
        value = mapping.get(key)
        if isinstance(value, list) and all(isinstance(v, str) for v in value):
            return ":".join(value)
        if value is None or isinstance(value, str):
            return value or ""
        self.bad(f"{where}.{key}", value, "a host pattern, as text or a list", [role])
        return ""

    def resources(self, where: str, mapping: t.Mapping[str, t.Any], role: str) -> dict[str, t.Any]:
        given = self.mapping(where, mapping, "resources")
        self.keys(f"{where}.resources", given, RESOURCES, role)
        for key, form in RESOURCES.items():
            value = given.get(key)
            if value is not None and (
                isinstance(value, bool) or not re.fullmatch(form, str(value)) or not str(value).strip("0.")
            ):
                self.bad(
                    f"{where}.resources.{key}", value, "an amount above zero, such as 2, or 2GiB for memory", [role]
                )
        return given

    def sequence(self, where: str, mapping: t.Mapping[str, t.Any], key: str) -> list[t.Any]:
        value = mapping.get(key)
        if value is None:
            return []
        if not isinstance(value, list):
            self.bad(f"{where}.{key}", value, "a list")
            return []
        return value

    def texts(self, where: str, mapping: t.Mapping[str, t.Any], key: str) -> list[str]:
        out = []
        for number, item in enumerate(self.sequence(where, mapping, key)):
            if isinstance(item, (dict, list, bool)) or item is None:
                self.bad(f"{where}.{key}[{number}]", item, "text such as --flag=value")
            else:
                out.append(str(item))
        return out

    def command(self, where: str, mapping: t.Mapping[str, t.Any]) -> tuple[str, ...] | None:
        value = mapping.get("command")
        if value is None or value == "":
            return None
        if isinstance(value, str):
            try:
                return tuple(shlex.split(value))
            except ValueError:
                self.bad(f"{where}.command", value, "a command line whose quotes close")
                return None
        return tuple(self.texts(where, {"command": value}, "command"))

    def env(self, where: str, mapping: t.Mapping[str, t.Any], key: str) -> dict[str, str]:
        out = {}
        for name, value in self.mapping(where, mapping, key).items():
            name = str(name)
            if not _ENV_NAME.fullmatch(name):
                self.findings.error(
                    "bad-value",
                    f"{where}.{key}: {name!r} is no name of an environment variable.",
                    "Use letters, digits and underscores.",
                )
            elif isinstance(value, (dict, list)):
                # A secret's value must not be repeated in a message.
                self.findings.error(
                    "bad-value", f"{where}.{key}.{name}: the value is not text.", "Write text; JSON in quotes."
                )
            elif isinstance(value, bool):
                out[name] = "1" if value else "0"
            else:
                out[name] = "" if value is None else str(value)
        return out
