# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The flags of vLLM 0.32.0, by group of its parser. Written by tests/parsers/flag_tables.py, not by hand.

A line is the flag's names, `|` and what it takes (one value where nothing is said), `=` and its default where that is a plain word."""

from __future__ import annotations

VERSION = "0.32.0"
# The oldest version whose flags were looked at as well.
SINCE = "0.23.0"

TABLE = """
# options
--headless | none = False
--api-server-count -asc
--config
--grpc | none = False
--disable-log-stats | none = False
--aggregate-engine-logging | none = False
--fail-on-environ-validation --no-fail-on-environ-validation | none = False
--shutdown-timeout = 0
--gdn-prefill-backend
--kda-prefill-backend
--kda-decode-backend
--enable-log-requests --no-enable-log-requests | none = False
# Frontend
--lora-modules | many
--chat-template
--chat-template-content-format = auto
--trust-request-chat-template --no-trust-request-chat-template | none = False
--trust-request-mm-kwargs --no-trust-request-mm-kwargs | none = False
--default-chat-template-kwargs
--response-role = assistant
--return-tokens-as-token-ids --no-return-tokens-as-token-ids | none = False
--enable-auto-tool-choice --no-enable-auto-tool-choice | none = False
--exclude-tools-when-tool-choice-none --no-exclude-tools-when-tool-choice-none | none = False
--tool-call-parser
--tool-parser-plugin
--tool-strict-level = auto
--tool-server
--max-log-len
--enable-prompt-tokens-details --no-enable-prompt-tokens-details | none = False
--enable-per-request-metrics --no-enable-per-request-metrics | none = False
--enable-server-load-tracking --no-enable-server-load-tracking | none = False
--enable-force-include-usage --no-enable-force-include-usage | none = False
--sse-keep-alive-interval = 0
--enable-tokenizer-info-endpoint --no-enable-tokenizer-info-endpoint | none = False
--enable-log-outputs --no-enable-log-outputs | none = False
--enable-log-deltas --no-enable-log-deltas | none = True
--cohere-is-reasoning-model --no-cohere-is-reasoning-model | none = True
--cohere-format = cmd4
--anthropic-disabled-thinking-effort = auto
--log-error-stack --no-log-error-stack | none = False
--tokens-only --no-tokens-only | none = False
--enable-scale-out --no-enable-scale-out | none = False
--fingerprint-mode = full
--fingerprint-value
--host
--port = 8000
--grpc-port
--data-parallel-supervisor-port = 9256
--dp-supervisor-probe-interval-s = 5.0
--dp-supervisor-probe-timeout-s = 5.0
--dp-supervisor-probe-failure-threshold = 3
--uds
--uvicorn-log-level = info
--disable-uvicorn-access-log --no-disable-uvicorn-access-log | none = False
--disable-access-log-for-endpoints
--allow-credentials --no-allow-credentials | none = False
--allowed-origins
--allowed-methods
--allowed-headers
--api-key | many
--ssl-keyfile
--ssl-certfile
--ssl-ca-certs
--enable-ssl-refresh --no-enable-ssl-refresh | none = False
--ssl-cert-reqs = 0
--ssl-ciphers
--root-path
--middleware
--enable-request-id-headers --no-enable-request-id-headers | none = False
--disable-fastapi-docs --no-disable-fastapi-docs | none = False
--h11-max-incomplete-event-size = 4194304
--h11-max-header-count = 256
--enable-offline-docs --no-enable-offline-docs | none = False
--enable-flash-late-interaction --no-enable-flash-late-interaction | none = True
# ModelConfig
--model
--runner = auto
--convert = auto
--tokenizer
--tokenizer-mode = auto
--trust-remote-code --no-trust-remote-code | none = False
--dtype = auto
--seed = 0
--hf-config-path
--allowed-local-media-path
--allowed-media-domains | many
--revision
--code-revision
--tokenizer-revision
--max-model-len
--quantization -q
--quantization-config
--allow-deprecated-quantization --no-allow-deprecated-quantization | none = False
--enforce-eager --no-enforce-eager | none = False
--enable-return-routed-experts --no-enable-return-routed-experts | none = False
--return-sampling-mask --no-return-sampling-mask | none = False
--max-logprobs = 20
--logprobs-mode = raw_logprobs
--use-fp64-gumbel --no-use-fp64-gumbel | none = False
--enable-trace-replay --no-enable-trace-replay | none = False
--disable-sliding-window --no-disable-sliding-window | none = False
--disable-cascade-attn --no-disable-cascade-attn | none
--skip-tokenizer-init --no-skip-tokenizer-init | none = False
--enable-prompt-embeds --no-enable-prompt-embeds | none = False
--served-model-name | many
--config-format = auto
--hf-token | maybe
--hf-overrides
--model-class-overrides
--pooler-config
--generation-config = auto
--override-generation-config
--enable-sleep-mode --no-enable-sleep-mode | none = False
--sleep-mode-offload-cudagraph --no-sleep-mode-offload-cudagraph | none = False
--sleep-preserve-parameter-names | many
--enable-cumem-allocator --no-enable-cumem-allocator | none = False
--enable-nccl-comm-suspend --no-enable-nccl-comm-suspend | none = False
--model-impl = auto
--logits-processors | many
--io-processor-plugin
--renderer-num-workers = 1
# LoadConfig
--load-format = auto
--download-dir
--safetensors-load-strategy
--safetensors-prefetch-num-threads = 8
--safetensors-prefetch-block-size = 16777216
--model-loader-extra-config
--ignore-patterns | many
--use-tqdm-on-load --no-use-tqdm-on-load | none = True
--pt-load-map-location = cpu
# AttentionConfig
--attention-backend
# MambaConfig
--mamba-backend
--mamba-ssu-algorithm
--enable-mamba-cache-stochastic-rounding --no-enable-mamba-cache-stochastic-rounding | none = False
--mamba-cache-philox-rounds = 0
# StructuredOutputsConfig
--reasoning-parser
--reasoning-parser-plugin
# ParallelConfig
--distributed-executor-backend
--pipeline-parallel-size -pp = 1
--master-addr = 127.0.0.1
--master-port = 29501
--nnodes -n = 1
--node-rank -r = 0
--distributed-timeout-seconds
--cpu-distributed-timeout-seconds
--numa-bind --no-numa-bind | none = False
--numa-bind-nodes | many
--numa-bind-cpus | many
--device-ids
--tensor-parallel-size -tp = 1
--decode-context-parallel-size -dcp = 1
--dcp-comm-backend
--dcp-q-replicate --no-dcp-q-replicate | none
--dcp-kv-cache-interleave-size = 1
--cp-kv-cache-interleave-size
--prefill-context-parallel-size -pcp = 1
--data-parallel-size -dp = 1
--data-parallel-rank -dpn
--data-parallel-start-rank -dpr
--data-parallel-size-local -dpl
--data-parallel-address -dpa
--data-parallel-rpc-port -dpp
--data-parallel-backend -dpb = mp
--data-parallel-hybrid-lb --no-data-parallel-hybrid-lb -dph | none = False
--data-parallel-external-lb --no-data-parallel-external-lb -dpe | none = False
--data-parallel-multi-port-external-lb -dpm | none = False
--enable-hc-sp --no-enable-hc-sp | none = False
--enable-expert-parallel --no-enable-expert-parallel -ep | none = False
--enable-batch-sharded-sampling --no-enable-batch-sharded-sampling | none
--enable-ep-weight-filter --no-enable-ep-weight-filter | none = False
--all2all-backend = allgather_reducescatter
--enable-dbo --no-enable-dbo | none = False
--enable-shm-tensor-arena --no-enable-shm-tensor-arena | none = False
--ubatch-size = 0
--enable-elastic-ep --no-enable-elastic-ep | none = False
--elastic-ep-max-dp-size
--dbo-decode-token-threshold = 32
--dp-sync-interval = 16
--dbo-prefill-token-threshold = 512
--disable-nccl-for-dp-synchronization --no-disable-nccl-for-dp-synchronization | none
--enable-eplb --no-enable-eplb | none = False
--eplb-config
--expert-placement-strategy = linear
--max-parallel-loading-workers
--ray-workers-use-nsight --no-ray-workers-use-nsight | none = False
--disable-custom-all-reduce --no-disable-custom-all-reduce | none = False
--worker-cls = auto
--worker-extension-cls
--enable-fault-tolerance --no-enable-fault-tolerance | none = False
--fault-tolerance-config
# CacheConfig
--block-size
--gpu-memory-utilization --device-memory-utilization = 0.92
--kv-cache-memory-bytes
--kv-cache-dtype = auto
--num-gpu-blocks-override
--enable-prefix-caching --no-enable-prefix-caching | none
--prefix-caching-hash-algo = sha256
--prefix-cache-retention-interval = 0
--kv-cache-dtype-skip-layers | many
--kv-sharing-fast-prefill --no-kv-sharing-fast-prefill | none = False
--swa-bounded-replay --no-swa-bounded-replay | none = True
--mamba-cache-dtype = auto
--mamba-ssm-cache-dtype = auto
--mamba-block-size
--prefix-match-unit
--mamba-cache-mode = none
--enable-mamba-shared-prefix-checkpoint --no-enable-mamba-shared-prefix-checkpoint | none = False
--replayssm-buffer-len = 16
--use-replayssm --no-use-replayssm | none = False
--kv-offloading-size
--kv-offloading-backend = native
# OffloadConfig
--offload-backend = auto
--cpu-offload-gb = 0
--cpu-offload-params | many
--offload-group-size = 0
--offload-num-in-group = 1
--offload-prefetch-step = 1
--offload-params | many
# MultiModalConfig
--language-model-only --no-language-model-only | none = False
--limit-mm-per-prompt
--enable-mm-embeds --no-enable-mm-embeds | none = False
--media-io-kwargs
--mm-processor-kwargs
--mm-processor-cache-gb = 4
--mm-processor-cache-type = lru
--mm-hasher-algorithm = blake3
--mm-shm-cache-max-object-size-mb = 128
--mm-encoder-only --no-mm-encoder-only | none = False
--mm-encoder-tp-mode = weights
--mm-encoder-attn-backend
--mm-encoder-attn-dtype
--mm-encoder-fp8-scale-path
--mm-encoder-fp8-scale-save-path
--mm-encoder-fp8-scale-save-margin = 1.5
--interleave-mm-strings --no-interleave-mm-strings | none = False
--skip-mm-profiling --no-skip-mm-profiling | none = False
--video-pruning-rate
--video-pruning-method = evs
--mm-tensor-ipc = direct_rpc
--mm-processor-device = auto
--mm-ipc-gpu-memory-gb = 0
--mm-device-do-normalize --no-mm-device-do-normalize | none
# LoRAConfig
--enable-lora --no-enable-lora | none
--max-loras = 1
--max-lora-rank = 16
--lora-dtype = auto
--enable-tower-connector-lora --no-enable-tower-connector-lora | none = False
--max-cpu-loras
--fully-sharded-loras --no-fully-sharded-loras | none = False
--lora-target-modules | many
--default-mm-loras
--specialize-active-lora --no-specialize-active-lora | none = False
--enable-mixed-moe-lora-format --no-enable-mixed-moe-lora-format | none = False
--enable-moe-shared-loras --no-enable-moe-shared-loras | none = False
--max-lora-cls-labels
# LoggingConfig
--logging-config
--log-level
--log-config-file
# ObservabilityConfig
--show-hidden-metrics-for-version
--otlp-traces-endpoint
--collect-detailed-traces | many
--per-request-spec-decode-metrics = none
--kv-cache-metrics --no-kv-cache-metrics | none = False
--kv-cache-metrics-sample = 0.01
--custom-histogram-buckets
--cudagraph-metrics --no-cudagraph-metrics | none = False
--enable-layerwise-nvtx-tracing --no-enable-layerwise-nvtx-tracing | none = False
--enable-mfu-metrics --no-enable-mfu-metrics | none = False
--enable-logging-iteration-details --no-enable-logging-iteration-details | none = False
--jit-monitor-mode = warn
--jit-monitor-verbose --no-jit-monitor-verbose | none = False
# SchedulerConfig
--max-num-batched-tokens
--max-num-scheduled-tokens
--max-num-seqs
--max-num-active-seqs
--max-num-queued-reqs
--max-num-queued-tokens
--long-prefill-token-threshold = 0
--long-prefill-token-threshold-adaptive --no-long-prefill-token-threshold-adaptive | none = False
--scheduling-policy = fcfs
--enable-chunked-prefill --no-enable-chunked-prefill | none
--disable-chunked-mm-input --no-disable-chunked-mm-input | none = False
--scheduler-cls
--scheduler-reserve-full-isl --no-scheduler-reserve-full-isl | none = True
--watermark = 0.0
--prefill-schedule-interval = 1
--disable-hybrid-kv-cache-manager --no-disable-hybrid-kv-cache-manager | none
--async-scheduling --no-async-scheduling | none
--stream-interval = 1
# CompilationConfig
--cudagraph-capture-sizes | many
--max-cudagraph-capture-size
# KernelConfig
--ir-op-priority
--enable-flashinfer-autotune --no-enable-flashinfer-autotune | none
--moe-backend = auto
--linear-backend = auto
--sparse-indexer-topk-backend = auto
# VllmConfig
--speculative-config -sc
--spec-method
--spec-model
--spec-tokens
--watermark-config
--diffusion-config -dc
--kv-transfer-config
--kv-events-config
--ec-transfer-config
--ec-manager-config
--compilation-config -cc
--attention-config -ac
--engram-config
--reasoning-config
--kernel-config
--additional-config
--structured-outputs-config
--aux-output-config
--profiler-config
--optimization-level = 2
--performance-mode = balanced
--weight-transfer-config
"""

# Flags that versions between the two had, and 0.32.0 has not.
FORMER = """
--calculate-kv-scales --enable-bf16x3-router-gemm --enable-mamba-fine-grained-prefix-cache --lora-list --max-long-partial-prefills
--max-num-partial-prefills --override-attention-dtype
"""
