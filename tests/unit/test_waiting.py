# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The wait of hosts for the members of several workloads: when it ends for each, who is left, what hosts tell each other, what a person
sees."""

from __future__ import annotations

import os
import threading
import typing as t
from pathlib import Path
from unittest import mock

import pytest
from ansible.errors import AnsibleConnectionFailure

from ansible_collections.inferops.pd.plugins.plugin_utils import waiting
from ansible_collections.inferops.pd.plugins.plugin_utils.notes import Notes
from ansible_collections.inferops.pd.plugins.plugin_utils.waiting import SAY_EVERY, Waited, Waiter

Plain = dict[str, t.Any]
ROLES = ("prefill", "decode")
NEVER = float("inf")
MEMBERS = [{"id": f"g-{role}-{n}", "role": role} for role in ROLES for n in (0, 1)]


class Fleet:
    """Members that become ready, or fail, at a moment; and the hosts that wait for them, each as far as its clock goes.

    `at` is when each becomes ready, by id; `fails` when it fails."""

    def __init__(self, path: Path, at: t.Mapping[str, float], fails: t.Mapping[str, float] | None = None) -> None:
        self.notes = Notes(str(path / "notes"))
        self.at, self.fails = at, fails or {}
        self.said: list[str] = []
        self.log = ""

    def state(self, name: str, now: float) -> str:
        if now >= self.fails.get(name, NEVER):
            return "failed"
        return "ready" if now >= self.at.get(name, NEVER) else "loading"

    def host(self, **given: t.Any) -> Host:
        return Host(self, **given)


class Host:
    """One host: a slice ends when a state changes, or takes as long as it is asked to."""

    def __init__(self, fleet: Fleet, now: float = 0.0, broken: t.Mapping[str, str] | None = None) -> None:
        self.fleet, self.now, self.broken = fleet, now, broken or {}
        self.asked: list[dict[str, list[str]]] = []
        self.seconds: list[int] = []
        self.memories: list[Plain] = []

    def __call__(
        self, waiting: t.Mapping[str, list[Plain]], seconds: int, memory: t.Mapping[str, Plain]
    ) -> dict[str, Plain]:
        self.asked.append({group: [m["id"] for m in members] for group, members in waiting.items()})
        self.seconds.append(seconds)
        self.memories.append({group: dict(seen) for group, seen in memory.items()})
        before = {name: self.fleet.state(name, self.now) for names in self.asked[-1].values() for name in names}
        for _second in range(seconds):
            self.now += 1
            if any(self.fleet.state(name, self.now) != state for name, state in before.items()):
                break
        return {group: self.answer(group, names) for group, names in self.asked[-1].items()}

    def answer(self, group: str, names: list[str]) -> Plain:
        if group in self.broken:
            return {"failed": True, "msg": self.broken[group]}
        states = {name: self.fleet.state(name, self.now) for name in names}
        seen = {name: {"state": state, "why": "", "log_line": self.fleet.log} for name, state in states.items()}
        return {"members": seen, "memory": {name: {"looks": len(self.asked)} for name in names}}

    def waiter(self, *workloads: Waited, patience: float | None = None) -> Waiter:
        return Waiter(workloads, self, self.fleet.said.append, self.fleet.notes, patience, clock=lambda: self.now)

    def wait(self, *workloads: Waited, patience: float | None = None) -> dict[str, Plain]:
        return self.waiter(*workloads, patience=patience).run()


def workload(
    group: str = "g",
    mine: t.Sequence[str] | None = None,
    everyone: t.Sequence[Plain] | None = None,
    limit: float = 60.0,
    readiness: str = "any_per_role",
    spent: float = 0.0,
) -> Waited:
    """1P1D, all of it here, unless it is said otherwise."""
    all_ = everyone or [{"id": f"{group}-{role}-0", "role": role} for role in ROLES]
    members = [m for m in all_ if mine is None or m["id"] in mine]
    return Waited(group, members, all_, limit, readiness, "supervisor", ("h1", "h2"), spent)


def outcomes(result: Plain) -> dict[str, str]:
    return {name: seen["outcome"] for name, seen in result["members"].items()}


def of_g(*ids: str, **given: t.Any) -> Waited:
    """Of a 2P2D those members."""
    return workload("g", ids, MEMBERS, **given)


# -- one workload --------------------------------------------------------------------------------------------------------------------


def test_a_wait_ends_when_all_are_ready(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path, {"g-prefill-0": 1, "g-decode-0": 8})
    host = fleet.host()
    result = host.wait(of_g("g-prefill-0", "g-decode-0"))["g"]
    assert result["ready"] == ["g-decode-0", "g-prefill-0"]
    assert (result["not_ready"], result["left"], result["elapsed"]) == ({}, False, 8)
    assert fleet.notes.failed("g") == []
    # What the module remembers of a slice it is told in the next one.
    assert [seen["g"] for seen in host.memories][:2] == [
        {}, {"g-prefill-0": {"looks": 1}, "g-decode-0": {"looks": 1}},
    ]  # fmt: skip


def test_a_wait_ends_at_the_limit_and_says_what_was_last_seen(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path, {"g-prefill-0": 0})
    result = fleet.host().wait(of_g("g-prefill-0", "g-decode-0"))["g"]
    assert "not ready within 60 s" in result["not_ready"]["g-decode-0"]
    assert outcomes(result)["g-decode-0"] == "late"
    assert len([line for line in fleet.said if "g-decode-0" in line]) == int(60 // SAY_EVERY[0])


def test_a_failed_member_is_not_asked_for_again_and_the_others_are_waited_for(tmp_path: Path) -> None:
    host = Fleet(tmp_path, {"g-prefill-0": 7}, {"g-decode-0": 1}).host()
    result = host.wait(of_g("g-prefill-0", "g-decode-0"))["g"]
    assert [asked["g"] for asked in host.asked[:2]] == [["g-prefill-0", "g-decode-0"], ["g-prefill-0"]]
    assert result["ready"] == ["g-prefill-0"]
    assert outcomes(result)["g-decode-0"] == "failed"


def test_of_a_failure_without_a_word_in_its_log_the_last_line_is_told(tmp_path: Path) -> None:
    ended = {"state": "failed", "why": "its process has ended", "log_line": "Loading weights: 12%"}
    known = {
        **ended,
        "symptom": {"name": "unrecognised", "line": "FooError: x"},
        "why": "its process has ended: FooError: x",
    }
    told = {"g": {"members": {"g-prefill-0": dict(ended), "g-decode-0": dict(known)}, "memory": {}}}
    notes = Notes(str(tmp_path))
    result = Waiter([workload()], lambda *_given: told, lambda _line: None, notes, clock=lambda: 0.0).run()["g"]
    assert result["not_ready"]["g-prefill-0"] == "its process has ended; its log ends with: Loading weights: 12%"
    assert result["not_ready"]["g-decode-0"] == known["why"]


def test_hosts_end_their_wait_when_another_host_has_settled_it(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path, {"g-decode-1": 0}, {"g-prefill-0": 0, "g-prefill-1": 0})
    fleet.host().wait(of_g("g-prefill-0"))
    assert outcomes(fleet.host().wait(of_g("g-decode-0", limit=20))["g"]) == {"g-decode-0": "late"}
    fleet.host().wait(of_g("g-prefill-1"))
    third = fleet.host()
    result = third.wait(of_g("g-decode-0", "g-decode-1"))["g"]
    assert len(third.asked) == 1  # it looks once, so that what is ready is known
    assert result["ready"] == ["g-decode-1"]
    assert "g-prefill-0, g-prefill-1 failed" in result["not_ready"]["g-decode-0"]
    assert outcomes(result)["g-decode-0"] == "stopped"


def test_a_module_that_fails_is_the_reason(tmp_path: Path) -> None:
    host = Fleet(tmp_path, {}).host(broken={"g": "no python"})
    result = host.wait(of_g("g-prefill-0"))["g"]
    assert "no python" in result["not_ready"]["g-prefill-0"]
    assert outcomes(result) == {"g-prefill-0": "unknown"}


def test_what_has_failed_before_the_module_did_stays_failed(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path, {"g-prefill-0": 0}, {"g-decode-0": 1})
    host = fleet.host()

    def call(*given: t.Any) -> t.Any:
        host.broken = {"g": "killed"} if host.asked else {}
        return host(*given)

    result = Waiter([of_g("g-prefill-0", "g-decode-0", "g-decode-1")], call, print, fleet.notes, clock=lambda: host.now)
    assert outcomes(result.run()["g"]) == {"g-prefill-0": "unknown", "g-decode-0": "failed", "g-decode-1": "unknown"}
    assert fleet.notes.members("g") == {"g-prefill-0": "ended", "g-decode-0": "failed", "g-decode-1": "ended"}


# -- several workloads ---------------------------------------------------------------------------------------------------------------


def eight(limit: float = 600.0, **given: t.Any) -> list[Waited]:
    return [workload(f"g{n}", limit=limit, **given) for n in range(8)]


def ready_at(moment: float, *but: int) -> dict[str, float]:
    return {f"g{n}-{role}-0": moment for n in range(8) for role in ROLES if n not in but}


def test_seven_of_eight_do_not_wait_for_the_one_that_is_never_ready(tmp_path: Path) -> None:
    host = Fleet(tmp_path, ready_at(10, 3)).host()
    found = host.wait(*eight(), patience=60)
    assert host.now == 70
    assert {group for group, one in found.items() if one["left"]} == {"g3"}
    assert outcomes(found["g3"]) == {"g3-prefill-0": "left", "g3-decode-0": "left"}
    assert "not ready after 70 of 600 s" in found["g3"]["not_ready"]["g3-decode-0"]
    assert all(not found[f"g{n}"]["not_ready"] for n in range(8) if n != 3)
    assert (found["g0"]["elapsed"], found["g3"]["elapsed"]) == (10, 70)


def test_a_second_pass_has_what_is_left_of_the_limit(tmp_path: Path) -> None:
    (tmp_path / "again").mkdir()
    fleet = Fleet(tmp_path / "again", {})
    found = fleet.host().wait(workload("g3", limit=600, spent=70))["g3"]
    assert (found["elapsed"], found["limit"]) == (600, 600)
    assert outcomes(found) == {"g3-prefill-0": "late", "g3-decode-0": "late"}
    assert fleet.said[0] == "g3-prefill-0: loading, 73/600 s"
    late = fleet.host(now=530)
    late.wait(workload("g3", limit=600, spent=700))
    assert len(late.asked) == 1  # it looks once, whatever is left


def test_without_patience_all_limits_are_waited_for(tmp_path: Path) -> None:
    host = Fleet(tmp_path, ready_at(10, 3)).host()
    found = host.wait(*eight())
    assert host.now == 600
    assert outcomes(found["g3"]) == {"g3-prefill-0": "late", "g3-decode-0": "late"}
    assert not any(one["left"] for one in found.values())


def test_nobody_is_left_while_none_is_complete(tmp_path: Path) -> None:
    """One that has failed is no reason to leave those that load."""
    host = Fleet(tmp_path, {"g1-prefill-0": 5, "g1-decode-0": 300}, {"g0-prefill-0": 2}).host()
    found = host.wait(workload("g0"), workload("g1", limit=600), patience=0)
    assert found["g0"]["stopped"]
    assert found["g1"]["ready"] == ["g1-decode-0", "g1-prefill-0"]
    assert host.now == 300


def test_each_has_its_own_limit(tmp_path: Path) -> None:
    host = Fleet(tmp_path, {"b-prefill-0": 90, "b-decode-0": 90}).host()
    found = host.wait(workload("a", limit=20), workload("b", limit=100))
    assert found["a"]["elapsed"] == 20
    assert set(outcomes(found["a"]).values()) == {"late"}
    assert found["b"]["not_ready"] == {}


def test_one_that_cannot_be_looked_at_takes_nothing_from_the_others(tmp_path: Path) -> None:
    host = Fleet(tmp_path, ready_at(30)).host(broken={"g5": "Asking the container engine: no answer."})
    found = host.wait(*eight())
    assert set(outcomes(found["g5"]).values()) == {"unknown"}
    assert "Asking the container engine" in found["g5"]["not_ready"]["g5-prefill-0"]
    assert all(found[f"g{n}"]["elapsed"] == 30 and not found[f"g{n}"]["not_ready"] for n in range(8) if n != 5)
    # Its lock is renewed as long as this host waits, and nothing else is asked of it.
    assert all(asked["g5"] == [] for asked in host.asked[1:])


def test_a_workload_of_which_the_module_says_nothing_is_unknown(tmp_path: Path) -> None:
    found = Waiter([workload()], lambda *_given: {}, print, Notes(str(tmp_path)), clock=lambda: 0.0).run()
    assert found["g"]["not_ready"]["g-decode-0"] == "looking at it failed: the module gave no reason"


def test_the_lock_of_one_that_is_over_or_is_elsewhere_is_renewed_with_the_others(tmp_path: Path) -> None:
    host = Fleet(tmp_path, {"a-prefill-0": 1, "a-decode-0": 1, "b-prefill-0": 40, "b-decode-0": 40}).host()
    found = host.wait(workload("a"), workload("b"), workload("elsewhere", mine=()))
    assert all(set(asked) == {"a", "b", "elsewhere"} for asked in host.asked)
    assert [asked["a"] for asked in host.asked[1:]] == [[]] * (len(host.asked) - 1)
    assert (found["elsewhere"]["members"], found["elsewhere"]["not_ready"]) == ({}, {})


def test_a_host_without_members_asks_for_nothing(tmp_path: Path) -> None:
    host = Fleet(tmp_path, {}).host()
    assert host.wait(workload("g", mine=()))["g"]["elapsed"] == 0
    assert host.asked == []


def test_a_slice_is_no_longer_than_the_first_limit_or_patience_allow(tmp_path: Path) -> None:
    host = Fleet(tmp_path, {}).host(now=100)
    host.wait(workload("a", limit=7), workload("b", limit=40))
    assert host.seconds == [3, 4, 5, 5, 5, 5, 5, 8]
    other = Fleet(tmp_path / "other", {"a-prefill-0": 0, "a-decode-0": 0}).host()
    other.wait(workload("a"), workload("b"), patience=7)
    assert other.seconds == [3, 5, 2]


# -- several hosts -------------------------------------------------------------------------------------------------------------------


def test_a_workload_is_complete_when_its_last_host_says_so(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path, {"a-prefill-0": 1, "a-decode-0": 20})
    fleet.host().wait(workload("a", ["a-prefill-0"]))
    assert fleet.notes.first_complete() is None
    fleet.host().wait(workload("a", ["a-decode-0"]))
    assert fleet.notes.first_complete() == ("a", 20)


def test_a_host_leaves_stragglers_for_a_workload_that_it_has_no_part_of(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path, {"a-prefill-0": 10, "a-decode-0": 10})
    fleet.host().wait(workload("a"))
    host = fleet.host()
    assert host.wait(workload("b", limit=600), patience=60)["b"]["left"]
    assert host.now == 70


def test_of_several_the_first_that_is_complete_counts(tmp_path: Path) -> None:
    notes = Notes(str(tmp_path))
    notes.completed("b", 30.0)
    notes.completed("a", 20.0)
    notes.completed("a", 50.0)
    assert notes.first_complete() == ("a", 20.0)


def test_a_host_that_begins_late_looks_once_and_its_time_counts_from_the_first(tmp_path: Path) -> None:
    """One fork: the second host begins when the first has ended."""
    everyone = [{"id": f"{g}-{role}-0", "role": role} for g in "ab" for role in ROLES]
    of = {g: [m for m in everyone if m["id"].startswith(g)] for g in "ab"}
    fleet = Fleet(tmp_path, {"a-prefill-0": 5, "a-decode-0": 5, "b-prefill-0": 5})
    first = fleet.host()
    found = first.wait(
        *(workload(g, [f"{g}-prefill-0"], of[g], limit=100) for g in "ab"), workload("c", limit=600), patience=60
    )
    # Nothing of a or b is known of the second host: nothing is complete, and c is waited for up to its limit.
    assert (found["c"]["elapsed"], found["c"]["left"]) == (600, False)
    second = fleet.host(now=600)
    found = second.wait(*(workload(g, [f"{g}-decode-0"], of[g], limit=100) for g in "ab"), patience=60)
    assert len(second.asked) == 1
    assert found["a"]["ready"] == ["a-decode-0"]
    assert outcomes(found["b"]) == {"b-decode-0": "late"}
    assert fleet.notes.first_complete() == ("a", 601)


def test_a_host_that_begins_after_patience_is_over_looks_before_it_leaves(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path, {"b-prefill-0": 100, "b-decode-0": 100})
    fleet.notes.completed("a", 10.0)
    host = fleet.host(now=200)
    found = host.wait(workload("b", limit=600), workload("c", limit=600), patience=60)
    assert found["b"]["not_ready"] == {}
    assert (found["c"]["left"], len(host.asked)) == (True, 1)


def test_a_host_that_is_lost_keeps_nobody(tmp_path: Path) -> None:
    """Others see that nothing more comes from it."""
    fleet = Fleet(tmp_path, {m["id"]: 5 for m in MEMBERS})

    def lost(*_given: t.Any) -> t.Any:
        raise AnsibleConnectionFailure("no route to host")

    with pytest.raises(AnsibleConnectionFailure):
        Waiter([of_g("g-decode-1")], lost, print, fleet.notes, clock=lambda: 0.0).run()
    assert fleet.notes.members("g") == {"g-decode-1": "ended"}
    fleet.host().wait(of_g("g-prefill-0", "g-prefill-1", "g-decode-0"))
    assert fleet.notes.first_complete() == ("g", 5)


# -- what a person sees --------------------------------------------------------------------------------------------------------------


def test_few_that_load_have_a_line_each(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path, {"a-prefill-0": 2, "a-decode-0": 2})
    fleet.host().wait(workload("a"))
    assert fleet.said == [f"a-{role}-0: ready, 2/60 s" for role in ROLES]


def test_many_that_load_have_one_line_and_each_that_is_ready_or_failed_its_own(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path, ready_at(50, 3), {"g3-decode-0": 20})
    fleet.log = "Loading weights"
    fleet.host().wait(*eight(readiness="all"))
    loads = [line for line in fleet.said if "members loading" in line]
    assert len(loads) == 4
    assert all(": loading" not in line for line in fleet.said)
    # What one of them logs is told, each time of another one.
    assert loads[0].startswith("16 members loading, 3 s: g0 (2), g1 (2)")
    assert [line.partition("; ")[2] for line in loads[:2]] == [
        f"g0-{role}-0: Loading weights" for role in ("prefill", "decode")
    ]
    assert {line.partition(":")[0] for line in fleet.said if ": ready" in line} == set(ready_at(50, 3))
    assert [line for line in fleet.said if "g3-decode-0: failed" in line] == [
        "g3-decode-0: failed, 20/600 s, ; its log ends with: Loading weights"
    ]
    assert len(fleet.said) == len(loads) + 14 + 1


def test_when_few_are_left_each_is_told_of_again(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path, ready_at(10, 3))
    fleet.host().wait(*eight(limit=20))
    after = [line for line in fleet.said if "/20 s" in line and "loading" in line]
    assert {line.partition(":")[0] for line in after} == {"g3-prefill-0", "g3-decode-0"}


# -- notes ---------------------------------------------------------------------------------------------------------------------------


def test_writers_of_notes_do_not_disturb_each_other(tmp_path: Path) -> None:
    names = [f"m{n}" for n in range(40)]

    def write(number: int) -> None:
        notes = Notes(str(tmp_path / "new"))
        for name in names:
            notes.tell("g", name, "ready")
            notes.completed("g", 5.0 + number)
            assert set(notes.members("g").values()) == {"ready"}

    threads = [threading.Thread(target=write, args=(n,)) for n in range(8)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    notes = Notes(str(tmp_path / "new"))
    assert sorted(notes.members("g")) == sorted(names)
    found = notes.first_complete()
    assert found
    assert 5.0 <= found[1] < 13.0


@pytest.mark.parametrize("states", [["ready", "failed"], ["failed", "ready"], ["ended", "failed", "ready"]])
def test_of_a_member_that_several_tell_of_the_worst_holds(tmp_path: Path, states: list[str]) -> None:
    notes = Notes(str(tmp_path))
    for state in states:
        notes.tell("g", "g-decode-0", state)
    assert notes.members("g") == {"g-decode-0": "failed"}
    assert notes.failed("g") == ["g-decode-0"]


def test_what_is_no_note_is_passed_over(tmp_path: Path) -> None:
    notes = Notes(str(tmp_path))
    notes.tell("g", "a", "ready")
    notes.completed("g", 3.0)
    for folder, name in (("members/g", "b"), ("members/g", "b@fine"), ("complete", "h@soon"), ("complete", ".swp")):
        (tmp_path / folder / name).write_text("")
    assert notes.members("g") == {"a": "ready"}
    assert notes.first_complete() == ("g", 3.0)


def test_a_wait_goes_on_without_notes(tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("no folder")
    host = Fleet(tmp_path, ready_at(10, 3)).host()
    found = host.wait(*eight(limit=100), patience=20)
    assert set(outcomes(found["g3"]).values()) == {"late"}
    assert not found["g0"]["not_ready"]


def test_names_of_hosts_may_have_any_character(tmp_path: Path) -> None:
    notes = Notes(str(tmp_path))
    odd = ["[2001:db8::1]:22", "a/b", "..", "x@y"]
    for number, host in enumerate(odd):
        notes.host_began(host, float(number))
    notes.host_ended("a/b", 9.0)
    assert notes.waiting([*odd, "new"]) == {"[2001:db8::1]:22": 0.0, "..": 2.0, "x@y": 3.0, "new": None}
    assert sorted(os.listdir(tmp_path)) == ["host-began", "host-ended"]


# -- from an action ------------------------------------------------------------------------------------------------------------------


class Action:
    """An action of a host, whose module answers as a Host of this test does."""

    def __init__(self, host: Host, lost: t.Sequence[int] = ()) -> None:
        self.task_vars = {"inventory_hostname": "h1"}
        self._display = mock.Mock(display=host.fleet.said.append)
        self.host, self.lost = host, list(lost)
        self.given: list[Plain] = []

    def _execute_module(self, module_name: str, module_args: Plain, task_vars: Plain) -> Plain:
        assert (module_name, task_vars) == ("inferops.pd.members_wait", self.task_vars)
        self.given.append(module_args)
        if len(self.given) in self.lost:
            raise AnsibleConnectionFailure("broken pipe")
        asked = {one["group"]: one["members"] for one in module_args["workloads"]}
        memory = {one["group"]: one["memory"] for one in module_args["workloads"]}
        return {"workloads": self.host(asked, module_args["slice"], memory)}

    def _pause(self, seconds: float) -> None:
        self.host.now += seconds

    @property
    def ttls(self) -> list[float]:
        return [given["holder"]["ttl"] for given in self.given]

    def wait(self, *workloads: Waited, **given: t.Any) -> dict[str, Plain]:
        calls = waiting.Calls(
            t.cast("t.Any", self),
            {"state_dir": "/s"},
            {"run": "r", "ttl": 300},
            clock=lambda: self.host.now,
            pause=self._pause,
        )
        return waiting.wait_for_members(calls, workloads, self.host.fleet.notes, **given)


@pytest.fixture(name="act")
def fixture_act(tmp_path: Path) -> t.Callable[..., Action]:
    def make(at: t.Mapping[str, float], lost: t.Sequence[int] = (), **given: t.Any) -> Action:
        return Action(Fleet(tmp_path, at).host(**given), lost)

    return make


def test_a_lost_connection_is_patiently_asked_again(act: t.Callable[..., Action]) -> None:
    action = act({"g-prefill-0": 1, "g-decode-0": 5}, lost=[2, 3])
    found = action.wait(workload())
    assert found["g"]["not_ready"] == {}
    told = [line for line in action.host.fleet.said if "does not answer" in line]
    assert told == ["h1 | h1 does not answer (broken pipe), asking again in 5 s"] * 2


def test_a_host_that_stays_lost_is_unreachable_and_waits_no_more(act: t.Callable[..., Action]) -> None:
    action = act({}, lost=range(1, 9))
    with pytest.raises(AnsibleConnectionFailure):
        action.wait(workload())
    assert len(action.given) == waiting.LOST_CALLS
    assert action.host.fleet.notes.waiting(["h1", "h2"]) == {"h2": None}


def test_a_module_that_fell_over_fails_what_it_was_asked_for(
    act: t.Callable[..., Action], monkeypatch: pytest.MonkeyPatch
) -> None:
    action = act({})
    said = {"failed": True, "msg": "MODULE FAILURE\nSee stdout/stderr", "module_stderr": "...\nMemoryError: no memory"}
    monkeypatch.setattr(action, "_execute_module", lambda **_given: said)
    found = action.wait(workload("a"), workload("b"))
    assert found["b"]["not_ready"]["b-decode-0"] == "looking at it failed: MemoryError: no memory"
    assert found["a"]["members"].keys() == {"a-prefill-0", "a-decode-0"}


def test_a_host_that_ends_its_wait_keeps_its_locks_for_the_others(act: t.Callable[..., Action]) -> None:
    action = act({"g-prefill-0": 8, "g-decode-0": 8})
    action.wait(workload(limit=600), workload("elsewhere", mine=()), longest=900)
    *slices, last = action.given
    assert [one["members"] for one in last["workloads"]] == [[], []]
    assert [one["group"] for one in last["workloads"]] == ["g", "elsewhere"]
    # h2 has no worker yet, and may take as long as the longest.
    assert action.ttls[-1] == 300 + 900 + waiting.AFTER_WAIT
    assert set(action.ttls[1:-1]) == {300}
    assert len(slices) > 1


def test_a_host_that_is_ready_at_once_needs_no_second_call_for_its_locks(act: t.Callable[..., Action]) -> None:
    action = act({"g-prefill-0": 0, "g-decode-0": 0})
    action.wait(workload(limit=600))
    assert action.ttls == [300 + 600 + waiting.AFTER_WAIT]


def test_the_last_host_keeps_its_locks_no_longer_than_usual(act: t.Callable[..., Action]) -> None:
    action = act({"g-prefill-0": 8, "g-decode-0": 8})
    action.host.fleet.notes.host_ended("h2", 0.0)
    action.wait(workload())
    assert set(action.ttls) == {300}
    alone = act({"g-prefill-0": 8, "g-decode-0": 8})
    alone.wait(workload(), hosts=["h1", "h2"])
    assert set(alone.ttls) == {300}


def test_a_host_with_locks_alone_keeps_them_in_one_call(act: t.Callable[..., Action]) -> None:
    action = act({})
    action.wait(workload(mine=()), longest=600)
    assert action.ttls == [300 + 600 + waiting.AFTER_WAIT]


@pytest.mark.parametrize(
    ("began", "left"),
    [
        ({}, None),
        ({"a": 100.0}, 50.0),
        ({"a": 100.0, "b": None}, 600.0),
        ({"a": 100.0, "b": 640.0}, 590.0),
        ({"a": 0.0}, 0.0),
    ],
)
def test_for_how_long_others_may_still_wait(began: dict[str, float | None], left: float | None) -> None:
    assert waiting.others_take(began, 600.0, 650.0) == left
