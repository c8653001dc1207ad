# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What each of vLLM's flags is to us (the words are those of _core/recipes/flags.py). A flag without a row has what its group has; one that
has neither fails a test, so that a new version's flags are looked at one by one.

Both sides read the same request: the router sends it to prefill and to decode, and each makes its own tokens of it. What makes these
tokens, or the numbers that fill the KV cache, must be the same on both."""

from __future__ import annotations

from .._core.recipes.flags import FlagTable, read, read_variables
from . import vllm_flags

# Groups whose flags are the user's, whatever a new version adds.
GROUPS = {
    "LoRAConfig": "free",
    "LoggingConfig": "free",
    "ObservabilityConfig": "free",
    "OffloadConfig": "free",
    "SchedulerConfig": "free",
    "CompilationConfig": "free",
    "KernelConfig": "free",
}
CLASSES = (
    # -- what makes tokens of a request --
    (
        "factor/tokens",
        """
        chat-template chat-template-content-format default-chat-template-kwargs trust-request-chat-template trust-request-mm-kwargs
        exclude-tools-when-tool-choice-none cohere-is-reasoning-model cohere-format anthropic-disabled-thinking-effort tokens-only
        tokenizer tokenizer-mode tokenizer-revision skip-tokenizer-init enable-prompt-embeds io-processor-plugin limit-mm-per-prompt
        language-model-only enable-mm-embeds media-io-kwargs mm-processor-kwargs interleave-mm-strings mm-encoder-only video-pruning-rate
        video-pruning-method mm-device-do-normalize
        """,
    ),
    # -- which weights, and which numbers they are --
    (
        "factor/weights",
        """
        code-revision hf-config-path config-format quantization-config model-class-overrides model-impl load-format runner convert
        disable-sliding-window engram-config diffusion-config
        """,
    ),
    ("factor/auto", "quantization"),
    # -- what the bytes of the KV cache mean --
    (
        "factor/cache",
        "kv-cache-dtype-skip-layers mamba-cache-dtype mamba-ssm-cache-dtype mamba-block-size mamba-cache-mode swa-bounded-replay",
    ),
    (
        "open/cache",
        "cp-kv-cache-interleave-size dcp-kv-cache-interleave-size kv-sharing-fast-prefill use-replayssm replayssm-buffer-len",
    ),
    # -- what one side answers with 400 --
    (
        "open/accepts",
        """
        enable-auto-tool-choice tool-parser-plugin max-logprobs trust-remote-code allowed-local-media-path allowed-media-domains
        logits-processors
        """,
    ),
    # -- compared by rules of their own --
    (
        "ruled",
        """
        max-model-len dtype kv-cache-dtype block-size revision hf-overrides attention-backend attention-config speculative-config
        spec-method spec-model spec-tokens disable-hybrid-kv-cache-manager kv-transfer-config gpu-memory-utilization
        """,
    ),
    # -- sizes --
    (
        "size",
        "tensor-parallel-size pipeline-parallel-size data-parallel-size prefill-context-parallel-size decode-context-parallel-size",
    ),
    # -- not the user's --
    ("owned/derived", "host port served-model-name model"),
    (
        "owned/http",
        "ssl-keyfile ssl-certfile ssl-ca-certs enable-ssl-refresh ssl-cert-reqs ssl-ciphers uds root-path grpc",
    ),
    ("owned/counters", "disable-log-stats"),
    (
        "owned/hosts",
        """
        headless nnodes node-rank data-parallel-rank data-parallel-start-rank data-parallel-size-local data-parallel-hybrid-lb
        data-parallel-external-lb data-parallel-multi-port-external-lb data-parallel-supervisor-port
        """,
    ),
    # -- what stands for something of the host --
    (
        "port",
        """
        grpc-port master-port data-parallel-rpc-port data-parallel-supervisor-port kv-events-config kv-transfer-config ec-transfer-config
        """,
    ),
    (
        "address",
        "master-addr data-parallel-address tool-server otlp-traces-endpoint kv-events-config ec-transfer-config",
    ),
    (
        "path",
        """
        config chat-template tool-parser-plugin reasoning-parser-plugin log-config-file download-dir allowed-local-media-path
        hf-config-path mm-encoder-fp8-scale-path mm-encoder-fp8-scale-save-path tokenizer model
        """,
    ),
    ("device", "device-ids numa-bind numa-bind-nodes numa-bind-cpus"),
    ("adapter", "enable-lora lora-modules default-mm-loras"),
    ("secret", "api-key hf-token"),
    # -- looked at, and the user's --
    (
        "free",
        # the server
        """
        api-server-count aggregate-engine-logging fail-on-environ-validation shutdown-timeout enable-log-requests response-role
        return-tokens-as-token-ids tool-call-parser tool-strict-level max-log-len enable-prompt-tokens-details enable-per-request-metrics
        enable-server-load-tracking enable-force-include-usage sse-keep-alive-interval enable-tokenizer-info-endpoint enable-log-outputs
        enable-log-deltas log-error-stack enable-scale-out fingerprint-mode fingerprint-value dp-supervisor-probe-interval-s
        dp-supervisor-probe-timeout-s dp-supervisor-probe-failure-threshold uvicorn-log-level disable-uvicorn-access-log
        disable-access-log-for-endpoints allow-credentials allowed-origins allowed-methods allowed-headers middleware
        enable-request-id-headers disable-fastapi-docs h11-max-incomplete-event-size h11-max-header-count enable-offline-docs
        enable-flash-late-interaction
        """,
    ),
    (
        "free",
        # kernels, which come to the same numbers
        """
        gdn-prefill-backend kda-prefill-backend kda-decode-backend mamba-backend mamba-ssu-algorithm enable-mamba-cache-stochastic-rounding
        mamba-cache-philox-rounds enforce-eager disable-cascade-attn use-fp64-gumbel
        """,
    ),
    (
        "free",
        # what is answered, not what is computed of the prompt: prefill's own token is thrown away
        """
        seed generation-config override-generation-config logprobs-mode pooler-config reasoning-parser enable-return-routed-experts
        return-sampling-mask enable-trace-replay
        """,
    ),
    (
        "free",
        # memory, loading, workers
        """
        allow-deprecated-quantization enable-sleep-mode sleep-mode-offload-cudagraph sleep-preserve-parameter-names enable-cumem-allocator
        enable-nccl-comm-suspend renderer-num-workers safetensors-load-strategy safetensors-prefetch-num-threads
        safetensors-prefetch-block-size model-loader-extra-config ignore-patterns use-tqdm-on-load pt-load-map-location
        distributed-executor-backend distributed-timeout-seconds cpu-distributed-timeout-seconds dcp-comm-backend dcp-q-replicate
        data-parallel-backend enable-hc-sp enable-expert-parallel enable-batch-sharded-sampling enable-ep-weight-filter all2all-backend
        enable-dbo enable-shm-tensor-arena ubatch-size enable-elastic-ep elastic-ep-max-dp-size dbo-decode-token-threshold dp-sync-interval
        dbo-prefill-token-threshold disable-nccl-for-dp-synchronization enable-eplb eplb-config expert-placement-strategy
        max-parallel-loading-workers ray-workers-use-nsight disable-custom-all-reduce worker-cls worker-extension-cls
        enable-fault-tolerance fault-tolerance-config
        """,
    ),
    (
        "free",
        # how much of the KV cache there is, and what is kept of it
        """
        kv-cache-memory-bytes num-gpu-blocks-override enable-prefix-caching prefix-caching-hash-algo prefix-cache-retention-interval
        prefix-match-unit enable-mamba-shared-prefix-checkpoint kv-offloading-size kv-offloading-backend
        """,
    ),
    (
        "free",
        # encoders of pictures and sound: where and how fast
        """
        mm-processor-cache-gb mm-processor-cache-type mm-hasher-algorithm mm-shm-cache-max-object-size-mb mm-encoder-tp-mode
        mm-encoder-attn-backend mm-encoder-attn-dtype mm-encoder-fp8-scale-save-margin skip-mm-profiling mm-tensor-ipc mm-processor-device
        mm-ipc-gpu-memory-gb
        """,
    ),
    (
        "free",
        """
        watermark-config ec-manager-config compilation-config reasoning-config kernel-config additional-config structured-outputs-config
        aux-output-config profiler-config optimization-level performance-mode weight-transfer-config
        """,
    ),
)
# Variables; all others are free. `handshake`: where a mode's handshake compares it, that is the better judge.
ENVIRONMENT = (
    ("factor/handshake", "VLLM_KV_CACHE_LAYOUT VLLM_MLA_DISABLE VLLM_SSM_CONV_STATE_LAYOUT"),
    ("ruled", "VLLM_ALLOW_CHUNKED_LOCAL_ATTN_WITH_HYBRID_KV_CACHE VLLM_BATCH_INVARIANT PYTHONHASHSEED"),
    ("size", "VLLM_DP_SIZE VLLM_DP_RANK VLLM_DP_RANK_LOCAL"),
    ("port", "VLLM_NIXL_SIDE_CHANNEL_PORT VLLM_MOONCAKE_BOOTSTRAP_PORT VLLM_PORT VLLM_DP_MASTER_PORT"),
    ("address", "VLLM_NIXL_SIDE_CHANNEL_HOST VLLM_HOST_IP VLLM_DP_MASTER_IP HCCL_IF_IP HOST_IP"),
    ("device", "CUDA_VISIBLE_DEVICES ROCR_VISIBLE_DEVICES HIP_VISIBLE_DEVICES ASCEND_RT_VISIBLE_DEVICES"),
    ("secret", "VLLM_API_KEY OPENAI_API_KEY HF_TOKEN HUGGING_FACE_HUB_TOKEN"),
)
# What does the same as a flag that is gone, or never was one of vLLM's.
INSTEAD = {
    "kv-cache-layout": "the variable VLLM_KV_CACHE_LAYOUT",
    "disable-log-requests": "--no-enable-log-requests",
    "enable-reasoning": "--reasoning-parser",
    "guided-decoding-backend": "--structured-outputs-config.backend",
    "max-seq-len-to-capture": "--max-cudagraph-capture-size",
    "num-scheduler-steps": "--async-scheduling",
    "swap-space": "--kv-offloading-size",
    "task": "--runner",
    "rope-scaling": "--hf-overrides",
    "rope-theta": "--hf-overrides",
    "speculative-model": "--speculative-config",
    "num-speculative-tokens": "--speculative-config",
    "worker-use-ray": "--distributed-executor-backend",
    "tensor-parallel": "--tensor-parallel-size",
    "tp": "--tensor-parallel-size",
    "dp": "--data-parallel-size",
    "pp": "--pipeline-parallel-size",
    "ep": "--enable-expert-parallel",
    "expert-parallel-size": "--enable-expert-parallel",
}

FLAGS = FlagTable(
    engine="vLLM",
    version=vllm_flags.VERSION,
    since=vllm_flags.SINCE,
    flags=read(vllm_flags.TABLE, GROUPS, CLASSES),
    former=frozenset(vllm_flags.FORMER.split()),
    instead=INSTEAD,
    underscores=True,
    dotted=True,
    like_the_model=("tokenizer", "hf-config-path"),
    only={
        "load-format": ("dummy",),
        # What generates is what a pair can serve, and so what the engine finds out by itself.
        "runner": ("draft", "pooling"),
        "convert": ("classify", "embed"),
    },
    environment=read_variables(ENVIRONMENT),
    attached=(("-O", "--optimization-level"),),
)
