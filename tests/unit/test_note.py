# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a rollout notes in the records of its groups: nothing of anybody else's is written over, and nobody writes over it unseen."""

from __future__ import annotations

import memory
import pytest
from builders import Fleet, spec

from ansible_collections.inferops.pd.plugins.module_utils._host.note import write_notes

NOTE = {"rollout": "vllm-0.33", "state": "soaking"}
ME = {"run": "rollout-1", "who": "me"}


HOSTS = ("h1", "h2", "h3", "h4")


def wanted_(decode: int = 1):
    roles = {"prefill": {"hosts": "h1:h2", "replicas": 2}, "decode": {"hosts": "h3", "replicas": decode}}
    return spec(**roles, router={"hosts": "h4"})


@pytest.fixture(name="group")
def a_group():
    made = Fleet(**{host: {"gpus": 4} for host in HOSTS})
    made.deploy(wanted_())
    return made


def noted(group, host="h1", note=None, check=False, **more):
    there = group.facts[host]["records"]["demo"]
    wanted = {
        "note": NOTE if note is None else note,
        "formation": there["formation"],
        "serial": there["serial"],
        **more,
    }
    store = memory.FactsStore(group.facts[host])
    return write_notes(store, {"demo": wanted}, ME, check, lambda: 1000.0)["demo"]


def test_it_is_written_beside_all_that_is_there_and_once(group):
    before = memory.copied(group.facts["h1"]["records"]["demo"])
    assert noted(group) == {"changed": True, "serial": before["serial"] + 1, "state": "running"}
    after = group.facts["h1"]["records"]["demo"]
    assert after == {**before, "rollout": NOTE, "serial": before["serial"] + 1, "updated": 1000.0}
    assert not noted(group)["changed"]
    assert noted(group, note={})["changed"]
    assert "rollout" not in group.facts["h1"]["records"]["demo"]


def test_check_mode_writes_nothing(group):
    before = memory.copied(group.facts["h1"]["records"])
    assert noted(group, check=True)["changed"]
    assert group.facts["h1"]["records"] == before


@pytest.mark.parametrize("wrong", [{"formation": "another"}, {"serial": 0}])
def test_a_record_that_somebody_has_changed_is_left(group, wrong):
    before = memory.copied(group.facts["h1"]["records"])
    told = noted(group, **wrong)
    assert told["failed"]
    assert "another run has changed the group" in told["msg"]
    assert group.facts["h1"]["records"] == before


def test_a_group_that_another_run_changes_is_left(group):
    group.facts["h1"]["locks"]["demo"] = {"run": "other", "who": "somebody", "since": 900.0, "expires": 2000.0}
    told = noted(group)
    assert told["failed"]
    assert "somebody is changing it" in told["msg"]


def test_one_without_a_record_is_told(group):
    store = memory.FactsStore(group.facts["h1"])
    wanted = {"note": NOTE, "formation": "f", "serial": 1}
    assert "no record" in write_notes(store, {"gone": wanted}, ME)["gone"]["msg"]


def test_a_plan_of_before_is_refused_and_one_of_after_keeps_it(group):
    """A deploy that was planned on the record before it would write that record again at its end."""
    wanted = wanted_(decode=2)
    stale = group.plan(wanted)
    for host in HOSTS:
        assert noted(group, host)["changed"]
    group.apply(stale)
    assert not group.carried
    assert "another run has changed" in group.said[0]
    group.apply(group.plan(wanted))
    assert group.carried, group.said
    assert all(facts["records"]["demo"]["rollout"] == NOTE for facts in group.facts.values())


def test_by_itself_it_changes_no_plan(group):
    for host in HOSTS:
        noted(group, host)
    made = group.plan(wanted_())
    assert (made.steps(), made.plan["changed"]) == ([], False)
