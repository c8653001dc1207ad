"""From what is seen of a member to ready, loading or failed; and when waiting for a workload is over."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ansible_collections.inferops.pd.plugins.module_utils._core.watch.readiness import (
    DEAD_AFTER,
    PORT_GRACE,
    Memory,
    Port,
    Sight,
    complete,
    decided,
    judge,
    many_loading,
)
from ansible_collections.inferops.pd.plugins.module_utils._core.watch.symptom import Diagnosis, symptom

FATAL = Diagnosis(
    "zmq.error.ZMQError: Address already in use", symptom("taken", "x", "its port is taken", "Free it.", fatal=True)
)
MILD = Diagnosis("RuntimeError: NCCL error", None)
SPELLING = Diagnosis("ValueError: no such thing", None)
SELF, NONE = Port("kv_side_channel", 40001, "self"), Port("kv_side_channel", 40001, "none")
OTHER = Port("kv_side_channel", 40001, "other", "python (pid 7, user eve)")
UP = Sight("running", pid=5, health=200, health_url="http://a:1/health", ports=(SELF,), backend="vLLM")
LOADING = replace(UP, health=None, health_why="connection refused", ports=())


@pytest.mark.parametrize(
    ("sight", "state", "words"),
    [
        (UP, "ready", ""),
        (replace(UP, ports=(replace(SELF, owner="unknown"),)), "ready", ""),
        (LOADING, "loading", "connection refused"),
        (replace(UP, health=404), "loading", "answers 404"),
        (Sight("missing", process_why="supervisord does not know it"), "failed", "supervisord does not know it"),
        (Sight("exited", process_why="exited with status 1", reason=MILD), "failed", "NCCL error"),
        (Sight("exited", process_why="was killed"), "failed", "was killed"),
        (Sight("restarting", reason=FATAL), "failed", "will not help"),
        (Sight("restarting", reason=SPELLING), "failed", "no such thing"),
        (Sight("restarting", reason=MILD), "loading", "started again"),
        (replace(LOADING, fatal=FATAL), "failed", "its port is taken"),
        (replace(LOADING, ports=(OTHER,)), "failed", "held by python (pid 7, user eve)"),
        (replace(UP, ports=(OTHER,)), "failed", "40001 (kv_side_channel)"),
        (replace(UP, ports=(NONE,)), "loading", "does not listen on 40001"),
        (replace(UP, fatal=FATAL), "ready", ""),  # it answers: what the log says is of the past
    ],
)
def test_one_look(sight: Sight, state: str, words: str) -> None:
    found = judge(sight, Memory(), 100.0)
    assert found.state == state
    assert words in found.why


def looks(sight: Sight, *moments: float, memory: Memory | None = None) -> list[str]:
    memory = memory or Memory()
    return [judge(sight, memory, moment).state for moment in moments]


def test_a_side_channel_that_stays_closed_fails_after_a_grace() -> None:
    assert looks(replace(UP, ports=(NONE,)), 0.0, PORT_GRACE - 0.1, PORT_GRACE) == ["loading", "loading", "failed"]


def test_503_of_vllm_means_that_its_engine_is_dead() -> None:
    sick = replace(UP, health=503)
    limit = DEAD_AFTER["vLLM"]
    assert looks(sick, 0.0, limit - 0.1, limit) == ["loading", "loading", "failed"]
    assert looks(replace(sick, backend="SGLang"), 0.0, 600.0) == ["loading", "loading"]


def test_503_after_200_is_believed_sooner() -> None:
    memory = Memory()
    assert looks(UP, 0.0, memory=memory) == ["ready"]
    assert looks(replace(UP, health=503, backend=None), 1.0, 4.0, memory=memory) == ["loading", "failed"]


def test_a_member_that_ends_again_and_again_is_given_up() -> None:
    memory = Memory()
    assert looks(LOADING, 0.0, memory=memory) == ["loading"]
    assert looks(replace(LOADING, pid=6, restarts=1, reason=MILD), 1.0, memory=memory) == ["loading"]
    assert looks(replace(LOADING, pid=7, restarts=2, reason=MILD), 2.0, memory=memory) == ["loading"]
    assert looks(replace(LOADING, pid=8, restarts=3, reason=MILD), 3.0, memory=memory) == ["failed"]
    assert memory.why == "it was started again 3 times within 5 minutes and has never served: RuntimeError: NCCL error"


# Restarts seen at these moments, whether it served before them, what it is after the last.
LOOPS = [
    ([1.0, 2.0, 3.0], False, "failed"),
    ([1.0, 150.0, 300.9], False, "failed"),
    ([1.0, 150.0, 301.1], False, "loading"),
    ([1.0, 150.0, 301.1, 302.0], False, "failed"),
    ([1.0, 2.0, 3.0], True, "loading"),
]


@pytest.mark.parametrize(("moments", "served", "state"), LOOPS)
def test_three_restarts_in_five_minutes_without_having_served(moments: list[float], served: bool, state: str) -> None:
    memory = Memory()
    judge(UP if served else LOADING, memory, 0.0)
    for count, moment in enumerate(moments, 1):
        found = judge(replace(LOADING, pid=5 + count, restarts=count, reason=MILD), memory, moment)
        memory = Memory.of(memory.to_plain())
    assert found.state == state


def test_restarts_before_the_wait_do_not_count() -> None:
    assert looks(replace(LOADING, restarts=9, reason=SPELLING), 0.0) == ["loading"]


def test_memory_survives_between_slices() -> None:
    memory = Memory()
    judge(replace(UP, ports=(NONE,)), memory, 0.0)
    again = Memory.of({**memory.to_plain(), "from_another_version": 1})
    assert again == memory
    assert judge(replace(UP, ports=(NONE,)), again, PORT_GRACE).state == "failed"


MEMBERS = [{"id": f"{r}{i}", "role": r} for r in ("prefill", "decode") for i in (0, 1)]


@pytest.mark.parametrize(
    ("failed", "readiness", "over"),
    [
        ([], "all", False),
        (["prefill0"], "all", True),
        (["prefill0"], "any_per_role", False),
        (["prefill0", "decode1"], "any_per_role", False),
        (["prefill0", "prefill1"], "any_per_role", True),
    ],
)
def test_when_failures_settle_the_outcome(failed: list[str], readiness: str, over: bool) -> None:
    assert bool(decided(failed, MEMBERS, readiness)) == over


@pytest.mark.parametrize(
    ("told", "readiness", "over"),
    [
        ("ready ready ready ready", "all", True),
        ("ready ready ready -", "all", False),
        ("ready ready ready ended", "all", False),
        ("ready ready ready failed", "all", False),
        ("ready ready ready -", "any_per_role", False),  # somebody still waits for it
        ("ready failed ended ready", "any_per_role", True),
        ("ready ready failed ended", "any_per_role", False),
        ("- - - -", "any_per_role", False),
    ],
)
def test_when_a_workload_is_complete(told: str, readiness: str, over: bool) -> None:
    states = {m["id"]: state for m, state in zip(MEMBERS, told.split()) if state != "-"}
    assert complete(states, MEMBERS, readiness) == over
    assert not complete(states, [], readiness)


def test_many_that_load_are_one_line() -> None:
    loading = {f"g{n}": [f"g{n}-prefill-0", f"g{n}-decode-0"] for n in range(10)}
    line = many_loading(loading, 41.3, "g0-prefill-0: Loading weights: 12%")
    assert line.startswith("20 members loading, 41 s: g0 (2), g1 (2),")
    assert line.endswith("g7 (2) and 2 more; g0-prefill-0: Loading weights: 12%")
