"""The life of a group as plans: who goes first, when a router is replaced, who drains, whose lock comes first."""

from __future__ import annotations

import pytest
from builders import Fleet, spec

FOUR = {"gpus": 4}


def wide(prefill: int = 3, decode: int = 1, **changes):
    """Prefill on h1 to h3, decode on h2, the router on h4."""
    return spec(
        prefill={"hosts": "h1:h2:h3", "replicas": prefill},
        decode={"hosts": "h2", "replicas": decode},
        router={"hosts": "h4", **changes.pop("router_", {})},
        **changes,
    )


def deployed(raw=None) -> Fleet:
    made = Fleet(h1=FOUR, h2=FOUR, h3=FOUR, h4={})
    made.deploy(raw or wide())
    return made


# -- who goes first (3.7) ---------------------------------------------------------------------------------------------

# What is wrong with which prefill (0 on h1, 1 on h2 beside decode, 2 on h3), how many are wanted, who goes.
VICTIMS = {
    "without a decode beside it, the youngest": ([], 2, [2]),
    "without a decode beside it, both": ([], 1, [0, 2]),
    "an unhealthy one before a remote one": ([1], 2, [1]),
    "an unhealthy one, then a remote one": ([1], 1, [1, 2]),
    "an unhealthy remote one before an unhealthy one": ([0, 1], 2, [0]),
    "all unhealthy": ([0, 1, 2], 2, [2]),
}


@pytest.mark.parametrize("case", VICTIMS)
def test_the_worst_goes_first(case):
    sick, wanted, gone = VICTIMS[case]
    group = deployed()
    for index in sick:
        group.live(f"demo-prefill-{index}")["ready"] = False
    made = group.plan(wide(), "scale", counts={"prefill": wanted})
    assert made.who("remove") == [f"demo-prefill-{index}" for index in gone]


def test_a_dead_member_goes_before_any_that_lives():
    group = deployed()
    group.kill("demo-prefill-1")
    assert group.plan(wide(), "scale", counts={"prefill": 2}).who("remove") == ["demo-prefill-1"]


def test_a_decode_beside_a_prefill_that_leaves_in_the_same_run_is_not_near_one():
    raw = spec(
        prefill={"hosts": "h1:h2", "replicas": 2}, decode={"hosts": "h1:h2", "replicas": 2}, router={"hosts": "h4"}
    )
    group = deployed(raw)
    group.live("demo-prefill-0")["ready"] = False  # on h1
    made = group.plan(raw, "scale", counts={"prefill": 1, "decode": 1})
    assert made.who("remove") == ["demo-decode-0", "demo-prefill-0"]
