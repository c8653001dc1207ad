# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Groups and cache services are two kinds of one thing: what is told, planned, judged and done of one is of the other, by one way."""

from __future__ import annotations

import glob
import os
import typing as t

import pytest
import yaml
from builders import ROOT, RUN

from ansible_collections.inferops.pd.plugins.action import cache_plan, cache_validate, group_plan, group_validate
from ansible_collections.inferops.pd.plugins.module_utils._core.base.finding import Findings
from ansible_collections.inferops.pd.plugins.module_utils._core.facts.observed import Host, read_host
from ansible_collections.inferops.pd.plugins.module_utils._core.plan.value import Plan
from ansible_collections.inferops.pd.plugins.module_utils._core.report import status, verdict
from ansible_collections.inferops.pd.plugins.module_utils._core.spec import workload
from ansible_collections.inferops.pd.plugins.plugin_utils._workloads import Asked, Workloads, workloads_of

KINDS = sorted(workload.KINDS)


class Inventory:
    """What workloads ask of an action: an inventory without any."""

    args: t.ClassVar[dict[str, t.Any]] = {}

    def entries(self, _kind: workload.Kind) -> dict[str, t.Any]:
        return {}

    def groups(self) -> dict[str, t.Any]:
        return {}

    def users_by_service(self) -> dict[str, list[str]]:
        return {}

    def pattern_hosts(self, _pattern: str) -> list[str]:
        return []

    def patterns_of(self, _name: str, _spec: t.Any) -> dict[str, list[str]]:
        return {}


def works(kind: str) -> Workloads:
    return workloads_of(kind, t.cast("t.Any", Inventory()))


def label(kind: workload.Kind, index: int = 0, **changes: t.Any) -> dict[str, t.Any]:
    role = kind.serving[0]
    return {
        "schema": 1,
        "group": "w",
        "member": f"w-{role}-{index}",
        "role": role,
        "index": index,
        "revision": "r",
        "generation": 1,
        "port": 40000 + index,
        "ports": {},
        "gpus": [],
        "url": f"http://10.0.0.1:{40000 + index}",
        "runtime": "supervisor",
        **changes,
    }


def record_of(kind: workload.Kind, *places: tuple[str, int]) -> dict[str, t.Any]:
    """The record of members (host, index)."""
    members = [
        {
            **{key: label(kind, index)[key] for key in ("role", "index", "revision", "url", "port", "ports", "gpus")},
            "id": label(kind, index)["member"],
            "host": host,
        }
        for host, index in places
    ]
    made: dict[str, t.Any] = {"schema": 1, "group": "w", "generation": 1, "members": members, "runtime": "supervisor"}
    return {**made, "cache": {"provider": "mooncake"}} if kind is workload.CACHE else made


def host(name: str, record: t.Any = None, *members: dict[str, t.Any]) -> Host:
    return read_host(name, {"members": list(members), "records": {"w": record} if record else {}})


def seen(told: dict[str, t.Any], **live: t.Any) -> dict[str, t.Any]:
    return {"label": told, "state": "running", "ready": True, **live}


# -- status --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("live", "told"),
    [
        ({}, "ready"),
        ({"ready": False}, "loading"),
        ({"ready": False, "state": "restarting"}, "restarting"),
        ({"ready": False, "state": "stuck"}, "stuck"),
        ({"ready": False, "state": "exited"}, "exited"),
        ({"draining": True}, "draining"),
    ],
)
def test_the_condition_of_a_member_is_one_word_whatever_it_is_of(live: dict[str, t.Any], told: str) -> None:
    for name in KINDS:
        kind = workload.KINDS[name]
        hosts = {"h1": host("h1", record_of(kind, ("h1", 0)), seen(label(kind), **live))}
        state = status.of(status.Subject(kind, "w"), hosts, ())
        assert [m["state"] for m in state["members"]] == [told]
        assert told in status.table(state)[-1]


@pytest.mark.parametrize("name", KINDS)
def test_every_state_has_what_is_common(name: str) -> None:
    kind = workload.KINDS[name]
    hosts = {"h1": host("h1", record_of(kind, ("h1", 0), ("h2", 1)), seen(label(kind)))}
    state = status.of(status.Subject(kind, "w"), hosts, ["h2"])
    assert [m["state"] for m in state["members"]] == ["ready", "unknown"]
    assert {mark["mark"] for mark in state["marks"]} == {"members_unknown", "not_in_inventory"}
    assert state["roles"][kind.serving[0]]["unknown"] == 1
    assert ("router" in state, "endpoint" in state, "users" in state) == (kind.router, kind.router, not kind.router)


@pytest.mark.parametrize("name", KINDS)
def test_a_stray_is_told(name: str) -> None:
    kind = workload.KINDS[name]
    state = status.of(status.Subject(kind, "w"), with_a_stray(kind), ())
    assert [(m["host"], m["state"]) for m in state["strays"]] == [("h2", "stray")]
    assert f"none of the {kind.short}" in next(m["why"] for m in state["marks"] if m["mark"] == "stray")


def test_a_name_is_of_one_kind() -> None:
    for name in KINDS:
        hosts = with_a_stray(workload.KINDS[name])
        assert {one for one in KINDS if workload.names_on(hosts, workload.KINDS[one])} == {name}


# -- removal -------------------------------------------------------------------------------------------------------------


def with_a_stray(kind: workload.Kind) -> dict[str, Host]:
    """A member at its place, and the same one where the record does not know it."""
    noted = record_of(kind, ("h1", 0))
    return {"h1": host("h1", noted, seen(label(kind))), "h2": host("h2", None, seen(label(kind)))}


def removal(name: str, hosts: dict[str, Host], lost: t.Sequence[str] = ()) -> tuple[dict[str, t.Any], list[str]]:
    findings = Findings()
    plan = works(name).removal(None, Asked("w", hosts, "remove", RUN, lost=lost), findings).to_plain()
    return plan, [f.code for f in findings.errors]


@pytest.mark.parametrize("name", KINDS)
def test_a_removal_forgets_no_stray(name: str) -> None:
    hosts = with_a_stray(workload.KINDS[name])
    plan, errors = removal(name, hosts)
    assert errors == []
    every = {(m.host, m.id) for h in hosts.values() for m in h.members}
    assert {(s["host"], s["member"]) for s in plan["steps"] if s["do"] == "remove" and s["member"]} == every
    assert {(h, m) for h, here in plan["hosts"].items() for m in here["absent"]} == every
    assert all(here["runtimes"] == ["supervisor"] for here in plan["hosts"].values()), "whatever started it"
    assert verdict.reach(Plan.from_plain(plan), {}, "stop").good is False, "who says nothing has not stopped"


@pytest.mark.parametrize("name", KINDS)
def test_a_removal_is_refused_while_a_host_that_the_record_names_is_out_of_sight(name: str) -> None:
    kind = workload.KINDS[name]
    hosts = {"h1": host("h1", record_of(kind, ("h1", 0), ("h2", 1)), seen(label(kind)))}
    assert removal(name, hosts)[1] == ["host-unreachable"]
    plan, errors = removal(name, hosts, lost=["h2"])
    assert errors == []
    assert list(plan["hosts"]) == ["h1"]


# -- verdicts ------------------------------------------------------------------------------------------------------------


def plan_of(kind: workload.Kind) -> dict[str, t.Any]:
    """A plan that starts one member of each role that is waited for, all on h1."""
    members = []
    for number, role in enumerate(kind.serving):
        told = label(kind, number, role=role, member=f"w-{role}-{number}")
        part = {"host": "h1", "port": told["port"], "ports": {}, "image": "engine:1", "labels": told}
        members.append({"id": told["member"], "role": role, "address": "10.0.0.1", "url": told["url"], "parts": [part]})
    ids = [m["id"] for m in members]
    plan: dict[str, t.Any] = {
        "group": "w",
        "action": "deploy",
        "readiness": "all",
        "members": members,
        "hosts": {"h1": {"absent": ids, "create": ids}},
        "router": {"member": None, "step": "none"},
        "endpoint": {"url": None, "served_model_name": None},
    }
    return {**plan, "cache": {"users": ["g"]}} if kind is workload.CACHE else plan


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("phase", ["lock", "prepare", "stop", "start", "final"])
def test_a_host_that_refuses_is_judged_alike(name: str, phase: str) -> None:
    kind = workload.KINDS[name]
    said = {"h1": [{"failed": True, "msg": "no room on the disk", "phase": "start" if phase == "final" else phase}]}
    found = verdict.reach(Plan.from_plain(plan_of(kind)), said, phase)
    assert not found.good
    assert found.msg.startswith(f"{kind.title} w")
    assert "- h1: no room on the disk" in found.msg


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize(("stops", "told"), [(True, "is stopped again (pd_on_failure is stop)"), (False, "it goes on")])
def test_a_failed_start_is_told_alike(name: str, stops: bool, told: str) -> None:
    kind = workload.KINDS[name]
    plan = plan_of(kind)
    waited = {m["id"]: {"state": "failed", "why": "it has ended"} for m in plan["members"]}
    found = verdict.reach(
        Plan.from_plain(plan), {"h1": [{"ok": True}, {"members": waited, "not_ready": {}}]}, "final", stops=stops
    )
    assert set(found.failed) == set(waited)
    assert f"run {kind.deploy('w')} again" in found.msg
    assert told in found.msg
    assert found.registered != "yes"


# -- one way -------------------------------------------------------------------------------------------------------------


def calls(module: str, phase: str) -> list[str]:
    """The task files that call a module of ours for a phase."""
    found = []
    for path in sorted(glob.glob(os.path.join(ROOT, "roles", "*", "tasks", "*.yml"))):
        with open(path, encoding="utf-8") as handle:
            found += [path for task in _tasks(yaml.safe_load(handle)) if _phase(task, module) == phase]
    return [os.path.relpath(path, os.path.join(ROOT, "roles")).replace("/tasks", "") for path in found]


def _tasks(tasks: t.Any) -> t.Iterator[dict[str, t.Any]]:
    for task in tasks or ():
        yield task
        yield from _tasks(task.get("block"))


def _phase(task: dict[str, t.Any], module: str) -> t.Any:
    return (task.get(f"inferops.pd.{module}") or {}).get("phase")


@pytest.mark.parametrize(
    ("phase", "files"),
    [
        ("lock", ["group/lock.yml"]),
        ("unlock", ["group/unlock.yml"]),
        ("prepare", ["engine/prepare.yml"]),
        # Members that are started anew, in rounds of their own, after all others are up.
        ("start", ["engine/renew.yml", "engine/start.yml"]),
        ("stop", ["engine/stop.yml"]),
        ("undo", ["engine/undo.yml"]),
        ("leave", ["router/leave.yml"]),
        ("router", ["router/start.yml"]),
        ("endpoint", ["endpoint/register.yml"]),
        ("forget", ["endpoint/forget.yml"]),
    ],
)
def test_each_phase_is_carried_out_in_one_place_for_both_kinds(phase: str, files: list[str]) -> None:
    assert calls("members", phase) == files


def test_no_task_that_reaches_a_verdict_is_ever_skipped() -> None:
    """What a skipped task registers would take the place of the verdict that was reached before."""
    found = 0
    for path in glob.glob(os.path.join(ROOT, "roles", "*", "tasks", "*.yml")):
        with open(path, encoding="utf-8") as handle:
            tasks = list(_tasks(yaml.safe_load(handle)))
        for task in tasks:
            if task.get("register") == "group_course":
                found += 1
                assert "when" not in task, path
    assert found > 8


def test_playbooks_of_both_families_go_through_one_role() -> None:
    roles = set()
    for name in ("deploy", "restart", "remove", "caches", "caches_remove"):
        with open(os.path.join(ROOT, "playbooks", f"{name}.yml"), encoding="utf-8") as handle:
            (play,) = yaml.safe_load(handle)
        assert play["order"] == "sorted", "whoever takes the first lock is not behind those that wait for it"
        roles |= {
            t_["ansible.builtin.import_role"]["name"] for t_ in play["tasks"] if "ansible.builtin.import_role" in t_
        }
    assert roles == {"inferops.pd.group"}


@pytest.mark.parametrize(("one", "of"), [(cache_plan, group_plan), (cache_validate, group_validate)])
def test_the_actions_of_cache_services_are_cases_of_the_groups(one: t.Any, of: t.Any) -> None:
    assert issubclass(one.ActionModule, of.ActionModule)
    assert set(one.ActionModule.ARGUMENTS) < set(of.ActionModule.ARGUMENTS)
    own = {name for name in vars(one.ActionModule) if not name.startswith("_")}
    assert own == {"ARGUMENTS", "act"}
