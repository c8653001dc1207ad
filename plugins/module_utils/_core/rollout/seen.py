# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the note of a group is to say, now that the group is seen: what an interrupted run left, what happened in a soak, and what was
edited since is settled before anything is decided."""

from __future__ import annotations

from dataclasses import replace

from ..base.printable import printable
from .note import SETTLED, Note
from .spec import Rollout
from .standing import Standing
from .turn import Run

# What a group may run already of a rollout that was edited since.
_BEGUN = ("changing", "soaking", "not judged", "failed")


def as_seen(rollout: Rollout, wave: int, group: Standing, now: float, run: Run) -> Note:
    """The note of one group, the very one that it has where nothing is to be said anew."""
    note = group.note
    if note is None or not note.of(rollout.name, rollout.digest) or (note.state == "aborted" and run.resume):
        return _anew(rollout, wave, group, now)
    if note.state in ("planned", "held"):
        return _skipped(note, group, now) if group.running and not group.pending else note
    if note.state == "changing":
        return _changing(rollout, note, group, now, run)
    if note.state == "aborted" or not _is_edited(note, group):
        return _kept(rollout, note, group, now, run)
    return _anew(rollout, wave, group, now)


def _changing(rollout: Rollout, note: Note, group: Standing, now: float, run: Run) -> Note:
    """One whose change has begun. Whoever made it run what is wanted, it soaks. What this very run has changed, and is not what it was to
    be, is not changed for ever; what an earlier run has left is changed again."""
    if group.running and not group.pending:
        return replace(note, wanted=group.wanted).soaking(now, rollout.wave(note.wave).soak)
    # It has been to a record and back.
    if abs(note.run - run.began) > 0.001:
        return note
    if group.running:
        what = f" ({printable(group.what[0])})" if group.what else ""
        done = f"{group.twin.stand} was formed beside it" if group.twin else "it was changed"
        return note.failed(now, f"{done}, and something is still to be changed{what}")
    return note.failed(now, f"it was changed, and is {group.state}{_message(group)}")


def _message(group: Standing) -> str:
    return f": {printable(group.message)}" if group.message else ""


def _is_edited(note: Note, group: Standing) -> bool:
    """Whether there is something to change that the note does not know of: another spec, or, of one that the rollout was done with,
    whatever it is."""
    return group.pending and (note.wanted != group.wanted or note.state in SETTLED)


def _anew(rollout: Rollout, wave: int, group: Standing, now: float) -> Note:
    """The first note of a rollout for a group. What the same rollout had begun before it, or what it is changed to, was edited goes on: a
    group that is out is brought back, and one that runs what is wanted and was not judged soaks."""
    old = group.note if group.note is not None and group.note.rollout == rollout.name else None
    note = Note(rollout.name, rollout.digest, wave, since=now)
    if old is not None and old.state in (*_BEGUN, "planned", "held"):
        note = replace(note, before=old.before)
    if old is not None and old.state in _BEGUN:
        if group.changed:
            return replace(note, wanted=group.wanted).soaking(now, rollout.wave(wave).soak)
        if not group.running:
            return note.changing(now, group.wanted)
    return _skipped(note, group, now) if group.running and not group.pending else note


def _skipped(note: Note, group: Standing, now: float) -> Note:
    return replace(note, state="skipped", since=now, wanted=group.wanted, why="")


def _kept(rollout: Rollout, note: Note, group: Standing, now: float, run: Run) -> Note:
    """One that is over, or soaks: what has become of it since."""
    if note.state == "soaking" and not group.running:
        return note.failed(now, f"in its soak it is {group.state}{_message(group)}")
    if note.state == "soaking" and group.pending:
        return note.failed(
            now, "in its soak it was changed by somebody else, or its hosts were: something is to be changed again"
        )
    if note.state == "not judged" and note.since < run.began and group.changed:
        return note.soaking(now, rollout.wave(note.wave).soak)
    return note
