"""Misspelt variables: Ansible takes any name, so the collection says which it nearly knows."""

from __future__ import annotations

import re

import pytest
from support import ROOT

from ansible_collections.inferops.pd.plugins.module_utils._core.spec import variables


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("pd_lost_host", "pd_lost_hosts"),
        ("pd_prefil", "pd_prefill"),
        ("pd_kv_interfaces", "pd_kv_interface"),
        ("pd_allow_scaledown", "pd_allow_scale_down"),
        ("pd_onfailure", "pd_on_failure"),
        ("pd_grops", "pd_groups"),
    ],
)
def test_a_slip_is_told_with_what_was_meant(name: str, meant: str) -> None:
    assert variables.misspelt([name]) == [f"The variable {name} is read by nothing. Did you mean {meant}?"]


@pytest.mark.parametrize(
    "name",
    ["pd_groups_east", "pd_caches_east", "pd_validated", "pd_facts", "pd_status", "pd_host", "pdns", "ansible_host"],
)
def test_names_of_others_are_left_alone(name: str) -> None:
    assert variables.misspelt([name]) == []


def test_every_variable_of_the_docs_is_known() -> None:
    text = (ROOT / "docs/playbooks.md").read_text() + (ROOT / "docs/spec.md").read_text()
    documented = {
        n
        for line in text.splitlines()
        if line.startswith("| `pd_")
        for n in re.findall(r"`(pd_[a-z_]+)`", line.split("|")[1])
    }
    assert documented - set(variables.KNOWN) == set()
    assert set(variables.KNOWN) - set(re.findall(r"pd_[a-z_]+", text)) <= {"pd_caches"}


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("pd_gruop", "Did you mean pd_group?"),
        ("pd_lost_host", "Did you mean pd_lost_hosts?"),
        ("pd_xyz_of_mine", "docs/playbooks.md lists them"),
    ],
)
def test_what_is_given_to_one_run_by_hand_must_exist(name: str, says: str) -> None:
    (told,) = variables.unknown([name, "pd_group", "pd_groups_east", "ansible_user", "mine"])
    assert told.startswith(f"There is no variable {name}. ")
    assert says in told
