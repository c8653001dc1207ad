#!/usr/bin/python
# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file documents the action plugin of the same name, which runs on the controller.

from __future__ import annotations

DOCUMENTATION = r"""
module: hosts_pointed
short_description: Tell which hosts to look at after those that specs name
version_added: 0.2.0
description:
  - A run that works on some groups looks at the hosts that their specs name, C(look) of M(inferops.pd.group_validate). What they had
    before may be on others. This tells which of the play's other hosts are to be looked at as well, those that the records and
    tombstones of these groups name.
  - Where no record of a group was found, nobody knows where it is, and all others are told. The same goes for a record that names a host
    that is not in the inventory, since that may have another name now.
  - It runs on the controller and changes nothing.
author:
  - The inferops.pd contributors (@inferops)
extends_documentation_fragment:
  - inferops.pd.attributes
  - inferops.pd.attributes.actiongroup_pd
  - inferops.pd.attributes.info_module
options:
  names:
    description: The groups and cache services of the run.
    type: list
    elements: str
    required: true
  look:
    description: The hosts of the first look. Left out, those that have registered facts.
    type: list
    elements: str
  register:
    description: The name under which the hosts of the first look registered their facts; several with commas between them.
    type: str
    default: pd_facts
seealso:
  - module: inferops.pd.group_validate
  - module: inferops.pd.host_facts
"""

EXAMPLES = r"""
- name: Judge what was asked for, and tell whose hosts it is on
  inferops.pd.group_validate:
    name: "{{ pd_group }}"
  register: validated
  run_once: true

- name: Look at these hosts
  inferops.pd.host_facts:
  register: pd_facts
  when: validated.look is none or inventory_hostname in validated.look

- name: Tell who else may have something of it
  inferops.pd.hosts_pointed:
    names: "{{ validated.workloads | map(attribute='name') | list }}"
  register: pointed
  run_once: true

- name: Look at those too
  inferops.pd.host_facts:
  register: pd_facts_of_others
  when: inventory_hostname in pointed.hosts

- name: Tell the state of what was asked for, from both looks
  inferops.pd.group_info:
    name: "{{ pd_group }}"
    register: pd_facts,pd_facts_of_others
  run_once: true
"""

RETURN = r"""
hosts:
  description: The hosts of the play that were not looked at, and are to be.
  returned: always
  type: list
  elements: str
  sample: [gpu7]
why:
  description: By group, why every other host of the play is to be looked at. Empty where records say all of it.
  returned: always
  type: dict
  sample:
    qwen: no host that was looked at has a record of it
"""
