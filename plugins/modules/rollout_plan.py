#!/usr/bin/python
# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file documents the action plugin of the same name, which runs on the controller.

from __future__ import annotations

DOCUMENTATION = r"""
module: rollout_plan
short_description: Say how a rollout stands, and open the folder in which a run of it goes on
version_added: 0.2.0
description:
  - Reads how far a rollout has come from the records of its groups, shows its waves, and refuses what could not go well.
  - Nothing is changed. What comes next is said by M(inferops.pd.rollout_turn).
author:
  - The inferops.pd contributors (@inferops)
extends_documentation_fragment:
  - inferops.pd.attributes
  - inferops.pd.attributes.actiongroup_pd
attributes:
  check_mode:
    support: full
  diff_mode:
    support: N/A
    details:
      - It changes nothing.
  idempotent:
    support: full
options:
  name:
    description: The rollout, an entry of C(pd_rollouts).
    type: str
    required: true
  groups:
    description: Its groups, as M(inferops.pd.rollout_validate) returned them.
    type: list
    elements: str
    required: true
  beside:
    description: Groups that it leaves alone, and that count where a wave says how many may be out.
    type: list
    elements: str
    default: []
  register:
    description: The name under which the hosts registered their facts.
    type: str
    default: pd_facts
  state:
    description: What a person has said to it, as M(inferops.pd.rollout_validate) returned it.
    type: str
    choices: [run, pause, go, abort]
    default: run
  release:
    description: Groups that were held, or have failed, and may be changed again, as a list or text with commas.
    type: raw
    default: []
  ends:
    description: After how many seconds this run begins nothing more. Left out, it goes on as long as there is anything to do.
    type: float
  plan_out:
    description: A file of the controller to write the rollout into, as it is approved.
    type: path
  plan_digest:
    description: The digest of the rollout that was approved. The task fails where it is another one. How far it has come is no part of it.
    type: str
  plan_digests:
    description: The digests of its groups, by name, as the run told them that told the digest. They say which one differs.
    type: raw
  plan_file:
    description: The file that was written by O(plan_out), with which the difference is shown line by line.
    type: path
seealso:
  - module: inferops.pd.rollout_validate
  - module: inferops.pd.rollout_turn
"""

EXAMPLES = r"""
- name: Say how it stands
  inferops.pd.rollout_plan:
    name: vllm-0.33
    groups: "{{ read.groups }}"
    register: facts
  register: planned
  run_once: true
"""

RETURN = r"""
rollout:
  description: The folder of this run of it.
  returned: success
  type: str
groups:
  description: The names of its groups.
  returned: success
  type: list
  elements: str
digest:
  description: What approves it.
  returned: success
  type: str
pending:
  description: Those that have something to change.
  returned: success
  type: list
  elements: str
shows:
  description: What their changes are to role C(group), V(restart) or V(deploy).
  returned: success
  type: str
changes:
  description: What would be changed, for role C(group).
  returned: success
  type: list
  elements: dict
about:
  description: Which rollout it is, and who is in which wave, in words that are approved with the restarts.
  returned: success
  type: str
"""
