# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An endpoint hook: what gives a group's endpoint to what clients use, and takes it away; what is asked of one (`Act`), what a run does
about each (`Hooked`)."""

from __future__ import annotations

import hashlib
import json
import typing as t
from dataclasses import dataclass, field

from ..base.address import of_url
from ..base.errors import PdError
from ..base.plain import Plain, name, reading, texts, to_plain
from ..facts.announced import Announced

Kind = t.Literal["file_sd", "haproxy", "nginx", "tasks"]
KINDS: tuple[Kind, ...] = ("file_sd", "haproxy", "nginx", "tasks")
Event = t.Literal["in", "out"]
DRAIN = 60
# The weight that a group has where its spec says none, and the greatest one: HAProxy's.
WEIGHT, MOST_WEIGHT = 100, 256
# Stands for the group's name in a `file` that each group has of its own.
GROUP = "${group}"
_WAY_OUT = "It is made by the action plugin of module endpoint_hooks: do not call the module by itself."


@dataclass(frozen=True)
class Hook:
    """One entry of pd_endpoint_hooks. `hosts` is its pattern; `file` what is written on each of them, for `tasks` what is included on the
    controller; `drain` seconds are given to sessions that run. What a kind has no key for is empty."""

    name: str
    kind: Kind
    hosts: str = ""
    file: str = ""
    backend: str = ""
    socket: str = ""
    lines: tuple[str, ...] = ()
    labels: t.Mapping[str, str] = field(default_factory=dict)
    reload: tuple[str, ...] = ()
    check: tuple[str, ...] = ()
    drain: int = DRAIN

    @classmethod
    def from_plain(cls, raw: Plain) -> Hook:
        return cls(
            name(raw, "name"),
            t.cast(Kind, name(raw, "kind")),
            raw.get("hosts") or "",
            raw.get("file") or "",
            raw.get("backend") or "",
            raw.get("socket") or "",
            texts(raw, "lines"),
            raw.get("labels") or {},
            texts(raw, "reload"),
            texts(raw, "check"),
            int(raw.get("drain") or 0),
        )

    def path(self, group: str) -> str:
        """The file of a group."""
        return self.file.replace(GROUP, group)

    @property
    def waits(self) -> bool:
        """Whether it sees by itself when nothing runs any more of what was sent to a group that it has taken out."""
        return self.kind == "haproxy" and bool(self.socket)

    def digest(self, url: str, model: str, weight: int) -> str:
        """Of all that shapes what it is told of a group: another one is announced anew."""
        told = [self.name, self.kind, self.file, self.backend, list(self.lines), dict(self.labels), url, model, weight]
        return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Act:
    """What a hook is asked on one host about one group: to have it at `url` with this weight (event `in`), or not to send it any request
    (`out`); `gone`: for good, so that nothing of it stays."""

    hook: Hook
    event: Event
    group: str
    url: str = ""
    model: str = ""
    weight: int = WEIGHT
    gone: bool = False

    @property
    def path(self) -> str:
        return self.hook.path(self.group)

    @property
    def place(self) -> tuple[str, int]:
        """(host, port) of the endpoint. Raises PdError for a URL that names no port."""
        found = of_url(self.url)
        if found is None:
            raise PdError(f"The endpoint of group {self.group}, {self.url or 'none'}, names no host and port.")
        return found

    @property
    def told(self) -> dict[str, t.Any]:
        """As own tasks are given it (pd_endpoint)."""
        return {
            "event": self.event,
            "group": self.group,
            "url": self.url,
            "model": self.model,
            "weight": self.weight,
            "gone": self.gone,
            "hook": self.hook.name,
        }

    def to_plain(self) -> dict[str, t.Any]:
        return t.cast("dict[str, t.Any]", to_plain(self))

    @classmethod
    def from_plain(cls, raw: Plain) -> Act:
        with reading("An act of a hook", _WAY_OUT):
            return cls(
                Hook.from_plain(raw["hook"]),
                "in" if raw["event"] == "in" else "out",
                name(raw, "group"),
                raw.get("url") or "",
                raw.get("model") or "",
                int(raw.get("weight") or 0),
                bool(raw.get("gone")),
            )


@dataclass(frozen=True)
class Hooked:
    """What a run does about a hook of a group, at one file of it, on these hosts. `stays`: the group's spec names the hook, and it is to be
    there afterwards; else it is taken out for good. `withdraws`: it is taken out before anything stops. `announces`: once it serves, it is
    to be told (again); `digest` is of what it is told, `was` what the record says, None where it says nothing. `why` is for people."""

    hook: Hook
    hosts: tuple[str, ...]
    url: str = ""
    model: str = ""
    weight: int = WEIGHT
    stays: bool = True
    withdraws: bool = False
    announces: bool = False
    digest: str = ""
    was: Announced | None = None
    why: str = ""

    @classmethod
    def from_plain(cls, raw: Plain) -> Hooked:
        was = raw.get("was")
        return cls(
            Hook.from_plain(raw["hook"]),
            texts(raw, "hosts"),
            raw.get("url") or "",
            raw.get("model") or "",
            int(raw.get("weight") or 0),
            bool(raw.get("stays")),
            bool(raw.get("withdraws")),
            bool(raw.get("announces")),
            raw.get("digest") or "",
            Announced.from_plain(was) if was else None,
            raw.get("why") or "",
        )

    @property
    def leaves(self) -> bool:
        """Whether it is taken out for good, and not before anything stops."""
        return not self.stays and not self.withdraws

    def act(self, group: str, event: Event, gone: bool = False) -> Act:
        # What is taken out is known by the address that it was told.
        url = self.url if event == "in" or self.was is None else self.was.url
        return Act(self.hook, event, group, url, self.model, self.weight, gone)

    def act_before(self, group: str) -> Act:
        """Have it as it was told before, where a run has taken it out and ends without having stopped anything."""
        was = self.was or self.before
        return Act(self.hook, "in", group, was.url, was.model, was.weight)

    @property
    def announced(self) -> Announced:
        """What the record says once the hook has taken what it is told."""
        return Announced(self.digest, self.hosts, self.hook.file, self.url, self.model, self.weight)

    @property
    def before(self) -> Announced:
        """What the record says while nobody knows whether it has."""
        at = self.was or Announced("", (), self.hook.file, self.url, self.model, self.weight)
        return at.unsure(self.hosts) if self.stays else at.unsure()
