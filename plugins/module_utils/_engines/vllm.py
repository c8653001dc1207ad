# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""vLLM: what its flags mean. Read in vllm 0.32 (engine/arg_utils.py, config/parallel.py, v1/metrics)."""

from __future__ import annotations

from .._core.base.arguments import Arguments, read_integer
from .._core.model.model_config import from_file
from .._core.proof.measured import Counted
from .._core.recipes.engine import Engine, Sizes, Speculation
from . import vllm_classes, vllm_nixl

_SPELLINGS = {
    "context_length": ("max-model-len",),
    "tensor_parallel_size": ("tensor-parallel-size", "tp"),
    "data_parallel_size": ("data-parallel-size", "dp"),
    "pipeline_parallel_size": ("pipeline-parallel-size", "pp"),
    "prefill_context_parallel_size": ("prefill-context-parallel-size", "pcp"),
    "decode_context_parallel_size": ("decode-context-parallel-size", "dcp"),
    "dtype": ("dtype",),
    "kv_cache_dtype": ("kv-cache-dtype",),
    "block_size": ("block-size",),
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
    "VLLM_KV_CACHE_LAYOUT": {"NHD": "LBNHC", "HND": "LBHNC"},
}


def _size(arguments: Arguments, option: str) -> int | None:
    value = arguments.value(_SPELLINGS[option])
    return read_integer(value) if value is not None else None


SIZES = (
    "tensor_parallel_size",
    "data_parallel_size",
    "pipeline_parallel_size",
    "prefill_context_parallel_size",
    "decode_context_parallel_size",
)


def _sizes(arguments: Arguments, gpus: int | None) -> Sizes:
    """tp x dp x pp x pcp devices a member: a data-parallel rank and a rank of prefill's context have devices of their own, while decode's
    context is dealt out among those that there are. A member that writes none of these sizes runs tensor parallelism over its `gpus`."""
    tensor, data, pipeline, context, shards = (_size(arguments, option) for option in SIZES)
    if tensor is None and data is None and pipeline is None and context is None:
        width = max(1, gpus or 1)
        return Sizes(width, 1, 1, width, False, 1, shards or 1)
    tensor, data, pipeline, context = tensor or 1, data or 1, pipeline or 1, context or 1
    return Sizes(tensor, data, pipeline, tensor * data * pipeline * context, True, context, shards or 1)


def _width_arguments(gpus: int) -> list[str]:
    return [f"--tensor-parallel-size={gpus}"] if gpus > 1 else []


# Flags of single keys of the speculative configuration, and the key that each is.
_SPECULATION_FLAGS = {"spec-method": "method", "spec-model": "model", "spec-tokens": "num_speculative_tokens"}
# Methods that guess from the text or keep a draft outside the KV cache of the pair.
_DRAFTLESS = ("ngram", "ngram_gpu", "suffix", "[ngram]")
# What the NIXL hash takes of it (nixl/metadata.py); the number of tokens may differ.
_COMPARED = ("method", "model", "revision", "code_revision", "parallel_drafting", "kv_cache_dtype")


def _speculation(arguments: Arguments) -> Speculation | None:
    told = arguments.object("speculative-config")
    flags = {key: arguments.value([flag]) for flag, key in _SPECULATION_FLAGS.items() if arguments.has(flag)}
    if told is None:
        return Speculation("unreadable", False, None)
    if not told and not flags:
        return None
    told = {str(key).replace("-", "_"): value for key, value in told.items()} | flags
    # Without a method it is guessed from the draft model's name by the engine; what that gives is the same on both sides.
    method = str(told.get("method") or told.get("model") or "unnamed")
    tokens = told.get("num_speculative_tokens")
    compared = {key: told[key] for key in _COMPARED if told.get(key) is not None}
    return Speculation(method, method in _DRAFTLESS, compared, None if tokens is None else str(tokens))


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
    busy_metrics=("vllm:num_requests_running", "vllm:num_requests_waiting"),
    held_metrics=("vllm:kv_cache_usage_perc",),
    # By reason; a prefill's own end for "length", after its one token (v1/metrics/loggers.py). One that its client gave up is not counted.
    done_metrics=("vllm:request_success_total",),
    # A prefill's end at its one token is the first hop of a request: what a client waits is that and the decode's.
    counted=Counted(
        requests=("vllm:request_success_total",),
        errors=('vllm:request_success_total{finished_reason="error"}',),
        first_token=dict.fromkeys(("prefill", "decode"), "vllm:time_to_first_token_seconds"),
    ),
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
    flags=vllm_classes.FLAGS,
)
