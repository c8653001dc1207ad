# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is not good leads to its cause: a failed proof to the way of the KV cache and to both logs, status to what deploy found."""

from __future__ import annotations

import pytest

from ansible_collections.inferops.pd.plugins.module_utils._core.facts.record import read as read_record
from ansible_collections.inferops.pd.plugins.module_utils._core.proof.asked import Asked
from ansible_collections.inferops.pd.plugins.module_utils._host import observe, proof
from ansible_collections.inferops.pd.plugins.module_utils._host.wait import ended
from ansible_collections.inferops.pd.plugins.module_utils._probes import http

BANDS = {"kv_side_channel": {"base": 40005, "count": 2}}


def member(name: str, number: int) -> dict:
    part = {"host": f"h{number}", "port": 40000, "ports": BANDS}
    url = f"http://10.0.0.{number}:40000"
    return {
        "id": name, "role": name.split("-")[0], "url": url, "kv_address": f"10.1.0.{number}", "parts": [part],
    }  # fmt: skip


PLAN = {
    "group": "g",
    "members": [member("prefill-0", 1), member("decode-0", 2)],
    "router": {},
    "proof": {"handoff": "kv_transfer_params", "counters": {"moved": "m", "recomputed": "r"}},
    "endpoint": {"served_model_name": "tiny"},
}


def test_a_proof_that_fails_names_the_way_of_the_kv_cache_and_what_measures_it(monkeypatch):
    def answer(method, url, *_rest):
        status, body = (200, b"m 0\nr 0\n") if url.endswith("/metrics") else (500, b"Internal Server Error")
        return http.Answer(f"{method} {url}", status, body, 0.0)

    monkeypatch.setattr(proof.credentials, "request", answer)
    found = proof.Proof(Asked.from_plain(PLAN), 1.0, 5.0, 4).run()
    way = "  KV cache: prefill-0 (10.1.0.1, kv_side_channel 40005-40006) -> decode-0 (10.1.0.2, kv_side_channel 40005-40006)"
    assert way in found["table"]
    assert found["table"][-1] == (
        "  What is between them is measured by: ansible-playbook inferops.pd.preflight -e pd_group=g"
    )
    assert found["why"].startswith("prefill-0 -> decode-0: Sending a prompt to prefill prefill-0: POST ")
    assert "500 'Internal Server Error'" in found["why"]


def test_a_good_proof_names_nothing_of_it():
    assert proof._way(Asked.from_plain(PLAN), []) == []


def test_a_record_of_before_has_no_reason():
    assert read_record({"schema": 2, "group": "g", "endpoint": {"url": "http://r:1"}}, "x").endpoint.why == ""


# -- members that end over and over ------------------------------------------------------------------------------------------------------

LOOP = [
    "INFO 11-29 14:53:24 loading",
    "ValueError: the quantization method fp9 is not known",
    "Exception ignored in atexit",
]


class Runtime:
    def __init__(self, lines):
        self.lines = lines

    def logs(self, _group, _member, _count):
        return self.lines


@pytest.mark.parametrize(("state", "restarts"), [("exited", 0), ("restarting", 4), ("running", 4)])
def test_the_reason_of_a_crash_loop_is_the_one_that_deploy_found(state, restarts):
    label = {"group": "g", "member": "g-decode-0", "role": "decode", "runtime": "docker", "backend": "vLLM"}
    live = {
        "label": label,
        "state": state,
        "ready": False,
        "restarts": restarts,
        "why": "exit status 1",
        "log_line": "z",
    }
    observe.mark_stuck(live, {"docker": Runtime(LOOP)})
    assert live["why"].startswith("exit status 1; ")
    assert "fp9" in live["why"]
    assert live["log_line"] == "", "how the log ends is no reason"


def test_one_that_loads_for_the_first_time_keeps_its_reason():
    label = {"group": "g", "member": "g-decode-0", "role": "decode", "runtime": "docker", "backend": "vLLM"}
    live = {"label": label, "state": "running", "ready": False, "restarts": 0, "why": "no answer", "log_line": "z"}
    observe.mark_stuck(live, {"docker": Runtime(["ERROR something that vLLM always says"])})
    assert live["why"] == "no answer"


def test_a_log_without_a_reason_says_none():
    label = {"group": "g", "member": "g-decode-0", "role": "decode", "backend": "vLLM"}
    assert ended({"label": label}, ["INFO all is well"]) == ""
