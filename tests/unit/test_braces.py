# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Braces that nobody evaluated, in whatever a user wrote: entries, and variables that are given at a launch. (Of groups:
tests/unit/cases/written.yml.)"""

from __future__ import annotations

import typing as t
from types import SimpleNamespace

import pytest
from ansible.errors import AnsibleActionFail
from plays import FLEET, TASK, action, group, service

from ansible_collections.inferops.pd.plugins.action import (
    cache_validate,
    convert,
    group_info,
    group_validate,
    hosts_evacuated,
    hosts_named,
    rollout_validate,
)
from ansible_collections.inferops.pd.plugins.module_utils._core.base import braces
from ansible_collections.inferops.pd.plugins.module_utils._core.base.errors import PdError
from ansible_collections.inferops.pd.plugins.module_utils._core.spec.variables import KNOWN

Vars = dict[str, t.Any]
LEFT = "{{ hidden_thing }}"
ENTRIES = ("pd_groups", "pd_caches", "pd_rollouts", "pd_endpoint_hooks")


def launched(of: t.Any, **given: t.Any) -> t.Any:
    """An action in a run to which these variables are given by `-e`, or by a job of AWX."""
    made = action(of.ActionModule, {**FLEET, **given})
    manager = SimpleNamespace(extra_vars=given)
    made._task = SimpleNamespace(**{**vars(TASK), "get_variable_manager": lambda: manager})
    return made


@pytest.mark.parametrize("name", [name for name in KNOWN if name not in ENTRIES])
@pytest.mark.parametrize("value", [LEFT, ["h1", LEFT], {"a": LEFT}, {LEFT: 1}])
def test_a_variable_that_is_given_at_a_launch(name: str, value: t.Any) -> None:
    with pytest.raises(PdError, match=f"^{name}.* braces.* Write the value") as error:
        launched(group_validate, **{name: value}).act()
    assert "hidden_thing" not in str(error.value)


BEGINNINGS = (group_validate, group_info, hosts_named, hosts_evacuated, rollout_validate, cache_validate, convert)


@pytest.mark.parametrize("of", BEGINNINGS)
def test_whatever_a_run_begins_with_sees_it(of: t.Any) -> None:
    with pytest.raises(PdError, match="pd_why: the double braces in it were not evaluated"):
        launched(of, pd_why=LEFT).act()


def test_several_are_told_at_once_with_how_to_go_on() -> None:
    with pytest.raises(PdError) as error:
        launched(group_validate, pd_gruop="a", pd_why=LEFT, pd_lost_hosts=[LEFT]).act()
    told = str(error.value)
    assert told.startswith("There is no variable pd_gruop.")
    assert "pd_lost_hosts[0]: the double" in told
    assert "pd_why: the double" in told
    assert told.count(braces.WAY_OUT) == 1


def told_of(of: t.Any, variables: Vars, **args: t.Any) -> str:
    made, shown = action(of.ActionModule, {**FLEET, **variables}, **args), []
    made._display = SimpleNamespace(display=lambda text, *_a, **_k: shown.append(text))
    with pytest.raises(AnsibleActionFail):
        made.act()
    return "\n".join(shown)


@pytest.mark.parametrize(
    ("of", "variables", "place"),
    [
        (cache_validate, {"pd_caches": {"store": service("h5", model=LEFT)}}, "pd_caches.store.model"),
        (group_validate, {"pd_groups": {"a": group("h1", "h2", model=LEFT)}}, "model"),
        (
            group_validate,
            {
                "pd_groups": {"a": group("h1", "h2", endpoint={"hooks": ["edge"]})},
                "pd_endpoint_hooks": {"edge": {"kind": "file_sd", "hosts": "h1", "file": LEFT}},
            },
            "pd_endpoint_hooks.edge.file",
        ),
        (
            rollout_validate,
            {"pd_rollouts": {"week": {"groups": LEFT, "gate": {"command": ["ask", "{{ group }}"]}}}},
            "pd_rollouts.week.groups",
        ),
    ],
)
def test_an_entry(of: t.Any, variables: Vars, place: str) -> None:
    told = told_of(of, variables)
    assert f"ERROR unevaluated: {place}: the double braces in it were not evaluated." in told
    assert "gate" not in told


def test_a_long_text_of_beginnings_is_read_in_a_moment() -> None:
    for text in ("{{" * 200_000, "{{ " * 200_000 + "}}", "{{." * 200_000 + "}}", "{%" * 200_000):
        braces.has(text)
