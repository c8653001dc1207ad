# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A mode: one complete recipe, read from a file of pd_modes/ (or of a user's own folder). The schema checks its shape
(pd_modes/schema.json); what is checked here is what a schema cannot say: that its placeholders and bands exist."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field

from ..base import placeholders
from ..base.errors import PdError
from ..proof.handoff import HANDOFFS
from . import file_paths
from .provider import ROLES as CACHE_ROLES
from .provider import Provider, providers_of

MEMBERSHIPS = ("dynamic", "restart", "manual")
WIDTHS = ("data_parallel_size", "tensor_parallel_size", "gpus", "world_size")


@dataclass(frozen=True)
class Tunable:
    """A router flag that the recipe sets and the user may change. `options` and `minimum` are for documentation and advice."""

    flag: str
    default: t.Any
    options: tuple[str, ...] = ()
    minimum: float | None = None
    # The flag that it overrules.
    instead_of: str = ""


@dataclass(frozen=True)
class Band:
    """A contiguous run of ports that each member of `roles` gets: `width` is a number or the name of a size of the member. Members of
    the roles in `listen` are not ready before they listen on all of it."""

    name: str
    roles: tuple[str, ...]
    width: int | str
    listen: tuple[str, ...] = ()


@dataclass(frozen=True)
class Membership:
    """How a router learns of its peers under one policy: the flags of that policy, and what choosing it gives up."""

    policy: str
    arguments: tuple[str, ...] = ()
    tunables: tuple[Tunable, ...] = ()
    peers: t.Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    gives_up: str = ""


@dataclass(frozen=True)
class RouterKey:
    """Which key a router shows the engines: what `variable` of its own environment holds, whatever clients show; None where it hands on
    what they show."""

    variable: str | None
    # Flags with which it shows none at all.
    never_with: tuple[str, ...] = ()


@dataclass(frozen=True)
class RouterRecipe:
    """The mode's router: its command and the policies of membership that it can follow."""

    executable: str
    command: tuple[str, ...]
    dialect: str
    health_path: str
    arguments: tuple[str, ...]
    tunables: tuple[Tunable, ...]
    environment: t.Mapping[str, str]
    memberships: t.Mapping[str, Membership]
    default_membership: str
    image: str | None = None
    known_versions: str | None = None
    # None: it is not known.
    key: RouterKey | None = None


@dataclass(frozen=True)
class Connector:
    """The KV connector: the engine's flag, the names of one handshake family, and the JSON of each role."""

    flag: str
    names: tuple[str, ...]
    by_role: t.Mapping[str, t.Mapping[str, t.Any]]
    # Which connector, by the model's KV layout: standard, hybrid, or unknown (its config.json cannot be read).
    variants: t.Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Mode:
    """A recipe. Everything that is special about a mode is a field here, filled from its file; no code knows a mode's name."""

    name: str
    summary: str
    backend: str | None
    vendors: tuple[str, ...]
    preferred: bool
    known_versions: str | None
    executable: str | None
    command: tuple[str, ...]
    arguments: tuple[str, ...]
    role_arguments: t.Mapping[str, tuple[str, ...]]
    connector: Connector | None
    kv_load_failure_policies: tuple[str, ...]
    kv_lease: t.Mapping[str, t.Any]
    environment: t.Mapping[str, t.Mapping[str, str]]
    files: tuple[t.Mapping[str, t.Any], ...]
    bands: tuple[Band, ...]
    interface_plane: str
    pairing: t.Mapping[str, t.Any]
    counters: t.Mapping[str, t.Any]
    handoff: str | None
    restart: t.Mapping[str, int]
    refresh_with_prefill: tuple[str, ...]
    router: RouterRecipe | None
    kv_cache_providers: t.Mapping[str, Provider]
    # Ports that the transport takes by itself on a host with GPUs: {base, per_gpu}.
    ports_to_avoid: t.Mapping[str, int] = field(default_factory=dict)
    source: str = ""

    def bands_of(self, role: str) -> list[Band]:
        return [band for band in self.bands if role in band.roles]

    def environment_of(self, role: str) -> dict[str, str]:
        return {**self.environment.get("all", {}), **self.environment.get(role, {})}


def _width(written: float | str) -> int | str:
    """A number without a fraction is an integer to the schema, however it is written."""
    return int(written) if isinstance(written, float) else written


def _texts(value: t.Any) -> tuple[str, ...]:
    return tuple(str(v) for v in value or ())


def _env(value: t.Any) -> dict[str, str]:
    return {str(k): str(v) for k, v in (value or {}).items()}


def _tunables(value: t.Any) -> tuple[Tunable, ...]:
    return tuple(
        Tunable(str(flag), v.get("default"), _texts(v.get("options")), v.get("minimum"), v.get("instead_of") or "")
        for flag, v in (value or {}).items()
    )


def _membership(policy: str, raw: t.Mapping[str, t.Any]) -> Membership:
    peers = {role: _texts(tokens) for role, tokens in (raw.get("peers") or {}).items()}
    return Membership(
        policy, _texts(raw.get("arguments")), _tunables(raw.get("tunables")), peers, raw.get("gives_up") or ""
    )


def _router(raw: t.Mapping[str, t.Any] | None) -> RouterRecipe | None:
    if not raw:
        return None
    membership = raw["membership"]
    return RouterRecipe(
        executable=raw["executable"],
        command=_texts(raw["command"]),
        dialect=raw["dialect"],
        health_path=raw.get("health_path", "/health"),
        arguments=_texts(raw.get("arguments")),
        tunables=_tunables(raw.get("tunables")),
        environment=_env(raw.get("environment")),
        memberships={
            policy: _membership(policy, membership[policy] or {}) for policy in MEMBERSHIPS if policy in membership
        },
        default_membership=membership["default"],
        image=raw.get("image"),
        known_versions=raw.get("known_versions"),
        key=RouterKey(raw["engine_key"].get("variable"), _texts(raw["engine_key"].get("never_with")))
        if raw.get("engine_key")
        else None,
    )


def from_plain(raw: t.Mapping[str, t.Any], source: str = "") -> Mode:
    """The mode that a file's content describes. Raises PdError with the file and the place when something does not exist.

    The shape has been checked against the schema before."""
    connector = raw.get("connector")
    mode = Mode(
        name=raw["name"],
        summary=raw["summary"],
        backend=raw.get("backend"),
        vendors=_texts(raw.get("vendors")),
        preferred=bool(raw.get("preferred", False)),
        known_versions=raw.get("known_versions"),
        executable=raw.get("executable"),
        command=_texts(raw.get("command")),
        arguments=_texts(raw.get("arguments")),
        role_arguments={role: _texts(v) for role, v in (raw.get("role_arguments") or {}).items()},
        connector=Connector(
            connector["flag"],
            _texts(connector.get("names")),
            {r: connector[r] for r in ("prefill", "decode")},
            connector.get("variants") or {},
        )
        if connector
        else None,
        kv_load_failure_policies=_texts(raw.get("kv_load_failure_policies")) or ("fail",),
        kv_lease=raw.get("kv_lease") or {},
        environment={scope: _env(v) for scope, v in (raw.get("environment") or {}).items()},
        files=tuple(raw.get("files") or ()),
        bands=tuple(
            Band(name, _texts(v["roles"]), _width(v["width"]), _texts(v.get("listen", v["roles"])))
            for name, v in (raw.get("bands") or {}).items()
        ),
        interface_plane=raw.get("interface_plane", "data"),
        pairing=raw.get("pairing") or {},
        counters=raw.get("counters") or {},
        handoff=raw.get("handoff"),
        restart=raw.get("restart") or {"attempts": 0, "window": 300},
        refresh_with_prefill=_texts(raw.get("refresh_with_prefill")),
        router=_router(raw.get("router")),
        kv_cache_providers=providers_of(raw.get("kv_cache_providers") or {}, list(raw.get("bands") or {}), source),
        ports_to_avoid=raw.get("ports_to_avoid") or {},
        source=source,
    )
    _check_placeholders({k: v for k, v in raw.items() if k != "kv_cache_providers"}, mode, source)
    _check_references(mode, source)
    return mode


def _check_placeholders(value: t.Any, mode: Mode, place: str) -> None:
    if isinstance(value, str):
        scopes = ("peer",) if ".peers." in place else ("role", "member")
        placeholders.check(value, [b.name for b in mode.bands], place, scopes)
    elif isinstance(value, t.Mapping):
        for key, item in value.items():
            _check_placeholders(item, mode, f"{place}: {key}" if place == mode.source else f"{place}.{key}")
    elif isinstance(value, (list, tuple)):
        for number, item in enumerate(value):
            _check_placeholders(item, mode, f"{place}[{number}]")


def _check_references(mode: Mode, source: str) -> None:
    file_paths.check(mode.files, f"{source}: files")
    if mode.handoff is not None and mode.handoff not in HANDOFFS:
        raise PdError(f"{source}: handoff: there is no {mode.handoff!r}. Write one of {', '.join(HANDOFFS)}, or null.")
    for band in mode.bands:
        if isinstance(band.width, int) and band.width < 0:
            raise PdError(f"{source}: bands.{band.name}.width: {band.width} is below nothing.")
        if isinstance(band.width, str) and band.width not in WIDTHS:
            raise PdError(
                f"{source}: bands.{band.name}.width: {band.width!r} is no size of a member. Write a number or one of {', '.join(WIDTHS)}."
            )
    if mode.router and mode.router.default_membership not in mode.router.memberships:
        raise PdError(
            f"{source}: router.membership.default: {mode.router.default_membership!r} is not described beside it."
            f" Described are: {', '.join(mode.router.memberships) or 'none'}."
        )
    _check_providers(mode, source)


def _check_providers(mode: Mode, source: str) -> None:
    """A provider's names must not stand for two, and a connector needs one to stand beside."""
    seen: set[str] = set()
    for provider in mode.kv_cache_providers.values():
        place = f"{source}: kv_cache_providers.{provider.name}"
        for name in (provider.name, *provider.aliases):
            if name in seen:
                raise PdError(f"{place}: {name!r} is the name of another provider of this mode already.")
            seen.add(name)
        for role in CACHE_ROLES:
            if provider.roles[role].connector and mode.connector is None:
                raise PdError(f"{place}.{role}.connector: the mode has no connector that it could be composed with.")
