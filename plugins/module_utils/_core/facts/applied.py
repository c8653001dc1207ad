# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A formation as it was rendered, which the record keeps: of the one that runs, and of the last one before it that was proven. From either
of them members can be started, whatever the spec says by now (template/kept.py makes a template of it). Of secrets there are names alone.

In the record most of it is what the record says of the formation anyway (`spec`, `templates`, `choices`); `applied` beside that has what
else a member is made of. `previous` is the same of an earlier formation, in one object."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field

from ..base.checked import Checked

# What a record says of its formation, beside `applied`: what of it is kept when another one takes its place.
KEPT = ("revision", "generation", "formed", "desired", "spec", "templates", "choices")
# What members of a generation have in common beside their spec, and that is the same on every host.
IDENTITY = ("engine", "image_id", "model")

Identity = t.Mapping[str, str]


@dataclass(frozen=True)
class Rendered:
    """What a role was rendered to, with placeholders: its command line, and what a container or unit of it got. Names of secrets only.
    `plain` is all of it as it is kept."""

    argv: tuple[str, ...] = ()
    env: t.Mapping[str, str] = field(default_factory=dict)
    secrets: tuple[str, ...] = ()
    files: tuple[t.Mapping[str, t.Any], ...] = ()
    mounts: tuple[t.Any, ...] = ()
    devices: tuple[t.Any, ...] = ()
    resources: t.Mapping[str, t.Any] = field(default_factory=dict)
    image: str | None = None
    gpus: int = 0
    ipc: bool = False
    plain: t.Mapping[str, t.Any] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def read(cls, value: Checked) -> Rendered:
        files = value.each("files")
        for file in files:
            file.said("path")
            file.said("content")
        env = value.within("env")
        return cls(
            argv=value.texts("argv"),
            env={str(name): env.said(name) for name in env.raw},
            secrets=value.texts("secrets"),
            files=tuple(file.raw for file in files),
            mounts=tuple(value.items("mounts")),
            devices=tuple(value.items("devices")),
            resources=value.mapping("resources"),
            image=value.text("image", required=False) or None,
            gpus=value.number("gpus", 0, 10_000, default=0),
            ipc=value.text("ipc", required=False) == "host",
            plain=value.raw,
        )


@dataclass(frozen=True)
class AppliedRole:
    """What a member of a role is made of beside what was rendered. `bands` are names with their number of ports, `sizes` its parallel sizes
    by name, `source` where the model, the executable and the image of it are (a member's label says the same). `cache` is its KV cache, and
    `bare` what is rendered otherwise without it, None where it connects to no service."""

    executable: str = ""
    pull: str = "missing"
    sizes: t.Mapping[str, int] = field(default_factory=dict)
    bands: tuple[tuple[str, int], ...] = ()
    source: t.Mapping[str, str] = field(default_factory=dict)
    cache: t.Mapping[str, t.Any] | None = None
    bare: Rendered | None = None

    @classmethod
    def read(cls, value: Checked) -> AppliedRole:
        sizes, source = value.within("sizes"), value.within("source")
        cache = value.within("cache")
        if cache.raw:
            _check_cache(cache)
        return cls(
            executable=value.said("executable"),
            pull=value.text("pull", required=False, default="missing"),
            sizes={str(name): sizes.number(name, 0, 1_000_000) for name in sizes.raw},
            bands=tuple((one.text("name"), one.number("width", 0, 65_535)) for one in value.each("bands")),
            source={str(name): source.said(name) for name in source.raw},
            cache=cache.raw or None,
            bare=Rendered.read(value.within("bare")) if value.raw.get("bare") is not None else None,
        )


@dataclass(frozen=True)
class Proven:
    """When a formation was proven, and what its members really were then."""

    generation: int
    formed: float
    identity: t.Mapping[str, Identity]


@dataclass(frozen=True)
class Applied:
    """A formation as it was rendered. `roles` are by name, prefill, decode and router; `engines` are backends by role, `dialect` is what
    its router speaks, `peers` the words by which that was told of a peer of each role. `identity` is what its members really were, by role;
    `proven` is None where no proof of this revision was good. `plain` is what the record kept of it beside `applied` (KEPT)."""

    revision: str
    generation: int
    formed: float
    mode: str
    runtime: str
    policy: str
    restart: t.Mapping[str, t.Any]
    desired: t.Mapping[str, int]
    spec: t.Mapping[str, t.Any]
    choices: t.Mapping[str, t.Any]
    engines: t.Mapping[str, str]
    dialect: str | None
    peers: t.Mapping[str, tuple[str, ...]]
    rendered: t.Mapping[str, Rendered]
    roles: t.Mapping[str, AppliedRole]
    identity: t.Mapping[str, Identity]
    proven: Proven | None = None
    plain: t.Mapping[str, t.Any] = field(default_factory=dict, repr=False, compare=False)
    # `applied` as it is kept.
    more: t.Mapping[str, t.Any] = field(default_factory=dict, repr=False, compare=False)


def read(value: Checked) -> Applied | None:
    """What a record, or its `previous`, says of a formation; None where it is of a version that did not keep that. Raises DamagedError."""
    more = value.within("applied")
    if not more.raw:
        return None
    templates, desired = value.within("templates"), value.within("desired")
    rendered, roles = templates.within("roles"), more.within("roles")
    engines, peers = more.within("engines"), more.within("peers")
    missing = sorted(set(rendered.raw) ^ set(roles.raw))
    if missing:
        raise more.bad(f"roles.{missing[0]}", "not of both, what was rendered and what was applied")
    return Applied(
        revision=value.text("revision"),
        generation=value.number("generation", 0, 10**9, default=0),
        formed=value.moment("formed"),
        mode=templates.text("mode"),
        runtime=templates.text("runtime"),
        policy=templates.text("policy"),
        restart=_restart(templates),
        desired={str(role): desired.number(role, 0, 1_000_000) for role in desired.raw},
        spec=value.mapping("spec"),
        choices=value.mapping("choices"),
        engines={str(role): engines.text(role) for role in engines.raw},
        dialect=more.text("dialect", required=False) or None,
        peers={str(role): peers.texts(role) for role in peers.raw},
        rendered={str(role): Rendered.read(rendered.within(role)) for role in rendered.raw},
        roles={str(role): AppliedRole.read(roles.within(role)) for role in roles.raw},
        identity=_identity(more),
        proven=_proven(more),
        plain={key: value.raw[key] for key in KEPT if key in value.raw},
        more=more.raw,
    )


def _restart(templates: Checked) -> t.Mapping[str, int]:
    restart = templates.within("restart")
    return {str(name): restart.number(name, 0, 10**9) for name in restart.raw}


def _proven(more: Checked) -> Proven | None:
    proven = more.within("proven")
    if not proven.raw:
        return None
    return Proven(proven.number("generation", 0, 10**9), proven.moment("formed"), _identity(proven))


def _identity(value: Checked) -> dict[str, dict[str, str]]:
    """What members of each role really were, as far as that was known."""
    found = {}
    for role in value.mapping("identity"):
        one = value.within("identity").within(role)
        found[str(role)] = {key: one.said(key) for key in IDENTITY if one.raw.get(key)}
    return found


def _check_cache(cache: Checked) -> None:
    """A KV cache of a role: what template/kept.py reads of it."""
    cache.text("provider")
    cache.mapping("options")
    for key in ("service", "why", "stands_down"):
        cache.said(key)
    service = cache.within("client")
    for key in ("name", "provider", "address", "scope", "clients"):
        service.said(key)
    service.mapping("options")


def as_proven(record: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """The record of a formation whose proof was good. One that does not say how it was rendered stays as it is."""
    more = record.get("applied")
    if not more:
        return dict(record)
    told = {key: record.get(key) for key in ("generation", "formed")}
    return {**record, "applied": {**more, "proven": {**told, "identity": more.get("identity") or {}}}}


def sources(record: t.Mapping[str, t.Any]) -> list[t.Mapping[str, t.Any]]:
    """Where all is that the formations of a record are made of, whatever else is wrong with it: what a host looks at beside what it is
    asked about, so that whoever starts their members again knows whether it is still the same."""
    found: list[t.Mapping[str, t.Any]] = []
    for one in (record, record.get("previous")):
        applied = one.get("applied") if isinstance(one, t.Mapping) else None
        roles = applied.get("roles") if isinstance(applied, t.Mapping) else None
        for role in roles.values() if isinstance(roles, t.Mapping) else ():
            source = role.get("source") if isinstance(role, t.Mapping) else None
            if isinstance(source, t.Mapping):
                found.append({key: value for key, value in source.items() if isinstance(value, str)})
    return found
