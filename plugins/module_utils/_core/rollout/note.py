# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The note: how far a rollout has come with a group, as the group's record keeps it under `rollout`. It is all that a run knows of the runs
before it."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, replace

from ..base.checked import Checked, DamagedError
from ..base.printable import printable
from ..proof.measured import Measured, Readings

NoteState = t.Literal[
    "planned", "changing", "soaking", "passed", "not judged", "failed", "returned", "held", "aborted", "skipped"
]
# What each says of a group, as a person reads it.
STATES: t.Mapping[NoteState, str] = {
    "planned": "waits for its turn",
    "changing": "is being changed",
    "soaking": "is changed, and is watched",
    "passed": "is changed, and has passed",
    "not judged": "is changed, and had too few requests to be judged",
    "failed": "has failed",
    "returned": "has failed, and runs again what it ran before",
    "held": "waits, since the rollout has stopped",
    "aborted": "was left as it was when the rollout was aborted",
    "skipped": "had nothing to change",
}
# Another rollout may have the group.
ENDED: tuple[NoteState, ...] = ("passed", "skipped", "returned", "aborted")
# What lets a wave pass.
SETTLED: tuple[NoteState, ...] = ("passed", "skipped")
# Of a group that stands twice, either of the two may be what goes on.
IN_HAND: tuple[NoteState, ...] = ("changing", "soaking", "failed", "not judged")
# What stops a rollout, but where it goes on.
BAD: tuple[NoteState, ...] = ("failed", "returned", "not judged")
_MOST_WAVES = 10_000
# Characters of why.
_LONGEST = 1000


@dataclass(frozen=True)
class Note:
    """`rollout` and `digest` say which rollout, `wave` is counted from 1. `wanted` is what the group was to be changed to
    (Standing.wanted). `since` is when it came to this state, `soak_ends` when its soak does, in seconds of the epoch. `before` is what was
    measured before it stopped, `begun` its counters when the soak began (None: they began at zero). `tried`: a return was tried and did
    not succeed. `run` is when the run had begun that changes it, by which that run knows what it has done itself."""

    rollout: str
    digest: str
    wave: int
    state: NoteState = "planned"
    since: float = 0.0
    wanted: str = ""
    soak_ends: float | None = None
    before: Measured | None = None
    begun: Readings | None = None
    why: str = ""
    paused: bool = False
    tried: bool = False
    run: float = 0.0

    @property
    def ended(self) -> bool:
        """Whether the rollout is done with the group, so that another may have it."""
        return self.state in ENDED

    def of(self, rollout: str, digest: str) -> bool:
        return (self.rollout, self.digest) == (rollout, digest)

    # -- what becomes of it --------------------------------------------------------------------------------------------------

    def changing(self, now: float, wanted: str, run: float = 0.0) -> Note:
        """Its change begins, by a run. What was measured before an earlier try still is what it was before: `before` stays."""
        return self._to("changing", now, wanted=wanted, soak_ends=None, begun=None, run=run)

    def soaking(self, now: float, soak: float) -> Note:
        """It runs what is wanted, and its soak of so many seconds begins. Add its counters to `begun` before this is written."""
        return self._to("soaking", now, soak_ends=now + soak, begun=None)

    def passed(self, now: float, why: str = "") -> Note:
        """The gate is passed. `why` is what is to be said of it all the same."""
        return self._to("passed", now, why, begun=None)

    def not_judged(self, now: float, why: str) -> Note:
        return self._to("not judged", now, why, begun=None)

    def failed(self, now: float, why: str) -> Note:
        """Its preflight, restart, proof, gate or soak did not end well."""
        return self._to("failed", now, why, begun=None)

    def unreturned(self, now: float, why: str) -> Note:
        """It has failed, and its return has, too: `why` of both."""
        return self._to("failed", now, f"{self.why}; {why}" if self.why and why not in self.why else why, tried=True)

    def returned(self, now: float) -> Note:
        """It runs again what it ran before. Why it failed stays told."""
        return self._to("returned", now, self.why)

    def held(self, now: float, why: str) -> Note:
        return self._to("held", now, why)

    def aborted(self, now: float) -> Note:
        """The rollout is given up: what it has done with the group stays told."""
        told = f"it was {self.state}" + (f" ({self.why})" if self.why else "")
        return self if self.ended else self._to("aborted", now, told)

    def planned(self, now: float, wave: int) -> Note:
        """It is to be changed, for the first time or anew."""
        return self._to("planned", now, wave=wave, soak_ends=None, begun=None)

    def released(self, now: float) -> Note:
        """A person lets it be tried again, by pd_release. One that runs what was wanted, and has failed its gate, soaks anew."""
        if self.state == "failed":
            return self._to("changing", now, begun=None, soak_ends=None, run=0.0)
        return self.planned(now, self.wave) if self.state == "returned" else self

    def pausing(self, paused: bool) -> Note:
        return replace(self, paused=paused)

    def _to(self, state: NoteState, now: float, why: str = "", **more: t.Any) -> Note:
        return replace(self, **{"state": state, "since": now, "why": why, "tried": False, **more})

    # -- how it is kept ------------------------------------------------------------------------------------------------------

    def to_plain(self) -> dict[str, t.Any]:
        """As the record keeps it; what says nothing is left out."""
        told: dict[str, t.Any] = {
            "rollout": self.rollout,
            "digest": self.digest,
            "wave": self.wave,
            "state": self.state,
        }
        told |= {
            "since": self.since,
            "wanted": self.wanted,
            "why": self.why,
            "paused": self.paused,
            "tried": self.tried,
        }
        told |= {"soak_ends": self.soak_ends, "run": self.run if self.state == "changing" else None}
        told |= {"before": self.before.to_plain() if self.before is not None else None}
        told |= {"begun": self.begun.to_plain() if self.begun is not None else None}
        return {key: one for key, one in told.items() if one not in (None, "", False)}


def read(raw: t.Any, where: str) -> Note | None:
    """The note of a record: its value under `rollout`, None where there is none. Raises DamagedError that names `where`."""
    if raw is None:
        return None
    value = Checked(raw, where, "rollout.")
    state = value.text("state")
    if state not in STATES:
        raise DamagedError(where, "rollout.state is none that this version knows")
    return Note(
        rollout=value.name("rollout"),
        digest=value.name("digest"),
        wave=value.number("wave", 1, _MOST_WAVES),
        state=t.cast(NoteState, state),
        since=value.moment("since"),
        wanted=value.said("wanted"),
        soak_ends=None if value.raw.get("soak_ends") is None else value.moment("soak_ends"),
        before=Measured.read(value.within("before")) if value.raw.get("before") is not None else None,
        begun=Readings.read(value.within("begun")) if value.raw.get("begun") is not None else None,
        why=printable(value.said("why"), _LONGEST),
        paused=bool(value.raw.get("paused")),
        tried=bool(value.raw.get("tried")),
        run=value.moment("run"),
    )


def conflict(there: Note | None, rollout: str) -> str:
    """Why a rollout may not write its note over `there`, the one that the record has now; empty when it may."""
    if there is None or there.ended or there.rollout == rollout:
        return ""
    return (
        f"rollout {there.rollout} has it (wave {there.wave}, {there.state}); let that end, or give it up with"
        f" inferops.pd.rollout -e pd_rollout={there.rollout} -e pd_rollout_abort=true"
    )
