# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The interfaces of a host as its facts tell them, and the one that the KV cache travels over, the KV interface: chosen on the host, read
here, used by plans and by the preflight."""

from __future__ import annotations

import typing as t
from dataclasses import asdict, dataclass

from ..base.checked import Checked

# Of no fact is more believed: bytes of a packet, Mb/s, entries of a GID table.
_MTU, _SPEED, _GIDS = 2**24, 2**31, 2**16

# What a mode needs of a KV interface: that the KV cache travels over it, or that handshakes do.
PLANES = ("data", "control")


def names_of(given: t.Iterable[str]) -> tuple[str, ...]:
    """The interfaces that pd_kv_interface names: a list, or text with commas, as `-e` gives it; spaces around a name are none of it."""
    names = (name.strip() for text in given for name in text.split(","))
    return tuple(dict.fromkeys(name for name in names if name))


@dataclass(frozen=True)
class KvInterface:
    """The NIC, or rails, of the KV cache. Without `names` there is none, and `error` says why. `gid_index` is the one index of RoCE v2
    that serves all of its RDMA devices, `mtu` the smallest, `speed` the sum in Mb/s; each None where it is not known."""

    names: tuple[str, ...] = ()
    address: str | None = None
    rdma_devices: tuple[str, ...] = ()
    gid_index: int | None = None
    mtu: int | None = None
    speed: int | None = None
    candidates: tuple[str, ...] = ()
    reason: str = ""
    error: str | None = None

    @classmethod
    def read(cls, value: Checked) -> KvInterface:
        return cls(
            names=value.texts("names"),
            address=value.text("address", required=False) or None,
            rdma_devices=value.texts("rdma_devices"),
            gid_index=value.maybe("gid_index", 0, _GIDS),
            mtu=value.maybe("mtu", 0, _MTU),
            speed=value.maybe("speed", 0, _SPEED),
            candidates=value.texts("candidates"),
            reason=value.text("reason", required=False),
            error=value.text("error", required=False) or None,
        )

    def to_plain(self) -> dict[str, t.Any]:
        return {key: list(one) if isinstance(one, tuple) else one for key, one in asdict(self).items()}


@dataclass(frozen=True)
class RdmaPort:
    """A port of an RDMA device behind an interface."""

    name: str
    active: bool
    roce: bool

    @classmethod
    def read(cls, value: Checked) -> RdmaPort:
        link = value.text("link_layer", required=False)
        return cls(value.text("name"), bool(value.raw.get("active")), link == "Ethernet")


@dataclass(frozen=True)
class Interface:
    """An interface of a host. `networks` are those that its addresses are in, as ADDRESS/PREFIX; none where they are not told."""

    name: str
    addresses: tuple[str, ...]
    rdma_ports: tuple[RdmaPort, ...]
    networks: tuple[str, ...] = ()

    @classmethod
    def read(cls, value: Checked) -> Interface:
        ports = tuple(RdmaPort.read(one) for one in value.each("rdma_ports"))
        return cls(value.text("name"), value.texts("addresses"), ports, value.texts("networks"))
