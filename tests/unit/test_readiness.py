"""From what is seen of a member to ready, loading or failed; and when a whole wait is over."""

from __future__ import annotations

import typing as t
from dataclasses import replace
from pathlib import Path

import pytest

from ansible_collections.inferops.pd.plugins.module_utils._core.watch.readiness import (
    DEAD_AFTER,
    PORT_GRACE,
    Memory,
    Port,
    Sight,
    decided,
    judge,
)
from ansible_collections.inferops.pd.plugins.module_utils._core.watch.symptom import Diagnosis, symptom
from ansible_collections.inferops.pd.plugins.plugin_utils.waiting import SAY_EVERY, Notes, Waiter

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


class Host:
    """A host that answers slices from a script; a slice takes as long as it is asked to."""

    def __init__(self, *answers: dict[str, t.Any]) -> None:
        self.answers = list(answers)
        self.now = 0.0
        self.asked: list[list[str]] = []
        self.said: list[str] = []

    def __call__(self, members: list[dict[str, t.Any]], seconds: int, memory: dict[str, t.Any]) -> dict[str, t.Any]:
        self.asked.append([m["id"] for m in members])
        self.now += seconds
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if "failed" in answer:
            return answer
        seen = {m["id"]: {"why": "", "log_line": "", "state": answer.get(m["id"], "loading")} for m in members}
        return {"members": seen, "memory": {"count": memory.get("count", 0) + 1}}

    def wait(
        self, notes: Notes, members: list[dict[str, t.Any]], readiness: str = "any_per_role", limit: float = 60
    ) -> dict[str, t.Any]:
        waiter = Waiter(members, MEMBERS, self, self.said.append, notes, limit, readiness, 10, lambda: self.now)
        return waiter.run()


@pytest.fixture
def notes(tmp_path: Path) -> Notes:
    return Notes(str(tmp_path / "notes"))


def test_a_wait_ends_when_all_are_ready(notes: Notes) -> None:
    host = Host({"prefill0": "ready"}, {"prefill0": "ready", "decode0": "ready"})
    result = host.wait(notes, [MEMBERS[0], MEMBERS[2]])
    assert result["ready"] == ["decode0", "prefill0"]
    assert result["not_ready"] == {}
    assert result["elapsed"] == 8
    assert notes.read() == []


def test_a_wait_ends_at_the_limit_and_says_what_was_last_seen(notes: Notes) -> None:
    host = Host({"prefill0": "ready"})
    result = host.wait(notes, [MEMBERS[0], MEMBERS[2]])
    assert "not ready within 60 s" in result["not_ready"]["decode0"]
    assert result["members"]["decode0"]["outcome"] == "late"
    assert len([line for line in host.said if "decode0" in line]) == int(60 // SAY_EVERY[0])


def test_a_failed_member_is_not_asked_for_again_and_the_others_are_waited_for(notes: Notes) -> None:
    host = Host({"decode0": "failed"}, {}, {"prefill0": "ready"})
    result = host.wait(notes, [MEMBERS[0], MEMBERS[2]])
    assert host.asked == [["prefill0", "decode0"], ["prefill0"], ["prefill0"]]
    assert result["ready"] == ["prefill0"]
    assert result["members"]["decode0"]["outcome"] == "failed"


def test_of_a_failure_without_a_word_in_its_log_the_last_line_is_told(notes: Notes) -> None:
    ended = {"state": "failed", "why": "its process has ended", "log_line": "Loading weights: 12%"}
    known = {
        **ended,
        "symptom": {"name": "unrecognised", "line": "FooError: x"},
        "why": "its process has ended: FooError: x",
    }

    def ask(members: t.Any, memory: t.Any, seconds: float) -> dict[str, t.Any]:
        return {"members": {"prefill0": dict(ended), "decode0": dict(known)}, "memory": {}}

    result = Waiter([MEMBERS[0], MEMBERS[2]], MEMBERS, ask, lambda _line: None, notes, 60, "all", 10, lambda: 0.0).run()
    assert result["not_ready"]["prefill0"] == "its process has ended; its log ends with: Loading weights: 12%"
    assert result["not_ready"]["decode0"] == known["why"]


def test_hosts_end_their_wait_when_another_host_has_settled_it(notes: Notes) -> None:
    one = Host({"prefill0": "failed"})
    one.wait(notes, [MEMBERS[0]])
    two = Host({})
    assert two.wait(notes, [MEMBERS[2]], limit=20)["members"]["decode0"]["outcome"] == "late"
    Host({"prefill1": "failed"}).wait(notes, [MEMBERS[1]])
    three = Host({"decode1": "ready"})
    result = three.wait(notes, [MEMBERS[2], MEMBERS[3]])
    assert len(three.asked) == 1  # it looks once, so that what is ready is known
    assert result["ready"] == ["decode1"]
    assert "prefill0, prefill1 failed" in result["not_ready"]["decode0"]
    assert result["members"]["decode0"]["outcome"] == "stopped"


def test_a_module_that_fails_is_the_reason(notes: Notes) -> None:
    result = Host({"failed": True, "msg": "no python"}).wait(notes, [MEMBERS[0]])
    assert "no python" in result["not_ready"]["prefill0"]
    assert result["members"]["prefill0"]["outcome"] == "unknown"
