# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which hosts an evacuation is of, what it says of them at its end, and the mark that a host keeps. The actions run here on an inventory in
memory."""

from __future__ import annotations

import json
import typing as t
from pathlib import Path
from types import SimpleNamespace

import pytest
from builders import host_facts, spec

from ansible_collections.inferops.pd.plugins.action import group_info, group_plan, hosts_emptied, hosts_evacuated
from ansible_collections.inferops.pd.plugins.module_utils._core.base.errors import PdError
from ansible_collections.inferops.pd.plugins.module_utils._core.course.course import Course
from ansible_collections.inferops.pd.plugins.module_utils._runtimes.state import State
from ansible_collections.inferops.pd.plugins.modules import host_cordon
from ansible_collections.inferops.pd.plugins.plugin_utils._action import PdAction
from ansible_collections.inferops.pd.plugins.plugin_utils.run_folder import Index, RunFolder

Vars = dict[str, t.Any]
PLAY = SimpleNamespace(strategy="linear")
HOSTS = [f"h{number}" for number in range(1, 6)]
FLEET: Vars = {
    "pd_groups": {
        name: spec(prefill={"hosts": hosts}, decode={"hosts": hosts}, router={"hosts": hosts})
        for name, hosts in (("a", "h1:h2"), ("b", "h2:h3"))
    },
    "pd_caches": {
        "store": {"provider": "lmcache", "hosts": "h1,h2", "runtime": "supervisor", "options": {"size": 1}},
    },
}


def action(
    of: type[PdAction],
    said: t.Mapping[str, Vars] | None = None,
    check: bool = False,
    more: Vars | None = None,
    **args: t.Any,
) -> t.Any:
    """An action in a play over all hosts, of which those of `said` have registered what they say; `shown` is what a person sees."""
    hostvars = {host: {"pd_facts": (said or {}).get(host), **((more or {}).get(host) or {})} for host in HOSTS}
    task = SimpleNamespace(
        args={}, check_mode=check, diff=False, get_play=lambda: PLAY, get_variable_manager=lambda: None
    )
    made = of(task, None, None, None, SimpleNamespace(template=lambda raw: raw), None)
    made.args = {**{name: one.get("default") for name, one in of.ARGUMENTS.items()}, **args}
    made.task_vars = {
        "groups": {"all": HOSTS, "odd": ["h1", "h3", "h5"]},
        "ansible_play_hosts_all": HOSTS[:4],
        "ansible_play_hosts": HOSTS[:4],
        "ansible_play_batch": HOSTS[:4],
        "hostvars": hostvars,
        **FLEET,
    }
    made.shown = []
    made._display = SimpleNamespace(display=lambda text, *_a, **_k: made.shown.append(text))
    return made


def member(group: str, role: str) -> Vars:
    label = {"group": group, "member": f"{group}-{role}-0", "role": role, "index": 0, "revision": "r", "generation": 1}
    return {"label": label, "state": "running", "ready": True}


def facts(*members: Vars, **changes: t.Any) -> Vars:
    return {"ansible_facts": {"pd_host": host_facts(1, members=list(members), **changes)}}


# -- which hosts -------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "hosts"),
    [
        ("h2", ["h2"]),
        ("h3,h1", ["h1", "h3"]),
        (["h3", "h1"], ["h1", "h3"]),
        ("odd[0:1]", ["h1", "h3"]),
        ("odd,!h5", ["h1", "h3"]),
    ],
)
def test_a_name_a_list_or_a_pattern(written: t.Any, hosts: list[str]) -> None:
    assert action(hosts_evacuated.ActionModule, host=written).act()["hosts"] == hosts


@pytest.mark.parametrize(
    ("written", "says"),
    [
        (None, "Say which host: -e pd_host=NAME"),
        ("", "Say which host"),
        # Facts of hosts are a variable of that name, where they are kept.
        ({"address": "10.0.0.1"}, "Say which host"),
        ("hh1", "pd_host: 'hh1' matches no host of the inventory. Did you mean 'h1'?"),
        ("h1,gpu", "'gpu' matches no host"),
        ("h1,!h1", "leaves no host"),
        ("h5", "h5 is not one of the hosts of this run. Run without --limit"),
    ],
)
def test_what_cannot_be_meant(written: t.Any, says: str) -> None:
    with pytest.raises(PdError) as error:
        action(hosts_evacuated.ActionModule, host=written).act()
    assert says in str(error.value)


def test_a_host_that_is_not_asked_cannot_be_emptied() -> None:
    with pytest.raises(PdError) as error:
        action(hosts_evacuated.ActionModule, more={"h2": {"pd_out_of_service": True}}, host="h2").act()
    assert "h2 is out of service by the inventory (pd_out_of_service)" in str(error.value)


def test_what_is_there_and_where_to_look_for_the_rest_of_it() -> None:
    said = {"h2": facts(member("b", "decode"), member("store", "cache"), member("gone", "decode"))}
    answer = action(hosts_evacuated.ActionModule, said, host="h2").act()
    assert answer["workloads"] == [{"kind": "group", "name": "b"}, {"kind": "cache", "name": "store"}]
    assert answer["look"] == ["h1", "h2", "h3"]
    assert "/models/m" in answer["observe"]["models"]


def test_before_the_host_was_looked_at_nothing_is_known_of_it() -> None:
    assert action(hosts_evacuated.ActionModule, host="h2").act()["workloads"] == []


def test_who_may_come_to_one_that_is_given_back() -> None:
    made = action(hosts_evacuated.ActionModule, host="h2", returned=True)
    assert made.act() == {"hosts": ["h2"], "cordoned": []}
    (shown,) = made.shown
    assert "a (prefill, decode, router); b (prefill, decode, router); store (cache)" in shown
    assert "Nothing moves back by itself" in shown


def test_the_inventory_keeps_one_cordoned() -> None:
    made = action(hosts_evacuated.ActionModule, more={"h2": {"pd_cordoned": "yes"}}, host="h2", returned=True)
    assert made.act()["cordoned"] == ["h2"]
    assert "h2 stays cordoned: the inventory says so (pd_cordoned)" in made.shown[0]


# -- cordons ----------------------------------------------------------------------------------------------------------------------------


def test_the_inventory_and_the_host_say_who_is_cordoned() -> None:
    said = {"h1": facts(cordon={"by": "ops@control", "since": 1.0, "why": "disk"}), "h2": facts(), "h3": facts()}
    made = action(group_info.ActionModule, said, more={"h2": {"pd_cordoned": True}})
    assert {name: host.cordon.told() for name, host in made.seen().hosts.items() if host.cordon} == {
        "h1": "cordoned by ops@control (disk)",
        "h2": "cordoned by the inventory (pd_cordoned)",
    }


def test_a_plan_knows_of_a_host_that_is_evacuated_before_it_has_a_mark() -> None:
    """In a check run it gets none."""
    made = action(group_plan.ActionModule, {"h2": facts(), "h3": facts()}, check=True, evacuate=["h2"])
    assert [name for name, host in made.seen().hosts.items() if host.cordon] == ["h2"]


# -- the end of it ----------------------------------------------------------------------------------------------------------------------


def run_of(tmp_path: Path, *courses: Course, refused: t.Mapping[str, str] | None = None) -> str:
    folder = RunFolder(str(tmp_path))
    names = [course.name for course in courses]
    folder._write(vars(Index([names] if names else [], [0], refused=dict(refused or {}))), "index.json")
    folder.write_courses(0, {course.name: course for course in courses})
    return folder.path


def test_an_empty_host_may_be_switched_off(tmp_path: Path) -> None:
    made = action(hosts_emptied.ActionModule, {"h2": facts()}, hosts_meant=["h2"], run=run_of(tmp_path, Course("b")))
    answer = made.act()
    assert (answer["empty"], answer["left"], answer.get("failed")) == (["h2"], {}, None)
    assert "h2 is empty, and may be switched off" in made.shown[-1]
    assert "inferops.pd.evacuate -e pd_host=h2 -e pd_return=true" in made.shown[-1]


def test_where_nothing_was_there_to_be_moved_there_is_no_run() -> None:
    assert action(hosts_emptied.ActionModule, {"h2": facts()}, hosts_meant=["h2"]).act()["empty"] == ["h2"]


WHY = "- ERROR does-not-fit: decode: 0 of 1 new members fit"


@pytest.mark.parametrize(
    ("courses", "refused", "says"),
    [
        (
            (),
            {"b": f"Group b is refused: 1 error.\n{WHY}\n    Add hosts."},
            "does-not-fit: decode: 0 of 1 new members fit",
        ),
        ((Course("b", failed=True, told="Group b cannot serve.\nand more"),), {}, "Group b cannot serve."),
        ((Course("b"),), {}, "what came in its place is not all ready"),
        ((), {}, "it came after the plan was made"),
    ],
)
def test_what_is_left_is_named_with_its_reason(
    tmp_path: Path, courses: tuple[Course, ...], refused: dict[str, str], says: str
) -> None:
    run = run_of(tmp_path, *courses, refused=refused)
    said = {"h2": facts(member("b", "decode")), "h3": facts()}
    made = action(hosts_emptied.ActionModule, said, hosts_meant=["h2", "h3"], run=run)
    answer = made.act()
    assert answer["failed"]
    assert (answer["left"], answer["empty"]) == ({"h2": ["b-decode-0"]}, ["h3"])
    assert answer["msg"].startswith("h2 is not empty.")
    assert f"- b-decode-0: {says}" in made.shown[-1]
    assert "may be switched off" in made.shown[-1], "the other one"


def test_a_group_of_no_entry_is_named_with_the_way_out() -> None:
    made = action(hosts_emptied.ActionModule, {"h2": facts(member("gone", "decode"))}, hosts_meant=["h2"])
    assert made.act()["failed"]
    assert "no entry of pd_groups names group gone" in made.shown[-1]
    assert "inferops.pd.remove -e pd_group=gone" in made.shown[-1]


def test_of_one_that_does_not_answer_nothing_is_known() -> None:
    said = {"h2": {"unreachable": True, "msg": "no route to host"}}
    made = action(hosts_emptied.ActionModule, said, hosts_meant=["h2"])
    assert made.act()["failed"]
    assert "h2: what is there is not known: no route to host" in made.shown[-1]


def test_a_check_tells_what_a_run_would_leave(tmp_path: Path) -> None:
    said = {"h2": facts(member("a", "decode"), member("b", "decode"))}
    run = run_of(tmp_path, Course("a", done=True), refused={"b": f"Group b is refused: 1 error.\n{WHY}"})
    answer = action(hosts_emptied.ActionModule, said, check=True, hosts_meant=["h2"], run=run).act()
    assert answer["left"] == {"h2": ["b-decode-0"]}
    good = run_of(tmp_path, Course("a", done=True), Course("b", done=True))
    made = action(hosts_emptied.ActionModule, said, check=True, hosts_meant=["h2"], run=good)
    assert made.act()["empty"] == ["h2"]
    assert "h2 would be empty" in made.shown[-1]


# -- the mark ---------------------------------------------------------------------------------------------------------------------------


def test_a_mark_that_is_there_keeps_who_has_set_it() -> None:
    first = host_cordon.wanted(None, "a@x", "disk", 1.0)
    assert first == {"by": "a@x", "since": 1.0, "why": "disk"}
    assert host_cordon.wanted(first, "b@y", None, 2.0) == first
    assert host_cordon.wanted(first, "b@y", "disk", 2.0) == first
    assert host_cordon.wanted(first, "b@y", "driver", 2.0) == {"by": "b@y", "since": 2.0, "why": "driver"}


def test_a_mark_goes_with_all_that_is_empty_then(tmp_path: Path) -> None:
    state = State(str(tmp_path / "state"))
    assert state.cordon() is None
    with state.lock():
        state.write_cordon({"by": "a@x", "since": 1.0, "why": ""})
        state.clear()
    assert state.cordon() == {"by": "a@x", "since": 1.0, "why": ""}
    with state.lock():
        state.write_cordon(None)
    assert not (tmp_path / "state").exists()


@pytest.mark.parametrize("text", ["{", "[]", json.dumps({"since": "yesterday"})])
def test_a_damaged_mark_is_one(tmp_path: Path, text: str) -> None:
    state = State(str(tmp_path))
    (tmp_path / "cordon.json").write_text(text)
    found = state.cordon()
    assert found
    assert "cannot be read" in found["why"]
