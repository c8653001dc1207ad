"""Log diagnosis on excerpts of real logs: vLLM 0.32 and vllm-router 0.1.17 on this kind of machine, unless a case says otherwise."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ansible_collections.inferops.pd.plugins.module_utils._core.watch.symptom import (
    Symptom,
    cut,
    diagnose,
    last_line,
    symptom,
)
from ansible_collections.inferops.pd.plugins.module_utils._engines import registry
from ansible_collections.inferops.pd.plugins.module_utils._engines.symptoms import BY_BACKEND
from ansible_collections.inferops.pd.plugins.module_utils._host.watch import since_start
from ansible_collections.inferops.pd.plugins.module_utils._probes import logs
from ansible_collections.inferops.pd.plugins.module_utils._probes.symptoms import SYMPTOMS as GENERIC
from ansible_collections.inferops.pd.plugins.module_utils._routers.symptoms import SYMPTOMS as ROUTER

ENGINE = (*BY_BACKEND["vLLM"], *GENERIC)
ROUTERS = (*ROUTER, *GENERIC)

STARTING = """\
(APIServer pid=2777) INFO 11-29 15:15:12 [utils.py:299] non-default args: {'host': '127.0.0.1', 'port': 46505}
(APIServer pid=2777) WARNING 11-29 15:15:13 [cpu.py:120] VLLM_CPU_KVCACHE_SPACE not set. Using 4 GiB for the KV cache.
(EngineCore pid=3078) INFO 11-29 15:15:30 [core.py:112] Initializing a V1 LLM engine (v0.32.0) with config: model='/m'
"""

# name of the symptom (None: the line itself is the reason), is it fatal while starting, the log
CASES: dict[str, tuple[str | None, bool, str]] = {
    "side channel port taken: the thread dies, the engine hangs": (
        "side channel port taken",
        True,
        STARTING
        + """\
Exception in thread nixl_handshake_listener:
Traceback (most recent call last):
  File "/usr/lib/python3.11/threading.py", line 1045, in _bootstrap_inner
    self.run()
  File "zmq/backend/cython/_zmq.py", line 190, in zmq.backend.cython._zmq._check_rc
zmq.error.ZMQError: Address already in use (addr='tcp://127.0.0.1:46600')
(EngineCore pid=3078) INFO 11-29 15:15:43 [core.py:1454] [shutdown] EngineCore: trigger received signal=SIGTERM
""",
    ),
    "side channel host is not of this machine": (
        "side channel address not of this host",
        True,
        STARTING + "zmq.error.ZMQError: Cannot assign requested address (addr='tcp://192.0.2.77:46602')\n",
    ),
    "no LMCache in the engine": (
        "cache client not installed",
        True,
        STARTING
        + "(EngineCore pid=9) ERROR 11-29 15:18:01 [core.py:1124] ModuleNotFoundError: No module named 'lmcache'\n",
    ),
    "a Mooncake master that does not answer": (
        "cache segment refused",
        True,
        STARTING + "E1129 15:18:01.000000 77 client.cpp:99] MountSegment: rpc error, code: 14\n",
    ),
    "block size refused, with an echo from the API server": (
        "block size refused",
        True,
        STARTING
        + """\
(EngineCore pid=9) ERROR 11-29 15:18:01 [core.py:1124] EngineCore failed to start.
(EngineCore pid=9) ERROR 11-29 15:18:01 [core.py:1124] Traceback (most recent call last):
(EngineCore pid=9) ERROR 11-29 15:18:01 [core.py:1124] ValueError: No common block size for 16 (CPU_ATTN: [MultipleOf(32)]).
(APIServer pid=8) RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}
""",
    ),
    "kv cache layout refused": (
        "kv cache layout refused",
        True,
        "ValueError: VLLM_KV_CACHE_LAYOUT=NHD does not satisfy every supported set; valid layouts: ['LBHNC'].\n",
    ),
    "an unknown flag": (
        "argument refused",
        True,
        "usage: vllm serve [model_tag] [options]\nvllm: error: unrecognized arguments: --no-such-flag=1\n",
    ),
    "UCX has no such device": (
        "ucx no device",
        True,
        """\
[1795965555.427230] [vm:10138:0]          select.c:722  UCX  ERROR   no active messages transport to <no debug data>: self/memory
E1129 15:19:15.427435   10138 nixl_agent.cpp:371] createBackend: backend 'UCX' encountered error with status NIXL_ERR_BACKEND
RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}
""",
    ),
    "context longer than the model's": (
        "context longer than the model",
        True,
        """\
pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig
  Value error, User-specified max_model_len (99999) is greater than the derived max_model_len (max_position_embeddings=8192.0)
""",
    ),
    "the model's path is wrong": (
        "model not found",
        True,
        "huggingface_hub.errors.HFValidationError: Repo id must be in the form 'repo_name' or 'namespace/repo_name': '/no/such/model'.\n",
    ),
    "EngineCore killed behind its API server": (
        "engine process died",
        True,
        "(APIServer pid=4) ERROR 11-29 15:18:01 [core_client.py:908] Engine core proc EngineCore_DP0 died unexpectedly.\n",
    ),
    "HTTP port taken": ("address already in use", True, "OSError: [Errno 98] Address already in use\n"),
    "a placeholder reached the process": (
        "unresolved placeholder",
        True,
        "vllm serve: error: argument --port: invalid int value: '${ports.http}'\n",
    ),
    "the router's program is not in the image (docker)": (
        "command not in image",
        True,
        'docker: Error response from daemon: exec: "vllm-router": executable file not found in $PATH: unknown.\n',
    ),
    "out of memory on the accelerator": (
        "accelerator out of memory",
        False,
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacity of 79.10 GiB\n",
    ),
    "no memory for the KV cache": (
        "no memory left for kv cache",
        True,
        "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization`.\n",
    ),
    "pairing: compatibility hash": (
        "compatibility hash mismatch",
        False,
        "RuntimeError: NIXL compatibility hash mismatch. Local: d6ea, Remote: 9010. Prefill and decode instances differ.\n",
    ),
    "pairing: another engine answered": (
        "engine id mismatch",
        False,
        "RuntimeError: Remote NIXL agent engine ID mismatch. Expected X,received Y.\n",
    ),
    "side channel not reached": (
        "side channel unreachable",
        False,
        "zmq.error.Again: Resource temporarily unavailable\nRuntimeError: something later\n",
    ),
    "a program we know nothing of: its last exception is the reason": (
        None,
        False,
        """\
Traceback (most recent call last):
  File "engine.py", line 3, in <module>
KeyError: 'first'

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
RuntimeError: NCCL error: unhandled system error
""",
    ),
}


@pytest.mark.parametrize("case", CASES, ids=str)
def test_engine_logs(case: str) -> None:
    name, fatal, text = CASES[case]
    lines = logs.clean(text)
    found = diagnose(lines, ENGINE)
    assert found is not None
    assert (found.symptom.name if found.symptom else None) == name
    assert found.line in lines
    alive = diagnose(lines, ENGINE, fatal_only=True)
    assert bool(alive and alive.fatal) == fatal


ROUTER_CASES = {
    "ValueError: PD disaggregation mode requires --prefill": "no peers given",
    "launch_router.py: error: unrecognized arguments: --nope": "router argument refused",
    "RuntimeError: Timeout 6s waiting for hosts ['http://10.0.0.1:1'] to become healthy.": "members not reached",
    "\x1b[2m2026-11-29T15:12:55Z\x1b[0m \x1b[31mERROR\x1b[0m Failed to bind 127.0.0.1:8000: Address already in use (os error 98)": (
        "router port taken"
    ),
}


@pytest.mark.parametrize(("line", "name"), ROUTER_CASES.items())
def test_router_logs(line: str, name: str) -> None:
    found = diagnose(logs.clean(line), ROUTERS)
    assert found is not None
    assert found.symptom is not None
    assert found.symptom.name == name


def test_a_healthy_log_says_nothing() -> None:
    lines = logs.clean(STARTING + "(APIServer pid=1) INFO:     Application startup complete.\n")
    assert diagnose(lines, ENGINE) is None
    assert diagnose(lines, ENGINE, fatal_only=True) is None


TABLE = (
    symptom("first", "red", "", ""),
    symptom("second", "green|red", "", ""),
    symptom("third", "blue", "", "", fatal=True),
)


@pytest.mark.parametrize(
    ("lines", "name"),
    [
        (["ERROR it is green", "ERROR it is red"], "second"),  # the earliest line, not the first row
        (["ERROR red and green"], "first"),  # within a line the first row
        (["WARNING it is green", "ERROR it is red"], "first"),  # an error before a warning
        (["WARNING it is green", "all is well"], "second"),  # a warning when there is nothing else
        (["W0828 12:00:00 green"], "second"),  # glog
        (["WARNING it is green", "FooError: unknown"], None),  # a fatal line that nobody knows beats a warning
        (["INFO it is green"], "-"),
        (["nothing"], "-"),
    ],
)
def test_the_rules(lines: list[str], name: str | None) -> None:
    found = diagnose(lines, TABLE)
    assert ("-" if found is None else found.symptom.name if found.symptom else None) == name


def test_lines_are_cut_and_lose_their_writer() -> None:
    assert cut("(EngineCore pid=31) ERROR 11-29 15:18:01 [core.py:1124] " + "x" * 500) == "x" * 399 + "…"


def test_the_last_line_is_not_the_noise_of_being_polled() -> None:
    lines = [
        "(EngineCore pid=3) INFO 11-29 15:15:30 [a.py:1] Loading weights",
        '(APIServer pid=1) INFO: 1.2.3.4 - "GET /health HTTP/1.1" 503',
    ]
    assert last_line(lines) == "Loading weights"
    assert last_line([]) == ""


def test_a_restarted_member_is_not_judged_by_what_it_ended_with() -> None:
    old = ["ERROR 11-29 15:00:00 [a.py:1] bad", "ValueError: old"]
    new = ["INFO 11-29 15:20:00 [a.py:1] starting", "RuntimeError: new"]
    import time

    since = time.mktime(time.strptime(f"{time.localtime().tm_year}-11-29 15:19:59", "%Y-%m-%d %H:%M:%S"))
    assert since_start(old + new, since) == new
    assert since_start(old, since) == []
    assert since_start(["no times here"], since) == ["no times here"]
    utc = ["2026-11-29T15:00:00.1Z a", "2026-11-29T15:20:00.1Z b"]
    assert since_start(utc, 1795965600.0) == utc[1:]


def test_every_row_says_what_it_means_and_what_to_do() -> None:
    rows: list[Symptom] = [*ENGINE, *ROUTER]
    for row in rows:
        assert row.meaning, row.name
        assert row.advice.endswith("."), row.name
        assert not re.search(r"\.$", row.meaning), row.name
    assert len({r.name for r in rows}) == len(rows)


def test_every_engine_has_its_row_of_symptoms() -> None:
    assert set(BY_BACKEND) == set(registry.engines())


def test_the_tail_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "log"
    assert logs.tail(str(path)) == ([], 0)
    path.write_bytes(b"".join(b"line %05d\n" % i for i in range(1000)))
    whole = logs.tail(str(path))
    assert len(whole.lines) == 1000
    end = logs.tail(str(path), kib=1)
    assert end.lines[-1] == "line 00999"
    assert 80 < len(end.lines) < 100
    assert all(re.fullmatch(r"line \d{5}", line) for line in end.lines)
    assert logs.tail(str(path), start=whole.offset) == ([], whole.offset)
    path.write_bytes(b"new\n")
    assert logs.tail(str(path), start=whole.offset).lines == ["new"]


def test_progress_bars_and_colours_are_cleaned() -> None:
    assert logs.clean("a\r 50%\r100%\n\x1b[31mred\x1b[0m\n\n  \n\x1b[0m\n\x00\x00b") == ["100%", "red", "b"]
