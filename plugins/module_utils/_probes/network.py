# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The interfaces of this host that could carry the KV cache, why the others could not, and the choice among them.

What an interface is made of decides, not what it is called: see links.py for how that is read."""

from __future__ import annotations

import socket
import typing as t
from dataclasses import dataclass, field

from .._core.facts.kv_interface import KvInterface
from . import links, rdma
from .links import Address, Link

MAX_LISTED = 12


@dataclass
class Interface(Link):
    """One interface, judged. `why_not` says why the KV cache does not travel over it without being told to; empty for a candidate."""

    rdma: list[rdma.Port] = field(default_factory=list)
    why_not: str = ""

    @property
    def candidate(self) -> bool:
        return not self.why_not

    @property
    def rdma_devices(self) -> list[str]:
        """Those that can carry something now, as device:port."""
        return [port.name for port in self.rdma if port.active]

    @property
    def rate(self) -> int | None:
        """Mb/s: what the interface says, else what its RDMA ports say (an InfiniBand interface knows none)."""
        return self.speed or max((p.rate for p in self.rdma if p.rate), default=None)

    def address(self, preferred: str | None = None) -> str | None:
        """The address to use on it: the preferred one when it has it, else the first, IPv4 before IPv6."""
        mine = [a.ip for a in self.addresses]
        if preferred in mine:
            return preferred
        if self.loopback and preferred and links.is_loopback(preferred):
            return preferred  # all of 127/8 is on lo
        usable = [ip for ip in mine if links.routable(ip) or (self.loopback and links.is_loopback(ip))]
        return min(usable, key=lambda ip: ":" in ip, default=None)

    @property
    def told(self) -> str:
        """What one chooses it by."""
        words = [str(self.address()), rate_text(self.rate)]
        words += [f"driver {self.driver}"] if self.driver else [self.kind] if self.kind else []
        words += [
            f"RDMA {', '.join(p.name + ('' if p.active else ' (down)') for p in self.rdma)}" if self.rdma else "no RDMA"
        ]
        words += ["default route"] if self.default_route else []
        return f"{self.name} ({', '.join(filter(None, words))})"

    def plain(self) -> dict[str, t.Any]:
        return {
            "name": self.name,
            "up": self.up,
            "addresses": [a.ip for a in self.addresses],
            "networks": [f"{a.ip}/{a.prefix}" for a in self.addresses],
            "mtu": self.mtu,
            "speed": self.rate,
            "kind": self.kind or None,
            "driver": self.driver or None,
            "default_route": self.default_route,
            "candidate": self.candidate,
            "why_not": self.why_not,
            "rdma_devices": self.rdma_devices,
            "rdma_ports": [port.plain() for port in self.rdma],
        }


def rate_text(rate: int | None) -> str:
    if not rate:
        return "speed unknown"
    return f"{rate / 1000:g} Gb/s" if rate >= 1000 else f"{rate} Mb/s"


# -- looking and judging --------------------------------------------------------------------------------------------------------------


def interfaces(sys: str = "/sys") -> list[Interface]:
    """The interfaces of this host, judged."""
    return judge(links.read(sys), sys)


def judge(found: t.Sequence[Link], sys: str = "/sys") -> list[Interface]:
    """Each link with its RDMA ports, and whether the KV cache may travel over it."""
    by_name = {link.name: link for link in found}
    inside = _is_inside(found)
    judged = []
    for link in found:
        one = Interface(**vars(link))
        one.rdma = rdma.behind(link.name, [a.ip for a in link.addresses if a.routable], sys)
        one.why_not = _why_not(link, by_name, inside)
        if link.kind in (*links.PAIRS, *links.TUNNELS, "openvswitch") or (
            link.kind == "bridge" and not _has_uplink(link, by_name)
        ):
            one.speed = None  # made up: 10 Gb/s of a pair, whatever it leads to
        judged.append(one)
    return judged


def _is_inside(found: t.Sequence[Link]) -> bool:
    """Whether this host is itself a container: there is no device, or the default route leaves by one end of a pair. Then such an end is
    a NIC. On a host with a device of its own it belongs to a container of that host."""
    devices = [link for link in found if link.device and link.up]
    way_out = [link for link in found if link.default_route]
    return not devices or any(link.kind in links.PAIRS for link in way_out)


def _why_not(link: Link, by_name: t.Mapping[str, Link], inside: bool) -> str:
    kind = link.kind
    way_out = link.default_route
    alone = all(a.alone for a in link.addresses if a.routable)
    reasons: t.Sequence[tuple[bool, str]] = (
        (link.loopback, "it is the loopback"),
        (not link.up, "it is down"),
        (bool(link.master) and _kind_of(link.master, by_name) != "vrf", f"it is a part of {link.master}"),
        (kind in links.TUNNELS, f"it is a tunnel ({kind})"),
        (kind in links.NOWHERE, f"it leads nowhere ({kind})"),
        (not any(a.routable for a in link.addresses), "it has no address that another host could route to"),
        (
            kind == "bridge" and not way_out and not _has_uplink(link, by_name),
            "it is a bridge without a NIC: for containers or VMs",
        ),
        (kind == "openvswitch" and not way_out, "it is a switch of containers or VMs"),
        (kind in links.PAIRS and link.inner and not way_out, "its other end is on this host"),
        (kind in links.PAIRS and not way_out and not inside, "it leads to a container of this host"),
        (kind in links.PAIRS and not way_out and alone, "it leads to a single container"),
    )
    return next((why for true, why in reasons if true), "")


def _kind_of(name: str | None, by_name: t.Mapping[str, Link]) -> str:
    return by_name[name].kind if name and name in by_name else ""


def _has_uplink(bridge: Link, by_name: t.Mapping[str, Link]) -> bool:
    """Whether a NIC of the host is a port of a bridge: a device, or what stands on one."""
    ports = {*bridge.under, *(link.name for link in by_name.values() if link.master == bridge.name)}
    return any(_on_device(name, by_name) for name in ports)


def _on_device(name: str, by_name: t.Mapping[str, Link], depth: int = 4) -> bool:
    link = by_name.get(name)
    if link is None or not depth:
        return False
    slaves = [other.name for other in by_name.values() if other.master == name and other.kind not in links.PAIRS]
    return link.device or any(_on_device(one, by_name, depth - 1) for one in {*link.under, *slaves})


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


def numeric(address: str | None, resolve: t.Callable[[str], list[str]] | None = None) -> str | None:
    """An address as a number. A name is looked up here; what it means on its own host is often 127.0.1.1 (Debian), which is no way in."""
    if not address or links.routable(address) or links.is_loopback(address):
        return address
    return next((ip for ip in (resolve or _resolve)(address) if links.routable(ip)), None)


def _resolve(name: str) -> list[str]:
    try:
        return [str(info[4][0]) for info in socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)]
    except OSError:
        return []


def choose(
    found: t.Sequence[Interface],
    names: t.Sequence[str],
    plane: str,
    address: str | None,
    resolve: t.Callable[[str], list[str]] | None = None,
) -> KvInterface:
    """The KV interface: the named ones; on the control plane the one of `address`; else the only candidate. Several are refused: which
    of them the KV cache takes is nothing to guess."""
    by_name = {i.name: i for i in found}
    candidates = [i for i in found if i.candidate]
    listed = [i.name for i in candidates]
    address = numeric(address, resolve)
    if names:
        return _named(by_name, names, address, listed)
    home = next((i for i in found if address and address in [a.ip for a in i.addresses]), None)
    if plane == "control":
        if home:
            return _chosen([home], address, listed, "it has the host's own address, and the mode needs no more")
        way_out = next((i for i in found if i.default_route and i.address()), None)
        if way_out and not address:
            return _chosen([way_out], None, listed, "it has the default route, and the mode needs no more")
        return _refused(
            listed, f"no interface has the host's address {address}, so there is none for the KV cache's handshake"
        )
    if len(candidates) == 1:
        return _chosen(candidates, address, listed, "it is the only interface that other hosts can reach")
    if candidates:
        told = "; ".join(i.told for i in candidates[:MAX_LISTED]) + ("; ..." if len(candidates) > MAX_LISTED else "")
        return _refused(
            listed,
            f"several interfaces could carry the KV cache, and none is guessed (pd_kv_interface names it): {told}",
        )
    if home and not home.loopback and home.up:
        return _chosen([home], address, listed, "it has the host's own address, and there is no other")
    return _refused(listed, f"no interface is up with an address that other hosts could reach{_others(found)}")


def _others(found: t.Sequence[Interface]) -> str:
    told = [f"{i.name}: {i.why_not}" for i in found if not i.loopback and i.addresses][:MAX_LISTED]
    return f" ({'; '.join(told)})" if told else ""


def _named(
    by_name: t.Mapping[str, Interface], names: t.Sequence[str], address: str | None, listed: list[str]
) -> KvInterface:
    given = f"pd_kv_interface is {', '.join(names)}"
    missing = [n for n in names if n not in by_name]
    if missing:
        return _refused(
            listed, f"pd_kv_interface names {', '.join(missing)}, which the host has not (it has {', '.join(by_name)})"
        )
    chosen = [by_name[n] for n in names]
    down = [i.name for i in chosen if not i.up]
    if down:
        return _refused(listed, f"{given}, and {', '.join(down)} is down")
    if not any(i.address(address) for i in chosen):
        return _refused(listed, f"{given}, which has no usable address")
    part = next((i for i in chosen if i.master and not i.address(address)), None)
    if part:
        return _refused(listed, f"{given}, and {part.name} is a part of {part.master}: name that one")
    return _chosen(
        chosen, address, listed, "pd_kv_interface names it" if len(names) == 1 else "pd_kv_interface names them"
    )


def _chosen(chosen: t.Sequence[Interface], address: str | None, listed: list[str], reason: str) -> KvInterface:
    ports = [port for i in chosen for port in i.rdma if port.active]
    indexes = {port.gid for port in ports if port.roce}
    return KvInterface(
        names=tuple(i.name for i in chosen),
        address=next(a for a in (i.address(address) for i in chosen) if a),
        rdma_devices=tuple(port.name for port in ports),
        # One index serves all, or none can be named: the variables that set it know a single one.
        gid_index=indexes.pop() if len(indexes) == 1 else None,
        mtu=min((i.mtu for i in chosen if i.mtu), default=None),
        speed=sum(i.rate for i in chosen if i.rate) if all(i.rate for i in chosen) else None,
        candidates=tuple(listed),
        reason=reason,
    )


def _refused(listed: list[str], error: str) -> KvInterface:
    return KvInterface(candidates=tuple(listed), error=error + ".")


__all__ = ["Address", "Interface", "choose", "http_address", "interfaces", "judge", "numeric", "rate_text"]
