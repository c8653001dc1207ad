#!/usr/bin/python
# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file documents the action plugin of the same name, which runs on the controller.

from __future__ import annotations

DOCUMENTATION = r"""
module: group_plan
short_description: Compute what a run would do to a group or a cache service, as one value
version_added: 0.1.0
description:
  - Computes the plan of a group, or with O(kind=cache) of a cache service, from its spec and from what its hosts said in this
    run. Check mode shows this value, a run executes it; nothing later decides again.
  - It runs on the controller and changes nothing. With C(--diff) the plan is printed.
author:
  - The inferops.pd contributors (@inferops)
extends_documentation_fragment:
  - inferops.pd.attributes
  - inferops.pd.attributes.actiongroup_pd
  - inferops.pd.attributes.info_module
  - inferops.pd.modes
options:
  name:
    description: The group, or the cache service.
    type: str
    required: true
  kind:
    description: What O(name) is. For V(cache) the spec is an entry of C(pd_caches), and O(action=scale) is refused.
    type: str
    choices: [group, cache]
    default: group
    version_added: 0.2.0
  spec:
    description: The spec. Left out, it is the entry O(name) of C(pd_groups) and C(pd_groups_*).
    type: dict
  hosts:
    description:
      - Facts by host name, as M(inferops.pd.host_facts) returns them under C(pd_host), gathered in this run.
      - Left out, what the hosts of the play registered under the name O(register) is read.
    type: dict
  register:
    description: The name under which the hosts registered their facts.
    type: str
    default: pd_facts
  action:
    description: What is wanted.
    type: str
    choices: [deploy, scale, restart, remove]
    default: deploy
  counts:
    description: For O(action=scale), the count of C(prefill) and C(decode).
    type: dict
    default: {}
  allow_scale_down:
    description: Whether O(action=deploy) may lower a count to the inventory's.
    type: bool
    default: false
  lost_hosts:
    description: Hosts that do not answer and that you state are fenced. Their members count as gone.
    type: list
    elements: str
    default: []
  planned:
    description: Plans of other groups and services made earlier in the same run; what they take is taken.
    type: list
    elements: dict
    default: []
  fail_on:
    description: The mildest severity that fails the task.
    type: str
    choices: [error, unverified, warning, never]
    default: error
  fail_on_pending:
    description: Whether a pending configuration fails the task, for pipelines.
    type: bool
    default: false
seealso:
  - module: inferops.pd.cache_plan
  - module: inferops.pd.host_facts
  - module: inferops.pd.members
"""

EXAMPLES = r"""
- name: Ask every host what there is
  inferops.pd.host_facts:
    models: [/models/Qwen3-32B]
    executables: [/opt/vllm/bin/vllm]
  register: pd_facts

- name: Compute the plan, once
  inferops.pd.group_plan:
    name: qwen3-32b
  register: planned
  run_once: true

- name: Read the command lines that would be started
  ansible.builtin.debug:
    msg: "{{ planned.plan.members | map(attribute='parts') | flatten | map(attribute='argv') }}"
  run_once: true
"""

RETURN = r"""
plan:
  description: The plan.
  returned: always
  type: dict
  contains:
    cache:
      description: The service, its kind, who uses it, and what its clients do when it restarts.
      returned: for a cache service
      type: dict
    revision:
      description: Digest of everything that shapes a member.
      type: str
    generation:
      description: The number of the formation.
      type: int
    pending:
      description: Whether the spec differs from what the members run.
      type: bool
    changed:
      description: Whether carrying it out changes anything.
      type: bool
    members:
      description: Every member that the group has afterwards, fully rendered, part by part.
      type: list
      elements: dict
    router:
      description: The router, its peers, its policy, what is done about them and why.
      type: dict
    steps:
      description: What is done, in order, with the phase, the member, the host and the reason.
      type: list
      elements: dict
    endpoint:
      description: The address for clients and the name of the model.
      type: dict
    kv_cache:
      description:
        - The KV cache beside the transfer, with its provider, service, options, roles, and why these; by role in C(by_role).
        - Null where there is none.
      type: dict
    hosts:
      description: Per host who must be there, who must not, and a digest of what the plan took for granted.
      type: dict
findings:
  description: What is to be said, the worst first; as in M(inferops.pd.group_validate).
  returned: always
  type: list
  elements: dict
planned:
  description: In check mode, O(planned) and this plan, for the next call of a run that works on several. Otherwise empty.
  returned: always
  type: list
  elements: dict
diff:
  description: The plan as a person reads it.
  returned: always
  type: list
  elements: dict
"""
