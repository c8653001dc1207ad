# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Log symptoms of vLLM and its NIXL and Mooncake connectors. The lines were read in vllm 0.32's source, and seen from a real engine where
fatal; those of Mooncake on a GPU could only be read."""

from __future__ import annotations

from .._core.watch.symptom import Symptom, symptom

SYMPTOMS: tuple[Symptom, ...] = (
    # -- what keeps a member from ever being ready, with its process alive or not
    symptom(
        "side channel port taken",
        r"zmq\.error\.ZMQError: Address already in use",
        "another process has this member's NIXL side channel port: the engine hangs at start for ever",
        "End what holds the port (ss -ltnp shows it), or move pd_port_range away from it; then deploy again.",
        fatal=True,
    ),
    symptom(
        "side channel address not of this host",
        r"zmq\.error\.ZMQError: (?:Cannot assign requested address|No such device)",
        "the KV address that this member was given is on no interface of its host: the engine hangs at start for ever",
        "Set pd_kv_interface of the host to an interface that has an address its peers reach; then deploy again.",
        fatal=True,
    ),
    symptom(
        "block size refused",
        r"No common block size for",
        "the attention backend of this platform cannot work with the block size asked for; the engine may hang instead of exiting",
        "Change --block-size on both roles to a multiple that the line names, or leave it out.",
        fatal=True,
    ),
    symptom(
        "kv cache layout refused",
        r"VLLM_KV_CACHE_LAYOUT=\S{0,80} does not satisfy|kv_cache_layout .{0,120} not supported",
        "the attention backend of this platform cannot work with the KV cache layout asked for",
        "Change VLLM_KV_CACHE_LAYOUT on both roles to one that the line names, or leave it out.",
        fatal=True,
    ),
    symptom(
        "connector unknown",
        r"Unsupported connector type",
        "this engine version has no such KV connector",
        "Compare the engine's version with what the mode knows, or correct --kv-transfer-config.",
        fatal=True,
    ),
    symptom(
        "connector configuration refused",
        r"(?:KVTransferConfig|kv.transfer.config).{0,200}(?:Unexpected keyword argument|validation error)"
        r"|kv_connector .{0,120} is not supported",
        "the engine does not accept the KV transfer configuration",
        "Use the mode's own, or write it for the engine version that runs.",
        fatal=True,
    ),
    symptom(
        "kv connector conflict",
        r"(?:duplicate|multiple).{0,120}(?:kv.transfer.config|kv_connector)|got multiple values for keyword argument 'engine_id'",
        "two KV connectors were configured side by side",
        "Leave --kv-transfer-config out of args: the mode composes it.",
        fatal=True,
    ),
    # -- a KV cache beside the transfer: its client's package, its file, its service
    symptom(
        "cache client not installed",
        r"No module named 'lmcache(?:\.|')",
        "the engine's environment has no client of the KV cache that the group asks for (kv_cache)",
        "Use an image with it, or install it beside the engine; or remove kv_cache.",
        fatal=True,
    ),
    symptom(
        "hybrid manager without support",
        r"does not support HMA but HMA is enabled|Hybrid KV cache manager was explicitly enabled but is not supported",
        "a KV connector of this member does not go with the hybrid KV cache manager",
        "Remove --no-disable-hybrid-kv-cache-manager, or write --disable-hybrid-kv-cache-manager for both roles.",
        fatal=True,
    ),
    symptom(
        "context longer than the model",
        r"User-specified max_model_len .{0,80} is greater than the derived"
        r"|larger than the maximum number of tokens that can be stored in KV cache"
        r"|max seq len .{0,80} is larger than the maximum number of tokens",
        "the context length asked for does not fit the model, or the memory left for its KV cache",
        "Lower --max-model-len on both roles, or give the members more memory.",
        fatal=True,
    ),
    symptom(
        "expandable segments refused",
        r"incompatible with PYTORCH_CUDA_ALLOC_CONF=expandable_segments"
        r"|expandable_segments:True.{0,120}(?:not (?:supported|compatible)|incompatible)",
        "vLLM refuses PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True together with a KV connector",
        "Remove the variable from the environment of the roles.",
        fatal=True,
    ),
    symptom(
        "service link taken for a port",
        r"VLLM_PORT .{0,200}appears to be a URI",
        "the environment has a VLLM_PORT that Kubernetes made of a Service's name",
        "Name the Service otherwise, or switch service links off.",
        fatal=True,
    ),
    symptom(
        "mooncake bootstrap refused",
        r"Failed to register .{0,400} with the Mooncake bootstrap server|Error registering .{0,400} with bootstrap server"
        r"|Mooncake bootstrap server (?:exited during startup|did not start in time)",
        "prefill's own bootstrap server did not take it: the port is taken, a proxy stands between, or its first rank is too slow",
        "See who holds the bootstrap port (ss -ltnp), and that NO_PROXY holds the members' addresses; then deploy again.",
        fatal=True,
    ),
    symptom(
        "engine process died",
        r"Engine core proc(?:ess)? \S{1,80} died|Worker proc \S{1,80} died unexpectedly|WorkerProc .{0,80} died"
        r"|EngineCore (?:process )?died"
        r"|engine core .{0,80} terminated unexpectedly",
        "a child process of the engine died behind its API server, which stays up and answers /health with 503",
        "The cause stands above that line in the log, or in the kernel's (out of memory). Deploy again to replace the member.",
        fatal=True,
    ),
    # -- what a pair says at its first request
    symptom(
        "compatibility hash mismatch",
        r"NIXL compatibility hash mismatch|(?:kv|compatib).{0,80}hash mismatch",
        "prefill and decode differ in engine version, model string, dtype, KV dtype, attention backend, hybrid manager or speculation",
        "Make the roles alike (both their images and args), then restart the whole group.",
    ),
    symptom(
        "engine id mismatch",
        r"Remote NIXL agent engine ID mismatch",
        "another engine than the one meant answered on the side channel (an address of several hosts, or a stale peer)",
        "Check VLLM_NIXL_SIDE_CHANNEL_HOST in the plan: it must be an address that only this host has. Restart the group.",
    ),
    symptom(
        "handshake payload",
        r"Failed to decode NixlHandshakePayload",
        "the roles run different connector versions",
        "Use one image, or engine version, for both roles.",
    ),
    symptom(
        "side channel unreachable",
        r"zmq\.error\.Again|handshake_failed",
        "decode does not reach prefill's side channel within 5 s",
        "Open the members' ports (pd_port_range) between the KV addresses of the hosts; check the KV interface of both.",
    ),
    symptom(
        "pairing of sizes or layouts",
        r"Heterogeneous TP expects same kv_cache_layout|requires contiguous heads|block size \d{1,9} is not divisible by"
        r"|tensor parallel size \d{1,9} is not divisible|remote P KV block_len|block sizes are not supported when P TP",
        "tensor parallel sizes, block sizes or KV layouts of the two roles do not fit",
        "Make block size and layout equal, and one tensor parallel size a multiple of the other.",
    ),
    symptom(
        "different models",
        r"Number of KV layers must match",
        "the roles run different models, or different numbers of layers",
        "Give both roles the same model and the same speculation settings.",
    ),
    symptom(
        "blocks expired",
        r"Potentially invalid KV blocks|Releasing expired KV blocks",
        "decode fetched a prefill's blocks too late, or never: answers may be wrong",
        "Decode is overloaded or the lease too short: add decode members, or raise kv_lease.",
        spoils=True,
    ),
    symptom(
        "no kv parameters from the router",
        r"Got invalid KVTransferParams|Missing transfer_id in kv_transfer_params",
        "requests come without the prefill's parameters: every prompt is computed twice",
        "Check the router's --kv-connector, and that clients use the router and not the members.",
    ),
    symptom(
        "kv load failed",
        r"due to KV load failure|transfer_setup_failed|NIXL transfer failure",
        "decode could not load a prompt's KV cache",
        "The lines above it name the peer. Check that prefill runs and that its side channel is reachable from decode.",
    ),
    # -- Mooncake, which vLLM logs on both sides
    symptom(
        "mooncake bootstrap not reached",
        r"Failed to connect to bootstrap server|Bootstrap query to \S{1,120} failed",
        "decode does not reach prefill's bootstrap server: the request waits for a KV cache that never comes",
        "Open the bootstrap port between the hosts; NO_PROXY must hold the members' addresses. A router that began"
        " before a prefill needs a restart.",
    ),
    symptom(
        "mooncake transfer failed",
        r"Sending to \S{1,120} failed \(ret=|pulling kv_caches for .{0,400}failed|Error processing Mooncake xfer request",
        "a prompt's KV cache did not cross the network between this pair",
        "Check the KV interface (and its RDMA devices) of both hosts, and that all TCP ports are open between their KV addresses.",
    ),
    symptom(
        "mooncake pair lost each other",
        r"Timeout waiting for P side ready|timed out after \d{1,9} seconds without being sent|expired before sending on P side",
        "a prefill and a decode lost each other: the router names an engine id of before, or decode never asked",
        "Restart the router (it reads engine ids once), or the whole group; see whether decode's log names the bootstrap server.",
    ),
    symptom(
        "cache groups differ",
        r"KV group count mismatch",
        "the two roles keep a different number of kinds of KV cache",
        "Give both roles the same model, hybrid manager and speculation, then restart the whole group.",
    ),
)
