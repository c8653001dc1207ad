# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# This module util is PRIVATE to the collection.
"""What the hosts say: the `pd_host` fact of each host, read once into values that the plan works with."""

from __future__ import annotations

import hashlib
import json
import typing as t
from dataclasses import dataclass, field

from .errors import PdError

DEFAULT_PORT_RANGE = "40000-40063"
# States in which a member's process is there (or its runtime is bringing it back).
ALIVE = ("running", "restarting")


@dataclass(frozen=True)
class Member:
    """A member that a host reports: what its labels say, and how it is now. `state` is running, restarting, stuck
    (its process lives and will never serve), exited or missing."""

    id: str
    group: str
    role: str
    index: int
    host: str
    revision: str
    generation: int
    state: str
    ready: bool
    label: t.Mapping[str, t.Any]
    live: t.Mapping[str, t.Any]

    @property
    def alive(self) -> bool:
        return self.state in ALIVE

    @property
    def draining(self) -> bool:
        """Whether a run has begun to take it away: it has left the router, and goes on leaving, whoever runs next."""
        return bool(self.live.get("draining"))

    @property
    def ports(self) -> set[int]:
        """Every port that the member holds on its host."""
        held = {int(self.label["port"])} if self.label.get("port") else set()
        for band in (self.label.get("ports") or {}).values():
            held |= set(range(band["base"], band["base"] + band["count"]))
        return held

    @property
    def gpus(self) -> list[str]:
        return [str(g) for g in self.label.get("gpus") or ()]


@dataclass
class Host:
    """One host's facts."""

    name: str
    address: str | None
    kv_address: str | None
    kv_names: tuple[str, ...]
    kv_devices: tuple[str, ...]
    kv_error: str | None
    gpus: list[dict[str, t.Any]]
    port_low: int
    port_high: int
    used: dict[int, dict[str, t.Any]]
    members: list[Member]
    records: dict[str, dict[str, t.Any]]
    facts: t.Mapping[str, t.Any] = field(default_factory=dict)

    @property
    def ucx_net_devices(self) -> str:
        """RDMA devices with the interfaces: an interface name alone would keep UCX off RDMA, silently (design 5)."""
        return ",".join([*self.kv_devices, *self.kv_names])

    @property
    def interface_addresses(self) -> set[str]:
        """Every address that an interface of the host has now."""
        return {str(address) for one in self.facts.get("interfaces") or () for address in one.get("addresses") or ()}

    def model(self, path: str) -> t.Mapping[str, t.Any]:
        return (self.facts.get("models") or {}).get(path) or {}

    def executable(self, path: str) -> t.Mapping[str, t.Any]:
        return (self.facts.get("executables") or {}).get(path) or {}

    def image(self, name: str) -> t.Mapping[str, t.Any]:
        return (self.facts.get("images") or {}).get(name) or {}

    def runtime(self, name: str) -> t.Mapping[str, t.Any]:
        return (self.facts.get("runtimes") or {}).get(name) or {}


def parse_range(text: str, where: str) -> tuple[int, int]:
    """(low, high) of a port range such as "40000-40063", both inclusive. Raises PdError naming `where`."""
    low, dash, high = str(text).partition("-")
    if not (dash and low.strip().isdigit() and high.strip().isdigit() and 1024 <= int(low) <= int(high) <= 65535):
        raise PdError(
            f"{where}: {text!r} is no port range. Write it as 40000-40063, between 1024 and 65535, the lower first."
        )
    return int(low), int(high)


def read_host(name: str, facts: t.Mapping[str, t.Any]) -> Host:
    """One `pd_host`, as module host_facts returns it, into a Host."""
    ports = facts.get("ports") or {}
    low, high = parse_range(ports.get("range") or DEFAULT_PORT_RANGE, f"pd_port_range of {name}")
    kv = facts.get("kv_interface") or {}
    return Host(
        name=name,
        address=facts.get("address"),
        kv_address=kv.get("address"),
        kv_names=tuple(kv.get("names") or ()),
        kv_devices=tuple(kv.get("rdma_devices") or ()),
        kv_error=kv.get("error"),
        gpus=[dict(g) for g in facts.get("gpus") or ()],
        port_low=low,
        port_high=high,
        used={int(u["port"]): dict(u) for u in ports.get("used") or ()},
        members=[_member(name, m) for m in facts.get("members") or ()],
        records=dict(facts.get("records") or {}),
        facts=facts,
    )


def _member(host: str, raw: t.Mapping[str, t.Any]) -> Member:
    label = raw.get("label") or {}
    return Member(
        id=label["member"],
        group=label["group"],
        role=label["role"],
        index=int(label["index"]),
        host=host,
        revision=label["revision"],
        generation=int(label["generation"]),
        state=raw.get("state") or "missing",
        ready=bool(raw.get("ready")),
        label=label,
        live=raw,
    )


def digest(members: t.Iterable[t.Mapping[str, t.Any]]) -> str:
    """What a plan depends on that another run could have changed: the members of the host, of all groups, and what each holds.

    `members` are labels. Module `members` computes the same under the host's lock and refuses a plan that has gone stale."""
    held = sorted(
        (
            str(m["group"]),
            str(m["member"]),
            str(m["revision"]),
            int(m["generation"]),
            int(m.get("port") or 0),
            [str(g) for g in m.get("gpus") or ()],
        )
        for m in members
    )
    return hashlib.sha256(json.dumps(held, separators=(",", ":")).encode()).hexdigest()[:16]
