"""The order of names does not depend on the order in which they come, and counts as a person does."""

from __future__ import annotations

import os
import random

import pytest
from builders import ROOT
from hypothesis import configuration, given, settings
from hypothesis import strategies as st

from ansible_collections.inferops.pd.plugins.module_utils._core.base.order import natural
from ansible_collections.inferops.pd.plugins.module_utils._core.facts.label import Label
from ansible_collections.inferops.pd.plugins.module_utils._core.facts.observed import LiveMember, Now
from ansible_collections.inferops.pd.plugins.module_utils._core.plan.scale_down import worst_first

configuration.set_hypothesis_home_dir(os.path.join(ROOT, ".build", "hypothesis"))
quick = settings(max_examples=200, deadline=None, database=None, derandomize=True)
names = st.text(alphabet="0129ahH-._²٣é", max_size=8)


@pytest.mark.parametrize(
    "ordered",
    [
        ["h2", "h10", "h10a"],
        ["h", "h0", "h01", "h1", "h2"],
        ["9", "10", "a", "a-2", "a-10"],
        ["node-a-2.rack10", "node-a-10.rack2", "node-b-1.rack1"],
        ["10.0.0.9", "10.0.0.10", "10.0.1.1"],
        ["h" + "1" * 5000, "h" + "2" * 5000],
    ],
)
def test_numbers_compare_as_numbers(ordered: list[str]) -> None:
    assert sorted(ordered[1:] + ordered[:1], key=natural) == ordered


def test_a_name_that_is_no_text_has_a_place_too() -> None:
    assert sorted(["h1", 10, 9, "8"], key=natural) == ["8", 9, 10, "h1"]


@quick
@given(st.lists(names, max_size=8), st.randoms(use_true_random=False))
def test_it_is_a_total_order_whatever_order_names_come_in(given_: list[str], chance: random.Random) -> None:
    other = list(given_)
    chance.shuffle(other)
    assert sorted(given_, key=natural) == sorted(other, key=natural)


@quick
@given(names, names, names)
def test_any_two_compare_and_only_equal_names_are_equal(a: str, b: str, c: str) -> None:
    x, y, z = natural(a), natural(b), natural(c)
    assert (x < y) + (x > y) + (x == y) == 1
    assert (x == y) == (a == b)
    assert not (x < y < z) or x < z


# -- who goes first ---------------------------------------------------------------------------------------------------


LABEL = Label(2, "g", "g-prefill-0", "prefill", 0, "r", 1, None, False, None, 0, None, {}, (), None)


def member(index: int, host: str, role: str = "prefill", ready: bool = True, tail: str = "") -> LiveMember:
    name = f"g-{role}-{index}{tail}"
    return LiveMember(name, "g", role, index, host, "r", 1, None, "running", ready, frozenset(), (), LABEL, Now())


@quick
@given(st.randoms(use_true_random=False))
def test_who_goes_first_does_not_depend_on_the_order_of_hosts_and_members(chance: random.Random) -> None:
    going = [member(i % 3, f"h{i}", ready=i != 4, tail=str(i // 3)) for i in range(7)]
    going.append(member(2, "h10"))
    peers = [member(i, f"h{i + 1}", "decode") for i in range(3)]
    told = [(m.id, m.host) for m in worst_first(going, peers)]
    chance.shuffle(going)
    chance.shuffle(peers)
    assert [(m.id, m.host) for m in worst_first(going, peers)] == told
    assert told[0] == ("g-prefill-11", "h4")
