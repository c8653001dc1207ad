# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Members: a role template filled in for one place, as the plan shows it and as its host runs it."""

from __future__ import annotations

import typing as t

from ..base.plain import Plain
from ..facts.observed import Host, LiveMember
from ..recipes.engine import Engine
from ..recipes.mode import Mode
from ..runtimes.table import traits_of
from ..spec.cache_service import client_values
from ..spec.spec import Group
from ..template.kept import source_of
from ..template.template import CompiledRole, GroupTemplate
from ..work.member import Listener, Member, Part, Probe, Stop
from .formations import Formation
from .instances import Instance
from .member_label import compose
from .placement import Seat

# The values of placeholders, by their names.
Values = dict[str, t.Any]
VISIBLE_DEVICES = {
    "nvidia": "CUDA_VISIBLE_DEVICES",
    "amd": "HIP_VISIBLE_DEVICES",
    "ascend": "ASCEND_RT_VISIBLE_DEVICES",
}


def member_id(group: str, role: str, index: int) -> str:
    return f"{group}-{role}-{index}"


def bracket(address: str) -> str:
    """An address as a URL writes it: IPv6 in brackets."""
    return f"[{address}]" if ":" in address and not address.startswith("[") else address


def url_of(address: str, port: int) -> str:
    return f"http://{bracket(address)}:{port}"


def values_of(member: str, index: int, host: Host, seat: Seat) -> Values:
    """The values of the placeholders that a host fills in. Left out is what the host has not: its use is then an error that names it."""
    values: Values = {
        "member.id": member,
        "member.index": index,
        "member.host": host.name,
        "port": seat.port,
        "member.gpus": seat.gpus,
    }
    if host.address:
        values["member.address"] = host.address
    if host.kv_address:
        values["member.kv_address"] = host.kv_address
        values["member.kv_interface"] = ",".join(host.kv_names)
        values["member.ucx_net_devices"] = host.ucx_net_devices
        values["member.rdma_devices"] = ",".join(host.kv_devices)
    for name, band in seat.ports.items():
        values[f"ports.{name}"] = band["base"]
        values[f"ports.{name}.count"] = band["count"]
    return values


def cache_values(instance: Instance | None) -> Plain:
    """The placeholders of the cache service that a member uses."""
    return client_values(instance.address, instance.port) if instance else {}


def build(
    group: Group,
    template: GroupTemplate,
    compiled: CompiledRole,
    engine: Engine | None,
    host: Host,
    seat: Seat,
    index: int,
    formation: Formation,
    shared: Plain,
    cache: Plain | None = None,
) -> Member:
    """One member of the plan. `shared` are values of the whole group and of the host's cache service; `cache` is what its
    label says of its KV cache. Raises PdError for a placeholder that has no value here."""
    role = compiled.template
    name = member_id(group.stand, role.role, index)
    values = {**shared, **values_of(name, index, host, seat)}
    url = url_of(host.address or "", seat.port)
    health = engine.health_path if engine else (template.recipe.health_path if template.recipe else "/health")
    router = role.role == "router"
    labels = {
        **compose(
            group=group.stand,
            member=name,
            role=role.role,
            index=index,
            revision=template.revision,
            generation=formation.generation,
            seat=seat,
            address=host.address,
            kv_address=host.kv_address,
            url=url,
            health=health,
            formation=formation.id,
            backend=engine.backend if engine else None,
            dialect=template.recipe.dialect if router and template.recipe else None,
            policy=template.policy if router else None,
        ),
        "source": source_of(group, role.role, role.executable, role.image),
        **({"cache": dict(cache)} if cache else {}),
    }
    return Member(
        id=name,
        role=role.role,
        index=index,
        revision=template.revision,
        address=host.address,
        kv_address=None if router else host.kv_address,
        url=url,
        parts=(_part(group, compiled, host, seat, values, labels),),
        probe=_probe(group, template.mode, engine, url, health, seat, role.role),
        stop=Stop(group.limits["stop"], 0 if router else group.limits["drain"]),
        restart=template.mode.restart,
        identity={} if router else identity(host, group.on_host(role.role, group.model), role.executable, role.image),
    )


def _part(group: Group, compiled: CompiledRole, host: Host, seat: Seat, values: Values, labels: Plain) -> Part:
    """The one part of a member: all of it runs at its seat."""
    role, traits = compiled.template, traits_of(group.runtime)
    argv, env, files = compiled.fill(values)
    if seat.gpus and traits.gpus == "variable":
        env = {**_gpu_mask(host, seat), **env}
    return Part(
        host=host.name,
        rank=0,
        gpus=tuple(seat.gpus),
        port=seat.port,
        ports=seat.ports,
        image=role.image,
        pull=role.pull,
        vendor=_vendor(host, seat),
        model=None if role.role == "router" else group.model,
        executable=role.executable,
        argv=tuple(argv),
        env=env,
        secrets=tuple(role.secrets),
        files=tuple(files),
        mounts=tuple(compiled.fill_mounts(values)),
        devices=tuple(role.devices),
        limits=role.resources,
        labels=labels,
        through=host.through,
        ipc="host" if role.host_ipc and traits.containers else None,
        pod=_pod(group, host) if traits.pods else {},
    )


def _pod(group: Group, host: Host) -> Plain:
    """How the member is a Pod, by the spec and by what its node calls the devices that it gives away."""
    node = host.node
    return group.kubernetes.settings(node.gpu_resource if node else None, node.rdma_resource if node else None)


def _vendor(host: Host, seat: Seat) -> str | None:
    """The maker of the member's GPUs, where all are of one."""
    found = {gpu.vendor.lower() for gpu in host.gpus if gpu.id in seat.gpus and gpu.vendor}
    return found.pop() if len(found) == 1 else None


def _gpu_mask(host: Host, seat: Seat) -> dict[str, str]:
    """What confines a member to its own GPUs where no container does: the variable of its vendor, over which a user's own wins."""
    vendors = {(gpu.vendor or "nvidia").lower() for gpu in host.gpus if gpu.id in seat.gpus}
    return {VISIBLE_DEVICES[v]: ",".join(seat.gpus) for v in sorted(vendors) if v in VISIBLE_DEVICES}


def _probe(group: Group, mode: Mode, engine: Engine | None, url: str, health: str, seat: Seat, role: str) -> Probe:
    """How the host tells that the member is ready: its health path, and the ports that it must itself be listening on."""
    listening = [Listener("http", seat.port)]
    listens = {band.name for band in mode.bands if role in band.listen}
    for name, band in ((n, b) for n, b in seat.ports.items() if n in listens):
        listening += [Listener(name, band["base"] + i) for i in range(band["count"])]
    return Probe(
        url=url,
        health=health,
        listening=tuple(listening),
        backend=engine.backend if engine else None,
        limit=group.limits["start"] if role != "router" else min(group.limits["start"], 120),
        busy=tuple(engine.busy_metrics) if engine else (),
        done=tuple(engine.done_metrics) if engine else (),
        held=tuple(engine.held_metrics) if engine and role == "prefill" else (),
        metrics=engine.metrics_path if engine else None,
    )


def identity(host: Host, model: str | None, executable: str, image: str | None) -> Plain:
    """What must be the same for all members of a generation beside their spec: which engine it really is, and which model. `model` is
    where that is on the host, None where nobody can tell; `image_id` is the same for an image that was loaded from a file, which has no
    digest."""
    found = host.image(image) if image else {}
    engine = (found.get("digest") or found.get("id")) if image else host.executable(executable).get("version")
    facts = host.model(model) if model else {}
    times = (facts.get("weights") or {}).get("times")
    return {"engine": engine, "image_id": found.get("id"), "model": facts.get("fingerprint"), "weights": times}


def identity_of_source(host: Host, source: Plain) -> Plain:
    """What a member with this label `source` would be if it were started on its host now."""
    return identity(host, str(source.get("model")), str(source.get("executable")), source.get("image"))


def seat_of(member: LiveMember) -> Seat:
    """The seat that a running member holds."""
    return Seat(member.host, member.label.port or 0, dict(member.label.bands), list(member.gpus))
