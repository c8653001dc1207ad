# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Two runs never change one group at a time; a dead run's lock runs out."""

from __future__ import annotations

import subprocess
import sys

import pytest

from ansible_collections.inferops.pd.plugins.module_utils._host import lock
from ansible_collections.inferops.pd.plugins.module_utils._probes import runs
from ansible_collections.inferops.pd.plugins.module_utils._runtimes.errors import HostError
from ansible_collections.inferops.pd.plugins.module_utils._runtimes.state import State
from ansible_collections.inferops.pd.plugins.plugin_utils.locking import of_dead

ME = {"run": "a", "who": "me@here pid 1", "ttl": 60}
OTHER = {"run": "b", "who": "other@there pid 2", "since": 900.0, "expires": 1100.0}


def test_a_free_lock_is_taken():
    told = lock.taken(None, ME, "g", 1000.0)
    assert {"who": "me@here pid 1", "since": 1000.0, "expires": 1060.0}.items() <= told.items()


def test_its_holder_renews_it_and_keeps_since():
    first = lock.taken(None, ME, "g", 1000.0)
    assert lock.taken(first, ME, "g", 1050.0) == {**first, "expires": 1110.0}
    assert lock.taken(first, ME, "g", 5000.0)["since"] == 1000.0


def test_another_run_is_refused_and_told_who_since_when():
    with pytest.raises(
        HostError, match=r"Locking group g: other@there pid 2 is changing it since .*pd_break_lock=true"
    ):
        lock.taken(OTHER, ME, "g", 1000.0)


@pytest.mark.parametrize(("now", "broken"), [(1200.0, False), (1000.0, True)])
def test_a_lock_that_ran_out_or_is_broken_is_taken(now, broken):
    assert lock.taken(OTHER, ME, "g", now, broken)["who"] == ME["who"]


def test_a_run_is_its_nonce_whatever_its_user_host_and_pid_are():
    """Two containers of one host name, each with its pid 7, are two runs."""
    twin = {**ME, "run": "c"}
    assert lock.same(lock.taken(None, ME, "g", 1000.0), ME)
    assert not lock.same(lock.taken(None, ME, "g", 1000.0), twin)
    assert not lock.same(None, ME)
    assert not lock.same({"who": ME["who"], "since": 900.0}, ME), "a lock of an earlier version has no nonce"
    with pytest.raises(HostError):
        lock.taken(lock.taken(None, ME, "g", 1000.0), twin, "g", 1001.0)


def test_a_process_that_is_another_users_is_alive(monkeypatch):
    """Under hidepid=2 /proc does not show it, and a signal may not be sent."""

    def kill(pid, number):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(runs.os, "kill", kill)
    assert not runs.died(runs.own())


def test_a_pid_that_was_given_to_another_process_is_no_run():
    mine = runs.own()
    assert runs.died({**mine, "started": mine["started"] - 1})


def test_who_does_not_hold_the_lock_changes_nothing(tmp_path):
    state = State(str(tmp_path / "state"))
    with pytest.raises(HostError, match=r"does not hold the group's lock any more: nobody has it"):
        lock.check(state, "g", ME)
    state.write_lock("g", lock.taken(None, ME, "g", 1000.0))
    lock.check(state, "g", ME)
    state.write_lock("g", lock.taken(None, OTHER, "g", 1000.0))
    with pytest.raises(HostError, match=r"other@there pid 2 has it since"):
        lock.check(state, "g", ME)
    assert not lock.release(state, "g", ME)
    assert lock.release(state, "g", {**OTHER})
    assert state.group_lock("g") is None


def test_a_lock_of_an_earlier_version_is_honoured_and_goes_with_its_release(tmp_path):
    state = State(str(tmp_path / "state"))
    old = {"who": "ops@old pid 1", "since": 900.0, "expires": 5000.0}
    state.write_record("g", {"schema": 1, "group": "g", "generation": 3, "serial": 1, "lock": old})
    with pytest.raises(HostError, match=r"ops@old pid 1 is changing it"):
        lock.taken(state.group_lock("g"), ME, "g", 1000.0)
    state.write_lock("g", lock.taken(state.group_lock("g"), ME, "g", 6000.0))
    lock.release(state, "g", ME)
    assert state.group_lock("g") is None
    assert "lock" not in (state.record("g") or {})


def test_a_dead_runs_lock_is_no_obstacle_on_its_own_machine():
    alive = {**OTHER, "process": runs.own()}
    with pytest.raises(HostError):
        lock.taken(alive, ME, "g", 1000.0)
    with subprocess.Popen([sys.executable, "-c", ""]) as child:
        pass
    dead = {**OTHER, "process": {**runs.own(), "pid": child.pid}}
    assert lock.taken(dead, ME, "g", 1000.0)["who"] == ME["who"]
    elsewhere = {**OTHER, "process": {"pid": child.pid, "machine": "another boot"}}
    with pytest.raises(HostError):
        lock.taken(elsewhere, ME, "g", 1000.0)


def test_the_controller_tells_a_host_which_runs_are_gone():
    """A host cannot see the processes of the machine that a run was started on."""
    with subprocess.Popen([sys.executable, "-c", ""]) as child:
        pass
    gone = {**OTHER, "process": {**runs.own(), "pid": child.pid}}
    assert of_dead([None, OTHER, {**OTHER, "process": runs.own()}]) == []
    known = of_dead([gone])
    there = {**OTHER, "process": {"pid": child.pid, "machine": "as the host sees it"}}
    assert lock.taken(there, {**ME, "dead": known}, "g", 1000.0)["who"] == ME["who"]
    with pytest.raises(HostError):
        lock.taken({**there, "run": "another"}, {**ME, "dead": known}, "g", 1000.0)
