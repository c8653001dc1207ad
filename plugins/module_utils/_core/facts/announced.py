# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a record keeps of the hooks that its group's endpoint was given to."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, replace

from ..base.checked import Checked


@dataclass(frozen=True)
class Announced:
    """Where a group may be known by a hook, by its record: `digest` of what it was told, empty where it was not seen to take it, or has
    been told that the group is out."""

    digest: str = ""
    hosts: tuple[str, ...] = ()
    file: str = ""
    url: str = ""

    @property
    def sure(self) -> bool:
        return bool(self.digest)

    def unsure(self, hosts: t.Iterable[str] = ()) -> Announced:
        """The same while nobody knows what became of it, on these hosts as well."""
        return replace(self, digest="", hosts=tuple(sorted({*self.hosts, *hosts})))

    @classmethod
    def read(cls, value: Checked) -> Announced:
        digest, file, url = (value.text(key, required=False) for key in ("digest", "file", "url"))
        return cls(digest, value.texts("hosts"), file, url)
