# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A turn: one thing that a run does with a rollout, as next_turn.py decides it, and what it writes into the records before and after."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field

from .note import Note

Kind = t.Literal["note", "change", "soak", "judge", "return", "point", "clear", "end"]
# How often a run tries to clear away what stands beside a group.
MOST_TRIES = 2
# Seconds: a soak that is longer is not waited for; the next run judges it.
LONGEST_WAIT = 1800.0


@dataclass(frozen=True)
class Run:
    """This run: when it began, and when it must have ended (None: whenever), in seconds of the epoch. `resume`: a person has said that what
    was paused or aborted goes on. `release` are groups of which a person has said that they may be changed again: they are not held.
    `tried` counts by (kind, group) the turns of this run that deal with what stands beside a group: what does not help is not done for
    ever."""

    began: float
    ends: float | None = None
    resume: bool = False
    release: tuple[str, ...] = ()
    tried: t.Mapping[tuple[str, str], int] = field(default_factory=dict)


@dataclass(frozen=True)
class Turn:
    """What comes next. `notes` are written first, each into the record of its group: before one that is `changing` is written, and has
    nothing in `before`, the group is measured; before one that is `soaking` is written, its counters are read into `begun`.

    | kind | what is to be done with `names` | what is written then |
    |---|---|---|
    | `note` | nothing but the notes | |
    | `change` | preflight, endpoint out, restart, proof, the gate's command, endpoint in; of a rollout that forms beside: the twin is
    formed, proven, passes the gate's command, and is given the endpoint | of one that failed `note.failed` |
    | `soak` | wait `until` | |
    | `judge` | measure, `gate.verdict` | `note.passed`, `note.failed`, `note.not_judged` |
    | `return` | restart onto what it ran before, proof, hold; where that still stands beside it: give it the endpoint back, hold |
    `note.returned`, or `note.unreturned` |
    | `point` | see that hooks know what is the group, and not what stands beside it | |
    | `clear` | remove what stands beside the group | |
    | `end` | nothing: the run ends, well or `failed` | |

    `wave` is that of the names. `until` is in seconds of the epoch: when the soak ends, or, of an end, when to go on. `why` is told."""

    kind: Kind
    names: tuple[str, ...] = ()
    wave: int = 0
    notes: t.Mapping[str, Note] = field(default_factory=dict)
    until: float | None = None
    failed: bool = False
    why: str = ""
