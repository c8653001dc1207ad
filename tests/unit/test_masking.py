# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a log says of secrets: nothing."""

from __future__ import annotations

import json
import typing as t

import pytest

from ansible_collections.inferops.pd.plugins.action.members import ActionModule, sealed, secrets_coming
from ansible_collections.inferops.pd.plugins.module_utils._core.base.errors import PdError
from ansible_collections.inferops.pd.plugins.module_utils._core.base.reader import no_secret
from ansible_collections.inferops.pd.plugins.module_utils._runtimes.masking import masked

PEM = "-----BEGIN KEY-----\nMIIEowIBAAKC\nq83vEjRWeJ\n-----END KEY-----\n"


@pytest.mark.parametrize(
    ("line", "values", "told"),
    [
        ("key is hunter2-hunter2.", ["hunter2-hunter2"], "key is ********."),
        ("nothing of it", ["hunter2-hunter2"], "nothing of it"),
        # One is a part of the other, in either order; two that lie over each other.
        ("x abcd1234 y", ["abcd", "abcd1234"], "x ******** y"),
        ("x abcd1234 y", ["abcd1234", "abcd"], "x ******** y"),
        ("x abcdef y", ["abcd", "cdef"], "x ******** y"),
        ("aaaaaa", ["aaaa"], "********"),
        # A value of several lines: a log has them one by one, or escaped in one.
        ("read MIIEowIBAAKC", [PEM], "read ********"),
        (f"key={PEM!r}", [PEM], "key='********'"),
        (json.dumps({"key": 'a"b\\c-d'}), ['a"b\\c-d'], '{"key": "********"}'),
        ("GET /?key=a%2Fb%3Dc+d%20e", ["a/b=c+d e"], "GET /?key=a%2Fb%3Dc+d%20e"),
        ("GET /?key=a%2Fb%3Dc%2Bd", ["a/b=c+d"], "GET /?key=********"),
        # Too short to hide.
        ("port 8000 of 0", ["0", "", "of"], "port 8000 of 0"),
    ],
)
def test_values_of_secrets_are_in_no_line(line: str, values: list[str], told: str) -> None:
    assert masked([line], values) == [told]


def test_a_secret_that_is_a_word_of_a_result_leaves_the_result_alone() -> None:
    """As one text: Ansible takes every value that it is told to hide out of all of a result, ids of members included."""
    values = {"g-prefill-0": {"A": "0", "B": "prefill"}}
    assert json.loads(sealed(values) or "") == values
    assert sealed({}) is None


@pytest.mark.parametrize("value", [None, "", "  \n", True, False, ["s3cret"], {"s3cret": 1}])
def test_what_is_no_secret_is_told_without_it(value: object) -> None:
    assert no_secret(value)
    assert "s3cret" not in no_secret(value)


@pytest.mark.parametrize("value", ["0", "false", "None", 0, 12, "a b"])
def test_what_can_be_one(value: object) -> None:
    assert no_secret(value) == ""


def test_the_secrets_of_what_a_plan_creates_wherever_it_is() -> None:
    parts = [{"secrets": ["A", "B"]}]
    members = [
        {"id": "g-prefill-0", "role": "prefill", "parts": parts},
        {"id": "g-decode-0", "role": "decode", "parts": parts},
    ]
    plan = {"members": members, "hosts": {"h1": {"create": ["g-prefill-0"]}, "h2": {"create": []}}}
    assert secrets_coming(plan) == {("prefill", "A"), ("prefill", "B")}


class Asked:
    """What the action that carries out phases has of a task: secrets by role, or none."""

    def __init__(self, secrets: object) -> None:
        self.args = {"secrets": secrets}

    _secrets_by_role = ActionModule._secrets_by_role
    _check_secrets = ActionModule._check_secrets

    def _spec_with_secrets(self, _plan: object) -> dict[str, object]:
        return {"engine": {"secrets": {"KEY": "of the spec"}}}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"prefill": {"KEY": None}}, "is empty"),
        ({"prefill": {"KEY": True}}, "is a boolean"),
        ({}, "is empty"),
        ({"decode": {"KEY": "x"}}, "is empty"),
    ],
)
def test_secrets_of_a_task_are_looked_at_before_anything_is_locked(given: object, said: str) -> None:
    with pytest.raises(PdError, match=f"Secret KEY of role prefill: the secret {said}.*Nothing was changed"):
        Asked(given)._check_secrets(t.cast("t.Any", None), {("prefill", "KEY")})


@pytest.mark.parametrize("given", [None, {"prefill": {"KEY": "x"}}, {"prefill": {"KEY": 0}}])
def test_and_those_that_are_there_are_fine(given: object) -> None:
    Asked(given)._check_secrets(t.cast("t.Any", None), {("prefill", "KEY")})
