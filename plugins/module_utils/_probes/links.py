# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The network interfaces of this host as the kernel tells them: what each is made of, what it stands on, its addresses, its speed.

`ip -j -d addr` is asked first; where there is none, or one that speaks no JSON, the same is read from /sys, /proc and by calls."""

from __future__ import annotations

import array
import contextlib
import fcntl
import glob
import ipaddress
import os
import re
import socket
import struct
import typing as t
from dataclasses import dataclass, field

from .._core.base import json_text
from .._core.base.printable import printable
from . import command

# Kinds of the kernel (IFLA_INFO_KIND) that lead a packet through another one, or nowhere.
TUNNELS = (
    "amt", "bareudp", "erspan", "geneve", "gre", "gretap", "gtp", "ip6erspan", "ip6gre", "ip6gretap", "ip6tnl", "ipip",
    "ovpn", "ppp", "sit", "tun", "vti", "vti6", "vxlan", "wireguard", "xfrm",
)  # fmt: skip
NOWHERE = ("dummy", "ifb", "nlmon", "vcan", "vrf", "vsockmon")
# One end of a pair: a NIC for what is inside of a namespace, a stub for the host that made it.
PAIRS = ("netkit", "veth")
# What the numbers of /sys/class/net/*/type are (linux/if_arp.h), where nothing else tells the kind.
_TYPES = {512: "ppp", 768: "ipip", 769: "ip6tnl", 776: "sit", 778: "gre", 823: "ip6gre"}
# What drivers call themselves in answer to SIOCETHTOOL, where they are no device's.
_DRIVERS = {
    "802.1Q VLAN Support": "vlan", "bonding": "bond", "bridge": "bridge", "dummy": "dummy", "ifb": "ifb", "ip6_tunnel": "ip6tnl",
    "ipvlan": "ipvlan",
    "macvlan": "macvlan", "openvswitch": "openvswitch", "team": "team", "tun": "tun", "veth": "veth",
    "vxlan": "vxlan", "wireguard": "wireguard",
}  # fmt: skip


@dataclass(frozen=True)
class Address:
    """One address of an interface. `second` are those that come and go or follow another: secondary, temporary, deprecated."""

    ip: str
    prefix: int
    second: bool = False

    @property
    def routable(self) -> bool:
        """Whether a peer on another host could route to it."""
        return routable(self.ip)

    @property
    def alone(self) -> bool:
        """Whether it is in no network with others (a /32, or a /128)."""
        return self.prefix >= (128 if ":" in self.ip else 32)


@dataclass
class Link:
    """One interface. `kind` is the kernel's word for a virtual one, empty for a device; `under` are the interfaces it stands on;
    `inner` is a pair whose other end is in the same namespace."""

    name: str
    up: bool = False
    loopback: bool = False
    kind: str = ""
    addresses: list[Address] = field(default_factory=list)
    mtu: int | None = None
    master: str | None = None
    under: list[str] = field(default_factory=list)
    inner: bool = False
    device: bool = False
    driver: str = ""
    speed: int | None = None
    default_route: bool = False


# -- looking ------------------------------------------------------------------------------------------------------------------------


def read(sys: str = "/sys") -> list[Link]:
    """The interfaces of this host."""
    said = command.run(["ip", "-j", "-d", "addr"])
    try:
        found = parse_addr(said.out) if said and not said.error else None
    except ValueError:  # an ip without -j (busybox)
        found = None
    found = without_ip(sys) if found is None else found
    routes = default_routes()
    for link in found:
        add_sys(link, sys)
        link.default_route = link.name in routes
    return found


# As the kernel takes them (dev_valid_name in net/core/dev.c).
_NAME = re.compile(r"(?!\.\.?$)[^\s/:]{1,15}")


def _name(value: t.Any) -> str:
    """The name of an interface, which becomes a path below /sys; "" for what is none."""
    name = json_text.text(value)
    return name if _NAME.fullmatch(name) and name.isprintable() else ""


# Of `ip`, what is read and what each is.
_ADDRESS: json_text.Readers = {
    "local": json_text.text,
    "prefixlen": json_text.count,
    **dict.fromkeys(("tentative", "dadfailed", "secondary", "temporary", "deprecated"), bool),
}
_LINK: json_text.Readers = {
    **dict.fromkeys(("ifname", "link", "master"), _name),
    "flags": json_text.texts,
    "operstate": json_text.text,
    "mtu": json_text.count,
    "linkinfo": json_text.mapping,
    "addr_info": json_text.objects,
}
_HOP: json_text.Readers = {"dev": _name}
_ROUTE: json_text.Readers = {
    **_HOP,
    "dst": json_text.text,
    "type": json_text.text,
    "metric": json_text.count,
    "nexthops": json_text.objects,
}


def _listed(said: str, readers: json_text.Readers) -> list[dict[str, t.Any]]:
    """What `ip -j` lists. Raises ValueError when that is no JSON, or no list."""
    listed = json_text.loads(said or "[]")
    if not isinstance(listed, list):
        raise ValueError("it is no list")
    return [json_text.fields(one, readers) for one in listed]


def parse_addr(said: str) -> list[Link]:
    """What `ip -j -d addr` says. Raises ValueError when that is no JSON, or no list."""
    found = []
    for told in _listed(said, _LINK):
        if not told["ifname"]:
            continue
        kind = printable(json_text.text(told["linkinfo"].get("info_kind")), 40)
        if not kind and "POINTOPOINT" in told["flags"]:
            kind = "ppp"
        found.append(
            Link(
                name=told["ifname"],
                up="UP" in told["flags"] and told["operstate"] in ("UP", "UNKNOWN", ""),
                loopback="LOOPBACK" in told["flags"],
                kind=kind,
                addresses=in_order([a for a in map(_address, told["addr_info"]) if a]),
                mtu=told["mtu"],
                master=told["master"] or None,
                under=[told["link"]] if told["link"] and kind not in PAIRS else [],
                # The other end of a pair is told by its name when it is here, else by number and namespace.
                inner=kind in PAIRS and bool(told["link"]),
            )
        )
    return found


def _address(raw: t.Mapping[str, t.Any]) -> Address | None:
    told = json_text.fields(raw, _ADDRESS)
    try:
        longest = ipaddress.ip_address(told["local"]).max_prefixlen
    except ValueError:
        return None
    if told["tentative"] or told["dadfailed"]:
        return None
    second = told["secondary"] or told["temporary"] or told["deprecated"]
    return Address(told["local"], min(told["prefixlen"] or 0, longest), second)


def in_order(addresses: t.Iterable[Address]) -> list[Address]:
    """Those that peers can use first, of these the ones that stay."""
    return sorted(addresses, key=lambda a: (not a.routable, a.second))


def without_ip(sys: str = "/sys", proc: str = "/proc") -> list[Link]:
    """The same from /sys, /proc and the kernel's own calls, where there is no `ip`."""
    found = []
    for name in sorted(os.listdir(f"{sys}/class/net")):
        folder = f"{sys}/class/net/{name}"
        if not os.path.isdir(folder):
            continue  # bonding_masters is a file
        flags = int(text(f"{folder}/flags") or "0", 16)
        found.append(
            Link(
                name=name,
                up=bool(flags & 1) and text(f"{folder}/operstate") in ("up", "unknown", ""),
                loopback=bool(flags & 8),
                addresses=in_order([*_ipv4_of(name), *_ipv6_of(name, proc)]),
                mtu=number(f"{folder}/mtu"),
                inner=_peer_is_here(folder, sys),
            )
        )
    return found


def add_sys(link: Link, sys: str = "/sys") -> None:
    """What /sys tells beside `ip`: the device, its driver and speed, and what it stands on; and the kind, where that is open."""
    folder = f"{sys}/class/net/{link.name}"
    link.device = os.path.exists(f"{folder}/device")
    link.driver = _base(f"{folder}/device/driver") or ("" if link.loopback else driver(link.name))
    link.kind = link.kind or ("" if link.device or link.loopback else _kind(folder, link.driver))
    link.under = sorted(
        {*link.under, *(os.path.basename(p).partition("_")[2] for p in glob.glob(f"{glob.escape(folder)}/lower_*"))}
    )
    link.master = link.master or _base(f"{folder}/master") or None
    if link.kind in PAIRS:
        link.under = []
    link.inner = link.inner and link.kind in PAIRS
    link.speed = speed(folder)


def _kind(folder: str, driver_: str) -> str:
    """The kind of an interface without a device, by what its driver says, what stands in its folder, and its type."""
    words = [line.partition("=")[2] for line in text(f"{folder}/uevent").splitlines() if line.startswith("DEVTYPE=")]
    places = {"bridge": "bridge", "bonding": "bond", "tun_flags": "tun"}
    found = next((kind for name, kind in places.items() if os.path.exists(f"{folder}/{name}")), "")
    kind = (
        found
        or (words[0] if words else "")
        or _DRIVERS.get(driver_, "")
        or _TYPES.get(number(f"{folder}/type") or 0, "")
    )
    return kind or ("tun" if number(f"{folder}/type") == 65534 else "")


def _peer_is_here(folder: str, sys: str) -> bool:
    """Whether the other end of a pair is an interface of this namespace: the one whose other end is this. A number alone does not tell
    the namespace, so this can be wrong; `ip` tells both."""
    mine, other = number(f"{folder}/ifindex"), number(f"{folder}/iflink")
    return mine != other and any(
        number(f"{path}/ifindex") == other and number(f"{path}/iflink") == mine
        for path in glob.glob(f"{sys}/class/net/*")
    )


def speed(folder: str) -> int | None:
    """Mb/s as the driver tells it; None where it does not know (virtual machines' NICs), or makes one up (veth: 10000)."""
    found = number(f"{folder}/speed")
    return found if found and 0 < found < 2**31 else None


def driver(name: str) -> str:
    """The name that a driver has for itself (ETHTOOL_GDRVINFO)."""
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        answer = array.array("B", struct.pack("I", 0x3) + bytes(192))
        fcntl.ioctl(probe.fileno(), 0x8946, struct.pack("16sP", name.encode()[:15], answer.buffer_info()[0]))
        return answer.tobytes()[4:36].partition(b"\0")[0].decode("ascii", "replace")
    return ""


def _ipv4_of(name: str) -> list[Address]:
    """Its first IPv4 address (SIOCGIFADDR knows no other)."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        asked = struct.pack("256s", name.encode()[:15])
        try:
            ip = socket.inet_ntoa(fcntl.ioctl(probe.fileno(), 0x8915, asked)[20:24])
            mask = socket.inet_ntoa(fcntl.ioctl(probe.fileno(), 0x891B, asked)[20:24])
        except OSError:
            return []
    return [Address(ip, bin(int(ipaddress.ip_address(mask))).count("1"))]


def _ipv6_of(name: str, proc: str) -> list[Address]:
    rows = (line.split() for line in text(f"{proc}/net/if_inet6").splitlines())
    return [
        # The flags: 0x01 temporary, 0x08 dadfailed, 0x20 deprecated, 0x40 tentative.
        Address(socket.inet_ntop(socket.AF_INET6, bytes.fromhex(row[0])), int(row[2], 16), bool(int(row[4], 16) & 0x21))
        for row in rows
        if len(row) == 6 and row[5] == name and not int(row[4], 16) & 0x48
    ]


def default_routes(proc: str = "/proc") -> list[str]:
    """The interfaces of default routes, the preferred one first, IPv4's before IPv6's."""
    found: list[str] = []
    for family in ("-4", "-6"):
        said = command.run(["ip", family, "-j", "route"])
        with contextlib.suppress(ValueError):
            if said and not said.error:
                found += [name for name in parse_route(said.out) if name not in found]
                continue
        found += [name for name in (_routes4(proc) if family == "-4" else _routes6(proc)) if name not in found]
    return found


def parse_route(said: str) -> list[str]:
    """The interfaces of default routes in what `ip -j route` says. Raises ValueError when that is no JSON, or no list."""
    routes = [r for r in _listed(said, _ROUTE) if r["dst"] == "default" and r["type"] in ("unicast", "")]
    hops = [
        hop["dev"]
        for route in sorted(routes, key=lambda r: r["metric"] or 0)
        for hop in [route, *(json_text.fields(one, _HOP) for one in route["nexthops"])]
    ]
    return [name for name in dict.fromkeys(hops) if name]


def _routes4(proc: str) -> list[str]:
    rows = [line.split() for line in text(f"{proc}/net/route").splitlines()[1:]]
    rows = [row for row in rows if len(row) > 7 and row[1] == "00000000" and row[7] == "00000000"]
    return [row[0] for row in sorted(rows, key=lambda row: int(row[6]))]


def _routes6(proc: str) -> list[str]:
    rows = [line.split() for line in text(f"{proc}/net/ipv6_route").splitlines()]
    # The unreachable default of every host is on lo.
    rows = [row for row in rows if len(row) > 9 and row[0] == "0" * 32 and row[1] == "00" and row[9] != "lo"]
    return [row[9] for row in sorted(rows, key=lambda row: int(row[5], 16))]


# -- small ones ---------------------------------------------------------------------------------------------------------------------


def routable(address: str) -> bool:
    """Whether an address is one that another host could have a route to."""
    try:
        ip = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    return not (ip.is_loopback or ip.is_link_local or ip.is_unspecified or ip.is_multicast)


def is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False


def text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as stream:
            return stream.read().strip()
    except OSError:  # speed of an interface that is down is EINVAL
        return ""


def number(path: str) -> int | None:
    try:
        return int(text(path))
    except ValueError:
        return None


def _base(path: str) -> str:
    return os.path.basename(os.path.realpath(path)) if os.path.exists(path) else ""
