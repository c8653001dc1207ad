#!/usr/bin/python
# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file documents the action plugin of the same name, which runs on the controller.

from __future__ import annotations

DOCUMENTATION = r"""
module: group_gate
short_description: Let a command of your own judge a group before clients are sent to it
version_added: 0.2.0
description:
  - Runs the command of a rollout's gate (C(gate.command) of an entry of C(pd_rollouts)) on the controller, once for each group of a wave
    that is proven, before its endpoint is registered. One that does not end with 0 leaves its group unregistered.
  - It runs without a shell and without input, has a deadline of its own, and is killed there with all that it has started. The end of its
    output is kept.
author:
  - The inferops.pd contributors (@inferops)
extends_documentation_fragment:
  - inferops.pd.attributes
  - inferops.pd.attributes.actiongroup_pd
attributes:
  check_mode:
    support: full
    details:
      - Asks nothing in check mode.
  diff_mode:
    support: N/A
    details:
      - It changes nothing.
  idempotent:
    support: full
options:
  run:
    description: The run's folder, as M(inferops.pd.group_plan) returns it.
    type: path
    required: true
  wave:
    description: Which wave of the run, from 0.
    type: int
    default: 0
  rollout:
    description:
      - The rollout of C(pd_rollouts) whose gate it is.
      - In its command C(endpoint) (the router's URL, which no client knows yet), C(group), C(model), C(rollout) and C(wave) are the
        group's own, written C(${endpoint}), or in double braces like the inventory's variables.
    type: str
    required: true
  timeout:
    description: Seconds that one run of it may take.
    type: float
    default: 600
seealso:
  - module: inferops.pd.group_proof
"""

EXAMPLES = r"""
- name: Ask the gate
  inferops.pd.group_gate:
    run: "{{ planned.run }}"
    wave: 0
    rollout: vllm-0.33
"""

RETURN = r"""
workloads:
  description: What was said of each group with its router on this host.
  returned: when any was asked
  type: dict
  contains:
    good:
      description: Whether clients may be sent to it.
      type: bool
      returned: always
    msg:
      description: Why not.
      type: str
      returned: when it says no
    lines:
      description: The last lines of the command's output.
      type: list
      elements: str
      returned: when it was run
"""
