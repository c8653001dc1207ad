# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One run for many groups: what goes wrong with some of them takes nothing from the others, and is told once."""

from __future__ import annotations

import re
import typing as t
from pathlib import Path

import pytest
from faults import fleet, fleet_lab
from faults.fleet import Fleet, failed_once
from faults.model import DEPLOY, Play
from faults.rows_runs import interrupt
from integration.conftest import interface
from lab.fixture import Lab
from support import Run

pytestmark = [pytest.mark.faults, pytest.mark.apart]
Make = t.Callable[[int, t.Sequence[str]], Fleet]

# What goes wrong with which group. The others are s1, s2, ...
DIES, HANGS, LOCKED, LOST = "dies", "hangs", "locked", "lost"
# Seconds: that the one which never gets ready has, and that those wait for it which are ready.
LIMIT, PATIENCE = 15, "2"
PHASES = ("observe", "lock", "wait", "router", "proof", "endpoint")
AGAIN = r"run inferops\.pd\.deploy -e pd_group=%s again"
EVERY = {"pd_group": "all"}


@pytest.fixture
def make_fleet(model: Path, tmp_path: Path) -> t.Iterator[Make]:
    if interface() is None:
        pytest.skip("needs a default route")
    made: list[Fleet] = []

    def make(hosts: int, names: t.Sequence[str]) -> Fleet:
        made.append(fleet.make(model, tmp_path / "site", hosts, names))
        made[-1].begin("fleet")
        return made[-1]

    yield make
    for one in made:
        one.clean()


@pytest.fixture
def make_lab_fleet(lab: Lab, tmp_path: Path) -> t.Iterator[Make]:
    made: list[Fleet] = []

    def make(hosts: int, names: t.Sequence[str]) -> Fleet:
        made.append(fleet_lab.make(lab, tmp_path / "site", hosts, names))
        made[-1].begin("fleet")
        return made[-1]

    yield make
    for one in made:
        one.clean()


def well(count: int) -> list[str]:
    return [f"s{number}" for number in range(1, count + 1)]


def spread(site: Fleet, names: t.Sequence[str], hosts: int, **changes: t.Any) -> None:
    """Each over two hosts of the first so many, all of these in use."""
    for number, name in enumerate(names):
        first, second = f"h{number % hosts + 1}", f"h{(number + hosts // 2) % hosts + 1}"
        site.add(name, (first, second, first), **changes)
    site.write()


def troubled(site: Fleet) -> None:
    """Twelve groups on eight hosts, of which four will not get what they want. The one whose host is lost has that host alone; all others
    share theirs."""
    spread(site, [DIES, HANGS, LOCKED, *well(8)], 7)
    site.add(DIES, ("h1", "h4", "h1"), **site.fails(DIES, "die_while"))
    site.add(
        HANGS, ("h2", "h5", "h2"), **site.fails(HANGS, "hang_while"), limits={"start": LIMIT, "drain": 2, "stop": 3}
    )
    # The other run's group serves, and wants a decode more.
    site.must(Play("deploy", {"pd_group": LOCKED}))
    site.groups[LOCKED]["roles"]["decode"]["replicas"] = 2
    site.lock_of_another(LOCKED)
    site.add(LOST, ("h1", "h8", "h8"))
    site.write()


def judge(site: Fleet, point: str) -> None:
    """The run, with the host lost at that point; then the one that heals, which touches nobody who serves."""
    troubled(site)
    run = site.meet(Play("deploy", {"pd_patience": PATIENCE}), point, lambda: site.lose("h8"))
    serve = {LOCKED, *well(8)}
    assert site.serving() == serve, f"{run.out[-6000:]}"
    tells_who_and_why(run)
    site.reachable()
    held = [str(lock) for lock in site.locks() if not re.search(r"\bh8\b", str(lock))]
    assert len(held) == 1, held
    assert LOCKED in held[0]

    site.mend(DIES)
    site.mend(HANGS)
    site.unlock(LOCKED)
    before = site.touched()
    healed = site.must(DEPLOY)
    assert site.serving() == set(site.groups), healed.out[-6000:]
    after = site.touched()
    changed = {name for name in site.groups if after[name] != before[name]}
    assert changed == {DIES, HANGS, LOCKED, LOST}
    kept = {member: pid for member, pid in before[LOCKED].items() if member.startswith(f"{LOCKED}-")}
    assert len(kept) == 3, kept
    assert kept.items() <= after[LOCKED].items()
    assert not site.locks()
    assert site.must(DEPLOY).changed == 0
    site.must(Play("remove", {**EVERY, "pd_parallel": "12"}))
    assert site.left() == []


def tells_who_and_why(run: Run) -> None:
    """Once, at the end, each group with its reason and what to do; and nothing of those that serve."""
    end = failed_once(run)
    for group, patterns in {
        DIES: (r"dies-decode-0 on h4: .{0,200}VLLM_KV_CACHE_LAYOUT=NHD", r"Change VLLM_KV_CACHE_LAYOUT", AGAIN % DIES),
        HANGS: (rf"hangs-decode-0 on h5: not ready within {LIMIT} s", AGAIN % HANGS),
        LOCKED: (r"ops@elsewhere pid 7 is changing it since", r"-e pd_break_lock=true"),
        LOST: (r"h8 (did not answer|has not answered)", r"-e pd_lost_hosts=h8|Run the same playbook again"),
    }.items():
        assert re.search(rf"\b{group}\b", end), f"{group} is not told:\n{end}"
        for pattern in patterns:
            assert re.search(pattern, end), f"{group}: {pattern!r} is not told:\n{end}"
    assert not re.search(r"\bs\d-(prefill|decode|router)-\d", end), (
        f"one that serves is told as if it had failed:\n{end}"
    )
    assert run.out.count("UNREACHABLE!") <= 1, "a host that did not answer was asked again"


@pytest.mark.telling
def test_nine_of_twelve_serve(make_fleet: Make) -> None:
    judge(make_fleet(8, [DIES, HANGS, LOCKED, LOST, *well(8)]), "before:start")


@pytest.mark.parametrize("phase", PHASES)
def test_nine_of_twelve_serve_whenever_a_host_is_lost(make_fleet: Make, phase: str) -> None:
    judge(make_fleet(8, [DIES, HANGS, LOCKED, LOST, *well(8)]), f"before:{phase}")


def test_nine_of_twelve_serve_on_hosts_of_the_lab(make_lab_fleet: Make) -> None:
    judge(make_lab_fleet(8, [DIES, HANGS, LOCKED, LOST, *well(8)]), "before:wait")


@pytest.mark.telling
def test_seven_do_not_wait_for_the_eighth(make_fleet: Make) -> None:
    """They serve while the run goes on; and the eighth does in the same run, once it is ready."""
    site = make_fleet(4, [HANGS, *well(7)])
    spread(site, [HANGS, *well(7)], 4)
    site.add(HANGS, ("h1", "h3", "h1"), **site.fails(HANGS, "hang_while"), limits={"start": 600, "drain": 2, "stop": 3})
    site.write()
    run = site.start(Play("deploy", {"pd_patience": PATIENCE}))
    site.serve_during(run, well(7))
    site.mend(HANGS)
    run.finish().ok()
    assert site.serving() == {HANGS, *well(7)}


@pytest.mark.parametrize(
    "phase", [pytest.param("start", marks=pytest.mark.telling), "lock", "wait", "router", "proof", "endpoint"]
)
def test_a_module_that_falls_over_fails_the_groups_of_its_host(make_fleet: Make, phase: str) -> None:
    site = make_fleet(4, well(4))
    spread(site, well(4), 4)
    site.fall_over("h1", phase)
    run = site.do_play(DEPLOY)
    # The router of s1 is there, and the decode of s3.
    there = {"s1"} if phase in ("router", "proof") else {"s1", "s3"}
    assert {name for name in site.groups if "h1" in site.hosts_of(name)} == {"s1", "s3"}
    end = failed_once(run)
    assert site.serving() == set(site.groups) - there
    assert re.search(r"h1: module \w+ fell over", end), end
    assert {name for name in site.groups if re.search(rf"\b{name}\b", end)} == there
    # What the module of the last phase should have given back, only a run that is dead still has.
    assert phase == "endpoint" or not site.locks()
    site.reachable()
    before = site.touched()
    site.must(DEPLOY)
    assert site.serving() == set(site.groups)
    assert not site.locks()
    assert {name for name, files in site.touched().items() if files != before[name]} == there


@pytest.mark.telling
def test_two_runs_over_overlapping_groups(make_fleet: Make) -> None:
    """The second has what the first has not, and says who has the rest."""
    site = make_fleet(3, well(4))
    spread(site, well(4), 3)
    first = site.start(Play("deploy", {"pd_group": "s1,s2,s3"}), "before:wait")
    site.reached(first)
    second = site.start(Play("deploy", {"pd_group": "s3,s4"})).finish()
    assert site.serving() == {"s4"}
    end = failed_once(second)
    assert re.search(r"\bs3\b", end)
    assert f"pid {first.process.pid} is changing it since" in end
    site.go()
    first.finish().ok()
    assert site.serving() == set(site.groups)
    assert not site.locks()
    assert site.must(DEPLOY).changed == 0


def test_limit_forms_what_lies_within(make_fleet: Make) -> None:
    """Groups of which a host is left out are refused, each for itself; nothing of them starts anywhere."""
    site = make_fleet(4, well(3))
    for name, first, second in (("s1", "h1", "h2"), ("s2", "h3", "h4"), ("s3", "h2", "h3")):
        site.add(name, (first, second, first))
    site.write()
    run = site.do_play(Play("deploy", words=("--limit", "h1,h2")))
    assert site.serving() == {"s1"}
    assert {member.partition("-")[0] for member in site.pids()} == {"s1"}
    end = failed_once(run)
    assert {name for name in site.groups if re.search(rf"\b{name}\b", end)} == {"s2", "s3"}
    assert "left out" in end
    before = site.touched()
    assert site.must(Play("deploy", {"pd_group": "s1"}, ("--limit", "h1,h2"))).changed == 0
    site.must(DEPLOY)
    assert site.serving() == set(site.groups)
    assert site.touched()["s1"] == before["s1"]


def test_ctrl_c_between_two_waves(make_fleet: Make) -> None:
    """What was restarted serves, what is to come serves on as it was, and nobody has a lock."""
    site = make_fleet(3, well(3))
    spread(site, well(3), 3)
    site.must(DEPLOY)
    before = site.touched()
    run = site.meet(Play("restart", EVERY), "before:lock:2", lambda: interrupt(site))
    assert run.rc != 0
    assert "User interrupted execution" in run.out
    assert site.serving() == set(site.groups)
    (done,) = (name for name, files in site.touched().items() if files != before[name])
    assert not site.locks()
    rest = sorted(set(site.groups) - {done})
    once = site.touched()
    site.must(Play("restart", {"pd_group": ",".join(rest)}))
    assert site.serving() == set(site.groups)
    after = site.touched()
    assert after[done] == once[done]
    assert all(not set(after[name].values()) & set(once[name].values()) for name in rest)
