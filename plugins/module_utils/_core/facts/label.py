# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The member label: what a member carries, read and checked at the one place where it enters. What counts a member of which formation
is here, too."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field

from ..base.checked import PORTS, Checked, DamagedError, ports_of

# 1: up to 22a08ae, without the key and without a formation. A label of a later version is not read: what it means is not known here.
SCHEMA = 2


@dataclass(frozen=True)
class Label:
    """What a member was started as. `formation` is None for one that an earlier version started and nobody has taken over; `adopted` says
    that it was taken over. `plain` is the label as it is kept."""

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
    plain: t.Mapping[str, t.Any] = field(repr=False, compare=False)

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
    for key in ("source", "identity", "stop", "probe", "cache"):
        value.mapping(key)
    _peers(value)
    return Label(
        schema=schema,
        group=value.name("group"),
        member=value.name("member"),
        role=value.text("role"),
        index=value.number("index", 0, 1_000_000),
        revision=value.text("revision"),
        generation=value.number("generation", 0, 10**9),
        formation=value.text("formation", required=False) or None,
        adopted=bool(value.raw.get("adopted")),
        runtime=value.text("runtime", required=False) or None,
        created=value.moment("created"),
        port=value.number("port", 1, PORTS) if value.raw.get("port") else None,
        bands=value.bands(),
        gpus=value.texts("gpus"),
        url=value.text("url", required=False) or None,
        plain=value.raw,
    )


def _peers(value: Checked) -> None:
    """The snapshot of a router that was started with its peers."""
    for peer in value.each("peers"):
        peer.text("member")
        peer.text("role")
        peer.text("url")
        peer.bands()
