# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Decode members that take a prefill which comes for the one before at its address, when something else happens as well: none meets two."""

from __future__ import annotations

import typing as t

import memory
import pytest
from builders import ROUTER, Fleet, as_not_rendered, only, spec


def sglang(prefill: int = 2, decode: int = 2, membership: str = "dynamic", **changes: t.Any) -> dict[str, t.Any]:
    return spec(
        mode="sglang-nixl",
        prefill={"hosts": "h1", "gpus": 1, "replicas": prefill},
        decode={"hosts": "h2:h3", "gpus": 1, "replicas": decode},
        router={"hosts": "h4", "port": 8000, "membership": membership},
        **changes,
    )


def deployed(raw: dict[str, t.Any]) -> Fleet:
    made = Fleet(h1={"gpus": 4}, h2={"gpus": 1}, h3={"gpus": 1}, h4={})
    again(made, raw)
    return made


def again(group: Fleet, raw: t.Any, **how: t.Any) -> t.Any:
    made = group.plan(raw, **how)
    assert not made.errors, made.findings.to_plain()
    group.apply(made)
    assert group.carried, group.said
    return made


def dead_before_the_rounds(group: Fleet, raw: t.Any) -> None:
    """A prefill has come back, and the run that should have renewed the decodes for it is dead."""
    group.kill("demo-prefill-0")
    made = group.plan(raw)
    wave = memory.Wave([made.value], memory.Hosts(group.facts))
    for phase in ("lock", "leave", "start"):
        wave.phase(phase)
    for facts in group.facts.values():
        facts["locks"] = {}


def reached(group: Fleet) -> set[str]:
    return {peer["url"] for peer in group.live("demo-router-0")["registered"]}


def host_of(group: Fleet, member: str) -> str:
    return next(host for host, facts in group.facts.items() for m in facts["members"] if m["label"]["member"] == member)


def rounds(made: t.Any) -> list[list[str]]:
    return [[m.id for m in one.members] for one in made.value.renew or ()]


@pytest.mark.parametrize("edit", [{"mode": "vllm-nixl"}, {"engine": {"args": ["--context-length=4096"]}}])
def test_what_was_counted_outlives_an_edit_that_is_taken_back(edit: dict[str, t.Any]) -> None:
    """Also one of the mode, under which nothing is counted."""
    group = deployed(sglang())
    group.kill("demo-prefill-0")
    again(group, sglang())
    changed = {**sglang(), **edit}
    if edit.get("mode"):
        changed["engine"] = spec()["engine"]
    else:
        changed["engine"] = {**sglang()["engine"], **edit["engine"]}
    assert again(group, changed).plan["pending"]
    group.kill("demo-prefill-0")
    assert rounds(again(group, sglang())) == [["demo-decode-0"], ["demo-decode-1"]]


def test_a_prefill_comes_back_and_decodes_are_renewed_while_an_edit_is_pending() -> None:
    group = deployed(sglang())
    dead_before_the_rounds(group, sglang())
    url = group.live("demo-prefill-0")["label"]["url"]
    made = again(group, {**sglang(), "engine": {**sglang()["engine"], "args": ["--context-length=4096"]}})
    assert made.plan["pending"]
    assert rounds(made) == [["demo-decode-0"], ["demo-decode-1"]]
    assert url in reached(group)


@pytest.mark.parametrize("edit", ["mode", "args"])
def test_a_prefill_waits_outside_while_a_pending_edit_keeps_decodes_as_they_are(edit: str) -> None:
    """Where nobody knows what they were started as."""
    group = deployed(sglang())
    dead_before_the_rounds(group, sglang())
    as_not_rendered(group)
    url = group.live("demo-prefill-0")["label"]["url"]
    changed = sglang()
    changed["engine"] = {**changed["engine"], "args": ["--context-length=4096"]}
    if edit == "mode":
        changed |= {"mode": "vllm-nixl", "engine": spec()["engine"]}
    made = again(group, changed)
    assert made.plan["pending"]
    assert url not in reached(group)
    assert "while the group is pending" in only(made.findings, "decode-renewed").message
    assert rounds(again(group, sglang())) == [["demo-decode-0"], ["demo-decode-1"]]
    assert url in reached(group)


@pytest.mark.parametrize("unread", [False, True])
def test_a_prefill_waits_outside_while_a_decode_is_out_of_reach(unread: bool) -> None:
    group = deployed(sglang())
    dead_before_the_rounds(group, sglang())
    url = group.live("demo-prefill-0")["label"]["url"]
    silent = host_of(group, "demo-decode-1")
    group.silent = {silent}
    router = group.live("demo-router-0")
    before = router["registered"]
    router["registered"] = None if unread else before
    made = group.plan(sglang())
    router["registered"] = before
    group.apply(made)
    assert group.carried, group.said
    assert rounds(made) == [["demo-decode-0"]]
    assert url not in reached(group)
    assert any("while a part of the group is out of reach" in f.message for f in made.findings.items)
    group.silent = set()
    assert rounds(again(group, sglang())) == [["demo-decode-1"]]
    assert url in reached(group)


def test_a_prefill_that_serves_already_stays_in_the_router_when_a_decode_falls_silent() -> None:
    group = deployed(sglang())
    group.kill("demo-prefill-0")
    again(group, sglang())
    silent = host_of(group, "demo-decode-1")
    group.silent = {silent}
    before = reached(group)
    again(group, sglang())
    assert reached(group) == before


def test_nobody_is_renewed_while_the_router_is_out_of_reach() -> None:
    group = deployed(sglang())
    dead_before_the_rounds(group, sglang())
    group.silent = {"h4"}
    made = again(group, sglang())
    assert (rounds(made), made.who("replace")) == ([], [])
    group.silent = set()
    assert rounds(again(group, sglang())) == [["demo-decode-0"], ["demo-decode-1"]]


def test_members_stop_first_where_there_is_no_router_that_could_send_requests() -> None:
    """It would have to be told of each that leaves, and does not answer."""
    group = deployed(sglang())
    group.kill("demo-prefill-0", "demo-router-0")
    made = again(group, sglang())
    assert rounds(made) == []
    assert made.who("remove") == ["demo-decode-0", "demo-decode-1", "demo-prefill-0"]
    assert again(group, sglang()).steps() == []


def test_members_stop_first_where_no_decode_serves() -> None:
    group = deployed(sglang(membership="restart"))
    group.kill("demo-prefill-0")
    for name in ("demo-decode-0", "demo-decode-1"):
        group.live(name).update(ready=False, restarts=1)
    made = again(group, sglang(membership="restart"))
    assert rounds(made) == []
    assert made.who("remove") == ["demo-decode-0", "demo-decode-1", "demo-prefill-0"]


@pytest.mark.parametrize("stale", [True, False])
def test_a_prefill_that_is_down_is_gone_before_a_decode_starts_beside_it(stale: bool) -> None:
    """Started by hand in that moment, it would be met by the decode, and then replaced at its address."""
    raw = sglang(prefill=2 - stale, membership="restart")
    group = deployed(raw)
    group.kill("demo-prefill-0", *([] if stale else ["demo-decode-0", "demo-decode-1"]))
    there: dict[str, list[str]] = {}

    def before_phase(phase: str) -> None:
        there[phase] = [m["label"]["member"] for facts in group.facts.values() for m in facts["members"]]

    group.carry_out(group.plan(raw), before_phase=before_phase)
    assert "demo-prefill-0" not in there["start"]
    assert group.live("demo-prefill-0")["ready"]
    assert again(group, raw).steps() == []


def test_members_stop_first_where_the_router_is_the_operators() -> None:
    """It names the prefill that comes back all the time."""
    raw = sglang()
    raw["roles"]["router"] = {
        "hosts": "h4",
        "port": 8000,
        "executable": ROUTER,
        "command": ["${executable}", "--port=${port}"],
    }
    group = deployed(raw)
    group.kill("demo-prefill-0")
    made = again(group, raw)
    assert rounds(made) == []
    assert made.who("remove") == ["demo-decode-0", "demo-decode-1", "demo-prefill-0"]
    assert "Nothing is served meanwhile" in only(made.findings, "decode-renewed").message


def test_under_another_name_of_a_host_the_starts_are_the_same_ones() -> None:
    """A place is known by its address."""
    group = deployed(sglang())
    group.kill("demo-prefill-0")
    again(group, sglang())
    group.facts["h9"] = group.facts.pop("h1")
    moved = sglang()
    moved["roles"]["prefill"]["hosts"] = "h9"
    assert rounds(again(group, moved)) == []
    dead_before_the_rounds(group, moved)
    group.facts["h8"] = group.facts.pop("h9")
    moved["roles"]["prefill"]["hosts"] = "h8"
    assert rounds(again(group, moved)) == [["demo-decode-0"], ["demo-decode-1"]]


def test_a_start_counts_if_one_host_alone_knows_of_it() -> None:
    """The run died after it had written that host's record, and another has written the others' since."""
    group = deployed(sglang())
    old = {host: memory.copied(facts["records"]) for host, facts in group.facts.items()}
    dead_before_the_rounds(group, sglang())
    told = group.facts["h1"]["records"]["demo"]["serial"]
    for host in ("h2", "h3", "h4"):
        group.facts[host]["records"] = old[host]
        group.facts[host]["records"]["demo"]["serial"] = told + 1
    assert rounds(again(group, sglang())) == [["demo-decode-0"], ["demo-decode-1"]]


def test_a_prefill_comes_at_another_address_while_a_lost_router_may_live() -> None:
    """Decode members on its side, which nobody renews, have met one at the old address."""
    raw = sglang()
    raw["roles"]["router"]["hosts"] = "h3:h4"
    group = deployed(raw)
    on = host_of(group, "demo-router-0")
    url = group.live("demo-prefill-0")["label"]["url"]
    group.silent = {on}
    group.kill("demo-prefill-0")
    made = again(group, raw, lost=[on])
    assert made.members["demo-prefill-0"]["url"] != url


def test_a_round_that_is_left_out_leaves_the_others_their_turn() -> None:
    """What it would be renewed for is not up: the next one may be renewed for somebody who is."""
    group = deployed(sglang(prefill=3))
    dead_before_the_rounds(group, sglang(prefill=3))
    group.kill("demo-prefill-1")
    made = group.plan(sglang(prefill=3))
    assert [one.because for one in made.value.renew] == [("demo-prefill-0", "demo-prefill-1")] * 2
    assert group.carry_out(made, never_ready={"demo-prefill-1"}), group.said
    assert group.live("demo-prefill-1")["label"]["url"] not in reached(group)
    assert group.live("demo-prefill-0")["label"]["url"] in reached(group)


def test_a_run_that_takes_back_what_it_made_leaves_members_whose_round_went_well() -> None:
    """pd_on_failure: stop, in the second round."""
    raw = sglang(readiness="all")
    group = deployed(raw)
    group.kill("demo-prefill-0")
    made = group.plan(raw)
    waits, late = [], []

    def before_phase(phase: str) -> None:
        waits.extend([phase] if phase == "wait" else [])
        late.extend(["demo-decode-1"] if len(waits) == 3 else [])

    assert not group.carry_out(made, never_ready=late, undo=True, before_phase=before_phase)
    running = {m["label"]["member"] for facts in group.facts.values() for m in facts["members"]}
    assert running == {"demo-prefill-1", "demo-decode-0", "demo-router-0"}
    assert reached(group) == {group.live(name)["label"]["url"] for name in ("demo-prefill-1", "demo-decode-0")}
    assert all(not facts["locks"] for facts in group.facts.values())
    again(group, raw)
    assert again(group, raw).steps() == []


def test_a_router_that_is_replaced_early_has_no_prefill_that_others_are_renewed_for() -> None:
    """It came up in a run that died, and a decode is gone since."""
    raw = sglang(membership="restart")
    group = deployed(raw)
    dead_before_the_rounds(group, raw)
    group.kill("demo-decode-1")
    made = group.plan(raw)
    assert rounds(made) == [["demo-decode-0"]]
    assert made.router["early"] == ["demo-decode-0", "demo-prefill-1"]


def test_a_member_that_does_not_come_back_from_its_round_is_the_last_that_goes() -> None:
    """The other decode may be the last that serves. It goes on with the prefill that it knows, and the one that came waits outside."""
    raw = sglang(readiness="any_per_role")
    group = deployed(raw)
    group.kill("demo-prefill-0")
    made = group.plan(raw)
    assert rounds(made) == [["demo-decode-0"], ["demo-decode-1"]]
    waits, late = [], []

    def before_phase(phase: str) -> None:
        waits.extend([phase] if phase == "wait" else [])
        # In the first round, and from there on.
        late.extend(["demo-decode-0"] if len(waits) == 2 else [])

    before = group.live("demo-decode-1")["process_id"]
    group.carry_out(made, never_ready=late, before_phase=before_phase)
    assert group.live("demo-decode-1")["process_id"] == before
    assert reached(group) == {group.live(name)["label"]["url"] for name in ("demo-prefill-1", "demo-decode-1")}
    assert all(not facts["locks"] for facts in group.facts.values())
    # The next run is told of the decode that is down, replaces it, and goes on.
    group.kill("demo-decode-0")
    again(group, raw)
    assert group.live("demo-decode-1")["process_id"] != before
    assert again(group, raw).steps() == []
    assert len(reached(group)) == 4


def test_a_prefill_that_waits_for_a_round_is_told() -> None:
    raw = sglang(readiness="any_per_role")
    group = deployed(raw)
    group.kill("demo-prefill-0")
    waits, late = [], []

    def before_phase(phase: str) -> None:
        waits.extend([phase] if phase == "wait" else [])
        late.extend(["demo-decode-0"] if len(waits) == 2 else [])

    hosts = memory.Hosts(group.facts, never_ready=late, before_phase=before_phase)
    course = memory.Wave([group.plan(raw).value], hosts).run()["demo"]
    assert course.waits == ("demo-prefill-0",)
    assert "demo-prefill-0 waits outside of the router: a decode member did not come back" in course.told


def test_rounds_of_one_group_are_no_matter_of_another() -> None:
    """A host is lost while one is renewed. The other has no rounds, and ends as it would by itself: nothing of it is taken back."""
    hosts = {f"h{number}": {"gpus": 4} for number in range(1, 6)}
    site = Fleet(**hosts)
    mine = sglang()
    site.deploy(mine)
    site.kill("demo-prefill-0")
    other = sglang(prefill=1, decode=1)
    other["roles"]["prefill"]["hosts"], other["roles"]["decode"]["hosts"] = "h4", "h5"
    other["roles"]["router"] |= {"hosts": "h4", "port": 8001}
    plans = [site.plan(mine).value, site.plan(other, name="other").value]
    phases: list[str] = []
    told = memory.Hosts(site.facts, undo=True, before_phase=phases.append)
    # From the end of the last round on.
    told.silent = lambda host: host == "h5" and phases.count("wait") >= 4
    courses = memory.Wave(plans, told).run()
    assert not courses["demo"].failed, courses["demo"].told
    assert courses["other"].failed
    assert not courses["other"].undoes
    noted = {place["id"] for place in site.facts["h4"]["records"]["other"]["members"]}
    assert noted == {"other-prefill-0", "other-decode-0", "other-router-0"}


def test_what_was_to_be_taken_back_on_a_host_that_is_lost_is_still_named() -> None:
    """pd_on_failure: stop. It may run on there, and nobody replaces it elsewhere as if it had never been."""
    raw = sglang(prefill=1, decode=1)
    group = Fleet(h1={"gpus": 4}, h2={"gpus": 1}, h3={"gpus": 1}, h4={})
    phases: list[str] = []
    made = group.plan(raw)
    on = made.members["demo-decode-0"]["parts"][0]["host"]

    def before_phase(phase: str) -> None:
        phases.append(phase)
        if phase == "wait":
            group.silent.add(on)

    assert not group.carry_out(made, undo=True, before_phase=before_phase)
    noted = {place["id"] for place in group.facts["h1"]["records"]["demo"]["members"]}
    assert noted == {"demo-decode-0", "demo-router-0"}
    held = group.plan(raw)
    assert held.who("create") == ["demo-router-0"]
    group.silent.clear()
    # The lock that it could not give back has run out by then.
    group.facts[on]["locks"] = {}
    again(group, raw)
    assert again(group, raw).steps() == []
