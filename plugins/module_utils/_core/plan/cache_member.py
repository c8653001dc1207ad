# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An instance of a cache service as a member of the plan: the service's template filled in for one place."""

from __future__ import annotations

import ipaddress

from ..base import placeholders
from ..base.errors import PdError
from ..facts.observed import Host, LiveMember
from ..spec.cache_service import ANY, ROLE, CacheService
from ..template.cache_template import CacheTemplate
from ..template.role import CompiledRole
from ..work.member import Listener, Member, Part, Probe, Stop
from .member import Values, bracket, member_id, seat_of, url_of
from .member_label import compose
from .placement import Seat

LOOPBACK = "127.0.0.1"


def build(template: CacheTemplate, host: Host, seat: Seat, index: int, generation: int) -> Member:
    """One instance, in the shape that member.py gives the members of a group. Raises PdError for a placeholder that has no value on this
    host."""
    service, recipe = template.service, template.recipe
    name = member_id(service.name, ROLE, index)
    values = _host_values(template, name, index, host, seat)
    compiled, role = CompiledRole(template.role), template.role
    argv, env, files = compiled.fill(values)
    probe = _probe(template, values, seat)
    address = _reached(str(values["bind"]), host)
    part = Part(
        host=host.name,
        rank=0,
        gpus=(),
        port=seat.port,
        ports=seat.ports,
        image=role.image,
        pull=role.pull,
        executable=service.executable,
        argv=tuple(argv),
        env=env,
        secrets=tuple(role.secrets),
        files=tuple(files),
        mounts=tuple(compiled.fill_mounts(values)),
        devices=tuple(role.devices),
        limits=role.resources,
        ipc="host" if recipe.host_ipc else None,
        labels={
            **compose(
                group=service.name,
                member=name,
                role=ROLE,
                index=index,
                revision=template.revision,
                generation=generation,
                seat=seat,
                address=address,
                kv_address=host.kv_address,
                url=probe.url,
                health=probe.health,
            ),
            "service": {"provider": recipe.name, "scope": service.scope, "clients": service.clients},
        },
    )
    return Member(
        id=name,
        role=ROLE,
        index=index,
        revision=template.revision,
        address=address,
        kv_address=None,
        url=probe.url,
        parts=(part,),
        probe=probe,
        stop=Stop(service.limits["stop"], 0),
        restart=recipe.restart,
    )


def as_it_runs(service: CacheService, member: LiveMember) -> Member:
    """An instance of an earlier spec, as its label tells of it: its command line is on its host alone."""
    label, seat = member.label, seat_of(member)
    part = Part(member.host, rank=0, gpus=(), port=seat.port, ports=seat.ports, labels=label.plain)
    return Member(
        id=member.id,
        role=ROLE,
        index=member.index,
        revision=member.revision,
        address=label.address,
        kv_address=None,
        url=label.url,
        parts=(part,),
        probe=Probe(label.url, label.health, (Listener("port", seat.port),), None, service.limits["start"]),
        stop=Stop(label.grace, label.drain),
        restart={"attempts": label.attempts, "window": 300},
    )


def _host_values(template: CacheTemplate, name: str, index: int, host: Host, seat: Seat) -> Values:
    """The values that a host fills in. Left out is what it has not: its use is then an error that names it."""
    values: Values = {
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


def _probe(template: CacheTemplate, values: Values, seat: Seat) -> Probe:
    """How its host tells that it is ready: an HTTP path, or without one a connection; and the ports that it must itself listen on."""
    asked = {"host": "${bind}", "port": "${port}", **template.recipe.probe}
    where = placeholders.fill(asked["host"], values)
    address = LOOPBACK if _is_any(where) else where
    port = int(placeholders.fill(asked["port"], values))
    path = asked.get("path") or ""
    listening = [Listener("port", seat.port)]
    for name, band in seat.ports.items():
        if name in template.listening:
            listening += [Listener(name, band["base"] + i) for i in range(band["count"])]
    return Probe(
        url=url_of(address, port) if path else f"tcp://{bracket(address)}:{port}",
        health=path,
        listening=tuple(listening),
        backend=None,
        limit=template.service.limits["start"],
    )
