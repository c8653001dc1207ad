# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Members come and go under constant load, before the real routers, and no request fails. `make bench` does the same with 10,000."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest
from integration import support_runtime
from integration.conftest import STANDIN, Life
from load import Load
from standin.engine import text_for
from support import ROOT

pytestmark = [pytest.mark.integration, pytest.mark.apart]
Make = t.Callable[..., Life]
VLLM_ROUTER = ROOT / ".build/demo/engine/bin/vllm-router"
SGLANG_ROUTER = ROOT / ".build/parsers/sglang-router/bin/python3"
# Prefill and decode members, one change after the other: up, down, up, down.
CHANGES = ((2, 2), (1, 1), (2, 1), (1, 1))


def right(prompt: str, text: str) -> bool:
    return text == " ".join(text_for(prompt, 4))


def before_vllm_router(make_site: Make, executable: Path) -> Life:
    return make_site(router={"executable": str(executable)}, limits={"start": 60, "drain": 20, "stop": 5})


def before_sglang_router(make_site: Make, executable: Path) -> Life:
    return make_site(
        mode="sglang-mooncake",
        engine={"executable": str(STANDIN / "sglang"), "args": ["--context-length=4096"]},
        router={"executable": str(executable)},
        limits={"start": 60, "drain": 20, "stop": 5},
    )


@pytest.mark.parametrize(
    ("made", "executable", "count", "stream"),
    [
        pytest.param(before_vllm_router, VLLM_ROUTER, 2000, 5, id="vllm-router"),
        pytest.param(before_sglang_router, SGLANG_ROUTER, 600, 0, id="sglang-router"),
    ],
)
def test_no_request_fails_while_members_come_and_go(
    make_site: Make, made: t.Callable[[Make, Path], Life], executable: Path, count: int, stream: int
) -> None:
    if not executable.exists():
        pytest.skip("no environment of that router here: make demo-env, make env-parsers")
    site = made(make_site, executable)
    # A request takes long enough to be under way when its member is to leave.
    site.env(STANDIN_DELAY="0.2")
    # Nobody takes the stand-in of SGLang for a pair that moves a cache; that of vLLM is proven.
    site.play("deploy", pd_proof="never").ok()
    first = site.pids()
    with Load(f"http://127.0.0.1:{site.port}", rate=40, senders=40, right=right, stream=stream) as load:
        for prefill, decode in CHANGES:
            site.play("scale", pd_group="g", pd_prefill=prefill, pd_decode=decode, pd_proof="never").ok()
        support_runtime.wait_for(lambda: load.reached(count), 120, f"{count} answers")
    assert not load.report.bad, load.report.told()
    assert site.pids() == first, "whoever was not to go has gone on"
