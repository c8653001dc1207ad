# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The proof against engines that answer anything at all: it says so in a sentence for each pair, and never falls over."""

from __future__ import annotations

import json

import pytest

from ansible_collections.inferops.pd.plugins.module_utils._core.proof.asked import Asked, Counters, Engine
from ansible_collections.inferops.pd.plugins.module_utils._core.proof.completion import Completion, context_of
from ansible_collections.inferops.pd.plugins.module_utils._host import proof
from ansible_collections.inferops.pd.plugins.module_utils._probes import http

GOOD = {
    "choices": [{"text": "a b", "logprobs": {"tokens": ["a", " b"], "top_logprobs": [{"a": -0.1}, None]}}],
    "usage": {"prompt_tokens": 9, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 8}},
    "kv_transfer_params": {"remote_port": 1},
}


def test_a_completion_is_read_once():
    found = Completion.read(GOOD)
    assert (found.text, found.prompt_tokens, found.completion_tokens, found.cached_tokens) == ("a b", 9, 2, 8)
    assert found.generated.tokens == ("a", " b")
    assert found.generated.top == ({"a": -0.1}, {})
    assert found.carried("kv_transfer_params") == {"remote_port": 1}
    assert Completion.read({"choices": [{"message": {"content": "chat"}}]}).text == "chat"


NONE = [None, 1, "x", [], [1], {}, {"choices": 0}, {"choices": {}}, {"choices": []}, {"choices": [0]}, {"choices": "ab"}]  # fmt: skip
ODD = [
    {"choices": [{}]},
    {"choices": [{"text": 1}], "usage": 7},
    {"choices": [{"text": None, "logprobs": [1]}], "usage": {"prompt_tokens": "9"}},
    {"choices": [{"text": "x", "logprobs": {"tokens": 1, "top_logprobs": [1, {"a": "b"}]}}], "usage": []},
    {"choices": [{"text": "\ud800\x1b[2J"}], "usage": {"prompt_tokens": -1, "prompt_tokens_details": 4}},
    {"choices": [{"message": 1}], "kv_transfer_params": "x"},
    {"choices": [{"text": "x"}], "usage": {"prompt_tokens": True, "completion_tokens": 1e99}},
]


@pytest.mark.parametrize("found", NONE, ids=repr)
def test_what_is_no_completion_is_none(found):
    assert Completion.read(found) is None


@pytest.mark.parametrize("found", ODD, ids=range(len(ODD)))
def test_what_is_of_another_kind_is_as_if_it_were_not_there(found):
    read = Completion.read(found)
    assert isinstance(read.text, str)
    assert read.prompt_tokens is None
    assert read.cached_tokens is None
    assert read.carried("kv_transfer_params") is None
    assert all(isinstance(v, float) for position in read.generated.top for v in position.values())


@pytest.mark.parametrize(
    ("found", "length"),
    [
        ({"data": [{"max_model_len": 4096}, {"max_model_len": 2048}, {"max_model_len": None}, 1]}, 2048),
        *((one, None) for one in (None, [1], {}, {"data": 1}, {"data": [1]}, {"data": [{"max_model_len": "x"}]})),
    ],
)
def test_the_context_is_what_a_list_of_models_names(found, length):
    assert context_of(found) == length


BODIES = [
    *(json.dumps(one).encode() for one in [*NONE, *ODD]),
    *(b"[" * 200000, b"", b"\xff", b'{"choices": [{"text": NaN}]}'),
]
MOVED = Counters(moved="moved", recomputed="again")


@pytest.mark.parametrize("body", BODIES, ids=lambda body: repr(body[:40]))
@pytest.mark.parametrize("good", [(), ("/metrics",), ("/metrics", "/v1/models")], ids=repr)
def test_a_proof_falls_over_nothing_that_is_answered(monkeypatch, body, good):
    """Whatever router and engines say to all that is asked, or to a part of it."""
    said = {"/metrics": b"moved 1\nagain 0\n", "/v1/models": b'{"data": []}'}

    def answer(method, url, *_rest, **_more):
        path = "/" + url.split("/", 3)[3]
        return http.Answer(f"{method} {url}", 200, said[path] if path in good else body, 0.0)

    monkeypatch.setattr(proof.credentials, "request", answer)
    monkeypatch.setattr(proof, "SETTLE_FOR", 0.0)
    engines = (Engine("prefill-0", "prefill", "http://p:1"), Engine("decode-0", "decode", "http://d:1"))
    asked = Asked("g", "m", "http://r:1", engines, "kv_transfer_params", MOVED)
    found = proof.Proof(asked, 1.0, 5.0, 4).run()
    assert found["good"] is False
    assert found["router"]["why"]
    assert found["pairs"][0]["why"]
    assert all(line.isprintable() for line in found["table"]), found["table"]
