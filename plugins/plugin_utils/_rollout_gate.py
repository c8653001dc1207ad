# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is measured in a turn of a rollout, and what the gate makes of it: before a group stops, when its soak begins, when that is over."""

from __future__ import annotations

import typing as t
from dataclasses import replace

from ..module_utils._core.base.checked import Checked, DamagedError
from ..module_utils._core.proof.measured import Measured, Reading, Readings, measured
from ..module_utils._core.rollout.gate import verdict
from ..module_utils._core.rollout.note import Note
from ..module_utils._core.rollout.spec import Rollout
from ..module_utils._core.rollout.turn import Turn
from ._prometheus import asked

Plain = dict[str, t.Any]
# Seconds: how far Prometheus looks back before a group stops, where the gate does not say.
LOOK_BACK = 600.0


class Measuring:
    """The measuring of one turn. `notes` are those that it writes."""

    def __init__(self, rollout: Rollout, turn: Turn, notes: t.Mapping[str, Note], known: t.Mapping[str, Note]) -> None:
        self.gate, self.turn, self.notes = rollout.gate, turn, dict(notes)
        judged = turn.names if turn.kind == "judge" else ()
        self.judged = {name: notes.get(name) or known[name] for name in judged}

    @property
    def concerned(self) -> list[str]:
        """Groups of which something is to be known before their notes are written."""
        begins = [n for n, one in self.notes.items() if one.state == "changing" and one.before is None]
        soaks = [n for n, one in self.notes.items() if one.state == "soaking" and one.begun is None]
        return [*self.judged, *(name for name in [*begins, *soaks] if self.gate.counts and name not in self.judged)]

    @property
    def names(self) -> list[str]:
        """Those that are asked on their hosts."""
        return self.concerned if self.gate.counts and self.gate.prometheus is None else []

    def done(self, said: t.Mapping[str, Plain], now: float) -> tuple[dict[str, Note], list[str]]:
        """(the notes of the turn with what was measured, what a person is told). `said` is by host, group and member."""
        lines = []
        for name in self.concerned:
            readings = Readings(now, _members(said, name))
            if name in self.judged:
                self.notes[name], line = self._judged(name, self.judged[name], readings, now)
                lines.append(line)
            elif self.notes[name].state == "changing":
                before = self._counted(name, None, readings, float(self.gate.window or LOOK_BACK))
                self.notes[name] = replace(self.notes[name], before=before)
            elif self.gate.prometheus is None:
                self.notes[name] = replace(self.notes[name], begun=readings)
        return self.notes, lines

    def _counted(self, name: str, first: Readings | None, last: Readings, seconds: float) -> Measured:
        """What was counted of a group up to now: by its members since `first`, or since they started; or by Prometheus, in `seconds`."""
        server = self.gate.prometheus
        return measured(first, last) if server is None else asked(server, name, max(1.0, seconds))

    def _judged(self, name: str, note: Note, readings: Readings, now: float) -> tuple[Note, str]:
        if not self.gate.counts:
            return note.passed(now), f"{name}: passed."
        found = verdict(self.gate, note.before, self._counted(name, note.begun, readings, now - note.since))
        made = {"passed": note.passed, "failed": note.failed, "not judged": note.not_judged}[found.state]
        return made(now, found.why), f"{name}: {found.state}. {found.why}".rstrip()


def _members(said: t.Mapping[str, Plain], name: str) -> dict[str, Reading]:
    """What was read of the members of a group, on all of its hosts."""
    found: dict[str, Reading] = {}
    for host, groups in said.items():
        for member, raw in ((groups.get(name) or {}).get("members") or {}).items():
            try:
                found[member] = Reading.read(Checked(raw, f"what {host} counted of {member}"))
            except DamagedError as exc:
                found[member] = Reading("", why=str(exc))
    return found
