# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whatever happens to a rollout, no more groups are out than may be, nobody goes before those that should show the way, and a clean run
ends: random histories over the real decision (next_turn), with ten groups as notes and states in memory.

A run is carried out as a role does it, write by write, and may fall over at any of them. `PD_WALKS=20000` makes other and more walks."""

from __future__ import annotations

import os
import typing as t
from dataclasses import dataclass, field, replace

from builders import ROOT
from hypothesis import configuration
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from walks import walked

from ansible_collections.inferops.pd.plugins.module_utils._core.base.finding import Findings
from ansible_collections.inferops.pd.plugins.module_utils._core.proof.measured import Measured
from ansible_collections.inferops.pd.plugins.module_utils._core.rollout import note as notes
from ansible_collections.inferops.pd.plugins.module_utils._core.rollout import spec, told
from ansible_collections.inferops.pd.plugins.module_utils._core.rollout.draw import draw, selected
from ansible_collections.inferops.pd.plugins.module_utils._core.rollout.next_turn import next_turn, step_seconds
from ansible_collections.inferops.pd.plugins.module_utils._core.rollout.note import BAD, SETTLED, Note
from ansible_collections.inferops.pd.plugins.module_utils._core.rollout.standing import Standing, Twin
from ansible_collections.inferops.pd.plugins.module_utils._core.rollout.turn import Run, Turn

configuration.set_hypothesis_home_dir(os.path.join(ROOT, ".build", "hypothesis"))

NAMES = tuple(f"g{number}" for number in range(1, 11))
SITES = ("fra", "ams", "lon")
HOUR = 3600.0
# No run of ten groups takes as many turns.
MOST_TURNS = 150
names_ = st.sampled_from(NAMES)
rollouts_ = st.sampled_from(["a", "b"])
moments_ = st.none() | st.integers(1, 60)
WINDOW = {"days": ["mon-fri"], "from": "08:00", "to": "16:00"}


class Fall(Exception):  # noqa: N818 - what happens to it
    """The run falls over, with the controller that carries it out."""


@dataclass
class Group:
    """A group as it is: what it runs and ran before, what its spec says, and the note of its record, as it is kept; and what the formation
    beside it runs, with whether hooks may know that."""

    site: str
    spec: int = 1
    applied: int = 0
    previous: int | None = None
    state: str = "running"
    held: str = ""
    silent: bool = False
    kept: dict[str, t.Any] | None = None
    twin: int | None = None
    told: bool = False

    @property
    def note(self) -> Note | None:
        return notes.read(self.kept, "the record")


@dataclass
class Chance:
    """What goes wrong in a run: with whom in which part of its step, and whether returns succeed."""

    fails: t.Mapping[str, str] = field(default_factory=dict)
    returns: bool = True


PARTS = ("preflight", "restart", "proof", "partly", "not at all", "gate", "too few requests")
# Some of all groups fail in a run, in about half of the runs.
chances_ = st.just(Chance()) | st.builds(
    Chance,
    fails=st.fixed_dictionaries({}, optional={name: st.sampled_from(PARTS) for name in NAMES}),
    returns=st.booleans(),
)
# Hours that pass before a run.
later_ = st.sampled_from([0.1, 0.6, 3, 9])


class RolloutHistories(RuleBasedStateMachine):
    @initialize(
        on_failure=st.sampled_from(["return", "hold", "continue"]),
        soak=st.sampled_from([0, 600, 1200, 7200]),
        limited=st.booleans(),
        windowed=st.sampled_from([False, False, True]),
        parallel=st.integers(1, 4),
        strategy=st.sampled_from(["restart", "beside"]),
    )
    def begin(self, on_failure: str, soak: int, limited: bool, windowed: bool, parallel: int, strategy: str) -> None:
        self.groups = {name: Group(SITES[number % 3]) for number, name in enumerate(NAMES)}
        # A Monday, 08:00 UTC.
        self.clock = 1767600000.0
        limit = {"max_unavailable": {"site": 1}} if limited else {}
        self.raw: dict[str, dict[str, t.Any]] = {
            "a": {
                "groups": "all",
                "waves": [
                    {"groups": ["g1"], "soak": soak},
                    {"percent": 40, "spread_by": "site", "soak": soak, "parallel": parallel, **limit},
                    {"percent": 100, "parallel": parallel, **limit},
                ],
                "on_failure": on_failure,
                **({"max_failed": 2} if on_failure == "continue" else {}),
                **({"window": WINDOW} if windowed else {}),
                "strategy": strategy,
            },
            "b": {"groups": "site=fra", "waves": [{"percent": 100, "soak": soak}], "on_failure": "hold"},
        }
        self.added = len(NAMES)
        self.read: dict[tuple[str, t.Any], spec.Rollout] = {}
        # (rollout, digest, what) that a group has been brought to, until there is a reason to do so again.
        self.done: dict[str, set[tuple[str, str, str]]] = {}

    # -- what happens -------------------------------------------------------------------------------------------------------

    @rule(
        name=names_,
        what=st.sampled_from(
            ["_lose", "_get_back", "_heal", "_edit", "_edit", "_restart_by_hand", "_release", "_remove", "_add"]
        ),
    )
    def happens_to_a_group(self, name: str, what: str) -> None:
        getattr(self, what)(name)

    @rule(soak=st.sampled_from([0, 300, 7200]), of=rollouts_)
    def the_rollout_is_edited(self, soak: int, of: str) -> None:
        self.raw[of]["waves"][-1]["soak"] = soak

    @rule(of=rollouts_, abort=st.booleans(), at=st.none() | st.integers(1, 10))
    def is_paused_or_aborted(self, of: str, abort: bool, at: int | None) -> None:
        """By a run that may fall over before it has written all."""
        self._mark(of, (lambda note: note.aborted(self.clock)) if abort else (lambda note: note.pausing(True)), at)

    @rule(of=rollouts_, later=later_, chance=chances_, at=moments_, resume=st.booleans())
    def runs(self, of: str, later: float, chance: Chance, at: int | None, resume: bool) -> None:
        self._run(of, chance, later, fall_at=at, resume=resume)

    @rule(later=later_, chance=chances_, edited=st.booleans())
    def runs_to_its_end(self, later: float, chance: Chance, edited: bool) -> None:
        for name in self.groups if edited else ():
            self._edit(name)
        self._run("a", chance, later)

    @rule(later=later_, chance=chances_)
    def is_released_and_runs(self, later: float, chance: Chance) -> None:
        """A person looks after all that failed, and there is something new to change."""
        for name in self.groups:
            self._edit(name)
            self._heal(name)
            self._release(name)
        self._run("a", chance, later, resume=True)

    @rule(later=later_, chance=chances_, turn=st.integers(2, 12), number=st.integers(0, 3))
    def loses_a_host_meanwhile(self, later: float, chance: Chance, turn: int, number: int) -> None:
        """One of those that the run has in its hands."""

        def lose() -> None:
            busy = [n for n, g in self.groups.items() if g.note is not None and g.note.state in ("changing", "soaking")]
            for name in busy[number : number + 1]:
                self._lose(name)

        self._run("a", chance, later, turn=turn, then=lose)

    @rule(later=later_, chance=chances_, turn=st.integers(1, 12), second=rollouts_, at=moments_)
    def two_runs_overlap(self, later: float, chance: Chance, turn: int, second: str, at: int | None) -> None:
        self._run("a", chance, later, turn=turn, then=lambda: self._run(second, Chance(), fall_at=at))

    # -- what must hold ------------------------------------------------------------------------------------------------------

    @invariant()
    def every_note_is_explained(self) -> None:
        for name, group in getattr(self, "groups", {}).items():
            note = group.note
            if note is not None:
                line = told.line(note)
                assert note.rollout in line, name
                assert notes.STATES[note.state] in line, name
                assert note.why in line, (name, line)
                assert note.state not in (*BAD, "held", "aborted") or note.why, (name, line)
                assert notes.read(note.to_plain(), "the record") == note

    def teardown(self) -> None:
        """Everything comes back, and the first rollout is run cleanly: it ends, whatever is left of others."""
        if not hasattr(self, "groups"):
            return
        self._mark("b", lambda note: note.aborted(self.clock))
        for name in self.groups:
            self._heal(name)
            self._release(name)
        for again in range(60):
            end = self._run("a", Chance(), resume=not again)
            assert not end.failed, end.why
            if end.until is None:
                break
            self.clock = max(self.clock, end.until) + 1
        fleet = self._fleet()
        assert end.until is None, end.why
        for name, group in self.groups.items():
            assert group.applied == group.spec, (name, group)
            assert group.twin is None, (name, group)
            assert fleet[name].note.state in SETTLED, (name, fleet[name].note)
        assert self._run("a", Chance()).kind == "end", "and the one after it changes nothing"

    # -- how a run goes ------------------------------------------------------------------------------------------------------

    def _rollout(self, of: str) -> spec.Rollout:
        key = of, self.raw[of]["waves"][-1].get("soak")
        if key not in self.read:
            findings = Findings()
            rollout = spec.read(of, self.raw[of], findings)
            assert rollout is not None, findings.items
            self.read[key] = rollout
        return self.read[key]

    def _fleet(self) -> dict[str, Standing]:
        return {
            name: Standing(
                labels={"site": group.site},
                hosts=(f"h-{name}",),
                state=group.state,
                pending=group.applied != group.spec,
                wanted=str(group.spec),
                note=group.note,
                held=group.held,
                silent=(f"h-{name}",) if group.silent else (),
                outage=300.0,
                stand="one",
                twin=Twin("two", str(group.twin), group.told, (f"h-{name}",) if group.silent else ())
                if group.twin is not None
                else None,
            )
            for name, group in self.groups.items()
        }

    def _lose(self, name: str) -> None:
        if name in self.groups:
            self.groups[name].silent, self.groups[name].state = True, "partial"

    def _get_back(self, name: str) -> None:
        if name in self.groups:
            self.groups[name].silent = False

    def _edit(self, name: str) -> None:
        if name in self.groups:
            self.groups[name].spec += 1

    def _restart_by_hand(self, name: str) -> None:
        """Whatever a rollout has with it."""
        group = self.groups.get(name)
        in_hand = group and group.twin is not None and group.note and group.note.state in notes.IN_HAND
        if group and not group.silent and not group.held and not in_hand:
            group.twin, group.told = None, False
            if group.applied != group.spec:
                group.previous, group.applied = group.applied, group.spec
            group.state = "running"

    def _remove(self, name: str) -> None:
        if name != "g1" and len(self.groups) > 5:
            self.groups.pop(name, None)

    def _add(self, name: str) -> None:
        self.added += 1
        self.groups[f"g{self.added}"] = Group(SITES[len(name) % 3])

    def _heal(self, name: str) -> None:
        if name in self.groups:
            self.groups[name].silent, self.groups[name].state = False, "running"

    def _release(self, name: str) -> None:
        group = self.groups.get(name)
        if group and group.note:
            group.held, group.kept = "", group.note.released(self.clock).to_plain()
            self.done.pop(name, None)

    def _mark(self, of: str, mark: t.Callable[[Note], Note], at: int | None = None) -> None:
        """What pause and abort write, which may fall over, too."""
        for number, group in enumerate(self.groups.values(), 1):
            if group.note is not None and group.note.rollout == of and number != at:
                group.kept = mark(group.note).to_plain()

    def _run(
        self,
        of: str,
        chance: Chance,
        later: float = 0,
        fall_at: int | None = None,
        resume: bool = False,
        turn: int | None = None,
        then: t.Callable[[], t.Any] = lambda: None,
    ) -> Turn:
        self.clock += later * HOUR
        tried: dict[tuple[str, str], int] = {}
        rollout, run = self._rollout(of), Run(began=self.clock, resume=resume, tried=tried)
        self.writes, self.fall_at = 0, fall_at
        if resume:
            self.done.clear()
        for number in range(1, MOST_TURNS):
            if number == turn:
                then()
                self.writes, self.fall_at = 0, None
            found = next_turn(rollout, self._fleet(), self.clock, run)
            assert found.why, found
            if found.kind == "end":
                return found
            for one in found.names if found.kind in ("point", "clear") else ():
                tried[found.kind, one] = tried.get((found.kind, one), 0) + 1
            try:
                self._carry_out(rollout, found, chance)
            except Fall:
                return found
        raise AssertionError(f"it does not end: {found}")

    def _write(self, name: str, note: Note) -> None:
        self.writes += 1
        self.clock += 1
        there = self.groups[name].note
        assert not notes.conflict(there, note.rollout), f"over the note of {there}"
        same = there is not None and there.of(note.rollout, note.digest)
        assert not same or (there and there.wave == note.wave), f"{name} was in wave {there}, and is in {note.wave}"
        if self.writes == self.fall_at:
            raise Fall
        self.groups[name].kept = note.to_plain()

    def _between(self) -> None:
        self.writes += 1
        if self.writes == self.fall_at:
            raise Fall

    def _carry_out(self, rollout: spec.Rollout, turn: Turn, chance: Chance) -> None:
        if turn.kind == "change":
            self._may_change(rollout, turn)
        for name, note in turn.notes.items():
            measured = note.state == "changing" and note.before is None
            self._write(name, note if not measured else _measured(note))
        if turn.kind == "soak":
            assert turn.until is not None
            assert turn.until >= self.clock
            self.clock = turn.until
        for name in turn.names if turn.kind in ("change", "judge", "return", "point", "clear") else ():
            group = self.groups[name]
            there = group.twin is not None
            beside = rollout.beside if turn.kind == "change" else there and turn.kind in ("return", "point", "clear")
            getattr(self, f"_{turn.kind}{'_beside' if beside else ''}")(rollout, name, chance)

    def _change(self, rollout: spec.Rollout, name: str, chance: Chance) -> None:
        group = self.groups[name]
        assert group.note
        self._between()
        fails = chance.fails.get(name)
        if fails == "preflight":
            self._write(name, group.note.failed(self.clock, "its image is not there"))
            return
        self.clock += 200
        group.state = "partial"
        self._between()
        if group.applied != group.spec and fails != "not at all":
            group.previous, group.applied = group.applied, group.spec
        self._between()
        # Neither is told: the group is only seen not to be what it was to be.
        if fails == "partly":
            return
        if fails == "restart":
            self._write(name, group.note.failed(self.clock, "decode-0 did not start"))
            return
        if fails == "proof":
            self._write(name, group.note.failed(self.clock, "the proof failed"))
            return
        group.state = "running"
        self.done.setdefault(name, set()).add((rollout.name, rollout.digest, str(group.spec)))

    def _change_beside(self, rollout: spec.Rollout, name: str, chance: Chance) -> None:
        """The second formation comes up beside the group, and takes over; the group is out at no time."""
        group = self.groups[name]
        assert group.note
        self._between()
        fails = chance.fails.get(name)
        if fails == "preflight":
            self._write(name, group.note.failed(self.clock, "its image is not there"))
            return
        self.clock += 200
        if group.applied != group.spec:
            assert group.twin in (None, group.spec), "what stands there is of another spec"
            group.twin, group.told = group.spec, True
            self._between()
            if fails in ("restart", "proof"):
                self._write(name, group.note.failed(self.clock, f"its {fails} failed"))
            if fails in ("restart", "proof", "partly", "not at all"):
                return
            group.previous, group.applied, group.twin, group.told = group.applied, group.spec, group.applied, False
        group.state = "running"
        self.done.setdefault(name, set()).add((rollout.name, rollout.digest, str(group.spec)))

    def _return_beside(self, rollout: spec.Rollout, name: str, chance: Chance) -> None:
        """What stands beside it gets the endpoint back."""
        group = self.groups[name]
        assert group.note
        assert group.twin is not None
        self._between()
        if not chance.returns or group.silent:
            self._write(name, group.note.unreturned(self.clock, "the gateway did not take it"))
            return
        group.applied, group.twin, group.told, group.state = group.twin, group.applied, False, "running"
        group.held = f"returned by rollout {rollout.name}"
        self._write(name, group.note.returned(self.clock))

    def _point_beside(self, rollout: spec.Rollout, name: str, chance: Chance) -> None:
        del rollout, chance
        self._between()
        self.groups[name].told = self.groups[name].silent

    def _clear_beside(self, rollout: spec.Rollout, name: str, chance: Chance) -> None:
        del rollout, chance
        group = self.groups[name]
        assert group.note
        assert not group.told, "clients may be there"
        assert group.note.state not in ("soaking", "not judged"), "it may have to be returned to"
        self._between()
        group.twin = group.twin if group.silent else None

    def _judge(self, rollout: spec.Rollout, name: str, chance: Chance) -> None:
        del rollout
        group = self.groups[name]
        assert group.note
        assert group.state == "running", "who is down has failed"
        assert group.note.soak_ends is not None
        assert group.note.soak_ends <= self.clock, "judged before its soak has ended"
        assert group.note.before == BEFORE, "what was measured before is gone"
        fails = chance.fails.get(name)
        if fails == "gate":
            self._write(name, group.note.failed(self.clock, "3 percent of the requests failed"))
        elif fails == "too few requests":
            self._write(name, group.note.not_judged(self.clock, "12 of 100 requests"))
        else:
            self._write(name, group.note.passed(self.clock))

    def _return(self, rollout: spec.Rollout, name: str, chance: Chance) -> None:
        group = self.groups[name]
        assert group.note
        assert rollout.on_failure == "return"
        if group.state == "running":
            self._has_room(rollout, [name], draw(rollout, self._fleet()))
        self._between()
        group.state = "partial"
        if not chance.returns or group.silent or group.previous is None:
            self._write(name, group.note.unreturned(self.clock, "it did not come up"))
            return
        self._between()
        # `previous` stays: what is returned is the last that was proven, however often it is tried.
        group.applied, group.state = group.previous, "running"
        group.held = f"returned by rollout {rollout.name}"
        self._write(name, group.note.returned(self.clock))

    # -- before anything is taken out ------------------------------------------------------------------------------------------

    def _may_change(self, rollout: spec.Rollout, turn: Turn) -> None:
        fleet = self._fleet()
        waves = draw(rollout, fleet)
        assert set(turn.names) <= set(selected(rollout, fleet))
        going = [name for name in turn.names if fleet[name].running]
        soaking = [n for n, w in waves.items() if w == turn.wave and fleet[n].note and fleet[n].note.state == "soaking"]
        assert len({*going, *soaking} if going else ()) <= rollout.wave(turn.wave).parallel
        if not rollout.beside:
            self._has_room(rollout, going, waves)
        mine = {name: fleet[name].note for name in waves}
        over = (*SETTLED, *BAD) if rollout.on_failure == "continue" else SETTLED
        bad = [name for name, note in mine.items() if note is not None and note.state in BAD]
        assert len(bad) <= (2 if rollout.on_failure == "continue" else 0), (
            f"{turn.names} are changed after {bad} failed"
        )
        for name in turn.names:
            group = fleet[name]
            assert not group.silent
            assert not group.held or not group.running
            assert group.note is not None
            assert group.note.of(rollout.name, rollout.digest), "of another rollout"
            if not group.running:
                assert group.note.state == "changing", "what runs badly is no rollout's to change"
                continue
            before = [one for one, wave in waves.items() if wave < waves[name]]
            assert all(mine[one] and mine[one].state in over for one in before), f"{name} goes before {before}"
            again = (rollout.name, rollout.digest, group.wanted) in self.done.get(name, ())
            assert not again or group.pending, f"{name} is changed twice"
            if rollout.window:
                closes = rollout.window.closes(self.clock)
                assert closes is not None, f"{name} is changed outside of the window"
                assert self.clock + step_seconds(group, rollout.wave(waves[name])) <= closes

    def _has_room(self, rollout: spec.Rollout, names: t.Sequence[str], waves: t.Mapping[str, int]) -> None:
        for name in names:
            for most in rollout.wave(waves[name]).max_unavailable.values():
                site = self.groups[name].site
                out = {one for one, group in self.groups.items() if group.site == site and group.state != "running"}
                out |= {one for one in names if self.groups[one].site == site}
                assert len(out) <= most, f"{out} of {site} would be out"


BEFORE = Measured(seconds=600.0, requests=1000.0, errors=1.0, ttft_p95=0.25)


def _measured(note: Note) -> Note:
    return replace(note, before=BEFORE)


RolloutHistories.TestCase.settings = walked(100, 30)
test_rollout_histories = RolloutHistories.TestCase
