"""Judging what was measured: did the KV cache move, with other traffic or without, and is the answer right."""

from __future__ import annotations

import pytest
from builders import Fleet, spec
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.inferops.pd.plugins.module_utils._core.base.errors import PdError
from ansible_collections.inferops.pd.plugins.module_utils._core.proof.asked import Asked, Counters
from ansible_collections.inferops.pd.plugins.module_utils._core.proof.evidence import (
    LONG_CHARACTERS,
    Generated,
    Growth,
    growth,
    likeness,
    long_prompt,
    pairs,
    table,
    transfer,
)
from ansible_collections.inferops.pd.plugins.module_utils._core.proof.handoff import handoff_of


@pytest.mark.parametrize(
    ("grown", "cached", "good", "clear"),
    [
        (Growth(200, 0, 200), None, True, True),
        (Growth(199, 1, 200), None, True, True),  # the last token computed again
        (Growth(0, 200, 200), None, False, True),  # silently computed twice
        (Growth(100, 100, 200), None, False, True),
        (Growth(168, 0, 200), None, False, True),  # the rest came from decode's own cache: it was not moved
        (Growth(900, 0, 900), None, True, True),  # other requests moved theirs as well
        (Growth(200, 700, 900), None, True, True),  # just ours moved; others computed
        (Growth(199, 700, 899), None, True, True),
        (Growth(400, 700, 1100), None, False, False),  # others moved and computed: whose, nobody knows
        (Growth(400, 700, 1100), 200, True, True),  # but the answer itself says
        (Growth(400, 700, 1100), 0, False, False),
        (Growth(100, 700, 800), None, False, True),  # less than our prompt moved, whoever else was there
        (Growth(200, 0, 200, faults={"failed": 1}), None, False, False),
        (Growth(0, 200, 200, faults={"failed": 1}), None, False, True),
        (Growth(None, None, None), None, False, True),
        (Growth(-5000, 0, -5000), None, False, False),  # restarted meanwhile
        (Growth(200, None, None), None, True, True),  # an engine without the other counters
    ],
)
def test_transfer(grown: Growth, cached: int | None, good: bool, clear: bool) -> None:
    found = transfer(200, grown, cached)
    assert (found.good, found.clear) == (good, clear)
    assert bool(found.why) != found.good


def test_counts_are_ours_only_when_nobody_else_was_there() -> None:
    assert transfer(200, Growth(200, 0, 200)).quiet
    busy = transfer(200, Growth(900, 0, 900))
    assert not busy.quiet
    assert (busy.transferred, busy.recomputed) == (200, 0)
    assert transfer(200, Growth(400, 700, 1100)).recomputed is None


@given(
    ours=st.sampled_from([(200, 0), (0, 200), (120, 80)]),
    others=st.tuples(st.integers(0, 5000), st.integers(0, 5000), st.integers(0, 5000)),
)
def test_other_traffic_never_turns_a_recomputed_prompt_into_a_proof(
    ours: tuple[int, int], others: tuple[int, int, int]
) -> None:
    """But for the one coincidence that is named: others that moved just what ours did not."""
    moved, computed = ours[0] + others[0], ours[1] + others[1]
    found = transfer(200, Growth(moved, computed, moved + computed + others[2]))
    if ours[1] == 0 and others[1] == 0:
        assert found.good
    if ours[1] > 1 and not 199 <= moved <= 200:
        assert not found.good


def test_growth_counts_a_new_counter_from_zero() -> None:
    assert growth({"a": 5.0, "b": None}, {"a": 7.0, "b": 3.0, "c": None}) == {"a": 2.0, "b": 3.0, "c": None}


A = Generated("a b c", ("a", " b", " c"), ({"a": -0.1}, {" b": -0.7, " x": -0.72}, {" c": -0.1}))


@pytest.mark.parametrize(
    ("got", "exact", "equal", "good"),
    [
        (Generated("a b c"), True, True, True),
        (Generated("a x c"), True, False, False),
        (Generated("a x y", ("a", " x", " y")), False, False, True),  # nearly as likely: rounding
        (Generated("a ! !", ("a", " !", " !")), False, False, False),  # garbage
        (Generated("! ! !", ("!", " !", " !")), False, False, False),
        (Generated("something else"), False, False, True),  # no log-probabilities: a remark only
    ],
)
def test_likeness(got: Generated, exact: bool, equal: bool, good: bool) -> None:
    found = likeness(A, got, exact)
    assert (found.equal, found.good) == (equal, good)
    assert bool(found.why) == (not equal)


@given(st.integers(0, 70), st.integers(0, 70), st.integers(1, 64))
def test_pairs(prefills: int, decodes: int, most: int) -> None:
    p, d = [f"p{i}" for i in range(prefills)], [f"d{i}" for i in range(decodes)]
    chosen = pairs(p, d, most)
    assert len(chosen) == len(set(chosen))
    if prefills and decodes:
        assert {x for x, _y in chosen} == set(p)
        assert {y for _x, y in chosen} == set(d)
        assert len(chosen) <= max(most, prefills, decodes)
        if prefills * decodes <= most:
            assert len(chosen) == prefills * decodes
    else:
        assert chosen == []


def test_prompts_are_long_unlike_and_fit() -> None:
    made = [long_prompt(f"run-{i}", None) for i in range(20)]
    assert len({text[:6] + text[-20:] for text in made}) == 20
    assert all(LONG_CHARACTERS * 0.8 < len(text) <= LONG_CHARACTERS for text in made)
    assert len({len(text) for text in made}) > 10
    assert made[3] == long_prompt("run-3", None)
    assert len(long_prompt("x", 256)) < 200
    assert long_prompt("x", 10)


def test_the_table_is_readable() -> None:
    lines = table(
        [
            {"prefill": "g-prefill-0", "decode": "g-decode-0", "prompt_tokens": 212, "transferred_tokens": 212, "recomputed_tokens": 0,
             "bytes": 2 * 1024 * 1024, "seconds": 0.002, "text_equal": True, "why": ""},
            {"prefill": "g-prefill-10", "decode": "g-decode-0", "text_equal": None, "why": "no answer"},
        ]
    )  # fmt: skip
    assert lines == [
        "prefill       decode      prompt  moved  recomputed   MiB   GB/s   text",
        "g-prefill-0   g-decode-0     212    212           0  2.00  1.049  equal",
        "g-prefill-10  g-decode-0       -      -           -     -      -      -  no answer",
    ]


# -- handoffs ------------------------------------------------------------------------------------------------------------------------


def test_a_handoff_is_a_row_and_what_has_none_is_not_measured():
    sent = handoff_of("kv_transfer_params")
    assert sent.measured
    assert sent.first["max_tokens"] == 1
    assert sent.beside(16, exact_text=False) == {"ignore_eos": True, "logprobs": 5}
    assert sent.beside(16, exact_text=True) == {"ignore_eos": True}
    assert sent.beside(1, exact_text=False) == {}
    for name in (None, "bootstrap_room", "carrier_pigeon"):
        assert not handoff_of(name).measured
        assert handoff_of(name).beside(16, exact_text=False) == {}


# -- what is asked -----------------------------------------------------------------------------------------------------


def test_what_a_proof_needs_is_read_of_a_plan():
    two = spec(prefill={"hosts": "h1", "gpus": 1}, decode={"hosts": "h2", "gpus": 1}, router={"hosts": "h1"})
    made = Fleet(h1={"gpus": 1}, h2={"gpus": 1}).plan(two)
    asked = Asked.from_plain(made.plan)
    assert asked.ids == ["demo-decode-0", "demo-prefill-0"], "the router is no engine"
    assert asked.urls("decode") == {"demo-decode-0": made.members["demo-decode-0"]["url"]}
    assert (asked.group, asked.router) == ("demo", made.router["member"]["url"])
    assert asked.formation == made.plan["formation"]
    assert asked.counters.selectors["total"] == "vllm:prompt_tokens_by_source"
    assert asked.hops.measured
    assert asked.only(["demo-decode-0"]).ids == ["demo-decode-0"]


def test_counters_of_an_unknown_role_are_those_of_decode():
    assert Counters.from_plain({"role": "router"}).role == "decode"
    assert Counters.from_plain({"moved": "a", "seconds": ""}).selectors == {"moved": "a"}


@pytest.mark.parametrize(
    ("plan", "why"),
    [
        ({}, "it has no 'group'"),
        ({"group": "g"}, "it has no 'endpoint'"),
        ({"group": "g", "endpoint": {}}, "it has no 'served_model_name'"),
        ({"group": "g", "endpoint": []}, "of another kind"),
        ({"group": "g", "endpoint": {"served_model_name": "m"}, "members": [{"id": "a"}]}, "it has no 'role'"),
        ({"group": "g", "endpoint": {"served_model_name": "m"}, "members": "all"}, "of another kind"),
        ({"group": "g", "endpoint": {"served_model_name": "m"}, "proof": [1]}, "of another kind"),
    ],
)
def test_a_malformed_plan_is_told(plan, why):
    with pytest.raises(PdError, match=f"The plan cannot be read: .*{why}.* Give the value `plan` that group_plan"):
        Asked.from_plain(plan)
