# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A real group whose engines ask for a key: real engines, the real router, and nothing but the spec says so."""

from __future__ import annotations

import json
import typing as t
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from e2e.conftest import real_group
from support import Site

pytestmark = pytest.mark.e2e
KEY = "hunter2-of-a-real-group"


@pytest.fixture(name="keyed", scope="module")
def fixture_keyed(tmp_path_factory: pytest.TempPathFactory) -> t.Iterator[Site]:
    spec = real_group()
    spec["roles"]["router"]["port"] = 28290
    spec["engine"]["secrets"] = {"VLLM_API_KEY": KEY, "OPENAI_API_KEY": KEY}
    made = Site(Path(tmp_path_factory.mktemp("keyed")), {"node": {"pd_port_range": "28200-28263"}}, {"real": spec})
    yield made
    made.play("remove", pd_group="real", pd_break_lock="true")
    made.end_processes()


def status_of(url: str, key: str = "") -> int:
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {key}"} if key else {})
    try:
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=20) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as exc:
        return exc.code


def test_it_is_proven_and_asks_for_its_key(keyed: Site) -> None:
    run = keyed.play("deploy", "--diff").ok()
    assert "1 of 1 pairs move the KV cache and answer right" in run.out
    assert KEY not in run.out
    out = keyed.play("status").ok().out
    assert "real: RUNNING" in out
    record = json.loads((keyed.state / "groups/real/record.json").read_text())
    engines = [member["url"] for member in record["members"] if member["role"] != "router"]
    assert len(engines) == 2
    for url in engines:
        assert status_of(f"{url}/v1/models") == 401
        assert status_of(f"{url}/v1/models", KEY) == 200
        assert status_of(f"{url}/health") == status_of(f"{url}/metrics") == 200
