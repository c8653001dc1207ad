# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The proof against stand-in engines that are good, silently wrong, or busy. (Against real engines: tests/e2e.)"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
import typing as t
import urllib.request

import pytest
from integration import support_runtime as support
from ports import free_ports
from support import ROOT

from ansible_collections.inferops.pd.plugins.module_utils._core.proof.asked import Asked
from ansible_collections.inferops.pd.plugins.module_utils._host.proof import Proof
from ansible_collections.inferops.pd.plugins.module_utils._probes import http, metrics

pytestmark = pytest.mark.integration
COUNTERS = {
    "role": "decode",
    "moved": 'vllm:prompt_tokens_by_source{source="external_kv_transfer"}',
    "recomputed": 'vllm:prompt_tokens_by_source{source="local_compute"}',
    "bytes": "vllm:nixl_bytes_transferred_sum",
    "seconds": "vllm:nixl_xfer_time_seconds_sum",
    "must_not_grow": ["vllm:nixl_num_failed_transfers", "vllm:nixl_num_kv_expired_reqs"],
}


class Engines:
    """Stand-in engines by name, each with its behaviour."""

    def __init__(self) -> None:
        self.urls: dict[str, str] = {}
        self.processes: list[subprocess.Popen[bytes]] = []

    def start(self, name: str, role: str, *args: str, **env: str) -> None:
        port, side = free_ports(2)
        config = json.dumps({"kv_role": role}) if role else "{}"
        argv = [
            sys.executable,
            str(ROOT / "tests/standin/engine.py"),
            "serve",
            "/m",
            "--host=127.0.0.1",
            f"--port={port}",
        ]
        argv += ["--served-model-name=tiny", f"--kv-transfer-config={config}", *args]
        own = {
            "VLLM_NIXL_SIDE_CHANNEL_HOST": "127.0.0.1",
            "VLLM_NIXL_SIDE_CHANNEL_PORT": str(side),
            "STANDIN_LOAD": "0",
        }
        process = subprocess.Popen(
            argv, env={**os.environ, **own, **env}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        self.processes.append(process)
        self.urls[name] = f"http://127.0.0.1:{port}"
        support.wait_for(lambda: self.up(name), 10, f"{name} is ready")

    def up(self, name: str) -> bool:
        try:
            return http.get(self.urls[name] + "/health").ok
        except http.Unanswered:
            return False

    def scrape(self, name: str, counter: str) -> float:
        return metrics.parse(http.get(self.urls[name] + "/metrics").text).total(counter) or 0.0

    def plan(self, *names: str, router: str | None = None, **proof: t.Any) -> dict[str, t.Any]:
        return {
            "group": "g",
            "members": [{"id": n, "role": n.partition("-")[0], "url": self.urls[n]} for n in names],
            "router": {"member": {"url": router}} if router else {},
            "proof": {"handoff": "kv_transfer_params", "counters": COUNTERS, "exact_text": True, **proof},
            "endpoint": {"served_model_name": "tiny"},
        }

    def prove(self, *names: str, timeout: float = 10, **plan: t.Any) -> dict[str, t.Any]:
        return Proof(Asked.from_plain(self.plan(*names, **plan)), timeout, 60, 64).run()


@pytest.fixture(scope="module")
def engines() -> t.Iterator[Engines]:
    made = Engines()
    made.start("prefill-0", "kv_producer")
    made.start("prefill-plain", "", STANDIN_FAIL="no_kv")
    made.start("prefill-500", "kv_producer", STANDIN_FAIL="http500")
    made.start("decode-0", "kv_consumer")
    made.start("prefill-long-template", "kv_producer", "--chat-template=/srv/another-template.jinja")
    made.start("prefill-other-template", "kv_producer", "--chat-template=the Model")
    made.start("prefill-no-chat", "kv_producer", STANDIN_FAIL="no_chat")
    made.start("decode-no-chat", "kv_consumer", STANDIN_FAIL="no_chat")
    made.start("decode-garbage", "kv_consumer", STANDIN_GARBAGE="1")
    made.start("decode-recompute", "kv_consumer", STANDIN_RECOMPUTE="1")
    yield made
    for process in made.processes:
        process.kill()
        process.wait(10)


def test_a_good_pair(engines: Engines) -> None:
    found = engines.prove("prefill-0", "decode-0")
    assert found["good"], found["msg"]
    pair = found["pairs"][0]
    assert pair["prompt_tokens"] == pair["transferred_tokens"] > 150
    assert pair["recomputed_tokens"] == 0
    assert pair["bytes"] == pair["prompt_tokens"] * 1024
    assert pair["gb_per_s"] > 0
    assert pair["text_equal"] is True
    assert pair["answer"] == pair["alone"] != ""


def test_a_chat_is_sent_through_a_pair(engines: Engines) -> None:
    assert engines.prove("prefill-0", "decode-0")["pairs"][0]["chat"] == "equal"


@pytest.mark.parametrize(
    ("prefill", "says"),
    [
        ("prefill-long-template", ["tokens to prefill-long-template", "chat template"]),
        ("prefill-other-template", ["other tokens to prefill-other-template", "chat template"]),
    ],
)
def test_a_chat_that_the_two_read_otherwise_is_not_sent(engines: Engines, prefill: str, says: list[str]) -> None:
    served = engines.scrape("decode-0", "vllm:request_success_total")
    found = engines.prove(prefill, "decode-0")
    assert not found["good"]
    pair = found["pairs"][0]
    assert pair["chat"] == "differs"
    assert pair["transferred_tokens"] == pair["prompt_tokens"]
    for text in says:
        assert text in pair["why"]
    # The prompt of the pair alone: no chat.
    assert engines.scrape("decode-0", "vllm:request_success_total") == served + 1


def test_a_model_without_a_chat_template_is_proven_by_prompts(engines: Engines) -> None:
    found = engines.prove("prefill-no-chat", "decode-no-chat")
    assert found["good"], found["msg"]
    assert found["pairs"][0]["chat"] == "not offered"


def test_one_side_that_takes_no_chat(engines: Engines) -> None:
    found = engines.prove("prefill-0", "decode-no-chat")
    assert not found["good"]
    assert "decode-no-chat takes no chat" in found["pairs"][0]["why"]


def test_each_run_proves_with_prompts_of_its_own(engines: Engines) -> None:
    assert (
        engines.prove("prefill-0", "decode-0")["pairs"][0]["answer"]
        != engines.prove("prefill-0", "decode-0")["pairs"][0]["answer"]
    )


@pytest.mark.parametrize(
    ("prefill", "decode", "words"),
    [
        ("prefill-0", "decode-recompute", "were transferred"),
        ("prefill-0", "decode-garbage", "not what prefill alone gives"),
        ("prefill-plain", "decode-0", "without kv_transfer_params"),
        ("prefill-500", "decode-0", "answered 500 'Internal server error'"),
    ],
)
def test_a_pair_that_only_looks_good(engines: Engines, prefill: str, decode: str, words: str) -> None:
    found = engines.prove(prefill, decode, "prefill-0", "decode-0")
    assert not found["good"]
    by_pair = {(p["prefill"], p["decode"]): p for p in found["pairs"]}
    assert words in by_pair[(prefill, decode)]["why"]
    assert by_pair[("prefill-0", "decode-0")]["good"]
    assert words in found["msg"]


def test_garbage_is_seen_by_its_unlikeliness_where_texts_may_differ(engines: Engines) -> None:
    found = engines.prove("prefill-0", "decode-garbage", exact_text=False)
    assert "unlikely" in found["pairs"][0]["why"]


def test_a_router_that_leads_requests_past_prefill_is_seen(engines: Engines) -> None:
    """What answers as router here is a decode member: 200 with the right text, and nothing was transferred."""
    found = engines.prove("prefill-0", "decode-0", router=engines.urls["decode-0"])
    assert not found["good"]
    assert "it answered, but behind it 0 of" in found["router"]["why"]
    assert found["pairs"][0]["good"]


@pytest.mark.parametrize(("through", "good"), [("decode-0", True), ("prefill-0", True)])
def test_other_traffic_does_not_spoil_it(engines: Engines, through: str, good: bool) -> None:
    stop = threading.Event()

    def load() -> None:
        number = 0
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        while not stop.is_set():
            number += 1
            body = json.dumps({"model": "tiny", "prompt": f"other {number} " * 40, "max_tokens": 2}).encode()
            request = urllib.request.Request(
                engines.urls[through] + "/v1/completions", body, {"Content-Type": "application/json"}
            )
            opener.open(request, timeout=10).read()

    threads = [threading.Thread(target=load) for _number in range(2)]
    for thread in threads:
        thread.start()
    try:
        found = engines.prove("prefill-0", "decode-0")
    finally:
        stop.set()
        for thread in threads:
            thread.join(20)
    assert found["good"] is good, found["msg"]
    assert found["pairs"][0]["recomputed_tokens"] == 0


def test_other_traffic_does_not_hide_a_pair_that_recomputes(engines: Engines) -> None:
    stop = threading.Event()

    def load() -> None:
        while not stop.is_set():
            Proof(Asked.from_plain(engines.plan("prefill-0", "decode-recompute")), 10, 5, 1).run()

    thread = threading.Thread(target=load)
    thread.start()
    try:
        assert not engines.prove("prefill-0", "decode-recompute")["good"]
    finally:
        stop.set()
        thread.join(20)


def asked_of_module(check: bool = False, **workloads: dict[str, t.Any]) -> dict[str, t.Any]:
    """What the module says of workloads, by name."""
    given = [{"group": group, **one} for group, one in workloads.items()]
    return support.module_direct("group_proof", {"workloads": given}, check=check)


def test_the_module(engines: Engines) -> None:
    plan = engines.plan("prefill-0", "decode-0", "decode-recompute")
    answer = asked_of_module(
        g={"plan": plan, "members": ["prefill-0", "decode-0"]}, bad={"plan": plan}, broken={"plan": {"group": "broken"}}
    )
    assert (answer["changed"], answer.get("failed", False)) == (False, False)
    told, bad, broken = (answer["workloads"][name] for name in ("g", "bad", "broken"))
    assert (told["good"], told["failed"], told["changed"]) == (True, False, False)
    assert "1 of 1 pairs" in told["msg"]
    assert (bad["failed"], bad["good"]) == (True, False)
    assert "1 of 2 pairs" in bad["msg"]
    assert (broken["failed"], broken["good"]) == (True, False)
    assert "Proving group broken: The plan cannot be read: it has no 'endpoint'" in broken["msg"]
    assert asked_of_module(check=True, g={"plan": plan})["skipped"] is True
    assert "needs its action plugin" in support.module_direct("group_proof", {"run": "/tmp/r"})["msg"]


def test_members_that_cannot_be_asked_do_not_make_a_router_wrong(engines: Engines) -> None:
    """The router keeps one whose host does not answer: a request that goes there proves nothing, either way."""
    plan = engines.plan("prefill-0", "decode-0", router=engines.urls["decode-0"])
    plan["router"]["spare"] = ["http://127.0.0.1:9"]
    found = Proof(Asked.from_plain(plan), 10, 60, 64).run()
    assert found["good"], found["msg"]
    assert (
        "not judged: requests may go to http://127.0.0.1:9, which cannot be asked now (it answered, but" in found["msg"]
    )
    plan["members"][1]["url"] = engines.urls["decode-garbage"]
    assert not Proof(Asked.from_plain(plan), 10, 60, 64).run()["good"], "the pairs are judged all the same"


OURS, OLD = "1a2b3c4d-0000-4000-8000-000000000000", "9f8e7d6c-0000-4000-8000-000000000000"


def formed(engines: Engines, **formations: str | None) -> dict[str, t.Any]:
    plan = {**engines.plan("prefill-0", "decode-0"), "formation": OURS}
    told = {name.replace("_", "-"): its for name, its in formations.items()}
    answer = asked_of_module(g={"plan": plan, "formations": told})
    return t.cast("dict[str, t.Any]", answer["workloads"]["g"])


def test_the_table_says_of_which_formation_all_are(engines: Engines) -> None:
    told = formed(engines, prefill_0=OURS, decode_0=OURS)
    assert told["good"] is True
    assert told["table"][0] == "all 2 members are of formation 1a2b3c4d"


@pytest.mark.parametrize("unknown", [None, ""])
def test_what_cannot_be_told_is_noted(engines: Engines, unknown: str | None) -> None:
    told = formed(engines, prefill_0=OURS, decode_0=unknown)
    assert told["good"] is True
    assert told["table"][0].startswith("1 of 2 members are of formation 1a2b3c4d; formation not known: decode-0 (")
    assert formed(engines)["table"][0].startswith("formation not known: decode-0, prefill-0 (")


def test_a_member_of_another_formation_is_told_before_anything_is_sent(engines: Engines) -> None:
    before = http.get(engines.urls["decode-0"] + "/metrics").text
    told = formed(engines, prefill_0=OURS, decode_0=OLD)
    assert (told["failed"], told["good"], told["pairs"]) == (True, False, [])
    assert "nothing was sent" in told["msg"]
    assert told["table"][0] == "decode-0 is of formation 9f8e7d6c, the group is of 1a2b3c4d"
    assert "inferops.pd.restart -e pd_group=g" in told["msg"]
    assert http.get(engines.urls["decode-0"] + "/metrics").text == before


def test_members_that_are_not_proven_are_not_compared(engines: Engines) -> None:
    plan = {**engines.plan("prefill-0", "decode-0", "decode-recompute"), "formation": OURS}
    given = {"prefill-0": OURS, "decode-0": OURS, "decode-recompute": OLD}
    some = {"plan": plan, "formations": given, "members": ["prefill-0", "decode-0"]}
    assert asked_of_module(g=some)["workloads"]["g"]["good"] is True


def test_a_plan_without_a_formation_still_wants_one_for_all(engines: Engines) -> None:
    plan = engines.plan("prefill-0", "decode-0")
    found = Proof(Asked.from_plain(plan), 5, 20, 4, formations={"prefill-0": OURS, "decode-0": OLD}).run()
    assert not found["good"]
    assert found["table"][0] == "prefill-0 is of formation 1a2b3c4d, decode-0 is of 9f8e7d6c"
    assert Proof(Asked.from_plain(plan), 5, 20, 4).run()["good"], "without formations nothing is compared"


def test_a_member_that_never_answers_costs_its_deadline_and_no_more(engines: Engines) -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as silent:
        engines.urls["decode-silent"] = f"http://127.0.0.1:{silent.getsockname()[1]}"
        started = time.monotonic()
        proof = Proof(Asked.from_plain(engines.plan("prefill-0", "decode-silent")), 1, 3, 64)
        found = proof.run()
    assert not found["good"]
    assert "no answer within" in found["msg"]
    assert time.monotonic() - started < 25
