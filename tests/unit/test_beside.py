# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A group is formed anew beside what serves, takes over, and the first one goes: clients are never without it, and no router reaches
members of two formations, whoever falls over when. Both are looked at before each write of each run (tests/beside.py)."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest
from beside import WIRED, Site
from builders import ROOT
from hypothesis import configuration
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from walks import walked

from ansible_collections.inferops.pd.plugins.module_utils._core.base import reader
from ansible_collections.inferops.pd.plugins.module_utils._core.base.checked import Checked
from ansible_collections.inferops.pd.plugins.module_utils._core.course.orders import parts_of
from ansible_collections.inferops.pd.plugins.module_utils._core.facts import stands
from ansible_collections.inferops.pd.plugins.module_utils._core.facts.record import Record
from ansible_collections.inferops.pd.plugins.module_utils._core.rollout.work import Work, of_verb
from ansible_collections.inferops.pd.plugins.module_utils._probes import carried
from ansible_collections.inferops.pd.plugins.module_utils._runtimes import state, unlabelled

configuration.set_hypothesis_home_dir(os.path.join(ROOT, ".build", "hypothesis"))


def record_of(site: Site, stand: str) -> Record:
    found = stands.record_of(stand, site.hosts())
    assert found is not None
    return found


def lengths(site: Site) -> dict[str, str]:
    """What each stand that has members runs with."""
    found = {}
    for stand in {member["label"]["group"] for member in site.entries()}:
        argv = record_of(site, stand).templates["roles"]["decode"]["argv"]
        found[stand] = next(word.partition("=")[2] for word in argv if "max-model-len" in word)
    return found


def test_names_of_stands():
    assert stands.both("qwen.1-b") == ("qwen.1-b", "qwen.1-b_2")
    assert [stands.other_of(one) for one in ("qwen", "qwen_2")] == ["qwen_2", "qwen"]
    assert [stands.name_of(one) for one in ("qwen", "qwen_2")] == ["qwen", "qwen"]


def test_a_second_stand_is_a_name_to_hosts_and_nobodys_to_users():
    stand = stands.other_of("qwen3.6-27b")
    assert reader.NAME.fullmatch("qwen3.6-27b")
    assert not reader.NAME.fullmatch(stand)
    assert carried.NAME.fullmatch(stand)
    assert state.plain_name(stand) == stand
    assert Checked({"group": stand}, "a record").name("group") == stand
    unit = unlabelled._UNIT.search(f"0::/system.slice/inferops-pd-{stand}-decode-0.service")
    assert unit is not None
    assert unlabelled._ID.fullmatch(unit[1]).groups() == (stand, "decode", "0")


def test_it_goes_there_and_back():
    site = Site()
    site.length = 8192
    end = site.roll()
    assert end is not None
    assert (end.kind, end.failed, lengths(site), site.there()) == ("end", False, {"demo_2": "8192"}, {"demo_2"}), end
    assert site.serves()
    record = record_of(site, "demo_2")
    assert record.previous is not None
    assert (record.generation, record.rollout["state"], record.previous.generation) == (2, "passed", 1)
    site.length = 2048
    assert site.roll()
    assert (lengths(site), site.there(), site.serves()) == ({"demo": "2048"}, {"demo"}, True)
    assert record_of(site, "demo").generation == 3
    assert site.by_hand("remove")
    assert (site.there(), site.gateways["mon"]) == (set(), {})


@pytest.mark.parametrize(("on_failure", "left"), [("return", {"demo"}), ("hold", {"demo", "demo_2"})])
def test_what_is_not_proven_gets_no_clients(on_failure: str, left: set[str]) -> None:
    site = Site(on_failure)
    site.length, site.unproven = 8192, True
    end = site.roll()
    assert end is not None
    assert end.failed
    assert (site.there(), site.stands().serves, site.serves()) == (left, "demo", True)
    site.unproven = False
    assert site.by_hand("deploy") is (on_failure == "return"), "what is not decided is refused"
    end = site.roll(release=True)
    assert end is not None
    assert not end.failed, end
    assert (lengths(site), site.there()) == ({"demo_2": "8192"}, {"demo_2"})


def test_a_soak_that_fails_gives_the_endpoint_back_and_starts_nothing() -> None:
    site = Site(soak=7200)
    site.length = 8192
    assert site.roll()
    assert (site.stands().serves, site.stands().twin) == ("demo_2", "demo")
    before = {m["process_id"] for m in site.entries() if m["label"]["group"] == "demo"}
    site.fleet.kill("demo_2-decode-0")
    end = site.roll()
    assert end is not None
    assert end.failed
    assert (lengths(site), site.there(), site.serves()) == ({"demo": "4096"}, {"demo"}, True)
    assert {m["process_id"] for m in site.entries()} == before
    record = record_of(site, "demo")
    assert record.held is not None
    assert (record.held.revision, record.rollout["state"]) == (record.revision, "returned")


def test_an_abort_keeps_what_has_the_endpoint() -> None:
    for soak, kept in ((7200, {"demo_2": "8192"}), (600, {"demo": "4096"})):
        site = Site(soak=soak, on_failure="hold")
        site.length, site.unproven = 8192, soak == 600
        site.roll()
        assert site.there() == {"demo", "demo_2"}
        site.unproven = False
        site.roll(abort=True)
        assert (lengths(site), site.there(), site.serves()) == (kept, set(kept), True)


def test_a_spec_that_is_edited_meanwhile_is_formed_anew() -> None:
    site = Site(on_failure="hold")
    site.length, site.unproven = 8192, True
    site.roll()
    site.length, site.unproven = 2048, False
    end = site.roll(release=True)
    assert end is not None
    assert not end.failed, end
    assert (lengths(site), site.there(), site.serves()) == ({"demo_2": "2048"}, {"demo_2"}, True)


@pytest.mark.parametrize("at", range(3, 60, 9))
def test_a_run_that_falls_over_anywhere_is_gone_on_with(at: int) -> None:
    site = Site(soak=0)
    site.length = 8192
    site.roll(at=at)
    assert site.serves()
    end = site.roll()
    assert end is not None
    assert not end.failed, end
    assert (lengths(site), site.there(), site.serves()) == ({"demo_2": "8192"}, {"demo_2"}, True)


def router_of(site: Site) -> str:
    """The stand whose router hooks send clients to."""
    (url,) = site.gateways["mon"].values()
    return next(m["label"]["group"] for m in site.entries() if m["label"]["url"] == url)


def test_a_hook_that_was_told_before_the_record_was_written_is_told_again() -> None:
    """The moment in which nobody knows: clients are with the second formation, and the record does not say so yet."""
    site = Site(soak=0)
    site.length = 8192
    site.falls_when = lambda: router_of(site) == "demo_2"
    assert site.roll() is None
    assert (site.stands().serves, site.stands().twin, router_of(site)) == ("demo", "demo_2", "demo_2")
    site.unproven, site.falls_when = True, lambda: False
    end = site.roll()
    assert end is not None
    assert end.failed
    assert (site.there(), router_of(site), site.serves()) == ({"demo"}, "demo", True)


def test_what_may_have_clients_is_left_by_a_deploy_that_tells_hooks_and_removed_by_the_next_one() -> None:
    """A run falls over when hooks have just been told of the second formation, and the one that gives it up when it has just noted that."""
    site = Site(soak=7200)
    site.length = 8192
    site.falls_when = lambda: router_of(site) == "demo_2"
    assert site.roll() is None
    site.falls_when = lambda: record_of(site, site.stands().serves).rollout.get("state") == "aborted"
    assert site.roll(abort=True) is None
    site.falls_when = lambda: False
    assert (site.stands().serves, site.stands().twin, site.stands().told, router_of(site)) == (
        "demo",
        "demo_2",
        True,
        "demo_2",
    )
    assert not site.by_hand("restart")
    assert site.by_hand("deploy")
    assert (site.there(), router_of(site), site.serves()) == ({"demo", "demo_2"}, "demo", True)
    assert site.by_hand("deploy")
    assert (site.there(), router_of(site), site.serves()) == ({"demo"}, "demo", True)


@pytest.mark.parametrize("said", [{}, {"abort": True}])
def test_two_runs_at_a_time_do_not_work_on_the_two_stands(said: dict[str, bool]) -> None:
    """While the second formation starts another run of the rollout gives hooks back to the first, or gives it up: it is refused."""
    site = Site(soak=0)
    site.length = 8192
    site.meets = lambda: any(m["label"]["group"] == "demo_2" for m in site.entries())
    ends: list[object] = []
    site.meanwhile = lambda: ends.append(site._roll(**said))
    end = site.roll()
    assert len(ends) == 1
    assert ends[0].failed  # type: ignore[attr-defined]
    assert end is not None
    assert not end.failed, end
    assert (lengths(site), site.there(), site.serves(), router_of(site)) == (
        {"demo_2": "8192"},
        {"demo_2"},
        True,
        "demo_2",
    )


def test_a_removal_does_not_meet_a_formation_that_is_about_to_have_clients() -> None:
    site = Site(soak=0)
    site.length = 8192
    site.meets = lambda: any(m["label"]["group"] == "demo_2" for m in site.entries())
    well: list[bool] = []
    works = [Work("demo"), Work("demo_2")]
    site.meanwhile = lambda: well.append(site._carry_out(works, "remove", beside=False))
    assert site.roll()
    assert (well, site.there(), site.serves(), router_of(site)) == ([False], {"demo_2"}, True, "demo_2")


def test_a_run_that_goes_without_a_hook_leaves_what_that_may_send_clients_to() -> None:
    site = Site(soak=7200)
    site.length = 8192
    site.falls_when = lambda: router_of(site) == "demo_2"
    assert site.roll() is None
    site.falls_when, site.wired = lambda: False, replace(WIRED, skip=frozenset({"sd"}))
    end = site.roll(abort=True)
    assert end is not None
    assert end.failed
    assert (site.there(), router_of(site), site.serves()) == ({"demo", "demo_2"}, "demo_2", True)
    site.wired = WIRED
    site.roll()
    assert (site.there(), router_of(site), site.serves()) == ({"demo"}, "demo", True)


def test_what_failed_is_not_what_a_group_is_returned_to_when_that_is_not_whole() -> None:
    site = Site()
    site.length, site.unproven = 8192, True
    site.falls_when = lambda: record_of(site, "demo").rollout.get("state") == "failed"
    assert site.roll() is None
    site.falls_when, site.unproven = lambda: False, False
    site.fleet.kill("demo-decode-0")
    end = site.roll()
    assert end is not None
    assert end.failed
    assert (lengths(site), site.there(), router_of(site)) == ({"demo": "4096"}, {"demo"}, "demo")


@pytest.mark.parametrize("at", range(1, 13))
def test_what_was_never_proven_does_not_become_the_group_when_a_removal_falls_over(at: int) -> None:
    """Wherever that is: also after it has marked the endpoint of the first formation."""
    site = Site(on_failure="hold")
    site.length, site.unproven = 8192, True
    site.roll()
    assert (site.stands().serves, site.stands().twin) == ("demo", "demo_2")
    site._falls(lambda: site._carry_out([Work("demo")], "remove", beside=False), at=at, watches=False)
    there = site.stands()
    assert there.serves == "demo" or "demo" not in site.there()


def apart() -> Site:
    """The second formation has taken over, and soaks, on hosts that have nothing of the first; and nobody can ask these."""
    site = Site(soak=7200, racks=True)
    site.where, site.length = ("h1:h3", "h2:h4", "h3"), 8192
    assert site.roll()
    assert (site.stands().serves, site.stands().twin, site.stands().told) == ("demo_2", "demo", False)
    site.loses("h3")
    site.loses("h4")
    assert site.stands().known == ("demo",)
    return site


def test_a_deploy_that_does_not_see_the_second_formation_has_clients_with_the_first() -> None:
    """What took over is lost with its hosts, and the record of the first says that hooks know it."""
    site = apart()
    for member in site.entries():
        if member["label"]["group"] == "demo_2":
            member.update(state="exited", ready=False)
    assert not site.serves()
    assert site.by_hand("deploy")
    assert (router_of(site), site.serves()) == ("demo", True)


def test_what_was_given_clients_while_the_second_formation_was_not_seen_is_not_removed_before_hooks_know_that() -> None:
    site = apart()
    site.weight = 50
    assert site.by_hand("deploy")
    site.gets_back()
    assert (site.stands().serves, site.stands().told, router_of(site)) == ("demo_2", True, "demo")
    site.roll()
    end = site.roll()
    assert end is not None
    assert not end.failed, end
    assert (site.there(), router_of(site), site.serves()) == ({"demo_2"}, "demo_2", True)


def test_what_was_left_is_removed_by_the_next_deploy_and_lets_end_what_it_has() -> None:
    site = Site(soak=0)
    site.length = 8192
    site.falls_when = lambda: record_of(site, site.stands().serves).rollout.get("state") == "passed"
    assert site.roll() is None
    assert (site.stands().serves, site.stands().twin) == ("demo_2", "demo")
    site.falls_when = lambda: False
    rest, mine = of_verb("deploy", site.stands(), record_of(site, "demo_2").rollout)
    made = site.fleet.plan(site.raw, "remove", name=rest.stand, beside=rest.beside(site.hosts()))
    plan = made.value
    assert (rest.stand, mine.stand, plan.drains, plan.hooks) == ("demo", "demo_2", True, None)
    assert parts_of([plan])["withdraws"], "its endpoint is out of service, and it drains, before its router stops"
    assert plan.hold >= max(m.stop.drain or 0 for m in site.fleet.plan(site.raw, name="demo_2").value.members)
    assert site.by_hand("deploy")
    assert (site.there(), site.serves(), router_of(site)) == ({"demo_2"}, True, "demo_2")


def test_while_it_stands_twice_heal_mends_what_serves_and_a_removal_takes_both() -> None:
    site = Site(soak=7200)
    site.length = 8192
    site.roll()
    before = {m["label"]["member"]: m["process_id"] for m in site.entries()}
    assert not site.by_hand("deploy")
    site.fleet.kill("demo_2-decode-0", "demo-prefill-0")
    assert not site.serves()
    assert site.by_hand("heal")
    after = {m["label"]["member"]: m["process_id"] for m in site.entries() if m["state"] == "running"}
    assert site.serves()
    assert {name for name in before if after.get(name) != before[name]} >= {"demo_2-decode-0", "demo-prefill-0"}
    assert "demo-prefill-0" not in after, "what has no clients is nobody's to heal"
    assert site.by_hand("remove")
    assert (site.there(), site.gateways["mon"]) == (set(), {})


def test_places_of_what_serves_are_taken() -> None:
    site = Site(gpus=1)
    site.length = 8192
    made = site.fleet.plan(site.raw, name="demo_2", wired=WIRED, beside=Work("demo_2").beside(site.hosts()))
    told = [one.message for one in made.findings.errors]
    assert [one.code for one in made.findings.errors] == ["does-not-fit", "does-not-fit"]
    assert "prefill: 0 of 1 new members fit; each takes 1 GPU" in told[0]
    assert "h1: 0 of 1 GPUs free" in told[0]
    end = site.roll()
    assert end is not None
    assert end.failed
    assert (site.there(), site.serves()) == ({"demo"}, True)


class Histories(RuleBasedStateMachine):
    @initialize(on_failure=st.sampled_from(["return", "hold"]), soak=st.sampled_from([0, 600, 7200]))
    def begin(self, on_failure: str, soak: int) -> None:
        self.site = Site(on_failure, soak)
        self.served = True

    @rule(length=st.sampled_from([4096, 8192, 2048]))
    def is_edited(self, length: int) -> None:
        self.site.length = length

    @rule(
        at=st.none() | st.integers(1, 120),
        said=st.sampled_from(["", "", "", "abort", "resume", "release"]),
        bad=st.sampled_from(["", "", "unproven", "hook_fails"]),
    )
    def runs(self, at: int | None, said: str, bad: str) -> None:
        self._run(lambda: self.site.roll(at, **({said: True} if said else {})), bad)

    @rule(verb=st.sampled_from(["deploy", "heal"]))
    def is_worked_on_by_hand(self, verb: str) -> None:
        self._run(lambda: self.site.by_hand(verb), "")

    @rule(host=st.sampled_from(["h1", "h2"]))
    def loses_a_host(self, host: str) -> None:
        """Nobody reaches it; what runs there runs on."""
        self.site.loses(host)

    @rule()
    def gets_its_hosts_back(self) -> None:
        self.site.gets_back()

    @rule(number=st.integers(0, 5))
    def a_member_falls_over(self, number: int) -> None:
        members = sorted(m["label"]["member"] for m in self.site.entries())
        if members:
            self.site.fleet.kill(members[number % len(members)])
            self.served = self.site.serves()

    def _run(self, run: object, bad: str) -> None:
        if bad:
            setattr(self.site, bad, True)
        try:
            run()  # type: ignore[operator]
        finally:
            self.site.unproven = self.site.hook_fails = False
        self.served = self.served or self.site.serves()

    @invariant()
    def who_served_serves(self) -> None:
        if hasattr(self, "site"):
            assert self.site.serves() or not self.served
            assert self.site.mixed() == []

    def teardown(self) -> None:
        """All hosts answer again, and the rollout is run cleanly: it ends, and nothing of the loser is left."""
        if not hasattr(self, "site"):
            return
        site = self.site
        site.gets_back()
        for verb in ("heal", "deploy"):
            site.by_hand(verb)
        ends = [site.roll(resume=number == 0, release=number < 2) for number in range(5)]
        assert ends[-1] is not None
        assert not ends[-1].failed, ends[-1]
        assert len(site.there()) == 1, (site.there(), ends[-1])
        assert set(lengths(site).values()) == {str(site.length)}
        assert site.serves()


Histories.TestCase.settings = walked(10, 10)
test_histories_of_a_group_that_is_formed_beside_itself = Histories.TestCase
