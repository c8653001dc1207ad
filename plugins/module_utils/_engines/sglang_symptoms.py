# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Log symptoms of SGLang, read in the source of 0.5.23 and in public reports. Its lines have no level: what is no row here is no error."""

from __future__ import annotations

from .._core.watch.symptom import Symptom, symptom

SYMPTOMS: tuple[Symptom, ...] = (
    # -- what keeps a member from ever being ready
    symptom(
        "no memory left for kv cache (sglang)",
        r"Not enough memory\. Please try to increase --mem-fraction-static",
        "after the weights no memory is left for the KV cache",
        "Raise --mem-fraction-static, give the member more GPUs, or see who else is on the card: the fraction is of what"
        " was free at start.",
        fatal=True,
    ),
    symptom(
        "ib devices unknown",
        r"Invalid IB devices specified|No IB devices configured for GPU",
        "the host has no RDMA device of the names in --disaggregation-ib-device",
        "Leave the flag to the mode, which takes the devices of the host's KV interface.",
        fatal=True,
    ),
    symptom(
        "prefill not registered",
        r"Prefill instance failed to register to bootstrap server",
        "prefill does not reach its own bootstrap server: its port is taken, or a proxy stands between",
        "See who holds the bootstrap port (ss -ltnp), and that NO_PROXY holds the member's address.",
        fatal=True,
    ),
    symptom(
        "bootstrap thread died",
        r"prefill bootstrap_thread died|Transfer thread failed because of.{0,400}is dead",
        "a thread that moves the KV cache has died: requests to this member wait until they time out",
        "The lines above it say why. Restart the whole group.",
        fatal=True,
    ),
    # -- what a pair says at its first request
    symptom(
        "sglang roles differ",
        r"Page size mismatch: prefill|KV cache dtype mismatch: prefill|KV layout mismatch|DSpark PD (?:layout mismatch|requires)",
        "page size, KV cache type or KV layout of the two roles differ",
        "Make the flags that the line names alike on both roles, then restart the whole group.",
    ),
    symptom(
        "sglang sizes differ",
        r"does NOT support (?:PD )?different (?:attention )?TP sizes|requires matching attention TP sizes|requires the same TP size on both"
        r"|Head-sliced PD transfer needs|does not support different prefill|PD (?:decode )?DCP (?:requires|does not|currently)",
        "this model cannot be handed over between different parallel sizes",
        "Give both roles the same --tp-size, --dp-size and --dcp-size, then restart the whole group.",
    ),
    symptom(
        "metadata buffers differ",
        r"registered \d{1,6} metadata buffers but this prefill has",
        "a flag that adds a buffer is set on one role only: what decode reads beside the KV cache is shifted, and answers may be wrong",
        "Set --disaggregation-enable-kv-checksum and SGLANG_ENABLE_DISAGG_SAMPLING_MASK alike on both roles, then restart the whole group.",
        spoils=True,
    ),
    symptom(
        "kv cache damaged on its way",
        r"KV checksum mismatch (?:req|on a peer)|Metadata corruption detected",
        "what decode received is not what prefill sent: answers may be wrong",
        "Check the KV interfaces and RDMA devices of both hosts, and the versions of Mooncake or NIXL; then restart the whole group.",
        spoils=True,
    ),
    symptom(
        "bootstrap not reached",
        r"Could not fetch prefill parallel info|Error fetching prefill (?:server )?info|Failed to get prefill server info"
        r"|Error querying dp_ranks|Failed to (?:register|query) (?:prefill )?dp_ranks?\b",
        "decode does not reach prefill's bootstrap server",
        "The address is the host of the router's prefill URL, with the bootstrap port: open it between the hosts, and"
        " put the members into NO_PROXY.",
    ),
    symptom(
        "peer taken for dead",
        r"Decode instance could be dead|it might be dead|Lost connection with prefill instance",
        "a member takes its peer for dead: it was restarted, or their connection broke",
        "When a member was replaced, restart the whole group. When none was, check the KV interfaces, and with TCP the"
        " ports left to the host.",
    ),
    symptom(
        "transfer timed out",
        r"timed out after [\d.]{1,12}s in KVPoll\.(?:Bootstrapping|WaitingForInput)",
        "a request waited for its KV cache until the limit: decode is overloaded, or the two do not reach each other",
        "Add decode members, or raise SGLANG_DISAGGREGATION_BOOTSTRAP_TIMEOUT; check the KV interface of both hosts.",
    ),
    symptom(
        "request without its room",
        r"received without bootstrap room id|without bootstrap room",
        "a request reached a member past its router, or the router is not in its PD mode",
        "Clients use the router's address alone; the router needs --pd-disaggregation.",
    ),
    symptom(
        "kv transfer failed (sglang)",
        r"(?:Decode|Prefill) transfer failed for request|KVTransferError|Failed to send kv chunk",
        "a prompt's KV cache did not arrive",
        "The end of the line says why. Check the KV interfaces, and with TCP the ports left to the host.",
    ),
)
