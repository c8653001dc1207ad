# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The protocol of a runtime: what each can do. The use cases know this and no runtime."""

from __future__ import annotations

import typing as t

from .._core.work.member import Member, Part
from .._probes.elsewhere import Container
from .store import Damaged


class Sometimes(t.TypedDict, total=False):
    """What is not told of every member: of one that has ended the last line of its log, cut; and whether it is ready, where its runtime
    asks that itself."""

    log_line: str
    ready: bool


class Live(Sometimes):
    """A member as its host sees it. `state` is running, restarting, exited or missing (_core/facts/observed.py)."""

    label: dict[str, t.Any]
    state: str
    pid: int | None
    since: float | None
    restarts: int
    exit: int | None
    why: str
    log: str | None


class Availability(t.TypedDict):
    available: bool
    why: str
    hint: str


class Facts(t.TypedDict):
    """What a runtime says of its host, beside its members: whether members can be created; of each image that was asked for what
    Prepares.images says; and members of other state folders, as far as it keeps them itself."""

    available: Availability
    images: dict[str, dict[str, t.Any]]
    elsewhere: list[Container]


class Wanted(t.NamedTuple):
    """A member to create, its part at this driver's place, and the values of its secrets."""

    member: Member
    part: Part
    secrets: t.Mapping[str, str]


class Created(t.NamedTuple):
    """What became of one: `error` is why it could not be created, and then nothing of it is left."""

    member: str
    warnings: t.Sequence[str] = ()
    error: str | None = None


# Gives a member the label that it starts with, or raises PdError: whether it may still be created is asked as late as can be, since the
# one before it may have taken long.
Admit = t.Callable[[Wanted], "dict[str, t.Any]"]


@t.runtime_checkable
class Prepares(t.Protocol):
    """A driver that gets something onto the host before members can be created: images."""

    def prepare(self, batch: t.Sequence[Wanted]) -> list[str]:
        """Have what these members need here, or raise HostError. Returns warnings."""

    def images(self, names: t.Sequence[str]) -> dict[str, dict[str, t.Any]]:
        """Of each image whether it exists, its id and digest; of a missing one whether it is pullable, and why not."""


@t.runtime_checkable
class Foresees(t.Protocol):
    """A driver that can tell, before anything stops, that a member could not be created here. It changes nothing."""

    def refusals(self, batch: t.Sequence[Wanted]) -> list[str]:
        """Why members of the batch could not be created, a sentence each; of secrets only the names are asked for."""


@t.runtime_checkable
class TellsDamage(t.Protocol):
    """A driver that keeps labels of its own, beside those in the state directory."""

    def damaged(self) -> list[Damaged]:
        """What it keeps and cannot be believed."""


class Driver(t.Protocol):
    """Runs members on this host. Every call has a deadline; what does not work is a HostError."""

    name: str

    def available(self) -> Availability:
        """Whether members can be created here; else why not, and what to do."""

    def facts(self, images: t.Sequence[str], /) -> Facts:
        """All that it says of its host in one look. Of images it is asked only by who deploys, or shows what was deployed."""

    def members(self) -> list[Live]:
        """Every member on this host, of every group, with its live state."""

    def create(self, batch: t.Sequence[Wanted], admit: Admit) -> list[Created]:
        """Create and start members, as many as there are. Each is admitted before anything is done for it; one that fails does not keep
        the others from being created. Returns what became of each, in the order of the batch."""

    def remove(self, group: str, member: str, grace: float) -> None:
        """Stop a member, see that every process of it is gone, and delete what was kept of it. Not being there is no error."""

    def logs(self, group: str, member: str, lines: int) -> list[str]:
        """The last lines of its log, secrets masked."""

    def sweep(self) -> None:
        """When no member is left: end what the runtime itself keeps running, and delete its files."""
