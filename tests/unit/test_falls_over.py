# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A module that is killed, or ends in a traceback: what is known of its workloads then, and what is told where one was refused."""

from __future__ import annotations

import typing as t

import pytest
from ansible.errors import AnsibleConnectionFailure

from ansible_collections.inferops.pd.plugins.action.members import _did_nothing
from ansible_collections.inferops.pd.plugins.plugin_utils._action import Refusal
from ansible_collections.inferops.pd.plugins.plugin_utils._run import RunAction

KILLED = {"failed": True, "rc": 137, "module_stdout": "", "module_stderr": "Killed", "msg": "MODULE FAILURE"}
TRACE = 'Traceback (most recent call last):\n  File "x.py", line 1, in f\nMemoryError\n'


def said(result: dict[str, t.Any]) -> dict[str, t.Any]:
    """What an action makes of a module's result, for groups a and b."""
    action = t.cast("t.Any", object.__new__(RunAction))
    action.task_vars, action._told_too = {"inventory_hostname": "h1"}, []
    action._execute_module = lambda **_how: dict(result)
    return t.cast("dict[str, t.Any]", action.module("members", {}, ["a", "b"]))


@pytest.mark.parametrize(
    ("result", "why"),
    [
        (KILLED, "Killed"),
        ({**KILLED, "module_stderr": TRACE}, "MemoryError"),
        ({**KILLED, "module_stderr": "", "module_stdout": ""}, "it gave no reason"),
    ],
)
def test_one_that_falls_over_fails_its_workloads_and_may_have_begun(result: dict[str, t.Any], why: str) -> None:
    found = said(result)
    assert set(found) == {"a", "b"}
    for one in found.values():
        assert one["failed"]
        assert one["msg"].startswith("module members fell over")
        assert one["msg"].endswith(why)
        assert "Traceback" not in one["msg"]
        assert not _did_nothing(one), "it is asked no more, and keeps its lock"


def test_one_that_refuses_has_done_nothing() -> None:
    found = said({"failed": True, "msg": "orders is no list"})
    assert found["a"]["msg"] == "orders is no list"
    assert all(_did_nothing(one) for one in found.values())


def test_one_that_failed_with_members_has_done_something() -> None:
    assert not _did_nothing({"failed": True, "failed_members": {"a-decode-0": "no such file"}})
    assert not _did_nothing({"ok": True})


def test_a_host_that_does_not_answer_is_none_that_fell_over() -> None:
    with pytest.raises(AnsibleConnectionFailure, match="timed out"):
        said({"unreachable": True, "msg": "timed out"})


def finding(severity: str, message: str) -> dict[str, t.Any]:
    return {"severity": severity, "code": "x", "hosts": [], "message": message, "hint": "Do it."}


def test_a_refusal_is_told_again_by_its_errors() -> None:
    refusal = Refusal("a", "Group a is refused: 1 error.", [finding("warning", "doubt"), finding("error", "reason")])
    told = refusal.in_short()
    assert told.startswith(refusal.head)
    assert "reason" in told
    assert "Do it." in told
    assert "doubt" not in told


def test_where_fail_on_refuses_it_is_what_there_is() -> None:
    assert "doubt" in Refusal("a", "Group a is refused: fail_on: warning.", [finding("warning", "doubt")]).in_short()
