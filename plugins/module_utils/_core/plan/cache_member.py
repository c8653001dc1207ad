# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An instance of a cache service as a member of the plan: the service's template filled in for one place."""

from __future__ import annotations

import ipaddress
import typing as t

from ..base import placeholders
from ..base.errors import PdError
from ..facts.label import SCHEMA
from ..facts.observed import Host
from ..spec.cache_service import ANY, ROLE
from ..template.cache_template import CacheTemplate
from ..template.role import CompiledRole
from .member import bracket, url_of
from .placement import Seat

LOOPBACK = "127.0.0.1"


def build(template: CacheTemplate, host: Host, seat: Seat, index: int, generation: int) -> dict[str, t.Any]:
    """One member of the plan, of role cache, in the shape that member.py gives those of a group. Raises PdError for a placeholder that has
    no value on this host."""
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
    part = _part(template, host, seat, values, labels)
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


def _part(
    template: CacheTemplate, host: Host, seat: Seat, values: t.Mapping[str, t.Any], labels: dict[str, t.Any]
) -> dict[str, t.Any]:
    """What runs on the host: the template's texts with this place's values."""
    service, recipe, role = template.service, template.recipe, template.role
    compiled = CompiledRole(role)
    argv, env, files = compiled.fill(values)
    return {
        "host": host.name,
        "rank": 0,
        "gpus": [],
        "port": seat.port,
        "ports": seat.ports,
        "image": role.image,
        "pull": role.pull,
        "vendor": None,
        "model": None,
        "executable": service.executable,
        "argv": argv,
        "env": env,
        "secrets": list(role.secrets),
        "files": files,
        "mounts": compiled.fill_mounts(values),
        "devices": list(role.devices),
        "limits": dict(role.resources),
        "ipc": "host" if recipe.host_ipc else None,
        "labels": labels,
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
