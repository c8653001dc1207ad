# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# This module util is PRIVATE to the collection.
"""A cache service as far as its spec goes, with what only a host can tell left in, and one instance of it filled in."""

from __future__ import annotations

import ipaddress
import typing as t
from dataclasses import dataclass, replace

from ..base import placeholders
from ..base.arguments import Arguments, tokens
from ..base.errors import PdError
from ..base.finding import Findings
from ..facts.label import SCHEMA
from ..facts.observed import Host
from ..plan.member import bracket, url_of
from ..plan.placement import Seat
from ..recipes.cache_recipe import CacheRecipe
from ..spec.cache_service import ANY, ROLE, CacheService
from .template import revision_of

LOOPBACK = "127.0.0.1"


@dataclass(frozen=True)
class CacheTemplate:
    """What all instances of a service have in common. `argv`, `env` and `probe` still hold what a host fills in."""

    service: CacheService
    recipe: CacheRecipe
    argv: tuple[str, ...]
    env: t.Mapping[str, str]
    bands: tuple[tuple[str, int], ...]
    listening: frozenset[str]
    binds: t.Mapping[str, str]
    revision: str = ""

    def masked(self) -> dict[str, t.Any]:
        """What the revision covers, in the shape that a difference is told from."""
        service = self.service
        role = {
            "argv": list(self.argv),
            "env": dict(self.env),
            "image": service.image,
            "secrets": list(service.secrets),
            "mounts": list(service.mounts),
            "devices": list(service.devices),
            "resources": dict(service.resources),
            "port": service.port,
            "bind": dict(self.binds),
        }
        restart = dict(self.recipe.restart)
        return {"mode": self.recipe.name, "runtime": service.runtime, "restart": restart, "roles": {ROLE: role}}


def render(service: CacheService, recipe: CacheRecipe, findings: Findings) -> CacheTemplate | None:
    """The template of a service that is to be deployed; None when its arguments cannot be read."""
    where = f"pd_caches.{service.name}"
    try:
        args = tokens(service.args, f"{where}.args")
    except PdError as exc:
        findings.error("unreadable-arguments", str(exc), "", [])
        return None
    values = _values(service, recipe)
    own = _own_arguments(service, recipe)
    _check_owned(where, args, own, recipe, findings)
    command = service.command if service.command is not None else recipe.command
    env = {name: _partial(value, values) for name, value in recipe.environment.items()}
    env |= {name: _partial(value, values) for name, value in service.env.items()}
    for name in service.secrets:
        env.pop(name, None)
    # A command of the user's own runs as written, with nothing added but the user's arguments.
    words = [*command, *(own if service.command is None else ()), *args]
    bands = [b for b in recipe.bands if not b.when or service.options.get(b.when)]
    binds = {name: str(service.options[name]) for name, o in recipe.options.items() if o.type == "bind"}
    template = CacheTemplate(
        service,
        recipe,
        tuple(_partial(word, values) for word in words),
        env,
        tuple((b.name, b.width) for b in bands),
        frozenset(b.name for b in bands if b.listen),
        {"bind": service.bind, **binds},
    )
    _check_placeholders(where, template, findings)
    return replace(template, revision=revision_of(template.masked()))


def _values(service: CacheService, recipe: CacheRecipe) -> dict[str, t.Any]:
    """What the spec decides. Addresses by a word are a host's to tell."""
    values: dict[str, t.Any] = {"service": service.name}
    if service.executable:
        values["executable"] = service.executable
    for name, value in service.options.items():
        if recipe.options[name].type != "bind":
            values[f"options.{name}"] = str(value).lower() if isinstance(value, bool) else value
    return values


def _own_arguments(service: CacheService, recipe: CacheRecipe) -> list[str]:
    """The recipe's arguments. One that needs an option without a value is left out."""
    found = []
    for argument in recipe.arguments:
        if argument.when and not service.options.get(argument.when):
            continue
        wanted = [n for n in placeholders.names(argument.text) if n.startswith("options.")]
        if all(name.partition(".")[2] in service.options for name in wanted):
            found.append(argument.text)
    return found


def _check_owned(where: str, args: list[str], own: list[str], recipe: CacheRecipe, findings: Findings) -> None:
    """Addresses and ports are the plan's to give."""
    binds = {f"options.{name}" for name, option in recipe.options.items() if option.type == "bind"}
    owned = {}
    for option in Arguments(own).options:
        names = placeholders.names(option.value or "")
        if any(n in binds or n in ("port", "bind") or n.startswith("ports.") for n in names):
            owned[option.name] = option.text
    for option in Arguments(args).options:
        if option.name in owned:
            findings.error(
                "owned-flag",
                f"{where}.args: {option.text} is not yours to set: the plan gives each instance its own"
                f" ({owned[option.name]}).",
                "Remove the line. The port is pd_caches.NAME.port, the address it listens on pd_caches.NAME.bind.",
            )


def _check_placeholders(where: str, template: CacheTemplate, findings: Findings) -> None:
    mounts = [m for m in template.service.mounts if isinstance(m, str)]
    places = (("args", template.argv), ("env", tuple(template.env.values())), ("mounts", mounts))
    for place, texts in places:
        for text in texts:
            try:
                template.recipe.check(text, f"{where}.{place}")
            except PdError as exc:
                findings.error("unknown-placeholder", str(exc), "")


def _partial(text: str, values: t.Mapping[str, t.Any]) -> str:
    return placeholders.fill(text, values, partial=True)


# -- one instance ----------------------------------------------------------------------------------------------------------------------


def build(template: CacheTemplate, host: Host, seat: Seat, index: int, generation: int) -> dict[str, t.Any]:
    """One member of the plan (design 4.3), of role cache. Raises PdError for a placeholder that has no value on this host."""
    service, recipe = template.service, template.recipe
    name = f"{service.name}-{ROLE}-{index}"
    values = _host_values(template, name, index, host, seat)
    address = _reached(values["bind"], host)
    probe = _probe(template, values, seat)
    labels = {
        "schema": SCHEMA,
        "group": service.name,
        "member": name,
        "role": ROLE,
        "index": index,
        "generation": generation,
        "revision": template.revision,
        "port": seat.port,
        "ports": seat.ports,
        "gpus": [],
        "address": address,
        "kv_address": host.kv_address,
        "url": probe["url"],
        "health": probe["health"],
        "backend": None,
        "dialect": None,
        "policy": None,
        "service": {"provider": recipe.name, "scope": service.scope, "clients": service.clients},
    }
    part = {
        "host": host.name,
        "rank": 0,
        "gpus": [],
        "port": seat.port,
        "ports": seat.ports,
        "image": service.image,
        "pull": service.pull,
        "vendor": None,
        "model": None,
        "executable": service.executable,
        "argv": [placeholders.fill(word, values) for word in template.argv],
        "env": {key: placeholders.fill(value, values) for key, value in template.env.items()},
        "secrets": list(service.secrets),
        "files": [],
        "mounts": [placeholders.fill(m, values) if isinstance(m, str) else m for m in service.mounts],
        "devices": list(service.devices),
        "limits": dict(service.resources),
        "ipc": "host" if recipe.host_ipc else None,
        "labels": labels,
    }
    return {
        "id": name,
        "role": ROLE,
        "index": index,
        "revision": template.revision,
        "address": address,
        "kv_address": None,
        "url": probe["url"],
        "parts": [part],
        "probe": probe,
        "stop": {"grace": service.limits["stop"], "drain": 0},
        "restart": dict(recipe.restart),
        "identity": {},
    }


def _host_values(template: CacheTemplate, name: str, index: int, host: Host, seat: Seat) -> dict[str, t.Any]:
    """The values that a host fills in. Left out is what it has not: its use is then an error that names it."""
    values: dict[str, t.Any] = {
        "member.id": name,
        "member.index": index,
        "member.host": host.name,
        "port": seat.port,
    }
    if host.address:
        values["member.address"] = host.address
    if host.kv_address:
        values["member.kv_address"] = host.kv_address
        values["member.kv_interface"] = ",".join(host.kv_names)
        values["member.rdma_devices"] = ",".join(host.kv_devices)
    for band, ports in seat.ports.items():
        values[f"ports.{band}"] = ports["base"]
        values[f"ports.{band}.count"] = ports["count"]
    for key, word in template.binds.items():
        found = {"loopback": LOOPBACK, "address": host.address, "kv_address": host.kv_address}.get(word, word)
        if not found:
            raise PdError(
                f"{host.name} has no {word} to listen on ({key} of pd_caches.{template.service.name}). Set"
                f" {'pd_address' if word == 'address' else 'pd_kv_interface'} of the host."
            )
        values["bind" if key == "bind" else f"options.{key}"] = found
    return values


def _reached(bind: str, host: Host) -> str:
    """Where clients find what listens on `bind`."""
    if _is_any(bind):
        return host.address or LOOPBACK
    return bind


def _is_any(address: str) -> bool:
    try:
        return str(ipaddress.ip_address(address.strip("[]"))) in ANY
    except ValueError:
        return False


def _probe(template: CacheTemplate, values: t.Mapping[str, t.Any], seat: Seat) -> dict[str, t.Any]:
    """How its host tells that it is ready: an HTTP path, or without one a connection; and the ports that it must itself listen on."""
    asked = {"host": "${bind}", "port": "${port}", **template.recipe.probe}
    where = placeholders.fill(asked["host"], values)
    address = LOOPBACK if _is_any(where) else where
    port = int(placeholders.fill(asked["port"], values))
    path = asked.get("path") or ""
    listening = [{"name": "port", "port": seat.port}]
    for name, band in seat.ports.items():
        if name in template.listening:
            listening += [{"name": name, "port": band["base"] + i} for i in range(band["count"])]
    return {
        "url": url_of(address, port) if path else f"tcp://{bracket(address)}:{port}",
        "health": path,
        "listening": listening,
        "backend": None,
        "limit": template.service.limits["start"],
        "busy": [],
        "held": [],
        "metrics": None,
    }
