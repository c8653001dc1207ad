#!/usr/bin/python
# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file documents the action plugin of the same name, which runs on the controller.

from __future__ import annotations

DOCUMENTATION = r"""
module: group_preflight
short_description: Say who tries what before a change window, and judge what all hosts found
version_added: 0.2.0
description:
  - With O(phase=plan) it plans the group as if all of it were started now, and returns the tour - where each host listens, whom it connects
    to, between which pairs bandwidth is measured.
  - With O(phase=verdict) it judges the facts of the hosts, what M(inferops.pd.host_preflight) found on each, and what is between them, and
    reports every finding at once, with a table.
  - It runs on the controller and changes nothing.
author:
  - The inferops.pd contributors (@inferops)
extends_documentation_fragment:
  - inferops.pd.attributes
  - inferops.pd.attributes.actiongroup_pd
  - inferops.pd.attributes.info_module
  - inferops.pd.modes
options:
  name:
    description: The group.
    type: str
    required: true
  phase:
    description: What to do.
    type: str
    choices: [plan, verdict]
    required: true
  spec:
    description: The group's spec. Left out, it is the entry O(name) of C(pd_groups) and C(pd_groups_*).
    type: dict
  hosts:
    description: Facts by host name, as M(inferops.pd.host_facts) returns them under C(pd_host).
    type: dict
  register:
    description: The name under which the hosts of the play registered the result of M(inferops.pd.host_facts), where O(hosts) is left out.
    type: str
    default: pd_facts
  listening:
    description: The name under which the hosts registered M(inferops.pd.host_preflight) with its phase V(listen).
    type: str
    default: preflight_listening
  connected:
    description: The name under which the hosts registered M(inferops.pd.host_preflight) with its phase V(connect).
    type: str
    default: preflight_connected
  lost_hosts:
    description: Hosts that are stated to be fenced.
    type: list
    elements: str
    default: []
  max_pairs:
    description:
      - Between how many pairs of a prefill's and a decode's host bandwidth is measured, at most. The first ones touch every host.
      - No host takes part in two measurements at once.
    type: int
    default: 16
  fail_on:
    description: The mildest severity that fails O(phase=verdict).
    type: str
    choices: [error, unverified, warning, never]
    default: error
  show:
    description: Print the table and the findings.
    type: bool
    default: true
  strict:
    description: Whether a bad verdict fails the task. When not, RV(refused) says it.
    type: bool
    default: true
seealso:
  - module: inferops.pd.host_preflight
  - module: inferops.pd.group_plan
"""

EXAMPLES = r"""
- name: Say who tries what
  inferops.pd.group_preflight:
    name: qwen3-32b
    phase: plan
  register: preflight_planned
  run_once: true

- name: Judge what was found
  inferops.pd.group_preflight:
    name: qwen3-32b
    phase: verdict
  run_once: true
"""

RETURN = r"""
tour:
  description: For each host what it listens on, and whom it tries; with a word that the listeners know each other by, worthless later.
  returned: with O(phase=plan)
  type: dict
good:
  description: Whether nothing is an error.
  returned: with O(phase=verdict)
  type: bool
findings:
  description: What is to be said, the worst first, as M(inferops.pd.group_validate) returns it.
  returned: always
  type: list
  elements: dict
checks:
  description: Every check with its C(host), C(value), what was C(expected) and its C(verdict), which is V(ok) or a severity.
  returned: with O(phase=verdict), unless it fails
  type: list
  elements: dict
table:
  description: The same for a person.
  returned: with O(phase=verdict), unless it fails
  type: list
  elements: str
refused:
  description: Whether a finding is as severe as O(fail_on) says, or more so.
  returned: with O(phase=verdict), unless it fails
  type: bool
ended:
  description: Whether each listener was told to end. Where not, M(inferops.pd.host_preflight) with its phase V(end) ends them.
  returned: with O(phase=verdict), unless it fails
  type: bool
"""
