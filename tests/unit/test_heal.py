"""What is lost comes again as it was: of a pending group with a deploy, of any with heal; and nothing else changes."""

from __future__ import annotations

import copy
import typing as t

import pytest
from builders import ENGINE, MODEL, Fleet, Made, catalogue, only, spec
from unit.test_evacuate import MARK

from ansible_collections.inferops.pd.plugins.module_utils._core.rules.validate import Catalogue

HOSTS = {"h1": {"gpus": 4}, "h2": {"gpus": 4}}
TWO = {"prefill": {"hosts": "h1:h2", "gpus": 1, "replicas": 2}, "decode": {"hosts": "h1:h2", "gpus": 1, "replicas": 2}}
LONGER = {"engine": {"executable": ENGINE, "args": ["--max-model-len=65536"]}}


def deployed(**more: t.Any) -> Fleet:
    fleet = Fleet(**copy.deepcopy(HOSTS))
    fleet.deploy(spec(**TWO, **more))
    return fleet


def argv(fleet: Fleet) -> dict[str, list[str]]:
    """The plan's, of everything that would run."""
    made = fleet.plan(spec(**TWO))
    return {name: made.part(name)["argv"] for name in made.members}


def without_run(record: dict[str, t.Any]) -> dict[str, t.Any]:
    return {k: v for k, v in record.items() if k not in ("serial", "updated", "endpoint", "state")}


# -- a deploy of a pending group -----------------------------------------------------------------------------------------------------------


def test_a_pending_groups_lost_member_is_replaced_as_it_was() -> None:
    fleet = deployed()
    before, revision = argv(fleet), fleet.plan(spec(**TWO)).plan["revision"]
    fleet.kill("demo-decode-1")
    made = fleet.deploy(spec(**TWO, **LONGER))
    assert (made.plan["pending"], made.who("replace")) == (True, ["demo-decode-1"])
    assert made.part("demo-decode-1")["argv"] == before["demo-decode-1"]
    assert made.members["demo-decode-1"]["revision"] == revision != made.plan["revision"]
    assert "member-not-replaced" not in made.codes
    assert only(made.findings, "pending-configuration")
    after = fleet.plan(spec(**TWO, **LONGER))
    assert (after.plan["pending"], after.plan["changed"]) == (True, False)
    assert fleet.facts["h1"]["records"]["demo"]["revision"] == revision


def test_one_whose_label_is_gone_comes_back_under_its_name() -> None:
    fleet = deployed()
    fleet.forget("demo-decode-1")
    made = fleet.deploy(spec(**TWO, **LONGER))
    assert made.who("create") == ["demo-decode-1"]


def test_the_router_of_a_pending_group_is_replaced_too() -> None:
    fleet = deployed()
    fleet.kill("demo-router-0")
    made = fleet.deploy(spec(**TWO, **LONGER))
    assert made.who("replace") == ["demo-router-0"]


def test_a_pending_group_still_does_not_grow() -> None:
    fleet = deployed()
    fleet.kill("demo-decode-1")
    raw = spec(**{**TWO, "decode": {"hosts": "h1:h2", "gpus": 1, "replicas": 3}}, **LONGER)
    made = fleet.plan(raw)
    assert (made.who("replace"), made.who("create")) == (["demo-decode-1"], [])
    assert only(made.findings, "pending-no-growth").severity == "warning"
    assert fleet.plan(raw, "scale", counts={"decode": 3}).errors == ["pending-no-growth"]


def test_fewer_are_applied_while_it_is_pending() -> None:
    fleet = deployed()
    made = fleet.plan(spec(**TWO, **LONGER), "scale", counts={"decode": 1})
    assert made.who("remove") == ["demo-decode-1"]


def test_a_pending_mode_is_no_matter_for_what_runs() -> None:
    fleet = deployed()
    fleet.kill("demo-prefill-0")
    other = spec(mode="vllm-mooncake", **TWO)
    made = fleet.deploy(other)
    assert made.who("replace") == ["demo-prefill-0"]
    assert "NixlConnector" in " ".join(made.part("demo-prefill-0")["argv"])
    assert set(made.part("demo-prefill-0")["ports"]) == {"kv_side_channel"}


def test_a_record_that_does_not_know_says_so() -> None:
    fleet = deployed()
    for facts in fleet.facts.values():
        facts["records"]["demo"].pop("applied")
    fleet.kill("demo-decode-1")
    made = fleet.plan(spec(**TWO, **LONGER))
    assert made.who("replace") == []
    assert "did not keep how members were rendered" in only(made.findings, "member-not-replaced").message


def test_what_would_be_another_engine_does_not_come() -> None:
    fleet = deployed()
    fleet.kill("demo-decode-1")
    for facts in fleet.facts.values():
        facts["executables"][ENGINE]["version"] = "0.33.0"
    for made in (fleet.plan(spec(**TWO, **LONGER)), fleet.from_record(spec(**TWO))):
        assert made.who("replace") == []
        assert "0.33.0" in " ".join(f.message for f in made.findings.items if f.code == "identity-moved")


# -- heal ----------------------------------------------------------------------------------------------------------------------------------


def heal(fleet: Fleet, raw: t.Any = None, **more: t.Any) -> Made:
    return fleet.from_record(raw if raw is not None else spec(**TWO), "heal", **more)


def test_nothing_is_done_and_said_where_nothing_is_down() -> None:
    fleet = deployed()
    for raw in (spec(**TWO), spec(**TWO, **LONGER), spec(mode="gone"), {"mode": 3}):
        made = heal(fleet, raw)
        assert (made.plan["changed"], made.plan["steps"], made.codes) == (False, [], [])
        assert made.plan["record"] == fleet.facts["h1"]["records"]["demo"]


@pytest.mark.parametrize("lost", [["demo-decode-1"], ["demo-prefill-0", "demo-prefill-1"], ["demo-router-0"]])
def test_what_is_down_comes_again_as_it_was(lost: list[str]) -> None:
    fleet = deployed()
    before, noted = argv(fleet), without_run(copy.deepcopy(fleet.facts["h1"]["records"]["demo"]))
    fleet.kill(*lost)
    made = fleet.apply(heal(fleet, spec(**TWO, **LONGER)))
    assert (made.who("replace"), made.errors, fleet.carried) == (sorted(lost), [], True)
    assert {name: made.part(name)["argv"] for name in lost} == {name: before[name] for name in lost}
    assert without_run(fleet.facts["h1"]["records"]["demo"]) == noted
    assert heal(fleet).plan["steps"] == []
    assert fleet.status(spec(**TWO))["state"] == "running"


def test_what_is_gone_comes_again() -> None:
    fleet = deployed()
    fleet.forget("demo-decode-1")
    assert fleet.apply(heal(fleet)).who("create") == ["demo-decode-1"]
    assert heal(fleet).plan["steps"] == []


def test_it_needs_no_entry_of_the_inventory() -> None:
    fleet = deployed()
    fleet.kill("demo-decode-1")
    assert fleet.from_record(None).who("replace") == ["demo-decode-1"]


def test_it_scales_nothing() -> None:
    fleet = deployed()
    more = {role: {**one, "replicas": 3} for role, one in TWO.items()}
    less = {role: {**one, "replicas": 1} for role, one in TWO.items()}
    for change in (more, less):
        assert heal(fleet, spec(**change)).plan["steps"] == []
    fleet.kill("demo-decode-0")
    for change in (more, less):
        made = heal(fleet, spec(**change))
        assert (made.who("replace"), made.who("create"), made.who("remove")) == (["demo-decode-0"], [], [])
        assert made.plan["record"]["desired"] == {"prefill": 2, "decode": 2}


def test_a_router_that_has_forgotten_its_peers_is_told_of_them() -> None:
    fleet = deployed()
    fleet.live("demo-router-0").update(registered=[], restarts=1)
    made = fleet.apply(heal(fleet))
    assert made.steps("register") == [("register", "register", "demo-router-0")]
    assert heal(fleet).plan["steps"] == []


def test_nothing_is_formed_anew() -> None:
    fleet = deployed()
    fleet.kill(*[m["label"]["member"] for facts in fleet.facts.values() for m in facts["members"]])
    made = heal(fleet)
    assert (made.plan["steps"], made.plan["changed"]) == ([], False)
    told = only(made.findings, "nothing-runs")
    assert told.severity == "warning"
    assert "inferops.pd.deploy -e pd_group=demo" in told.hint
    assert "it is not deployed" in only(heal(Fleet(**HOSTS)).findings, "nothing-runs").message


def test_strays_stay_as_long_as_nothing_comes() -> None:
    fleet = deployed()
    stray = copy.deepcopy(fleet.live("demo-decode-1"))
    stray["label"] |= {"member": "demo-decode-7", "index": 7, "formation": "another"}
    stray["formation"] = "another"
    fleet.facts["h2"]["members"].append(stray)
    assert heal(fleet).plan["steps"] == []
    fleet.kill("demo-decode-0")
    assert heal(fleet).who("remove") == ["demo-decode-7"]


def test_of_a_host_that_does_not_answer_nothing_is_replaced() -> None:
    fleet = deployed()
    fleet.kill("demo-decode-0")
    where = next(h for h, facts in fleet.facts.items() if any(m["state"] == "exited" for m in facts["members"]))
    fleet.silent = set(HOSTS) - {where}
    made = heal(fleet)
    assert (made.plan["steps"], made.errors) == ([], [])
    assert {"host-unreachable", "member-not-replaced"} <= set(made.codes)


def test_a_mode_that_cannot_carry_it_is_said_only_where_something_is_down() -> None:
    fleet = deployed()
    full = catalogue()
    for modes, why in (
        ({k: v for k, v in full.modes.items() if k != "vllm-nixl"}, "mode vllm-nixl is not there any more"),
        ({**full.modes, "vllm-nixl": full.modes["vllm-mooncake"]}, "other bands of ports"),
    ):
        poor = Catalogue(modes, full.engine)
        fleet.live("demo-decode-1").update(state="running", ready=True)
        assert heal(fleet, catalogue=poor).codes == []
        fleet.kill("demo-decode-1")
        made = heal(fleet, catalogue=poor)
        assert made.plan["steps"] == []
        assert why in only(made.findings, "applied-not-carried").message


def test_where_nobody_has_looked_nothing_is_started() -> None:
    """The spec names another model by now, and a host without a member was not asked for that of those that run."""
    fleet = Fleet(h1={"gpus": 2}, h2={"gpus": 4})
    fleet.deploy(spec(prefill={"hosts": "h1", "gpus": 1}, decode={"hosts": "h1", "gpus": 1}))
    fleet.facts["h2"]["models"] = {"/models/other": {"exists": True, "fingerprint": "f"}}
    fleet.kill("demo-decode-0")
    raw = spec(prefill={"hosts": "h2", "gpus": 1}, decode={"hosts": "h2", "gpus": 1}, model="/models/other")
    made = heal(fleet, raw)
    assert made.who("create") == made.who("replace") == []
    fleet.facts["h2"]["models"][MODEL] = {"exists": True, "fingerprint": "abc123"}
    assert heal(fleet, raw).who("create") == ["demo-decode-0"]


def test_on_a_cordoned_host_nothing_is_healed() -> None:
    fleet = deployed()
    fleet.kill("demo-decode-0")
    where = next(host for host, facts in fleet.facts.items() if any(m["state"] == "exited" for m in facts["members"]))
    fleet.facts[where]["cordon"] = MARK
    made = heal(fleet, spec(**TWO, **LONGER))
    (back,) = [m for m in made.plan["members"] if m["id"] in made.who("create")]
    assert back["parts"][0]["host"] != where
    assert made.plan["desired"] == {"prefill": 2, "decode": 2}


def test_another_runs_lock_is_no_failure() -> None:
    fleet = deployed()
    fleet.kill("demo-decode-1")
    made = heal(fleet)
    for facts in fleet.facts.values():
        facts["locks"]["demo"] = {"run": "other", "who": "ops", "since": 900.0, "expires": 5000.0, "process": None}
    assert fleet.carry_out(made)
    assert fleet.live("demo-decode-1")["state"] == "exited"
    assert {facts["locks"]["demo"]["run"] for facts in fleet.facts.values()} == {"other"}
    assert not fleet.carry_out(fleet.plan(spec(**TWO)))


def test_a_plan_that_another_run_was_faster_than_is_no_failure_either() -> None:
    fleet = deployed()
    fleet.kill("demo-decode-1")
    made = heal(fleet)
    fleet.deploy(spec(**TWO))
    assert fleet.carry_out(made)
    assert not any(facts["locks"] for facts in fleet.facts.values())
