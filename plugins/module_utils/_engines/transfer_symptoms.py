# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Log symptoms of what carries a KV cache, whichever engine uses it: UCX, NIXL, RDMA, and Mooncake's transfer engine and store."""

from __future__ import annotations

from .._core.watch.symptom import Symptom, symptom

SYMPTOMS: tuple[Symptom, ...] = (
    # -- what is not there
    symptom(
        "nixl not installed",
        r"NIXL is not available|No module named 'nixl'",
        "the engine's environment has no NIXL",
        "Use an image with NIXL, or install nixl beside the engine.",
        fatal=True,
    ),
    symptom(
        "mooncake not installed",
        r"No module named 'mooncake(?:\.|')|Please install mooncake|\b[Mm]ooncake is not available",
        "the engine's environment has no Mooncake, which its KV connector or its KV cache needs",
        "Use an image with it, or install mooncake-transfer-engine beside the engine.",
        fatal=True,
    ),
    symptom(
        "transfer library of another toolkit",
        r"(?:libcudart|libcuda|libascendcl|libhccl)\.so[.\d]{0,12}: cannot open shared object"
        r"|(?:libmooncake|ascend_transport|libtransfer_engine)\S{0,80}: cannot open shared object",
        "Mooncake was built for another CUDA or CANN than this environment has",
        "Install the Mooncake wheel of the engine's CUDA (12 and 13 have different packages) or CANN; its libraries must"
        " be on the loader's path.",
        fatal=True,
    ),
    # -- what does not come up
    symptom(
        "ucx no device",
        r"UCX_NET_DEVICES.{0,200}(?:not found|not available|no such)|network devices? '?[\w:,.]{0,100}'? (?:is|are) not available"
        r"|no active messages transport|No such device.{0,200}tcp://",
        "UCX has no device of the names it was given on this host",
        "Set pd_kv_interface of the host to an interface, or RDMA device, that exists there.",
        fatal=True,
    ),
    symptom(
        "mooncake engine refused",
        r"(?:Mooncake|Ascend) Transfer Engine initiali[sz]ation failed|Initialize mooncake failed"
        r"|Mooncake sender listener (?:exited|did not become)",
        "Mooncake's transfer engine did not start: the address, the device or the protocol that it was given is not usable on this host",
        "See that pd_kv_interface names an interface, or RDMA device, of this host; the lines above it say what was refused.",
        fatal=True,
    ),
    symptom(
        "memory not registered",
        r"[Mm]emory registration failed|Failed to register memory|register_buffer failed for addr|registerMem\S{0,40} .{0,100}NIXL_ERR"
        r"|DMA BUF supported required for GPU RDMA|CREATE_MKEY failed",
        "the network card could not register the memory of the KV cache",
        "Load nvidia_peermem, or set WITH_NVIDIA_PEERMEM=0 for DMA-BUF; the member needs IPC_LOCK and unlimited memlock,"
        " and no expandable_segments.",
        fatal=True,
    ),
    symptom(
        "rdma unavailable",
        r"rdma_create_(?:event_channel|id)|No RDMA devices found|ibv_open_device.{0,200}failed|GID is NULL|Failed to modify QP to RTR"
        r"|Failed to create QP",
        "the RDMA devices cannot be used from here",
        "The member needs the HCA's devices, IPC_LOCK and unlimited memlock; check GID index (MC_GID_INDEX, UCX_IB_GID_INDEX) and MTU.",
    ),
    # -- a KV cache beside the transfer: its service
    symptom(
        "cache segment refused",
        r"MountSegment: rpc error|Failed to mount segment|Failed to (?:setup|set up|initialize) (?:the )?(?:Mooncake|store)",
        "the Mooncake master did not take the member's memory: none answers at the address in mooncake.json, or one of another version",
        "See that the service runs (inferops.pd.status), and that engine and master have the same release of Mooncake.",
        fatal=True,
    ),
    symptom(
        "cache too small",
        r"NO_AVAILABLE_HANDLE",
        "the store has no room for a block: its segments are smaller than what is stored at once",
        "Raise kv_cache.options.global_segment_size.",
    ),
    # -- what a pair says at a request
    symptom(
        "ports exhausted",
        r"getConnection failed to create connection.{0,200}Cannot assign requested address",
        "Mooncake opens a TCP connection for each piece of a KV cache, and this host has no port left for one",
        "Set MC_TCP_ENABLE_CONNECTION_POOL=1, widen net.ipv4.ip_local_port_range, or use RDMA.",
    ),
    symptom(
        "NIXL_ERR_BACKEND",
        r"NIXL_ERR_BACKEND|NIXL_ERR_REMOTE_DISCONNECT|IBV_WC_REM_ACCESS_ERR|local protection error|UCX\s{1,8}ERROR",
        "the transport between the two hosts failed: almost always the wrong interface",
        "Check the KV interface (and its RDMA devices) of both hosts; deploy again when a prefill was replaced.",
    ),
    symptom(
        "mooncake peer not reached",
        r"(?:tcp|rdma)_transport\.cpp\S{0,12} .{0,200}(?:[Ff]ailed|[Ee]rror)"
        r"|transfer_metadata\S{0,20}\.cpp\S{0,12} .{0,200}(?:[Ff]ailed|refused|[Ee]rror)",
        "Mooncake does not reach the other member on its ports, which it takes at random",
        "Open all TCP ports between the KV addresses of the hosts; check the KV interface of both.",
    ),
)
