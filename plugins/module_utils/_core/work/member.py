# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A member as a plan has it and as its host starts it: the member, its parts, how it is asked and how it is stopped."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field, replace

from ..base.checked import ports_of
from ..base.errors import PdError
from ..base.plain import IF_ANY, Plain, every, name, texts, to_plain

# Contiguous ports by the name of their band: {name: {base, count}}.
Bands = t.Mapping[str, t.Mapping[str, int]]


@dataclass(frozen=True)
class Listener:
    """A port that a member must itself be listening on before it is ready."""

    name: str
    port: int


@dataclass(frozen=True)
class Probe:
    """How the host tells that a member is ready, busy or done. `limit` is for how many seconds it may take to start; `busy`, `done` and
    `held` are names of metrics."""

    url: str | None
    health: str | None
    listening: tuple[Listener, ...]
    backend: str | None
    limit: float
    busy: tuple[str, ...] = ()
    done: tuple[str, ...] = ()
    held: tuple[str, ...] = ()
    metrics: str | None = None

    @classmethod
    def from_plain(cls, raw: Plain) -> Probe:
        return cls(
            url=raw.get("url"),
            health=raw.get("health"),
            listening=tuple(Listener(str(one["name"]), int(one["port"])) for one in every(raw, "listening")),
            backend=raw.get("backend"),
            limit=raw.get("limit") or 0,
            busy=texts(raw, "busy"),
            done=texts(raw, "done"),
            held=texts(raw, "held"),
            metrics=raw.get("metrics"),
        )


# What a member is given to end, in seconds, where neither plan nor label says it: members of earlier versions.
DEFAULT_GRACE = 30.0


@dataclass(frozen=True)
class Stop:
    """How long a member that leaves is waited for, in seconds: for its requests (`drain`), then for its end (`grace`)."""

    grace: float | None = None
    drain: float | None = None

    @property
    def patience(self) -> float:
        """Seconds between asking it to end and killing it: 0 is an answer, and only a plan that says nothing gets the default."""
        return DEFAULT_GRACE if self.grace is None else float(self.grace)

    @classmethod
    def from_plain(cls, raw: Plain) -> Stop:
        return cls(raw.get("grace"), raw.get("drain"))


@dataclass(frozen=True)
class Part:
    """What of a member runs at one place. `host` is the place, `through` the inventory host that carries it out: a host is its own.
    `labels` is the member label that it is started with; `files` are {path, content}; `model` is where the model's files are."""

    host: str
    rank: int
    gpus: tuple[str, ...]
    port: int
    ports: Bands
    image: str | None = None
    pull: str = "missing"
    vendor: str | None = None
    model: str | None = None
    executable: str | None = None
    argv: tuple[str, ...] = ()
    env: t.Mapping[str, str] = field(default_factory=dict)
    secrets: tuple[str, ...] = ()
    files: tuple[Plain, ...] = ()
    mounts: tuple[t.Any, ...] = ()
    devices: tuple[t.Any, ...] = ()
    limits: Plain = field(default_factory=dict)
    labels: Plain = field(default_factory=dict)
    through: str = ""
    ipc: str | None = field(default=None, metadata=IF_ANY)
    # How a Pod is made of it, where it is one (cluster/pod.py).
    pod: Plain = field(default_factory=dict, metadata=IF_ANY)

    def __post_init__(self) -> None:
        if not self.through:
            object.__setattr__(self, "through", self.host)

    @property
    def held_ports(self) -> set[int]:
        """Every port that the part takes at its place."""
        return ports_of(self.port, self.ports)

    @classmethod
    def from_plain(cls, raw: Plain) -> Part:
        return cls(
            host=name(raw, "host"),
            rank=raw.get("rank") or 0,
            gpus=texts(raw, "gpus"),
            port=raw.get("port") or 0,
            ports=raw.get("ports") or {},
            image=raw.get("image"),
            pull=raw.get("pull") or "missing",
            vendor=raw.get("vendor"),
            model=raw.get("model"),
            executable=raw.get("executable"),
            argv=texts(raw, "argv"),
            env=raw.get("env") or {},
            secrets=texts(raw, "secrets"),
            files=every(raw, "files"),
            mounts=tuple(raw.get("mounts") or ()),
            devices=tuple(raw.get("devices") or ()),
            limits=raw.get("limits") or {},
            labels=raw.get("labels") or {},
            through=raw.get("through") or raw["host"],
            ipc=raw.get("ipc"),
            pod=raw.get("pod") or {},
        )


@dataclass(frozen=True)
class Member:
    """One engine, router or instance of a cache service, rendered. `identity` is what must be the same for all members of a generation:
    which engine it really is, and which model."""

    id: str
    role: str
    index: int
    revision: str
    address: str | None
    kv_address: str | None
    url: str | None
    parts: tuple[Part, ...]
    probe: Probe
    stop: Stop = Stop()
    restart: t.Mapping[str, int] = field(default_factory=dict)
    identity: Plain = field(default_factory=dict)

    @property
    def leader(self) -> Part:
        """The part that serves the member's URL, and is asked for all of it: the one of rank 0."""
        found = next((part for part in self.parts if part.rank == 0), None)
        if found is None:
            raise PdError(f"Member {self.id} has no part of rank 0. Give the plan that group_plan returned, whole.")
        return found

    @property
    def hosts(self) -> tuple[str, ...]:
        """Every place that the member has a part at."""
        return tuple(part.host for part in self.parts)

    @property
    def secrets(self) -> tuple[str, ...]:
        """Names of the secrets that any of its parts needs."""
        return tuple(dict.fromkeys(name for part in self.parts for name in part.secrets))

    def at(self, host: str) -> Part | None:
        """The part at one place."""
        return next((part for part in self.parts if part.host == host), None)

    def through(self, host: str) -> tuple[Part, ...]:
        """The parts that one inventory host carries out."""
        return tuple(part for part in self.parts if part.through == host)

    def with_parts(self, change: t.Callable[[Part], Part]) -> Member:
        return replace(self, parts=tuple(change(part) for part in self.parts))

    def to_plain(self) -> dict[str, t.Any]:
        return t.cast("dict[str, t.Any]", to_plain(self))

    @classmethod
    def from_plain(cls, raw: Plain) -> Member:
        return cls(
            id=name(raw, "id"),
            role=name(raw, "role"),
            index=raw.get("index") or 0,
            revision=raw.get("revision") or "",
            address=raw.get("address"),
            kv_address=raw.get("kv_address"),
            url=raw.get("url"),
            parts=tuple(Part.from_plain(one) for one in every(raw, "parts")),
            probe=Probe.from_plain(raw.get("probe") or {}),
            stop=Stop.from_plain(raw.get("stop") or {}),
            restart=raw.get("restart") or {},
            identity=raw.get("identity") or {},
        )
