# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A change of several groups, wave by wave, by the real playbook: who runs what then, what the records say, and what a later run does.

Each takes a minute or two: `make test` goes through one that ends well and one that is returned, `make test-faults` through all."""

from __future__ import annotations

import json
import os
import signal
import typing as t
from pathlib import Path

import pytest
from integration import rollouts, support_runtime
from integration.conftest import Life, start
from integration.rollouts import GROUPS, Rollouts

pytestmark = [pytest.mark.integration, pytest.mark.apart]


@pytest.fixture
def site(make_site: t.Callable[..., Life], model: Path, tmp_path: Path) -> Rollouts:
    return rollouts.make(make_site, model, tmp_path)


def test_a_change_goes_through_in_waves_and_once(site: Rollouts) -> None:
    site.rollout()
    site.edit(8192)
    told = site.play("rollout", "-e", "pd_rollout=longer", "--check").ok().out
    assert "wave 1: 1 group" in told
    assert "wave 2: 2 groups" in told
    assert site.runs() == dict.fromkeys(GROUPS, "4096")
    run = site.play("rollout").ok()
    assert site.runs() == dict.fromkeys(GROUPS, "8192")
    assert site.notes() == dict.fromkeys(GROUPS, "passed")
    assert site.serving() == list(GROUPS)
    assert run.out.index("g0 | gate") < min(run.out.index("g1 | gate"), run.out.index("g2 | gate"))
    before = site.pids()
    again = site.play("rollout").ok()
    assert "changed=0" in again.out
    assert site.pids() == before


@pytest.mark.faults
def test_what_was_approved_of_a_rollout_is_compared_before_its_first_turn(site: Rollouts, tmp_path: Path) -> None:
    site.rollout()
    site.edit(8192)
    file = tmp_path / "plan.json"
    told = site.play("rollout", "--check", pd_plan_out=file).ok().out
    digest = json.loads(file.read_text())["digest"]
    assert told.count("-e pd_plan_digest=") == told.count(f"-e pd_plan_digest={digest}") == 1, (
        "that of the rollout alone"
    )
    site.rollout(waves=[{"percent": 100}])
    assert "plan-not-approved" in site.play("rollout", pd_plan_file=file).refused().out, "other waves"
    site.rollout()
    site.edit(2048)
    assert "plan-not-approved" in site.play("rollout", pd_plan_digest=digest).refused().out, "another change"
    assert site.runs() == dict.fromkeys(GROUPS, "4096")
    assert not any(site.noted(name).get("rollout") for name in GROUPS)
    site.edit(8192)
    site.play("rollout", pd_plan_digest=digest).ok()
    assert site.runs() == dict.fromkeys(GROUPS, "8192")
    assert site.notes() == dict.fromkeys(GROUPS, "passed")
    site.play("rollout", pd_plan_digest=digest).ok()


@pytest.mark.faults
def test_a_gate_that_says_no_holds_the_rest_and_a_release_goes_on(site: Rollouts) -> None:
    site.rollout(waves=[{"groups": ["g0"]}, {"groups": ["g1"]}, {"percent": 100}])
    site.edit(8192)
    (site.refused / "g1").touch()
    run = site.play("rollout")
    run.refused()
    assert "the gate says no" in run.out
    assert site.runs() == {"g0": "8192", "g1": "8192", "g2": "4096"}
    assert site.notes() == {"g0": "passed", "g1": "failed", "g2": "held"}
    assert not site.noted("g1")["endpoint"]["registered"]
    assert "the gate says no" in site.noted("g1")["rollout"]["why"]
    # Nobody goes on by itself.
    site.play("rollout").refused()
    assert site.runs()["g2"] == "4096"
    (site.refused / "g1").unlink()
    site.play("rollout", "-e", "pd_release=g1").ok()
    assert site.notes() == dict.fromkeys(GROUPS, "passed")
    assert site.runs() == dict.fromkeys(GROUPS, "8192")


def test_what_fails_is_returned_and_held_until_it_is_released(site: Rollouts) -> None:
    site.rollout(waves=[{"groups": ["g0"]}, {"groups": ["g1"]}, {"percent": 100}], on_failure="return")
    site.edit(8192)
    (site.refused / "g1").touch()
    run = site.play("rollout").refused()
    assert "returned" in run.out
    assert site.notes() == {"g0": "passed", "g1": "returned", "g2": "held"}
    assert site.runs() == {"g0": "8192", "g1": "4096", "g2": "4096"}
    assert site.serving() == list(GROUPS), "what was returned serves again"
    assert site.noted("g1")["held"]["revision"] == site.noted("g1")["revision"]
    told = site.play("status").ok().out
    assert "has failed, and runs again what it ran before" in told
    assert "the gate says no" in " ".join(told.split())
    site.play("restart", pd_group="g1").refused()
    (site.refused / "g1").unlink()
    site.play("rollout", pd_release="g1").ok()
    assert site.runs() == dict.fromkeys(GROUPS, "8192")
    assert "held" not in site.noted("g1")


@pytest.mark.faults
def test_a_pause_an_abort_and_another_rollout(site: Rollouts) -> None:
    site.rollout(waves=[{"groups": ["g0"], "soak": 3600}, {"percent": 100}])
    site.edit(8192)
    # A soak of an hour is not waited for.
    run = site.play("rollout").ok()
    assert "run this again" in run.out
    assert site.notes() == {"g0": "soaking", "g1": "planned", "g2": "planned"}
    site.play("rollout", "-e", "pd_rollout_pause=true").ok()
    assert all(site.noted(name)["rollout"]["paused"] for name in GROUPS)
    assert "it is paused" in site.play("rollout").ok().out
    longer = site.variables["pd_rollouts"]["longer"]
    site.variables = {"pd_rollouts": {"longer": longer, "other": {**longer, "waves": [{"percent": 100}]}}}
    site.write()
    refused = site.play("rollout", "-e", "pd_rollout=other")
    refused.refused()
    assert "rollout longer has it" in refused.out
    site.play("rollout", "-e", "pd_rollout=longer", "-e", "pd_rollout_abort=true")
    assert site.notes() == dict.fromkeys(GROUPS, "aborted")
    site.play("rollout", "-e", "pd_rollout=other").ok()
    assert site.runs() == dict.fromkeys(GROUPS, "8192")


@pytest.mark.faults
def test_a_run_that_is_killed_in_a_change_is_gone_on_with(site: Rollouts) -> None:
    """The gate of the second group is where it is killed: the group runs what is new, and no client has been sent there."""
    site.rollout()
    site.edit(8192)
    mark = site.folder / "reached"
    gate = site.folder / "gate"
    gate.write_text(f"#!/bin/sh\ncase $1 in g0) exit 0;; esac\ntouch {mark}\nsleep 600\n")
    process = start(site, "inferops.pd.rollout")
    support_runtime.wait_for(mark.exists, 200, "the gate of the second wave")
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate(timeout=30)
    found = site.notes()
    assert found["g0"] == "passed"
    assert sorted([found["g1"], found["g2"]]) == ["changing", "planned"]
    told = site.play("status").ok().out
    assert told.count("rollout longer, wave 2") == 2
    gate.write_text("#!/bin/sh\nexit 0\n")
    before = site.pids([site.states[0]])
    site.play("rollout").ok()
    assert site.notes() == dict.fromkeys(GROUPS, "passed")
    assert site.runs() == dict.fromkeys(GROUPS, "8192")
    assert site.pids([site.states[0]]) == before, "what had passed was not touched again"
    assert site.serving() == list(GROUPS)
