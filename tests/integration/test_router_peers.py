# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A router's registry made to hold the wanted members: against stand-ins that misbehave, and against the real vllm-router."""

from __future__ import annotations

import json
import os
import subprocess
import threading
import time
import typing as t
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote

import pytest
from integration import support_runtime as support
from ports import free_ports
from support import ROOT

from ansible_collections.inferops.pd.plugins.module_utils._routers import dialect
from ansible_collections.inferops.pd.plugins.module_utils._routers import reconcile as reconciling
from ansible_collections.inferops.pd.plugins.module_utils._routers.protocol import RegistryError
from ansible_collections.inferops.pd.plugins.module_utils._routers.reconcile import Outcome, Reconciler, Wanted

pytestmark = pytest.mark.integration
PREFILL = {
    "member": "g-prefill-0",
    "role": "prefill",
    "url": "http://127.0.0.1:1001",
    "ports": {"bootstrap": {"base": 8998, "count": 1}},
}
DECODE = {"member": "g-decode-0", "role": "decode", "url": "http://127.0.0.1:1002", "ports": {}}
STALE = "http://127.0.0.1:1009"


class Registry:
    """A router's worker API. `kind` is vllm (at once, by URL) or sglang (queued, by id)."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.workers: dict[str, dict[str, t.Any]] = {}
        self.calls: list[tuple[str, str, t.Any]] = []
        self.unreadable = 0  # so many reads answer 503
        self.deaf = 0  # so many POSTs are accepted and forgotten
        self.delay = 0.0  # sglang admits after this
        self.static = False
        self.stubborn = False  # a DELETE is refused
        self.forgetful = False  # a DELETE is answered with 200, and nothing is done
        self.queued = 0.0  # sglang removes after this
        self.together: list[str] = []  # who was there when somebody was added
        registry = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                registry.answer(self, "GET")

            def do_POST(self) -> None:
                registry.answer(self, "POST")

            def do_DELETE(self) -> None:
                registry.answer(self, "DELETE")

            def log_message(self, *_args: object) -> None:
                return

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    def put(self, url: str, role: str, model: str | None = "tiny") -> None:
        self.workers[url] = {
            "url": url,
            "worker_type": role,
            "is_healthy": True,
            "id": str(uuid.uuid4()),
            "model_id": model,
        }

    def answer(self, call: BaseHTTPRequestHandler, method: str) -> None:
        body = json.loads(call.rfile.read(int(call.headers.get("Content-Length") or 0)) or "null")
        self.calls.append((method, call.path, body))
        status, told = getattr(self, method.lower())(call.path, body)
        data = json.dumps(told).encode()
        call.send_response(status)
        call.send_header("Content-Length", str(len(data)))
        call.end_headers()
        call.wfile.write(data)

    def get(self, _path: str, _body: t.Any) -> tuple[int, t.Any]:
        if self.unreadable > 0:
            self.unreadable -= 1
            return 503, {"error": "starting"}
        return 200, {"workers": list(self.workers.values()), "total": len(self.workers)}

    def post(self, _path: str, body: t.Any) -> tuple[int, t.Any]:
        if self.static:
            text = "PD router requires specific add_prefill_server or add_decode_server methods"
            return 400, {"error": text, "code": "ADD_WORKER_FAILED"}
        self.together += [url for url in self.workers if url == STALE]
        if self.deaf > 0:
            self.deaf -= 1
        elif self.delay:
            threading.Timer(self.delay, self.put, (body["url"], body["worker_type"], None)).start()
        else:
            self.put(body["url"], body["worker_type"], body.get("model_id", "unknown"))
        return (202 if self.kind == "sglang" else 200), {"status": "accepted"}

    def delete(self, path: str, _body: t.Any) -> tuple[int, t.Any]:
        name = path.removeprefix("/workers/")
        if self.stubborn:
            return 500, {"error": "no"}
        if self.forgetful:
            return 200, {}
        if self.kind == "vllm":
            if "/" in name or ":" in name:
                return 405, {"error": "passed on to a member"}
            if self.workers.pop(unquote(name), None) is None:
                return 400, {"error": "gone", "code": "WORKER_NOT_FOUND"}
            return 200, {}
        found = next((url for url, w in self.workers.items() if w["id"] == name), None)
        if found is None:
            return 400, {"error": "Invalid worker_id"}
        threading.Timer(self.queued, self.workers.pop, (found, None)).start() if self.queued else self.workers.pop(
            found
        )
        return 202, {}

    def changes(self) -> list[tuple[str, str, t.Any]]:
        return [call for call in self.calls if call[0] != "GET"]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in answers at once, so that reading back need not be as patient."""
    monkeypatch.setattr(reconciling, "READ_BACK_EVERY", 0.1)
    monkeypatch.setattr(reconciling, "READ_BACK_FOR", 2.0)


@pytest.fixture(params=["vllm", "sglang"])
def registry(request: pytest.FixtureRequest) -> t.Iterator[Registry]:
    made = Registry(request.param)
    yield made
    made.server.shutdown()


@pytest.fixture
def vllm() -> t.Iterator[Registry]:
    made = Registry("vllm")
    yield made
    made.server.shutdown()


def reconcile(registry: Registry, check: bool = False, timeout: float = 10, **wanted: t.Any) -> Outcome:
    want = Wanted(registry.url, "tiny", **{"peers": [PREFILL, DECODE], **wanted})
    return Reconciler(dialect(f"{registry.kind}-router"), want, timeout).run(check)


def test_missing_members_are_added_and_a_second_run_changes_nothing(registry: Registry) -> None:
    found = reconcile(registry)
    assert found.added == [PREFILL["url"], DECODE["url"]]
    assert found.confirmed == [PREFILL["url"], DECODE["url"]]
    bodies = [body for _method, _path, body in registry.changes()]
    if registry.kind == "vllm":
        assert bodies[0] == {"url": PREFILL["url"], "worker_type": "prefill", "model_id": "tiny"}
    else:
        assert bodies == [
            {"url": PREFILL["url"], "worker_type": "prefill", "bootstrap_port": 8998},
            {"url": DECODE["url"], "worker_type": "decode"},
        ]
    registry.calls.clear()
    assert not reconcile(registry).changed
    assert registry.changes() == []


def test_an_extra_member_is_seen_gone_before_anybody_is_added_beside_it(registry: Registry) -> None:
    registry.put(STALE, "prefill")
    found = reconcile(registry)
    assert (found.removed, found.stale) == ([STALE], [])
    assert [method for method, _path, _body in registry.changes()] == ["DELETE", "POST", "POST"]
    assert set(registry.workers) == {PREFILL["url"], DECODE["url"]}


def test_a_removal_that_is_only_queued_is_waited_for() -> None:
    slow = Registry("sglang")
    slow.put(STALE, "decode")
    slow.queued = 1.0
    try:
        found = reconcile(slow)
        assert (found.removed, found.foreign, found.missing) == ([STALE], [], [])
        assert slow.together == []
    finally:
        slow.server.shutdown()


def test_an_extra_member_is_only_told_without_exclusive(registry: Registry) -> None:
    registry.put(STALE, "prefill")
    found = reconcile(registry, exclusive=False)
    assert (found.removed, found.stale, found.foreign) == ([], [STALE], [])
    assert found.confirmed == [PREFILL["url"], DECODE["url"]]
    assert module(registry, exclusive=False).get("failed") is not True


def test_a_spare_member_stays_where_it_is_and_is_not_missed_where_it_is_not(registry: Registry) -> None:
    away = "http://127.0.0.1:1008"
    registry.put(STALE, "decode")
    found = reconcile(registry, spare=[STALE.upper() + "/", away])
    assert (found.removed, found.stale, found.spared, found.missing) == ([], [], [STALE], [])
    assert set(registry.workers) == {STALE, PREFILL["url"], DECODE["url"]}
    told = module(registry, spare=[STALE, away])
    assert (told["changed"], told["spared"], told["stale"]) == (False, [STALE], [])
    assert "its host does not answer, and it may serve" in told["msg"]
    assert reconcile(registry, spare=[STALE], remove=[STALE]).removed == [STALE]


@pytest.mark.parametrize(
    "spelling",
    [
        "http://127.0.0.1:1001/v1",
        "http://127.0.0.1:1001@127.0.0.1:1009",
        "http://u@127.0.0.1:1001",
        "http://127.0.0.1:1001?x",
        "http://127.0.0.1:1001#x",
        "https://127.0.0.1:1001",
        "grpc://127.0.0.1:1001",
        "127.0.0.1:1001",
        "http://127.0.0.1:10011",
        "http://127.0.0.1:1001@0",
        "http://127.0.0.1:99999999",
    ],
)
def test_no_spelling_makes_a_foreign_url_one_of_ours(registry: Registry, spelling: str) -> None:
    registry.put(spelling, "prefill")
    found = reconcile(registry)
    assert found.removed == [spelling]
    assert found.confirmed == [PREFILL["url"], DECODE["url"]]


@pytest.mark.parametrize("spelling", ["HTTP://127.0.0.1:1001/", "http://127.0.0.1:1001//", " http://127.0.0.1:1001"])
def test_another_spelling_of_a_member_is_that_member(registry: Registry, spelling: str) -> None:
    registry.put(spelling, "prefill")
    registry.put(DECODE["url"], "decode")
    assert not reconcile(registry).changed


def test_a_worker_without_a_url_is_not_passed_over(registry: Registry) -> None:
    registry.workers["x"] = {"worker_type": "prefill", "id": "7"}
    with pytest.raises(RegistryError, match="lists a worker without a URL"):
        reconcile(registry, timeout=1)
    assert registry.changes() == []


def test_only_remove_touches_nothing_else(registry: Registry) -> None:
    for url in (STALE, "http://127.0.0.1:1008"):
        registry.put(url, "prefill")
    found = reconcile(registry, peers=[], remove=[STALE + "/"], only_remove=True)
    assert (found.removed, found.stale, found.missing) == ([STALE], [], [])
    assert list(registry.workers) == ["http://127.0.0.1:1008"]
    assert not reconcile(registry, peers=[], remove=[STALE], only_remove=True).changed


def test_a_member_with_another_role_is_put_right(registry: Registry) -> None:
    registry.put(PREFILL["url"], "decode")
    registry.put(DECODE["url"], "decode")
    found = reconcile(registry)
    assert (found.added, found.removed) == ([PREFILL["url"]], [PREFILL["url"]])
    assert registry.workers[PREFILL["url"]]["worker_type"] == "prefill"


def test_a_member_under_another_model_is_put_right(vllm: Registry) -> None:
    vllm.put(PREFILL["url"], "prefill", "unknown")
    vllm.put(DECODE["url"], "decode")
    assert reconcile(vllm).added == [PREFILL["url"]]
    assert vllm.workers[PREFILL["url"]]["model_id"] == "tiny"


def test_an_answer_is_not_believed_before_the_list_says_so(registry: Registry) -> None:
    registry.deaf = 1
    assert reconcile(registry, timeout=20).confirmed == [PREFILL["url"], DECODE["url"]]
    assert len([1 for method, _p, _b in registry.changes() if method == "POST"]) == 3


def test_queued_members_are_waited_for() -> None:
    slow = Registry("sglang")
    slow.delay = 1.2
    try:
        assert reconcile(slow).missing == []
        assert len(slow.changes()) == 2
    finally:
        slow.server.shutdown()


def test_a_router_that_never_admits_is_given_up(registry: Registry) -> None:
    registry.deaf = 1000
    started = time.monotonic()
    found = reconcile(registry, timeout=3)
    assert found.missing == [PREFILL["url"], DECODE["url"]]
    assert time.monotonic() - started < 5


def test_a_starting_router_is_asked_again(registry: Registry) -> None:
    registry.unreadable = 3
    assert reconcile(registry).confirmed == [PREFILL["url"], DECODE["url"]]


def test_an_unreadable_registry_is_an_error_and_changes_nothing(registry: Registry) -> None:
    registry.unreadable = 1000
    with pytest.raises(RegistryError, match="answered 503"):
        reconcile(registry, timeout=2)
    assert registry.changes() == []


def test_a_static_router_says_what_to_do(vllm: Registry) -> None:
    vllm.static = True
    with pytest.raises(RegistryError, match="--enable-igw"):
        reconcile(vllm)


def test_a_refused_removal_is_a_failure_and_nobody_is_added_beside_it(registry: Registry) -> None:
    registry.put(STALE, "prefill")
    registry.put(DECODE["url"], "decode")
    registry.stubborn = True
    found = reconcile(registry, timeout=3)
    assert (found.confirmed, found.missing) == ([DECODE["url"]], [PREFILL["url"]])
    assert (found.removed, found.stale, found.foreign) == ([], [STALE], [STALE])
    assert any("answered 500" in text for text in found.refusals)
    assert all(method == "DELETE" for method, _path, _body in registry.changes())
    told = module(registry, timeout=1)
    assert told["failed"] is True
    assert f"still has {STALE}, which is no member as the plan has it" in told["msg"]
    assert "inferops.pd.restart" in told["msg"]


def test_a_router_that_forgets_a_removal_is_a_failure_even_when_all_wanted_are_there(registry: Registry) -> None:
    for url, role in ((PREFILL["url"], "prefill"), (DECODE["url"], "decode"), (STALE, "decode")):
        registry.put(url, role)
    registry.forgetful = True
    told = module(registry, timeout=2)
    assert (told["failed"], told["stale"], told["missing"]) == (True, [STALE], [])
    assert STALE in told["msg"]


def module(registry: Registry, check: bool = False, **changes: t.Any) -> dict[str, t.Any]:
    given = {
        "url": registry.url,
        "dialect": f"{registry.kind}-router",
        "model": "tiny",
        "peers": [PREFILL, DECODE],
        **changes,
    }
    return support.module_direct("router_peers", given, check)


def test_the_module_in_check_mode_tells_and_changes_nothing(vllm: Registry) -> None:
    vllm.put(STALE, "decode")
    told = module(vllm, check=True)
    assert told["changed"] is True
    assert (told["added"], told["removed"]) == ([PREFILL["url"], DECODE["url"]], [STALE])
    assert told["diff"]["before"] == f"decode {STALE}\n"
    assert told["diff"]["after"] == f"decode {DECODE['url']}\nprefill {PREFILL['url']}\n"
    assert vllm.changes() == []


def test_the_module_fails_with_what_is_missing(vllm: Registry) -> None:
    vllm.deaf = 1000
    told = module(vllm, timeout=1)
    assert told["failed"] is True
    assert "did not admit http://127.0.0.1:1001, http://127.0.0.1:1002" in told["msg"]
    assert "GET /workers" in told["msg"]


def test_the_module_only_compares_when_it_does_not_manage(vllm: Registry) -> None:
    vllm.put(PREFILL["url"], "prefill", "unknown")
    told = module(vllm, manage=False, timeout=1, model="unknown")
    assert (told["failed"], told["missing"], told["confirmed"]) == (True, [DECODE["url"]], [PREFILL["url"]])
    assert vllm.changes() == []


def test_a_router_with_fixed_peers_that_has_one_too_many_is_to_be_replaced(vllm: Registry) -> None:
    for url, role in ((PREFILL["url"], "prefill"), (DECODE["url"], "decode"), (STALE, "decode")):
        vllm.put(url, role, "unknown")
    told = module(vllm, manage=False, timeout=1, model="tiny")
    assert (told["failed"], told["stale"], told["missing"]) == (True, [STALE], [])
    assert f"was started with {STALE}" in told["msg"]
    assert "Replace the router" in told["msg"]
    assert module(vllm, manage=False, timeout=1, model="tiny", spare=[STALE]).get("failed") is not True
    assert vllm.changes() == []


def test_the_module_says_when_nothing_listens() -> None:
    given = {"url": "http://127.0.0.1:9", "dialect": "vllm-router", "model": "tiny", "timeout": 1}
    told = support.module_direct("router_peers", given)
    assert told["failed"] is True
    assert "nothing listens there" in told["msg"]
    assert "Traceback" not in json.dumps(told)


def test_a_proxy_of_the_environment_is_not_used(vllm: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.delenv("no_proxy", raising=False)
    assert module(vllm)["confirmed"]


# -- the real router ---------------------------------------------------------------------------------------------------------------


def real_router() -> str | None:
    """The vllm-router that examples/demo/setup.sh has installed, if it has."""
    path = ROOT / ".build/demo/engine/bin/vllm-router"
    return str(path) if os.access(path, os.X_OK) else None


@pytest.fixture(scope="module")
def router(tmp_path_factory: pytest.TempPathFactory) -> t.Iterator[str]:
    program = real_router()
    if program is None:
        pytest.skip("no vllm-router: run examples/demo/setup.sh")
    port, prometheus = free_ports(2)
    argv = [
        program,
        "--enable-igw",
        "--kv-connector=nixl",
        "--policy=round_robin",
        "--host=127.0.0.1",
        f"--port={port}",
    ]
    argv += ["--prometheus-host=127.0.0.1", f"--prometheus-port={prometheus}"]
    log = tmp_path_factory.mktemp("router") / "log"
    with open(log, "wb") as stream:
        process = subprocess.Popen(argv, stdout=stream, stderr=subprocess.STDOUT)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(20)


def real(router: str, check: bool = False, **wanted: t.Any) -> Outcome:
    """The first call finds a router that is still starting."""
    want = Wanted(router, "tiny", **{"peers": [PREFILL, DECODE], **wanted})
    return Reconciler(dialect("vllm-router"), want, 30).run(check)


def test_the_real_router(router: str) -> None:
    assert real(router, check=True).added == [PREFILL["url"], DECODE["url"]]
    assert real(router).confirmed == [PREFILL["url"], DECODE["url"]]
    assert not real(router).changed
    more = {**PREFILL, "member": "g-prefill-1", "url": "http://[::1]:1003"}
    grown = real(router, peers=[PREFILL, more, DECODE])
    assert grown.added == ["http://[::1]:1003"]
    shrunk = real(router, peers=[PREFILL, DECODE])
    assert shrunk.removed == ["http://[::1]:1003"]
    assert {p["url"]: (p["worker_type"], p["model"]) for p in shrunk.after} == {
        PREFILL["url"]: ("prefill", "tiny"),
        DECODE["url"]: ("decode", "tiny"),
    }
    swapped = real(router, peers=[{**PREFILL, "role": "decode"}, {**DECODE, "role": "prefill"}])
    assert swapped.missing == swapped.stale == []
    gone = real(router, peers=[], remove=[PREFILL["url"]], only_remove=True)
    assert gone.removed == [PREFILL["url"]]
    assert real(router, peers=[]).removed == [DECODE["url"]]
