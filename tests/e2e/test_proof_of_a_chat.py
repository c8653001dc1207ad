"""The proof against real engines whose chat templates differ: their prompts are alike, their chats are not."""

from __future__ import annotations

import json
import os
import subprocess
import time
import typing as t
from pathlib import Path

import pytest
from e2e.conftest import DEMO, real_group
from ports import free_ports

from ansible_collections.inferops.pd.plugins.module_utils._core.proof.asked import Asked
from ansible_collections.inferops.pd.plugins.module_utils._host.proof import Proof
from ansible_collections.inferops.pd.plugins.module_utils._probes import http

pytestmark = pytest.mark.e2e
# One that adds words of its own to every turn.
TEMPLATE = "{% for turn in messages %}Somebody says: {{ turn['content'] }}\n{% endfor %}{% if add_generation_prompt %}And you: {% endif %}"
COUNTERS = {
    "role": "decode",
    "moved": 'vllm:prompt_tokens_by_source{source="external_kv_transfer"}',
    "recomputed": 'vllm:prompt_tokens_by_source{source="local_compute"}',
}
# A machine that does much else at once still starts them.
LIMIT = 1500


@pytest.fixture(scope="module")
def urls(tmp_path_factory: pytest.TempPathFactory) -> t.Iterator[dict[str, str]]:
    """A decode, a prefill that is like it, and one with another chat template."""
    folder = Path(tmp_path_factory.mktemp("chat"))
    (folder / "other.jinja").write_text(TEMPLATE)
    engine = real_group()["engine"]
    found, processes = {}, []
    for name, role, more in (
        ("decode-0", "kv_consumer", []),
        ("prefill-0", "kv_producer", []),
        ("prefill-other", "kv_producer", [f"--chat-template={folder}/other.jinja"]),
    ):
        port, side = free_ports(2)
        connector = json.dumps({"kv_connector": "NixlConnector", "kv_role": role, "kv_buffer_device": "cpu"})
        argv = [
            engine["executable"],
            "serve",
            str(DEMO / "model"),
            *engine["args"],
            "--host=127.0.0.1",
            f"--port={port}",
            "--served-model-name=tiny",
            f"--kv-transfer-config={connector}",
            *more,
        ]
        env = {
            **os.environ,
            **engine["env"],
            "VLLM_NIXL_SIDE_CHANNEL_HOST": "127.0.0.1",
            "VLLM_NIXL_SIDE_CHANNEL_PORT": str(side),
            "UCX_NET_DEVICES": "lo",
        }
        with open(folder / f"{name}.log", "wb") as log:
            processes.append(subprocess.Popen(argv, env=env, stdout=log, stderr=log))
        found[name] = f"http://127.0.0.1:{port}"
    try:
        until = time.monotonic() + LIMIT
        for name, url in found.items():
            while not up(url):
                assert time.monotonic() < until, (folder / f"{name}.log").read_text()[-3000:]
                time.sleep(1)
        yield found
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait(60)


def up(url: str) -> bool:
    try:
        return http.get(url + "/health").ok
    except http.Unanswered:
        return False


def prove(urls: dict[str, str], *names: str) -> dict[str, t.Any]:
    plan = {
        "group": "g",
        "members": [{"id": name, "role": name.partition("-")[0], "url": urls[name]} for name in names],
        "router": {},
        "proof": {"handoff": "kv_transfer_params", "counters": COUNTERS, "exact_text": True},
        "endpoint": {"served_model_name": "tiny"},
    }
    return Proof(Asked.from_plain(plan), 60, 300, 64).run()


def test_two_chat_templates_are_found_and_decode_lives(urls: dict[str, str]) -> None:
    found = prove(urls, "prefill-other", "decode-0")
    assert not found["good"]
    (pair,) = found["pairs"]
    assert pair["chat"] == "differs", found["msg"]
    assert "chat template" in pair["why"]
    # The prompt moved and was answered: without a chat, this pair looks well.
    assert pair["text_equal"]
    assert up(urls["decode-0"])


def test_a_chat_moves_through_a_pair_that_is_alike(urls: dict[str, str]) -> None:
    found = prove(urls, "prefill-0", "decode-0")
    assert found["good"], found["msg"]
    assert found["pairs"][0]["chat"] == "equal"
