# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Watching members: what the process carries that serves, and how rarely that is looked for."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from ansible_collections.inferops.pd.plugins.module_utils._host import watch
from ansible_collections.inferops.pd.plugins.module_utils._probes import carried, ports, processes

SERVER = "import socket, sys; s = socket.create_server(('127.0.0.1', 0)); print(s.getsockname()[1], flush=True); sys.stdin.read()"
# The member's own process starts what listens, as engines do.
PARENT = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {SERVER!r}])"


@pytest.fixture
def served():
    """The port of a process whose parent is a member's."""
    env = {**os.environ, processes.MEMBER: "g-prefill-0", processes.STATE: "/s", carried.FORMATION: "f-1"}
    with subprocess.Popen(
        [sys.executable, "-c", PARENT], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as main:
        yield int(main.stdout.readline())
        main.stdin.close()


class Looks:
    """Counts the walks over all processes, and answers health as told."""

    def __init__(self, monkeypatch, port):
        self.count, self.status, self.port = 0, 200, port
        self.real = ports.listening
        monkeypatch.setattr(watch.ports, "listening", self.listening)
        monkeypatch.setattr(watch.health, "ask", lambda *_given: (self.status, ""))

    def listening(self, only=None):
        self.count += 1
        return self.real(only)

    def watch(self, **probe):
        member = watch.Watched(
            "g-prefill-0", "prefill", {"url": f"http://127.0.0.1:{self.port}", **probe}, {"address": "127.0.0.1"}, ()
        )
        live = {"g-prefill-0": {"state": "running", "pid": os.getpid(), "restarts": 0}}
        return watch.Watch([member], {"": lambda: live}, lambda _member: [])


def test_a_child_of_the_member_serves(served):
    told = carried.serving(served, ports.listening({served}), ["127.0.0.1"])
    assert told == {"formation": "f-1", "listener_member": "g-prefill-0"}


def test_a_reason_is_taken_whole_and_the_log_is_a_line_of_its_own():
    """Whatever a host says of a member's end, nothing is cut from it."""
    label = {"url": "http://127.0.0.1:1"}
    member = watch.Watched("g-prefill-0", "prefill", label, {}, ())
    why = "exited with status 3; its log ends with: a word of its own"
    live = {"g-prefill-0": {"state": "exited", "pid": None, "restarts": 0, "why": why, "log_line": "gone"}}
    (seen,) = watch.Watch([member], {"": lambda: live}, lambda _member: ["first", "gone"]).look().values()
    assert seen["why"] == f"its process has ended ({why})"
    assert seen["log_line"] == "gone"


def test_it_is_looked_for_once_when_the_member_is_ready(monkeypatch, served):
    looks = Looks(monkeypatch, served)
    looks.status = 503
    watching = looks.watch()
    assert [watching.look()["g-prefill-0"]["formation"] for _look in range(3)] == [None] * 3
    assert looks.count == 0
    looks.status = 200
    assert [watching.look()["g-prefill-0"]["formation"] for _look in range(3)] == ["f-1"] * 3
    assert looks.count == 1


def test_a_port_that_is_watched_anyway_needs_no_look_of_its_own(monkeypatch, served):
    looks = Looks(monkeypatch, served)
    watching = looks.watch(listening=[{"name": "http", "port": served}])
    assert watching.look()["g-prefill-0"]["listener_member"] == "g-prefill-0"
    watching.look()
    assert looks.count == 1


@pytest.mark.parametrize("url", ["tcp://127.0.0.1", "http://127.0.0.1:99999", "nonsense"])
def test_a_url_without_a_port(monkeypatch, served, url):
    looks = Looks(monkeypatch, served)
    seen = looks.watch(url=url).look()["g-prefill-0"]
    assert (seen["state"], seen["formation"], seen["listener_member"]) == ("ready", None, None)
