# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One slice of a host's wait for several workloads: what fails of one takes nothing from the others, and the locks of all are renewed."""

from __future__ import annotations

import time
import typing as t
from pathlib import Path
from types import SimpleNamespace

import pytest

from ansible_collections.inferops.pd.plugins.module_utils._host import watch
from ansible_collections.inferops.pd.plugins.module_utils._host.wait import Request, wait, wait_for_all
from ansible_collections.inferops.pd.plugins.module_utils._runtimes.errors import HostError
from ansible_collections.inferops.pd.plugins.module_utils._runtimes.state import State

Plain = dict[str, t.Any]
ME = {"run": "mine", "who": "me@here pid 1", "ttl": 60.0}
DOWN = HostError("Asking the container engine", "no answer")


class Runtime:
    """A driver whose members all run. `listed` is how often it was asked; it may be broken, or hang up in a member's log."""

    def __init__(self) -> None:
        self.ids: list[str] = []
        self.listed = 0
        self.broken: Exception | None = None

    def members(self) -> list[Plain]:
        self.listed += 1
        if self.broken:
            raise self.broken
        return [{"label": {"member": name}, "state": "running", "pid": 7, "restarts": 0} for name in self.ids]

    def logs(self, group: str, member: str, _lines: int) -> list[str]:
        return [f"{member} of {group} logs"]


class Machine:
    """A host with two runtimes. `health` is what each URL answers; all else is loading."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.state = State(str(root / "state"))
        self.runtimes = {"docker": Runtime(), "systemd": Runtime()}
        self.health: dict[str, int] = {}
        monkeypatch.setattr(watch.health, "ask", lambda url, *_more: (self.health.get(url), "refused"))
        monkeypatch.setattr(watch.ports, "listening", lambda *_only: [])
        self.now, self.pauses = 0.0, 0
        clock = SimpleNamespace(monotonic=lambda: self.now, sleep=self.sleep, time=time.time)
        monkeypatch.setattr(watch, "time", clock)

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.pauses += 1

    def driver(self, name: str) -> Runtime:
        if name not in self.runtimes:
            raise HostError(f"Choosing runtime {name}", "there is none here")
        return self.runtimes[name]

    def request(self, group: str, runtime: str = "docker", members: int = 1, **given: t.Any) -> Request:
        asked = []
        for number in range(members):
            name = f"{group}-decode-{number}"
            self.runtimes.get(runtime, Runtime()).ids.append(name)
            probe = {"url": f"http://127.0.0.1/{name}", "health": "/health", "backend": "vLLM"}
            asked.append({"id": name, "role": "decode", "probe": probe, "label": {"address": "127.0.0.1"}})
        return Request(group, runtime, asked, 10, holder=ME, **given)

    def ready(self, *ids: str) -> None:
        self.health |= {f"http://127.0.0.1/{name}": 200 for name in ids}

    def take(self, *groups: str, run: str = "mine") -> None:
        for group in groups:
            self.state.write_lock(group, {"run": run, "who": "x", "since": 1.0, "expires": 2.0, "process": None})

    def expires(self, group: str) -> float:
        return float((self.state.group_lock(group) or {})["expires"])


@pytest.fixture(name="machine")
def fixture_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(tmp_path, monkeypatch)


def states(found: t.Any) -> dict[str, str]:
    return {name: seen["state"] for name, seen in found["members"].items()}


def test_all_are_looked_at_in_one_slice(machine: Machine) -> None:
    requests = [machine.request("a", members=2), machine.request("b"), machine.request("c", "systemd")]
    machine.ready("a-decode-0", "c-decode-0")
    found = wait_for_all(requests, machine.state, machine.driver)
    assert list(found) == ["a", "b", "c"]
    assert states(found["a"]) == {"a-decode-0": "ready", "a-decode-1": "loading"}
    assert states(found["b"]) == {"b-decode-0": "loading"}
    assert states(found["c"]) == {"c-decode-0": "ready"}
    assert found["a"]["memory"].keys() == {"a-decode-0", "a-decode-1"}
    assert found["b"]["members"]["b-decode-0"]["log_line"] == "b-decode-0 of b logs"
    # It lists what there is on the host once for all of its workloads.
    assert machine.runtimes["docker"].listed == machine.runtimes["systemd"].listed


def test_none_at_all(machine: Machine) -> None:
    assert wait_for_all([], machine.state, machine.driver) == {}
    assert machine.pauses == 0


def test_a_slice_lasts_until_something_changes(machine: Machine) -> None:
    wait_for_all([machine.request("a"), machine.request("b", "systemd")], machine.state, machine.driver)
    assert machine.now == 10
    machine.now = 0.0
    machine.ready("b-decode-0")
    found = wait_for_all([machine.request("a"), machine.request("b", "systemd")], machine.state, machine.driver)
    assert machine.now == watch.LINGER
    assert states(found["b"]) == {"b-decode-0": "ready"}


@pytest.mark.parametrize(("broken", "why"), [(DOWN, "no answer"), (OSError(13, "Permission denied"), "Permission")])
def test_a_runtime_that_does_not_answer_fails_its_own_workloads(machine: Machine, broken: Exception, why: str) -> None:
    requests = [machine.request("a"), machine.request("b"), machine.request("c", "systemd")]
    machine.ready("c-decode-0")
    machine.runtimes["docker"].broken = broken
    found = wait_for_all(requests, machine.state, machine.driver)
    assert [name for name, one in found.items() if isinstance(one, Exception)] == ["a", "b"]
    assert why in str(found["a"])
    assert states(found["c"]) == {"c-decode-0": "ready"}
    assert machine.pauses == 0  # it is told at once
    with pytest.raises(type(broken)):
        wait(requests[0], machine.state, machine.driver)


def test_a_runtime_that_fails_in_the_middle_of_a_slice_ends_it(machine: Machine) -> None:
    docker, systemd = machine.runtimes["docker"], machine.runtimes["systemd"]
    requests = [machine.request("a"), machine.request("b", "systemd")]
    seen = docker.members

    def members() -> list[Plain]:
        docker.broken = DOWN if docker.listed == 3 else None
        return seen()

    docker.members = members  # type: ignore[method-assign]
    found = wait_for_all(requests, machine.state, machine.driver)
    assert found["a"] is DOWN
    assert states(found["b"]) == {"b-decode-0": "loading"}
    assert (docker.listed, systemd.listed) == (4, 4)


def test_a_runtime_that_this_host_cannot_have(machine: Machine) -> None:
    found = wait_for_all([machine.request("a", "nomad"), machine.request("b")], machine.state, machine.driver)
    assert "Choosing runtime nomad" in str(found["a"])
    assert states(found["b"]) == {"b-decode-0": "loading"}


def test_a_member_that_cannot_be_judged_fails_its_own_workload(machine: Machine) -> None:
    broken = machine.request("a", members=2)
    broken.members[1]["probe"]["listening"] = [{"port": 1}]  # type: ignore[index]
    found = wait_for_all([broken, machine.request("b")], machine.state, machine.driver)
    assert isinstance(found["a"], KeyError)
    assert states(found["b"]) == {"b-decode-0": "loading"}
    nothing = Request("c", "docker", [{"id": "c-decode-0"}], 1)
    assert isinstance(wait_for_all([nothing], machine.state, machine.driver)["c"], KeyError)


def test_the_locks_of_all_are_renewed(machine: Machine) -> None:
    machine.take("a", "over", "elsewhere")
    machine.take("another", run="of another run")
    requests = [machine.request(name) for name in ("a", "another")]
    requests += [machine.request(name, "nomad", members=0) for name in ("over", "elsewhere")]
    found = wait_for_all(requests, machine.state, machine.driver)
    assert all(machine.expires(name) > 1000 for name in ("a", "over", "elsewhere"))
    assert machine.expires("another") == 2.0
    # No runtime is asked for a workload that has no members to look at.
    assert found["over"] == {"members": {}, "memory": {}}
    unheld = Request("a", "docker", [], 1)
    machine.take("a")
    wait_for_all([unheld], machine.state, machine.driver)
    assert machine.expires("a") == 2.0


def test_a_lock_that_cannot_be_renewed_is_told_of_its_own_workload(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.take("a", "b", "over")
    write = machine.state.write_lock

    def refuse(group: str, lock: t.Any) -> None:
        if group != "b":
            raise OSError(28, "No space left on device")
        write(group, lock)

    monkeypatch.setattr(machine.state, "write_lock", refuse)
    found = wait_for_all([machine.request("a"), machine.request("b")], machine.state, machine.driver)
    assert isinstance(found["a"], OSError)
    assert states(found["b"]) == {"b-decode-0": "loading"}
    assert machine.pauses == 0
    # One that nobody waits for here any more must not make slices short for ever.
    found = wait_for_all([machine.request("over", members=0), machine.request("b")], machine.state, machine.driver)
    assert isinstance(found["over"], OSError)
    assert machine.now == 10


def test_the_host_s_lock_is_waited_for_once(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    tried = []

    def held(*_wait: float) -> t.NoReturn:
        tried.append(1)
        raise HostError("Locking the host", "another run holds it")

    monkeypatch.setattr(machine.state, "lock", held)
    found = wait_for_all([machine.request("a"), machine.request("b")], machine.state, machine.driver)
    assert len(tried) == 1
    assert all("another run holds it" in str(one) for one in found.values())
