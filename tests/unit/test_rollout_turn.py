# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a run does next with a rollout: who is in which wave, what goes first, what waits, and what is refused. What chance may do to all
of it is in test_rollout_histories.py."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ansible_collections.inferops.pd.plugins.module_utils._core.base.checked import DamagedError
from ansible_collections.inferops.pd.plugins.module_utils._core.base.errors import PdError
from ansible_collections.inferops.pd.plugins.module_utils._core.base.finding import Findings
from ansible_collections.inferops.pd.plugins.module_utils._core.facts.stands import Stands
from ansible_collections.inferops.pd.plugins.module_utils._core.proof.measured import Measured, Reading, Readings
from ansible_collections.inferops.pd.plugins.module_utils._core.rollout import note as notes
from ansible_collections.inferops.pd.plugins.module_utils._core.rollout import spec, told, twice
from ansible_collections.inferops.pd.plugins.module_utils._core.rollout.draw import draw
from ansible_collections.inferops.pd.plugins.module_utils._core.rollout.next_turn import next_turn
from ansible_collections.inferops.pd.plugins.module_utils._core.rollout.note import Note
from ansible_collections.inferops.pd.plugins.module_utils._core.rollout.refusals import refuse
from ansible_collections.inferops.pd.plugins.module_utils._core.rollout.standing import Standing, Twin
from ansible_collections.inferops.pd.plugins.module_utils._core.rollout.turn import Run
from ansible_collections.inferops.pd.plugins.module_utils._core.rollout.work import Work, of_verb

NOW = 1767600000.0  # Monday, 2026-01-05, 08:00 UTC
SITES = ("fra", "ams")
WAVES = [
    {"groups": ["g1"], "soak": 600},
    {"percent": 50, "spread_by": "site", "max_unavailable": {"site": 1}, "soak": 600, "parallel": 2},
    {"percent": 100, "parallel": 4},
]


def rollout(**keys) -> spec.Rollout:
    findings = Findings()
    found = spec.read("r", {"groups": "all", "waves": WAVES, **keys}, findings)
    assert found is not None, findings.items
    return found


def fleet(number: int = 10, **changes) -> dict[str, Standing]:
    """Groups g1 to g10 with something to change, in two sites by turns; `changes` are by name."""
    made = {}
    for n in range(1, number + 1):
        one = Standing({"site": SITES[n % 2]}, (f"h{n}",), pending=True, wanted="new", outage=240.0)
        made[f"g{n}"] = replace(one, **changes.get(f"g{n}", {}))
    return made


def noted(of: spec.Rollout, groups: dict[str, Standing], **states) -> dict[str, Standing]:
    """The same groups, each with its note: planned, or as `states` says by name. One that was changed runs what was wanted."""
    waves = draw(of, groups)
    found = {}
    for name, group in groups.items():
        note = Note("r", of.digest, waves[name], since=NOW - 60)
        state = states.get(name, "planned")
        if state != "planned":
            ends = NOW + 540 if state == "soaking" else None
            why = "it broke" if state in ("failed", "returned", "not judged") else ""
            note = replace(note, state=state, wanted="new", soak_ends=ends, why=why)
        done = state in ("soaking", "passed", "failed", "not judged")
        found[name] = replace(group, note=note, pending=group.pending and not done)
    return found


def turn(of: spec.Rollout, groups: dict[str, Standing], now: float = NOW, **run):
    return next_turn(of, groups, now, Run(**{"began": NOW - 30, **run}))


# -- waves ------------------------------------------------------------------------------------------------------------------------


def test_percentages_are_of_all_and_spread_over_the_values_of_a_label():
    waves = draw(rollout(), fleet())
    assert [list(waves.values()).count(number) for number in (1, 2, 3)] == [1, 4, 5]
    second = [name for name, wave in waves.items() if wave == 2]
    # g1 is in ams: of five groups three are in one of the two sites, and two in the other.
    assert sorted([fleet()[name].labels["site"] for name in second]) in (
        ["ams", "ams", "fra", "fra"],
        ["ams", "fra", "fra", "fra"],
    )
    with_first = [fleet()[name].labels["site"] for name in [*second, "g1"]]
    assert abs(with_first.count("fra") - with_first.count("ams")) == 1


def test_the_same_rollout_draws_the_same_whatever_order_the_inventory_has():
    groups = fleet()
    backwards = dict(reversed(groups.items()))
    assert draw(rollout(), groups) == draw(rollout(), backwards)
    assert draw(rollout(gate={"command": ["/bin/true"]}), groups) != draw(rollout(), groups), (
        "another rollout draws anew"
    )


def test_what_was_drawn_stays_and_who_comes_later_is_in_no_wave_that_is_over():
    of = rollout()
    before = draw(of, fleet())
    begun = {name: "passed" for name, wave in before.items() if wave == 1} | {
        name: "soaking" for name, wave in before.items() if wave == 2
    }
    groups = noted(of, fleet(), **begun)
    after = draw(of, {**groups, **{f"g{n}": fleet(n)[f"g{n}"] for n in range(11, 17)}})
    assert {name: after[name] for name in before} == before
    assert set(after.values()) == {1, 2, 3}
    assert all(after[f"g{n}"] >= 2 for n in range(11, 17))


def test_a_wave_may_be_of_labels_and_globs():
    of = rollout(waves=[{"groups": "site=fra"}, {"groups": ["g1", "g3*"]}, {"percent": 100}])
    waves = draw(of, fleet(5))
    assert {n: w for n, w in waves.items() if w < 3} == {"g2": 1, "g4": 1, "g1": 2, "g3": 2}
    with pytest.raises(PdError, match=r"pd_rollouts.r.waves\[0\].groups: No group has site=lon"):
        draw(rollout(waves=[{"groups": "site=lon"}, {"percent": 100}]), fleet(5))


# -- the way through --------------------------------------------------------------------------------------------------------------


def test_all_groups_are_noted_before_the_first_is_changed():
    of = rollout()
    groups = fleet(g9={"pending": False})
    first = turn(of, groups)
    assert (first.kind, len(first.names)) == ("note", 10)
    assert {note.state for name, note in first.notes.items() if name != "g9"} == {"planned"}
    assert first.notes["g9"].state == "skipped"
    then = turn(of, {name: replace(one, note=first.notes[name]) for name, one in groups.items()})
    assert (then.kind, then.names, then.wave) == ("change", ("g1",), 1)
    assert (then.notes["g1"].state, then.notes["g1"].wanted, then.notes["g1"].since) == ("changing", "new", NOW)


def test_a_group_that_is_changed_soaks_is_judged_and_lets_the_next_wave_begin():
    of = rollout()
    groups = noted(of, fleet(), g1="changing")
    groups["g1"] = replace(groups["g1"], pending=False)
    soaks = turn(of, groups)
    assert (soaks.kind, soaks.notes["g1"].state, soaks.notes["g1"].soak_ends) == ("note", "soaking", NOW + 600)
    groups["g1"] = replace(groups["g1"], note=soaks.notes["g1"])
    waits = turn(of, groups)
    assert (waits.kind, waits.names, waits.until) == ("soak", ("g1",), NOW + 600)
    judged = turn(of, groups, NOW + 600)
    assert (judged.kind, judged.names) == ("judge", ("g1",))
    groups["g1"] = replace(groups["g1"], note=groups["g1"].note.passed(NOW + 600))
    second = turn(of, groups, NOW + 600)
    assert (second.kind, second.wave, len(second.names)) == ("change", 2, 2)
    assert {groups[name].labels["site"] for name in second.names} == set(SITES), "one of a site may be out"


def test_a_group_that_was_interrupted_is_changed_again_before_anybody_else_whatever_the_window():
    of = rollout(window={"days": ["sun"], "from": "02:00", "to": "04:00"})
    last = next(name for name, wave in draw(of, fleet()).items() if wave == 3)
    groups = noted(
        of, fleet(**{last: {"state": "partial", "message": "no router"}}), g1="soaking", **{last: "changing"}
    )
    found = turn(of, groups)
    assert (found.kind, found.names) == ("change", (last,))
    # One of which nothing has happened yet waits like the others.
    groups = noted(of, fleet(), g1="changing")
    assert turn(of, groups).kind == "end"


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (
            {"what": ("the image of h1 is another",)},
            "it was changed, and something is still to be changed (the image of h1 is another)",
        ),
        ({"state": "partial", "message": "no router"}, "it was changed, and is partial: no router"),
    ],
)
def test_what_a_run_has_changed_and_is_not_what_it_was_to_be_is_not_changed_for_ever(change, why):
    of = rollout()
    groups = noted(of, fleet(g1=change))
    groups["g1"] = replace(groups["g1"], note=groups["g1"].note.changing(NOW, "new", NOW - 30))
    found = turn(of, groups)
    assert (found.kind, found.notes["g1"].state, found.notes["g1"].why) == ("note", "failed", why)
    assert turn(of, groups, began=NOW + 1).kind == "change", "a later run does not know what was done"


def test_room_is_left_for_what_is_out_for_any_reason():
    of = rollout(waves=[{"percent": 100, "max_unavailable": {"site": 1}, "parallel": 10}])
    groups = noted(of, fleet(g2={"state": "partial"}, g3={"state": "partial"}))
    found = turn(of, groups)
    assert (found.kind, found.failed) == ("end", True)
    assert "g2: it is partial: ansible-playbook inferops.pd.deploy -e pd_group=g2 brings it back" in found.why
    groups = noted(of, fleet(g2={"state": "partial"}))
    assert [groups[name].labels["site"] for name in turn(of, groups).names] == ["ams"]


def test_who_was_about_to_be_changed_and_serves_takes_nobodys_room():
    of = rollout(waves=[{"percent": 50, "max_unavailable": {"site": 1}}, {"percent": 100}])
    last = [name for name, wave in draw(of, fleet()).items() if wave == 2]
    groups = noted(of, fleet(), **dict.fromkeys(last, "changing"))
    assert (turn(of, groups).kind, turn(of, groups).wave) == ("change", 1)
    # Of another rollout it is about to be out.
    other = Note("s", "1" * 16, 1, "changing", NOW, "new")
    few = rollout(groups="g1,g2", waves=[{"percent": 100, "max_unavailable": {"site": 1}}])
    mine = noted(few, fleet(2), g1="passed")
    groups = {**fleet(4), **mine, "g4": replace(fleet(4)["g4"], note=other)}
    found = turn(few, groups)
    assert (found.kind, found.failed) == ("end", True)
    assert "where g4 is out or failed" in found.why


def test_soaking_groups_take_a_place_of_those_that_go_at_a_time():
    of = rollout(waves=[{"percent": 100, "parallel": 3, "soak": 600}])
    groups = noted(of, fleet(), g1="soaking", g2="soaking")
    assert len(turn(of, groups).names) == 1
    groups = noted(of, fleet(), g1="soaking", g2="soaking", g3="soaking")
    assert turn(of, groups).kind == "soak"


def test_a_soak_of_more_than_half_an_hour_is_judged_by_the_next_run():
    of = rollout(waves=[{"groups": ["g1"], "soak": 7200}, {"percent": 100}])
    groups = noted(of, fleet(), g1="soaking")
    groups["g1"] = replace(groups["g1"], note=replace(groups["g1"].note, soak_ends=NOW + 7140))
    found = turn(of, groups)
    assert (found.kind, found.failed, found.until) == ("end", False, NOW + 7140)
    assert "run this again then" in found.why
    assert turn(of, groups, NOW + 7140).kind == "judge"


def test_a_run_that_must_end_begins_nothing_that_it_cannot_end():
    groups = noted(rollout(), fleet())
    found = turn(rollout(), groups, ends=NOW + 700)
    assert (found.kind, found.failed) == ("end", False)
    assert "14 minutes, and this run ends at" in found.why
    assert turn(rollout(), groups, ends=NOW + 900).kind == "change"


@pytest.mark.parametrize(
    ("opens", "kind", "until"),
    [
        ({"from": "07:00", "to": "16:00"}, "change", None),
        # A step is 4 minutes and the soak.
        ({"from": "07:00", "to": "08:10"}, "end", NOW + 23 * 3600),
        ({"from": "09:00", "to": "16:00"}, "end", NOW + 3600),
        ({"from": "09:00", "to": "16:00", "days": ["tue"]}, "end", NOW + 25 * 3600),
    ],
)
def test_a_step_that_would_not_end_in_the_window_does_not_begin(opens, kind, until):
    of = rollout(window=opens)
    found = turn(of, noted(of, fleet()))
    assert (found.kind, found.until, found.failed) == (kind, until, False)
    assert kind == "change" or "window" in found.why


def test_it_ends_when_all_have_passed_or_had_nothing_to_change():
    of = rollout()
    states = dict.fromkeys(fleet(), "passed") | {"g2": "skipped"}
    groups = noted(of, fleet(g2={"pending": False}), **states)
    found = turn(of, groups)
    assert (found.kind, found.failed, found.why) == ("end", False, "9 groups changed, 1 had nothing to change")


# -- failures ---------------------------------------------------------------------------------------------------------------------


def test_a_failure_holds_the_rest_and_returns_the_one():
    of = rollout()
    groups = noted(of, fleet(), g1="failed")
    held = turn(of, groups)
    assert (held.kind, len(held.names)) == ("note", 9)
    assert {note.state for note in held.notes.values()} == {"held"}
    assert "g1 has failed (it broke)" in held.notes["g2"].why
    groups |= {name: replace(groups[name], note=note) for name, note in held.notes.items()}
    back = turn(of, groups)
    assert (back.kind, back.names) == ("return", ("g1",))
    note = groups["g1"].note.returned(NOW)
    groups["g1"] = replace(groups["g1"], note=note, pending=True, held="returned")
    end = turn(of, groups)
    assert (end.kind, end.failed) == ("end", True)
    assert end.why.startswith("g1 has failed and was returned (it broke); ")
    assert "are held. When the cause is gone: -e pd_release=g1, and run this again" in end.why
    # It is the same for whoever runs next, until a person says otherwise.
    assert turn(of, groups, NOW + 9999, began=NOW + 9990) == end
    groups["g1"] = replace(groups["g1"], note=note.released(NOW))
    goes_on = turn(of, groups, release=("g1",))
    assert (goes_on.kind, len(goes_on.names)) == ("note", 9)
    groups |= {name: replace(groups[name], note=one) for name, one in goes_on.notes.items()}
    assert turn(of, groups, release=("g1",)).names == ("g1",)
    assert "it is held (returned): -e pd_release=g1" in turn(of, groups).why


def held_after(of, groups):
    """The groups after the rest was held."""
    found = turn(of, groups)
    assert found.kind == "note", found
    return {**groups, **{name: replace(groups[name], note=note) for name, note in found.notes.items()}}


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"silent": ("h1",), "state": "partial"}, "g1 could not be returned (h1 does not answer)"),
        ({"no_return": "image x is gone"}, "g1 could not be returned (image x is gone)"),
    ],
)
def test_what_cannot_be_returned_is_said(change, told):
    of = rollout()
    found = turn(of, held_after(of, noted(of, fleet(g1=change), g1="failed")))
    assert (found.kind, found.failed) == ("end", True)
    assert told in found.why


def test_a_return_that_failed_is_tried_again_by_the_next_run_alone():
    of = rollout()
    groups = held_after(of, noted(of, fleet(g1={"state": "partial"}), g1="failed"))
    groups["g1"] = replace(groups["g1"], note=groups["g1"].note.unreturned(NOW, "no answer"))
    assert turn(of, groups).kind == "end"
    assert "g1 has failed (it broke; no answer); g1 could not be returned" in turn(of, groups).why
    assert turn(of, groups, NOW + 60, began=NOW + 60).kind == "return"


def test_returns_leave_as_many_in_service_as_changes_do():
    of = rollout(waves=[{"percent": 100, "max_unavailable": {"site": 1}, "parallel": 4, "soak": 60}])
    groups = held_after(of, noted(of, fleet(), g1="failed", g2="failed", g3="failed"))
    assert sorted(groups[name].labels["site"] for name in turn(of, groups).names) == ["ams", "fra"]
    # One that is out already takes nobody's place.
    groups["g3"] = replace(groups["g3"], state="error")
    back = turn(of, groups).names
    assert set(back) == {"g2", "g3"}


def test_what_failed_before_it_stopped_runs_what_it_ran_and_is_not_restarted_for_it():
    of = rollout()
    groups = noted(of, fleet(), g1="failed")
    groups["g1"] = replace(groups["g1"], pending=True)
    assert turn(of, held_after(of, groups)).kind == "end"


def test_hold_leaves_it_as_it_is_and_continue_goes_on_until_too_many_failed():
    of = rollout(on_failure="hold")
    assert turn(of, held_after(of, noted(of, fleet(), g1="failed"))).kind == "end"
    of = rollout(on_failure="continue", max_failed=1)
    groups = noted(of, fleet(), g1="failed")
    assert (turn(of, groups).kind, turn(of, groups).wave) == ("change", 2)
    second = next(name for name, wave in draw(of, fleet()).items() if wave == 2)
    assert turn(of, held_after(of, noted(of, fleet(), g1="failed", **{second: "failed"}))).failed
    done = noted(of, fleet(), **{**dict.fromkeys(fleet(), "passed"), "g1": "failed"})
    assert turn(of, done).why == "9 groups changed; tolerated: g1 has failed (it broke)"


def test_a_host_that_is_lost_in_a_soak_fails_its_group():
    of = rollout()
    groups = noted(of, fleet(g1={"state": "partial", "message": "h1 is silent", "silent": ("h1",)}), g1="soaking")
    found = turn(of, groups)
    assert found.notes["g1"].state == "failed"
    assert found.notes["g1"].why == "in its soak it is partial: h1 is silent"


def test_what_was_not_judged_stops_it_and_soaks_anew_in_the_next_run():
    of = rollout()
    groups = noted(of, fleet(), g1="not judged")
    groups["g1"] = replace(groups["g1"], note=replace(groups["g1"].note, since=NOW))
    end = turn(of, held_after(of, groups))
    assert (end.kind, end.failed) == ("end", True)
    assert "was not judged" in end.why
    assert "soaks anew" in end.why
    again = turn(of, groups, NOW + 60, began=NOW + 60)
    assert (again.notes["g1"].state, again.notes["g1"].soak_ends) == ("soaking", NOW + 660)


def test_when_it_stops_what_soaks_is_judged_and_what_was_interrupted_has_failed():
    of = rollout(waves=[{"percent": 100, "parallel": 4, "soak": 600}])
    groups = noted(of, fleet(g3={"state": "error"}), g1="failed", g2="soaking", g3="changing", g4="changing")
    found = turn(of, groups)
    assert (found.notes["g3"].state, found.notes["g4"].state) == ("failed", "held")
    assert "g2" not in found.notes
    groups |= {name: replace(groups[name], note=note) for name, note in found.notes.items()}
    assert turn(of, groups).names == ("g1", "g3") or turn(of, groups).names == ("g3", "g1")
    groups |= {n: replace(groups[n], note=groups[n].note.unreturned(NOW, "no")) for n in ("g1", "g3")}
    assert turn(of, groups).kind == "soak"
    assert turn(of, groups, NOW + 600).names == ("g2",)


# -- what people do meanwhile -----------------------------------------------------------------------------------------------------


def test_a_changed_rollout_is_a_new_one_and_what_soaks_goes_on_soaking():
    old, new = rollout(), rollout(waves=[{**WAVES[0], "soak": 300}, *WAVES[1:]])
    groups = noted(old, fleet(), g1="soaking")
    before = Measured(requests=10.0)
    groups["g1"] = replace(groups["g1"], note=replace(groups["g1"].note, before=before))
    found = turn(new, groups)
    assert len(found.notes) == 10
    assert {note.digest for note in found.notes.values()} == {new.digest}
    assert (found.notes["g1"].state, found.notes["g1"].soak_ends) == ("soaking", NOW + 300)
    assert found.notes["g1"].before == before


def test_a_group_that_is_edited_after_it_has_passed_is_changed_again():
    of = rollout()
    groups = noted(of, fleet(), g1="passed")
    for wanted in ("newer", "new"):
        # Its spec, or what its hosts have under the same one.
        groups["g1"] = replace(groups["g1"], pending=True, wanted=wanted)
        assert {name: note.state for name, note in turn(of, groups).notes.items()} == {"g1": "planned"}
    groups["g1"] = replace(groups["g1"], pending=True, wanted="newer")
    assert {name: note.state for name, note in turn(of, groups).notes.items()} == {"g1": "planned"}


def test_a_second_rollout_over_the_same_group_is_refused():
    of = rollout()
    groups = noted(of, fleet(), g1="soaking")
    other = spec.read("s", {"groups": "g1", "waves": [{"percent": 100}]}, Findings())
    found = turn(other, groups)
    assert (found.kind, found.failed) == ("end", True)
    assert "g1: rollout r has it (wave 1, soaking)" in found.why
    assert "-e pd_rollout=r -e pd_rollout_abort=true" in found.why
    groups["g1"] = replace(groups["g1"], note=groups["g1"].note.passed(NOW))
    assert turn(other, groups).kind == "note"


def test_a_paused_one_waits_and_an_aborted_one_is_begun_by_a_person_alone():
    of = rollout()
    groups = noted(of, fleet(), g1="passed")
    groups["g2"] = replace(groups["g2"], note=groups["g2"].note.pausing(True))
    assert (turn(of, groups).kind, turn(of, groups).failed) == ("end", False)
    assert turn(rollout(on_failure="hold"), groups).kind == "end", "also when it is edited meanwhile"
    assert not turn(of, groups, resume=True).notes["g2"].paused
    groups["g2"] = replace(groups["g2"], note=groups["g2"].note.pausing(False).aborted(NOW))
    rest = turn(of, groups)
    assert (rest.kind, len(rest.names)) == ("note", 8), "an abort that was interrupted is finished"
    groups |= {name: replace(groups[name], note=note) for name, note in rest.notes.items()}
    assert (turn(of, groups).kind, turn(of, groups).failed) == ("end", True)
    assert {note.state for note in turn(of, groups, resume=True).notes.values()} == {"planned"}


# -- notes ------------------------------------------------------------------------------------------------------------------------

NOTE = Note(
    "r",
    "0" * 16,
    2,
    "soaking",
    NOW,
    "new",
    NOW + 600,
    Measured(requests=5.0),
    Readings(NOW, {"m": Reading("decode", 1.0)}),
)


def test_a_note_is_kept_as_it_was_and_says_no_more_than_it_must():
    assert notes.read(NOTE.to_plain(), "the record") == NOTE
    assert notes.read(None, "the record") is None
    assert set(Note("r", "d", 1).to_plain()) <= {"rollout", "digest", "wave", "state", "since"}


@pytest.mark.parametrize(
    "change",
    [{"wave": 0}, {"wave": "2"}, {"state": "wandering"}, {"state": 1}, {"since": "now"}, {"before": []}, {"begun": {"members": 1}},
     {"rollout": None}, {"rollout": "r\x1b[2J"}, {"begun": {"members": {"m": {}}}}],
)  # fmt: skip
def test_a_damaged_note_is_told_as_that(change):
    with pytest.raises(DamagedError, match="Reading the record of g1: it is damaged"):
        notes.read({**NOTE.to_plain(), **change}, "the record of g1")
    with pytest.raises(DamagedError):
        notes.read("soaking", "the record of g1")


def test_what_a_record_says_is_fit_to_be_shown():
    shown = notes.read({**NOTE.to_plain(), "why": "it \x1b[2Jbroke\n" + "x" * 5000}, "the record")
    assert shown.why.startswith("it broke xxx")
    assert len(shown.why) <= 1000


def test_what_is_damaged_goes_no_further():
    of = rollout()
    groups = fleet(g3={"damaged": "rollout.wave is no number"})
    assert turn(of, groups).why == "g3: rollout.wave is no number"
    findings = Findings()
    refuse(of, groups, findings)
    assert [f.code for f in findings.items] == ["rollout-note-damaged"]


# -- refusals ---------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("keys", "groups", "code", "message", "hint"),
    [
        ({"groups": "site=lon"}, {}, "rollout-selects-nothing", "pd_rollouts.r.groups: No group has site=lon", "labels"),
        (
            {"waves": [{"groups": ["g1"]}, {"percent": 10}, {"percent": 100}]},
            {},
            "rollout-empty-wave",
            "pd_rollouts.r.waves[1]: it has no group: 10 percent of 10 groups",
            "Raise its percent",
        ),
        ({"waves": [{"groups": ["g1"]}]}, {}, "rollout-left-out", "are selected, and in no wave", "percent: 100"),
        ({}, {"g3": {"labels": {}}}, "rollout-label", "waves[1]: g3 has no label 'site'", "pd_groups.g3"),
        ({}, {"g3": {"silent": ("h3",)}}, "rollout-silent", "g3: h3 does not answer", "Bring it back"),
        ({}, {"g3": {"state": "partial", "message": "no router"}}, "rollout-not-running", "g3: it is partial (no router).", "deploy -e"),
        ({}, {"g3": {"held": "returned"}}, "rollout-held", "g3: it is held: returned", "-e pd_release=g3"),
        ({}, {"g3": {"no_return": "secret HF_TOKEN is gone"}}, "rollout-no-return", "secret HF_TOKEN is gone", "on_failure: hold"),
        (
            {"window": {"from": "08:00", "to": "08:10"}},
            {},
            "rollout-window",
            "open for 10 minutes, and the step of g1 takes about 14 minutes",
            "longer",
        ),
        ({}, {"g3": {"note": Note("s", "1" * 16, 1)}}, "rollout-overlap", "g3: rollout s has it (wave 1, planned)", "pd_rollout=s"),
    ],
)  # fmt: skip
def test_what_cannot_work_is_refused_before_anything(keys, groups, code, message, hint):
    findings = Findings()
    refuse(rollout(**keys), fleet(**groups), findings)
    told = [f for f in findings.items if f.code == code]
    assert {f.code for f in findings.items} == {code}, findings.items
    assert message in told[0].message, told[0]
    assert hint in told[0].hint, told[0]


@pytest.mark.parametrize(
    ("change", "code", "message", "hint"),
    [
        ({"no_hook": "it has no endpoint hook"}, "rollout-beside-hooks", "g2: strategy beside gives", "endpoint.hooks"),
        ({"no_room": "decode: 0 of 1 new members fit"}, "rollout-beside-room", "0 of 1 new members fit", "restart"),
    ],
)
def test_what_cannot_be_formed_beside_itself_is_refused_and_not_begun(change, code, message, hint):
    groups = fleet(g2=change)
    findings, of = Findings(), rollout(strategy="beside", waves=[{"groups": ["g2"]}, {"percent": 100}])
    refuse(of, groups, findings)
    (told_,) = findings.items
    assert told_.code == code
    assert message in told_.message
    assert hint in told_.hint
    found = turn(of, noted(of, groups))
    assert (found.kind, found.failed) == ("end", True)
    assert next(iter(change.values())) in found.why
    findings = Findings()
    refuse(rollout(), groups, findings)
    assert not findings.items, "a restart needs neither"


def test_a_group_that_is_formed_beside_itself_is_told_not_to_be_out():
    of = rollout(strategy="beside")
    groups = fleet(g1={"twin": Twin("g1_2")})
    lines = told.table(of, groups, draw(of, groups))
    assert "each group formed beside what serves" in lines[0]
    (mine,) = [line for line in lines if line.startswith("    g1 ")]
    assert "formed beside what serves, in about 4 minutes; not out; g1_2 stands beside it" in mine


@pytest.mark.parametrize(
    ("state", "twin", "kind", "why"),
    [
        ("passed", {}, "clear", "g1: what stands beside it is removed"),
        ("passed", {"told": True}, "point", "g1: hooks are told of what serves"),
        ("changing", {"revision": "old"}, "clear", "g1: what stands beside it is removed"),
        ("changing", {"revision": "new"}, "change", "wave 1: g1 is changed"),
        ("soaking", {"revision": "old"}, "soak", "wave 1: g1 is watched"),
    ],
)
def test_what_stands_beside_a_group_goes_when_nothing_can_come_of_it(state, twin, kind, why):
    of = rollout(strategy="beside")
    groups = noted(of, fleet(g1={"twin": Twin("g1_2", **twin)}), g1=state)
    found = turn(of, groups)
    assert (found.kind, found.names) == (kind, ("g1",))
    assert why in found.why
    if kind == "clear":
        again = turn(of, groups, tried={("clear", "g1"): 2})
        assert again.kind != "clear", "what does not help is not done for ever"


def test_what_any_other_run_does_to_a_group_that_stands_twice():
    both = Stands("g_2", "g", ("g", "g_2"))
    assert of_verb("deploy", both, {"state": "soaking"}) == ()
    assert of_verb("deploy", both, {"state": "passed"}) == (Work("g", loses=True), Work("g_2"))
    assert of_verb("heal", both, {"state": "soaking"}) == (Work("g_2"),)
    assert of_verb("remove", both, {"state": "soaking"}) == (Work("g"), Work("g_2"))
    assert of_verb("restart", Stands("g_2", None, ("g_2",)), {}) == (Work("g_2"),)
    assert of_verb("remove", Stands("g"), {}) == (Work("g"),)


def test_what_may_have_clients_is_not_removed_before_hooks_know_the_group():
    told, note = Stands("g_2", "g", ("g", "g_2"), told=True), {"state": "aborted", "rollout": "R"}
    assert of_verb("deploy", told, note) == (Work("g_2", points=True),)
    assert [of_verb(verb, told, note) for verb in ("restart", "scale", "evacuate")] == [(), (), ()]
    assert of_verb("deploy", told, {"state": "soaking"}) == ()
    assert of_verb("heal", told, note) == (Work("g_2"),)
    findings = Findings()
    twice.say_twice("g", told, note, findings)
    (one,) = findings.items
    assert "hooks may send clients to g" in one.message
    assert one.hint.startswith("ansible-playbook inferops.pd.deploy -e pd_group=g tells the hooks of g_2")
    assert "the next deploy tells them of g_2" in twice.told(told, note)


def test_a_group_that_stands_twice_is_told_with_its_ways_out():
    both, note = Stands("g_2", "g", ("g", "g_2")), {"state": "soaking", "rollout": "R"}
    findings = Findings()
    twice.say_twice("g", both, note, findings)
    (one,) = findings.items
    assert one.message.startswith(
        "g stands twice: g_2 is the group, g stands beside it, and rollout R is not done with it (soaking)"
    )
    assert "inferops.pd.rollout -e pd_rollout=R goes on" in one.hint
    assert "the next deploy" in twice.told(both, {"state": "passed"})


def test_nothing_is_refused_of_a_fleet_that_runs_and_what_has_begun_goes_on():
    of, findings = rollout(), Findings()
    assert refuse(of, fleet(), findings) == draw(of, fleet())
    broken = fleet(g1={"state": "partial", "silent": ("h1",)}, g2={"held": "returned"})
    refuse(of, noted(of, broken, g1="changing", g2="returned"), findings)
    assert findings.items == []


# -- what is told -----------------------------------------------------------------------------------------------------------------


def test_the_waves_are_told_with_groups_hosts_changes_and_for_how_long_each_is_out():
    of = rollout(gate={"errors": 0.01, "min_requests": 50}, window={"days": ["mon"], "from": "07:00", "to": "16:00"})
    groups = noted(of, fleet(g1={"what": ("- --max-model-len=4096", "+ --max-model-len=8192")}), g2="held")
    groups["g2"] = replace(groups["g2"], note=replace(groups["g2"].note, why="the rollout stopped"))
    groups["g3"] = replace(groups["g3"], outage=None)
    text = "\n".join(told.table(of, groups, draw(of, groups)))
    for part in (
        f"rollout r ({of.digest}): 10 groups in 3 waves, on failure return, window mon 07:00 to 16:00 UTC",
        "gate: at most 0.01 of the requests fail, at least 50 requests",
        "wave 1: 1 group (soak 10 minutes)",
        "wave 2: 4 groups (soak 10 minutes; 2 at a time; spread by site; at most out: site 1)",
        "g1  out for about 4 minutes; it waits for its turn on h1",
        "        + --max-model-len=8192",
        "it waits, since the rollout has stopped (the rollout stopped) on h2",
        "out for about 15 minutes, as no start of it is known",
    ):
        assert part in text, text


def test_a_line_of_the_status_says_which_rollout_how_far_and_why():
    assert told.line(NOTE).startswith("rollout r, wave 2: it is changed, and is watched until Mon 2026-01-05 ")
    assert told.line(NOTE.failed(NOW, "it broke")).endswith("(it broke)")
    assert told.line(NOTE.pausing(True)).endswith("; paused")
    assert told.line(NOTE.failed(NOW, "it \x1b[2Jbroke")).isprintable()
