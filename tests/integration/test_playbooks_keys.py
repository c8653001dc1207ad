# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A group whose engines ask for a key, on stand-ins that ask for it where real ones do."""

from __future__ import annotations

import os
import typing as t
from pathlib import Path

import pytest
from integration.conftest import Life
from support import ROOT

from ansible_collections.inferops.pd.plugins.module_utils._probes import http

pytestmark = [pytest.mark.integration, pytest.mark.apart]
Make = t.Callable[..., Life]
STANDIN = ROOT / "tests" / "standin"
REAL_SGLANG_ROUTER = Path(os.path.expanduser("~/.cache/inferops-pd/parsers/sglang-router-0.3.2/bin/python3"))
KEY, OLD = "hunter2-of-this-test", "hunter1-of-this-test"


def both(key: str) -> dict[str, str]:
    return {"VLLM_API_KEY": key, "OPENAI_API_KEY": key}


def shown_nowhere(site: Life, out: str, *keys: str) -> None:
    """Neither on screen, nor in what is kept, nor on a command line; in the members' own environment alone."""
    assert not [key for key in keys if key in out]
    for path in (p for p in site.state.rglob("*") if p.is_file() and p.name != "env"):
        assert not [key for key in keys if key.encode() in path.read_bytes()], path
    for pid in site.pids().values():
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
        assert not [key for key in keys if key.encode() in command]


def test_a_group_with_a_key_needs_no_option(make_site: Make) -> None:
    """Deploy with its proof, again, with more members and fewer (registration and drain), and after the vault has another key."""
    site = make_site()
    site.group["engine"]["secrets"] = both(OLD)
    site.write()
    run = site.play("deploy", "--diff").ok()
    assert "1 of 1 pairs move the KV cache and answer right" in run.out
    assert site.ask()[0] == 200
    engine = f"http://127.0.0.1:{site.record()['members'][0]['port']}"
    assert http.get(f"{engine}/v1/models").status == 401, "the stand-in asks for it"
    assert http.get(f"{engine}/health").status == 200
    shown_nowhere(site, run.out, OLD)

    site.play("scale", pd_group="g", pd_decode=2).ok()
    site.play("scale", pd_group="g", pd_decode=1).ok()
    status = site.play("status").ok().out
    assert "g: RUNNING" in status
    assert "2 peers, confirmed" in status

    site.group["engine"]["secrets"] = both(KEY)
    site.write()
    same = site.play("deploy", pd_proof="always").ok()
    assert "1 of 1 pairs move the KV cache and answer right" in same.out, "the old one is in force until a restart"
    site.play("restart", pd_group="g").ok()
    assert http.get(f"{engine}/v1/models", headers=http.bearer(KEY)).ok
    shown_nowhere(site, same.out, OLD, KEY)


def test_ends_that_differ_are_refused_before_anything_starts(make_site: Make) -> None:
    site = make_site()
    site.group["engine"]["secrets"] = {"VLLM_API_KEY": KEY}
    site.write()
    refused = site.play("deploy")
    assert refused.rc != 0
    assert "key-not-shown" in refused.out
    assert site.untouched()
    shown_nowhere(site, refused.out, KEY)


def test_a_key_of_sglang_and_of_its_router(make_site: Make) -> None:
    """The real router asks for the key on its worker API as well, and reads a member's model only with the member's own."""
    if not REAL_SGLANG_ROUTER.exists():
        pytest.skip("no sglang-router here: tests/env makes it with the real parsers")
    site = make_site(
        mode="sglang-mooncake",
        engine={"executable": str(STANDIN / "sglang"), "args": [f"--api-key={KEY}"], "env": {"STANDIN_LOAD": "0.1"}},
        router={"executable": str(REAL_SGLANG_ROUTER), "args": [f"--api-key={KEY}"]},
    )
    site.play("deploy").ok()
    router = f"http://127.0.0.1:{site.port}"
    assert http.get(f"{router}/workers").status == 401
    workers = http.get(f"{router}/workers", headers=http.bearer(KEY)).json()["workers"]
    assert [worker["model_id"] for worker in workers] == ["tiny", "tiny"], "it has looked at them with their key"
    site.play("scale", pd_group="g", pd_decode=2).ok()
    site.play("scale", pd_group="g", pd_decode=1).ok()
    status = site.play("status").ok().out
    assert "g: RUNNING" in status
    assert "2 peers, confirmed" in status
