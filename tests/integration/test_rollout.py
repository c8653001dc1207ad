# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A change of several groups, wave by wave, by the real playbook: who runs what then, what the records say, and what a later run does."""

from __future__ import annotations

import json
import os
import signal
import typing as t
from pathlib import Path

import pytest
from integration import support_runtime
from integration.conftest import Life, ask, spec, start
from ports import free_block

pytestmark = [pytest.mark.integration]
GROUPS = ("g0", "g1", "g2")
WIDTH = 25


class Rollouts(Life):
    """A group on each of three hosts, and a gate that says no to those that have a file in `refused`."""

    routers: dict[str, int]

    def rollout(self, **changes: t.Any) -> None:
        gate = self.folder / "gate"
        gate.write_text(f'#!/bin/sh\necho "$1 at $2"; test ! -e {self.refused}/$1\n')
        gate.chmod(0o755)
        self.refused.mkdir(exist_ok=True)
        made = {
            "groups": "team=chat",
            "waves": [{"groups": ["g0"]}, {"percent": 100}],
            "gate": {"command": [str(gate), "{{ group }}", "{{ endpoint }}"]},
            "on_failure": "hold",
            **changes,
        }
        self.variables = {"pd_rollouts": {"longer": {k: v for k, v in made.items() if v is not None}}}
        self.write()

    @property
    def refused(self) -> Path:
        return self.folder / "refused"

    def edit(self, length: int) -> None:
        for group in self.groups.values():
            group["engine"]["args"] = [f"--max-model-len={length}"]
        self.write()

    def runs(self) -> dict[str, str]:
        """The length of a context that each group runs with, by its record."""
        found = {}
        for name in GROUPS:
            argv = self.noted(name)["templates"]["roles"]["decode"]["argv"]
            found[name] = next(word.partition("=")[2] for word in argv if word.startswith("--max-model-len"))
        return found

    def noted(self, name: str) -> dict[str, t.Any]:
        return self.record(name, self.states[GROUPS.index(name)])

    def notes(self) -> dict[str, str]:
        return {name: self.noted(name)["rollout"]["state"] for name in GROUPS}

    def notes_now(self) -> dict[str, str]:
        """The same while a run writes them."""
        try:
            return self.notes()
        except (OSError, KeyError, ValueError):
            return {}

    def asked(self, name: str, prompt: str = "once upon a time") -> int:
        """The status of a request to a group's router."""
        at = self.hosts[f"h{GROUPS.index(name)}"]["pd_address"]
        return ask(f"http://{at}:{self.routers[name]}", prompt)[0]

    def serving(self) -> list[str]:
        """Whose router answers."""
        return [name for name in GROUPS if self.asked(name) == 200]


@pytest.fixture
def site(make_site: t.Callable[..., Life], model: Path, tmp_path: Path) -> Rollouts:
    low = free_block(len(GROUPS) * WIDTH)
    hosts: dict[str, dict[str, t.Any]] = {}
    groups, routers = {}, {}
    for number, name in enumerate(GROUPS):
        host, port = f"h{number}", low + number * WIDTH
        hosts[host] = {
            "pd_address": f"127.0.0.{number + 2}",
            "pd_state_dir": str(tmp_path / f"state-{host}"),
            "pd_port_range": f"{port + 1}-{port + WIDTH - 1}",
        }
        roles = {role: {"hosts": host} for role in ("prefill", "decode", "router")}
        groups[name] = spec(model, port, labels={"team": "chat"}, **roles)
        routers[name] = port
    made = make_site(hosts=hosts, groups=groups)
    made.__class__ = Rollouts
    rollouts = t.cast("Rollouts", made)
    rollouts.routers = routers
    rollouts.play("deploy").ok()
    return rollouts


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
