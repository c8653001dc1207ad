# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a row of the fault suite says. No Ansible and nothing that runs: the documentation is made of it, too."""

from __future__ import annotations

import json
import typing as t
from dataclasses import dataclass, field, replace

if t.TYPE_CHECKING:
    from faults.case import Case

# What runs after the fault, of the members that ran before it: all of them, none, or these; NEW says that others run in their places.
KEPT, NONE, NEW = "kept", "none", "new"


@dataclass(frozen=True)
class Kind:
    """A kind of fault as a user meets it: a line of docs/failures.md. Its rows are the moments in which it is tried."""

    happens: str
    seen: str
    runs: str
    do: str


@dataclass(frozen=True)
class Play:
    """A run of a playbook: its name, and its -e variables."""

    book: str
    extra: t.Mapping[str, str] = field(default_factory=dict)
    words: tuple[str, ...] = ()
    # Of a released version of the collection (tests/released), not of this one.
    version: str = ""
    # Keys of a play that the user wrote around the playbook's tasks, as `serial`; and what the user's environment says to Ansible.
    keys: t.Mapping[str, t.Any] = field(default_factory=dict)
    environment: t.Mapping[str, str] = field(default_factory=dict)


DEPLOY = Play("deploy")
RESTART = Play("restart", {"pd_group": "g"})
REMOVE = Play("remove", {"pd_group": "g"})
STATUS = Play("status", {"pd_group": "g"})


def lost(play: Play, *hosts: str) -> Play:
    """The same, and the operator states that these hosts are fenced."""
    return replace(play, extra={**play.extra, "pd_lost_hosts": ",".join(hosts)})


def scale(**counts: int) -> Play:
    return Play("scale", {"pd_group": "g", **{f"pd_{role}": str(count) for role, count in counts.items()}})


@dataclass(frozen=True)
class Fault:
    """One row. The runner forms the group, edits its spec, disturbs it, plays, and looks; then it takes the cause away and heals."""

    name: str
    kind: str
    # What the fault is, done to a case. For a point of a run it is done when the run gets there.
    do: t.Callable[[Case], None]
    # The run that meets the fault, and where in it: "before:start", "during:stop", "after:wait"; empty: before it begins.
    play: Play = DEPLOY
    at: str = ""
    # On one host ("one"); prefill and router on h1 and decode on h2 ("two"), with h3 and h4 beside them ("three", "four"); in containers
    # ("docker", and on two hosts with an engine each "dockers"); on hosts of the lab ("lab").
    topology: str = "one"
    # Changes of the spec, as integration.conftest.spec takes them; and of the hosts' variables. @host@ and @gpu@ in the latter are its name
    # and a GPU of its own, @cause@ in the former is the file that fails something as long as it is there.
    spec: t.Mapping[str, t.Any] = field(default_factory=dict)
    host: t.Mapping[str, t.Any] = field(default_factory=dict)
    # Whether the group serves before the fault, and whether its spec is edited before the run, so that two revisions could meet.
    formed: bool = True
    edit: bool = False
    # The released version that formed it.
    formed_by: str = ""
    # Whether the run ends with an error. None: it was killed, or either will do.
    fails: bool | None = True
    # Patterns that the run's output, or with `status` what the status playbook says after it, must match; white space counts as one blank.
    told: tuple[str, ...] = ()
    status: tuple[str, ...] = ()
    # What runs after it: KEPT, NONE, NEW, or the ids of the members.
    runs: str | frozenset[str] | None = None
    # What else must be true then.
    check: t.Callable[[Case], None] | None = None
    # The operator takes the cause away; then these runs heal. The last of them must end well.
    lift: t.Callable[[Case], None] | None = None
    heal: tuple[Play, ...] = ()
    # What the healing run must say.
    healed: tuple[str, ...] = ()
    in_selection: bool = False
    needs: tuple[str, ...] = ()
    # Why the row fails today. It is expected to; when it does not any more, the suite says so.
    known: str = ""

    def site(self) -> str:
        """What rows have in common that can be tried on one group, one after the other; empty where a row wants a group of its own."""
        how = json.dumps([self.topology, self.spec, self.host], sort_keys=True)
        return how if self.formed and not self.formed_by else ""

    def healing(self) -> tuple[Play, ...]:
        return self.heal or (self.play,)


def only(*members: str) -> frozenset[str]:
    return frozenset(f"g-{member}-0" if member[-1].isalpha() else f"g-{member}" for member in members)
