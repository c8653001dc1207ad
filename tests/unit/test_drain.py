"""Draining a member, and a decode with what is still on its way to it, against a small HTTP server."""

from __future__ import annotations

import threading
import time
import typing as t
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from ansible_collections.inferops.pd.plugins.module_utils._engines.registry import engines
from ansible_collections.inferops.pd.plugins.module_utils._host import drain as draining
from ansible_collections.inferops.pd.plugins.module_utils._host.drain import drain
from ansible_collections.inferops.pd.plugins.module_utils._probes.http import Unanswered

BUSY, DONE = ["vllm:num_requests_running", "vllm:num_requests_waiting"], ["vllm:request_success_total"]


class Engine:
    """Counters that a test sets, or a function of the seconds since the first question."""

    def __init__(self, told: t.Callable[[float], tuple[float, float, float]] = lambda _now: (0, 0, 0)) -> None:
        self.told, self.status, self.begun, self.asked = told, 200, 0.0, 0
        engine = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                data = engine.page().encode()
                self.send_response(engine.status)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_args: object) -> None:
                return

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    def page(self) -> str:
        self.asked += 1
        self.begun = self.begun or time.monotonic()
        running, waiting, done = self.told(time.monotonic() - self.begun)
        labels = '{engine="0",model_name="m"}'
        return (
            f"vllm:num_requests_running{labels} {running}\nvllm:num_requests_waiting{labels} {waiting}\n"
            f'vllm:request_success_total{{engine="0",finished_reason="length"}} {done}\n'
            f'vllm:request_success_total{{engine="0",finished_reason="stop"}} 100\n'
        )

    def label(self) -> dict[str, t.Any]:
        return {"url": self.url, "probe": {"busy": BUSY, "held": [], "metrics": "/metrics"}}

    def upstream(self, **changes: t.Any) -> dict[str, t.Any]:
        return {"id": "g-prefill-0", "url": self.url, "metrics": "/metrics", "busy": BUSY, "done": DONE, **changes}


@pytest.fixture
def made() -> t.Iterator[t.Callable[..., Engine]]:
    engines_: list[Engine] = []

    def make(*told: t.Any) -> Engine:
        engines_.append(Engine(*told))
        return engines_[-1]

    yield make
    for one in engines_:
        one.server.shutdown()
        one.server.server_close()


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(draining, "POLL", 0.02)
    monkeypatch.setattr(draining, "SETTLE", 0.1)


def took(decode: Engine, seconds: float, *upstream: t.Mapping[str, t.Any]) -> tuple[str, float]:
    begun = time.monotonic()
    return drain(decode.label(), seconds, upstream), time.monotonic() - begun


def test_nothing_is_asked_without_time(made: t.Callable[..., Engine]) -> None:
    decode, prefill = made(), made()
    assert drain(decode.label(), 0, [prefill.upstream()]) == ""
    assert (decode.asked, prefill.asked) == (0, 0)


def test_an_idle_path_costs_the_time_that_counters_need(made: t.Callable[..., Engine]) -> None:
    left, seconds = took(made(), 5, made().upstream(), made().upstream())
    assert left == ""
    assert 0.1 <= seconds < 2


def test_an_idle_decode_waits_for_what_its_prefill_still_computes(made: t.Callable[..., Engine]) -> None:
    decode = made()
    prefill = made(lambda now: (2 if now < 0.6 else 0, 0, 7))
    left, seconds = took(decode, 5, prefill.upstream())
    assert left == ""
    assert seconds > 0.6
    assert decode.begun > prefill.begun + 0.6, "the decode is asked when the path is clear"


def test_under_load_it_is_over_when_as_many_as_were_there_have_finished(made: t.Callable[..., Engine]) -> None:
    """Two run and three wait, ten finish in a second, and new ones keep coming: they are for others."""
    prefill = made(lambda now: (2, 3, int(now * 10)))
    left, seconds = took(made(), 5, prefill.upstream())
    assert left == ""
    assert 0.4 < seconds < 2


def test_what_comes_while_the_counters_settle_was_there(made: t.Callable[..., Engine]) -> None:
    """The step that ran when the drain began hid six requests."""
    prefill = made(lambda now: (0 if now < 0.05 else 6 if now < 0.8 else 0, 0, 0 if now < 0.8 else 6))
    _left, seconds = took(made(), 5, prefill.upstream())
    assert seconds > 0.8


def test_without_a_count_only_idleness_ends_it(made: t.Callable[..., Engine]) -> None:
    prefill = made(lambda now: (1 if now < 0.5 else 0, 0, now * 1000))
    _left, seconds = took(made(), 5, prefill.upstream(done=[]))
    assert seconds > 0.5
    left, seconds = took(made(), 0.4, made(lambda _now: (1, 0, 0)).upstream(done=["vllm:no_such_counter"]))
    assert left == "after 0.4 s: g-prefill-0: 1 requests are in it, some of which may be for this one"
    assert seconds < 1


def test_a_prefill_that_is_gone_or_was_started_again_has_nothing_for_it(made: t.Callable[..., Engine]) -> None:
    gone = {**made().upstream(), "url": "http://127.0.0.1:9"}
    again = made(lambda now: (3, 0, 50 if now < 0.15 else 1))
    left, seconds = took(made(), 5, gone, again.upstream())
    assert left == ""
    assert seconds < 2


def test_one_that_never_answers_is_given_up_and_told(
    made: t.Callable[..., Engine], monkeypatch: pytest.MonkeyPatch
) -> None:
    deaf = made()
    deaf.status = 404
    decode = made()
    left, seconds = took(decode, 5, deaf.upstream())
    assert left.startswith("g-prefill-0 could not be asked what it still has for this one: GET http://127.0.0.1:")
    assert left.endswith("/metrics answered 404")
    assert decode.asked >= draining.QUIET_TIMES, "its own requests are waited for all the same"
    assert seconds < 2

    def silent(url: str, _deadline: float) -> t.Any:
        raise Unanswered(f"GET {url}", "timeout", "no answer within 5 s")

    monkeypatch.setattr(draining, "_ask", silent)
    left, seconds = took(decode, 0.03, deaf.upstream())
    assert left == "after 0.03 s: g-prefill-0: GET " + deaf.url + "/metrics: no answer within 5 s"
    assert seconds < 0.5


def test_the_slowest_of_many_decides(made: t.Callable[..., Engine]) -> None:
    many = [made(lambda now, n=n: (1 if now < n / 10 else 0, 0, 0)) for n in range(6)]
    left, seconds = took(made(), 5, *(one.upstream() for one in many))
    assert left == ""
    assert 0.5 < seconds < 2


def test_every_engine_that_counts_says_what_it_has_done() -> None:
    assert {name: e.done_metrics for name, e in engines().items() if e.busy_metrics} == {
        "vLLM": ("vllm:request_success_total",),
        "SGLang": ("sglang:num_requests_total",),
    }
