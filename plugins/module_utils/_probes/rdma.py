# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The RDMA ports behind a network interface, read from /sys, and which of a RoCE port's GIDs carries an address."""

from __future__ import annotations

import glob
import ipaddress
import os
import re
import typing as t
from dataclasses import dataclass

from .links import number, text


@dataclass(frozen=True)
class Port:
    """One port of an RDMA device. `gid` is the index of the RoCE v2 GID that carries the interface's address; None on InfiniBand, which
    needs none, and where there is none of that kind."""

    device: str
    port: int
    active: bool
    roce: bool
    rate: int | None = None
    gid: int | None = None

    @property
    def name(self) -> str:
        """As UCX writes it."""
        return f"{self.device}:{self.port}"

    def plain(self) -> dict[str, t.Any]:
        return {
            "name": self.name,
            "active": self.active,
            "link_layer": "Ethernet" if self.roce else "InfiniBand",
            "rate": self.rate,
            "gid_index": self.gid,
        }


def devices(sys: str = "/sys") -> list[str]:
    """The RDMA devices of this host, also those on which no interface stands."""
    return sorted((os.path.basename(path) for path in glob.glob(f"{sys}/class/infiniband/*")), key=_natural)


def behind(name: str, addresses: t.Sequence[str] = (), sys: str = "/sys", _seen: t.Collection[str] = ()) -> list[Port]:
    """The ports whose traffic goes over an interface: by the GIDs' own netdevs (RoCE; VLANs and bonds have theirs), else by the device
    that both belong to (InfiniBand), else those behind what it stands on (the slaves of a bond, the parent of a VLAN)."""
    found = _by_gid(name, sys) or _by_device(name, sys)
    if found:
        ports = (_port(device, port, name, addresses, sys) for device, port in found)
        return sorted(set(ports), key=lambda p: _natural(p.name))
    below = sorted(
        {os.path.basename(p).partition("_")[2] for p in glob.glob(f"{sys}/class/net/{glob.escape(name)}/lower_*")}
        - {*_seen, name}
    )
    ports_below = {p for one in below for p in behind(one, addresses, sys, (*_seen, name))}
    return sorted(ports_below, key=lambda p: _natural(p.name))


def _by_gid(name: str, sys: str) -> set[tuple[str, int]]:
    found = set()
    for path in glob.glob(f"{sys}/class/infiniband/*/ports/*/gid_attrs/ndevs/*"):
        if text(path) == name:
            parts = path.split("/")
            found.add((parts[-6], int(parts[-4])))
    return found


def _by_device(name: str, sys: str) -> set[tuple[str, int]]:
    found = set()
    # dev_port tells which port of a device with several an interface is; older drivers tell it in dev_id.
    here = f"{sys}/class/net/{name}"
    mine = (number(f"{here}/dev_port") or int(text(f"{here}/dev_id") or "0", 16) or 0) + 1
    for path in glob.glob(f"{glob.escape(here)}/device/infiniband/*"):
        device = os.path.basename(path)
        ports = sorted(int(os.path.basename(p)) for p in glob.glob(f"{path}/ports/*")) or [1]
        found.add((device, mine if mine in ports else ports[0]))
    return found


def _port(device: str, port: int, name: str, addresses: t.Sequence[str], sys: str) -> Port:
    folder = f"{sys}/class/infiniband/{device}/ports/{port}"
    roce = text(f"{folder}/link_layer") == "Ethernet"
    rate = re.match(r"([\d.]+)\s*Gb", text(f"{folder}/rate"))
    return Port(
        device,
        port,
        # "4: ACTIVE"
        active=text(f"{folder}/state").partition(":")[0] in ("4", ""),
        roce=roce,
        rate=int(float(rate[1]) * 1000) if rate else None,
        gid=gid_index(folder, name, addresses) if roce else None,
    )


def gid_index(folder: str, name: str, addresses: t.Sequence[str]) -> int | None:
    """The index of the RoCE v2 GID for one of `addresses`, in their order; without any that fits, the first one of IPv4, as peers of
    one fabric choose it. IPv4 addresses are written in a GID as ::ffff:a.b.c.d."""
    found: dict[str, int] = {}
    for path in sorted(glob.glob(f"{folder}/gid_attrs/types/*"), key=lambda p: int(os.path.basename(p))):
        index = int(os.path.basename(path))
        ndev = text(f"{folder}/gid_attrs/ndevs/{index}")
        address = _of_gid(text(f"{folder}/gids/{index}"))
        if text(path) == "RoCE v2" and ndev in (name, "") and address:
            found.setdefault(address, index)
    for address in addresses:
        if address in found:
            return found[address]
    return next((index for address, index in found.items() if "." in address), None)


def _of_gid(gid: str) -> str:
    try:
        ip = ipaddress.IPv6Address(gid)
    except ValueError:
        return ""
    if not int(ip) or ip.is_link_local:
        return ""
    return str(ip.ipv4_mapped or ip)


def _natural(name: str) -> list[t.Any]:
    return [int(w) if w.isdigit() else w for w in re.split(r"(\d+)", name)]
