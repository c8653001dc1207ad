# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Two runs never change one group at a time; a dead run's lock runs out."""

from __future__ import annotations

import subprocess
import sys

import pytest

from ansible_collections.inferops.pd.plugins.module_utils._host import lock
from ansible_collections.inferops.pd.plugins.module_utils._runtimes.errors import HostError

ME = {"who": "me@here pid 1", "ttl": 60}
OTHER = {"who": "other@there pid 2", "since": 900.0, "expires": 1100.0}


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


def test_the_same_pid_of_another_time_is_another_run():
    mine = {**ME, "since": 950.0}
    assert lock.same({"who": ME["who"], "since": 950.0}, mine)
    assert not lock.same({"who": ME["who"], "since": 940.0}, mine)
    assert not lock.same(None, mine)
    with pytest.raises(HostError):
        lock.taken({"who": ME["who"], "since": 940.0, "expires": 1100.0}, mine, "g", 1000.0)


def test_a_dead_runs_lock_is_no_obstacle_on_its_own_machine():
    alive = {**OTHER, "process": lock.process()}
    with pytest.raises(HostError):
        lock.taken(alive, ME, "g", 1000.0)
    with subprocess.Popen([sys.executable, "-c", ""]) as child:
        pass
    dead = {**OTHER, "process": {**lock.process(), "pid": child.pid}}
    assert lock.taken(dead, ME, "g", 1000.0)["who"] == ME["who"]
    elsewhere = {**OTHER, "process": {"pid": child.pid, "machine": "another boot"}}
    with pytest.raises(HostError):
        lock.taken(elsewhere, ME, "g", 1000.0)


def test_the_controller_tells_a_host_which_runs_are_gone():
    """A host cannot see the processes of the machine that a run was started on."""
    with subprocess.Popen([sys.executable, "-c", ""]) as child:
        pass
    gone = {**OTHER, "process": {**lock.process(), "pid": child.pid}}
    assert lock.of_dead([None, OTHER, {**OTHER, "process": lock.process()}]) == []
    known = lock.of_dead([gone])
    there = {**OTHER, "process": {"pid": child.pid, "machine": "as the host sees it"}}
    assert lock.taken(there, {**ME, "dead": known}, "g", 1000.0)["who"] == ME["who"]
    with pytest.raises(HostError):
        lock.taken({**there, "since": 901.0}, {**ME, "dead": known}, "g", 1000.0)
