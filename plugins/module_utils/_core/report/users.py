# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The groups that use a cache service: by what their members were started with, and by what their specs say now."""

from __future__ import annotations

import typing as t
from dataclasses import asdict, dataclass

from ..facts.observed import Host, LiveMember
from ..facts.stands import name_of
from ..spec.workload import CACHE


def uses(member: LiveMember, service: str) -> bool:
    """Whether a member lives and was started with the service, as its label says: a spec may have been edited since."""
    cache = member.label.cache
    ours = cache is not None and cache.service == service and bool(cache.injected)
    return ours and member.alive and member.role not in CACHE.roles


def running(service: str, hosts: t.Mapping[str, Host]) -> list[str]:
    """The groups of which a living member serves with the service."""
    return sorted({name_of(m.group) for h in hosts.values() for m in h.members if uses(m, service)})


@dataclass(frozen=True)
class Users:
    """`users` are groups of which a living member serves with it, `wanted_by` those whose specs name it and of which none does yet,
    `left_by` those of the users whose specs no longer name it. With a host that did not answer, one of `wanted_by` may be a user."""

    users: tuple[str, ...]
    wanted_by: tuple[str, ...]
    left_by: tuple[str, ...]
    all_answered: bool

    def to_plain(self) -> dict[str, t.Any]:
        return {key: list(value) if isinstance(value, tuple) else value for key, value in asdict(self).items()}

    @classmethod
    def of_plain(cls, plain: t.Mapping[str, t.Any]) -> Users:
        users, wanted_by, left_by = (tuple(plain[key]) for key in ("users", "wanted_by", "left_by"))
        return cls(users, wanted_by, left_by, bool(plain["all_answered"]))

    def told(self) -> str:
        """Who uses it, and whose spec names it although no member does yet."""
        gone = dict.fromkeys(self.left_by, ", its spec no longer names it")
        using = [f"{group} (running{gone.get(group, '')})" for group in self.users]
        missing = "pending" if self.all_answered else "unknown: not every host answered"
        wanted = [f"{group} ({missing})" for group in self.wanted_by]
        parts = [f"used by {', '.join(using)}"] if using else []
        parts += [f"wanted by {', '.join(wanted)}"] if wanted else []
        return ", ".join(parts) or "used by no group"


def of(service: str, named_by: t.Sequence[str], hosts: t.Mapping[str, Host], all_answered: bool) -> Users:
    """The users of a service; `named_by` are the groups whose specs name it."""
    found = running(service, hosts)
    wanted = tuple(group for group in named_by if group not in found)
    left = tuple(group for group in found if group not in named_by)
    return Users(tuple(found), wanted, left, all_answered)
