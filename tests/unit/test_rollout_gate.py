# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is counted of a group, and what its gate makes of it."""

from __future__ import annotations

import json
import math
import threading
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

import pytest
from builders import Fleet, spec

from ansible_collections.inferops.pd.plugins.module_utils._core.base.checked import Checked, DamagedError
from ansible_collections.inferops.pd.plugins.module_utils._core.facts.observed import LiveMember, read_host
from ansible_collections.inferops.pd.plugins.module_utils._core.proof.measured import (
    Measured,
    Reading,
    Readings,
    measured,
    p95,
)
from ansible_collections.inferops.pd.plugins.module_utils._core.rollout.gate import verdict
from ansible_collections.inferops.pd.plugins.module_utils._core.rollout.spec import Gate, Prometheus
from ansible_collections.inferops.pd.plugins.module_utils._engines import registry
from ansible_collections.inferops.pd.plugins.module_utils._host import measure
from ansible_collections.inferops.pd.plugins.module_utils._probes import metrics
from ansible_collections.inferops.pd.plugins.module_utils._routers import DIALECTS
from ansible_collections.inferops.pd.plugins.plugin_utils import _prometheus
from ansible_collections.inferops.pd.plugins.plugin_utils._counted import read_of

BUCKETS = {0.1: 50.0, 0.2: 90.0, 0.4: 100.0, math.inf: 100.0}


def group(requests=1000.0, errors=1.0, scale=1.0, at=1000.0, **more) -> Readings:
    """A group that has had so many requests; its first tokens took `scale` times what they do."""
    ttft = {le if math.isinf(le) else le * scale: count * requests / 100 for le, count in BUCKETS.items()}
    members = {
        "g-router": Reading("router", requests, errors),
        "g-prefill-0": Reading("prefill", requests, 0.0, ttft),
        "g-decode-0": Reading("decode", requests, errors, ttft),
    }
    return Readings(at, {**members, **more})


# -- what an interval comes to ----------------------------------------------------------------------------------------------------


def test_a_percentile_is_interpolated_within_its_bucket():
    assert p95(BUCKETS) == pytest.approx(0.3)
    assert p95({0.1: 0.0, math.inf: 0.0}) is None
    assert p95({}) is None
    assert p95({0.1: 10.0, math.inf: 100.0}) == 0.1, "of what is beyond the last bound no more is known"


def test_what_was_counted_between_two_readings():
    found = measured(group(), group(1500.0, 4.0, at=1600.0))
    assert (found.seconds, found.requests, found.errors) == (600.0, 500.0, 3.0)
    assert found.error_ratio == pytest.approx(0.006)
    assert found.ttft_p95 == pytest.approx(0.6), "a request is in the prefill and then in the decode"
    since_start = measured(None, group())
    assert (since_start.seconds, since_start.requests) == (None, 1000.0)


def test_requests_are_those_of_clients():
    last = group()
    assert measured(None, last).requests == 1000.0, "the router's, and not those of each engine with it"
    engines = {name: one for name, one in last.members.items() if one.role != "router"}
    assert measured(None, Readings(0, engines)).requests == 1000.0, "without one the decodes'"


def test_a_process_that_began_anew_in_the_soak_is_told():
    anew = group(1500.0, **{"g-decode-0": Reading("decode", 3.0, 0.0, {0.1: 3.0})})
    assert measured(group(), anew).restarted == ("g-decode-0",)
    gone = Readings(1600.0, {name: one for name, one in group(1500.0).members.items() if name != "g-decode-0"})
    assert measured(group(), gone).restarted == (), "a host that did not answer is no failure of the group"
    assert measured(group(), gone).why == "g-decode-0: nothing was read of it"


def test_readings_are_kept_as_they_were():
    one = group(**{"g-decode-1": Reading("decode", missing=("vllm:x",), why="refused")})
    assert Readings.read(Checked(one.to_plain(), "the record")) == one
    assert json.loads(json.dumps(one.to_plain())) == one.to_plain()
    both = measured(group(), one)
    assert Measured.read(Checked(both.to_plain(), "the record")) == both


@pytest.mark.parametrize("ttft", [{"fast": 1}, {"nan": 1}, {"0.1": "x"}, {str(n): 1 for n in range(300)}])
def test_a_damaged_reading_is_told_as_that(ttft):
    with pytest.raises(DamagedError, match="the record"):
        Reading.read(Checked({"role": "decode", "ttft": ttft}, "the record"))


# -- the verdict ------------------------------------------------------------------------------------------------------------------

GATE = Gate(errors=0.01, ttft_p95=1.2, min_requests=100)
BEFORE = Measured(None, 5000.0, 5.0, 0.25)
GOOD = Measured(600.0, 400.0, 2.0, 0.26)


@pytest.mark.parametrize(
    ("change", "state", "told"),
    [
        ({}, "passed", "400 requests, 0.5 percent failed, first token within 260 ms (250 ms before)"),
        (
            {"errors": 5.0},
            "failed",
            "5 of 400 requests failed (1.25 percent, 0.1 percent before), and at most 1 percent may",
        ),
        ({"errors": 4.0}, "passed", "1 percent failed"),
        ({"ttft_p95": 0.31}, "failed", "1.2 times the 250 ms before; at most 1.2 times"),
        ({"ttft_p95": 0.30}, "passed", ""),
        ({"requests": 99.0, "errors": 0.0}, "not judged", "99 of at least 100 requests"),
        ({"requests": 10.0, "errors": 2.0}, "failed", "2 of 10 requests failed"),
        ({"requests": 10.0, "errors": 1.0}, "not judged", "10 of at least 100"),
        ({"requests": 10.0, "errors": 0.0, "ttft_p95": 9.0}, "not judged", "10 of at least 100"),
        ({"requests": None, "errors": None, "missing": ("vllm_router_x",)}, "not judged", "vllm_router_x"),
        ({"errors": None, "missing": ("smg_x",)}, "not judged", "there is no metric smg_x"),
        ({"ttft_p95": None, "why": "g-decode-0: refused"}, "not judged", "g-decode-0: refused"),
        ({"restarted": ("g-decode-0",)}, "failed", "g-decode-0 was started again in the soak"),
    ],
)
def test_the_verdict_says_why(change, state, told):
    found = verdict(GATE, BEFORE, replace(GOOD, **change))
    assert (found.state, told in found.why) == (state, True), found


@pytest.mark.parametrize("after", [{"requests": 0.0, "errors": 0.0}, {"requests": None}, {"ttft_p95": None}])
def test_what_is_not_judged_passes_with_no_least_number_of_requests_and_is_said(after):
    found = verdict(replace(GATE, min_requests=0), BEFORE, replace(GOOD, **after))
    assert found.state == "passed"
    assert found.why.startswith("not judged: ")


def test_what_was_never_measured_before_cannot_be_compared():
    assert verdict(GATE, None, GOOD).state == "not judged"
    assert "nothing was counted before it stopped" in verdict(GATE, None, GOOD).why
    assert verdict(Gate(errors=0.01, min_requests=10), None, GOOD).state == "passed"


def test_a_gate_that_compares_nothing_passes():
    assert verdict(Gate(), None, Measured()).state == "passed"


# -- reading metrics --------------------------------------------------------------------------------------------------------------

VLLM = """\
vllm:request_success_total{engine="0",finished_reason="stop",model_name="m"} 90.0
vllm:request_success_total{engine="0",finished_reason="error",model_name="m"} 2.0
vllm:request_success_total{engine="1",finished_reason="length",model_name="m"} 8.0
vllm:time_to_first_token_seconds_bucket{engine="0",le="0.1",model_name="m"} 40.0
vllm:time_to_first_token_seconds_bucket{engine="1",le="0.1",model_name="m"} 4.0
vllm:time_to_first_token_seconds_bucket{engine="0",le="+Inf",model_name="m"} 92.0
vllm:time_to_first_token_seconds_bucket{engine="1",le="+Inf",model_name="m"} 8.0
"""
# A page of vllm-router 0.1.17 with ten requests, of which six failed at a member; and one of sglang-router 0.3.2 with five, of which three.
VLLM_ROUTER = """\
vllm_router_request_errors_total{route="/v1/completions",error_type="no_available_workers"} 5
vllm_router_pd_prefill_errors_total{worker="http://127.0.0.1:38101"} 2
vllm_router_pd_decode_requests_total{worker="http://127.0.0.1:38102"} 8
vllm_router_pd_requests_total{route="/v1/completions"} 10
vllm_router_pd_decode_errors_total{worker="http://127.0.0.1:38102"} 4
vllm_router_pd_prefill_requests_total{worker="http://127.0.0.1:38101"} 8
"""
SGLANG_ROUTER = """\
smg_worker_errors_total{worker_type="decode",connection_mode="http",error_type="backend_error"} 10
smg_http_responses_total{status_code="200",error_code=""} 3
smg_http_responses_total{status_code="503",error_code="server_selection_failed"} 1
smg_http_responses_total{status_code="500",error_code="decode_internal_error"} 2
smg_router_requests_total{router_type="http",backend_type="pd",connection_mode="http",model="m",endpoint="completions",streaming="false"} 5
"""


def read(page: str, role: str, counted) -> Reading:
    return measure.of_page(metrics.parse(page), {"id": "m", "role": role, "url": "http://m", **counted.of(role)})


def test_what_each_kind_of_process_counts():
    vllm, sglang = registry.by_backend("vLLM").counted, registry.by_backend("SGLang").counted
    found = read(VLLM, "decode", vllm)
    assert (found.requests, found.errors, found.ttft, found.missing) == (100.0, 2.0, {0.1: 44.0, math.inf: 100.0}, ())
    router = read(VLLM_ROUTER, "router", DIALECTS["vllm-router"].counted)
    assert (router.requests, router.errors, router.ttft, router.missing) == (10.0, 6.0, {}, ())
    router = read(SGLANG_ROUTER, "router", DIALECTS["sglang-router"].counted)
    assert (router.requests, router.errors) == (5.0, 3.0)
    # The decode's time holds the prefill's already.
    page = 'sglang:num_requests_total 7\nsglang:time_to_first_token_seconds_bucket{le="0.5"} 7\n'
    assert read(page, "decode", sglang).ttft == {0.5: 7.0}
    assert read(page, "prefill", sglang).ttft == {}
    assert read(page, "decode", sglang).errors == 0.0, "a counter that appears with its first use"


def test_a_missing_metric_is_told_by_its_name():
    found = read("vllm:other 1\n", "decode", registry.by_backend("vLLM").counted)
    assert (found.requests, found.errors, found.ttft) == (None, None, {})
    assert found.missing[0] == "vllm:request_success_total"
    assert found.missing[-1] == "vllm:time_to_first_token_seconds"
    found = read("sglang:num_requests_total 7\n", "decode", registry.by_backend("SGLang").counted)
    assert found.missing == ("sglang:time_to_first_token_seconds",), "it has had requests, and no time of any"


@pytest.fixture(name="server")
def a_server():
    """A stand-in for whatever answers over HTTP: `answers` by path, or by query."""

    class Handler(BaseHTTPRequestHandler):
        answers: dict = {}  # noqa: RUF012

        def do_GET(self):
            parts = urlsplit(self.path)
            key = parse_qs(parts.query).get("query", [parts.path])[0]
            status, body = self.answers.get(key, (404, "nothing here"))
            self.send_response(status)
            self.end_headers()
            self.wfile.write((body if isinstance(body, str) else json.dumps(body)).encode())

        def log_message(self, *_args):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=lambda: server.serve_forever(0.02), daemon=True)
    thread.start()
    Handler.url = f"http://127.0.0.1:{server.server_port}"
    yield Handler
    server.shutdown()
    server.server_close()
    thread.join()


def test_members_are_read_side_by_side_and_one_that_does_not_answer_is_told(server):
    server.answers = {"/metrics": (200, VLLM)}
    counted = registry.by_backend("vLLM").counted
    members = [
        {"id": "g-decode-0", "role": "decode", "url": f"{server.url}/metrics", **counted.of("decode")},
        {"id": "g-decode-1", "role": "decode", "url": f"{server.url}/elsewhere", **counted.of("decode")},
        {"id": "g-decode-2", "role": "decode", "url": "http://127.0.0.1:1/metrics", **counted.of("decode")},
    ]
    found = measure.measure({"g": members})["g"]["members"]
    assert found["g-decode-0"]["requests"] == 100.0
    assert "404" in found["g-decode-1"]["why"]
    assert "refused" in found["g-decode-2"]["why"]
    after = measured(None, Readings(0, {name: Reading.read(Checked(one, "it")) for name, one in found.items()}))
    assert after.requests == 100.0
    assert "g-decode-1" in after.why


# -- Prometheus -------------------------------------------------------------------------------------------------------------------

SERVER = Prometheus("", errors='e{g="${group}"}[${seconds}s]', ttft_p95="t", requests="r")


def vector(*values):
    result = [{"metric": {}, "value": [1, value]} for value in values]
    return {"status": "success", "data": {"resultType": "vector", "result": result}}


def test_a_prometheus_server_is_asked_for_numbers_of_the_group(server):
    server.answers = {
        'e{g="g1"}[600s]': (200, vector("0.02")),
        "t": (200, {"status": "success", "data": {"resultType": "scalar", "result": [1, "0.25"]}}),
        "r": (200, vector("500")),
    }
    found = _prometheus.asked(replace(SERVER, url=f"{server.url}/"), "g1", 600.0)
    assert found == Measured(600.0, 500.0, 10.0, 0.25)


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ((200, vector()), "of prometheus.requests"),
        ((200, vector("NaN")), "of prometheus.requests"),
        ((200, vector("1", "2")), "gives 2 numbers"),
        ((200, {"status": "success", "data": {"resultType": "matrix", "result": []}}), "gives no number, but matrix"),
        ((200, "no JSON"), "not with JSON"),
        ((400, {"status": "error", "error": "parse error"}), "parse error"),
        ((200, {"data": {"resultType": "vector", "result": [{"value": "x"}]}}), "not of Prometheus' form"),
    ],
)
def test_what_prometheus_does_not_say_is_told_and_is_not_judged(server, answer, told):
    server.answers = {'e{g="g1"}[600s]': (200, vector("0")), "t": (200, vector("0.2")), "r": answer}
    found = _prometheus.asked(replace(SERVER, url=server.url), "g1", 600.0)
    assert found.requests is None
    assert told in f"{found.missing} {found.why}"
    assert verdict(GATE, BEFORE, found).state == "not judged"
    assert told in verdict(GATE, BEFORE, found).why


def test_a_group_without_requests_has_no_ratio_and_none_is_missing(server):
    server.answers = {'e{g="g1"}[600s]': (200, vector("NaN")), "t": (200, vector("NaN")), "r": (200, vector("0"))}
    found = _prometheus.asked(replace(SERVER, url=server.url), "g1", 600.0)
    assert (found.requests, found.errors, found.ttft_p95, found.missing) == (0.0, 0.0, None, ())


# -- which members are read -------------------------------------------------------------------------------------------------------


def live(member: str) -> LiveMember:
    """A member of a group that runs, as its host reports it."""
    made = Fleet(h1={"gpus": 4})
    roles = {role: {"hosts": "h1"} for role in ("prefill", "decode", "router")}
    made.deploy(spec(**roles))
    host = read_host("h1", made.facts["h1"])
    return next(one for one in host.members if one.id == member)


def test_an_engine_is_read_beside_its_api_and_a_router_at_a_port_of_its_own():
    decode, router = live("demo-decode-0"), live("demo-router-0")
    found = read_of(decode)
    assert found["url"] == f"{decode.label.url}/metrics"
    assert (found["requests"], found["late"]) == (["vllm:request_success_total"], False)
    assert found["first_token"] == "vllm:time_to_first_token_seconds"
    found = read_of(router)
    assert found["url"] == f"http://{router.label.address}:{router.label.bands['prometheus']['base']}/metrics"
    assert found["requests"] == ["vllm_router_pd_requests_total"]
    assert found["first_token"] is None
    v6 = replace(router, label=replace(router.label, address="fd00::1"))
    assert read_of(v6)["url"].startswith("http://[fd00::1]:")


def test_who_is_down_or_of_a_kind_that_nobody_knows_is_not_read():
    decode, router = live("demo-decode-0"), live("demo-router-0")
    assert read_of(replace(decode, state="exited")) is None
    assert read_of(replace(decode, label=replace(decode.label, backend="other"))) is None
    assert read_of(replace(router, label=replace(router.label, dialect=None))) is None
    assert read_of(replace(router, label=replace(router.label, bands={}))) is None
