# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A variable that says nothing is left out: a survey answers so where nobody did. Whatever reads it, a playbook, a role or an action, does
as if it were not there."""

from __future__ import annotations

import re
import typing as t

import pytest
import yaml
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar
from plays import FLEET, TASK, action, facts, record
from support import ROOT

from ansible_collections.inferops.pd.plugins.action import group_info, group_validate, hosts_named
from ansible_collections.inferops.pd.plugins.module_utils._core.base.values import blank
from ansible_collections.inferops.pd.plugins.module_utils._core.spec.selector import parse
from ansible_collections.inferops.pd.plugins.module_utils._core.spec.variables import KNOWN, MEANT_EMPTY
from ansible_collections.inferops.pd.plugins.plugin_utils._action import given
from ansible_collections.inferops.pd.plugins.plugin_utils._plain import names_list, to_plain

try:
    from ansible.template import trust_as_template
except ImportError:  # before 2.19 any text is a template

    def trust_as_template(value: str) -> str:
        return value


NOTHINGS: tuple[str | None, ...] = ("", "  ", "\n", None)
NAMES = [name for name in KNOWN if name not in MEANT_EMPTY]
# What expressions of roles name beside the variables of users.
AROUND: dict[str, t.Any] = {
    "omit": "__omit__",
    "group_action": "deploy",
    "ansible_host": "10.0.0.1",
    "group_looks_by": "look",
}
# Keys whose text is an expression without braces.
BARE = ("when", "failed_when", "changed_when", "until")


def expressions() -> t.Iterator[tuple[str, str]]:
    """(place, template) of every text of playbooks and roles that reads a variable of users."""
    for file in sorted([*ROOT.glob("playbooks/*.yml"), *ROOT.glob("roles/*/*/*.yml")]):
        if file.parent.name != "meta":
            for place, text in _texts(yaml.safe_load(file.read_text()), str(file.relative_to(ROOT)), ""):
                if any(_reads(text, name) for name in KNOWN):
                    yield place, text


def _texts(value: t.Any, place: str, key: str) -> t.Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for name, one in value.items():
            yield from _texts(one, f"{place} {name}", str(name))
    elif isinstance(value, list):
        for one in value:
            yield from _texts(one, place, key)
    elif isinstance(value, str) and ("{{" in value or key in BARE):
        yield place, value if "{{" in value else "{{ " + value + " }}"


def _reads(text: str, name: str) -> bool:
    return bool(re.search(rf"\b{name}\b(?!_)", re.sub(r"'[^']*'", "", text)))


EXPRESSIONS = list(expressions())


def told(text: str, variables: t.Mapping[str, t.Any]) -> t.Any:
    """What an expression comes to for whoever reads it: an argument that says nothing is left out, and so is what is empty or false."""
    templar = Templar(DataLoader(), variables={**AROUND, **variables})
    return _left_out(to_plain(templar.template(trust_as_template(text))))


def _left_out(value: t.Any) -> t.Any:
    if isinstance(value, dict):
        value = {key: _left_out(one) for key, one in value.items() if _left_out(one) is not None}
    return None if blank(value) or value in ("__omit__", False, [], {}, "False", "omit") else value


def test_there_are_expressions() -> None:
    read = {name for _place, text in EXPRESSIONS for name in KNOWN if _reads(text, name)}
    assert {"pd_group", "pd_lost_hosts", "pd_proof", "pd_address", "pd_preflight", "pd_decode"} <= read


@pytest.mark.parametrize("nothing", NOTHINGS)
def test_playbooks_and_roles_leave_it_out(nothing: str | None) -> None:
    different = []
    for place, text in EXPRESSIONS:
        without = told(text, {})
        for name in NAMES:
            if _reads(text, name) and not (place.endswith("hosts") and name == "pd_hosts" and nothing):
                its = told(text, {name: nothing})
                if its != without:
                    different.append((place, name, without, its))
    assert different == []


def answer(of: t.Any, **variables: t.Any) -> t.Any:
    """What an action of the controller says of group a, with these variables of the play and of each host."""
    fleet = {**FLEET, "pd_groups": {"a": FLEET["pd_groups"]["a"]}, **variables}
    made = action(of.ActionModule, fleet, {"h1": facts(1, record("a", "h1")), "h2": facts(2)})
    for host in made.task_vars["hostvars"]:
        dict.__getitem__(made.task_vars["hostvars"], host).update(variables)
    return {key: value for key, value in made.act().items() if key != "now"}


# The entries themselves are what is looked at.
ASKED = [name for name in NAMES if name not in ("pd_groups", "pd_caches")]


@pytest.mark.parametrize("nothing", NOTHINGS)
def test_a_verdict_leaves_it_out(nothing: str | None) -> None:
    without = answer(group_validate)
    for name in ASKED:
        assert answer(group_validate, **{name: nothing}) == without, name


@pytest.mark.parametrize("of", [group_info, hosts_named])
@pytest.mark.parametrize("nothing", NOTHINGS)
def test_what_looks_leaves_all_of_them_out(of: t.Any, nothing: str | None) -> None:
    assert answer(of, **dict.fromkeys(ASKED, nothing)) == answer(of)


@pytest.mark.parametrize("nothing", NOTHINGS)
def test_an_argument_that_says_nothing_has_its_default(nothing: str | None) -> None:
    assert given({"fail_on": nothing, "counts": {}, "look": [], "show": False}) == {
        "counts": {},
        "look": [],
        "show": False,
    }
    # What a pipeline lost is no leave to carry out whatever it is.
    assert given({"plan_digest": nothing}) == {"plan_digest": nothing}


@pytest.mark.parametrize(
    "written", ["a, b", "a\nb", "a\r\n b\n\n", ["a", "b"], [" a", "b "], ["a,b"], ["a\nb"], ("a", "b")]
)
def test_names_are_read_as_a_survey_gives_them(written: t.Any) -> None:
    assert names_list(written) == ["a", "b"]
    selector = parse(list(written) if isinstance(written, tuple) else written, "pd_group")
    assert selector is not None
    assert selector.names == ("a", "b")


@pytest.mark.parametrize("written", [{"pd_parallel": "4"}, {"pd_patience": " 30 "}, {"pd_parallel": 4}])
def test_a_number_may_be_text(written: dict[str, t.Any]) -> None:
    assert action(group_validate.ActionModule, {**FLEET, **written}, name="a").act()["names"] == ["a"]


def test_a_task_of_no_arguments_is_one() -> None:
    assert given(TASK.args) == {}
