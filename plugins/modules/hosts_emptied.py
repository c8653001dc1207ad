#!/usr/bin/python
# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file documents the action plugin of the same name, which runs on the controller.

from __future__ import annotations

DOCUMENTATION = r"""
module: hosts_emptied
short_description: Tell whether hosts are empty after an evacuation, and what failed of it
version_added: 0.2.0
description:
  - Compares what the hosts said last with what was wanted. It fails where a member is left on one of them, where one did not answer, and
    where the run failed otherwise, and says of each why.
  - In check mode it tells what a run would leave there.
  - It runs on the controller and changes nothing.
author:
  - The inferops.pd contributors (@inferops)
extends_documentation_fragment:
  - inferops.pd.attributes
  - inferops.pd.attributes.actiongroup_pd
  - inferops.pd.attributes.info_module
options:
  hosts_meant:
    description: The hosts that were to be empty.
    type: list
    elements: str
    required: true
  run:
    description: The folder of the run, as M(inferops.pd.group_plan) returned it. Left out, nothing had to be moved.
    type: path
  register:
    description: The name under which the hosts registered their facts, after the run.
    type: str
    default: pd_facts
seealso:
  - module: inferops.pd.hosts_evacuated
"""

EXAMPLES = r"""
- name: See that it is empty
  inferops.pd.hosts_emptied:
    hosts_meant: "{{ evacuated.hosts }}"
    run: "{{ planned.run }}"
  run_once: true
"""

RETURN = r"""
empty:
  description: Those that are empty. In check mode, those that a run would leave so.
  returned: always
  type: list
  elements: str
  sample: [gpu7]
left:
  description: The ids of the members that are left, by host.
  returned: always
  type: dict
  sample: {}
good:
  description: Whether nothing failed.
  returned: always
  type: bool
"""
