# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A change of ten groups on eight hosts, and what may come in its way: a gate that says no, a controller that is killed, another rollout, a
host that is lost while a changed group is watched. Whatever comes, who is not meant serves on, and the status says how it is with each."""

from __future__ import annotations

import os
import signal
import typing as t
from pathlib import Path

import pytest
from faults import fleet
from faults.fleet import Fleet
from faults.model import DEPLOY, Play
from integration.conftest import interface
from integration.support_runtime import wait_for

pytestmark = [pytest.mark.faults, pytest.mark.apart]
GROUPS = [f"s{number}" for number in range(1, 11)]
NO, WAITS = "no", "waits"


@pytest.fixture
def site(model: Path, tmp_path: Path) -> t.Iterator[Fleet]:
    if interface() is None:
        pytest.skip("needs a default route")
    made = fleet.make(model, tmp_path / "site", 8, GROUPS)
    made.begin("rollout")
    for number, name in enumerate(GROUPS):
        first, second = f"h{number % 8 + 1}", f"h{(number + 4) % 8 + 1}"
        made.add(name, (first, second, first), labels={"site": first})
    edit(made, 4096)
    made.must(DEPLOY)
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


@pytest.mark.timeout(2400)
def test_ten_groups_a_gate_a_kill_another_rollout_and_a_lost_host(site: Fleet) -> None:
    rollout(site, "longer")
    edit(site, 8192)
    # The third one fails its gate: it is returned, the rest is held, and all ten serve.
    (site.causes / f"{NO}-s3").touch()
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

    # The controller dies in the middle of a wave, while one of it is at its gate.
    (site.causes / f"{NO}-s3").unlink()
    waiting = site.causes / f"{WAITS}-s5"
    waiting.touch()
    longer = {"pd_rollout": "longer"}
    going = site.start(Play("rollout", {**longer, "pd_release": "s3"}))
    wait_for((site.causes / "reached-s5").exists, 400, "s5 at its gate")
    os.killpg(going.process.pid, signal.SIGKILL)
    going.process.wait(20)
    waiting.unlink()
    told = site.do_play(Play("status")).ok().out
    for name in GROUPS:
        assert f"{name}: RUNNING" in told or f"{name}: PARTIAL" in told
    assert told.count("rollout longer, wave") == len(GROUPS)
    before = {name: one for name, one in site.touched().items() if name in ("s1", "s2", "s3")}
    site.must(Play("rollout", longer))
    assert noted(site, "passed") == set(GROUPS)
    assert runs(site, 8192) == set(GROUPS) == site.serving()
    after = site.touched()
    members = {name: {k: v for k, v in one.items() if k.startswith(f"{name}-")} for name, one in before.items()}
    assert all(members[name].items() <= after[name].items() for name in members), "what had passed was touched again"

    # A host is lost while the first one is watched: nobody else is changed, and it is told.
    rollout(site, "again", waves=[{"groups": ["s1"], "soak": 25}, {"percent": 100, "parallel": 4}], on_failure="hold")
    edit(site, 2048)
    going = site.start(Play("rollout", {"pd_rollout": "again"}))
    wait_for(lambda: noted(site, "soaking") == {"s1"}, 200, "the soak of s1")
    site.lose("h5")
    run = going.finish().refused()
    site.said("h5", run)
    assert runs(site, 2048) == {"s1"}
    assert not noted(site, "passed") & set(GROUPS[1:])
    site.reachable()
    assert site.serving() == set(GROUPS)
    told = site.do_play(Play("status")).ok().out
    assert told.count("rollout again, wave") == len(GROUPS)
    site.must(Play("rollout", {"pd_rollout": "again", "pd_release": "s1"}))
    assert runs(site, 2048) == set(GROUPS) == site.serving()
    assert not site.locks()
