#!/usr/bin/python
# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file documents the action plugin of the same name, which runs on the controller.

from __future__ import annotations

DOCUMENTATION = r"""
module: rollout_validate
short_description: Read a rollout, and say which groups it is of
version_added: 0.2.0
description:
  - Reads one entry of C(pd_rollouts). What is wrong with it is told, all of it, before any host is asked.
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
    description: Which rollout. Left out, the only one that there is.
    type: str
  pause:
    description:
      - V(true) keeps the rollout from going on, in this run and in later ones. V(false) is the same as O(resume=true).
      - Empty text is as if it were left out.
    type: raw
  abort:
    description: V(true) gives the rollout up where it is. Groups that it has changed stay as they are.
    type: raw
  resume:
    description: V(true) lets a rollout go on that was paused or given up.
    type: raw
seealso:
  - module: inferops.pd.rollout_plan
  - module: inferops.pd.group_validate
"""

EXAMPLES = r"""
- name: Read the rollout
  inferops.pd.rollout_validate:
    name: vllm-0.33
  register: read
  run_once: true
"""

RETURN = r"""
name:
  description: The rollout.
  returned: success
  type: str
groups:
  description: The names of its groups.
  returned: success
  type: list
  elements: str
beside:
  description: Groups that it leaves alone, and that count where a wave says how many may be out.
  returned: success
  type: list
  elements: str
state:
  description: What a person has said to it; V(run), V(pause), V(go) or V(abort).
  returned: success
  type: str
"""
