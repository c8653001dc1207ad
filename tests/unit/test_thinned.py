# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs over an inventory that has not all hosts: AWX leaves out those that are disabled, and gives a slice of a job its part of each group.
Who is absent is unknown, not gone: nothing comes in its place. The actions run here on an inventory in memory, over hosts in memory."""

from __future__ import annotations

import tempfile
import typing as t
from pathlib import Path

import memory
import pytest
from ansible import constants
from ansible.errors import AnsibleActionFail
from builders import Fleet, spec
from plays import action

from ansible_collections.inferops.pd.plugins.action import (
    cache_validate,
    group_info,
    group_plan,
    group_validate,
    hosts_evacuated,
    hosts_named,
    rollout_validate,
)
from ansible_collections.inferops.pd.plugins.module_utils._core.base.errors import PdError
from ansible_collections.inferops.pd.plugins.plugin_utils import _absent

Vars = dict[str, t.Any]
ONE = {"gpus": 1}
EXPECTED = {"nodes": ["h1", "h[2:3]"]}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(vars(constants), "DEFAULT_LOCAL_TMP", tempfile.mkdtemp(dir=tmp_path))


def demo(hosts: str) -> Vars:
    one = {"hosts": hosts, "gpus": 1}
    return spec(prefill=one, decode=one, router={"hosts": hosts})


def fleet(serves: bool) -> Fleet:
    """Three hosts with a GPU each; the group serves on the first two."""
    made = Fleet(h1=ONE, h2=ONE, h3=ONE)
    if serves:
        made.deploy(demo("h1:h2"))
    return made


class Run:
    """One run over the hosts that an inventory has."""

    def __init__(self, serves: bool, here: str, pattern: str = "nodes", lost: str = "", **variables: t.Any) -> None:
        self.groups = {"nodes": [f"h{number}" for number in here]}
        hosts = fleet(serves).facts
        self.said = {h: {"ansible_facts": {"pd_host": memory.told(hosts[h])}} for h in self.groups["nodes"]}
        self.lost = [lost] if lost else []
        self.variables = {"pd_groups": {"demo": demo(pattern)}, "pd_lost_hosts": lost, **variables}
        self.shown = ""

    def act(self, of: t.Any, **args: t.Any) -> t.Any:
        made = action(of.ActionModule, self.variables, self.said, self.groups, **args)
        made._display.display = self._show
        return made.act()

    def _show(self, text: str, *_more: t.Any, **_how: t.Any) -> None:
        self.shown += text

    def does(self, what: str) -> str:
        """What becomes of it: refused with which finding, or what is done."""
        try:
            if what == "validate":
                self.act(group_validate, name="demo")
                return "valid"
            made = self.act(group_plan, name="demo", action=what, lost_hosts=self.lost)
        except AnsibleActionFail as exc:
            found = t.cast("Vars", exc.result)["findings"]
            return f"refused: {found[0]['code']}"
        steps = [one["do"] for one in made["plan"]["steps"]]
        return next((do for do in ("create", "remove") if do in steps), "nothing")


ABSENT, UNKNOWN = "refused: hosts-absent", "refused: host-unreachable"
WRITTEN = "h1,h2,h3"
# Whether it serves, the hosts that the inventory has, what else is said; and what validate, deploy, restart, heal and remove come to.
CASES: list[tuple[str, bool, str, Vars, tuple[str, ...]]] = [
    ("whole, new", False, "123", {}, ("valid", "create", "create", "nothing", "nothing")),
    ("whole", True, "123", {}, ("valid", "nothing", "create", "nothing", "remove")),
    # Nothing says that anybody is absent: it is formed on whom there is.
    ("thinned in silence, new", False, "13", {}, ("valid", "create", "create", "nothing", "nothing")),
    # Its record says.
    ("thinned in silence", True, "13", {}, ("valid", "nothing", UNKNOWN, "nothing", UNKNOWN)),
    ("expected, new", False, "13", {"pd_expected_hosts": EXPECTED}, ("valid", UNKNOWN, UNKNOWN, "nothing", UNKNOWN)),
    ("expected", True, "13", {"pd_expected_hosts": EXPECTED}, ("valid", "nothing", UNKNOWN, "nothing", UNKNOWN)),
    # With its record on none of those that are there, it would be formed a second time.
    ("all of it absent", True, "3", {"pd_expected_hosts": EXPECTED}, ("valid", UNKNOWN, UNKNOWN, "nothing", UNKNOWN)),
    ("named, new", False, "13", {"pattern": WRITTEN}, (ABSENT, UNKNOWN, UNKNOWN, "nothing", UNKNOWN)),
    ("named", True, "13", {"pattern": WRITTEN}, (ABSENT, "nothing", UNKNOWN, "nothing", UNKNOWN)),
    ("named, lost", True, "13", {"pattern": WRITTEN, "lost": "h2"}, ("valid", "create", "create", "create", "remove")),
    (
        "expected, lost",
        True,
        "13",
        {"pd_expected_hosts": EXPECTED, "lost": "h2"},
        ("valid", "create", "create", "create", "remove"),
    ),
    # Who is expected and there is a host like any other.
    ("expected, and there", True, "123", {"pd_expected_hosts": EXPECTED}, ("valid", "nothing", "create", "nothing", "remove")),
]  # fmt: skip


@pytest.mark.parametrize(
    ("serves", "here", "more", "comes_to"), [case[1:] for case in CASES], ids=[c[0] for c in CASES]
)
def test_a_run_over(serves: bool, here: str, more: Vars, comes_to: tuple[str, ...]) -> None:
    what = ("validate", "deploy", "restart", "heal", "remove")
    assert tuple(Run(serves, here, **more).does(one) for one in what) == comes_to


def test_what_is_named_and_absent_is_told_once_with_its_places() -> None:
    run = Run(True, "13", pattern=WRITTEN)
    run.does("validate")
    assert run.shown.count("ERROR") == 1
    assert (
        "roles.prefill.hosts, roles.decode.hosts, roles.router.hosts name h2, and the inventory of this run has"
        in run.shown
    )
    assert "-e pd_lost_hosts=h2" in run.shown


def test_a_slip_is_told_with_what_was_meant() -> None:
    run = Run(False, "123", pattern="nods")
    assert run.does("validate") == ABSENT
    assert "Did you mean 'nodes'?" in run.shown


@pytest.mark.parametrize("pattern", ["nodes", "h*", "~h[0-9]", "nodes:!h9", "nodes:&all", "nodes[0:1]", "all", "h1:h3"])
def test_what_a_pattern_does_not_name_is_not_absent(pattern: str) -> None:
    assert Run(False, "13", pattern=pattern).does("validate") == "valid"


@pytest.mark.parametrize(
    ("pattern", "absent"),
    [
        ("nodes", ["h2"]),
        ("others", ["h4"]),
        ("nodes,others", ["h2", "h4"]),
        ("all", ["h2", "h4"]),
        ("h*", ["h2", "h4"]),
        ("nodes:!h2", []),
        ("all:&nodes", ["h2"]),
        ("h1", []),
        ("h2:h1", ["h2"]),
        ("localhost", []),
        ("", []),
    ],
)
def test_who_is_expected_is_in_the_patterns(pattern: str, absent: list[str]) -> None:
    groups = {"nodes": ["h3", "h1"], "others": []}
    variables = {"pd_expected_hosts": {**EXPECTED, "others": "h4"}}
    assert action(group_validate.ActionModule, variables, None, groups).absent(pattern) == absent


@pytest.mark.parametrize(
    ("here", "says"),
    [
        ("12", "h3 is not in the inventory: no member comes there."),
        (
            "13",
            "h2 is not in the inventory and may still run demo-decode-0: nothing of the group is replaced or restarted.",
        ),
    ],
)
def test_a_deploy_says_what_follows_for_the_group(here: str, says: str) -> None:
    made = Run(True, here, pd_expected_hosts=EXPECTED).act(group_plan, name="demo")
    assert [one["message"] for one in made["findings"]] == [says]


def test_heal_says_why_it_sees_nothing_of_a_group() -> None:
    made = Run(True, "3", pd_expected_hosts=EXPECTED).act(group_plan, name="demo", action="heal")
    (found,) = made["findings"]
    assert "no host that was looked at has a record of it (h1, h2 are not in the inventory)" in found["message"]
    assert found["hint"] == "Put them back into the inventory (in AWX, enable them)."


@pytest.mark.parametrize(("skip", "refused"), [("", True), ("edge", False)])
def test_a_hook_whose_host_is_absent_would_not_be_told(skip: str, refused: bool) -> None:
    run = Run(True, "12", pd_skip_hooks=skip)
    run.variables["pd_groups"]["demo"]["endpoint"] = {"hooks": ["edge"]}
    run.variables["pd_endpoint_hooks"] = {
        "edge": {"kind": "file_sd", "hosts": "h1,gw2", "file": "/etc/prometheus/pd/${group}.json"}
    }
    assert run.does("validate") == (ABSENT if refused else "valid")
    assert ("pd_endpoint_hooks.edge.hosts names gw2" in run.shown) is refused


def test_status_says_who_is_absent() -> None:
    run = Run(True, "13", pd_expected_hosts=EXPECTED)
    made = run.act(group_info)
    assert "Not in the inventory of this run: h2" in made["table"]
    assert made["groups"]["demo"]["state"] == "partial"
    assert Run(True, "3", pd_expected_hosts=EXPECTED).act(group_info)["groups"]["demo"]["message"] == (
        "nothing is known of it, and h1, h2 are not in the inventory"
    )


@pytest.mark.parametrize(
    ("written", "says"),
    [
        (["h1"], "is no dictionary"),
        ({"nodes": 3}, "pd_expected_hosts.nodes: '3' is no list of names"),
        ({"nodes": ["h1", 2]}, "is no list of names"),
        ({"nodes": "h[3:1]"}, "pd_expected_hosts.nodes: 'h[3:1]' is no range of names"),
        ({"nodes": "h[x"}, "is no range of names"),
        ({"nodes": "{{ groups.nodes }}"}, "is made of the inventory itself"),
        ({"nods": "h1"}, "pd_expected_hosts.nods: the inventory has no group of that name. Did you mean 'nodes'?"),
        ("{{ groups }}", "is made of the inventory itself"),
        ({"nodes": ["{{ query('inventory_hostnames', 'nodes') }}"]}, "is made of the inventory itself"),
    ],
)
def test_what_cannot_be_expected(written: t.Any, says: str) -> None:
    with pytest.raises(PdError, match=r"^pd_expected_hosts") as error:
        _absent.expected(written, lambda raw: raw, ["nodes"])
    assert says in str(error.value)


# -- slices --------------------------------------------------------------------------------------------------------------

# As AWX has them: a job with slices becomes a workflow of the name of its template.
SLICE = {"awx_job_template_name": "pd deploy", "awx_workflow_job_name": "pd deploy", "awx_workflow_job_id": 7}
BEGINNINGS = (group_validate, group_plan, group_info, hosts_named, hosts_evacuated, rollout_validate, cache_validate)


@pytest.mark.parametrize("of", BEGINNINGS)
def test_a_slice_of_a_job_is_refused_whatever_it_begins_with(of: t.Any) -> None:
    for prefix in ("awx", "tower"):
        variables = {name.replace("awx", prefix, 1): value for name, value in SLICE.items()}
        with pytest.raises(
            PdError, match=r"^This job is one slice of 'pd deploy': .* Set Job slicing of the template to 1\."
        ):
            Run(True, "13", **variables).act(of)


@pytest.mark.parametrize(
    "changes", [{"awx_workflow_job_name": "change"}, {"awx_workflow_job_name": None}, {"awx_job_template_name": None}]
)
def test_a_job_by_itself_or_in_a_workflow_is_none(changes: Vars) -> None:
    run = Run(True, "123", **{name: value for name, value in {**SLICE, **changes}.items() if value is not None})
    assert run.does("validate") == "valid"


# -- forks ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("forks", "part", "says"), [(1, False, True), (2, False, False), (1, True, False), (None, False, False)]
)
def test_fewer_forks_than_hosts_are_told_where_the_plan_is(forks: int | None, part: bool, says: bool) -> None:
    run = Run(False, "12", ansible_forks=forks)
    run.act(group_plan, name="demo", plan_is_part=part)
    told = "2 hosts have a part in this, and Ansible asks 1 at a time"
    assert (told in run.shown, "--forks=2; in AWX, Forks of the job template." in run.shown) == (says, says)
