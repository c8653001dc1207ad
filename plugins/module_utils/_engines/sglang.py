# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""SGLang: what its flags mean. Read in sglang 0.5.23 (srt/arg_groups/fields, srt/server_args.py, srt/utils/common.py)."""

from __future__ import annotations

from .._core.base.arguments import Arguments, read_integer
from .._core.model.model_config import from_file
from .._core.proof.measured import Counted
from .._core.recipes.engine import Engine, Sizes, Speculation
from . import sglang_classes

_SPELLINGS = {
    "context_length": ("context-length",),
    "tensor_parallel_size": ("tp-size", "tensor-parallel-size"),
    "data_parallel_size": ("dp-size", "data-parallel-size"),
    "attention_data_parallel_size": ("attn-dp-size", "attention-data-parallel-size"),
    "pipeline_parallel_size": ("pp-size", "pipeline-parallel-size"),
    "prefill_context_parallel_size": ("attn-cp-size", "attention-context-parallel-size"),
    "decode_context_parallel_size": ("dcp-size", "decode-context-parallel-size"),
    "dtype": ("dtype",),
    "kv_cache_dtype": ("kv-cache-dtype",),
    "block_size": ("page-size",),
    "attention_backend": ("attention-backend",),
    "speculative_config": ("speculative-algorithm",),
    "hf_overrides": ("json-model-override-args",),
    "memory_fraction": ("mem-fraction-static",),
    "host": ("host",),
    "port": ("port",),
    "served_model_name": ("served-model-name",),
    "model": ("model-path", "model"),
    "revision": ("revision",),
}


def _size(arguments: Arguments, option: str) -> int | None:
    value = arguments.value(_SPELLINGS[option])
    return read_integer(value) if value is not None else None


def _sizes(arguments: Arguments, gpus: int | None) -> Sizes:
    """tp x pp devices, times dp where each data-parallel replica has devices of its own: under attention data parallelism (its flag, or the
    older --enable-dp-attention) the replicas share the tensor-parallel devices. Ranks of a context are tensor-parallel ones as well."""
    tensor, data, pipeline, attention, context, shards = (
        _size(arguments, o)
        for o in (
            "tensor_parallel_size",
            "data_parallel_size",
            "pipeline_parallel_size",
            "attention_data_parallel_size",
            "prefill_context_parallel_size",
            "decode_context_parallel_size",
        )
    )
    context, shards = context or 1, shards or 1
    if tensor is None and data is None and pipeline is None and attention is None:
        width = max(1, gpus or 1)
        return Sizes(width, 1, 1, width, False, context, shards, max(1, width // context))
    shared = arguments.has("enable-dp-attention") or (attention or 1) > 1
    tensor, pipeline = tensor or 1, pipeline or 1
    data = max(data or 1, attention or 1)
    heads = max(1, tensor // context // (data if shared else 1))
    return Sizes(tensor, data, pipeline, tensor * pipeline * (1 if shared else data), True, context, shards, heads)


def _width_arguments(gpus: int) -> list[str]:
    return [f"--tp-size={gpus}"] if gpus > 1 else []


def _speculation(arguments: Arguments) -> Speculation | None:
    method = arguments.value(_SPELLINGS["speculative_config"])
    if method is None:
        return None
    compared = {
        "algorithm": method.upper(),
        "draft model": arguments.value(["speculative-draft-model-path", "speculative-draft-model"]),
    }
    return Speculation(method, method.upper() == "NGRAM", {k: v for k, v in compared.items() if v is not None})


ENGINE = Engine(
    backend="SGLang",
    spellings=_SPELLINGS,
    synonyms={
        "dtype": {"half": "float16", "float": "float32"},
        "kv_cache_dtype": {"bf16": "bfloat16"},
    },
    toggles={},
    sizes=_sizes,
    width_arguments=_width_arguments,
    # SI letters are decimal, the -i ones binary (utils/common.py, human_readable_int).
    units={
        **{unit: 10 ** (3 * n) for n, unit in enumerate("kMGT", 1)},
        **{f"{unit}i": 2 ** (10 * n) for n, unit in enumerate("KMGT", 1)},
    },
    auto_context=(),
    # Both sides get a request at once: before it runs it stands in queues of the transfer, which the plain queue does not count.
    busy_metrics=(
        "sglang:num_running_reqs",
        "sglang:num_queue_reqs",
        "sglang:num_prefill_bootstrap_queue_reqs",
        "sglang:num_decode_prealloc_queue_reqs",
        "sglang:num_decode_transfer_queue_reqs",
    ),
    held_metrics=("sglang:num_prefill_inflight_queue_reqs",),
    # By the server's front (managers/tokenizer_manager.py), on both sides.
    done_metrics=("sglang:num_requests_total",),
    # Both sides get a request at once, so that the decode's time is what a client waits. Aborts count those that clients gave up.
    counted=Counted(
        requests=("sglang:num_requests_total",),
        errors=("sglang:num_transfer_failed_reqs_total", "sglang:num_bootstrap_failed_reqs_total"),
        first_token={"decode": "sglang:time_to_first_token_seconds"},
        late=True,
    ),
    settle=from_file,
    speculation=_speculation,
    adapter_flags=("enable-lora", "lora-paths"),
    config_flags=("config",),
    waits={"SGLANG_DISAGGREGATION_BOOTSTRAP_TIMEOUT": 300, "SGLANG_DISAGGREGATION_WAITING_TIMEOUT": 300},
    flags=sglang_classes.FLAGS,
)
