# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whose key is shown to whom, and when."""

from __future__ import annotations

import pytest

from ansible_collections.inferops.pd.plugins.module_utils._core.work import key
from ansible_collections.inferops.pd.plugins.module_utils._engines.registry import engines
from ansible_collections.inferops.pd.plugins.module_utils._host.proving import keys_of
from ansible_collections.inferops.pd.plugins.module_utils._probes import credentials, http, ports
from ansible_collections.inferops.pd.plugins.module_utils._routers import protocol, sglang_router
from ansible_collections.inferops.pd.plugins.module_utils._runtimes.script import render_run


@pytest.mark.parametrize(
    ("argv", "env", "engine", "router"),
    [
        (["vllm", "serve", "/m"], {}, (), ()),
        (["vllm", "serve"], {"VLLM_API_KEY": "v"}, ("v",), ("v",)),
        (["vllm", "serve", "--api-key", "a"], {"VLLM_API_KEY": "v"}, ("a",), ("a", "v")),
        (["vllm", "serve", "--api_key=a", "--port=1"], {}, ("a",), ("a",)),
        (["vllm", "serve", "--api-key", "a", "b", "--port=1"], {}, ("a", "b"), ("a", "b")),
        (["x", "--api-key=a", "--api-key=b"], {}, ("b",), ("b",)),
        (["x", "--api-key"], {"VLLM_API_KEY": ""}, (), ()),
        (["x"], {"OPENAI_API_KEY": "o"}, (), ("o",)),
        (["x"], {"SGLANG_API_KEY": "s", "OPENAI_API_KEY": "o"}, ("s",), ("s", "o")),
    ],
)
def test_where_a_key_stands(argv, env, engine, router):
    assert key.asked_by_engine(argv, env) == engine
    assert key.asked_by_router(argv, env) == router


def test_what_an_engine_is_told_its_key_by_is_in_the_table():
    named = {name for engine in engines().values() for name in engine.key_env}
    assert named <= set(key.VARIABLES)
    assert {flag for engine in engines().values() for flag in engine.key_flags} == {key.FLAG}


class Guarded:
    """Answers 401 to all but `key`, and notes what it was shown."""

    def __init__(self, wants):
        self.wants, self.shown = wants, []

    def __call__(self, method, url, _body=None, _timeout=0.0, headers=None, *_rest):
        self.shown.append((headers or {}).get("Authorization", ""))
        return http.Answer(
            f"{method} {url}", 200 if self.wants is None or self.shown[-1] == f"Bearer {self.wants}" else 401, b"", 0.0
        )


@pytest.fixture(name="guarded")
def fixture_guarded(monkeypatch):
    server = Guarded("k")
    monkeypatch.setattr(credentials.http, "request", server)
    monkeypatch.setattr(credentials, "of_listener", lambda _url: ("old", "k"))
    return server


def test_nothing_is_shown_to_one_that_asks_for_nothing(guarded):
    guarded.wants = None
    assert credentials.request("GET", "http://h:1/health").ok
    assert guarded.shown == [""]


def test_one_that_asks_is_shown_its_own(guarded):
    assert credentials.request("GET", "http://h:1/workers").ok
    assert guarded.shown == ["", "Bearer old", "Bearer k"]


def test_given_keys_are_tried_in_turn_and_no_other(guarded):
    assert credentials.request("POST", "http://h:1/v1/completions", keys=["new", "k"]).ok
    assert guarded.shown == ["Bearer new", "Bearer k"]
    assert credentials.request("POST", "http://h:1/v1/completions", keys=["new"]).status == 401


def test_the_key_of_whoever_listens_is_read_of_its_process(tmp_path, monkeypatch):
    """And of nobody else's: neither another address's, nor of a process that may not be looked at."""
    for pid, argv, env in ((40, b"sh\0run\0", b"A=b\0VLLM_API_KEY=k\0"), (41, b"vllm\0", b"")):
        folder = tmp_path / str(pid)
        folder.mkdir()
        (folder / "cmdline").write_bytes(argv)
        (folder / "environ").write_bytes(env)
        (folder / "stat").write_text(f"{pid} (x) S {40 if pid == 41 else 1} " + "0 " * 30)
    listener = ports.Listener(8000, "127.0.0.1", 0, 7, 41, "vllm")
    monkeypatch.setattr(credentials.ports, "listening", lambda only, _root: [listener] if 8000 in only else [])
    root = str(tmp_path)
    assert credentials.of_listener("http://127.0.0.1:8000/x", root) == ("k",)
    assert credentials.of_listener("http://localhost:8000/x", root) == ("k",)
    assert credentials.of_listener("http://127.0.0.2:8000/x", root) == ()
    assert credentials.of_listener("http://192.0.2.7:8000/x", root) == (), "another host's"
    assert credentials.of_listener("http://127.0.0.1:8001", root) == ()
    assert credentials.of_listener("http://127.0.0.1:x", root) == ()
    (tmp_path / "40" / "environ").unlink()
    assert credentials.of_listener("http://127.0.0.1:8000/x", root) == ()


def test_a_title_does_not_hide_the_key(tmp_path):
    """sglang-router overwrites its command line, and its key stands nowhere else."""
    folder = tmp_path / "40"
    (folder / "cwd").mkdir(parents=True)
    (folder / "cmdline").write_bytes(b"sglang::router\0")
    (folder / "environ").write_bytes(b"")
    (folder / "stat").write_text("40 (x) S 1 " + "0 " * 30)
    run = folder / "cwd" / "run"
    run.write_text(render_run("g-router-0", "g", "/d", ["python3", "-m", "r", "--api-key", "it's k", "--port=1"]))
    assert credentials.of_process(40, str(tmp_path)) == ("it's", "k"), "several are taken one by one"
    run.write_text("#!/bin/sh\nexec other --api-key=x\n")
    assert credentials.of_process(40, str(tmp_path)) == (), "no script of ours"


def test_a_refusal_that_repeats_the_key_does_so_no_more(monkeypatch):
    said = http.Answer("GET /", 401, b"Incorrect API key provided: hunter2.", 0.0)
    monkeypatch.setattr(credentials.http, "request", lambda *_a: said)
    assert (
        credentials.request("GET", "http://h:1/v1/models", keys=["hunter2"]).excerpt().endswith("provided: ********.")
    )


def test_a_router_that_repeats_a_member_s_key_is_not_repeated(monkeypatch):
    said = http.Answer("POST /workers", 422, b'bad field in {"api_key": "hunter2"}', 0.0)
    monkeypatch.setattr(protocol, "request", lambda *_a, **_k: said)
    with pytest.raises(protocol.RegistryError) as told:
        sglang_router.DIALECT.add("http://r:1", {"url": "http://a:1", "role": "decode"}, "m", 1.0, "hunter2")
    assert "hunter2" not in str(told.value)


def test_a_proof_tries_what_the_router_was_started_with_before_the_spec_s():
    found = keys_of({"prefill": ["new"], "router": []}, ["old"], None)
    assert found == {"router": ["old"], "prefill": ["old", "new"], "decode": ["old"]}
    assert keys_of({}, [], "mine")["decode"] == ["mine"]
