# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""vLLM: what its flags mean. Read in vllm 0.32 (engine/arg_utils.py, config/parallel.py, v1/metrics)."""

from __future__ import annotations

import typing as t

from .._core.base.arguments import Arguments, normal, read_integer, read_json_object
from .._core.model.model_config import from_file
from .._core.recipes.engine import Engine, Sizes, Speculation
from . import vllm_nixl

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
    "attention_backend": ("attention-backend", "attention-config.backend"),
    "speculative_config": ("speculative-config", "sc"),
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


# Flags of single keys of the speculative configuration, and the key that each is.
_SPECULATION_FLAGS = {"spec-method": "method", "spec-model": "model", "spec-tokens": "num_speculative_tokens"}
# Methods that guess from the text or keep a draft outside the KV cache of the pair.
_DRAFTLESS = ("ngram", "ngram_gpu", "suffix", "[ngram]")
# What the NIXL hash takes of it (nixl/metadata.py); the number of tokens may differ.
_COMPARED = ("method", "model", "revision", "code_revision", "parallel_drafting", "kv_cache_dtype")


def _speculation(arguments: Arguments) -> Speculation | None:
    written = arguments.last(_SPELLINGS["speculative_config"])
    flags = {key: arguments.value([flag]) for flag, key in _SPECULATION_FLAGS.items() if arguments.has(flag)}
    dotted = [o for o in arguments.options if o.name.startswith(("speculative-config.", "sc."))]
    if written is None and not flags and not dotted:
        return None
    told: dict[str, t.Any] | None = {} if written is None else read_json_object(written.value or "")
    if told is None:
        return Speculation("unreadable", False, None)
    told = {str(key).replace("-", "_"): value for key, value in told.items()} | flags
    told |= {normal(o.name).split(".", 1)[1].replace("-", "_"): o.value for o in dotted}
    # Without a method it is guessed from the draft model's name by the engine; what that gives is the same on both sides.
    method = str(told.get("method") or told.get("model") or "unnamed")
    return Speculation(method, method in _DRAFTLESS, {key: told[key] for key in _COMPARED if told.get(key) is not None})


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
    # By reason; a prefill's own end for "length", after its one token (v1/metrics/loggers.py). One that its client gave up is not counted.
    done_metrics=("vllm:request_success_total",),
    settle=from_file,
    speculation=_speculation,
    adapter_flags=("enable-lora", "lora-modules", "default-mm-loras"),
    key_env=("VLLM_API_KEY",),
    config_flags=("config",),
    # config/vllm.py refuses it at start: it may move memory that a connector has registered. The cumem allocator has a pool of its own.
    allocator_env=("PYTORCH_CUDA_ALLOC_CONF",),
    allocator_exempt=("enable-cumem-allocator", "enable-sleep-mode"),
    waits={"VLLM_MOONCAKE_ABORT_REQUEST_TIMEOUT": None, "VLLM_NIXL_ABORT_REQUEST_TIMEOUT": None},
    memory_fraction=0.9,
    handshakes={"nixl": vllm_nixl.check},
)
