"""What the logs of every mode say: lines of Mooncake, Ascend and SGLang as the programs write them, and lines that nobody knows."""

from __future__ import annotations

import time

import memory
import pytest
from builders import Fleet, spec

from ansible_collections.inferops.pd.plugins.module_utils._core.report import verdict
from ansible_collections.inferops.pd.plugins.module_utils._core.watch import symptom
from ansible_collections.inferops.pd.plugins.module_utils._host.wait import doubts, symptoms_of
from ansible_collections.inferops.pd.plugins.module_utils._probes import logs

W = "(Worker_DP0_TP5 pid=2543213) "
S = "[2026-02-27 15:01:51 TP4] "

# backend, the symptom's name, whether it is fatal while starting, the line
LINES: list[tuple[str, str, bool, str]] = [
    # -- vLLM with Mooncake
    (
        "vLLM",
        "mooncake bootstrap refused",
        True,
        "RuntimeError: Failed to register tp_rank=0 dp_rank=0 with the Mooncake bootstrap server at http://192.0.2.1:8998 after 5.",
    ),
    (
        "vLLM",
        "mooncake bootstrap not reached",
        False,
        W
        + "ERROR 11-29 15:01:51 [a.py:1] Failed to connect to bootstrap server http://192.0.2.1:8998 (ConnectError): x",
    ),
    (
        "vLLM",
        "mooncake transfer failed",
        False,
        W
        + "WARNING 11-29 15:01:51 [a.py:1] Sending to 192.0.2.2:16708 failed (ret=-1) after 30.1 (64 descriptors, 9 bytes)",
    ),
    (
        "vLLM",
        "mooncake transfer failed",
        False,
        W + "ERROR 11-29 15:01:51 [mooncake_connector.py:2405] pulling kv_caches for ['cmpl-1'] failed: Timeout",
    ),
    (
        "vLLM",
        "mooncake pair lost each other",
        False,
        W + "WARNING 11-29 15:01:51 [mooncake_connector.py:1599] Timeout waiting for P side ready: ['cmpl-1']",
    ),
    (
        "vLLM",
        "mooncake pair lost each other",
        False,
        W
        + "WARNING 11-29 15:01:51 [a.py:1] Request cmpl-1 timed out after 480 seconds without being sent. Freeing its blocks.",
    ),
    ("vLLM", "mooncake not installed", True, "RuntimeError: Mooncake is not available"),
    ("vLLM", "mooncake engine refused", True, "RuntimeError: Mooncake Transfer Engine initialization failed."),
    ("vLLM", "memory not registered", True, "RuntimeError: Mooncake batch memory registration failed."),
    (
        "vLLM",
        "transfer library of another toolkit",
        True,
        "ImportError: libcudart.so.12: cannot open shared object file: No such file or directory",
    ),
    (
        "vLLM",
        "service link taken for a port",
        True,
        "ValueError: VLLM_PORT 'tcp://10.0.0.1:80' appears to be a URI. This may be caused",
    ),
    # -- vLLM on Ascend
    (
        "vLLM",
        "connector sizes conflict",
        True,
        "  Value error, KV transfer 'prefill' config has a conflicting data parallel size. Expected 1, but got 3.",
    ),
    (
        "vLLM",
        "prefill narrower than decode",
        True,
        "ValueError: prefill_tp_size: 2 must be greater than or equal to the decode_tp_size: 4",
    ),
    (
        "vLLM",
        "kv transfer failed",
        False,
        W + "ERROR 12-10 03:24:54 [mooncake_connector.py:410] Mooncake transfer failed for request cmpl-09be0283-0",
    ),
    (
        "vLLM",
        "kv transfer failed",
        False,
        W
        + "ERROR 12-10 03:24:54 [mooncake_connector.py:329] Failed to transfer KV cache for request c-0: Mooncake transfer failed, ret: -1",
    ),
    (
        "vLLM",
        "kv blocks freed too early",
        False,
        W
        + "ERROR 12-10 03:24:54 [mooncake_connector.py:236] Force freed expired request: c-0. Reason: Request exceeded timeout threshold",
    ),
    (
        "vLLM",
        "npu link",
        False,
        (
            "E20260608 14:45:44.404089 342420 ascend_direct_transport.cpp:1107] Connect timeout to: 192.0.2.3:20033, you can increase the"
            " timeout duration to reduce the failure rate by configuring the ASCEND_CONNECT_TIMEOUT environment variable."
        ),
    ),
    (
        "vLLM",
        "npu link",
        False,
        "E1210 03:24:54.778028 2548307 ascend_direct_transport.cpp:820] Failed to connect to target: 192.0.2.3:25389, status: 103900",
    ),
    ("vLLM", "kv threads did not start", True, "RuntimeError: KV Cache sending/receiving thread failed to start."),
    (
        "vLLM",
        "hccl",
        False,
        "[rank1]: EI0009: [PID: 2225827] 2025-09-24-20:59:48.119.066 Transport init error. Reason: Create Dest error!",
    ),
    # -- SGLang
    (
        "SGLang",
        "no memory left for kv cache (sglang)",
        True,
        "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static. Current value: mem_fraction_static=0.85",
    ),
    ("SGLang", "no accelerator", True, "RuntimeError: No CUDA GPUs are available"),
    (
        "SGLang",
        "ib devices unknown",
        True,
        "ValueError: Invalid IB devices specified for disaggregation: ['mlx5_9']. Available: ['mlx5_0']",
    ),
    (
        "SGLang",
        "prefill not registered",
        True,
        S + "Prefill instance failed to register to bootstrap server after 5 retries",
    ),
    (
        "SGLang",
        "peer taken for dead",
        False,
        S
        + "Prefill transfer failed for request rank=4 req.rid='c' req.bootstrap_room=65 with exception KVTransferError(bootstrap_room=65):"
        " Decode instance could be dead, remote mooncake session 192.0.2.1:15295 is not alive",
    ),
    (
        "SGLang",
        "sglang roles differ",
        False,
        S + "Page size mismatch: prefill server has page_size=64, but decode server has page_size=1. Both servers",
    ),
    (
        "SGLang",
        "sglang sizes differ",
        False,
        "RuntimeError: PD Disaggregation does NOT support PD different TP sizes for non-MLA MAMBA hybrid models yet.",
    ),
    (
        "SGLang",
        "metadata buffers differ",
        False,
        S
        + "Decode 192.0.2.2:15295 registered 9 metadata buffers but this prefill has 8; only the first 8 are transferred",
    ),
    (
        "SGLang",
        "bootstrap not reached",
        False,
        S + "Error fetching prefill server info from bootstrap: HTTPConnectionPool(host='127.0.0.1', port=8998)",
    ),
    ("SGLang", "transfer timed out", False, S + "Request 659 timed out after 300.0s in KVPoll.Bootstrapping"),
    (
        "SGLang",
        "request without its room",
        False,
        S + "Disaggregated request received without bootstrap room id. request_id='x'",
    ),
    (
        "SGLang",
        "ports exhausted",
        False,
        (
            "E0828 01:41:15.002852    73 tcp_transport.cpp:720] TcpTransport::getConnection failed to create connection to 192.0.2.2:16708."
            " Error: connect: Cannot assign requested address"
        ),
    ),
    ("SGLang", "memory not registered", True, "RuntimeError: Mooncake memory registration failed (ret=-1)"),
    (
        "SGLang",
        "rdma unavailable",
        False,
        "E0828 01:41:15.002852    73 rdma_context.cpp:1] GID is NULL, please check your GID index by specifying MC_GID_INDEX",
    ),
]


@pytest.mark.parametrize(("backend", "name", "fatal", "line"), LINES, ids=[f"{one[0]} {one[1]}" for one in LINES])
def test_lines_of_every_mode(backend: str, name: str, fatal: bool, line: str) -> None:
    lines = logs.clean(line)
    found = symptom.diagnose(lines, symptoms_of("decode", backend))
    assert found is not None
    assert (found.symptom.name if found.symptom else found.line) == name
    doomed = symptom.diagnose(lines, symptoms_of("decode", backend), fatal_only=True)
    assert bool(doomed and doomed.fatal) == fatal


@pytest.mark.parametrize(
    "line",
    [
        W + "ERROR 11-29 15:01:51 [somewhere.py:1] the flux capacitor is cold",
        "E20260608 14:45:44.404089 342420 somewhere.cpp:1] the flux capacitor is cold",
        "[rank0]:[E106 06:43:02.555 somewhere.ts:1] the flux capacitor is cold",
        "AssertionError",
        W + "ERROR 11-29 15:01:51 [core.py:1] AssertionError",
        "2026-11-29T15:12:55Z CRITICAL somewhere: the flux capacitor is cold",
    ],
)
def test_a_line_that_nobody_knows_is_told(line: str) -> None:
    found = symptom.diagnose(["all is well", line, "good-bye"], symptoms_of("decode", "SGLang"))
    assert found is not None
    assert (found.line, found.symptom) == (line, None)


@pytest.mark.parametrize(
    "line",
    [
        "I20260608 14:45:44.404228 342420 ascend_direct_transport.cpp:1119] Connected after Failed to connect to segment: x",
        "I0608 14:45:44.404228 342420 x.cpp:1] MountSegment: rpc error was retried",
        S + "max_total_num_tokens=107001, chunked_prefill_size=507899",
        S + "Prefill batch, #new-seq: 1, #new-token: 7, #cached-token: 0, #running-req: 0",
    ],
)
def test_ordinary_lines_say_nothing(line: str) -> None:
    for backend in ("vLLM", "SGLang"):
        assert symptom.diagnose([line], symptoms_of("decode", backend)) is None


def test_an_exception_tells_more_than_a_warning_and_a_marked_line_less() -> None:
    warning, marked, exception = "WARNING NIXL transfer failure: x", "ERROR something else", "FooError: unknown"
    rows = symptoms_of("decode", "vLLM")
    assert symptom.diagnose([warning, marked], rows).line == warning  # type: ignore[union-attr]
    assert symptom.diagnose([warning, marked, exception], rows).line == exception  # type: ignore[union-attr]


def test_answers_that_may_be_wrong_are_seen_in_the_log_of_one_that_serves() -> None:
    rows = symptoms_of("decode", "vLLM")
    lines = [
        "INFO 12-10 03:24:54 [a.py:1] Mooncake transfer failed is what an INFO line may quote",
        "ERROR 12-10 03:24:54 [a.py:1] Mooncake transfer failed, ret: -1",
        "ERROR 12-10 03:25:54 [a.py:1] Failed to connect to bootstrap server x",
        "WARNING 12-10 03:26:54 [a.py:1] Potentially invalid KV blocks for unrecognized request x. They may have expired.",
    ]
    assert [found.line for found in symptom.spoiled(lines, rows)] == [lines[1], lines[3]]
    assert symptom.spoiled(lines, ()) == []


def test_what_an_earlier_start_logged_is_no_doubt_of_this_one() -> None:
    lines = ["ERROR 11-29 15:00:00 [a.py:1] Mooncake transfer failed, ret: -1", "INFO 11-29 15:20:00 [a.py:1] starting"]
    year = time.localtime().tm_year
    since = time.mktime(time.strptime(f"{year}-11-29 15:19:59", "%Y-%m-%d %H:%M:%S"))
    live = {"label": {"role": "decode", "backend": "vLLM"}, "state": "running", "restarts": 0, "since": since}
    seen = doubts(live, [*lines, lines[0]])
    assert seen is not None
    assert (seen["name"], seen["count"]) == ("kv transfer failed", 2)
    assert doubts({**live, "restarts": 1}, lines) is None


def test_what_members_logged_while_they_were_proven_is_told_with_the_record(monkeypatch: pytest.MonkeyPatch) -> None:
    line = "ERROR 12-10 03:24:54 [a.py:1] Mooncake transfer failed, ret: -1"
    monkeypatch.setattr(
        memory.FactsRuntime, "logs", lambda _self, _group, member, _lines: [line] if "decode" in member else []
    )
    fleet = Fleet(h1={"gpus": 1}, h2={"gpus": 1})
    made = fleet.plan(spec(engine={"backend": "vLLM"}, decode={"hosts": "h2"}))
    wave = memory.Wave([made.value], memory.Hosts(fleet.facts))
    wave.run()
    written = {host: [result] for host, result in wave.said["demo"]["endpoint"].items()}
    assert [sorted(result["doubts"]) for _host, (result,) in sorted(written.items())] == [[], ["demo-decode-0"]]
    told = verdict.reach(made.value, {"h2": written["h2"]}, "final").msg
    assert "! demo-decode-0 on h2: a prompt's KV cache did not arrive" in told
    assert "Mooncake transfer failed, ret: -1" in told
