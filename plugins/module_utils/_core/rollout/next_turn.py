# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a run does next with a rollout, decided from the notes and the groups as they are seen now, and from nothing else: so that whoever
runs next goes on, after an interruption, on another controller, in a new job.

A run asks `next_turn`, writes the notes of the turn into the records, does what the turn says, looks at the groups again, and asks again,
until a turn says `end`."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ..base.words import about, counted, names
from .draw import Waves, draw
from .moments import clock, lasting
from .note import BAD, SETTLED, Note, NoteState, conflict
from .seen import as_seen
from .spec import Rollout, Wave
from .standing import Fleet, Standing, Twin
from .turn import LONGEST_WAIT, MOST_TRIES, Kind, Run, Turn

# How many groups a sentence names.
_MOST = 5


def next_turn(rollout: Rollout, fleet: Fleet, now: float, run: Run) -> Turn:
    """What this run does next. `fleet` are all groups of the inventory, also those that the rollout does not select: they count for
    max_unavailable. `now` is in seconds of the epoch. Raises PdError where the rollout selects nothing."""
    waves = draw(rollout, fleet)
    blocked = _blocked(rollout, fleet, waves) or _halted(rollout, fleet, waves, now, run)
    if blocked is not None:
        return blocked
    seen = {name: as_seen(rollout, wave, fleet[name], now, run) for name, wave in waves.items()}
    fresh = {name: note for name, note in seen.items() if note is not fleet[name].note}
    if fresh:
        return Turn("note", tuple(fresh), notes=fresh, why="what the records say of the rollout is brought up to date")
    at = _At(rollout, fleet, waves, seen, now, run)
    return at.stopping() if at.stopped else at.clearing() or at.going_on()


# -- before anything -------------------------------------------------------------------------------------------------------------------


def _blocked(rollout: Rollout, fleet: Fleet, waves: Waves) -> Turn | None:
    """What no run of this rollout may go on beside."""
    damaged = [f"{name}: {fleet[name].damaged}" for name in waves if fleet[name].damaged]
    others = {name: conflict(fleet[name].note, rollout.name) for name in waves}
    taken = [f"{name}: {why}" for name, why in others.items() if why]
    if damaged or taken:
        return Turn("end", failed=True, why=". ".join((damaged + taken)[:_MOST]))
    return None


def _halted(rollout: Rollout, fleet: Fleet, waves: Waves, now: float, run: Run) -> Turn | None:
    """A rollout that a person has paused or aborted, and not resumed. An abort that was interrupted is finished."""
    notes = {name: fleet[name].note for name in waves}
    # What is paused stays so when the rollout is edited; a changed one is none that was aborted.
    paused = {
        name: note for name, note in notes.items() if note is not None and note.paused and note.rollout == rollout.name
    }
    mine = {name: note for name, note in notes.items() if note is not None and note.of(rollout.name, rollout.digest)}
    if run.resume:
        fresh = {name: note.pausing(False) for name, note in paused.items()}
        return Turn("note", tuple(fresh), notes=fresh, why="it goes on") if fresh else None
    if any(note.state == "aborted" for note in mine.values()):
        fresh = {name: note.aborted(now) for name, note in mine.items() if note.aborted(now) is not note}
        if fresh:
            return Turn("note", tuple(fresh), notes=fresh, why="it was aborted")
        left = _At(rollout, fleet, waves, mine, now, run).clearing()
        return left or Turn("end", failed=True, why="it was aborted. To begin it again: -e pd_rollout_resume=true")
    if paused:
        return Turn("end", why="it is paused. To go on: -e pd_rollout_resume=true")
    return None


# -- the decision ----------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _At:
    """Where a rollout is: what all notes say, each up to date."""

    rollout: Rollout
    fleet: Fleet
    waves: Waves
    notes: t.Mapping[str, Note]
    now: float
    run: Run

    def having(self, *states: NoteState) -> list[str]:
        """Groups by their notes, in the order in which they are changed."""
        return [name for name, note in self.notes.items() if note.state in states]

    def wave(self, name: str) -> Wave:
        return self.rollout.wave(self.waves[name])

    @property
    def stopped(self) -> bool:
        bad = self.having(*BAD)
        return len(bad) > (self.rollout.max_failed if self.rollout.on_failure == "continue" else 0)

    def told_of_bad(self) -> str:
        bad = self.having(*BAD)
        told = [f"{name} {_SAID[self.notes[name].state]}{_because(self.notes[name].why)}" for name in bad[:_MOST]]
        return "; ".join(told) + (f"; and {len(bad) - _MOST} more" if len(bad) > _MOST else "")

    # -- a rollout that has stopped ------------------------------------------------------------------------------------------

    def stopping(self) -> Turn:
        """Nobody else is changed. What has begun is settled: the rest is held, what failed is returned, what soaks is judged."""
        fresh = {**self._interrupted(), **self._rest()}
        if fresh:
            return Turn("note", tuple(fresh), notes=fresh, why=f"{self.told_of_bad()}: the rest is held")
        back = self._to_return()
        if back:
            return Turn("return", back, self.waves[back[0]], why=self.told_of_bad())
        return self.clearing() or self.settling() or Turn("end", failed=True, why=self._end_of_a_stop())

    def _rest(self) -> dict[str, Note]:
        names_ = self.having("planned")
        return {name: self.notes[name].held(self.now, f"the rollout stopped: {self.told_of_bad()}") for name in names_}

    def _interrupted(self) -> dict[str, Note]:
        """What was being changed when a run was interrupted: nothing of it has happened yet, or it has failed like the others."""
        told = {}
        for name in self.having("changing"):
            group, note = self.fleet[name], self.notes[name]
            if group.running and group.pending:
                told[name] = note.held(self.now, f"the rollout stopped before it was changed: {self.told_of_bad()}")
            else:
                told[name] = note.failed(self.now, f"it was interrupted while it was changed, and is {group.state}")
        return told

    def _to_return(self) -> tuple[str, ...]:
        """Which of those that failed are put back now: no more of a place at a time than may be out. One that still runs what it ran has
        nothing to be put back to, and a return that failed is tried again by the next run."""
        if self.rollout.on_failure != "return":
            return ()
        chosen: list[str] = []
        for name in self.having("failed"):
            group, note = self.fleet[name], self.notes[name]
            again = note.tried and note.since >= self.run.began
            # One that something newer was formed beside, or was to be, runs what it ran before, however it does.
            kept = group.twin.newer if group.twin is not None else self.rollout.beside and group.pending
            if again or kept or _stays(group):
                continue
            if group.twin is not None:
                # What it ran before stands, and gets its endpoint back: nothing stops for it, and what it runs now may be anyhow.
                if not group.twin.silent:
                    return (name,)
                continue
            if group.silent or group.no_return:
                continue
            if group.out or not self._full(name, [*chosen, *self._out()]):
                chosen.append(name)
        return tuple(chosen)

    def _end_of_a_stop(self) -> str:
        left = [name for name in self.having("failed") if not _stays(self.fleet[name])]
        why = [self.told_of_bad()]
        if self.rollout.on_failure == "return" and left:
            why += [f"{name} could not be returned{_because(self._no_return(name))}" for name in left[:_MOST]]
        held = self.having("held")
        why += [f"{about(held, 'is held', _MOST)}"] if held else []
        return "; ".join(why) + ". " + self._way_out()

    def _no_return(self, name: str) -> str:
        group = self.fleet[name]
        if group.silent:
            return about(group.silent, "does not answer")
        if group.pending and self.rollout.beside:
            return f"it runs what it ran before, and is {group.state}"
        return group.no_return or ("" if self.notes[name].tried else "max_unavailable leaves it no room")

    def _way_out(self) -> str:
        failed = self.having("failed", "returned")
        if not failed:
            return "Send it requests and run this again: it soaks anew. Or write gate.min_requests: 0"
        return f"When the cause is gone: -e pd_release={','.join(failed)}, and run this again"

    # -- what stands beside a group ------------------------------------------------------------------------------------------

    def clearing(self) -> Turn | None:
        """What stands beside a group and has no part in what comes next is removed; before that hooks are seen to know the group."""
        spare = [name for name in self.notes if self._is_spare(name)]
        told = [name for name in spare if self._twin(name).told]
        kinds: tuple[tuple[Kind, list[str], str], ...] = (
            ("point", told, "hooks are told of what serves, and of nothing else"),
            ("clear", [name for name in spare if name not in told], "what stands beside it is removed"),
        )
        for kind, among, why in kinds:
            mine = tuple(name for name in among if self.run.tried.get((kind, name), 0) < MOST_TRIES)
            if mine:
                return Turn(kind, mine, self.waves[mine[0]], why=f"{names(mine, _MOST)}: {why}")
        return None

    def _twin(self, name: str) -> Twin:
        return self.fleet[name].twin or Twin("")

    def _uncleared(self) -> list[str]:
        return [name for name in self.notes if self._is_spare(name)]

    def _is_spare(self, name: str) -> bool:
        """Whether nothing can come of what stands beside a group any more. While it soaks, what it ran before can be returned to; and
        what failed before it had clients is left for somebody to look at, unless it is to be returned."""
        group, state = self.fleet[name], self.notes[name].state
        if group.twin is None or state in ("soaking", "not judged"):
            return False
        if state == "changing":
            going = self.rollout.beside and group.twin.revision == group.wanted
            return group.pending and not going
        if state == "failed":
            return (group.twin.newer or _stays(group)) and self.stopped and self.rollout.on_failure == "return"
        return True

    # -- one that goes on ----------------------------------------------------------------------------------------------------

    def going_on(self) -> Turn:
        waits = {name: self.notes[name].planned(self.now, self.waves[name]) for name in self.having("held")}
        if waits:
            return Turn("note", tuple(waits), notes=waits, why="what was held goes on")
        # Out already, whatever its wave: the sooner it is back the better.
        urgent = [name for name in self.having("changing") if not self.fleet[name].running]
        for name in urgent:
            if not self._hindrance(name, ()):
                return self._change([name])
        left = [name for name in self.notes if not self._over(name)]
        if not left:
            return Turn("end", why=self._end(), failed=bool(self._uncleared()))
        mine = [name for name in left if self.waves[name] == self.waves[left[0]]]
        due = self._due(mine)
        return due or self._step(mine, urgent) or self.settling() or self._nothing_to_do(mine)

    def settling(self) -> Turn | None:
        """What soaks is judged when its soak ends, which is waited for where it ends soon."""
        soaking = self.having("soaking")
        due = self._due(soaking)
        if due is not None or not soaking:
            return due
        first = min(soaking, key=self._soak_ends)
        until, wave = self._soak_ends(first), self.waves[first]
        mine = tuple(name for name in soaking if self._soak_ends(name) == until)
        if until - self.notes[first].since <= LONGEST_WAIT and (self.run.ends is None or until <= self.run.ends):
            return Turn("soak", mine, wave, until=until, why=f"wave {wave}: {about(mine, 'is watched', _MOST)}")
        why = f"wave {wave}: the soak of {names(mine, _MOST)} ends at {clock(until)}; run this again then"
        return Turn("end", mine, wave, until=until, why=why, failed=self.stopped)

    def _due(self, among: t.Iterable[str]) -> Turn | None:
        due = tuple(n for n in among if self.notes[n].state == "soaking" and self._soak_ends(n) <= self.now)
        return Turn("judge", due, self.waves[due[0]], why=f"{about(due, 'has', _MOST)} ended the soak") if due else None

    def _soak_ends(self, name: str) -> float:
        return self.notes[name].soak_ends or 0.0

    def _over(self, name: str) -> bool:
        """Whether its wave does not wait for it any more; a failure is not waited for where the rollout goes on."""
        return self.notes[name].state in (*SETTLED, *BAD)

    def _step(self, mine: t.Sequence[str], stuck: t.Sequence[str]) -> Turn | None:
        """The next groups of a wave that may begin: as many as may be in their step at a time. While one is stuck in its change nobody
        begins."""
        room = self.rollout.wave(self.waves[mine[0]]).parallel
        room -= sum(1 for name in mine if self.notes[name].state == "soaking")
        if stuck:
            return None
        chosen: list[str] = []
        for state in ("changing", "planned"):
            for name in mine:
                fits = len(chosen) < room and self.notes[name].state == state
                if fits and not self._hindrance(name, chosen):
                    chosen.append(name)
        return self._change(chosen) if chosen else None

    def _change(self, chosen: t.Sequence[str]) -> Turn:
        wave = self.waves[chosen[0]]
        run = self.run.began
        notes = {name: self.notes[name].changing(self.now, self.fleet[name].wanted, run) for name in chosen}
        return Turn("change", tuple(chosen), wave, notes, why=f"wave {wave}: {about(chosen, 'is changed', _MOST)}")

    def _nothing_to_do(self, mine: t.Sequence[str]) -> Turn:
        """Nothing soaks, and nobody may begin: why, and whether that goes by itself."""
        waiting = [name for name in self.notes if self.notes[name].state == "changing" and not self.fleet[name].running]
        waiting = waiting or [name for name in mine if self.notes[name].state in ("planned", "changing")]
        hindered = [(name, self._hindrance(name, ())) for name in waiting]
        times = [h.until for _name, h in hindered if h is not None and h.until is not None]
        why = "; ".join(f"{name}: {h.why}" for name, h in hindered[:_MOST] if h is not None)
        later = all(h is not None and h.later for _name, h in hindered)
        until = min(times, default=None)
        told = f"wave {self.waves[waiting[0]]} goes on at {clock(until)}: {why}" if until is not None else why
        return Turn("end", tuple(waiting), self.waves[waiting[0]], until=until, failed=not later, why=told)

    def _end(self) -> str:
        changed, same = self.having("passed"), self.having("skipped")
        told = [f"{counted(len(changed), 'group')} changed"]
        told += [f"{len(same)} had nothing to change"] if same else []
        uncleared = self._uncleared()
        told += (
            [f"what stands beside {names(uncleared, _MOST)} could not be removed: run this again"] if uncleared else []
        )
        bad = self.told_of_bad()
        return ", ".join(told) + (f"; tolerated: {bad}" if bad else "")

    # -- what keeps a group from being changed now ---------------------------------------------------------------------------

    def _hindrance(self, name: str, chosen: t.Sequence[str]) -> _Hindrance | None:
        """`chosen` are those that begin with it."""
        group = self.fleet[name]
        if group.silent:
            return _Hindrance(about(group.silent, "does not answer"))
        if group.held and name not in self.run.release:
            return _Hindrance(f"it is held ({group.held}): -e pd_release={name}")
        if not group.running:
            # What this rollout has taken out is brought back.
            return None if self.notes[name].state == "changing" else _Hindrance(not_running(name, group))
        if self.rollout.beside:
            # It serves all the time: nobody is out for it.
            apart = group.no_hook or group.no_room
            return _Hindrance(apart) if apart else self._no_time(name)
        full = self._full(name, [*chosen, *self._out(), *self.having("failed")])
        return _Hindrance(full) if full else self._no_time(name)

    def _out(self) -> list[str]:
        """Who is out now. Of another rollout also who is about to be; what an interrupted run of this one was about to change serves on."""
        return [n for n, group in self.fleet.items() if not group.running or (group.out and n not in self.notes)]

    def _full(self, name: str, out: t.Iterable[str]) -> str:
        """Why there is no room for one more to be out, where `out` are."""
        others = set(out) - {name}
        for label, most in self.wave(name).max_unavailable.items():
            value = self.fleet[name].labels.get(label)
            alike = sorted(one for one in others if self.fleet[one].labels.get(label) == value)
            if len(alike) >= most:
                return (
                    f"max_unavailable {label}: {most} leaves no room in {label}={value}, where {names(alike, _MOST)}"
                    f" {'is' if len(alike) == 1 else 'are'} out or failed"
                )
        return ""

    def _no_time(self, name: str) -> _Hindrance | None:
        """A step that would not end in the window, or before this run must, does not begin."""
        window, takes = self.rollout.window, step_seconds(self.fleet[name], self.wave(name))
        told = f"its step takes about {lasting(takes)}"
        if window is not None:
            closes = window.closes(self.now)
            if closes is None:
                return _Hindrance(f"the window is {window.told()}", window.opens(self.now), True)
            if self.now + takes > closes:
                return _Hindrance(f"{told}, and the window closes at {clock(closes)}", window.opens(self.now), True)
        if self.run.ends is not None and self.now + takes > self.run.ends:
            return _Hindrance(f"{told}, and this run ends at {clock(self.run.ends)}; run this again", None, True)
        return None


class _Hindrance(t.NamedTuple):
    """Why a group cannot be changed now; `until` is when it may, and `later` says that waiting is all that it needs."""

    why: str
    until: float | None = None
    later: bool = False


_SAID: t.Mapping[NoteState, str] = {
    "failed": "has failed",
    "returned": "has failed and was returned",
    "not judged": "was not judged",
}


def step_seconds(group: Standing, wave: Wave) -> float:
    """For how long a step of a group is expected to last: what it is out, and its soak where that is waited for."""
    return group.estimate + (wave.soak if wave.soak <= LONGEST_WAIT else 0)


def not_running(name: str, group: Standing) -> str:
    """Why a group is not changed that does not run, and what to do."""
    message = f" ({group.message})" if group.message else ""
    return f"it is {group.state}{message}: ansible-playbook inferops.pd.deploy -e pd_group={name} brings it back"


def _stays(group: Standing) -> bool:
    """Whether it runs what it ran before: nothing of its change has happened, or somebody has put it back."""
    return group.running and group.pending


def _because(why: str) -> str:
    return f" ({why})" if why else ""
