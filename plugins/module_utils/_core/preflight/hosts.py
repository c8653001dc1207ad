# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hosts of a preflight: what each said of itself, judged. Every finding at once, with the host, the value, what was expected,
and what to do; and a row of the table for what is good as well. What is between hosts is in between.py.

Severity is honest: an error makes answers wrong or a start fail, a warning costs speed."""

from __future__ import annotations

import ipaddress
import typing as t
from dataclasses import dataclass, field

from ..base.finding import Finding, Findings
from ..base.words import by_number, counted, names
from ..cluster.places import asking
from ..facts.observed import Host
from ..plan.situation import Request
from ..plan.value import Plan
from ..runtimes.table import traits_of
from ..runtimes.traits import Traits
from ..spec.spec import ENGINE_ROLES
from ..work.member import Member, Part

MIB, GIB = 2**20, 2**30
# A host keeps labels, records and logs: without any room nothing can start; with little, logs fill it.
DISK_NEEDS, DISK_WANTS = 64 * MIB, 2 * GIB
SHM_WANTS = GIB
# What a card's own desktop or monitoring may hold.
GPU_LEFT = 512
Mapping = t.Mapping[str, t.Any]


@dataclass(frozen=True)
class Row:
    """One line of the table. `verdict` is ok, or the severity of the finding that tells the rest."""

    check: str
    host: str
    value: str
    expected: str = ""
    verdict: str = "ok"

    def to_plain(self) -> dict[str, str]:
        return dict(vars(self))


@dataclass
class Preflight:
    """What a preflight is judged from. `looks` and `reaches` are the results of host_preflight by host, its two phases; `clocks` the
    controller's time just before and after each look."""

    request: Request
    plan: Plan
    tour: Mapping
    looks: t.Mapping[str, Mapping]
    reaches: t.Mapping[str, Mapping] = field(default_factory=dict)
    clocks: t.Mapping[str, tuple[float, float]] = field(default_factory=dict)
    rows: list[Row] = field(default_factory=list)

    @property
    def hosts(self) -> t.Mapping[str, Host]:
        return self.request.hosts

    @property
    def traits(self) -> Traits:
        """Those of the group's runtime."""
        return traits_of(self.request.workload.runtime)

    def row(self, check: str, host: str, value: str, expected: str = "", verdict: str = "ok") -> None:
        self.rows.append(Row(check, host, value, expected, verdict))

    def parts_on(self, name: str) -> list[tuple[Member, Part]]:
        """What the plan has on a host."""
        return [(member, part) for member in self.plan.members if (part := member.at(name))]


def judge_hosts(flight: Preflight, findings: Findings) -> None:
    """What each host is."""
    for name, part in flight.tour["hosts"].items():
        host, look = flight.hosts[name], flight.looks.get(name)
        _interface(flight, host, part, findings)
        _image(flight, host, findings)
        _container_gpus(flight, host, findings)
        if look is None and host.node is not None:
            findings.add(
                Finding(
                    "unverified",
                    "preflight-silent",
                    f"{name}: nothing of ours runs on the node before a member does: its links, disks and limits were not tried.",
                    "The proof of a deploy tries what matters of them.",
                    (),
                    name,
                )
            )
            flight.row("answers", name, "not tried", "yes", "unverified")
            continue
        if look is None:
            findings.error(
                "preflight-silent",
                f"{name} gave no answer to the preflight.",
                f"Make it answer: {asking(name)}",
                [],
                name,
            )
            flight.row("answers", name, "no", "yes", "error")
            continue
        _addresses(flight, name, look, findings)
        _ports(flight, name, look, findings)
        _rdma(flight, host, look, findings)
        _proxies(flight, name, look, findings)
        _disks(flight, name, look, findings)
        _gpus(flight, host, look, findings)
        _listeners(flight, host, findings)
        walls = look["firewall"]
        flight.row(
            "firewall",
            name,
            ", ".join(walls["active"]) or ("none" if walls["seen"] else "not visible to this user"),
            "lets the group through",
        )


# -- one host ---------------------------------------------------------------------------------------------------------------------------


def _interface(flight: Preflight, host: Host, part: Mapping, findings: Findings) -> None:
    """That there is one is a precondition of the plan; here it is shown."""
    if not set(part["roles"]) & set(ENGINE_ROLES):
        return
    kv = host.kv
    if kv.error:
        flight.row("KV interface", host.name, "none", "one NIC that peers reach", "error")
        return
    words = [",".join(kv.names), str(kv.address), f"MTU {kv.mtu}", rate(kv.speed)]
    words += [f"RDMA {','.join(kv.rdma_devices)}" if kv.rdma_devices else "no RDMA"]
    words += [f"GID {kv.gid_index}"] if kv.gid_index is not None else []
    flight.row("KV interface", host.name, ", ".join(words))
    down = [port.name for port in host.rdma_ports if not port.active]
    if down:
        findings.warning(
            "rdma-port-down",
            f"{host.name}: RDMA port {', '.join(down)} of the KV interface {','.join(kv.names)} is not"
            " active; expected is ACTIVE." + ("" if kv.rdma_devices else " The KV cache falls to TCP."),
            "See ibstat or rdma link on the host: cable, switch port, subnet manager (InfiniBand).",
            [],
            host.name,
        )
        flight.row("RDMA ports", host.name, f"{', '.join(down)} down", "active", "warning")


def _image(flight: Preflight, host: Host, findings: Findings) -> None:
    if not flight.traits.images:
        return
    for image in sorted({p.image for _m, p in flight.parts_on(host.name) if p.image}):
        told = host.image(image)
        if told.get("exists"):
            flight.row("image", host.name, f"{image}: {told.get('digest') or told.get('id')}")
        elif told.get("exists") is False and told.get("pullable"):
            flight.row(
                "image", host.name, f"{image}: not there, its registry gives it", "pulled before a change window"
            )
        elif told.get("exists") is False:
            findings.error(
                "image-not-here",
                f"{host.name}: image {image} is not there, and cannot be pulled: {told.get('why') or 'no reason given'}.",
                "Pull or load it on the host, or log in to its registry there.",
                [],
                host.name,
            )
            flight.row("image", host.name, f"{image}: missing", "present or pullable", "error")


def _container_gpus(flight: Preflight, host: Host, findings: Findings) -> None:
    runtime = flight.request.workload.runtime
    engine = host.runtime(runtime)
    if not flight.traits.containers or not engine.get("available"):
        return
    wanted = {g for _m, p in flight.parts_on(host.name) for g in p.gpus}
    nvidia = any(gpu.id in wanted and (gpu.vendor or "").lower() == "nvidia" for gpu in host.gpus)
    bad = nvidia and engine.get("nvidia") is False
    if bad:
        findings.error(
            "container-gpus",
            f"{host.name}: containers get no NVIDIA GPUs: the container engine (default runtime"
            f" {engine.get('default_runtime')}) has no NVIDIA"
            " Container Toolkit.",
            f"Install nvidia-container-toolkit, then: nvidia-ctk runtime configure --runtime={runtime}, and restart"
            " the container engine.",
            [],
            host.name,
        )
    value = f"{runtime} {engine.get('version') or ''}, default runtime {engine.get('default_runtime') or 'unknown'}"
    flight.row(
        "container engine", host.name, value, "gives GPUs to containers" if nvidia else "", "error" if bad else "ok"
    )


def _addresses(flight: Preflight, name: str, look: Mapping, findings: Findings) -> None:
    several = len(flight.tour["hosts"]) > 1
    for address, why in (look.get("not_here") or {}).items():
        if not several and "127." in why:
            continue
        findings.error(
            "address-not-here",
            f"{name}: members cannot listen on {address}: {why}; expected is an address of an interface of the host.",
            "Set pd_address of the host to an IP address that it has itself (not that of a NAT or a load balancer before it).",
            [],
            name,
        )
        flight.row("address", name, address, "an address of the host", "error")


def _ports(flight: Preflight, name: str, look: Mapping, findings: Findings) -> None:
    got = look["listening"]
    busy = sorted({r["port"] for r in got["refused"] if r["code"] == "EADDRINUSE" and not r.get("live")})
    other = [r for r in got["refused"] if r["code"] not in ("EADDRINUSE", "EADDRNOTAVAIL")]
    if busy:
        used = flight.hosts[name].used
        holders = sorted({str(used[p].command or used[p].member) for p in busy if p in used})
        findings.error(
            "port-not-free",
            f"{name}: {by_number(busy, 'port', 'ports')} {names(busy)} cannot be listened on"
            + (
                f", {', '.join(holders)} does"
                if holders
                else ": a connection sits there, or a socket without a listener (see ss -tanp)"
            )
            + "; expected is free.",
            "End what holds it, or keep pd_port_range out of the kernel's range for clients.",
            [],
            name,
        )
    if other:
        findings.error(
            "port-not-free",
            f"{name}: {other[0]['address']} port {other[0]['port']} cannot be listened on: {other[0]['why']}; expected is free.",
            "See the reason.",
            [],
            name,
        )
    bad = bool(busy or other)
    count = sum(len(ports) for ports in got["ports"].values())
    live = len([r for r in got["refused"] if r.get("live")])
    told = f"{count} listened on" + (f", {live} served by running members" if live else "")
    flight.row(
        "ports", name, told if not bad else f"{len(busy) + len(other)} not free", "all free", "error" if bad else "ok"
    )


def _rdma(flight: Preflight, host: Host, look: Mapping, findings: Findings) -> None:
    if host.kv.rdma_devices:
        _verbs(flight, host, look, findings)
        _memlock(flight, host, look, findings)
        _gpu_direct(flight, host, look, findings)


def _verbs(flight: Preflight, host: Host, look: Mapping, findings: Findings) -> None:
    """Whether programs can use the devices."""
    devices = look["rdma"]
    missing = (
        "no /dev/infiniband/uverbs*"
        if not devices["verbs"]
        else ""
        if devices["open"] or flight.traits.containers
        else "not open to this user"
    )
    if missing:
        findings.error(
            "rdma-unusable",
            f"{host.name}: the KV interface has RDMA devices ({', '.join(host.kv_devices)}), and programs cannot"
            f" use them: {missing}; expected is"
            " /dev/infiniband/uverbs*, open to the members' user.",
            "Load ib_uverbs (rdma-core does), and let the user into the devices' group; or set pd_kv_interface to"
            " a NIC without RDMA.",
            [],
            host.name,
        )
    flight.row("RDMA devices", host.name, missing or ",".join(devices["verbs"]), "usable", "error" if missing else "ok")


def _memlock(flight: Preflight, host: Host, look: Mapping, findings: Findings) -> None:
    """Whether a member may register memory with the devices: a unit and a container set their own limit."""
    if not flight.traits.user_limits:
        return
    rights = look["rights"]
    limited = rights["memlock"] is not None and not rights["ipc_lock"]
    if limited:
        findings.error(
            "memlock",
            f"{host.name}: a process of this user may lock {size(rights['memlock'])} of memory (ulimit -l), and"
            " has no CAP_IPC_LOCK; expected is"
            " unlimited: registering memory with an RDMA device fails.",
            "Set memlock unlimited in /etc/security/limits.d for the user, and log in anew (for a service:"
            " LimitMEMLOCK=infinity).",
            [],
            host.name,
        )
    told = size(rights["memlock"]) if rights["memlock"] is not None else "unlimited"
    flight.row(
        "memlock",
        host.name,
        told + (", CAP_IPC_LOCK" if rights["ipc_lock"] else ""),
        "unlimited",
        "error" if limited else "ok",
    )


def _gpu_direct(flight: Preflight, host: Host, look: Mapping, findings: Findings) -> None:
    """Whether the devices reach into the memory of the GPUs."""
    if "nvidia" not in look["drivers"] or not any(p.gpus for _m, p in flight.parts_on(host.name)):
        return
    devices = look["rdma"]
    ways = [*devices["peermem"], *(["DMA-BUF"] if devices["dma_buf"] else [])]
    if not ways:
        findings.warning(
            "gpu-direct",
            f"{host.name}: RDMA devices cannot reach into the memory of the GPUs: neither nvidia_peermem is loaded"
            " nor does the driver"
            f" {look['drivers']['nvidia']} export DMA-BUF; expected is one of them. Transfers go through the"
            " host's memory, or fail to register.",
            "modprobe nvidia_peermem, or install the driver's open kernel modules.",
            [],
            host.name,
        )
    flight.row(
        "GPU direct", host.name, ", ".join(ways) or "none", "nvidia_peermem or DMA-BUF", "ok" if ways else "warning"
    )


def _proxies(flight: Preflight, name: str, look: Mapping, findings: Findings) -> None:
    """A proxy between members: the handshake over HTTP would go to it."""
    inherited = {} if flight.traits.containers else look["proxies"]["environment"]
    addresses = sorted({a for m in flight.plan.members for a in (m.address, m.kv_address) if a})
    bad = False
    for member, part in flight.parts_on(name):
        env = {k.lower(): str(v) for k, v in part.env.items() if str(v)}
        set_here = {k: v for k, v in {**inherited, **env}.items() if k in ("http_proxy", "all_proxy")}
        outside = [a for a in addresses if not bypassed(a, env.get("no_proxy") or "")]
        if set_here and outside and not bad:
            bad = True
            findings.error(
                "proxy-between-members",
                f"{name}: {member.id} would ask its peers through a proxy"
                f" ({', '.join(f'{k}={v}' for k, v in sorted(set_here.items()))});"
                f" NO_PROXY leaves out {', '.join(outside[:4])}, expected are all members' addresses.",
                "Leave NO_PROXY to the mode (write none in env), or add ${group.no_proxy} to yours; or take the proxy"
                " out of the host's environment.",
                [member.role],
                name,
            )
    found = {
        **look["proxies"]["environment"],
        **{f"{k} of the container engine": v for k, v in look["proxies"]["daemon"].items()},
    }
    if found or bad:
        told = ", ".join(f"{k} {v}" for k, v in sorted(found.items())) or "in the members' environment"
        flight.row("proxies", name, told, "not between members", "error" if bad else "ok")


def bypassed(address: str, no_proxy: str) -> bool:
    """Whether NO_PROXY keeps an address from the proxy, in the forms that HTTP clients of Python read."""
    for word in filter(None, (w.strip() for w in no_proxy.split(","))):
        if word in ("*", address):
            return True
        try:
            if "/" in word and ipaddress.ip_address(address) in ipaddress.ip_network(word, strict=False):
                return True
        except ValueError:
            continue
    return False


def _disks(flight: Preflight, name: str, look: Mapping, findings: Findings) -> None:
    for path, room in look["disks"].items():
        free = room.get("free")
        why = (
            room.get("why")
            or ("it cannot be written" if room.get("writable") is False else "")
            or (f"{size(free)} are free" if free is not None and free < DISK_NEEDS else "")
            or ("no file can be made, the file system has used its inodes" if room.get("files") == 0 else "")
        )
        short = not why and free is not None and free < DISK_WANTS
        if why:
            findings.error(
                "disk-full",
                f"{name}: {path} (in {room['there']}): {why}; expected are {size(DISK_NEEDS)} at least,"
                f" {size(DISK_WANTS)} to be at ease. No label, record"
                " or log can be written.",
                "Make room, or set pd_state_dir to a directory with some.",
                [],
                name,
            )
        elif short:
            findings.warning(
                "disk-short",
                f"{name}: {path} (in {room['there']}) has {size(free)} free; expected are {size(DISK_WANTS)}.",
                "Make room: members' logs go there.",
                [],
                name,
            )
        told = f"{path}: {size(free)} free" if free is not None else f"{path}: {why}"
        flight.row("disk", name, told, f"{size(DISK_WANTS)} free", "error" if why else "warning" if short else "ok")
    shm = look["shm"].get("free")
    # In a container it is the container's own.
    if flight.traits.containers or shm is None or not any(p.gpus for _m, p in flight.parts_on(name)):
        return
    small = shm < SHM_WANTS
    if small:
        findings.warning(
            "shm-small",
            f"{name}: /dev/shm has {size(shm)} free; expected is {size(SHM_WANTS)}: engines with several GPUs, and"
            " NCCL, pass data there.",
            "mount -o remount,size=16G /dev/shm, and the same in /etc/fstab; remove what is left there.",
            [],
            name,
        )
    flight.row("/dev/shm", name, f"{size(shm)} free", size(SHM_WANTS), "warning" if small else "ok")


def _gpus(flight: Preflight, host: Host, look: Mapping, findings: Findings) -> None:
    """What is left on the GPUs that members will get, and that no member of the group has now."""
    group = flight.request.workload.stand
    held = {g for m in host.members if m.alive for g in m.gpus}
    wanted = {g for _m, p in flight.parts_on(host.name) for g in p.gpus} - held
    if not wanted:
        return
    ids = {gpu.uuid or gpu.id: gpu.id for gpu in host.gpus}
    left = [
        p
        for p in look["gpu_processes"]
        if ids.get(p["uuid"]) in wanted and not str(p["member"] or "").startswith(f"{group}-")
    ]
    for process in left:
        large = process["used_mib"] is None or process["used_mib"] > GPU_LEFT
        say = findings.error if large else findings.warning
        say(
            "gpu-in-use",
            f"{host.name}: {process['command'] or 'a process'} (pid {process['pid']}) holds"
            f" {process['used_mib'] or 'unknown'} MiB of GPU"
            f" {ids[process['uuid']]}, which a member is to get; expected is nothing"
            + (f". It belongs to member {process['member']}" if process["member"] else "")
            + ".",
            f"See ps -fp {process['pid']} on {host.name}, and end it if it is a leftover.",
            [],
            host.name,
        )
    worst = (
        "ok" if not left else "error" if any((p["used_mib"] or GPU_LEFT + 1) > GPU_LEFT for p in left) else "warning"
    )
    flight.row(
        "GPUs",
        host.name,
        f"{counted(len(left), 'process', 'processes')} on them" if left else f"{', '.join(sorted(wanted))} empty",
        "empty",
        worst,
    )


def _listeners(flight: Preflight, host: Host, findings: Findings) -> None:
    """Listeners in the range that are nobody's member: the plan goes around them, and they are worth a look."""
    known = {p for m in host.members for p in m.ports}
    left = [
        use
        for port, use in sorted(host.used.items())
        if host.port_low <= port <= host.port_high and port not in known and not use.member
    ]
    if left:
        told = ", ".join(f"{use.port} ({use.command or 'unknown'}, pid {use.pid or 'unknown'})" for use in left[:6])
        findings.warning(
            "leftover-listeners",
            f"{host.name}: {counted(len(left), 'port')} of {host.port_low}-{host.port_high} {by_number(left, 'is', 'are')}"
            f" listened on by what is no"
            f" member: {told}; expected is none.",
            "End what a member has left behind; of others' ports keep pd_port_range away.",
            [],
            host.name,
        )
        flight.row("leftovers", host.name, told, "no listener in the range", "warning")


def judge_band(avoid: Mapping, flight: Preflight, findings: Findings) -> None:
    """Ports that the devices of a mode take at random: `avoid` is the mode's {base, per_gpu}."""
    if not avoid:
        return
    for name in flight.tour["hosts"]:
        host = flight.hosts[name]
        low = int(avoid["base"])
        high = low + int(avoid["per_gpu"]) * len(host.gpus) - 1
        if host.gpus and host.port_low <= high and low <= host.port_high:
            findings.error(
                "ports-device-band",
                f"{name}: pd_port_range {host.port_low}-{host.port_high} lies in {low}-{high}, where the transfer"
                f" engine of its {len(host.gpus)} devices takes"
                " ports at random; expected is a range outside: a member that finds its port taken does not start.",
                f"Set pd_port_range to ports from {high + 1} on.",
                [],
                name,
            )
            flight.row("device ports", name, f"{host.port_low}-{host.port_high}", f"outside {low}-{high}", "error")


# -- words ------------------------------------------------------------------------------------------------------------------------------


def size(count: float | None) -> str:
    if count is None:
        return "unknown"
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if count < 1024 or unit == "TiB":
            return f"{count:.0f} {unit}" if count >= 10 or unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return ""


def rate(mbit: float | None) -> str:
    if not mbit:
        return "speed unknown"
    return f"{mbit / 1000:.3g} Gb/s" if mbit >= 1000 else f"{mbit:.0f} Mb/s"


def table(rows: t.Sequence[Row]) -> list[str]:
    """The rows as text: what is good and the same on several hosts in one line, what is not each in its own."""
    merged: dict[tuple[str, str, str, str], list[str]] = {}
    for row in rows:
        key = (row.check, row.value, row.expected if row.verdict != "ok" else "", row.verdict)
        merged.setdefault(key if row.verdict == "ok" else (*key[:3], f"{row.verdict} {row.host}"), []).append(row.host)
    order = {row.check: n for n, row in reversed(list(enumerate(rows)))}
    lines = []
    for (check, value, expected, verdict), hosts in sorted(merged.items(), key=lambda item: order[item[0][0]]):
        names = ", ".join(hosts[:4]) + (f" and {len(hosts) - 4} more" if len(hosts) > 4 else "")
        mark = verdict.partition(" ")[0]
        lines.append(
            (
                mark if mark == "ok" else mark.upper(),
                check,
                names,
                value + (f" (expected: {expected})" if expected else ""),
            )
        )
    widths = [max((len(line[i]) for line in lines), default=0) for i in range(3)]
    return ["  ".join([*(cell.ljust(w) for cell, w in zip(line, widths)), line[3]]).rstrip() for line in lines]


__all__ = ["Preflight", "Row", "judge_band", "judge_hosts", "rate", "size", "table"]
