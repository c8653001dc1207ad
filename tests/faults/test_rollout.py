# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A change of ten groups on eight hosts of the lab, and what may come in its way: a gate that says no, a controller that is killed, another
rollout, a host that is lost while a changed group is watched, a window that closes, a host that is emptied. Whatever comes, those who are
not meant serve on, and the status says how it is with each."""

from __future__ import annotations

import datetime
import os
import signal
import typing as t
from pathlib import Path

import pytest
from faults import fleet_lab
from faults.fleet import Fleet
from faults.fleet_lab import LabFleet
from faults.model import DEPLOY, Play
from integration.support_runtime import wait_for
from lab.fixture import Lab
from load import Load

pytestmark = [pytest.mark.faults, pytest.mark.apart, pytest.mark.timeout(2400)]
GROUPS = [f"s{number}" for number in range(1, 11)]
# One more, whose engines may be on either of two hosts.
MOVES = "s11"
NO, WAITS = "no", "waits"


@pytest.fixture
def site(lab: Lab, tmp_path: Path) -> t.Iterator[LabFleet]:
    made = fleet_lab.make(lab, tmp_path / "site", 8, [*GROUPS, MOVES])
    made.begin("rollout")
    for number, name in enumerate(GROUPS):
        first, second = f"h{number % 8 + 1}", f"h{(number + 4) % 8 + 1}"
        made.add(name, (first, second, first), labels={"site": first})
    yield made
    made.clean()


def edit(site: Fleet, length: int) -> None:
    for group in site.groups.values():
        group["engine"]["args"] = [f"--max-model-len={length}"]
    site.write()


def rollout(site: Fleet, name: str, **changes: t.Any) -> None:
    """A rollout whose gate does to a group what a file of `causes` says: NO-s3 refuses s3, WAITS-s5 keeps it until the file is gone."""
    gate = site.folder / "gate"
    gate.write_text(
        f"#!/bin/sh\ncd {site.causes}\nif test -e {WAITS}-$1; then touch reached-$1; fi\n"
        f"while test -e {WAITS}-$1; do sleep 0.2; done\ntest ! -e {NO}-$1\n"
    )
    gate.chmod(0o755)
    made = {
        "groups": "all",
        "waves": [{"groups": ["s1"]}, {"groups": ["s2"]}, {"groups": ["s3"]}, {"percent": 100, "parallel": 4}],
        "gate": {"command": [str(gate), "{{ group }}"]},
        "on_failure": "return",
        **changes,
    }
    site.variables = {"pd_rollouts": {**dict(site.variables.get("pd_rollouts") or {}), name: made}}
    site.write()


def runs(site: Fleet, length: int) -> set[str]:
    """The groups whose records say that their decode was started with that length of a context, on each host that keeps one."""
    word = f"--max-model-len={length}"

    def of(name: str) -> bool:
        records = site.records_of(name)
        return bool(records) and all(word in one["templates"]["roles"]["decode"]["argv"] for one in records)

    return {name for name in GROUPS if of(name)}


def noted(site: Fleet, state: str) -> set[str]:
    """The groups of which the last record says that they are so far."""

    def of(name: str) -> str:
        newest = max(site.records_of(name), key=lambda one: (one["formed"], one["serial"]))
        return str((newest.get("rollout") or {}).get("state"))

    return {name for name in GROUPS if of(name) == state}


def deployed(site: Fleet) -> None:
    edit(site, 4096)
    site.must(DEPLOY)


def explained(site: Fleet, rollout: str) -> None:
    """Whether the status says of each group how it is, and how far the rollout is with it."""
    told = site.do_play(Play("status")).ok().out
    for name in GROUPS:
        assert f"{name}: RUNNING" in told or f"{name}: PARTIAL" in told
    assert told.count(f"rollout {rollout}, wave") == len(GROUPS)


def killed(site: Fleet, play: Play, group: str) -> None:
    """The controller dies while this group is at its gate."""
    waiting = site.causes / f"{WAITS}-{group}"
    waiting.touch()
    going = site.start(play)
    wait_for((site.causes / f"reached-{group}").exists, 600, f"{group} at its gate")
    os.killpg(going.process.pid, signal.SIGKILL)
    going.process.wait(20)
    waiting.unlink()


def of_groups(site: Fleet, names: t.Collection[str]) -> dict[str, dict[str, str]]:
    """The processes and files of the members of these groups, as `touched` says of them."""
    return {
        name: {k: v for k, v in one.items() if k.startswith(f"{name}-")}
        for name, one in site.touched().items()
        if name in names
    }


def test_a_gate_that_says_no_another_rollout_and_a_killed_controller(site: LabFleet) -> None:
    deployed(site)
    rollout(site, "longer")
    edit(site, 8192)
    # The third one fails its gate: it is returned, the rest is held, and all ten serve.
    refuses = site.causes / f"{NO}-s3"
    refuses.touch()
    run = site.do_play(Play("rollout"))
    run.refused()
    site.said(r"s3 has failed and was returned .{0,400}the gate says no", run)
    assert noted(site, "passed") == {"s1", "s2"}
    assert (noted(site, "returned"), noted(site, "held")) == ({"s3"}, set(GROUPS[3:]))
    assert runs(site, 8192) == {"s1", "s2"}
    assert runs(site, 4096) == set(GROUPS[2:])
    assert site.serving() == set(GROUPS)

    # Another rollout over the same groups waits for its end.
    rollout(site, "other", waves=[{"percent": 100}])
    site.said("rollout longer has it", site.do_play(Play("rollout", {"pd_rollout": "other"})).refused())

    # The controller dies in the middle of a wave; the next run goes on, and touches nobody who has passed.
    refuses.unlink()
    longer = {"pd_rollout": "longer"}
    killed(site, Play("rollout", {**longer, "pd_release": "s3"}), "s5")
    explained(site, "longer")
    passed = of_groups(site, ("s1", "s2", "s3"))
    site.must(Play("rollout", longer))
    assert noted(site, "passed") == set(GROUPS)
    assert runs(site, 8192) == set(GROUPS) == site.serving()
    assert of_groups(site, passed) == passed
    assert not site.locks()


def test_a_host_that_is_lost_while_a_group_is_watched(site: LabFleet) -> None:
    """Nobody else is changed, and it is told; when the host is back, it goes on."""
    deployed(site)
    waves = [{"groups": ["s1"], "soak": 25}, {"percent": 100, "parallel": 4}]
    rollout(site, "again", waves=waves, on_failure="hold")
    edit(site, 2048)
    going = site.start(Play("rollout"))
    wait_for(lambda: noted(site, "soaking") == {"s1"}, 600, "the soak of s1")
    site.lose("h5")
    site.said("h5", going.finish().refused())
    assert runs(site, 2048) == {"s1"}
    assert not noted(site, "passed") & set(GROUPS[1:])
    site.reachable()
    assert site.serving() == set(GROUPS)
    explained(site, "again")
    site.must(Play("rollout", {"pd_release": "s1"}))
    assert runs(site, 2048) == set(GROUPS) == site.serving()
    assert not site.locks()


def test_a_window_that_closes(site: LabFleet) -> None:
    """What has begun is ended, nothing else begins, the run ends well and says when to go on; within a window it does."""
    deployed(site)
    closes = datetime.datetime.now(datetime.timezone.utc).replace(second=0, microsecond=0) + datetime.timedelta(
        minutes=5
    )
    opened = closes - datetime.timedelta(hours=12)
    window = {"from": f"{opened:%H:%M}", "to": f"{closes:%H:%M}", "zone": "UTC"}
    rollout(site, "nightly", window=window)
    edit(site, 8192)
    waiting = site.causes / f"{WAITS}-s1"
    waiting.touch()
    going = site.start(Play("rollout"))
    wait_for((site.causes / "reached-s1").exists, 280, "s1 at its gate, before the window closes")
    wait_for(lambda: datetime.datetime.now(datetime.timezone.utc) > closes, 400, "the window has closed")
    waiting.unlink()
    run = going.finish().ok()
    site.said(f"window .{{0,80}}{opened:%H:%M} to {closes:%H:%M}", run)
    assert noted(site, "passed") == runs(site, 8192) == {"s1"}
    assert site.serving() == set(GROUPS)
    explained(site, "nightly")

    # The next run is as well, as long as it is closed.
    before = of_groups(site, GROUPS)
    site.do_play(Play("rollout")).ok()
    assert of_groups(site, GROUPS) == before
    assert not site.locks()


def test_a_host_that_is_emptied(site: LabFleet) -> None:
    """Of a group that may be elsewhere all serves elsewhere, and no request fails; what may not is told, and stays."""
    site.add(MOVES, ("h3:h4", "h3:h4", "h5"), prefill={"replicas": 2, "gpus": 0}, decode={"replicas": 2, "gpus": 0})
    deployed(site)
    everybody = {*GROUPS, MOVES}
    assert site.serving() == everybody
    assert {one["host"] for one in site.records_of(MOVES)[0]["members"]} == {"h3", "h4", "h5"}
    before = of_groups(site, GROUPS)
    with Load(f"http://{site.address_of('h5')}:{site.routers[MOVES]}", rate=20, senders=20) as load:
        wait_for(lambda: load.reached(40), 60, "clients are served")
        run = site.do_play(Play("evacuate", {"pd_host": "h3"}))
        seen = load.report.sent
        wait_for(lambda: load.reached(seen + 20), 60, "clients are served after it")
    assert not load.report.bad, load.report.told()
    site.said("s3-prefill-0", run)
    assert {one["host"] for one in site.records_of(MOVES)[0]["members"]} == {"h4", "h5"}
    assert of_groups(site, GROUPS) == before
    assert site.serving() == everybody
    assert not site.locks()
