# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What each of SGLang's flags is to us (the words are those of _core/recipes/flags.py). A flag without a row has what its group has; one
that has neither fails a test, so that a new version's flags are looked at one by one.

Both sides read the same request, and each makes its own tokens of it. Prefill also draws the first token of an answer, so that what it is
drawn by counts as well."""

from __future__ import annotations

from .._core.recipes.flags import Conflict, FlagTable, read, read_variables
from . import sglang_flags

# Groups whose flags are the user's, whatever a new version adds.
GROUPS = {
    "exec_": "free",
    "lora": "free",
    "memory": "free",
    "observability": "free",
    "schedule": "free",
}
CLASSES = (
    # -- what makes tokens of a request --
    (
        "factor/tokens",
        """
        chat-template hf-chat-template-name completion-template default-chat-template-kwargs trust-request-chat-template tokenizer-path
        tokenizer-mode tokenizer-backend skip-tokenizer-init enable-multimodal mm-process-config limit-mm-data-per-request
        language-model-only language-only image-processor-backend disable-fast-image-processor allow-auto-truncate
        """,
    ),
    # -- which weights, and which numbers they are --
    (
        "factor/weights",
        """
        load-format quantization-param-path modelopt-quant modelopt-checkpoint-restore-path quantize-and-serve rl-quant-profile model-impl
        model-config-parser is-embedding decrypted-config-file
        """,
    ),
    ("factor/auto", "quantization"),
    # -- what the bytes of the KV cache, and of what goes with it, mean --
    (
        "factor/cache",
        """
        disaggregation-enable-kv-checksum disaggregation-decode-allocation-policy dsv4-attn-backend mamba-ssm-dtype c128-page-size
        qsa-indexer-dtype enable-page-major-kv-layout
        """,
    ),
    (
        "open/cache",
        """
        attention-backend prefill-attention-backend decode-attention-backend disable-hybrid-swa-memory enable-encoder-swa-bounded-replay
        enable-decoder-swa-bounded-replay enable-int8-mamba-checkpoint
        """,
    ),
    # -- what one side answers with 400, or draws in another way --
    (
        "open/accepts",
        "enable-custom-logit-processor sampling-defaults trust-remote-code allowed-media-domains enable-strict-thinking",
    ),
    # -- compared by rules of their own --
    (
        "ruled",
        """
        context-length dtype kv-cache-dtype page-size revision json-model-override-args speculative-algorithm speculative-draft-model-path
        speculative-draft-model-revision mem-fraction-static
        """,
    ),
    # -- sizes --
    (
        "size",
        "tp-size dp-size pp-size attn-dp-size attn-cp-size dcp-size moe-dp-size dwdp-size ep-size enable-dp-attention",
    ),
    # -- not the user's --
    (
        "owned/derived",
        """
        host port served-model-name model-path enable-metrics disaggregation-mode disaggregation-bootstrap-port
        disaggregation-transfer-backend
        """,
    ),
    (
        "owned/http",
        "ssl-keyfile ssl-certfile ssl-ca-certs ssl-keyfile-password enable-ssl-refresh fastapi-root-path grpc-mode smg-grpc-mode",
    ),
    ("owned/hosts", "nnodes node-rank use-ray elastic-ep-join-rank-offset"),
    ("owned/roles", "enable-pd-role-switch encoder-only"),
    # -- what stands for something of the host --
    (
        "port",
        """
        grpc-port nccl-port gated-launch-port engine-info-bootstrap-port encoder-bootstrap-port dist-init-addr smg-http-sidecar-port
        remote-instance-weight-loader-seed-instance-service-port remote-instance-weight-loader-send-weights-group-ports kv-events-config
        decoupled-spec-bind-endpoint load-publish-endpoint
        """,
    ),
    (
        "address",
        """
        dist-init-addr encoder-urls encoder-register-urls tool-server remote-instance-weight-loader-seed-instance-ip kv-events-config
        decoupled-spec-bind-endpoint decoupled-spec-connect-endpoints otlp-traces-endpoint load-publish-endpoint
        """,
    ),
    (
        "path",
        """
        config chat-template completion-template tokenizer-path model-path download-dir file-storage-path pdmux-config-path
        quantization-param-path modelopt-checkpoint-restore-path modelopt-checkpoint-save-path modelopt-export-path
        speculative-draft-model-path speculative-token-map weight-cache-socket decrypted-config-file decrypted-draft-config-file
        lmcache-config-file flexkv-config-file uno-lora-path spec-trace-dir speculative-ngram-external-corpus-path crash-dump-folder
        export-metrics-to-file-dir debug-tensor-dump-output-folder debug-tensor-dump-input-file kt-weight-path ple-offload-dir
        init-expert-location deepep-config
        """,
    ),
    (
        "device",
        "device base-gpu-id gpu-id-step disaggregation-ib-device mooncake-ib-device numa-node",
    ),
    ("adapter", "enable-lora lora-paths"),
    ("secret", "api-key admin-api-key"),
    # -- looked at, and the user's --
    ("free", "random-seed mlx-enable-sampling watchdog-timeout soft-watchdog-timeout sleep-on-idle gc-threshold"),
    (
        "free",
        # one side's own part of the transfer
        """
        decoupled-spec-rank decoupled-spec-role disaggregation-decode-enable-radix-cache disaggregation-decode-enable-offload-kvcache
        disaggregation-decode-retraction-backup num-reserved-decode-tokens disaggregation-decode-extra-slots
        disaggregation-decode-polling-interval optimistic-prefill-attempts encoder-transfer-backend enable-adaptive-dispatch-to-encoder
        enable-pdmux sm-group-num disaggregation-decode-host-receive-threshold
        """,
    ),
    (
        "free",
        # encoders of pictures and sound: where and how fast
        """
        mm-attention-backend enable-broadcast-mm-inputs-process enable-prefix-mm-cache mm-enable-dp-encoder mm-processor-worker-num
        mm-io-worker-num media-url-max-file-size-mb mm-preprocess-cache-size-mb trust-mm-content-hashes enable-mm-global-cache
        mm-global-cache-backend mm-feature-transport
        """,
    ),
    (
        "free",
        # how the same weights are loaded
        """
        model-loader-extra-config startup-weight-load-mode custom-weight-loader weight-loader-disable-mmap
        weight-loader-prefetch-checkpoints weight-loader-prefetch-num-threads weight-loader-drop-cache-after-load
        remote-instance-weight-loader-backend remote-instance-weight-loader-start-seed-via-transfer-engine modelexpress-config
        model-checksum delete-ckpt-after-loading checkpoint-engine-wait-weights-before-ready weight-cache-mode weight-cache-timeout
        """,
    ),
    (
        "free",
        """
        dist-timeout pp-max-micro-batch-size pp-async-batch-depth load-balance-method dcp-comm-backend dcp-replicate-q-proj
        enable-prefill-cp cp-strategy enable-dsa-cache-layer-split enable-cp-decode-attn-tp enable-kv-cache-sharding
        enable-dp-attention-local-control-broadcast enable-dp-lm-head enable-tp-lm-head-all-to-all enable-attn-tp-input-scattered
        enable-shared-experts-attn-tp shared-experts-tp-size enable-dense-mlp-attn-tp enable-layernorm-sp enable-megamoe-for-layernorm-sp
        disable-attn-tp-gather enable-p2p-check moe-dense-tp-size elastic-ep-initial-size max-ep-size
        """,
    ),
    (
        "free",
        # the server
        """
        enable-response-store tokenizer-worker-num detokenizer-worker-num enable-http-worker-reuseport grpc-response-timeout-secs sidecar
        sidecar-args skip-server-warmup warmups enable-http2 http2-max-concurrent-streams http2-initial-connection-window-size
        weight-version enable-cache-report return-input-ids return-output-ids strip-thinking-cache asr-max-buffer-seconds
        asr-max-concurrent-sessions preferred-sampling-params stream-interval batch-notify-size stream-response-default-include-usage
        incremental-streaming-output enable-streaming-session constrained-json-whitespace-pattern constrained-json-disable-any-whitespace
        constrained-json-max-whitespace-cnt enable-dynamic-batch-tokenizer dynamic-batch-tokenizer-batch-size
        dynamic-batch-tokenizer-batch-timeout enable-tokenizer-batch-encode disable-tokenizer-batch-decode sampling-backend
        reasoning-parser tool-call-parser kv-canary-real-data disable-cuda-graph monokernel-backend enable-flashinfer-allreduce-fusion
        """,
    ),
    (
        "free",
        # how a draft is made; what it leaves in the KV cache has rules of its own
        """
        speculative-draft-load-format speculative-num-steps speculative-eagle-topk speculative-num-draft-tokens
        speculative-dflash-block-size speculative-domino-candidate-pool-size speculative-dspark-block-size
        speculative-dspark-sps-table-path speculative-dspark-confidence-sts-path speculative-dspark-align-verify-tokens-to-graph-tier
        speculative-accept-threshold-single speculative-accept-threshold-acc speculative-use-rejection-sampling
        speculative-use-block-verification speculative-attention-mode speculative-draft-attention-backend speculative-dsa-topk-backend
        speculative-draft-kv-cache-dtype speculative-draft-window-size speculative-draft-sink-size speculative-moe-runner-backend
        speculative-moe-a2a-backend speculative-enable-w4a4-mxfp4-megamoe speculative-draft-model-quantization enable-multi-layer-eagle
        speculative-adaptive speculative-adaptive-config speculative-ngram-min-bfs-breadth speculative-ngram-max-bfs-breadth
        speculative-ngram-match-type speculative-ngram-max-trie-depth speculative-ngram-capacity speculative-ngram-external-sam-budget
        speculative-ngram-external-corpus-max-tokens
        """,
    ),
)
# Variables; all others are free.
ENVIRONMENT = (
    ("factor/cache", "SGLANG_ENABLE_DISAGG_SAMPLING_MASK SGLANG_DSV4_KV_LAYOUT"),
    ("port", "SGLANG_PORT SGLANG_GRPC_PORT"),
    ("address", "SGLANG_HOST_IP HOST_IP SGLANG_LOCAL_IP_NIC"),
    ("device", "CUDA_VISIBLE_DEVICES ROCR_VISIBLE_DEVICES HIP_VISIBLE_DEVICES"),
    ("secret", "HF_TOKEN HUGGING_FACE_HUB_TOKEN"),
)
# What does the same as a flag that is gone, or never was one of SGLang's.
INSTEAD = {
    "block-size": "--page-size",
    "enable-ep-moe": "--ep-size",
    "enable-deepep-moe": "--moe-a2a-backend=deepep",
    "gpu-memory-utilization": "--mem-fraction-static",
    "max-num-batched-tokens": "--max-prefill-tokens",
    "max-num-seqs": "--max-running-requests",
    "disable-jump-forward": "--grammar-backend",
    "no-enable-prefix-caching": "--disable-radix-cache",
    "enforce-eager": "--disable-cuda-graph",
    "tokenizer": "--tokenizer-path",
    "pp": "--pp-size",
}

# Pairs that the engine does not start with.
CONFLICTS = (
    Conflict("enable-hierarchical-cache", "disable-radix-cache", "it is a level below the radix cache"),
    Conflict("enable-lmcache", "disable-radix-cache", "it is a level below the radix cache"),
    Conflict("enable-hierarchical-cache", "enable-lmcache", "SGLang takes one of the two"),
    Conflict(
        "disaggregation-decode-enable-radix-cache",
        "speculative-algorithm",
        "decode's radix cache does not go with speculative decoding below 0.5.23",
        until="0.5.23",
    ),
)

FLAGS = FlagTable(
    engine="SGLang",
    version=sglang_flags.VERSION,
    since=sglang_flags.SINCE,
    flags=read(sglang_flags.TABLE, GROUPS, CLASSES),
    former=frozenset(sglang_flags.FORMER.split()),
    instead=INSTEAD,
    like_the_model=("tokenizer-path",),
    only={"load-format": ("dummy",)},
    environment=read_variables(ENVIRONMENT),
    conflicts=CONFLICTS,
)
