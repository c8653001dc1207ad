# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tombstones, and places of members: what a lost host had. A tombstone stands in the record until the host has been
seen clean: what runs there may go on serving, whatever was said."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ..base.address import of_url
from ..base.checked import PORTS, Checked, ports_of


@dataclass(frozen=True)
class Place:
    """Where a member of the record is, and what it holds there."""

    id: str
    role: str
    index: int
    host: str
    revision: str
    url: str | None
    port: int | None
    bands: t.Mapping[str, t.Mapping[str, int]]
    gpus: tuple[str, ...]

    @property
    def ports(self) -> set[int]:
        return ports_of(self.port, self.bands)

    @property
    def address(self) -> str | None:
        """The address in its URL."""
        place = of_url(self.url)
        return place[0] if place else None

    @property
    def names(self) -> set[str]:
        """What the place is named by: its host, and its address."""
        return {self.host, *([self.address] if self.address else ())}

    def to_plain(self) -> dict[str, t.Any]:
        """As the record keeps it."""
        return {
            "id": self.id,
            "role": self.role,
            "index": self.index,
            "revision": self.revision,
            "url": self.url,
            "host": self.host,
            "port": self.port,
            "ports": {name: dict(band) for name, band in self.bands.items()},
            "gpus": list(self.gpus),
        }

    @classmethod
    def read(cls, value: Checked) -> Place:
        return cls(
            id=value.name("id"),
            role=value.text("role"),
            index=value.number("index", 0, 1_000_000),
            host=value.text("host"),
            revision=value.text("revision", required=False),
            url=value.text("url", required=False) or None,
            port=value.number("port", 1, PORTS) if value.raw.get("port") else None,
            bands=value.bands(),
            gpus=value.texts("gpus"),
        )


@dataclass(frozen=True)
class Tombstone:
    """What `host` had of one formation when it was stated to be lost. `addresses` are the ports, by host and by address, of everything
    that what it had may still speak to: nothing newer gets them while it stands. `why` is lost or out-of-service, `fenced` how that
    was made sure of, "" when it is taken on trust."""

    host: str
    machine: str | None
    members: tuple[str, ...]
    router: bool
    formation: str | None
    generation: int
    addresses: t.Mapping[str, tuple[int, ...]]
    when: float
    by: str
    why: str
    fenced: str

    @classmethod
    def read(cls, value: Checked) -> Tombstone:
        held = Checked(value.mapping("addresses"), value.where, f"{value.prefix}addresses.")
        return cls(
            host=value.text("host"),
            machine=value.text("machine", required=False) or None,
            members=value.texts("members"),
            router=bool(value.raw.get("router")),
            formation=value.text("formation", required=False) or None,
            generation=value.number("generation", 0, 10**9, default=0),
            addresses={str(host): tuple(sorted(set(held.ports(host)))) for host in held.raw},
            when=value.moment("when"),
            by=value.text("by", required=False),
            why=value.text("why", required=False, default="lost"),
            fenced=value.text("fenced", required=False),
        )

    def to_plain(self) -> dict[str, t.Any]:
        return {
            "host": self.host,
            "machine": self.machine,
            "members": list(self.members),
            "router": self.router,
            "formation": self.formation,
            "generation": self.generation,
            "addresses": {host: list(ports) for host, ports in sorted(self.addresses.items())},
            "when": self.when,
            "by": self.by,
            "why": self.why,
            "fenced": self.fenced,
        }

    def told(self) -> str:
        """In words that follow "tombstone": what may still run where."""
        how = {"lost": "stated to be lost", "out-of-service": "out of service"}.get(self.why, self.why)
        sure = f"fenced by {self.fenced}" if self.fenced else "on trust: nothing made sure that it is off"
        return f"{self.host} ({how}, {sure}) may still run {', '.join(self.members)} of generation {self.generation}"
