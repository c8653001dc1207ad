"""One real group for the end-to-end tests: real engines on CPUs, NIXL over TCP, the real router, under Ansible as a user runs it."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest
from support import ROOT, Site

DEMO = ROOT / ".build" / "demo"


def real_group(**changes: t.Any) -> dict[str, t.Any]:
    """The spec of a real group on this machine, ports and state apart from the demo's."""
    spec: dict[str, t.Any] = {
        "mode": "vllm-nixl",
        "runtime": "supervisor",
        "model": str(DEMO / "model"),
        "served_model_name": "tiny",
        "engine": {
            "executable": str(DEMO / "engine/bin/vllm"),
            "args": [
                "--max-model-len=1024",
                "--max-num-seqs=4",
                "--dtype=float32",
                "--block-size=32",
                "--enforce-eager",
                "--kv-cache-memory-bytes=16777216",
                "--distributed-executor-backend=uni",
            ],
            "env": {
                "VLLM_TARGET_DEVICE": "cpu",
                "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
                "VLLM_CPU_OMP_THREADS_BIND": "nobind",
                "OMP_NUM_THREADS": "1",
                "UCX_TLS": "tcp,self",
                "PYTHONPATH": str(DEMO / "engine-site"),
                "HF_HUB_OFFLINE": "1",
                "TRANSFORMERS_OFFLINE": "1",
                "VLLM_NO_USAGE_STATS": "1",
                "DO_NOT_TRACK": "1",
            },
        },
        "roles": {
            "prefill": {"hosts": "node", "gpus": 0},
            "decode": {"hosts": "node", "gpus": 0},
            "router": {"hosts": "node", "port": 28190, "executable": str(DEMO / "engine/bin/vllm-router")},
        },
        "limits": {"start": 300, "drain": 20},
    }
    spec.update(changes)
    return spec


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> t.Iterator[Site]:
    """An inventory with one host, this machine; whatever runs of it is removed at the end."""
    folder = Path(tmp_path_factory.mktemp("site"))
    made = Site(folder, {"node": {"pd_port_range": "28100-28163"}}, {"real": real_group()})
    yield made
    made.play("remove", pd_group="real", pd_break_lock="true")
    made.end_processes()
