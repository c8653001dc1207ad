# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is kept of a host in a phase, whatever became of asking it."""

from __future__ import annotations

import typing as t
from unittest import mock

import pytest
from ansible.errors import AnsibleConnectionFailure, AnsibleError

from ansible_collections.inferops.pd.plugins.action import group_plan, group_verdict
from ansible_collections.inferops.pd.plugins.module_utils._core.base.errors import PdError
from ansible_collections.inferops.pd.plugins.module_utils._core.course.course import Course
from ansible_collections.inferops.pd.plugins.plugin_utils._run import RunAction
from ansible_collections.inferops.pd.plugins.plugin_utils.run_folder import Index, RunFolder

NAMES = ["a", "b"]


@pytest.fixture
def action(tmp_path: t.Any) -> RunAction:
    """The action of a task on h1, without the task."""
    made = RunAction.__new__(RunAction)
    made.args = {"run": str(tmp_path), "wave": 0}
    made.task_vars = {"inventory_hostname": "h1"}
    return made


def failing(exc: Exception) -> t.Callable[[], t.Any]:
    def call() -> t.Any:
        raise exc

    return call


def kept(action: RunAction, step: str) -> dict[str, t.Any]:
    return RunFolder(str(action.args["run"])).said_by(0, step, "h1")


def test_what_a_host_says_of_each_is_kept(action: RunAction) -> None:
    told = {name: {"ok": True} for name in NAMES}
    assert action.ask("stop", NAMES, lambda: told) == kept(action, "stop") == told


def test_a_host_that_does_not_answer_is_asked_no_more(action: RunAction) -> None:
    with pytest.raises(AnsibleConnectionFailure):
        action.ask("stop", NAMES, failing(AnsibleConnectionFailure("no route to host")))
    assert {name: one["unreachable"] for name, one in kept(action, "stop").items()} == dict.fromkeys(NAMES, True)
    away = action.left_alone("start", NAMES)
    assert away is not None
    assert "no route to host" in away["skip_reason"]
    assert set(kept(action, "start")) == set(NAMES)


def test_a_host_that_cannot_be_asked_fails_all_of_them_and_is_asked_again(action: RunAction) -> None:
    """A variable of it is wrong, say: it must not look as if it had not answered, or had had nothing to do."""
    told = action.ask("start.1", NAMES, failing(PdError("pd_docker_network: 3 is no name")))
    assert told == kept(action, "start.1")
    assert told["b"] == {"failed": True, "ok": False, "phase": "start", "msg": "pd_docker_network: 3 is no name"}
    assert action.left_alone("router", NAMES) is None


def test_what_falls_over_while_it_is_asked_has_not_ended_well(action: RunAction) -> None:
    """A proof of which nothing came back is no proof."""
    with pytest.raises(RuntimeError):
        action.ask("proof", NAMES, failing(RuntimeError("a fault of our own")))
    assert [(one["good"], one["ok"]) for one in kept(action, "proof").values()] == [(False, False)] * 2


def test_an_entry_that_cannot_be_templated_here_is_a_failure_with_its_reason(action: RunAction) -> None:
    told = action.ask("router", NAMES, failing(AnsibleError("'key_a' is undefined")))
    assert told["a"]["msg"] == "'key_a' is undefined"
    assert kept(action, "router") == told


@pytest.mark.parametrize(("kinds", "goes"), [(("cache", "group"), True), (("group", "group"), False)])
def test_a_restart_halts_after_its_like_that_failed(kinds: tuple[str, str], goes: bool) -> None:
    """A cache service that failed stops the groups that use it, and no others."""
    made = t.cast("t.Any", object.__new__(group_verdict.ActionModule))
    made.args = {"wave": 1}
    plans = dict(zip(("first", "second"), kinds))
    folder = mock.Mock()
    folder.index.return_value = Index([["first"], ["second"]], [0, 0], halts=True)
    folder.plan = lambda name: mock.Mock(kind=plans[name])
    folder.courses = lambda wave: {"first": Course("first").ends("no")} if wave == 0 else {"second": Course("second")}
    assert bool(made._open(folder)["going"]) == goes


def test_a_removal_of_groups_neither_starts_a_service_nor_waits_for_one() -> None:
    made = t.cast("t.Any", object.__new__(group_plan.ActionModule))
    workloads = [{"kind": "cache", "name": "store"}, {"kind": "group", "name": "g"}]
    made.args = {"workloads": workloads, "action": "remove", "spec": {}}
    assert [(one.name, one.action) for one in made._every()] == [("g", "remove")]
    made.args["action"] = "restart"
    assert [(one.name, one.action) for one in made._every()] == [("store", "deploy"), ("g", "restart")]
