# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The providers of KV caches beside the transfer: what a mode's file says of each, which options it has, and what each role gets of it.

A provider is data (`kv_cache_providers` of a mode); no code knows one's name. A cache lives inside the engine, or is a service."""

from __future__ import annotations

import difflib
import typing as t
from dataclasses import dataclass, field

from ..base import placeholders
from ..base.errors import PdError
from ..base.sizes import UNITS, parse_size
from ..base.values import READERS

ROLES = ("prefill", "decode")


@dataclass(frozen=True)
class Option:
    """An option of a provider. A size is rendered as a number of `unit`, divided among the member's GPUs where `per_gpu`."""

    name: str
    type: str
    summary: str = ""
    default: t.Any = None
    required: bool = False
    minimum: t.Any = None
    multiple: str | None = None
    choices: tuple[str, ...] = ()
    unit: str = "B"
    # Of a size: what a number without a unit counts. Without it, such a number says too little.
    bare: str = ""
    whole: bool = False
    per_gpu: bool = False
    # Of a text: it names RDMA devices, with commas, which each host of the role must have.
    devices: bool = False
    # Why it has no effect here; it may be written all the same.
    ignored: str = ""

    def wanted(self) -> str:
        """What belongs there, for a message."""
        if self.choices:
            return f"one of {', '.join(self.choices)}"
        least = f" of at least {self.minimum}" if self.minimum is not None else ""
        times = f", a multiple of {self.multiple}" if self.multiple else ""
        times += f", in whole {self.unit}" if self.whole else ""
        return {
            "size": f"a size{least}{'' if self.bare else ' with its unit'}, such as 8GiB{times}",
            "integer": f"a whole number{least}",
            "number": f"a number{least}",
            "boolean": "true or false",
        }.get(self.type, "text")

    def value(self, given: t.Any) -> t.Any:
        """What is written, as the option's type; sizes in bytes. None when it does not fit."""
        if self.bare and READERS["number"](given) is not None:
            given = f"{READERS['number'](given)}{self.bare}"
        found = READERS[self.type](given)
        if isinstance(found, float) and found.is_integer():
            found = int(found)
        if found is None or (self.choices and found not in self.choices):
            return None
        least = READERS[self.type](self.minimum) if self.minimum is not None else None
        if least is not None and found < least:
            return None
        if self.multiple and found % (parse_size(self.multiple) or 1):
            return None
        if self.type == "size" and self.whole and found % UNITS[self.unit]:
            return None
        return found

    def rendered(self, value: t.Any, gpus: int) -> t.Any:
        """The value as the engine gets it."""
        if self.type != "size":
            return value
        shared = value // max(1, gpus) if self.per_gpu else value
        number = shared / UNITS[self.unit]
        return int(number) if number == int(number) else number


@dataclass(frozen=True)
class RoleRecipe:
    """What one role gets of a provider, or why it gets nothing. `connector` is a child beside the mode's own."""

    refused: str = ""
    connector: t.Mapping[str, t.Any] | None = None
    arguments: tuple[str, ...] = ()
    environment: t.Mapping[str, str] = field(default_factory=dict)
    files: tuple[t.Mapping[str, t.Any], ...] = ()
    known_versions: str | None = None
    versions_note: str = ""


@dataclass(frozen=True)
class Provider:
    """One provider of a mode.

    `service` is the kind of service it needs, None for a cache inside the engine. `hybrid_manager`: "kept" where its connector lets the
    engine's hybrid KV cache manager on, "off" where it does not, "recurrent" where it does in versions that not everybody has: then it
    stays on only for the models that do not start without it."""

    name: str
    summary: str
    roles: t.Mapping[str, RoleRecipe]
    aliases: tuple[str, ...] = ()
    service: str | None = None
    known_versions: str | None = None
    hybrid_manager: str = "kept"
    recurrent_refused: str = ""
    recurrent_advice: str = ""
    # The flag with which the advice has been followed.
    recurrent_unless: str = ""
    # The option of its service that does the same, where the service is one of pd_caches.
    recurrent_unless_service: str = ""
    # Flags of the engine that it does not go with, and why.
    not_with: t.Mapping[str, str] = field(default_factory=dict)
    host_ipc: bool = False
    unique_per_host: tuple[str, ...] = ()
    not_on: t.Mapping[str, str] = field(default_factory=dict)
    own_service: str = ""
    capacity: t.Mapping[str, str] = field(default_factory=dict)
    options: t.Mapping[str, Option] = field(default_factory=dict)

    @property
    def possible(self) -> list[str]:
        return [role for role in ROLES if not self.roles[role].refused]


def provider_of(providers: t.Mapping[str, Provider], name: str) -> Provider | None:
    """The provider that a spec means by `name`."""
    return providers.get(name) or next((p for p in providers.values() if name in p.aliases), None)


def nearest(providers: t.Mapping[str, Provider], name: str) -> str | None:
    known = {n.lower(): n for p in providers.values() for n in (p.name, *p.aliases)}
    near = difflib.get_close_matches(name.lower().replace("-", "_").replace(" ", "_"), known, 1, 0.6)
    return known[near[0]] if near else None


_HYBRID = {True: "kept", False: "off", "recurrent": "recurrent"}


def providers_of(raw: t.Mapping[str, t.Any], bands: t.Collection[str], source: str) -> dict[str, Provider]:
    """The providers of a mode's file, whose shape has been checked against the schema. Raises PdError with the file and the place for what
    a schema cannot say: placeholders and options that do not exist."""
    return {name: _provider(name, given, bands, f"{source}: kv_cache_providers.{name}") for name, given in raw.items()}


def _provider(name: str, raw: t.Mapping[str, t.Any], bands: t.Collection[str], place: str) -> Provider:
    options = {key: _option(key, value, f"{place}.options.{key}") for key, value in (raw.get("options") or {}).items()}
    service = raw.get("service")
    known = [f"kv_cache.{key}" for key, option in options.items() if not option.ignored]
    for role in ROLES:
        if "engine_id" in ((raw.get(role) or {}).get("connector") or {}):
            raise PdError(
                f"{place}.{role}.connector.engine_id: the engine gives its children one itself, and refuses a second."
            )
        _check_texts(raw.get(role), bands, [*known, *(placeholders.OF_CACHE if service else ())], f"{place}.{role}")
    capacity = raw.get("capacity") or {}
    if capacity and (capacity["option"] not in options or options[capacity["option"]].type != "size"):
        raise PdError(f"{place}.capacity.option: {capacity['option']!r} is no option of type size of this provider.")
    recurrent = raw.get("recurrent") or {}
    return Provider(
        name=name,
        summary=raw["summary"],
        roles={role: _role(raw.get(role)) for role in ROLES},
        aliases=tuple(raw.get("aliases") or ()),
        service=service,
        known_versions=raw.get("known_versions"),
        hybrid_manager=_HYBRID[raw.get("hybrid_manager", True)],
        recurrent_refused=recurrent.get("refused") or "",
        recurrent_advice=recurrent.get("advice") or "",
        recurrent_unless=recurrent.get("unless") or "",
        recurrent_unless_service=recurrent.get("unless_service") or "",
        not_with=dict(raw.get("not_with") or {}),
        host_ipc=bool(raw.get("host_ipc")),
        unique_per_host=tuple(raw.get("unique_per_host") or ()),
        not_on=dict(raw.get("not_on") or {}),
        own_service=raw.get("own_service") or "",
        capacity=capacity,
        options=options,
    )


def _role(raw: t.Mapping[str, t.Any] | None) -> RoleRecipe:
    if not raw:
        return RoleRecipe(refused="the recipe has nothing for this role")
    return RoleRecipe(
        refused=raw.get("refused") or "",
        connector=raw.get("connector"),
        arguments=tuple(raw.get("arguments") or ()),
        environment={str(k): str(v) for k, v in (raw.get("environment") or {}).items()},
        files=tuple(raw.get("files") or ()),
        known_versions=raw.get("known_versions"),
        versions_note=raw.get("versions_note") or "",
    )


def _option(name: str, raw: t.Mapping[str, t.Any], place: str) -> Option:
    told: dict[str, t.Any] = {k: tuple(v) if k == "choices" else v for k, v in raw.items()}
    option = Option(name, **told)
    if option.default is not None and option.value(option.default) is None:
        raise PdError(f"{place}.default: {option.default!r} is not {option.wanted()}.")
    for key in ("minimum", "multiple"):
        bound = getattr(option, key)
        if bound is not None and (
            option.type not in ("size", "integer", "number") or READERS[option.type](bound) is None
        ):
            raise PdError(f"{place}.{key}: {bound!r} is no bound of a value of type {option.type}.")
    return option


def _check_texts(value: t.Any, bands: t.Collection[str], more: t.Collection[str], place: str) -> None:
    if isinstance(value, str):
        placeholders.check(value, bands, place, more=more)
    elif isinstance(value, t.Mapping):
        for key, item in value.items():
            _check_texts(item, bands, more, f"{place}.{key}")
    elif isinstance(value, (list, tuple)):
        for number, item in enumerate(value):
            _check_texts(item, bands, more, f"{place}[{number}]")
