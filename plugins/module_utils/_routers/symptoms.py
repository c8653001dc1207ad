# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Log symptoms of the routers: vllm-router and sglang-router."""

from __future__ import annotations

from .._core.watch.symptom import Symptom, symptom

SYMPTOMS: tuple[Symptom, ...] = (
    symptom(
        "members not reached",
        r"Timeout .{1,40} waiting for (?:hosts|workers)",
        "the router gave up waiting for its members",
        "Check that each role has a ready member, and that NO_PROXY holds their addresses (HTTP_PROXY keeps the router from them).",
        fatal=True,
    ),
    symptom(
        "no peers given",
        r"PD disaggregation mode requires --(?:prefill|decode)",
        "the router was started without peers and without an API for them",
        "Leave the router's command to the mode, or give it --enable-igw.",
        fatal=True,
    ),
    symptom(
        "router argument refused",
        r"launch_router\.py: error:|vllm-router: error:|sglang-router: error:|router .{0,120}error: (?:unexpected|unrecognized)",
        "the router does not accept its command line",
        "Correct roles.router.args, or install the router version that the mode knows.",
        fatal=True,
    ),
    symptom(
        "router port taken",
        r"(?:bind|listen).{0,120}Address (?:already )?in use|Failed to (?:bind|start).{0,120}(?:os error 98|in use)|error binding to",
        "another process listens on a port of the router",
        "Choose another roles.router.port, or end what holds it (ss -ltnp shows it).",
        fatal=True,
    ),
    symptom(
        "no members to route to",
        r"No available (?:prefill |decode )?workers|policy failed to select a worker|circuits open or unhealthy",
        "the router knows no healthy member of a role",
        "Look at its registry (GET /workers); run deploy again to register the members.",
    ),
    symptom(
        "prefill without kv parameters",
        r"No kv_transfer_params found in prefill response",
        "prefill has no connector, or another one: every prompt is computed twice, silently",
        "Check --kv-transfer-config of the prefill members in the plan.",
    ),
    symptom(
        "member refused the connection",
        r"Prefill request failed to|Decode request failed to|Connection refused \(os error 111\)",
        "a registered member does not accept requests",
        "Run status to see which member is down, and deploy to replace it.",
    ),
)
