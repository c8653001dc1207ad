# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What each host that gets a member must have, before anything starts; and what a rendered member must not contradict."""

from __future__ import annotations

import typing as t

from ..base.arguments import Option, options, read_json_object
from ..base.finding import Findings
from ..base.words import by_number, counted
from ..cluster.places import node_of
from ..facts import images
from ..facts.observed import Host
from ..runtimes.table import traits_of
from ..spec.spec import ENGINE_ROLES, Group
from ..template import kv_compose
from ..template.pasted import meanings
from ..template.template import RoleTemplate
from ..work.member import Member
from .placement import Seat
from .situation import Request


def check_hosts(request: Request, seats: t.Mapping[str, Seat], kept: t.Collection[str], findings: Findings) -> None:
    """What each host that gets a member must have, before anything starts: told once per host."""
    group = request.workload
    roles_on: dict[str, set[str]] = {}
    for name, seat in seats.items():
        roles_on.setdefault(seat.host, set()).add(name[len(group.stand) + 1 :].rpartition("-")[0])
    wide = len({*roles_on, *kept}) > 1
    prints: dict[str, list[str]] = {}
    versions: dict[str, list[str]] = {}
    unread: list[str] = []
    for name, roles in roles_on.items():
        host = request.hosts[name]
        check_read(host, findings)
        check_runtime_of(group.runtime, host, findings)
        check_ephemeral(host, findings)
        for role in sorted(roles):
            _check_executable(request, host, role, findings)
            _check_image(group, request.template.roles[role], host, findings)
        engines = sorted(roles - {"router"})
        if not host.address:
            findings.error(
                "no-address", f"{name} has no address that its peers could use.", "Set pd_address.", [], name
            )
        if engines and request.template.mode.interface_plane != "none":
            _check_interface(host, wide, engines, findings)
        if engines:
            _check_models(group, host, engines, prints, findings)
            for role in engines if traits_of(group.runtime).program == "host" else ():
                facts = host.executable(request.template.roles[role].executable)
                if facts.get("version"):
                    versions.setdefault(str(facts["version"]), []).append(f"{role} on {name}")
                elif facts.get("exists"):
                    unread.append(f"{role} on {name}")
    _check_identity(group, unread, prints.pop("", []), findings)
    _check_images(request, {h: roles & {*ENGINE_ROLES} for h, roles in roles_on.items()}, findings)
    if len(versions) > 1:
        told = "; ".join(f"{version}: {', '.join(where)}" for version, where in sorted(versions.items()))
        say = findings.error if request.template.mode.pairing.get("handshake") else findings.warning
        say(
            "pairing-engine-version",
            f"the engine is not the same on all hosts: {told}.",
            "Install one version on all.",
            ENGINE_ROLES,
        )
    if len(prints) > 1:
        told = "; ".join(f"{key[:12]} on {', '.join(names)}" for key, names in sorted(prints.items()))
        findings.error(
            "model-differs",
            f"model {group.model} is not the same on all hosts: {told}.",
            "Copy one version to all: a pair of two answers wrongly, with 200.",
        )


def _check_identity(group: Group, engines: t.Sequence[str], models: t.Sequence[str], findings: Findings) -> None:
    """What members would be cannot be compared where it cannot be read, and is never taken for the same."""
    if engines:
        findings.unread(
            f"the engine's version cannot be read of {', '.join(engines)}: whether all run the same one is unverified.",
            "Name the engine's own command in its Python environment (bin/vllm) as executable, not a wrapper around it.",
            ENGINE_ROLES,
        )
    if models:
        findings.unread(
            f"model {group.model} has no fingerprint on {', '.join(models)}: whether all have the same one is unverified.",
            "Nothing reads files on the nodes of a cluster: have them from one volume or image (kubernetes.model)."
            if traits_of(group.runtime).pods
            else "Make it readable for the user that the playbook becomes; what is in a volume of containers, nobody compares.",
            ENGINE_ROLES,
        )


def _check_images(request: Request, roles_on: t.Mapping[str, t.Collection[str]], findings: Findings) -> None:
    """One name that is several images. What is pulled anew is known after that: the verdict on the preparation compares it."""
    if not traits_of(request.workload.runtime).images:
        return
    found: dict[str, list[tuple[str, images.Image]]] = {}
    for name, roles in roles_on.items():
        for template in (request.template.roles[role] for role in sorted(roles)):
            if template.image and template.pull != "always":
                found.setdefault(template.image, []).append((name, request.hosts[name].image(template.image)))
    for image, where in found.items():
        kinds = images.kinds(where)
        if len(kinds) > 1:
            findings.error(
                "image-differs",
                f"image {image} is {len(kinds)} images: {images.listed(kinds)}.",
                "Write its digest in the spec (name@sha256:...), or have one of them on all hosts (pull: always).",
                ENGINE_ROLES,
            )


def check_ephemeral(host: Host, findings: Findings) -> None:
    """An outgoing connection of any process can sit on a port of the kernel's client range when a member wants to listen there."""
    if host.exposed:
        span = f"{host.port_low}-{host.port_high}"
        clients = "-".join(map(str, host.ephemeral))
        findings.warning(
            "ports-ephemeral",
            f"{host.name}: {counted(host.exposed, 'port')} of {span} {by_number(host.exposed, 'lies', 'lie')} in"
            f" the kernel's range for clients ({clients}):"
            " an outgoing connection can take a member's port while it restarts.",
            "Reserve them (inferops.pd.preflight -e pd_reserve_ports=true adds them to net.ipv4.ip_local_reserved_ports), or set"
            " pd_port_range below that range.",
            [],
            host.name,
        )


def check_read(host: Host, findings: Findings) -> None:
    """A fact that cannot be believed is as if it were not there, and no member is placed beside what is not known."""
    if host.unread:
        findings.error(
            "facts-damaged",
            f"{host.name}: what it says cannot be believed: {'; '.join(host.unread[:4])}.",
            "Run again, so that it is asked anew; facts that were given by hand are those of module host_facts.",
            [],
            host.name,
        )


def check_runtime_of(name: str, host: Host, findings: Findings) -> None:
    """Whether members can be run on the host by the runtime `name`."""
    runtime = host.runtime(name)
    if not runtime.get("available"):
        why = runtime.get("why") or "the host reports none"
        findings.error(
            "runtime-missing",
            f"runtime {name} is not usable on {host.name}: {why}.",
            runtime.get("hint") or "Install it, or choose another runtime.",
            [],
            host.name,
        )


def _check_executable(request: Request, host: Host, role: str, findings: Findings) -> None:
    template = request.template.roles[role]
    if traits_of(request.workload.runtime).program == "image" or not template.executable:
        return
    own = role == "router" or "executable" in request.workload.roles[role].own
    place = f"roles.{role}.executable" if own else "engine.executable"
    if not host.executable(template.executable).get("exists"):
        findings.error(
            "executable-missing",
            f"{place}: {template.executable} is not there, or not executable, on {host.name}.",
            f"Install it, or set {'engine' if role != 'router' else 'roles.router'}.executable to its path.",
            [role],
            host.name,
        )


def _check_image(group: Group, template: RoleTemplate, host: Host, findings: Findings) -> None:
    """An image that is not there and cannot be had is told before anything stops."""
    if not traits_of(group.runtime).images or not template.image:
        return
    facts = host.image(template.image)
    if facts and facts.get("exists") is False and (template.pull == "never" or not facts.get("pullable")):
        findings.error(
            "image-missing",
            f"{host.name}: image {template.image} is not there"
            + (
                ", and pull is never."
                if template.pull == "never"
                else f" and cannot be pulled: {facts.get('why') or 'no registry has it'}."
            ),
            "Load it on the host, or name one that its registry has.",
            [template.role],
            host.name,
        )


def _check_interface(host: Host, wide: bool, roles: list[str], findings: Findings) -> None:
    if host.kv_error:
        node = node_of(host.name)
        findings.error(
            "kv-interface",
            f"{host.name}: {host.kv_error}",
            f"Write it in pd_nodes of {host.through}: {{nodes: [{node}], kv_interface: NAME, kv_address: ADDRESS}}."
            if host.node
            else "Set pd_kv_interface for the host to the NIC that the KV cache travels over.",
            roles,
            host.name,
        )
    elif wide and host.kv_names == ("lo",):
        findings.error(
            "kv-interface",
            f"{host.name}: the KV interface is lo, but the group spans several hosts.",
            "Set pd_kv_interface to a NIC that the others reach.",
            roles,
            host.name,
        )


def _check_models(
    group: Group, host: Host, roles: t.Sequence[str], prints: dict[str, list[str]], findings: Findings
) -> None:
    """What the roles find on the host by their mounts. The host is added to `prints` under the fingerprint of each model, which is empty
    where nobody can tell it."""
    places: dict[str | None, list[str]] = {}
    for role in roles:
        places.setdefault(group.on_host(role, group.model), []).append(role)
    for path, readers in places.items():
        facts = host.model(path) if path else {}
        # Of a cluster's node that nobody has looked at nothing is known of this: it is told as that.
        unseen = host.node is not None and not host.node.looked
        if path is None or facts.get("exists") or unseen:
            prints.setdefault(str(facts.get("fingerprint") or ""), []).append(host.name)
            continue
        where = "" if path == group.model else f" ({path} on the host, by the mounts of {' and '.join(readers)})"
        findings.error(
            "model-missing",
            f"model: {group.model}{where} is not there on {host.name}.",
            "Copy the model to the host, or mount it; it must have the same path on every host.",
            readers,
            host.name,
        )


def check_pasted(request: Request, members: t.Sequence[Member], findings: Findings) -> None:
    """Lines that looked derived when the spec was read must be what some member of the role really got."""
    for role in request.template.roles.values():
        instead = " The router's port is roles.router.port." if role.role == "router" else ""
        check_pasted_of(role, members, request.workload.roles[role.role].args_place, instead, findings)


def check_pasted_of(
    role: RoleTemplate, members: t.Sequence[Member], place: str, instead: str, findings: Findings
) -> None:
    """The same of one role, whose args are written at `place`; `instead` is what to write."""
    argvs = [part.argv for m in members if m.role == role.role for part in m.parts] if role.pasted else []
    mine = [option for argv in argvs for option in options(argv)]
    got = {text for option in mine for text in meanings(option, parts=True)}
    composed = any(_composed(option) for option in mine)
    for written, derived in role.pasted:
        (option,) = options([written])
        if role.service and not composed and _composed(option):
            # Its members start without the cache: nobody has the line to compare with.
            continue
        if members and not meanings(option) & got:
            findings.error(
                "owned-flag",
                f"{place}: {written} is not yours to set: the plan gives each member its own ({derived}).",
                f"Remove the line.{instead}",
                [role.role],
            )


def _composed(option: Option) -> bool:
    return (read_json_object(option.value or "") or {}).get("kv_connector") == kv_compose.MULTI
