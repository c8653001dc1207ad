# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A kind of cache service: one recipe, read from a file of pd_modes/caches/ (or of caches/ in a user's own folder of modes).

Everything that is special about a kind is a field here; no code knows a kind's name. The schema checks a file's shape; what is checked
here is what a schema cannot say: that its placeholders, options and bands exist."""

from __future__ import annotations

import difflib
import typing as t
from dataclasses import dataclass, field

from ..base import placeholders
from ..base.errors import PdError

Scope = t.Literal["group", "host"]
Clients = t.Literal["reconnect", "restart"]
# Addresses by a word, or an address as it is.
BINDS = ("loopback", "address", "kv_address")
# What the spec decides, and what only a host can fill in.
OF_SERVICE = ("service", "executable")
OF_INSTANCE = (
    "member.id",
    "member.index",
    "member.host",
    "member.address",
    "member.kv_address",
    "member.kv_interface",
    "member.rdma_devices",
    "port",
    "bind",
)


@dataclass(frozen=True)
class Option:
    """One key of a service's `options`. `clients`: it is not the server's, but what every client of the service must be told."""

    name: str
    type: str
    default: t.Any = None
    required: bool = False
    minimum: float | None = None
    maximum: float | None = None
    choices: tuple[str, ...] = ()
    unit: str = ""
    clients: bool = False
    # The address that is opened when the option is on, whatever the service is told.
    opens: str = ""
    summary: str = ""


@dataclass(frozen=True)
class Argument:
    """An argument of the server; with `when`, only when that option is on."""

    text: str
    when: str = ""


@dataclass(frozen=True)
class CacheBand:
    """Ports that an instance gets beside its own. With `when`, only when that option is on."""

    name: str
    width: int
    listen: bool = True
    when: str = ""


@dataclass(frozen=True)
class CacheRecipe:
    """How one kind of service is run. `scope`: group is one instance for all users, host one on each host of the pattern. `clients` is
    what becomes of the engines that use it when it restarts. `probe` has an HTTP path, or only a host and a port to connect to."""

    name: str
    summary: str
    scope: Scope
    clients: Clients
    clients_note: str = ""
    executable: str | None = None
    command: tuple[str, ...] = ()
    arguments: tuple[Argument, ...] = ()
    environment: t.Mapping[str, str] = field(default_factory=dict)
    bands: tuple[CacheBand, ...] = ()
    probe: t.Mapping[str, str] = field(default_factory=dict)
    options: t.Mapping[str, Option] = field(default_factory=dict)
    bind: str = "address"
    host_ipc: bool = False
    known_versions: str | None = None
    packages: tuple[str, ...] = ()
    libraries: tuple[str, ...] = ()
    restart: t.Mapping[str, int] = field(default_factory=lambda: {"attempts": 0, "window": 300})
    source: str = ""

    def placeholders(self) -> list[str]:
        """The closed list of this kind: what the recipe, or the spec of such a service, may use."""
        others = [f"options.{name}" for name, option in self.options.items() if option.type != "bind"]
        return [*OF_SERVICE, *self.of_instance([b.name for b in self.bands]), *others]

    def of_instance(self, bands: t.Sequence[str]) -> list[str]:
        """Those of the list that only a host can fill in, with these bands: what may be left when the spec has been filled in."""
        binds = [f"options.{name}" for name, option in self.options.items() if option.type == "bind"]
        ports = [f"ports.{name}" for name in bands]
        return [*OF_INSTANCE, *ports, *(f"{name}.count" for name in ports), *binds]

    def check(self, text: str, where: str, known: t.Sequence[str] | None = None) -> None:
        """Raise PdError for a placeholder that does not exist (or is none of `known`), naming it, its place and the nearest one."""
        every = self.placeholders() if known is None else known
        for name in placeholders.names(text):
            if name in every:
                continue
            if name in self.placeholders():
                raise PdError(f"{where}: ${{{name}}} has no value in this service.")
            near = difflib.get_close_matches(name, every, 1, 0.5)
            told = f" Did you mean ${{{near[0]}}}?" if near else f" Known are: {', '.join(every)}."
            raise PdError(f"{where}: there is no placeholder ${{{name}}} for a {self.name} service.{told}")


def from_plain(raw: t.Mapping[str, t.Any], source: str = "") -> CacheRecipe:
    """The recipe that a file's content describes. Raises PdError with the file and the place when something does not exist.

    The shape has been checked against the schema before."""
    install = raw.get("install") or {}
    recipe = CacheRecipe(
        name=raw["name"],
        summary=raw["summary"],
        scope=raw["scope"],
        clients=raw["clients"],
        clients_note=raw.get("clients_note") or "",
        executable=raw.get("executable"),
        command=tuple(raw["command"]),
        arguments=tuple(_argument(a) for a in raw.get("arguments") or ()),
        environment=dict(raw.get("environment") or {}),
        bands=tuple(
            CacheBand(n, b["width"], b.get("listen", True), b.get("when") or "")
            for n, b in (raw.get("bands") or {}).items()
        ),
        probe={key: str(value) for key, value in raw["probe"].items()},
        options={name: _option(name, o) for name, o in (raw.get("options") or {}).items()},
        bind=raw.get("bind") or "address",
        host_ipc=bool(raw.get("host_ipc")),
        known_versions=raw.get("known_versions"),
        packages=tuple(install.get("packages") or ()),
        libraries=tuple(install.get("libraries") or ()),
        restart=raw.get("restart") or {"attempts": 0, "window": 300},
        source=source,
    )
    _check(recipe, source)
    return recipe


def _argument(raw: t.Any) -> Argument:
    return Argument(raw) if isinstance(raw, str) else Argument(raw["text"], raw["when"])


def _option(name: str, raw: t.Mapping[str, t.Any]) -> Option:
    return Option(
        name=name,
        type=raw["type"],
        default=raw.get("default"),
        required=bool(raw.get("required")),
        minimum=raw.get("minimum"),
        maximum=raw.get("maximum"),
        choices=tuple(raw.get("choices") or ()),
        unit=raw.get("unit") or "",
        clients=raw.get("for") == "clients",
        opens=raw.get("opens") or "",
        summary=raw["summary"],
    )


def _check(recipe: CacheRecipe, source: str) -> None:
    texts = [
        *((f"command[{n}]", word) for n, word in enumerate(recipe.command)),
        *((f"arguments[{n}]", a.text) for n, a in enumerate(recipe.arguments)),
        *((f"environment.{name}", value) for name, value in recipe.environment.items()),
        *((f"probe.{key}", value) for key, value in recipe.probe.items()),
    ]
    for place, text in texts:
        recipe.check(text, f"{source}: {place}")
    conditions = [
        *((f"arguments[{n}].when", a.when) for n, a in enumerate(recipe.arguments)),
        *((f"bands.{b.name}.when", b.when) for b in recipe.bands),
    ]
    for place, name in conditions:
        if name and (name not in recipe.options or recipe.options[name].type != "boolean"):
            raise PdError(f"{source}: {place}: {name!r} is no option of type boolean.")
