# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A prefill comes back under a mode whose decode members take it for the one before: before the real sglang-router."""

from __future__ import annotations

import typing as t

import pytest
from integration import support_runtime
from integration.conftest import STANDIN, Life, kill
from load import Load
from standin.engine import text_for
from support import ROOT

pytestmark = [pytest.mark.integration, pytest.mark.apart]
SGLANG_ROUTER = ROOT / ".build/parsers/sglang-router/bin/python3"


def right(prompt: str, text: str) -> bool:
    return text == " ".join(text_for(prompt, 4))


def test_decodes_forget_a_prefill_one_after_the_other_and_no_request_fails(make_site: t.Callable[..., Life]) -> None:
    if not SGLANG_ROUTER.exists():
        pytest.skip("no environment of that router here: make env-parsers")
    site = make_site(
        mode="sglang-nixl",
        engine={"executable": str(STANDIN / "sglang"), "args": ["--context-length=4096"]},
        prefill={"replicas": 2},
        decode={"replicas": 2},
        router={"executable": str(SGLANG_ROUTER)},
        limits={"start": 60, "drain": 20, "stop": 5},
    )
    # Nobody takes the stand-in of SGLang for a pair that moves a cache.
    site.play("deploy", pd_proof="never").ok()
    with Load(f"http://127.0.0.1:{site.port}", rate=20, senders=20, right=right) as load:
        support_runtime.wait_for(lambda: load.reached(100), 60, "all pairs have met")
    assert not load.report.bad, load.report.told()
    before = site.pids()

    kill(before["g-prefill-0"])
    support_runtime.wait_for(lambda: "g-prefill-0" not in site.pids(), 30, "it is gone")
    plan = site.play("deploy", "--check", "--diff", pd_proof="never").ok()
    for line in (
        "- [leave] deregister g-router-0 on node",
        "! [start] replace g-prefill-0 on node",
        "! [renew] replace g-decode-0 on node: round 1: it would take g-prefill-0 for the process that was there before",
        "! [renew] replace g-decode-1 on node: round 2",
        "and are started anew before it serves, one after the other",
    ):
        assert line in plan.out

    site.play("deploy", pd_proof="never").ok()
    after = site.pids()
    assert {name for name in before if before[name] != after[name]} == {"g-prefill-0", "g-decode-0", "g-decode-1"}
    with Load(f"http://127.0.0.1:{site.port}", rate=20, senders=20, right=right) as load:
        support_runtime.wait_for(lambda: load.reached(100), 60, "all pairs have met again")
    assert not load.report.bad, load.report.told()
    assert "changed=0" in site.play("deploy", pd_proof="never").ok().out
