"""A real group with a KV cache beside the transfer: a user's own mode whose provider is the one store connector of vLLM that runs on a CPU.

What prefill has stored is found again after it was killed, by the engine's counters, and nothing of that changes an answer."""

from __future__ import annotations

import json
import os
import signal
import typing as t
import urllib.request
from pathlib import Path

import pytest
from e2e.conftest import real_group
from support import ROOT, Site

pytestmark = pytest.mark.e2e
PORT = 28290
# A machine that does much else at once still starts them.
LONG = 1500
# Nine blocks of 32 tokens, each of which is stored when it is full.
PROMPT = "once upon a time there was a host with a cache of its own, and " * 8


def get(port: int, path: str, body: dict[str, t.Any] | None = None) -> str:
    data = json.dumps(body).encode() if body else None
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", data, {"Content-Type": "application/json"})
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=120) as answer:
        return t.cast("str", answer.read().decode())


def ask(prompt: str) -> str:
    body = {"model": "tiny", "prompt": prompt, "max_tokens": 12, "temperature": 0}
    return t.cast("str", json.loads(get(PORT, "/v1/completions", body))["choices"][0]["text"])


def label(site: Site, member: str) -> dict[str, t.Any]:
    found = site.state / "groups" / "real" / "members" / member / "label.json"
    return t.cast("dict[str, t.Any]", json.loads(found.read_text()))


def hits(site: Site) -> float:
    """Prompt tokens that prefill took from a cache that is not its own memory."""
    text = get(label(site, "real-prefill-0")["port"], "/metrics")
    lines = [x for x in text.splitlines() if x.startswith("vllm:external_prefix_cache_hits_total")]
    return sum(float(line.rpartition(" ")[2]) for line in lines)


def pid_of(site: Site, member: str) -> int:
    rows = [line.split() for line in site.play("status").ok().out.splitlines()]
    return next(int(row[4]) for row in rows if row[:1] == [member])


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(tmp_path_factory.mktemp("kv store"))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, store: Path) -> t.Iterator[Site]:
    folder = Path(tmp_path_factory.mktemp("site"))
    cache = {"provider": "example", "options": {"shared_storage_path": str(store)}}
    group = real_group(mode="vllm-nixl-store", kv_cache=cache)
    group["roles"]["router"]["port"] = PORT
    group["limits"]["start"] = 900
    host = {"pd_port_range": "28200-28263", "pd_modes_path": str(ROOT / "examples" / "modes")}
    made = Site(folder, {"node": host}, {"real": group})
    yield made
    made.play("remove", pd_group="real", pd_break_lock="true")
    made.end_processes()


def test_a_second_prompt_after_a_killed_prefill_is_served_from_the_store(site: Site, store: Path) -> None:
    shown = site.play("deploy", "--check", "--diff").ok().out
    assert '"kv_connector":"ExampleConnector"' in shown
    assert "cache example: the roles that the mode allows (not decode:" in shown
    site.play("deploy", timeout=LONG).ok()
    assert label(site, "real-prefill-0")["cache"]["injected"] is True
    first = ask(PROMPT)
    assert hits(site) == 0
    assert any(store.iterdir())
    os.kill(pid_of(site, "real-prefill-0"), signal.SIGKILL)
    site.play("deploy", timeout=LONG).ok()
    assert hits(site) == 0
    assert ask(PROMPT) == first
    assert hits(site) >= 128


def test_without_the_cache_the_answer_is_the_same(site: Site) -> None:
    first = ask(PROMPT)
    site.groups["real"]["kv_cache"] = None
    site.write()
    assert "prefill cache" in site.play("deploy", "--diff").ok().out
    site.play("restart", timeout=LONG, pd_group="real").ok()
    assert "cache" not in label(site, "real-prefill-0")
    assert ask(PROMPT) == first
    assert hits(site) == 0
