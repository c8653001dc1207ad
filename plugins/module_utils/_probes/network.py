# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# This module util is PRIVATE to the collection.
"""The interfaces of this host, and which of them the KV cache travels over."""

from __future__ import annotations

import fcntl
import glob
import ipaddress
import json
import os
import re
import socket
import struct
import typing as t
from dataclasses import dataclass, field

from . import command

# Interfaces that software makes for itself: never a way for the KV cache, unless named.
VIRTUAL = (
    "docker", "br-", "veth", "cni", "flannel", "cali", "cilium_", "lxc", "weave", "datapath", "antrea",
    "kube-", "nodelocaldns", "vxlan", "genev_sys", "ovs-system", "virbr", "vnet", "tunl", "tun", "tap",
    "wg", "ppp", "tailscale", "zt", "dummy", "utun", "bridge",
)  # fmt: skip


@dataclass
class Interface:
    """One interface. `addresses` are without prefix length, usable ones (not link-local) first; `rdma` are `device:port`."""

    name: str
    up: bool
    loopback: bool
    addresses: list[str] = field(default_factory=list)
    mtu: int | None = None
    default_route: bool = False
    rdma: list[str] = field(default_factory=list)

    @property
    def candidate(self) -> bool:
        """Whether the KV cache may travel here without being told (semantics of the reference, design 5)."""
        return (
            self.up
            and not self.loopback
            and not self.name.startswith(VIRTUAL)
            and any(_routable(a) for a in self.addresses)
        )

    def address(self, preferred: str | None = None) -> str | None:
        """The address to use on it: the preferred one when it has it, else the first, IPv4 before IPv6."""
        if preferred in self.addresses:
            return preferred
        if self.loopback and preferred and _loopback(preferred):
            return preferred  # all of 127/8 is on lo
        usable = [a for a in self.addresses if _routable(a) or (self.loopback and _loopback(a))]
        return min(usable, key=lambda a: ":" in a, default=None)

    def plain(self) -> dict[str, t.Any]:
        return {
            "name": self.name,
            "up": self.up,
            "addresses": self.addresses,
            "mtu": self.mtu,
            "default_route": self.default_route,
            "candidate": self.candidate,
            "rdma_devices": self.rdma,
        }


def _routable(address: str) -> bool:
    try:
        ip = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    return not (ip.is_loopback or ip.is_link_local or ip.is_unspecified)


def _loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False


# -- looking ------------------------------------------------------------------------------------------------------------------------


def interfaces(sys: str = "/sys") -> list[Interface]:
    """The interfaces of this host, with their RDMA devices."""
    said = command.run(["ip", "-j", "addr"])
    try:
        found = parse_addr(said.out) if said and not said.error else without_ip(sys)
    except ValueError:  # an ip without -j (busybox)
        found = without_ip(sys)
    routes = default_routes()
    for interface in found:
        interface.default_route = interface.name in routes
        interface.rdma = rdma_devices(interface.name, sys)
    return found


def parse_addr(text: str) -> list[Interface]:
    """What `ip -j addr` says. Raises ValueError when it is not JSON."""
    found = []
    for link in json.loads(text or "[]"):
        if not link.get("ifname"):
            continue
        flags = link.get("flags") or []
        addresses = [
            a["local"]
            for a in link.get("addr_info") or []
            if a.get("local") and not a.get("tentative") and not a.get("dadfailed")
        ]
        found.append(
            Interface(
                name=link["ifname"],
                up="UP" in flags and link.get("operstate") in ("UP", "UNKNOWN", None),
                loopback="LOOPBACK" in flags,
                addresses=sorted(addresses, key=lambda a: not _routable(a)),
                mtu=link.get("mtu"),
            )
        )
    return found


def without_ip(sys: str = "/sys") -> list[Interface]:
    """The same from /sys, /proc and the kernel's own calls, where there is no `ip`."""
    found = []
    for name in sorted(os.listdir(f"{sys}/class/net")):
        if not os.path.isdir(f"{sys}/class/net/{name}"):
            continue  # bonding_masters is a file
        flags = int(_read(f"{sys}/class/net/{name}/flags") or "0", 16)
        state = _read(f"{sys}/class/net/{name}/operstate")
        addresses = [*_ipv4_of(name), *_ipv6_of(name)]
        found.append(
            Interface(
                name=name,
                up=bool(flags & 1) and state in ("up", "unknown", ""),
                loopback=bool(flags & 8),
                addresses=sorted(addresses, key=lambda a: not _routable(a)),
                mtu=int(_read(f"{sys}/class/net/{name}/mtu") or 0) or None,
            )
        )
    return found


def _ipv4_of(name: str) -> list[str]:
    """Its first IPv4 address (SIOCGIFADDR knows no other)."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            answer = fcntl.ioctl(probe.fileno(), 0x8915, struct.pack("256s", name.encode()[:15]))
        except OSError:
            return []
    return [socket.inet_ntoa(answer[20:24])]


def _ipv6_of(name: str) -> list[str]:
    rows = (line.split() for line in _read("/proc/net/if_inet6").splitlines())
    return [
        socket.inet_ntop(socket.AF_INET6, bytes.fromhex(row[0])) for row in rows if len(row) == 6 and row[5] == name
    ]


def default_routes() -> list[str]:
    """The interfaces of default routes, the preferred one first."""
    said = command.run(["ip", "-j", "route"])
    if said and not said.error:
        try:
            return parse_route(said.out)
        except ValueError:
            pass
    rows = [line.split() for line in _read("/proc/net/route").splitlines()[1:]]
    rows = [row for row in rows if len(row) > 7 and row[1] == "00000000" and row[7] == "00000000"]
    return [row[0] for row in sorted(rows, key=lambda row: int(row[6]))]


def parse_route(text: str) -> list[str]:
    """What `ip -j route` says of default routes. Raises ValueError when it is not JSON."""
    routes = [r for r in json.loads(text or "[]") if r.get("dst") == "default"]
    found = []
    for route in sorted(routes, key=lambda r: r.get("metric", 0)):
        for hop in [route, *(route.get("nexthops") or [])]:
            if hop.get("dev") and hop["dev"] not in found:
                found.append(hop["dev"])
    return found


def rdma_devices(name: str, sys: str = "/sys") -> list[str]:
    """The RDMA devices, as device:port, whose traffic goes over an interface: by the GIDs' own netdevs (RoCE, also VLANs and bonds),
    else by the device that both belong to (InfiniBand)."""
    found = set()
    for path in glob.glob(f"{sys}/class/infiniband/*/ports/*/gid_attrs/ndevs/*"):
        if _read(path) == name:
            parts = path.split("/")
            found.add(f"{parts[-6]}:{parts[-4]}")
    if not found:
        port = int(_read(f"{sys}/class/net/{name}/dev_port") or 0) + 1
        for path in glob.glob(f"{sys}/class/net/{name}/device/infiniband/*"):
            device = os.path.basename(path)
            ports = [os.path.basename(p) for p in glob.glob(f"{path}/ports/*")] or ["1"]
            found.add(f"{device}:{port if str(port) in ports else ports[0]}")
    return sorted(found, key=lambda d: [int(w) if w.isdigit() else w for w in re.split(r"(\d+)", d)])


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as stream:
            return stream.read().strip()
    except OSError:
        return ""


# -- choosing -----------------------------------------------------------------------------------------------------------------------


def http_address(found: t.Sequence[Interface], given: str | None) -> str | None:
    """Where members serve HTTP: what was given, else the default route's address, else the only usable one."""
    if given:
        return given
    for interface in found:
        if interface.default_route and interface.address():
            return interface.address()
    usable = [i for i in found if i.candidate]
    return usable[0].address() if len(usable) == 1 else None


def choose(found: t.Sequence[Interface], names: t.Sequence[str], plane: str, address: str | None) -> dict[str, t.Any]:
    """The KV interface: the named ones; on the control plane the one of `address`; else the only candidate. Several are refused: which
    of them the KV cache takes is nothing to guess."""
    by_name = {i.name: i for i in found}
    candidates = [i.name for i in found if i.candidate]
    if names:
        return _named(by_name, names, address, candidates)
    home = next((i for i in found if address and address in i.addresses), None)
    if plane == "control":
        if home:
            return _chosen([home], address, candidates, "it has the host's own address, and the mode needs no more")
        return _refused(
            candidates, f"no interface has the host's address {address}, so there is none for the KV cache's handshake"
        )
    if len(candidates) == 1:
        return _chosen(
            [by_name[candidates[0]]], address, candidates, "it is the only interface that other hosts can reach"
        )
    if candidates:
        listed = ", ".join(f"{n} ({by_name[n].address()})" for n in candidates)
        return _refused(candidates, f"several interfaces could carry the KV cache: {listed}")
    if home and not home.loopback:
        return _chosen([home], address, candidates, "it has the host's own address, and there is no other")
    return _refused(candidates, "no interface is up with an address that other hosts could reach")


def _named(
    by_name: t.Mapping[str, Interface], names: t.Sequence[str], address: str | None, candidates: list[str]
) -> dict[str, t.Any]:
    missing = [n for n in names if n not in by_name]
    if missing:
        return _refused(
            candidates,
            f"pd_kv_interface names {', '.join(missing)}, which the host has not (it has {', '.join(by_name)})",
        )
    chosen = [by_name[n] for n in names]
    bare = [i.name for i in chosen if not i.address(address)]
    if len(bare) == len(chosen):
        return _refused(candidates, f"pd_kv_interface is {', '.join(names)}, which has no usable address")
    down = [i.name for i in chosen if not i.up]
    if down:
        return _refused(candidates, f"pd_kv_interface is {', '.join(names)}, and {', '.join(down)} is down")
    return _chosen(
        chosen, address, candidates, "pd_kv_interface names it" if len(names) == 1 else "pd_kv_interface names them"
    )


def _chosen(chosen: t.Sequence[Interface], address: str | None, candidates: list[str], reason: str) -> dict[str, t.Any]:
    return {
        "names": [i.name for i in chosen],
        "address": next(a for a in (i.address(address) for i in chosen) if a),
        "rdma_devices": [d for i in chosen for d in i.rdma],
        "candidates": candidates,
        "reason": reason,
        "error": None,
    }


def _refused(candidates: list[str], error: str) -> dict[str, t.Any]:
    return {
        "names": [],
        "address": None,
        "rdma_devices": [],
        "candidates": candidates,
        "reason": "",
        "error": error + ".",
    }
