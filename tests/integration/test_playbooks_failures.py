# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Starts that fail: what the screen says, what stays running, and what a re-run does."""

from __future__ import annotations

import re
import time
import typing as t
import urllib.request
from pathlib import Path

import pytest
from integration import support_runtime
from integration.conftest import Life, alive, kill

pytestmark = [pytest.mark.integration, pytest.mark.apart]
DIED = "VLLM_KV_CACHE_LAYOUT=NHD does not satisfy every supported set"
Make = t.Callable[..., Life]


def decode_fails(make_site: Make, fail: str, **changes: t.Any) -> Life:
    """A group whose decode fails in a way of the stand-in's; its prefill is healthy."""
    return make_site(decode={"extra_env": {"STANDIN_FAIL": fail}}, **changes)


@pytest.mark.floor
def test_an_engine_that_dies_while_loading(make_site: Make, tmp_path: Path) -> None:
    cause = tmp_path / "cause"
    cause.touch()
    site = decode_fails(make_site, f"die_while:{cause}")
    run = site.play("deploy").refused()
    assert DIED in run.out
    assert "g-decode-0 on node:" in run.out
    assert "What runs is kept: g-prefill-0." in run.out
    first = site.pids()
    assert set(first) == {"g-prefill-0"}
    assert site.ask()[0] == 0
    record = site.record()
    assert record["state"] == "partial"
    assert not record["endpoint"]["registered"]
    assert site.lock() is None
    status = site.play("status").ok().out
    assert re.search(r"g: PARTIAL \(roles not ready: decode, router\) +prefill 1/1, decode 0/1, router 0/1", status)
    assert "not registered" in status
    cause.unlink()
    healed = site.play("deploy").ok()
    assert "Group g is running" in healed.out
    now = site.pids()
    assert set(now) == {"g-prefill-0", "g-decode-0", "g-router-0"}
    assert now["g-prefill-0"] == first["g-prefill-0"]
    assert site.ask()[0] == 200
    assert site.play("deploy").ok().changed == 0


def test_on_failure_stop_frees_what_the_run_started(make_site: Make, tmp_path: Path) -> None:
    cause = tmp_path / "cause"
    cause.touch()
    site = decode_fails(make_site, f"die_while:{cause}")
    run = site.play("deploy", pd_on_failure="stop").refused()
    assert DIED in run.out
    assert "pd_on_failure is stop" in run.out
    assert site.pids() == {}
    assert not list(site.state.glob("groups/*/members/*/label.json")), run.out[-4000:]
    assert "RUNNING" not in site.play("status").ok().out
    cause.unlink()
    site.play("deploy", pd_on_failure="stop").ok()
    assert set(site.pids()) == {"g-prefill-0", "g-decode-0", "g-router-0"}


def test_on_failure_stop_leaves_what_served_before(make_site: Make, tmp_path: Path) -> None:
    """A third member that fails is no reason to stop the two that serve."""
    cause = tmp_path / "cause"
    site = make_site(decode={"extra_env": {"STANDIN_FAIL": f"die_while:{cause}"}})
    site.play("deploy").ok()
    before = site.pids()
    cause.touch()
    run = site.play("scale", pd_group="g", pd_decode=2, pd_on_failure="stop")
    assert DIED in run.out
    assert {k: v for k, v in site.pids().items() if k in before} == before
    assert site.ask()[0] == 200
    assert "g: RUNNING" in site.play("status").ok().out


def test_a_side_channel_that_cannot_be_opened_ends_the_wait_soon(make_site: Make) -> None:
    """The engine hangs for ever, alive and unready: its log and its sockets say so, not the limit."""
    site = decode_fails(make_site, "side_channel_taken", limits={"start": 300, "drain": 1, "stop": 2})
    started = time.monotonic()
    run = site.play("deploy").refused()
    assert time.monotonic() - started < 45
    assert "g-decode-0" in run.out
    assert "side channel" in run.out
    assert "What runs is kept: g-prefill-0." in run.out


def test_a_start_without_a_reason_ends_at_the_limit(make_site: Make) -> None:
    site = decode_fails(make_site, "hang_at_load", limits={"start": 4, "drain": 1, "stop": 2})
    run = site.play("deploy").refused()
    assert "not ready within 4 s" in run.out
    assert "maybe ready later: g-decode-0" in run.out
    assert set(site.pids()) == {"g-prefill-0", "g-decode-0"}


def test_a_spec_that_never_ran_is_corrected_by_an_edit_and_a_deploy(make_site: Make) -> None:
    """Both engines died of a wrong argument: nothing runs, so nothing has to be restarted for the edit."""
    site = make_site()
    site.env(STANDIN_FAIL="exit_at_load")
    run = site.play("deploy").refused()
    assert "unrecognized arguments: --no-such-flag" in run.out
    del site.group["engine"]["env"]["STANDIN_FAIL"]
    site.write()
    site.play("deploy").ok()
    assert set(site.pids()) == {"g-prefill-0", "g-decode-0", "g-router-0"}


@pytest.mark.parametrize(
    ("variable", "told"),
    [("STANDIN_RECOMPUTE", r"recomputed|computed"), ("STANDIN_GARBAGE", r"text|differ")],
)
def test_a_group_that_answers_without_moving_its_cache_is_not_registered(
    make_site: Make, variable: str, told: str
) -> None:
    site = make_site(decode={"extra_env": {variable: "1"}})
    run = site.play("deploy").refused()
    assert site.ask()[0] == 200, "it answers: that alone proves nothing"
    assert re.search(told, run.out)
    assert "g-prefill-0  g-decode-0" in run.out
    assert not site.record()["endpoint"]["registered"]
    # To the cause: where the KV cache was to go, what both logs say, what measures the way; and status says it as well.
    assert re.search(r"KV cache: g-prefill-0 \(\S+, kv_side_channel \d+\) -> g-decode-0 \(", run.out)
    assert "inferops.pd.preflight -e pd_group=g" in run.out
    assert re.search(r"g-prefill-0 on node: its log (ends with|says): ", run.out)
    assert re.search(r"g-decode-0 on node: its log (ends with|says): ", run.out)
    status = " ".join(site.play("status").ok().out.split())
    assert "g: PARTIAL (waiting for the endpoint to be registered: g-prefill-0 -> g-decode-0: " in status
    assert site.play("deploy").refused(), "a run that changes nothing must not take it for proven"
    assert not site.record()["endpoint"]["registered"]


def test_a_router_that_does_not_start(make_site: Make) -> None:
    site = make_site()
    site.group["roles"]["router"]["env"] = {"STANDIN_ROUTER_FAIL": "exit_at_start"}
    site.write()
    run = site.play("deploy").refused()
    assert "unrecognized arguments" in run.out or "does not accept its command line" in run.out
    assert set(site.pids()) == {"g-prefill-0", "g-decode-0"}
    assert not site.record()["endpoint"]["registered"]


@pytest.mark.faults  # the registry is read again and again for 18 s
def test_a_router_that_forgets_its_members(make_site: Make) -> None:
    site = make_site()
    site.group["roles"]["router"]["env"] = {"STANDIN_ROUTER_FAIL": "deaf"}
    site.write()
    run = site.play("deploy").refused()
    assert "did not admit" in run.out
    assert not site.record()["endpoint"]["registered"]


def test_a_secret_in_a_log_is_not_repeated_on_the_screen(make_site: Make) -> None:
    site = make_site()
    site.group["engine"]["secrets"] = {"HF_TOKEN": "hunter2-hunter2"}
    site.env(STANDIN_FAIL="die_telling:HF_TOKEN")
    run = site.play("deploy", "-vvv", "--diff").refused()
    assert "hunter2" not in run.out
    assert "the token ******** was refused" in run.out
    assert "hunter2" not in site.play("status", "-vvv").ok().out


def test_a_router_that_its_runtime_started_again_has_forgotten_its_peers(make_site: Make) -> None:
    site = make_site()
    site.play("deploy").ok()
    before = site.pids()
    kill(before["g-router-0"])
    support_runtime.wait_for(
        lambda: site.pids().get("g-router-0", before["g-router-0"]) != before["g-router-0"] and ask_health(site.port),
        60,
        "the router's next start",
    )
    status = site.play("status").ok().out
    assert "g: PARTIAL (the endpoint is registered, and its router has no confirmed peers)" in status
    assert "router_forgot_peers: g-router-0 has no prefill and no decode member in its registry" in status
    run = site.play("deploy", "--diff").ok()
    assert "has forgotten its peers" in run.out
    assert site.ask()[0] == 200
    assert {k: v for k, v in site.pids().items() if k != "g-router-0"} == {
        k: v for k, v in before.items() if k != "g-router-0"
    }
    assert site.play("deploy").ok().changed == 0


def ask_health(port: int) -> bool:
    try:
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(
            f"http://127.0.0.1:{port}/health", timeout=2
        ):
            return True
    except OSError:
        return False


def test_a_member_that_is_killed_shows_and_is_replaced(make_site: Make) -> None:
    site = make_site()
    site.play("deploy").ok()
    before = site.pids()
    kill(before["g-router-0"])
    kill(before["g-decode-0"])
    site.play("deploy").ok()
    after = site.pids()
    assert set(after) == set(before)
    assert after["g-prefill-0"] == before["g-prefill-0"]
    assert after["g-decode-0"] != before["g-decode-0"]
    assert alive(after["g-router-0"])
    assert site.ask()[0] == 200
