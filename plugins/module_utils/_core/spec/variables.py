# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The variables that users set, and the one that a misspelt name was meant for: Ansible takes any name, and says nothing."""

from __future__ import annotations

import difflib
import typing as t

from ..runtimes import table

# What `-e` and the inventory may set (docs/playbooks.md, docs/spec.md).
KNOWN = (
    "pd_address",
    "pd_allow_scale_down",
    "pd_awx_state",
    "pd_break_lock",
    "pd_cache",
    "pd_caches",
    "pd_cluster",
    "pd_convert_all",
    "pd_convert_decode",
    "pd_convert_dest",
    "pd_convert_force",
    "pd_convert_mode",
    "pd_convert_prefill",
    "pd_convert_router",
    "pd_cordoned",
    "pd_decode",
    "pd_endpoint_hooks",
    "pd_expected_hosts",
    "pd_fail_on",
    "pd_fail_on_locked",
    "pd_fail_on_pending",
    "pd_fail_unless_running",
    "pd_fence_command",
    "pd_fence_env",
    "pd_fence_timeout",
    "pd_forget_tombstone",
    "pd_gpus",
    "pd_group",
    "pd_groups",
    "pd_host",
    "pd_hosts",
    "pd_kv_interface",
    "pd_lost_hosts",
    "pd_modes_path",
    "pd_nodes",
    "pd_on_failure",
    "pd_out_of_service",
    "pd_parallel",
    "pd_patience",
    "pd_plan_digest",
    "pd_plan_digests",
    "pd_plan_file",
    "pd_plan_out",
    "pd_plan_seats",
    "pd_plan_summary",
    "pd_port_range",
    "pd_prefill",
    "pd_preflight",
    "pd_proof",
    "pd_release",
    "pd_reserve_ports",
    "pd_restart_caches",
    "pd_return",
    "pd_rollout",
    "pd_rollout_abort",
    "pd_rollout_minutes",
    "pd_rollout_pause",
    "pd_rollout_resume",
    "pd_rollouts",
    "pd_show_rbac",
    "pd_skip_hooks",
    "pd_state_dir",
    "pd_to",
    "pd_why",
    *table.variables(),
)
# Everything else that is empty is left out. A digest that is empty is one that a pipeline lost: the run would carry out whatever it is.
MEANT_EMPTY = ("pd_plan_digest",)
# Names of which any ending is the user's own.
_OPEN = ("pd_groups_", "pd_caches_")
# What the collection itself makes: facts of a host become variables of their own.
_OURS = ("pd_converted", "pd_facts", "pd_host", "pd_named", "pd_places", "pd_rollout_read", "pd_status", "pd_validated")
# A name that is no slip of a known one may be the user's own.
_NEAR = 0.84


def unknown(names: t.Iterable[str]) -> list[str]:
    """One sentence for each name of our kind that is no variable of ours. Of what is given to one run by hand every name that
    begins with pd_ is meant for the collection: one that nothing reads would be a run on other terms than was asked for."""
    told = []
    for name in sorted(names):
        if not name.startswith("pd_") or name in KNOWN or name.startswith(_OPEN):
            continue
        near = difflib.get_close_matches(name, KNOWN, 1, 0.6)
        told.append(
            f"There is no variable {name}. "
            + (
                f"Did you mean {near[0]}?"
                if near
                else "docs/playbooks.md lists them; names of your own begin otherwise."
            )
        )
    return told


def misspelt(names: t.Iterable[str]) -> list[str]:
    """One sentence for each name that nothing reads and that is nearly one of ours."""
    told = []
    for name in sorted(names):
        if not name.startswith("pd") or name in (*KNOWN, *_OURS) or name.startswith(_OPEN):
            continue
        near = difflib.get_close_matches(name, KNOWN, 1, _NEAR)
        if near:
            told.append(f"The variable {name} is read by nothing. Did you mean {near[0]}?")
    return told
