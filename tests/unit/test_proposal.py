# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is approved of a plan: the digest is the same for the same plan, and another one for whatever a person would want to read anew."""

from __future__ import annotations

import json
import random
import typing as t

import pytest
from builders import ENGINE, MODEL, Fleet, Made, spec

from ansible_collections.inferops.pd.plugins.module_utils._core.base.errors import PdError
from ansible_collections.inferops.pd.plugins.module_utils._core.hooks.hook import Hook
from ansible_collections.inferops.pd.plugins.module_utils._core.plan.hooks import Wired
from ansible_collections.inferops.pd.plugins.module_utils._core.report import artifacts
from ansible_collections.inferops.pd.plugins.module_utils._core.report.proposal import (
    Differences,
    Planned,
    Proposal,
    differences,
    propose,
)
from ansible_collections.inferops.pd.plugins.plugin_utils import approval

ROOM = {"gpus": 4}
Change = t.Callable[[Fleet, "dict[str, t.Any]"], t.Any]


def group(**changes: t.Any) -> dict[str, t.Any]:
    """Two prefills, two decodes, a router, over two hosts."""
    changes["prefill"] = {"hosts": "h1:h2", "replicas": 2, **changes.get("prefill", {})}
    changes["decode"] = {"hosts": "h1:h2", "replicas": 2, **changes.get("decode", {})}
    return spec(**changes)


def fleet() -> Fleet:
    return Fleet(h1=ROOM, h2=ROOM, h3=ROOM)


def running() -> Fleet:
    site = fleet()
    site.deploy(group())
    return site


def planned(made: Made, name: str = "demo") -> Planned:
    return Planned(name, made.value, made.findings.to_plain())


def proposal(made: Made, action: str = "deploy", **options: str) -> Proposal:
    return propose(action, [planned(made)], [["demo"]], {"proof": "changed", **options})


# -- what is the same ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("action", ["deploy", "restart", "remove"])
@pytest.mark.parametrize("start", [fleet, running])
def test_another_run_over_the_same_hosts_proposes_the_same(start: t.Callable[[], Fleet], action: str) -> None:
    site = start()
    first, second = site.plan(group(), action), site.plan(group(), action)
    assert first.plan["run"] != second.plan["run"]
    assert proposal(first) == proposal(second)
    assert proposal(first).digest == proposal(second).digest
    assert len(proposal(first).digest) == 64


def test_no_identity_of_a_run_or_a_formation_is_in_it() -> None:
    site = running()
    site.kill("demo-prefill-0")
    for action in ("deploy", "restart", "remove"):
        text = json.dumps(proposal(site.plan(group(), action)).to_plain())
        assert "formation-" not in text
        assert "run-" not in text


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("action", ["deploy", "restart", "remove"])
def test_the_order_of_what_hosts_say_is_no_matter(seed: int, action: str) -> None:
    """Members of a host come in any order, records too; hosts are sorted where they are read (plugin_utils/_action.py)."""
    site = running()
    site.kill("demo-decode-1")
    wanted = proposal(site.plan(group(), action)).digest
    chance = random.Random(seed)
    for facts in site.facts.values():
        chance.shuffle(facts["members"])
        facts["records"] = dict(sorted(facts["records"].items(), key=lambda _one: chance.random()))
    assert proposal(site.plan(group(), action)).digest == wanted


def test_what_a_log_says_of_a_member_that_is_down_is_no_matter() -> None:
    site = running()
    site.kill("demo-decode-1")
    first = site.plan(group())
    site.live("demo-decode-1").update(why="exit code 1", log_line="2026-01-01 10:00:00 ERROR out of memory")
    second = site.plan(group())
    assert first.text != second.text
    assert proposal(first).digest == proposal(second).digest


def test_a_member_that_comes_up_by_itself_is_no_matter() -> None:
    site = running()
    ready = site.plan(group())
    site.live("demo-decode-1").update(ready=False, why="it loads")
    loads = site.plan(group())
    assert [step.do for step in loads.value.steps if step.do == "wait"]
    assert proposal(ready).digest == proposal(loads).digest


def test_an_image_that_is_named_by_its_digest_may_be_fetched_meanwhile() -> None:
    def digest(name: str, images: dict[str, t.Any]) -> str:
        site = Fleet(h1={**ROOM, "images": images}, h2={**ROOM, "images": images})
        router = {"image": "router:1", "executable": ...}
        raw = group(runtime="docker", engine={"executable": ..., "image": name}, router=router)
        return proposal(site.plan(raw)).digest

    pinned, tag = f"engine@sha256:{'a' * 64}", "engine:latest"
    there = {"digest": f"sha256:{'a' * 64}", "id": f"sha256:{'b' * 64}", "exists": True}
    assert digest(pinned, {}) == digest(pinned, {pinned: there})
    assert digest(tag, {}) != digest(tag, {tag: there})


# -- what is another one -------------------------------------------------------------------------------------------------------------


def taken(fleet: Fleet) -> None:
    """Another process has a port of h1 by now that a prefill was to get."""
    fleet.facts["h1"]["ports"]["used"].append({"port": 40001, "command": "nginx", "pid": 1})


def other_group(fleet: Fleet) -> None:
    """Another group has come to h1, with GPUs and ports."""
    fleet.deploy(spec(prefill={"hosts": "h1"}, decode={"hosts": "h1"}, router={"port": 9000}), name="other")


def gpu(fleet: Fleet) -> None:
    fleet.facts["h1"]["gpus"][0]["id"] = "GPU-1-replaced"


def model(fleet: Fleet) -> None:
    for facts in fleet.facts.values():
        facts["models"][MODEL]["fingerprint"] = "another"


def engine(fleet: Fleet) -> None:
    for facts in fleet.facts.values():
        facts["executables"][ENGINE]["version"] = "0.33.0"


def address(fleet: Fleet) -> None:
    fleet.facts["h2"]["address"] = "10.0.0.99"


# What changes between the approval and the run, of a group that is not there yet: on hosts, or in the inventory.
HOSTS = {"port": taken, "other group": other_group, "gpu": gpu, "model": model, "engine": engine, "address": address}
SPECS: dict[str, dict[str, t.Any]] = {
    "fewer": {"prefill": {"replicas": 1}},
    "more": {"decode": {"replicas": 3}},
    "wider": {"prefill": {"gpus": 2}, "decode": {"gpus": 2}},
    "argument": {"engine": {"args": ["--max-model-len=1024"]}},
    "variable": {"engine": {"env": {"A": "1"}}},
    "secret": {"engine": {"secrets": {"HF_TOKEN": "s3cr3t"}}},
    "hosts": {"decode": {"hosts": "h3:h2"}},
    "router's port": {"router": {"port": 8001}},
    "membership": {"router": {"membership": "restart"}},
    "name": {"served_model_name": "another"},
    "mode": {"mode": "vllm-mooncake"},
}


@pytest.mark.parametrize("change", HOSTS)
def test_hosts_that_have_changed_are_another_plan(change: str) -> None:
    site = fleet()
    before = proposal(site.plan(group()))
    HOSTS[change](site)
    now = proposal(site.plan(group()))
    assert before.digest != now.digest
    assert before.until(now)


@pytest.mark.parametrize("change", SPECS)
def test_a_spec_that_has_changed_is_another_plan(change: str) -> None:
    site = fleet()
    before, now = proposal(site.plan(group())), proposal(site.plan(group(**SPECS[change])))
    assert before.digest != now.digest
    assert before.until(now)


@pytest.mark.parametrize("change", [name for name in SPECS if name not in ("hosts", "fewer")])
def test_of_a_group_that_runs_too(change: str) -> None:
    """What waits for a restart is a part of what is approved, though nothing is done about it."""
    site = running()
    before, now = proposal(site.plan(group())), proposal(site.plan(group(**SPECS[change])))
    assert before.digest != now.digest


def test_values_of_variables_are_approved_and_secrets_are_not_in_it() -> None:
    site = fleet()

    def of(value: str, secret: str) -> Proposal:
        return proposal(site.plan(group(engine={"env": {"A": value}, "secrets": {"TOKEN": secret}})))

    assert of("1", "x1y2").digest != of("2", "x1y2").digest
    assert of("1", "x1y2").digest == of("1", "another").digest
    text = json.dumps(of("1", "x1y2").to_plain())
    assert "env TOKEN=(secret)" in text
    assert "x1y2" not in text


CASES: dict[str, t.Callable[[Fleet], t.Any]] = {
    "a member is down": lambda site: site.kill("demo-prefill-0"),
    "a member is gone": lambda site: site.forget("demo-decode-1"),
    "a host is silent": lambda site: site.silent.add("h2"),
    "somebody restarted it": lambda site: site.apply(site.plan(group(), "restart")),
    "somebody scaled it": lambda site: site.apply(site.plan(group(), "scale", counts={"decode": 1})),
    "somebody removed it": lambda site: site.apply(site.plan(None, "remove")),
}


# A member that crashed makes no difference to a restart or a removal: it goes in either case.
STEADY = [("a member is down", "restart"), ("a member is down", "remove")]


@pytest.mark.parametrize(
    ("case", "action"),
    [(case, action) for case in CASES for action in ("deploy", "restart", "remove") if (case, action) not in STEADY],
)
def test_a_group_that_has_changed_is_another_plan(case: str, action: str) -> None:
    """Nothing to do, a restart, a removal: each was approved of the group as it was."""
    site = running()
    before = proposal(site.plan(group(), action))
    CASES[case](site)
    assert proposal(site.plan(group(), action)).digest != before.digest


def test_an_approval_of_a_restart_is_spent_once_it_was_carried_out() -> None:
    site = running()
    made = site.plan(group(), "restart")
    approved = proposal(made).digest
    site.apply(made)
    assert proposal(site.plan(group(), "restart")).digest != approved


def test_the_run_as_a_whole_is_approved_too() -> None:
    made = planned(fleet().plan(group()), "a")
    usual = propose("deploy", [made], [["a"]], {"proof": "changed"})
    others = [
        propose("scale", [made], [["a"]], {"proof": "changed"}),
        propose("deploy", [made], [["b"], ["a"]], {"proof": "changed"}),
        propose("deploy", [made], [["a"]], {"proof": "never"}),
        propose("deploy", [made], [["a"]], {"proof": "changed", "fence": "with pd_fence_command"}),
    ]
    assert len({one.digest for one in (usual, *others)}) == 5
    assert all(one.digests == usual.digests for one in others)


def test_whom_the_endpoint_is_given_to_is_approved_too() -> None:
    site = fleet()

    def of(hosts: tuple[str, ...], weight: int = 100, reload: tuple[str, ...] = ()) -> Proposal:
        hook = Hook("edge", "file_sd", file="/etc/prometheus/pd.json", reload=reload)
        raw = group(endpoint={"hooks": ["edge"], "weight": weight})
        return proposal(site.plan(raw, wired=Wired({"edge": (hook, hosts)})))

    usual = of(("gw2", "gw1"))
    assert usual.digest == of(("gw1", "gw2")).digest
    (line,) = [one for one in usual.workloads["demo"] if one.startswith("hook")]
    assert line.startswith(
        "hook edge, /etc/prometheus/pd.json on gw1, gw2: given http://10.0.0.1:8000 of demo, weight 100"
    )
    others = [of(("gw1",)), of(("gw1", "gw2"), 50), of(("gw1", "gw2"), reload=("systemctl", "reload", "prometheus"))]
    assert len({one.digest for one in (usual, *others)}) == 4


def test_a_finding_more_or_less_is_another_plan_and_their_order_is_none() -> None:
    made = fleet().plan(group())
    some = [
        {"severity": "warning", "code": code, "message": code, "hint": "", "roles": ["prefill"], "host": "h1"}
        for code in ("stray", "tombstone")
    ]
    one = propose("deploy", [Planned("a", made.value, some)], [], {})
    assert propose("deploy", [Planned("a", made.value, some[::-1])], [], {}).digest == one.digest
    assert propose("deploy", [Planned("a", made.value, some[:1])], [], {}).digest != one.digest
    elsewhere = [{**some[0], "host": "h2"}, some[1]]
    assert propose("deploy", [Planned("a", made.value, elsewhere)], [], {}).digest != one.digest


def test_a_refused_group_is_another_plan_than_one_that_is_carried_out() -> None:
    made = fleet().plan(group())
    found = [{"severity": "error", "code": "no-room", "roles": [], "host": None, "message": "m", "hint": ""}]
    good, bad = Planned("a", made.value), Planned("a", None, found)
    assert propose("deploy", [good], [], {}).digest != propose("deploy", [bad], [], {}).digest
    assert propose("deploy", [bad], [], {}).workloads["a"] == ("refused", "error no-room")


# -- the difference ------------------------------------------------------------------------------------------------------------------


def test_the_difference_says_what_has_changed_and_where() -> None:
    site = fleet()
    before = proposal(site.plan(group()))
    taken(site)
    lines = before.until(proposal(site.plan(group())))
    assert lines[0] == "demo:"
    marked = [line for line in lines if "    port 400" in line and line.startswith(("  -", "  +"))]
    assert sorted(line[2] for line in marked) == ["+", "+", "-", "-"], "a prefill, and a decode"
    assert before.until(before) == []


def test_which_workloads_differ_is_told_of_their_digests_alone() -> None:
    found = differences({"a": "1", "b": "1", "c": "1"}, {"a": "1", "b": "2", "d": "1"})
    assert found == Differences(("b",), ("d",), ("c",))


def test_what_was_written_is_read_again_and_an_edit_is_seen() -> None:
    made = proposal(fleet().plan(group()))
    plain = json.loads(json.dumps(made.to_plain()))
    assert Proposal.from_plain(plain) == made
    plain["workloads"]["demo"][0] += " "
    with pytest.raises(PdError, match="edited"):
        Proposal.from_plain(plain)
    for odd in (None, [], {"schema": 2}, {"schema": 1}, {**plain, "workloads": 3}):
        with pytest.raises(PdError):
            Proposal.from_plain(odd)


# -- what a run is given -------------------------------------------------------------------------------------------------------------


def test_a_run_that_is_given_nothing_has_nothing_to_compare() -> None:
    assert approval.approved(None, None, None) is None
    assert approval.approved("any", None, {"a": "1"}) is None


@pytest.mark.parametrize("text", ["", " ", "abc", "g" * 64, "0" * 63, "0" * 65, 5])
def test_what_is_no_digest_is_refused(text: object) -> None:
    with pytest.raises(PdError, match=r"pd_plan_digest: .* is no digest of a plan\. Give the 64 hexadecimal digits"):
        approval.approved(text, None, None)


def test_the_same_plan_goes_on_and_another_is_told_with_both_digests() -> None:
    site = fleet()
    before = proposal(site.plan(group()))
    taken(site)
    now = proposal(site.plan(group()))
    asked = approval.approved(f" {before.digest.upper()} ", None, None)
    assert asked is not None
    assert asked.against(before).items == []
    (found,) = asked.against(now).errors
    assert found.code == "plan-not-approved"
    assert before.digest[:12] in found.message
    assert f"-e pd_plan_digest={now.digest}" in found.hint
    assert "pd_plan_file or pd_plan_digests" in found.message


def test_which_workload_differs_is_told_where_its_digests_are_given() -> None:
    site = fleet()
    made = site.plan(group())
    before = propose("deploy", [planned(made, "a"), planned(made, "b")], [["a", "b"]], {})
    taken(site)
    now = propose("deploy", [planned(made, "a"), planned(site.plan(group()), "b")], [["a", "b"]], {})
    for digests in (before.digests, json.dumps(before.digests)):
        asked = approval.approved(before.digest, None, digests)
        assert asked is not None
        assert ": b changed. Nothing was done" in asked.against(now).errors[0].message
    asked = approval.approved(before.digest, None, before.digests)
    assert asked is not None
    slower = propose("deploy", [planned(made, "a"), planned(made, "b")], [["a"], ["b"]], {})
    assert "the run as a whole is another" in asked.against(slower).errors[0].message
    less = propose("deploy", [planned(made, "a")], [["a"]], {})
    assert ": b left it. " in asked.against(less).errors[0].message


def test_a_file_is_written_for_its_user_alone_and_stands_for_its_digest(tmp_path: t.Any) -> None:
    made = proposal(fleet().plan(group()))
    file = tmp_path / "plan.json"
    approval.write(str(file), made)
    assert file.stat().st_mode & 0o777 == 0o600
    first = file.read_bytes()
    approval.write(str(file), made)
    assert file.read_bytes() == first
    assert [one.name for one in tmp_path.iterdir()] == ["plan.json"]
    for digest in (None, made.digest):
        asked = approval.approved(digest, str(file), None)
        assert asked is not None
        assert (asked.digest, asked.proposal) == (made.digest, made)
    with pytest.raises(PdError, match="Give the file that was written with the plan that was approved"):
        approval.approved("0" * 64, str(file), None)
    file.write_text("{")
    with pytest.raises(PdError, match=r"pd_plan_file: .* is not what -e pd_plan_out=FILE has written"):
        approval.approved(None, str(file), None)
    with pytest.raises(PdError, match=r"pd_plan_file: .* cannot be read"):
        approval.approved(None, str(tmp_path / "none"), None)


def test_where_a_plan_cannot_be_written_is_told_before_any_host_is_asked(tmp_path: t.Any) -> None:
    for place, says in ((tmp_path / "none" / "plan", "there is no folder"), (tmp_path, "is a folder")):
        with pytest.raises(PdError, match=f"pd_plan_out: .*{says}"):
            approval.check_given({"pd_plan_out": str(place)}.get)
    approval.check_given({"pd_plan_out": str(tmp_path / "plan")}.get)


# -- what is kept of it --------------------------------------------------------------------------------------------------------------


def test_what_is_kept_has_counts_seats_and_what_changes_without_values() -> None:
    site = running()
    edit = {"args": ["--max-model-len=1024"], "env": {"PRIVATE": "v4lue"}}
    made = planned(site.plan(group(engine=edit), "restart"))
    told = proposal(site.plan(group(engine=edit), "restart"))
    kept = artifacts.of(told, "restart", [made], told.digest)
    assert set(kept) == set(artifacts.NAMES)
    assert kept["pd_plan_digest"] == told.digest
    workload = kept["pd_plan_summary"]["workloads"]["demo"]
    assert workload["replaced"] == 5
    assert "decode args: --max-model-len=32768 -> 1024" in workload["changes"]
    assert "decode env: PRIVATE" in workload["changes"]
    assert "v4lue" not in json.dumps(kept)
    assert kept["pd_plan_seats"]["demo-prefill-0"] == {"host": "h1", "gpus": ["GPU-1-0"], "port": 40001}


def test_what_is_kept_of_a_fleet_is_bounded_and_says_what_is_left_out() -> None:
    site = Fleet(h1={"gpus": 8}, h2={"gpus": 8})
    made = site.plan(group(prefill={"replicas": 6}, decode={"replicas": 6}))
    many = [planned(made, f"{'group' * 8}-{number}") for number in range(100)]
    told = propose("deploy", many, [[one.name for one in many]], {})
    kept = artifacts.of(told, "deploy", many, told.digest)
    assert len(kept["pd_plan_digests"]) == 100
    assert len(json.dumps(kept)) < 2 * artifacts.MOST + 100 * 80
    summary = kept["pd_plan_summary"]
    assert len(summary["workloads"]) + summary["more_workloads"] == 100


def test_workloads_with_nothing_to_do_are_counted() -> None:
    site = running()
    quiet = planned(site.plan(group()))
    told = propose("deploy", [quiet], [], {})
    kept = artifacts.of(told, "deploy", [quiet], None)
    assert kept["pd_plan_summary"] == {"action": "deploy", "digest": told.digest, "workloads": {}, "unchanged": 1}
    assert "pd_plan_digest" not in kept
