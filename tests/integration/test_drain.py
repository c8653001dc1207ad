# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A decode leaves while a prefill still computes for it: between stand-in engines, behind a stand-in router."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import typing as t
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import quote

import pytest
from integration import support_runtime as support
from integration.test_group_proof import Engines
from ports import free_ports
from support import ROOT

from ansible_collections.inferops.pd.plugins.module_utils._engines.registry import engines
from ansible_collections.inferops.pd.plugins.module_utils._host.drain import drain
from ansible_collections.inferops.pd.plugins.module_utils._probes import http

pytestmark = pytest.mark.integration
PREFILL_TAKES = 3.0


class Group(Engines):
    """One prefill that is slow, one decode, and a router that may forget the decode."""

    def __init__(self) -> None:
        super().__init__()
        self.start("prefill-0", "kv_producer", STANDIN_DELAY=str(PREFILL_TAKES))
        self.start("decode-0", "kv_consumer")
        (port,) = free_ports(1)
        argv = [
            sys.executable,
            str(ROOT / "tests/standin/router.py"),
            "--enable-igw",
            "--host=127.0.0.1",
            f"--port={port}",
        ]
        self.processes.append(
            subprocess.Popen(argv, env={**os.environ}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        )
        self.urls["router"] = f"http://127.0.0.1:{port}"
        support.wait_for(lambda: self.up("router"), 10, "the router")
        for name in ("prefill-0", "decode-0"):
            body = {"url": self.urls[name], "worker_type": name.partition("-")[0], "model_id": "tiny"}
            assert http.request("POST", self.urls["router"] + "/workers", body).ok

    def ask(self, number: int) -> int:
        return http.request(
            "POST", self.urls["router"] + "/v1/completions", {"model": "tiny", "prompt": f"number {number} " * 9}, 30
        ).status

    def forget_decode(self) -> None:
        path = "/workers/" + quote(self.urls["decode-0"], safe="")
        assert http.request("DELETE", self.urls["router"] + path).ok

    def label(self) -> dict[str, t.Any]:
        engine = engines()["vLLM"]
        return {
            "url": self.urls["decode-0"],
            "probe": {"busy": list(engine.busy_metrics), "metrics": engine.metrics_path},
        }

    def upstream(self) -> list[dict[str, t.Any]]:
        engine = engines()["vLLM"]
        counted = {"busy": list(engine.busy_metrics), "done": list(engine.done_metrics), "metrics": engine.metrics_path}
        return [{"id": "prefill-0", "url": self.urls["prefill-0"], **counted}]


@pytest.fixture
def group() -> t.Iterator[Group]:
    made = Group()
    yield made
    for process in made.processes:
        process.kill()
        process.wait(10)


def leave(group: Group, upstream: list[dict[str, t.Any]]) -> tuple[list[int], float, str]:
    """Five requests are in prefill; the decode leaves the router, drains, and is killed. What clients got, and how long it drained."""
    with ThreadPoolExecutor(8) as pool:
        asked = [pool.submit(group.ask, number) for number in range(5)]
        time.sleep(0.5)
        group.forget_decode()
        begun = time.monotonic()
        left = drain(group.label(), 20, upstream)
        took = time.monotonic() - begun
        group.processes[1].kill()
        return [one.result() for one in asked], took, left


def test_what_is_in_prefill_reaches_the_decode_that_leaves(group: Group) -> None:
    answers, took, left = leave(group, group.upstream())
    assert answers == [200] * 5
    assert left == ""
    assert PREFILL_TAKES - 1 < took < PREFILL_TAKES + 4


def test_its_own_counters_alone_say_nothing_of_them(group: Group) -> None:
    """What the path is drained for: it looks idle, and is gone when its requests come."""
    answers, took, _left = leave(group, [])
    assert answers == [502] * 5
    assert took < PREFILL_TAKES - 1
