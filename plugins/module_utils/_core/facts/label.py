# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The member label: what a member carries, read and checked at the one place where it enters. What counts a member of which formation
is here, too."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field

from ..base.checked import PORTS, Checked, DamagedError, ports_of
from . import starts
from .starts import Starts

# 1: up to 22a08ae, without the key and without a formation. A label of a later version is not read: what it means is not known here.
SCHEMA = 2


@dataclass(frozen=True)
class NotedPeer:
    """A peer that a router was started with: its place, and which start of it that was, as far as its version noted one."""

    member: str
    role: str
    url: str
    bands: t.Mapping[str, t.Mapping[str, int]]
    restarts: int | None = None
    pid: int | None = None


@dataclass(frozen=True)
class Cached:
    """The KV cache that a member was started with, or without: `injected` is False with `why` then, and None where it does not say."""

    provider: str
    service: str | None
    injected: bool | None
    why: str


@dataclass(frozen=True)
class Label:
    """What a member was started as. `formation` is None for one that an earlier version started and nobody has taken over; `adopted` says
    that it was taken over. `peers` are those on a router's command line, None where it has none there. `drain` and `grace` are how long a
    stop of it may take, in seconds; `busy`, `held` and `metrics` how it is asked whether it is idle. `plain` is the label as it is kept."""

    schema: int
    group: str
    member: str
    role: str
    index: int
    revision: str
    generation: int
    formation: str | None
    adopted: bool
    runtime: str | None
    created: float
    port: int | None
    bands: dict[str, dict[str, int]]
    gpus: tuple[str, ...]
    url: str | None
    address: str | None = None
    kv_address: str | None = None
    health: str | None = None
    backend: str | None = None
    policy: str | None = None
    dialect: str | None = None
    peers: tuple[NotedPeer, ...] | None = None
    cache: Cached | None = None
    identity: t.Mapping[str, t.Any] = field(default_factory=dict)
    source: t.Mapping[str, t.Any] = field(default_factory=dict)
    # The image that a container's runtime really started it from: {id, digest}.
    image: t.Mapping[str, t.Any] = field(default_factory=dict)
    attempts: int = 0
    drain: float | None = None
    grace: float | None = None
    busy: tuple[str, ...] = ()
    held: tuple[str, ...] = ()
    metrics: str | None = None
    # How many prefills had been started where, when a decode was.
    met: Starts = field(default_factory=dict)
    plain: t.Mapping[str, t.Any] = field(default_factory=dict, repr=False, compare=False)

    @property
    def ports(self) -> set[int]:
        return ports_of(self.port, self.bands)


def read(raw: t.Any, where: str) -> Label:
    """A label as a file, a container or a host's facts have it. Raises DamagedError that names `where`."""
    value = Checked(raw, where)
    schema = value.number("schema", 1, 1_000_000, default=1)
    if schema > SCHEMA:
        raise DamagedError(
            where, f"it is of schema {schema}, written by a later version; this one reads up to {SCHEMA}"
        )
    stop, probe = value.within("stop"), value.within("probe")
    _asked_on_its_host(value, probe)
    return Label(
        schema=schema,
        group=value.name("group"),
        member=value.name("member"),
        role=value.text("role"),
        index=value.number("index", 0, 1_000_000),
        revision=value.text("revision"),
        generation=value.number("generation", 0, 10**9),
        formation=_maybe(value, "formation"),
        adopted=bool(value.raw.get("adopted")),
        runtime=_maybe(value, "runtime"),
        created=value.moment("created"),
        port=value.number("port", 1, PORTS) if value.raw.get("port") else None,
        bands=value.bands(),
        gpus=value.texts("gpus"),
        url=value.url("url"),
        address=_maybe(value, "address"),
        kv_address=_maybe(value, "kv_address"),
        health=_maybe(value, "health"),
        backend=_maybe(value, "backend"),
        policy=_maybe(value, "policy"),
        dialect=_maybe(value, "dialect"),
        peers=None if value.raw.get("peers") is None else tuple(_noted_peer(peer) for peer in value.each("peers")),
        cache=_cached(value),
        identity=value.mapping("identity"),
        source=value.mapping("source"),
        image=value.mapping("image") if isinstance(value.raw.get("image"), t.Mapping) else {},
        attempts=value.number("restart", 0, 10**9, default=0),
        drain=stop.seconds("drain"),
        grace=stop.seconds("grace"),
        busy=probe.texts("busy"),
        held=probe.texts("held"),
        metrics=_maybe(probe, "metrics"),
        met=starts.read(value, "met"),
        plain=value.raw,
    )


def _asked_on_its_host(value: Checked, probe: Checked) -> None:
    """What only the member's own host reads of it, as it stands."""
    value.texts("secrets")
    for port in probe.each("listening"):
        port.text("name")
        port.number("port", 1, PORTS)


def _maybe(value: Checked, key: str) -> str | None:
    return value.text(key, required=False) or None


def _noted_peer(peer: Checked) -> NotedPeer:
    """An entry of the snapshot of a router that was started with its peers."""
    return NotedPeer(
        peer.text("member"),
        peer.text("role"),
        peer.text("url"),
        peer.bands(),
        peer.maybe("restarts", 0, 10**9),
        peer.maybe("pid", 0, 2**31),
    )


def _cached(value: Checked) -> Cached | None:
    if not value.mapping("cache"):
        return None
    cache = value.within("cache")
    injected = cache.raw.get("injected")
    return Cached(
        provider=cache.text("provider", required=False),
        service=_maybe(cache, "service"),
        injected=None if injected is None else bool(injected),
        why=cache.text("why", required=False),
    )
