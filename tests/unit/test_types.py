# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What types cannot say of the code, over its syntax trees: a part is looked up by what is asked, the plan's values are typed, and a
function fits on a page."""

from __future__ import annotations

import ast
import copy
import functools
import re
import typing as t

import pytest
from builders import Fleet, spec
from support import ROOT

from ansible_collections.inferops.pd.plugins.module_utils._core.base.errors import PdError
from ansible_collections.inferops.pd.plugins.module_utils._core.plan.value import Plan
from ansible_collections.inferops.pd.plugins.module_utils._core.work.share import Share

PLUGINS = ROOT / "plugins"
TYPED = ("_core/plan/", "_core/work/")
# Where a value becomes one of JSON, or is made of one.
BORDERS = ("to_plain", "from_plain")
LONGEST = 60
Function = t.Union[ast.FunctionDef, ast.AsyncFunctionDef]


@functools.cache
def trees() -> dict[str, ast.AST]:
    return {str(p.relative_to(PLUGINS)): ast.parse(p.read_text(encoding="utf-8")) for p in PLUGINS.rglob("*.py")}


def functions(tree: ast.AST) -> list[Function]:
    return [node for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]


def takes_first_part(node: ast.AST) -> bool:
    """x["parts"][0], x.parts[0]: also of what is asked for at once, x.get("parts")[0]."""
    if not (isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant) and node.slice.value == 0):
        return False
    of = node.value
    if isinstance(of, ast.Call):
        return any(isinstance(word, ast.Constant) and word.value == "parts" for word in of.args)
    if isinstance(of, ast.Subscript):
        return isinstance(of.slice, ast.Constant) and of.slice.value == "parts"
    return isinstance(of, ast.Attribute) and of.attr == "parts"


def says_any(annotation: ast.AST | None) -> bool:
    """Also one that is written as text. A name of its own for what may be anything (Plain, Values, Draft) says what it is."""
    return any(
        (isinstance(node, ast.Attribute) and node.attr == "Any")
        or (isinstance(node, ast.Name) and node.id == "Any")
        or (isinstance(node, ast.Constant) and re.search(r"\bAny\b", str(node.value)) is not None)
        for node in (ast.walk(annotation) if annotation else ())
    )


def annotations(function: Function) -> list[ast.AST | None]:
    given = function.args
    every = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
    return [*(one.annotation for one in every if one), function.returns]


def test_no_part_is_taken_because_it_is_the_first():
    found = [
        f"{name}:{node.lineno}"
        for name, tree in trees().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Subscript) and takes_first_part(node)
    ]
    assert found == [], "ask for member.leader, member.at(place) or member.through(host)"


def test_the_plan_and_its_members_are_typed():
    rooms = {name: tree for name, tree in trees().items() if any(room in name for room in TYPED)}
    assert rooms
    found = [
        f"{name}:{function.lineno} {function.name}"
        for name, tree in rooms.items()
        for function in functions(tree)
        if function.name not in BORDERS and any(map(says_any, annotations(function)))
    ]
    assert found == []


def test_a_function_fits_on_a_page():
    long = {
        f"{name}:{function.lineno} {function.name}": lines
        for name, tree in trees().items()
        for function in functions(tree)
        if (lines := (function.end_lineno or 0) - function.lineno + 1) > LONGEST
    }
    assert long == {}


@pytest.mark.parametrize(
    ("code", "bad"),
    [
        ('m["parts"][0]', True),
        ("m.parts[0]", True),
        ('m.get("parts")[0]', True),
        ('m["parts"][1:]', False),
        ("m.argv[0]", False),
    ],
)
def test_a_first_part_is_seen(code, bad):
    assert takes_first_part(ast.parse(code, mode="eval").body) is bad


@pytest.mark.parametrize(
    ("text", "bad"), [("t.Any", True), ("dict[str, t.Any]", True), ('"list[Any]"', True), ("Plain | None", False)]
)
def test_an_any_is_seen(text, bad):
    (function,) = functions(ast.parse(f"def f(x: {text}): ..."))
    assert any(map(says_any, annotations(function))) is bad


# -- at the borders ----------------------------------------------------------------------------------------------------------------


def _plan() -> dict[str, t.Any]:
    return Fleet(h1={"gpus": 4}, h2={"gpus": 4}).plan(spec(decode={"hosts": "h2"})).plan


def test_a_plan_is_the_same_after_it_was_plain():
    plan = _plan()
    assert Plan.from_plain(plan).to_plain() == {**plan}
    for host in ("h1", "h2"):
        share = Plan.from_plain(plan, host).share(host)
        assert share is not None
        assert Share.from_plain(share.to_plain()) == share
        assert {m.id for m in share.members} == {m["id"] for m in plan["members"] if m["parts"][0]["host"] == host}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("group", None),
        ("group", ["g"]),
        ("members", 3),
        ("members.0", "x"),
        ("members.0.id", {"a": 1}),
        ("members.0.parts", 1),
        ("members.0.parts.0.host", []),
        ("hosts", [1]),
        ("hosts.h1", None),
        ("hosts.h1.create", [{}]),
        ("desired.decode", {"a": 1}),
        ("desired", 4),
        ("cache", True),
        ("unknown", [[]]),
        ("hosts.h1.present", "demo-prefill-0"),
        ("router", "none"),
        ("router.member.id", ["x"]),
    ],
)
def test_a_plan_of_another_shape_is_refused_in_a_sentence(path, value):
    plan = copy.deepcopy(_plan())
    at: t.Any = plan
    *way, last = [int(key) if key.isdigit() else key for key in path.split(".")]
    for key in way:
        at = at[key]
    at[last] = value
    with pytest.raises(
        PdError, match=r"^The plan cannot be read: .* Give it the plan that group_plan returned, whole\.$"
    ):
        Plan.from_plain(plan)
