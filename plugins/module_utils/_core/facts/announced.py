# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a record keeps of the hooks that its group's endpoint was given to."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, replace

from ..base.checked import Checked
from ..base.plain import Plain, texts


@dataclass(frozen=True)
class Announced:
    """Where a group may be known by a hook, by its record: `digest` of what it was told, empty where it was not seen to take it, or has
    been told that the group is out."""

    digest: str = ""
    hosts: tuple[str, ...] = ()
    file: str = ""
    url: str = ""
    model: str = ""
    weight: int = 0

    @property
    def sure(self) -> bool:
        return bool(self.digest)

    def unsure(self, hosts: t.Iterable[str] = ()) -> Announced:
        """The same while nobody knows what became of it, on these hosts as well."""
        return replace(self, digest="", hosts=tuple(sorted({*self.hosts, *hosts})))

    @classmethod
    def read(cls, value: Checked) -> Announced:
        digest, file, url, model = (value.text(key, required=False) for key in ("digest", "file", "url", "model"))
        return cls(digest, value.texts("hosts"), file, url, model, value.number("weight", 0, 1000, default=0))

    @classmethod
    def from_plain(cls, raw: Plain) -> Announced:
        """One that a record or a plan of ours has."""
        return cls(raw["digest"], texts(raw, "hosts"), raw["file"], raw["url"], raw["model"], int(raw["weight"]))
