# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# This module util is PRIVATE to the collection.
"""vLLM: what its flags mean. Read in vllm 0.32 (engine/arg_utils.py, config/parallel.py, v1/metrics)."""

from __future__ import annotations

from .._core.arguments import Arguments, read_integer
from .._core.engine import Engine, Sizes

_SPELLINGS = {
    "context_length": ("max-model-len",),
    "tensor_parallel_size": ("tensor-parallel-size", "tp"),
    "data_parallel_size": ("data-parallel-size", "dp"),
    "pipeline_parallel_size": ("pipeline-parallel-size", "pp"),
    "dtype": ("dtype",),
    "kv_cache_dtype": ("kv-cache-dtype",),
    "block_size": ("block-size",),
    "kv_cache_layout": ("kv-cache-layout",),
    "kv_connector": ("kv-transfer-config",),
    "attention_backend": ("attention-backend",),
    "speculative_config": ("speculative-config",),
    "hf_overrides": ("hf-overrides",),
    "memory_fraction": ("gpu-memory-utilization",),
    "host": ("host",),
    "port": ("port",),
    "served_model_name": ("served-model-name",),
    "model": ("model",),
    "revision": ("revision",),
}

_SYNONYMS = {
    "dtype": {"half": "float16", "float": "float32"},
    "kv_cache_dtype": {"fp8": "fp8_e4m3"},
    "kv_cache_layout": {"NHD": "LBNHC", "HND": "LBHNC"},
}


def _size(arguments: Arguments, option: str) -> int | None:
    value = arguments.value(_SPELLINGS[option])
    return read_integer(value) if value is not None else None


def _sizes(arguments: Arguments, gpus: int | None) -> Sizes:
    """tp x dp x pp devices a member; a data-parallel rank has devices of its own. A member that writes no size runs tensor parallelism
    over its `gpus`."""
    tensor, data, pipeline = (
        _size(arguments, o) for o in ("tensor_parallel_size", "data_parallel_size", "pipeline_parallel_size")
    )
    if tensor is None and data is None and pipeline is None:
        width = max(1, gpus or 1)
        return Sizes(width, 1, 1, width, False)
    tensor, data, pipeline = tensor or 1, data or 1, pipeline or 1
    return Sizes(tensor, data, pipeline, tensor * data * pipeline, True)


def _width_arguments(gpus: int) -> list[str]:
    return [f"--tensor-parallel-size={gpus}"] if gpus > 1 else []


ENGINE = Engine(
    backend="vLLM",
    spellings=_SPELLINGS,
    synonyms=_SYNONYMS,
    toggles={
        # Off by default once a connector is configured.
        "hybrid_kv_cache_manager": ("no-disable-hybrid-kv-cache-manager", "disable-hybrid-kv-cache-manager", False),
    },
    sizes=_sizes,
    width_arguments=_width_arguments,
    # utils/argparse_utils.py, human_readable_int: lower case is decimal, upper case binary.
    units={
        **{unit: 10 ** (3 * n) for n, unit in enumerate("kmgt", 1)},
        **{unit: 2 ** (10 * n) for n, unit in enumerate("KMGT", 1)},
    },
    version_path="/version",
    busy_metrics=("vllm:num_requests_running", "vllm:num_requests_waiting"),
    held_metrics=("vllm:kv_cache_usage_perc",),
)
