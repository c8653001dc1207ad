#!/usr/bin/python
# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file documents the action plugin of the same name, which runs on the controller.

from __future__ import annotations

DOCUMENTATION = r"""
module: hosts_evacuated
short_description: Tell which hosts are to be empty, and what is there
version_added: 0.2.0
description:
  - Resolves O(host), and once these hosts have been looked at tells which groups and cache services have a member there, and what is to be
    looked at to plan them, wherever their members may be.
  - It runs on the controller and changes nothing. M(inferops.pd.group_plan) makes the plan, with C(action=evacuate).
author:
  - The inferops.pd contributors (@inferops)
extends_documentation_fragment:
  - inferops.pd.attributes
  - inferops.pd.attributes.actiongroup_pd
  - inferops.pd.attributes.info_module
options:
  host:
    description: A host, several as a list or with commas, or a pattern of hosts. All must be in the play, and none out of service.
    type: raw
  register:
    description: The name under which the hosts registered their facts. Before they have, there is nothing to tell but RV(hosts).
    type: str
    default: pd_facts
  returned:
    description: Whether these hosts have just been given back. Then it is told who may come there.
    type: bool
    default: false
seealso:
  - module: inferops.pd.host_cordon
  - module: inferops.pd.hosts_emptied
"""

EXAMPLES = r"""
- name: Say which hosts are meant
  inferops.pd.hosts_evacuated:
    host: gpu7
  register: evacuated
  run_once: true
"""

RETURN = r"""
hosts:
  description: The hosts, by name.
  returned: always
  type: list
  elements: str
  sample: [gpu7]
asked:
  description: The hosts of the inventory that are asked for them; of a cluster's node that is the cluster.
  returned: unless O(returned)
  type: list
  elements: str
marked:
  description: Those of them that are marked as cordoned. The nodes of a cluster are cordoned there, by whoever looks after it.
  returned: unless O(returned)
  type: list
  elements: str
workloads:
  description: The groups, then the cache services, that have a member there, each with its C(kind) and C(name).
  returned: unless O(returned)
  type: list
  elements: dict
observe:
  description: What M(inferops.pd.host_facts) is to look at for them.
  returned: unless O(returned)
  type: dict
look:
  description: The hosts to look at for them. Null for every host of the play.
  returned: unless O(returned)
  type: list
  elements: str
cordoned:
  description: Those that the inventory keeps cordoned (C(pd_cordoned)).
  returned: with O(returned)
  type: list
  elements: str
"""
