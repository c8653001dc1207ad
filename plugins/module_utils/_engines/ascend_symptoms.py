# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Log symptoms of engines on Ascend NPUs: vllm-ascend's connectors, read in its source of August 2026 and in public reports, and CANN."""

from __future__ import annotations

from .._core.watch.symptom import Symptom, symptom

SYMPTOMS: tuple[Symptom, ...] = (
    symptom(
        "connector sizes conflict",
        r"has a conflicting (?:data|tensor) parallel size",
        "the sizes in the connector's extra config are not those of this role; of a model that is no mixture of experts vLLM makes data"
        " parallelism 1",
        "Leave --kv-transfer-config to the mode; set no --data-parallel-size on a model without experts.",
        fatal=True,
    ),
    symptom(
        "prefill narrower than decode",
        r"prefill_tp_size:? ?\d{1,6} must be greater than",
        "prefill's tensor parallelism is smaller than decode's, which this connector refuses",
        "Give prefill a --tensor-parallel-size that is decode's or a multiple of it.",
        fatal=True,
    ),
    symptom(
        "kv threads did not start",
        r"KV Cache sending/receiving thread failed to start|Timeout waiting for KV Cache thread to be ready",
        "the connector's own threads did not start: mostly a port of its band that another process holds",
        "The lines above it name the port: end what holds it (ss -ltnp shows it), or move pd_port_range; then deploy again.",
        fatal=True,
    ),
    # The engine marks such a request as received all the same, and decode goes on from blocks that never came.
    symptom(
        "kv transfer failed",
        r"Mooncake transfer failed|Failed to transfer KV cache|MemFabric batch_transfer_sync_read failed"
        r"|MooncakeLayerwiseConnector transfer fail",
        "a prompt's KV cache did not arrive, and decode may have answered from blocks that never came: answers may be"
        " wrong, with status 200",
        "Check the links between the NPUs of both hosts (hccn_tool -link, -net_health, -tls: alike on all hosts); then"
        " restart the whole group.",
        spoils=True,
    ),
    symptom(
        "kv blocks freed too early",
        r"Force freed expired request",
        "prefill gave up blocks that decode had not fetched in time: what decode fetches later is another prompt's, and"
        " answers may be wrong",
        "Raise VLLM_MOONCAKE_ABORT_REQUEST_TIMEOUT, or add decode members: decode is overloaded.",
        spoils=True,
    ),
    symptom(
        "npu link",
        r"status: 10390\d|ASCEND_CONNECT_TIMEOUT|Failed to connect to (?:target|segment)|ErrorNo: 10390\d",
        "the NPUs of two hosts do not reach each other over their own network",
        "Compare hccn_tool -link, -net_health, -gateway and -tls of all hosts; raise ASCEND_CONNECT_TIMEOUT and ASCEND_TRANSFER_TIMEOUT.",
    ),
    symptom(
        "acknowledgement lost",
        r"Failed to receive ACK|Receive failed after all retries|Send failed after all retries|Failed to connect to metaserver",
        "a member does not answer on its connector's port",
        "Open pd_port_range between the KV addresses; NO_PROXY must hold the members' addresses.",
    ),
    symptom(
        "hccl",
        r"HCCL function error|\bE[IJ]\d{4}: |Hccl\w{0,60} (?:fail|error)",
        "the collective library of the NPUs failed between the ranks of this member, or to its peer",
        "HCCL_IF_IP must be an address on HCCL_SOCKET_IFNAME; the code in the line is explained in CANN's list of errors.",
    ),
    symptom(
        "npu not usable",
        r"(?:rtSetDevice|aclrtSetDevice|aclInit)\S{0,40} .{0,100}(?:[Ff]ail|[Ee]rror)|(?:error|code|ret|result)\D{0,16}(?:107001|507033)\b",
        "the NPU that this member was given cannot be used",
        "See that npu-smi info lists it, that nobody else holds it, and that the container has /dev/davinci* of it.",
        fatal=True,
    ),
)
