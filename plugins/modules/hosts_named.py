#!/usr/bin/python
# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file documents the action plugin of the same name, which runs on the controller.

from __future__ import annotations

DOCUMENTATION = r"""
module: hosts_named
short_description: Tell which hosts to look at for some groups
version_added: 0.2.0
description:
  - The hosts that the specs of some groups name, and those of the cache services that they use. M(inferops.pd.group_validate) returns the
    same beside its verdict; this is for who only wants to look, whatever a spec says.
  - What these groups had before may be on others, which M(inferops.pd.hosts_pointed) tells after the first look.
  - It runs on the controller and changes nothing.
author:
  - The inferops.pd contributors (@inferops)
extends_documentation_fragment:
  - inferops.pd.attributes
  - inferops.pd.attributes.actiongroup_pd
  - inferops.pd.attributes.info_module
options:
  name:
    description:
      - "Which groups: names, globs or labels, as text with commas or as a list (see docs/playbooks.md)."
      - Left out, empty text, or V(all), nothing is selected.
    type: raw
  every:
    description: Whether all groups of the inventory are returned as C(workloads) where O(name) selects nothing.
    type: bool
    default: false
    version_added: 0.2.0
seealso:
  - module: inferops.pd.group_validate
  - module: inferops.pd.hosts_pointed
"""

EXAMPLES = r"""
- name: Tell whose hosts to ask
  inferops.pd.hosts_named:
    name: engine=vllm,site!=fra
  register: named
  run_once: true
"""

RETURN = r"""
workloads:
  description:
    - The cache services that the groups use, then the groups, each with its C(kind) and C(name). Empty where nothing was selected.
  returned: always
  type: list
  elements: dict
  sample:
    - kind: cache
      name: store
    - kind: group
      name: qwen-a
look:
  description:
    - Their hosts.
    - Null for every host of the play, where nothing was selected, and where a spec does not say all of its hosts, as of a group that is no
      longer in the inventory.
  returned: always
  type: list
  elements: str
  sample: [gpu1, gpu2]
"""
