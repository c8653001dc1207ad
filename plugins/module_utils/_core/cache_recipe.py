# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# This module util is PRIVATE to the collection.
"""A kind of cache service: one recipe, read from a file of pd_modes/caches/ (or of caches/ in a user's own folder of modes).

Everything that is special about a kind is a field here; no code knows a kind's name."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field

Scope = t.Literal["group", "host"]
Clients = t.Literal["reconnect", "restart"]


@dataclass(frozen=True)
class CacheRecipe:
    """How one kind of service is run. `scope`: group is one instance for all users, host one on each host of the pattern. `clients` is
    what happens to the engines that use it when it restarts."""

    name: str
    summary: str
    scope: Scope
    clients: Clients
    clients_note: str = ""
    executable: str | None = None
    command: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    environment: t.Mapping[str, str] = field(default_factory=dict)
    files: tuple[t.Mapping[str, t.Any], ...] = ()
    # Width and whether the service must itself listen on the band before it is ready, by band.
    bands: t.Mapping[str, t.Mapping[str, t.Any]] = field(default_factory=dict)
    probe: t.Mapping[str, t.Any] = field(default_factory=dict)
    options: t.Mapping[str, t.Mapping[str, t.Any]] = field(default_factory=dict)
    known_versions: str | None = None
    packages: tuple[str, ...] = ()
    libraries: tuple[str, ...] = ()
    restart: t.Mapping[str, int] = field(default_factory=dict)
    source: str = ""
