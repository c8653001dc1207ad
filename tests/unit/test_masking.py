# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a log says of secrets: nothing."""

from __future__ import annotations

import importlib
import json
import typing as t
from pathlib import Path
from unittest import mock

import pytest
from ansible.module_utils.common.parameters import _list_no_log_values, remove_values
from builders import Fleet, spec
from support import ROOT

from ansible_collections.inferops.pd.plugins.action import router_peers
from ansible_collections.inferops.pd.plugins.action.members import ActionModule
from ansible_collections.inferops.pd.plugins.module_utils._core.base.errors import PdError
from ansible_collections.inferops.pd.plugins.module_utils._core.base.reader import no_secret
from ansible_collections.inferops.pd.plugins.module_utils._core.course.course import Course
from ansible_collections.inferops.pd.plugins.module_utils._core.course.orders import order_of
from ansible_collections.inferops.pd.plugins.module_utils._core.course.parcel import Parcel
from ansible_collections.inferops.pd.plugins.module_utils._runtimes.masking import masked
from ansible_collections.inferops.pd.plugins.plugin_utils._plain import sealed

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


WORDS = {"prefill": "0", "decode": "1"}
MODULES = sorted(path.stem for path in Path(ROOT, "plugins", "modules").glob("[a-z]*.py"))
# The action plugin makes `sealed` of it, and hands that on.
NOT_HANDED_ON = {("members", "secrets")}


class MadeError(Exception):
    """The options that a module is made with."""


def options_of(module: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, dict[str, t.Any]]:
    code = importlib.import_module(f"ansible_collections.inferops.pd.plugins.modules.{module}")

    def made(**given: t.Any) -> t.NoReturn:
        raise MadeError(given["argument_spec"])

    monkeypatch.setattr(code, "AnsibleModule", made, raising=False)
    try:
        code.main()
    except MadeError as asked:
        return t.cast("dict[str, dict[str, t.Any]]", asked.args[0])
    except AttributeError:
        return {}  # its action plugin is all of it
    raise AssertionError(module)


def test_secrets_are_sealed_as_one_text() -> None:
    values = {"g-prefill-0": {"A": "0", "B": "prefill"}}
    assert json.loads(sealed(values) or "") == values
    assert sealed({}) is None
    assert sealed(None) is None


@pytest.mark.parametrize("module", MODULES)
def test_every_hidden_option_of_a_module_is_one_text(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ansible takes every value of a hidden option out of all of a result, ids of members included."""
    hidden = {name: one["type"] for name, one in options_of(module, monkeypatch).items() if one.get("no_log")}
    assert {name for name, kind in hidden.items() if kind not in ("str", "json")} == {
        name for of, name in NOT_HANDED_ON if of == module
    }


@pytest.mark.parametrize("keys", [WORDS, json.dumps(WORDS)])
@pytest.mark.parametrize("action", [router_peers])
def test_keys_that_are_words_of_a_result_leave_it_alone(
    action: t.Any, keys: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = action.__name__.rpartition(".")[2]
    given = {"keys": keys, "url": "http://h", "dialect": "x", "model": "m"}
    result = {"msg": "1 added, 0 of 2 prefill", "confirmed": ["http://10.0.0.1:8000"], "keys": {}}
    seen = run_action(action, given, result)
    assert json.loads(seen["keys"]) == WORDS
    spec = options_of(module, monkeypatch)
    hidden = _list_no_log_values(spec, seen)
    assert hidden
    assert remove_values(result, hidden) == result


def run_action(action: t.Any, given: t.Mapping[str, t.Any], result: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """What an action hands its module."""
    seen: dict[str, t.Any] = {}

    class Own(action.ActionModule):  # type: ignore[misc]
        def _execute_module(self, **asked: t.Any) -> dict[str, t.Any]:
            seen.update(asked["module_args"])
            return dict(result)

    task = mock.Mock(args=dict(given), async_val=0, check_mode=False, diff=False, environment=[])
    shell = mock.Mock(tmpdir="/tmp")
    own = Own(task, mock.Mock(_shell=shell), mock.Mock(), mock.Mock(), mock.Mock(), mock.Mock())
    own.run(None, {})
    return seen


@pytest.mark.parametrize("value", [None, "", "  \n", True, False, ["s3cret"], {"s3cret": 1}])
def test_what_is_no_secret_is_told_without_it(value: object) -> None:
    assert no_secret(value)
    assert "s3cret" not in no_secret(value)


@pytest.mark.parametrize("value", ["0", "false", "None", 0, 12, "a b"])
def test_what_can_be_one(value: object) -> None:
    assert no_secret(value) == ""


def secrets_of_g(given: object) -> t.Any:
    """The secrets of the members that a host creates, with those that a task has given, else with those of the spec."""
    own = t.cast("t.Any", object.__new__(ActionModule))
    own.args = {"secrets": given}
    own.spec_of = lambda _name, _kind: {"engine": {"secrets": {"KEY": "of the spec"}}}
    fleet = Fleet(h1={"gpus": 2})
    made = fleet.plan(spec(engine={"secrets": {"KEY": "x"}}, decode={"hosts": "h1"})).value
    parcel = Parcel.of_plan(made, "h1")
    order = order_of(parcel, "lock", Course(made.group), False)
    return own._secrets(parcel, order)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"prefill": {"KEY": None}, "decode": {"KEY": "x"}}, "is empty"),
        ({"prefill": {"KEY": True}, "decode": {"KEY": "x"}}, "is a boolean"),
        ({"decode": {"KEY": "x"}}, "is empty"),
    ],
)
def test_secrets_of_a_task_are_looked_at_before_anything_is_locked(given: object, said: str) -> None:
    with pytest.raises(PdError, match=f"Secret KEY of role prefill: the secret {said}.*Nothing was changed"):
        secrets_of_g({"demo": given})


@pytest.mark.parametrize(
    "given", [None, {"demo": {r: {"KEY": v} for r, v in (("prefill", "x"), ("decode", 0), ("router", "y"))}}]
)
def test_and_those_that_are_there_are_fine(given: object) -> None:
    wanted = "of the spec" if given is None else "x"
    assert secrets_of_g(given)["demo-prefill-0"] == {"KEY": wanted}
