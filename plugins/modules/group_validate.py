#!/usr/bin/python
# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file documents the action plugin of the same name, which runs on the controller.

from __future__ import annotations

DOCUMENTATION = r"""
module: group_validate
short_description: Judge the specs of groups or cache services before any host is asked
version_added: 0.1.0
description:
  - Reads one entry of C(pd_groups), or with O(kind=cache) of C(pd_caches), fills in what is inherited, and reports every
    finding at once. A pair of prefill and decode that would answer wrongly is an error.
  - As the first task of every playbook it also refuses a play that goes through its hosts in batches (C(serial)), or without waiting for
    each other (strategy C(free)); a group is judged, stopped and formed as a whole.
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
    description:
      - "Which groups, or cache services: names, globs or labels, as text with commas or as a list (see docs/playbooks.md)."
      - Left out, empty text, or V(all), every one of the inventory is judged.
    type: raw
  kind:
    description: What O(name) is.
    type: str
    choices: [group, cache]
    default: group
    version_added: 0.2.0
  spec:
    description: The spec to judge. Left out, it is the entry O(name) of C(pd_groups) and C(pd_groups_*).
    type: dict
  hosts:
    description: Facts by host name, as M(inferops.pd.host_facts) returns them under C(pd_host); what they can settle is settled.
    type: dict
    default: {}
  model_config:
    description: The model's C(config.json) as a dictionary. What it can settle does not stay unverified.
    type: dict
  fail_on:
    description: The mildest severity that fails the task.
    type: str
    choices: [error, unverified, warning, never]
    default: error
  one:
    description: Insist on O(name), and that it selects one group.
    type: bool
    default: false
  named:
    description: Insist on O(name), which may be V(all).
    type: bool
    default: false
  show:
    description: Print a line for each group.
    type: bool
    default: false
seealso:
  - module: inferops.pd.cache_validate
  - module: inferops.pd.group_plan
  - module: inferops.pd.hosts_pointed
"""

EXAMPLES = r"""
- name: Judge every group of the inventory
  inferops.pd.group_validate:

- name: Judge a spec that is not in the inventory, and look at the findings
  inferops.pd.group_validate:
    name: trial
    spec:
      mode: vllm-nixl
      model: /models/Qwen3-32B
      engine:
        args: ["--max-model-len=32768"]
      roles:
        prefill: {hosts: prefill_nodes, replicas: 2, gpus: 4}
        decode: {hosts: decode_nodes, gpus: 8}
        router: {hosts: router_nodes, port: 8000}
    fail_on: never
  register: verdict
"""

RETURN = r"""
valid:
  description: Whether no finding is an error.
  returned: always
  type: bool
findings:
  description: What is to be said, the worst first.
  returned: always
  type: list
  elements: dict
  contains:
    severity:
      description: V(error), V(unverified) or V(warning).
      type: str
    code:
      description: A stable word, a heading of docs/findings.md.
      type: str
    message:
      description: What it is, with the values.
      type: str
    hint:
      description: What to write instead.
      type: str
    roles:
      description: The roles it is about.
      type: list
      elements: str
    host:
      description: The host it is about, or null.
      type: str
spec:
  description: The spec with every inherited value filled in, the roles of its KV cache included; of secrets the names alone.
  returned: for one group
  type: dict
observe:
  description: The arguments for M(inferops.pd.host_facts) that make it look, in one call, at what all of them need.
  returned: always
  type: dict
look:
  description:
    - The hosts to look at for what O(name) selects, those that the specs name and those of the cache services that they use. What records
      of these hosts point at is to be looked at after them, see M(inferops.pd.hosts_pointed).
    - Null for every host of the play, where nothing was selected, or V(all); for cache services, which members on any host may use; and
      with O(fail_on=never), as for a removal, which is to leave nothing on any host.
  returned: always
  type: list
  elements: str
caches:
  description: The cache services that the groups use and that the collection deploys, in the order in which they are to be there.
  returned: for groups
  type: list
  elements: str
workloads:
  description:
    - What a run works on, each with its C(kind) and C(name). The services that groups use come first, then what was judged.
  returned: always
  type: list
  elements: dict
groups:
  description: The same by group name.
  returned: for groups
  type: dict
services:
  description:
    - By name, the findings, the service with its kind's defaults, the groups that use it, and what M(inferops.pd.host_facts) is to
      look at.
  returned: for cache services
  type: dict
names:
  description: Those that were judged and that the collection deploys, in the inventory's order.
  returned: always
  type: list
  elements: str
"""
