# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# This module util is PRIVATE to the collection.
"""The plan: spec and observed in, one value out. Check mode returns it, a run executes the same value; nothing later decides again.

How it is made: `Situation` says what there is of the group, `_decide` who stays, leaves and comes, `_seat` where, `_router_step` what the
router does, and `_assemble` writes the value down (design 4.3)."""

from __future__ import annotations

import ipaddress
import typing as t
from dataclasses import dataclass, field

from . import diff, record
from .errors import PdError
from .finding import Findings
from .member import build, member_id, seat_of, url_of
from .observed import Host, Member
from .placement import Placer, Room, Seat
from .spec import ENGINE_ROLES, ROLES, Group
from .template import CompiledRole, GroupTemplate

Action = t.Literal["deploy", "scale", "restart"]
# Beyond this many, a list of addresses in every member's environment would grow with the square of the group.
NO_PROXY_ADDRESSES = 64


@dataclass
class Request:
    """Everything a plan is made from. `patterns` are the host names of each role's pattern, resolved without --limit; `silent` are hosts
    of the group that gave no facts; `lost` those that the user states are fenced; `counts` what `scale` asks for."""

    group: Group
    template: GroupTemplate
    hosts: t.Mapping[str, Host]
    patterns: t.Mapping[str, t.Sequence[str]]
    action: Action
    silent: t.Collection[str] = ()
    lost: t.Collection[str] = ()
    counts: t.Mapping[str, int] = field(default_factory=dict)
    allow_scale_down: bool = False
    reserved: t.Sequence[t.Mapping[str, t.Any]] = ()


@dataclass
class Situation:
    """What there is of the group: its members as seen, those on hosts that do not answer, and the newest record."""

    record: dict[str, t.Any]
    members: list[Member]
    unknown: list[dict[str, t.Any]]
    generation: int

    @classmethod
    def of(
        cls, name: str, hosts: t.Mapping[str, Host], silent: t.Collection[str], lost: t.Collection[str]
    ) -> Situation:
        found = [h.records[name] for h in hosts.values() if name in h.records]
        newest = max(found, key=lambda r: (r.get("generation", 0), r.get("serial", 0)), default={})
        members = [m for h in hosts.values() for m in h.members if m.group == name]
        seen = {m.id for m in members}
        unknown = [
            m
            for m in newest.get("members", ())
            if m["id"] not in seen and m["host"] not in lost and (m["host"] not in hosts or m["host"] in silent)
        ]
        generation = max([newest.get("generation", 0), *(m.generation for m in members)])
        return cls(newest, members, unknown, generation)

    def of_role(self, role: str, alive: bool | None = None) -> list[Member]:
        found = [m for m in self.members if m.role == role and (alive is None or m.alive == alive)]
        return sorted(found, key=lambda m: m.index)


@dataclass
class Choice:
    """Who stays, who leaves (with why) and who comes, per member; the counts that were meant; whether the spec waits for a restart."""

    keep: list[Member] = field(default_factory=list)
    leave: list[tuple[Member, str]] = field(default_factory=list)
    replace: list[Member] = field(default_factory=list)
    create: list[tuple[str, int, str]] = field(default_factory=list)
    desired: dict[str, int] = field(default_factory=dict)
    pending: bool = False


def make(request: Request, findings: Findings) -> dict[str, t.Any]:
    """The plan. What stands in its way is in `findings`; a plan with errors is for reading only."""
    situation = Situation.of(request.group.name, request.hosts, request.silent, request.lost)
    _check_reach(request.action, situation, request.silent, findings)
    choice = _decide(request, situation, findings)
    generation = _generation(request, situation, choice)
    seats = _seat(request, choice, findings)
    _check_hosts(request, seats, findings)
    members = _members(request, situation, choice, seats, generation, findings)
    _check_pasted(request, members, findings)
    _check_identity(situation, choice, members, findings)
    return _assemble(request, situation, choice, members, generation, findings)


def removal(
    name: str, hosts: t.Mapping[str, Host], silent: t.Collection[str], lost: t.Collection[str], findings: Findings
) -> dict[str, t.Any]:
    """The plan that takes a group down. It needs no spec: what runs, and the record, say all of it."""
    situation = Situation.of(name, hosts, silent, lost)
    _check_reach("remove", situation, silent, findings)
    noted = situation.record
    steps = [
        {
            "phase": "router_stop" if m.role == "router" else "stop",
            "do": "remove",
            "member": m.id,
            "host": m.host,
            "why": "the group is removed",
        }
        for m in sorted(situation.members, key=lambda m: (m.role != "router", m.host, m.id))
    ]
    mine = sorted({m.host for m in situation.members} | {n for n, host in hosts.items() if name in host.records})
    if mine:
        steps.append(
            {
                "phase": "endpoint",
                "do": "remove",
                "member": None,
                "host": None,
                "why": "the record on every host of the group",
            }
        )
    router = {
        "member": None,
        "peers": [],
        "policy": (noted.get("router") or {}).get("policy"),
        "dialect": None,
        "gives_up": "",
        "add": [],
        "remove": [],
    }
    plan: dict[str, t.Any] = {
        "group": name,
        "mode": noted.get("mode"),
        "runtime": noted.get("runtime"),
        "action": "remove",
        "revision": noted.get("revision"),
        "generation": situation.generation,
        "pending": False,
        "desired": {},
        "readiness": "any_per_role",
        "members": [],
        "router": {**router, "step": "none", "why": "the group is removed", "model": ""},
        "steps": steps,
        "endpoint": {"url": None, "served_model_name": None},
        "hosts": {
            host: {
                "present": [],
                "create": [],
                "absent": [m.id for m in situation.members if m.host == host],
                "observed": hosts[host].facts.get("digest"),
            }
            for host in mine
        },
        "proof": {},
        "unknown": [m["id"] for m in situation.unknown],
        "record": noted,
        "changed": bool(steps),
    }
    plan["diff"] = diff.of_plan(plan, noted, {})
    return plan


def _check_reach(action: str, situation: Situation, silent: t.Collection[str], findings: Findings) -> None:
    """Unknown is not lost: with a part of the group out of reach nothing of it may be stopped or replaced."""
    quiet = sorted({m["host"] for m in situation.unknown} | set(silent))
    if not quiet:
        return
    hold = [m["id"] for m in situation.unknown]
    what = f"{', '.join(quiet)} did not answer" + (f" and may still run {', '.join(hold)}" if hold else "")
    if action in ("restart", "remove"):
        findings.error(
            "host-unreachable",
            f"{what}: a {action} of a part of the group is refused, nothing was stopped.",
            "Run without --limit and with the host reachable. If it is fenced for good, say so: -e pd_lost_hosts="
            + ",".join(quiet),
        )
    else:
        findings.warning(
            "host-unreachable",
            f"{what}: nothing of the group is replaced or restarted.",
            "Bring the host back, or state that it is fenced: -e pd_lost_hosts=" + ",".join(quiet),
        )


def _decide(request: Request, situation: Situation, findings: Findings) -> Choice:
    choice = Choice()
    revision = request.template.revision
    alive = [m for m in situation.members if m.alive]
    choice.desired = _desired(request, situation, findings)
    if request.action == "restart":
        choice.leave = [(m, "the whole group restarts") for m in situation.members]
        choice.create = [(role, i, "restart") for role in ENGINE_ROLES for i in range(choice.desired[role])]
        choice.create.append(("router", 0, "restart"))
        return choice
    choice.pending = any(m.revision != revision for m in alive) or (
        bool(situation.unknown) and situation.record.get("revision") not in (None, revision)
    )
    for role in ENGINE_ROLES:
        _decide_role(role, choice.desired[role], situation, choice, findings)
    _decide_router(situation, choice)
    return choice


def _desired(request: Request, situation: Situation, findings: Findings) -> dict[str, int]:
    """The count of each role: what scale asks for, else the inventory's, which a deploy lowers to only when told."""
    desired = {}
    last = situation.record.get("desired") or {}
    for role in ENGINE_ROLES:
        inventory = request.group.roles[role].replicas
        if request.action == "scale":
            desired[role] = request.counts.get(role, last.get(role, inventory))
        elif request.action == "restart":
            desired[role] = last.get(role, inventory)
        else:
            running = len(situation.of_role(role, alive=True))
            desired[role] = max(inventory, running) if not request.allow_scale_down else inventory
        if desired[role] != inventory:
            findings.warning(
                "count-differs-from-inventory",
                f"{role}: {desired[role]} replicas, the inventory says {inventory}.",
                f"Write replicas: {desired[role]} in the inventory to keep them"
                + (
                    ", or let deploy lower it: -e pd_allow_scale_down=true."
                    if desired[role] > inventory
                    else "; the next deploy raises it again."
                ),
                [role],
            )
    return desired


def _decide_role(role: str, want: int, situation: Situation, choice: Choice, findings: Findings) -> None:
    alive, dead = situation.of_role(role, alive=True), situation.of_role(role, alive=False)
    unknown = [m for m in situation.unknown if m["role"] == role]
    surplus = max(0, len(alive) + len(unknown) - want)
    # Worst first: a member that does not answer, then the youngest.
    victims = sorted(alive, key=lambda m: (m.ready, -m.index))[:surplus]
    choice.leave += [(m, f"{want} of {len(alive) + len(unknown)} {role} members are wanted") for m in victims]
    choice.keep += [m for m in alive if m not in victims]
    missing = max(0, want - len(alive) - len(unknown))
    if not missing:
        choice.leave += [(m, "it is down and not wanted any more") for m in dead]
        return
    if choice.pending or situation.unknown:
        reason = "the spec has changed" if choice.pending else "a part of the group is out of reach"
        for member in dead:
            findings.warning(
                "member-not-replaced",
                f"{member.id} is down ({member.live.get('why') or member.state}) and is not replaced: {reason}.",
                "",
                [role],
            )
        if missing > len(dead):
            _refuse_growth(role, missing - len(dead), choice, findings)
        return
    replaced = dead[:missing]
    choice.replace += replaced
    choice.leave += [(m, "it is down and not wanted any more") for m in dead[missing:]]
    taken = {m.index for m in (*alive, *dead)} | {m["index"] for m in unknown}
    free = (i for i in range(want + len(taken) + 1) if i not in taken)
    choice.create += [(role, next(free), "wanted by the spec") for dummy in range(missing - len(replaced))]


def _refuse_growth(role: str, more: int, choice: Choice, findings: Findings) -> None:
    if not choice.pending:
        return
    findings.error(
        "pending-no-growth",
        f"{role}: {more} more cannot be started while the group runs an older configuration: they would be built from the new one beside the old.",
        "Apply the change with inferops.pd.restart (it starts the new count), or undo the edit.",
        [role],
    )


def _decide_router(situation: Situation, choice: Choice) -> None:
    routers = situation.of_role("router")
    alive = [m for m in routers if m.alive]
    choice.keep += alive[:1]
    choice.leave += [(m, "a group has one router") for m in alive[1:]]
    if alive or any(m["role"] == "router" for m in situation.unknown):
        choice.leave += [(m, "it is down and another runs") for m in routers if not m.alive]
    elif choice.pending:
        return
    elif routers:
        choice.replace.append(routers[0])
    else:
        choice.create.append(("router", 0, "wanted by the spec"))


def _generation(request: Request, situation: Situation, choice: Choice) -> int:
    """A formation is one generation: a restart, or a group of which nothing runs, makes the next."""
    formed = any(m.role != "router" for m in choice.keep) or situation.unknown
    return situation.generation if formed else situation.generation + 1


def _seat(request: Request, choice: Choice, findings: Findings) -> dict[str, Seat]:
    """A seat for every member that comes, by member id."""
    group, template = request.group, request.template
    gone = {m.id for m, _why in choice.leave} | {m.id for m in choice.replace}
    rooms = {
        name: Room.of(host, gone, *_reserved(request, name))
        for name, host in request.hosts.items()
        if name not in request.silent
    }
    seats: dict[str, Seat] = {}
    for member in choice.replace:
        role = template.roles[member.role]
        room = rooms.get(member.host)
        port = group.roles["router"].port if member.role == "router" else None
        seat = (
            room.seat(member.id, role.bands, role.gpus, port)
            if room and member.host in request.patterns[member.role]
            else None
        )
        if seat:
            seats[member.id] = seat
        else:
            choice.leave.append((member, f"{member.host} has no room for it any more"))
            choice.create.append((member.role, member.index, "its host has no room for it any more"))
    choice.replace = [m for m in choice.replace if m.id in seats]
    for role in ROLES:
        wanted = [index for name, index, _why in choice.create if name == role]
        if wanted:
            _seat_role(request, role, wanted, rooms, seats, findings)
    return seats


def _seat_role(
    request: Request, role: str, wanted: list[int], rooms: dict[str, Room], seats: dict[str, Seat], findings: Findings
) -> None:
    template = request.template.roles[role]
    names = request.patterns[role]
    if not names:
        findings.error(
            "no-hosts",
            f"roles.{role}.hosts: the pattern {request.group.roles[role].hosts!r} matches no host of the inventory.",
            "Name a group or host that exists; see ansible-inventory --graph.",
            [role],
        )
        return
    port = request.group.roles["router"].port if role == "router" else None
    placer = Placer({n: rooms[n] for n in names if n in rooms}, list(names))
    for number, index in enumerate(wanted):
        name = member_id(request.group.name, role, index)
        seat = placer.seat(name, template.bands, template.gpus, port)
        if seat is None:
            _no_room(request, role, number, len(wanted), rooms, findings)
            return
        seats[name] = seat
        if port is not None:
            _check_router_port(request, seat, port, findings)


def _reserved(request: Request, host: str) -> tuple[dict[int, str], set[str]]:
    """Ports and GPUs that groups planned earlier in the same run take on `host`."""
    ports: dict[int, str] = {}
    gpus: set[str] = set()
    for plan in request.reserved:
        if plan.get("group") == request.group.name:
            continue
        for member in plan.get("members", ()):
            for part in member["parts"]:
                if part["host"] == host:
                    held = [part["port"], *(b["base"] + i for b in part["ports"].values() for i in range(b["count"]))]
                    ports.update((port, f"member {member['id']} of this run") for port in held)
                    gpus.update(part["gpus"])
    return ports, gpus


def _no_room(request: Request, role: str, fit: int, wanted: int, rooms: dict[str, Room], findings: Findings) -> None:
    """Say what does not fit, with the arithmetic of each host."""
    template = request.template.roles[role]
    demand = template.port_demand()
    lines, narrow = [], True
    for name in request.patterns[role]:
        room = rooms.get(name)
        if room is None:
            lines.append(f"{name}: no facts")
            continue
        host = room.host
        have = len(room.free_gpus)
        narrow = narrow and have >= template.gpus
        lines.append(
            f"{name}: {have} of {len(host.gpus)} GPUs free, {room.free_ports()} of {host.port_high - host.port_low + 1} ports free in {host.port_low}-{host.port_high}"
        )
    each = (
        f"{template.gpus} GPUs and {demand} ports ({', '.join(['1 HTTP', *(f'{w} {n}' for n, w in template.bands)])})"
    )
    message = (
        f"{role}: {fit} of {wanted} new members fit; each takes {each}. "
        + "; ".join(lines[:8])
        + ("; ..." if len(lines) > 8 else "")
    )
    if narrow:
        host = next((rooms[n].host for n in request.patterns[role] if n in rooms), None)
        room = rooms[host.name] if host else None
        need = demand * (wanted - fit)
        high = (host.port_high if host else 0) + need - (room.free_ports() if room else 0)
        holders = sorted(
            {
                who
                for n in request.patterns[role][:4]
                if n in rooms
                for who in rooms[n].taken.values()
                if not who.startswith("member")
            }
        )
        findings.error(
            "port-range-too-small",
            message + (f". Taken by {', '.join(holders[:4])}" if holders else ""),
            f"Widen pd_port_range by at least {max(need - (room.free_ports() if room else 0), 1)} ports, for example to "
            f"{host.port_low if host else 40000}-{max(high, (host.port_high if host else 40063) + 1)}.",
            [role],
        )
    else:
        findings.error(
            "does-not-fit",
            message,
            "Add hosts to the pattern, ask for fewer replicas, or free GPUs (status shows who holds them).",
            [role],
        )


def _check_router_port(request: Request, seat: Seat, port: int, findings: Findings) -> None:
    host = request.hosts[seat.host]
    use = host.used.get(port)
    mine = {m.id for m in host.members if m.group == request.group.name}
    if use and use.get("member") not in mine:
        who = (
            f"member {use['member']}"
            if use.get("member")
            else f"{use.get('command') or 'a process'}" + (f" (pid {use['pid']})" if use.get("pid") else "")
        )
        findings.error(
            "port-taken",
            f"roles.router.port: {port} on {seat.host} is taken by {who}.",
            "Choose another port, or end what holds it.",
            ["router"],
            seat.host,
        )


def _check_hosts(request: Request, seats: t.Mapping[str, Seat], findings: Findings) -> None:
    """What each host that gets a member must have, before anything starts: told once per host."""
    group = request.group
    roles_on: dict[str, set[str]] = {}
    for name, seat in seats.items():
        roles_on.setdefault(seat.host, set()).add(name[len(group.name) + 1 :].rpartition("-")[0])
    wide = len(roles_on) > 1
    prints: dict[str, list[str]] = {}
    for name, roles in roles_on.items():
        host = request.hosts[name]
        _check_runtime(group, host, findings)
        _check_ephemeral(host, findings)
        for role in sorted(roles):
            _check_executable(request, host, role, findings)
        engines = sorted(roles - {"router"})
        if not host.address:
            findings.error(
                "no-address", f"{name} has no address that its peers could use.", "Set pd_address.", [], name
            )
        if engines and request.template.mode.interface_plane != "none":
            _check_interface(host, wide, engines, findings)
        if engines:
            fingerprint = _check_model(group.model, host, engines, findings)
            prints.setdefault(fingerprint, []).append(name)
    prints.pop("", None)
    if len(prints) > 1:
        told = "; ".join(f"{key[:12]} on {', '.join(names)}" for key, names in sorted(prints.items()))
        findings.error(
            "model-differs",
            f"model {group.model} is not the same on all hosts: {told}.",
            "Copy one version to all: a pair of two answers wrongly, with 200.",
        )


def _check_ephemeral(host: Host, findings: Findings) -> None:
    """A client's socket can sit on a member's port: measured, the reconnecting decode of a killed prefill took its side channel port."""
    ports = host.facts.get("ports") or {}
    if ports.get("exposed"):
        span = f"{host.port_low}-{host.port_high}"
        findings.warning(
            "ports-ephemeral",
            f"{host.name}: {ports['exposed']} ports of {span} lie in the kernel's range for clients ({'-'.join(map(str, ports.get('ephemeral') or ()))}):"
            " an outgoing connection can take a member's port while it restarts.",
            f"Reserve them: sysctl -w net.ipv4.ip_local_reserved_ports={span}, or set pd_port_range below that range.",
            [],
            host.name,
        )


def _check_runtime(group: Group, host: Host, findings: Findings) -> None:
    runtime = host.runtime(group.runtime)
    if not runtime.get("available"):
        why = runtime.get("why") or "the host reports none"
        findings.error(
            "runtime-missing",
            f"runtime {group.runtime} is not usable on {host.name}: {why}.",
            runtime.get("hint") or "Install it, or choose another runtime.",
            [],
            host.name,
        )


def _check_executable(request: Request, host: Host, role: str, findings: Findings) -> None:
    template = request.template.roles[role]
    if request.group.runtime == "docker" or not template.executable:
        return
    if not host.executable(template.executable).get("exists"):
        findings.error(
            "executable-missing",
            f"roles.{role}.executable: {template.executable} is not there, or not executable, on {host.name}.",
            f"Install it, or set {'engine' if role != 'router' else 'roles.router'}.executable to its path.",
            [role],
            host.name,
        )


def _check_interface(host: Host, wide: bool, roles: list[str], findings: Findings) -> None:
    if host.kv_error:
        findings.error(
            "kv-interface",
            f"{host.name}: {host.kv_error}",
            "Set pd_kv_interface for the host to the NIC that the KV cache travels over.",
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


def _check_model(model: str, host: Host, roles: list[str], findings: Findings) -> str:
    facts = host.model(model)
    if not facts.get("exists"):
        findings.error(
            "model-missing",
            f"model: {model} is not there on {host.name}.",
            "Copy the model to the host, or mount it; it must have the same path on every host.",
            roles,
            host.name,
        )
    return str(facts.get("fingerprint") or "")


def _members(
    request: Request,
    situation: Situation,
    choice: Choice,
    seats: t.Mapping[str, Seat],
    generation: int,
    findings: Findings,
) -> list[dict[str, t.Any]]:
    """Every member that the group has after this plan, rendered; one that runs is rendered at the place it holds."""
    places = [(m.role, m.index, request.hosts[m.host], seat_of(m.label, m.host)) for m in choice.keep]
    places += [(m.role, m.index, request.hosts[seats[m.id].host], seats[m.id]) for m in choice.replace]
    for role, index, _why in choice.create:
        seat = seats.get(member_id(request.group.name, role, index))
        if seat:
            places.append((role, index, request.hosts[seat.host], seat))
    order = {role: number for number, role in enumerate(ROLES)}
    places.sort(key=lambda p: (order[p[0]], p[1]))
    compiled = {role: CompiledRole(template) for role, template in request.template.roles.items()}
    shared = {"group.no_proxy": _no_proxy(host for _r, _i, host, _s in places)}
    shared |= {
        f"peers.{role}": [url_of(h.address or "", s.port) for r, _i, h, s in places if r == role]
        for role in ENGINE_ROLES
    }
    shared["group.addresses"] = sorted({a for _r, _i, h, _s in places for a in (h.address, h.kv_address) if a})
    out = []
    for role, index, host, seat in places:
        engine = request.template.engines.get(role)
        try:
            out.append(
                build(request.group, request.template, compiled[role], engine, host, seat, index, generation, shared)
            )
        except PdError as exc:
            findings.error(
                "unresolved-placeholder",
                f"roles.{role} on {host.name}: {exc}",
                "Give the host what the value comes from, or remove the placeholder.",
                [role],
                host.name,
            )
    _add_peers(request, out)
    _keep_label(choice, out)
    return out


def _add_peers(request: Request, members: list[dict[str, t.Any]]) -> None:
    """The peers on the router's command line, where its policy wants them there: prefills first, each role by address and port."""
    membership = request.template.membership
    if not membership or not membership.peers:
        return
    for router in members:
        if router["role"] != "router":
            continue
        argv = router["parts"][0]["argv"]
        for peer in peers_of(members):
            values = {"peer.url": peer["url"], **{f"peer.ports.{n}": b["base"] for n, b in peer["ports"].items()}}
            for token in membership.peers.get(peer["role"], ()):
                text = token
                for name, value in values.items():
                    text = text.replace(f"${{{name}}}", str(value))
                argv.append(text)


def _keep_label(choice: Choice, members: list[dict[str, t.Any]]) -> None:
    """A member that stays keeps what it was started as: its revision, and its label."""
    kept = {m.id: m for m in choice.keep}
    for member in members:
        running = kept.get(member["id"])
        if running:
            member["revision"] = running.revision
            member["parts"][0]["labels"] = dict(running.label)


def peers_of(members: t.Iterable[t.Mapping[str, t.Any]]) -> list[dict[str, t.Any]]:
    """The router's peers: every engine member, prefills before decodes, each role by address and port."""
    peers = [
        {
            "member": m["id"],
            "role": m["role"],
            "url": m["url"],
            "ports": m["parts"][0]["ports"],
            "address": m["address"],
            "port": m["parts"][0]["port"],
        }
        for m in members
        if m["role"] in ENGINE_ROLES
    ]
    return sorted(peers, key=lambda p: (ENGINE_ROLES.index(p["role"]), str(p["address"]), p["port"]))


def _no_proxy(hosts: t.Iterable[Host]) -> str:
    addresses = sorted({a for h in hosts for a in (h.address, h.kv_address) if a})
    if len(addresses) > NO_PROXY_ADDRESSES:
        try:
            addresses = _networks(addresses)
        except ValueError:
            pass
    return ",".join(["localhost", "127.0.0.1", *(a for a in addresses if a != "127.0.0.1")])


def _networks(addresses: t.Iterable[str]) -> list[str]:
    """The addresses as networks of at most 256, which HTTP clients read in NO_PROXY as well."""
    found = {ipaddress.ip_network(f"{a}/{24 if ':' not in a else 64}", strict=False) for a in addresses}
    return [
        str(n)
        for version in (4, 6)
        for n in ipaddress.collapse_addresses(sorted(n for n in found if n.version == version))
    ]  # type: ignore[type-var,misc]


def _check_pasted(request: Request, members: list[dict[str, t.Any]], findings: Findings) -> None:
    """Lines that looked derived when the spec was read must be what some member of the role really got."""
    for role in request.template.roles.values():
        for written, derived in role.pasted:
            flags = {a.partition("=")[2] for m in members if m["role"] == role.role for a in m["parts"][0]["argv"]}
            if members and written not in flags:
                findings.error(
                    "owned-flag",
                    f"roles.{role.role}.args: the value {written!r} is not yours to set; the plan's is {derived}.",
                    "Remove the line." + (" The router's port is roles.router.port." if role.role == "router" else ""),
                    [role.role],
                )


def _check_identity(situation: Situation, choice: Choice, members: list[dict[str, t.Any]], findings: Findings) -> None:
    """A new member must be the same engine and model as its generation's, whatever the spec says (design 5, 'another reality')."""
    running = [m.label.get("identity") for m in situation.members if m in choice.keep and m.label.get("identity")]
    if not running:
        return
    kept = {m.id for m in choice.keep}
    for member in members:
        if member["id"] in kept:
            continue
        for fact, value in member["identity"].items():
            theirs = {str(r.get(fact)) for r in running if r.get(fact)}
            if value and theirs and str(value) not in theirs:
                findings.error(
                    "identity-moved",
                    f"{member['id']} on {member['parts'][0]['host']} would run another {fact} ({value}) than the members that serve ({', '.join(sorted(theirs))}).",
                    "Make the host like the others, or apply the new one to the whole group with inferops.pd.restart.",
                    [member["role"]],
                    member["parts"][0]["host"],
                )


def _router_step(
    request: Request, situation: Situation, choice: Choice, members: list[dict[str, t.Any]]
) -> dict[str, t.Any]:
    """What the router does about its peers (semantics.md 3.6), and why."""
    template = request.template
    router = next((m for m in members if m["role"] == "router"), None)
    peers = peers_of(members)
    kept = next((m for m in choice.keep if m.role == "router"), None)
    base = {
        "member": router,
        "peers": peers,
        "policy": template.policy,
        "dialect": template.recipe.dialect if template.recipe else None,
        "gives_up": template.membership.gives_up if template.membership else "",
        "add": [],
        "remove": [],
        "model": request.group.served_model_name,
    }
    if router is None:
        return {**base, "step": "none", "why": "the group has no router after this"}
    if template.policy == "manual":
        changed = bool(choice.create or choice.replace or choice.leave)
        return {
            **base,
            "step": "operator" if changed else "none",
            "why": "peers are the operator's to set: the router runs a command of your own",
        }
    registered = (kept.live.get("registered") if kept else None) if kept is not None else []
    wanted = {p["url"]: p for p in peers}
    if template.policy == "dynamic":
        have = {r["url"] for r in registered or ()}
        base |= {"add": [p for url, p in wanted.items() if url not in have], "remove": sorted(have - set(wanted))}
        if kept is None:
            return {**base, "step": "register", "why": "a new router learns its peers over its API"}
        if registered is None:
            return {**base, "step": "register", "add": peers, "why": "the router's registry could not be read"}
        why = f"{len(base['add'])} to add, {len(base['remove'])} to remove over the router's API"
        return (
            {**base, "step": "register", "why": why}
            if base["add"] or base["remove"]
            else {**base, "step": "none", "why": "its peers are the members"}
        )
    if kept is None:
        return {**base, "step": "replace", "why": "a new router gets its peers on its command line"}
    snapshot = kept.label.get("peers")
    replaced = [m.id for m in choice.replace if m.role in ENGINE_ROLES]
    if snapshot is None:
        return {**base, "step": "replace", "why": "the router has no snapshot of its peers"}
    if record.snapshot(peers) != snapshot or replaced:
        return {**base, "step": "replace", "why": "its peers are on its command line, and they change"}
    return {**base, "step": "none", "why": "its peers are the members"}


def _assemble(
    request: Request,
    situation: Situation,
    choice: Choice,
    members: list[dict[str, t.Any]],
    generation: int,
    findings: Findings,
) -> dict[str, t.Any]:
    group, template = request.group, request.template
    router = _router_step(request, situation, choice, members)
    if router["member"] is not None:
        router["member"]["parts"][0]["labels"].setdefault("peers", record.snapshot(router["peers"]))
        if router["step"] == "replace":
            router["member"]["parts"][0]["labels"] |= {"peers": record.snapshot(router["peers"])}
    steps = _steps(request, choice, router, members)
    address = router["member"]["url"] if router["member"] else None
    endpoint = {"url": group.external_url or address, "served_model_name": group.served_model_name}
    if choice.pending:
        _say_pending(request, situation, findings)
    plan: dict[str, t.Any] = {
        "group": group.name,
        "mode": template.mode.name,
        "runtime": group.runtime,
        "action": request.action,
        "revision": template.revision,
        "generation": generation,
        "pending": choice.pending,
        "desired": choice.desired,
        "readiness": group.readiness,
        "members": members,
        "router": router,
        "steps": steps,
        "endpoint": endpoint,
        "hosts": _hosts(request, situation, choice, members, router),
        "proof": _proof(request, members),
        "unknown": [m["id"] for m in situation.unknown],
    }
    plan["record"] = record.of_plan(plan, group, template, situation.record)
    # Waiting for a member that comes up by itself is work, and changes nothing.
    plan["changed"] = any(s["do"] != "wait" for s in steps) or record.differs(plan["record"], situation.record)
    plan["diff"] = diff.of_plan(plan, situation.record, template.masked())
    return plan


def _steps(
    request: Request, choice: Choice, router: t.Mapping[str, t.Any], members: list[dict[str, t.Any]]
) -> list[dict[str, t.Any]]:
    """What a run does, in order. Phases are barriers across hosts."""
    steps: list[dict[str, t.Any]] = []

    def step(phase: str, do: str, member: str | None, host: str | None, why: str) -> None:
        steps.append({"phase": phase, "do": do, "member": member, "host": host, "why": why})

    hosts = {m["id"]: m["parts"][0]["host"] for m in members}
    leaving = [m for m, _why in choice.leave if m.role in ENGINE_ROLES and m.alive]
    if router["step"] == "register" and router["remove"] and request.action != "restart":
        for url in router["remove"]:
            step(
                "leave",
                "deregister",
                router["member"]["id"],
                router["member"]["parts"][0]["host"],
                f"{url} leaves the router",
            )
    if request.action == "restart":
        for member, why in choice.leave:
            if member.role == "router":
                step("router_stop", "remove", member.id, member.host, why)
    early = router["step"] == "replace" and leaving and request.action in ("deploy", "scale")
    if early:
        step("leave", "replace", router["member"]["id"], hosts[router["member"]["id"]], router["why"])
    for member, why in choice.leave:
        if member.role != "router" or request.action in ("deploy", "scale"):
            step("stop", "remove", member.id, member.host, why)
    for member in choice.replace:
        if member.role != "router":
            step(
                "start", "replace", member.id, hosts[member.id], f"it is down: {member.live.get('why') or member.state}"
            )
    whys = {member_id(request.group.name, role, index): why for role, index, why in choice.create}
    for member_ in members:
        if member_["id"] in whys and member_["role"] != "router":
            step("start", "create", member_["id"], hosts[member_["id"]], whys[member_["id"]])
    for member in choice.keep:
        if not member.ready:
            step("wait", "wait", member.id, member.host, f"it does not answer yet: {member.live.get('why') or member.state}")
    if router["member"] and not early:
        name = router["member"]["id"]
        if name in whys or name in {m.id for m in choice.replace}:
            step(
                "router",
                "create" if name in whys else "replace",
                name,
                hosts[name],
                "starts when each role has a ready member",
            )
        elif router["step"] == "replace":
            step("router", "replace", name, hosts[name], router["why"])
    if router["step"] == "register" and router["add"]:
        step("register", "register", router["member"]["id"], hosts[router["member"]["id"]], router["why"])
    if any(s["do"] != "wait" for s in steps):
        step("endpoint", "write", None, None, "the record on every host of the group")
    return steps


def _hosts(
    request: Request,
    situation: Situation,
    choice: Choice,
    members: list[dict[str, t.Any]],
    router: t.Mapping[str, t.Any],
) -> dict[str, dict[str, t.Any]]:
    """Each host's slice: who must be there, who must not, who is to be started, and what the plan took for granted."""
    names = {m["parts"][0]["host"] for m in members} | {m.host for m in situation.members}
    names |= {name for name, host in request.hosts.items() if request.group.name in host.records}
    create = {m.id for m in choice.replace} | {
        member_id(request.group.name, role, index) for role, index, _why in choice.create
    }
    slices: dict[str, dict[str, t.Any]] = {
        name: {"present": [], "absent": [], "create": [], "observed": request.hosts[name].facts.get("digest")}
        for name in sorted(names)
    }
    for member in members:
        mine = slices[member["parts"][0]["host"]]
        mine["present"].append(member["id"])
        if member["id"] in create or (member["role"] == "router" and router["step"] == "replace"):
            mine["create"].append(member["id"])
    for member_, _why in choice.leave:
        slices[member_.host]["absent"].append(member_.id)
    return slices


def _proof(request: Request, members: list[dict[str, t.Any]]) -> dict[str, t.Any]:
    """What the proof needs of the mode: how to send the two hops, and which counters say that KV moved."""
    mode = request.template.mode
    prefill, decode = request.template.roles["prefill"], request.template.roles["decode"]
    exact = prefill.sizes.tensor == decode.sizes.tensor and any("float32" in a or a == "float" for a in prefill.argv)
    return {"handoff": mode.handoff, "counters": dict(mode.counters), "exact_text": exact}


def _say_pending(request: Request, situation: Situation, findings: Findings) -> None:
    lines = diff.of_templates(situation.record.get("templates") or {}, request.template.masked())
    recipe_only = record.same_spec(situation.record, request.group)
    findings.warning(
        "pending-configuration",
        "the spec differs from what the members run"
        + (" (the spec is the same; the recipe has changed with the collection)" if recipe_only else "")
        + ": nothing is restarted. "
        + "; ".join(line.strip() for line in lines[:6])
        + (f"; and {len(lines) - 6} more lines" if len(lines) > 6 else ""),
        f"Apply it to the whole group: ansible-playbook inferops.pd.restart -e pd_group={request.group.name}. Undo the edit to clear it.",
    )


def summary(plan: t.Mapping[str, t.Any]) -> str:
    """The plan in one line, for a run without --diff."""
    counts: dict[str, int] = {}
    for step in plan["steps"]:
        if step["member"]:
            counts[step["do"]] = counts.get(step["do"], 0) + 1
    done = ", ".join(f"{do} {number}" for do, number in counts.items()) or (
        "write the record" if plan["changed"] else "nothing to change"
    )
    pending = "; a change is pending" if plan["pending"] else ""
    return f"plan for {plan['group']} ({plan['action']}, revision {plan['revision']}): {done}{pending}"


__all__ = ["Action", "Request", "Situation", "make", "peers_of", "removal", "summary"]
