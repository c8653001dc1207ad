# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The orders of one call: side by side, each failing alone, over a real state directory."""

from __future__ import annotations

import itertools
import threading
import time
import typing as t
from http.server import ThreadingHTTPServer

import pytest
from integration import support_runtime as support
from standin import router as standin

from ansible_collections.inferops.pd.plugins.module_utils._host import orders
from ansible_collections.inferops.pd.plugins.module_utils._host.members import World
from ansible_collections.inferops.pd.plugins.module_utils._host.orders import Call, Host, Looks, run_orders
from ansible_collections.inferops.pd.plugins.module_utils._runtimes import state as state_module
from ansible_collections.inferops.pd.plugins.module_utils._runtimes.batch import one_by_one
from ansible_collections.inferops.pd.plugins.module_utils._runtimes.errors import HostError
from ansible_collections.inferops.pd.plugins.module_utils._runtimes.protocol import Created, Wanted
from ansible_collections.inferops.pd.plugins.module_utils._runtimes.state import State

ME, OTHER = support.ME, support.OTHER
# Far more than anything here takes: who waits so long has been held up.
LONG = 60


class Runtime:
    """A runtime whose members are their labels. `bad` are errors by member, `gone` is set by what was removed."""

    name = "supervisor"

    def __init__(self, state: State) -> None:
        self.state = state
        self.bad: dict[str, Exception] = {}
        self.gone: dict[str, threading.Event] = {}
        self.looks = 0

    def members(self) -> list[t.Any]:
        self.looks += 1
        return [{"label": label, "state": "running"} for label in self.state.labels()]

    def create(self, batch: t.Sequence[Wanted], admit: t.Any) -> list[Created]:
        return one_by_one(batch, admit, self._create_one)

    def _create_one(self, wanted: Wanted, label: dict[str, t.Any]) -> list[str]:
        if wanted.member.id in self.bad:
            raise self.bad[wanted.member.id]
        self.state.write_label(label)
        return ["the disk is slow"]

    def remove(self, group: str, member: str, grace: float) -> None:
        if member in self.bad:
            raise self.bad[member]
        with self.state.lock():
            self.state.delete_member(group, member)
        self.gone.setdefault(member, threading.Event()).set()

    def logs(self, group: str, member: str, lines: int) -> list[str]:
        return []

    def sweep(self) -> None: ...


class Place:
    """A host with some groups, a member each."""

    def __init__(self, root: str, drain: t.Callable[..., str] = lambda *_: "") -> None:
        self.state = State(root)
        self.runtime = Runtime(self.state)
        world = World(busy=lambda ports: {}, drain=drain)
        self.host = Host(self.state, lambda name: t.cast("t.Any", self.runtime), world=world)
        self.members: dict[str, dict[str, t.Any]] = {}

    def order(self, group: str, phase: str, **more: t.Any) -> dict[str, t.Any]:
        number = ord(group[0])
        member = support.member(group, "prefill", 0, 20000 + number, drain=30, **more.pop("member", {}))
        if phase == "start":
            plan = support.slice_of(group, [member])
        else:
            plan = support.slice_of(group, [], absent=[member["id"]], create=[], action="scale")
        return {"plan": plan, "phase": phase, **more}

    def do(self, *asked: dict[str, t.Any], **call: t.Any) -> dict[str, dict[str, t.Any]]:
        return run_orders(asked, Call(holder=ME, **call), self.host)

    def start(self, *groups: str) -> None:
        results = self.do(*(self.order(group, "start") for group in groups))
        assert {group: result["created"] for group, result in results.items()} == {
            g: [f"{g}-prefill-0"] for g in groups
        }


@pytest.fixture
def place(tmp_path: t.Any) -> Place:
    return Place(str(tmp_path / "state"))


# -- side by side ----------------------------------------------------------------------------------------------------------------------


def test_a_group_stops_while_another_one_drains(tmp_path):
    """The one that drains is asked first, and goes on until the other is gone."""
    gone = threading.Event()

    def drain(label: t.Any, seconds: float, upstream: t.Any) -> str:
        return "" if label["group"] == "b" or gone.wait(LONG) else "the other group was not stopped meanwhile"

    place = Place(str(tmp_path / "state"), drain)
    place.start("a", "b")
    place.runtime.gone["b-prefill-0"] = gone
    results = place.do(place.order("a", "stop"), place.order("b", "stop"))
    assert {group: (one["removed"], one["drained"]) for group, one in results.items()} == {
        "a": (["a-prefill-0"], {}),
        "b": (["b-prefill-0"], {}),
    }
    assert list(results) == ["a", "b"]


def test_a_workload_alone_has_a_result_of_the_same_shape(place):
    place.start("a", "b")
    both = place.do(place.order("a", "stop"), place.order("b", "stop"))
    place.start("a")
    (one,) = place.do(place.order("a", "stop")).values()
    assert {**one, "lock": None} == {**both["a"], "lock": None}
    assert (one["ok"], one["changed"], one["phase"], one["group"]) == (True, True, "stop", "a")


def test_each_is_at_a_phase_of_its_own(place):
    place.start("a", "b")
    results = place.do(place.order("a", "unlock"), place.order("b", "stop"))
    assert (results["a"]["kept"], results["b"]["removed"]) == (["a-prefill-0"], ["b-prefill-0"])
    assert place.state.group_lock("a") is None
    assert place.state.group_lock("b") is not None


def test_more_orders_than_threads(place):
    names = [chr(ord("a") + number) for number in range(orders.SIDE_BY_SIDE + 4)]
    place.start(*names)
    assert {label["group"] for label in place.state.labels()} == set(names)


# -- each fails alone ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (KeyError("x"), "Phase stop of group a fell over: KeyError: 'x'"),
        (OSError(28, "No space left on device", "/state"), "Phase stop of group a: No space left on device: /state"),
        (RuntimeError("a\x1b[2J\nb"), "Phase stop of group a fell over: RuntimeError: a b"),
    ],
)
def test_one_that_raises_is_its_own(place, error, said):
    place.start("a", "b")
    place.runtime.bad["a-prefill-0"] = error
    results = place.do(place.order("a", "stop"), place.order("b", "stop"))
    assert results["a"] == {
        "changed": False,
        "failed": True,
        "ok": False,
        "phase": "stop",
        "group": "a",
        "msg": said,
        "warnings": [],
    }
    assert (results["b"]["ok"], results["b"]["removed"]) == (True, ["b-prefill-0"])


def test_one_whose_lock_another_run_has_is_refused_alone(place):
    place.start("a", "b")
    place.state.write_lock("a", {**OTHER, "since": 0.0, "expires": time.time() + 1000})
    results = place.do(place.order("a", "stop"), place.order("b", "stop"))
    assert results["a"]["msg"].startswith(
        "Phase stop of group a: Locking group a: other@test pid 2 is changing it since"
    )
    assert (results["a"]["failed"], results["b"]["removed"]) == (True, ["b-prefill-0"])
    assert {label["group"] for label in place.state.labels()} == {"a"}


def test_a_member_that_cannot_be_made_fails_its_workload_alone(place):
    place.runtime.bad["a-prefill-0"] = HostError("Starting it", "the engine said hunter2-hunter2", "", "a-prefill-0")
    secrets = {"a": {"a-prefill-0": {"TOKEN": "hunter2-hunter2"}}}
    results = place.do(place.order("a", "start"), place.order("b", "start"), secrets=secrets)
    assert (results["a"]["ok"], results["a"]["failed"], results["b"]["ok"]) == (False, True, True)
    assert "the engine said ********" in results["a"]["failed_members"]["a-prefill-0"]
    assert results["a"]["msg"] == f"Phase start of group a on h1: {results['a']['failed_members']['a-prefill-0']}"


def test_secrets_of_a_workload_go_to_it_and_hide_its_own_words_alone(place):
    place.runtime.bad["a-prefill-0"] = ValueError("hunter2-hunter2 and correct-horse")
    secrets = {group: {f"{group}-prefill-0": {"TOKEN": value}} for group, value in
               (("a", "hunter2-hunter2"), ("b", "correct-horse"))}  # fmt: skip
    results = place.do(place.order("a", "start"), place.order("b", "start"), secrets=secrets)
    assert results["a"]["msg"] == "Phase start of group a fell over: ValueError: ******** and correct-horse"


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        ({}, "Phase None of group unknown: The plan cannot be read: it has no 'group'."),
        ({"plan": "x", "phase": "stop"}, "Phase stop of group unknown: The plan cannot be read:"),
        ({"plan": {"group": "a"}}, "Phase None of group a: There is no such phase."),
        ({"plan": {"group": "a"}, "phase": "dance"}, "Phase dance of group a: There is no such phase."),
        (
            {"plan": {"group": "a"}, "phase": "stop"},
            "Phase stop of group a: Group a: what one host carries out is told of 0 of them",
        ),
        ({"plan": {"group": "a"}, "phase": "endpoint", "registered": "perhaps"}, "Phase endpoint of group a: An order"),
    ],
)
def test_what_is_no_order_is_told(place, raw, said):
    (result,) = place.do(raw).values()
    assert result["failed"] is True
    assert result["msg"].startswith(said)


def test_a_workload_has_one_order(place):
    (result,) = place.do(place.order("a", "start"), place.order("a", "stop")).values()
    assert "it has two orders in one call" in result["msg"]
    assert place.state.labels() == []


# -- what they share -------------------------------------------------------------------------------------------------------------------


def test_two_stores_of_one_process_exclude_each_other_as_those_of_two_do(tmp_path):
    one, other = State(str(tmp_path / "state")), State(str(tmp_path / "state"))
    with one.lock():
        with pytest.raises(HostError, match="another run changes this host"), other.lock(wait=0):
            pass
        with one.lock():
            pass
    with other.lock(wait=0):
        pass


def test_threads_wait_for_another_process_at_the_same_time(tmp_path, monkeypatch):
    """Each waits a minute: one after the other that would be a quarter of an hour. The clock is the test's."""
    mine, others = State(str(tmp_path / "state")), State(str(tmp_path / "state"))
    waits, asked = threading.Event(), threading.Event()
    now = [0.0]

    class Time:
        strftime = staticmethod(time.strftime)

        @staticmethod
        def monotonic() -> float:
            if threading.current_thread().name == "second":
                asked.set()
            return now[0]

        @staticmethod
        def sleep(seconds: float) -> None:
            waits.set()
            assert asked.wait(LONG)
            now[0] += seconds

    said: list[str] = []

    def want() -> None:
        with pytest.raises(HostError) as told, mine.lock(wait=60):
            pass
        said.append(str(told.value))

    with others.lock():
        monkeypatch.setattr(state_module, "time", Time)
        first, second = (threading.Thread(target=want, name=name) for name in ("first", "second"))
        first.start()
        assert waits.wait(LONG)
        second.start()
        first.join(LONG)
        second.join(LONG)
        monkeypatch.undo()
    assert [text.partition(" for ")[0] for text in said] == ["Waiting 60 s"] * 2
    assert now[0] < 61


def test_who_asks_during_a_look_shares_the_next_one(monkeypatch):
    go, asked = threading.Event(), threading.Semaphore(0)
    looks, times = Looks(), itertools.count()
    taken: list[str] = []

    class Time:
        @staticmethod
        def monotonic() -> float:
            now = next(times)
            asked.release()
            return now

    class Slow:
        name = "docker"

        def members(self) -> list[t.Any]:
            assert go.wait(LONG)
            taken.append(threading.current_thread().name)
            return []

    monkeypatch.setattr(orders, "time", Time)
    threads = [threading.Thread(target=lambda: looks.at(t.cast("t.Any", Slow()))) for _number in range(5)]

    def until(times: int) -> None:
        assert all(asked.acquire(timeout=LONG) for _time in range(times))

    threads[0].start()
    until(2)  # it has asked, and begun to look
    for thread in threads[1:]:
        thread.start()
    until(4)
    go.set()
    for thread in threads:
        thread.join(LONG)
    assert len(taken) == 2


def test_a_look_that_fails_fails_for_who_asked_and_not_for_who_comes():
    looks = Looks()
    errors: list[Exception] = [HostError("Listing", "it hangs", "")]

    class Broken:
        name = "docker"

        def members(self) -> list[t.Any]:
            if errors:
                raise errors.pop()
            return []

    with pytest.raises(HostError, match="it hangs"):
        looks.at(t.cast("t.Any", Broken()))
    assert looks.at(t.cast("t.Any", Broken())) == []


# -- leaving the router ----------------------------------------------------------------------------------------------------------------


@pytest.fixture
def registry() -> t.Iterator[t.Any]:
    class Own(standin.Handler):
        registry = standin.Registry(True)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Own)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    for name in ("prefill-0", "prefill-1"):
        Own.registry.put(f"http://{name}:1", "prefill", "m")
    yield server, Own.registry.workers
    server.shutdown()
    server.server_close()


def leaving(place: Place, server: t.Any) -> dict[str, t.Any]:
    url = f"http://127.0.0.1:{server.server_port}"
    peers = {"url": url, "dialect": "vllm-router", "model": "m", "remove": ["http://prefill-0:1"], "only_remove": True}
    return place.order("a", "leave", peers=peers)


def test_members_leave_the_router(place, registry):
    server, workers = registry
    result = place.do(leaving(place, server))["a"]
    assert (result["ok"], result["changed"], result["peers"]["removed"]) == (True, True, ["http://prefill-0:1"])
    assert list(workers) == ["http://prefill-1:1"]
    again = place.do(leaving(place, server))["a"]
    assert (again["ok"], again["changed"]) == (True, False)


def test_a_check_run_tells_who_would_leave(place, registry):
    server, workers = registry
    result = place.do(leaving(place, server), check=True)["a"]
    assert (result["ok"], result["changed"], result["peers"]["removed"]) == (True, True, ["http://prefill-0:1"])
    assert len(workers) == 2
    assert place.state.group_lock("a") is None


def test_nobody_leaves_while_another_run_has_the_lock(place, registry):
    server, workers = registry
    place.state.write_lock("a", {**OTHER, "since": 0.0, "expires": time.time() + 1000})
    result = place.do(leaving(place, server))["a"]
    assert result["msg"].startswith("Phase leave of group a: Locking group a: other@test pid 2")
    assert len(workers) == 2


def test_the_lock_is_looked_at_right_before_each_change(place, registry, monkeypatch):
    """Another run may take over while the registry is read."""
    server, workers = registry
    from ansible_collections.inferops.pd.plugins.module_utils._host import service

    def overtaken(*given: t.Any) -> dict[str, t.Any]:
        place.state.write_lock("a", {**OTHER, "since": 0.0, "expires": time.time() + 1000})
        return register(*given)

    register = service.register
    monkeypatch.setattr(service, "register", overtaken)
    result = place.do(leaving(place, server))["a"]
    assert (result["ok"], result["failed"]) == (False, True)
    assert "Taking members out of the router at http://127.0.0.1" in result["msg"]
    assert "this run does not hold the group's lock any more: other@test pid 2" in result["msg"]
    assert len(workers) == 2


def test_a_router_that_does_not_answer_is_told(place, registry):
    server, _workers = registry
    order = leaving(place, server)
    order["peers"] |= {"url": "http://127.0.0.1:1", "timeout": 0}
    result = place.do(order, place.order("b", "leave"))
    assert result["a"]["failed"] is True
    assert result["a"]["msg"].startswith("Taking members out of the router at http://127.0.0.1:1: ")
    assert result["b"]["ok"] is True
