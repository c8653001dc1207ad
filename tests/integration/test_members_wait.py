# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Waiting for members under a real supervisord, with the stand-in engine failing in each way that a real one does."""

from __future__ import annotations

import os
import signal
import socket
import sys
import time
import typing as t
from pathlib import Path

import pytest
from integration import support_runtime as support
from ports import free_ports
from support import ROOT

from ansible_collections.inferops.pd.plugins.module_utils._core.plan.value import Plan
from ansible_collections.inferops.pd.plugins.module_utils._core.work.share import Share
from ansible_collections.inferops.pd.plugins.module_utils._host.members import Order, Work
from ansible_collections.inferops.pd.plugins.module_utils._host.observe import Request as Observed
from ansible_collections.inferops.pd.plugins.module_utils._host.observe import observe
from ansible_collections.inferops.pd.plugins.module_utils._host.wait import Request, doomed, wait
from ansible_collections.inferops.pd.plugins.module_utils._host.watch import Watch, Watched
from ansible_collections.inferops.pd.plugins.module_utils._runtimes import driver
from ansible_collections.inferops.pd.plugins.module_utils._runtimes.state import State
from ansible_collections.inferops.pd.plugins.plugin_utils.run_folder import Index, RunFolder

pytestmark = pytest.mark.integration
ME = support.ME
ENGINE = str(ROOT / "tests/standin/engine.py")


class Group:
    """One member of a group on this machine, and what is seen of it."""

    def __init__(self, root: Path) -> None:
        self.state = State(str(root / "state"))
        self.runtime = driver("supervisor", self.state)
        self.http, self.side = free_ports(2)
        self.memory: dict[str, t.Any] = {}

    def member(self, fail: str = "", attempts: int = 0, **env: str) -> dict[str, t.Any]:
        config = '{"kv_connector":"NixlConnector","kv_role":"kv_consumer"}'
        argv = [
            sys.executable,
            ENGINE,
            "serve",
            "/m",
            "--host=127.0.0.1",
            f"--port={self.http}",
            f"--kv-transfer-config={config}",
        ]
        side = {"VLLM_NIXL_SIDE_CHANNEL_HOST": "127.0.0.1", "VLLM_NIXL_SIDE_CHANNEL_PORT": str(self.side)}
        made = support.member(
            "g", "decode", 0, self.http, attempts=attempts, argv=argv, env={**side, "STANDIN_FAIL": fail, **env}
        )
        ports = {"kv_side_channel": {"base": self.side, "count": 1}}
        made["parts"][0]["ports"] = made["parts"][0]["labels"]["ports"] = ports
        listening = [{"name": "http", "port": self.http}, {"name": "kv_side_channel", "port": self.side}]
        made["probe"] |= {"backend": "vLLM", "listening": listening, "limit": 30}
        return made

    def start(self, member: dict[str, t.Any]) -> None:
        plan = support.slice_of("g", [member])
        assert Work(Order(Share.from_plain(plan), "start", ME), self.state, self.runtime).run()["failed_members"] == {}

    def look(self, member: dict[str, t.Any], seconds: int = 1) -> dict[str, t.Any]:
        wanted = [
            {"id": member["id"], "role": "decode", "probe": member["probe"], "label": member["parts"][0]["labels"]}
        ]
        request = Request("g", "supervisor", wanted, seconds, self.memory, ME)
        found = wait(request, self.state, lambda name: driver(name, self.state))
        self.memory = found["memory"]
        return t.cast("dict[str, t.Any]", found["members"][member["id"]])

    def until(self, member: dict[str, t.Any], *states: str, seconds: float = 20) -> dict[str, t.Any]:
        end = time.monotonic() + seconds
        while True:
            seen = self.look(member)
            if seen["state"] in states:
                return seen
            assert time.monotonic() < end, seen


@pytest.fixture
def group(tmp_path: Path) -> t.Iterator[Group]:
    made = Group(tmp_path)
    yield made
    support.clean_up(made.state.root)


def test_ready(group: Group) -> None:
    member = group.member(INFEROPS_PD_FORMATION="f-1")
    group.start(member)
    assert group.look(member)["formation"] in (None, "f-1")
    seen = group.until(member, "ready", "failed")
    assert seen["state"] == "ready", seen
    assert (seen["why"], seen["symptom"]) == ("", None)
    assert seen["pid"]
    assert seen["log"].endswith("member.log")
    # What its process carries: the facts say the same.
    assert (seen["formation"], seen["listener_member"]) == ("f-1", member["id"])
    (told,) = observe(Observed(runtimes=["supervisor"], gpus=[]), group.state)["members"]
    assert (told["formation"], told["listener_member"]) == ("f-1", member["id"])


def test_a_port_of_a_member_that_another_member_serves_on(group: Group) -> None:
    """What answers is not what was started: the label cannot tell, and the process can."""
    member = group.member(INFEROPS_PD_FORMATION="f-1")
    group.start(member)
    group.until(member, "ready", "failed")
    stranger = {**member, "id": "g-decode-1"}
    (wanted,) = [{"id": m["id"], "role": "decode", "probe": {**m["probe"], "listening": []}} for m in [stranger]]
    live = {"g-decode-1": {"state": "running", "pid": 1, "restarts": 0, "label": {}}}
    watched = Watched(wanted["id"], "decode", wanted["probe"], {"address": "127.0.0.1"}, ())
    seen = Watch([watched], {"": lambda: live}, lambda _member: []).look()["g-decode-1"]
    assert (seen["state"], seen["formation"], seen["listener_member"]) == ("ready", "f-1", "g-decode-0")


@pytest.mark.parametrize(
    ("fail", "symptom", "words"),
    [
        ("exit_at_load", "argument refused", "unrecognized arguments: --no-such-flag"),
        ("die_at_load", "kv cache layout refused", "valid layouts: ['LBHNC']"),
        ("block_size", "block size refused", "its process still runs"),
        ("side_channel_taken", "side channel port taken", "Address already in use (addr='tcp://127.0.0.1:"),
    ],
)
def test_what_can_never_be_ready_is_seen_long_before_the_limit(
    group: Group, fail: str, symptom: str, words: str
) -> None:
    member = group.member(fail, attempts=3)
    group.start(member)
    started = time.monotonic()
    seen = group.until(member, "failed", "ready")
    assert time.monotonic() - started < 8
    assert seen["state"] == "failed"
    assert seen["symptom"]["name"] == symptom
    assert words in seen["why"]
    assert seen["advice"]


def test_a_port_held_by_another_process_is_told_with_who_holds_it(group: Group) -> None:
    member = group.member()
    with socket.create_server(("127.0.0.1", group.side)):
        # The module refuses to start on a port that is taken; one that is taken just after it looked is this.
        work = Work(Order(Share.from_plain(support.slice_of("g", [member])), "start", ME), group.state, group.runtime)
        work._check_room = lambda _member: None  # type: ignore[method-assign]
        assert work.run()["failed_members"] == {}
        seen = group.until(member, "failed", "ready")
        assert f"its port {group.side} (kv_side_channel) is held by" in seen["why"]
        assert f"pid {os.getpid()}" in seen["why"]


def test_healthy_without_its_side_channel_is_not_ready(group: Group) -> None:
    member = group.member("no_side_channel")
    group.start(member)
    seen = group.until(member, "failed", "ready")
    assert f"does not listen on {group.side} (kv_side_channel)" in seen["why"]


def test_an_engine_that_dies_behind_its_api_server(group: Group) -> None:
    member = group.member("child_dies:1")
    group.start(member)
    assert group.until(member, "ready", "failed")["state"] == "ready"
    seen = group.until(member, "failed")
    assert seen["symptom"]["name"] == "engine process died"
    live = group.runtime.members()[0]
    assert live["state"] == "running"
    assert "died" in doomed(live, group.runtime.logs("g", member["id"], 1000))


def test_a_crash_that_does_not_come_again_is_waited_out(group: Group, tmp_path: Path) -> None:
    member = group.member(f"crash_once:{tmp_path / 'crashed'}", attempts=3)
    group.start(member)
    seen = group.until(member, "ready", "failed")
    assert seen["state"] == "ready", seen
    assert seen["restarts"] == 1


def test_a_member_that_only_loads_is_loading_and_says_its_last_line(group: Group) -> None:
    member = group.member("hang_at_load")
    group.start(member)
    time.sleep(1)
    seen = group.look(member)
    assert seen["state"] == "loading"
    assert "nothing listens there" in seen["why"]
    assert "Initializing a V1 LLM engine" in seen["log_line"]


def test_a_slice_returns_as_soon_as_something_changes(group: Group) -> None:
    member = group.member(STANDIN_LOAD="2")
    group.start(member)
    started = time.monotonic()
    assert group.look(member, seconds=20)["state"] == "ready"
    assert 1 < time.monotonic() - started < 10


def test_a_killed_member_is_failed_at_once(group: Group) -> None:
    member = group.member()
    group.start(member)
    seen = group.until(member, "ready")
    os.kill(seen["pid"], signal.SIGKILL)
    assert "ended" in group.until(member, "failed")["why"]


def test_a_member_that_nobody_knows_is_failed(group: Group) -> None:
    assert group.look(group.member())["state"] == "failed"


def test_waiting_keeps_the_lock_of_the_group(group: Group) -> None:
    member = group.member()
    group.start(member)
    before = (group.state.group_lock("g") or {})["expires"]
    time.sleep(0.1)
    group.look(member)
    assert (group.state.group_lock("g") or {})["expires"] > before


def test_the_action_waits_and_tells(group: Group) -> None:
    member = group.member("exit_at_load")
    group.start(member)
    member["parts"][0]["host"] = "localhost"
    share = support.slice_of("g", [member])
    here = {"through": "localhost", "present": [], "absent": [], "observed": None}
    made = {**share, "kind": "group", "mode": "vllm-nixl", "readiness": "any_per_role", "hosts": {"localhost": here}}
    folder = RunFolder.create(Index([["g"]], [0]), {"g": Plan.from_plain(made, "localhost")})
    given = {"run": folder.path, "wave": 0, "state_dir": group.state.root}
    with pytest.raises(AssertionError, match="SKIPPED"):
        support.module("members_wait", given, check=True)
    assert "unrecognized arguments" in support.module("members_wait", given)["not_ready"]["g"]
    said = folder.said_by(0, "wait", "localhost")["g"]
    assert said["not_ready"].keys() == {"g-decode-0"}
    assert said["members"]["g-decode-0"]["outcome"] == "failed"
