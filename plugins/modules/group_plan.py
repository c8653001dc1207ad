#!/usr/bin/python
# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file documents the action plugin of the same name, which runs on the controller.

from __future__ import annotations

DOCUMENTATION = r"""
module: group_plan
short_description: Compute what a run would do to groups and cache services, once for all of them
version_added: 0.1.0
description:
  - Computes the plans of all groups and cache services of a run from their specs and from what their hosts said in this run, each in sight
    of those before it. Check mode shows these values, a run executes them; nothing later decides again.
  - The plans are written to a folder of the run (RV(run)), in the private temporary folder of this C(ansible-playbook), and end with it.
    The tasks that carry them out are given the folder and the number of a wave, and each host reads its own part.
  - Workloads of one wave go through the phases of a run together. Cache services have the first wave, groups the next one. A restart and a
    removal take one workload a wave, unless O(parallel) says more.
  - One of several whose plan is refused takes nothing from the others, as long as there is something to do for any of them. The run fails
    at its end, where M(inferops.pd.group_verdict) tells it.
  - Given what was approved (O(plan_digest), O(plan_file)), it fails where the plan is another one by now. Nothing has been locked on any
    host by then.
  - It runs on the controller and changes nothing there but O(plan_out). With C(--diff) the plans are printed, those of several below a
    table of what changes.
author:
  - The inferops.pd contributors (@inferops)
extends_documentation_fragment:
  - inferops.pd.attributes
  - inferops.pd.attributes.actiongroup_pd
  - inferops.pd.attributes.info_module
  - inferops.pd.modes
options:
  name:
    description: The group, or the cache service. It or O(workloads) is needed.
    type: str
  kind:
    description: What O(name) is. For V(cache) the spec is an entry of C(pd_caches), and O(action=scale) is refused.
    type: str
    choices: [group, cache]
    default: group
    version_added: 0.2.0
  workloads:
    description:
      - All groups and services of the run, in order, each a dictionary with C(kind) and C(name), as M(inferops.pd.group_validate) and
        M(inferops.pd.cache_validate) return them.
      - Services beside groups are those that the groups use. They are brought to what their entries say, whatever O(action) is.
      - A rollout that forms a group beside what serves says of which of its two stands the plan is (C(stand)), and C(loses) of one
        that is to go, C(to) and C(held) of one that is given its endpoint back. Without it, it is the stand that is the group.
    type: list
    elements: dict
    version_added: 0.2.0
  spec:
    description: The spec of O(name). Left out, it is the entry O(name) of C(pd_groups) and C(pd_groups_*).
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
    choices: [deploy, scale, restart, heal, evacuate, remove]
    default: deploy
  to:
    description:
      - For O(action=restart), what the groups are restarted onto, as one word for all of them or a dictionary of words by name.
      - V(spec), what their specs say. V(previous), what ran before and was proven, as the record keeps it; the group is held then.
        V(applied), what runs, while a change is pending.
      - O(action=heal) never takes anything of a member from a spec.
    type: raw
    version_added: 0.2.0
  release:
    description: Groups that are held no more, after a return to what ran before.
    type: list
    elements: str
    default: []
    version_added: 0.2.0
  counts:
    description: For O(action=scale), the count of C(prefill) and C(decode).
    type: dict
    default: {}
  allow_scale_down:
    description: Whether O(action=deploy) may lower a count to the inventory's.
    type: bool
    default: false
  evacuate:
    description: For O(action=evacuate), the hosts that are to be empty. Nobody is seated there.
    type: list
    elements: str
    default: []
    version_added: 0.2.0
  lost_hosts:
    description: Hosts that do not answer and that you state are fenced. Their members count as gone.
    type: list
    elements: str
    default: []
  forget_tombstone:
    description: Hosts whose tombstone ends by hand, machines that are gone for good.
    type: list
    elements: str
    default: []
    version_added: 0.2.0
  fails:
    description: >-
      Whether the task fails when nothing at all can be carried out. If not, what was refused is told and returned (RV(refused)), and
      there is no wave.
    type: bool
    default: true
    version_added: 0.2.0
  fence:
    description: Whether M(inferops.pd.group_fence) has a command, so that hosts in O(lost_hosts) are made sure of before anything changes.
    type: bool
    default: false
    version_added: 0.2.0
  parallel:
    description:
      - How many workloads a wave has at most.
      - Left out, all of a kind for O(action=deploy) and O(action=scale), and one for O(action=restart) and O(action=remove).
    type: int
    version_added: 0.2.0
  proof:
    description:
      - When M(inferops.pd.group_proof) is to run. With V(always) a group is in a wave even if nothing is to be done for it; with any other
        word it is not.
    type: str
    default: changed
    version_added: 0.2.0
  fail_on:
    description: The mildest severity that fails the task.
    type: str
    choices: [error, unverified, warning, never]
    default: error
  fail_on_pending:
    description: Whether a pending configuration fails the task, for pipelines.
    type: bool
    default: false
  plan_out:
    description:
      - A file of the controller to write the plan into, as it is approved, in check mode too. It is replaced whole, and readable for its
        user alone. Values of variables are in it as C(--diff) shows them, secrets are not.
    type: path
    version_added: 0.2.0
  plan_digest:
    description:
      - The digest of the plan that was approved. The task fails where the plan is another one.
      - With V(any) whatever it is is carried out, as without this option; O(plan_file) is compared all the same. Empty text is an error.
    type: str
    version_added: 0.2.0
  plan_digests:
    description: The digests of its workloads, by name, as C(pd_plan_digests) of the run that told it. They say which one differs.
    type: raw
    version_added: 0.2.0
  plan_file:
    description:
      - The file that was written by O(plan_out) when the plan was approved, with which the difference is shown line by line.
      - Without O(plan_digest) it stands for its digest.
    type: path
    version_added: 0.2.0
  plan_is_part:
    description: Whether what is approved is something greater, as a rollout. Its digest is not told then, for nobody is to be held to it.
    type: bool
    default: false
    version_added: 0.2.0
seealso:
  - module: inferops.pd.cache_plan
  - module: inferops.pd.host_facts
  - module: inferops.pd.members
  - module: inferops.pd.group_verdict
"""

EXAMPLES = r"""
- name: Carry out what was approved, and nothing else
  inferops.pd.group_plan:
    name: qwen3-32b
    plan_digest: "{{ approved }}"
    plan_file: plan.json
  register: planned
  run_once: true

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

- name: Compute the plans of two groups and of the service that they use
  inferops.pd.group_plan:
    workloads:
      - {kind: cache, name: store-a}
      - {kind: group, name: qwen3-32b}
      - {kind: group, name: qwen3-8b}
  register: planned
  run_once: true

- name: Say in which order they would go
  ansible.builtin.debug:
    msg: "{{ planned.waves | map(attribute='names') }}"
  run_once: true
"""

RETURN = r"""
run:
  description: The folder of the run. It is the C(run) of the tasks that carry the plan out, on the machine and in the run that made it.
  returned: always
  type: str
waves:
  description:
    - What is done, in order. A wave is known by its place in this list, from 0. A workload for which there is nothing to do is in none.
  returned: always
  type: list
  elements: dict
  contains:
    names:
      description: The workloads that go through its phases together.
      type: list
      elements: str
    hosts:
      description: The inventory hosts that have a part in it.
      type: list
      elements: str
    routers:
      description: Those of them whose router may be started, or told of members.
      type: list
      elements: str
    leaves:
      description: Those of them whose router members leave before these stop.
      type: list
      elements: str
    rounds:
      description: How many rounds of renewal it has.
      type: int
    retirements:
      description: The numbers of the rounds in which members stop whose place others have taken.
      type: list
      elements: int
    fetches:
      description: Whether images may have to be fetched.
      type: bool
    fences:
      description: Whether lost hosts are to be fenced.
      type: bool
    unroutes:
      description: Whether routers stop before engines do, as for a restart.
      type: bool
    stops:
      description: Whether members stop.
      type: bool
    forms:
      description: Whether members may start.
      type: bool
    forgets:
      description: Whether anything is removed for good.
      type: bool
stay:
  description: The inventory hosts that have a part in any wave.
  returned: always
  type: list
  elements: str
digest:
  description: The digest of what the run would do, by which it can be approved.
  returned: always
  type: str
refused:
  description: Of several, those whose plan is refused. The others are carried out.
  returned: always
  type: list
  elements: str
workloads:
  description: Of several, by name, whether anything changes (C(changed)), whether the spec is C(pending), and the number of C(members).
  returned: for several groups or services
  type: dict
plan:
  description: The plan.
  returned: for one group or service
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
  returned: for one group or service
  type: list
  elements: dict
diff:
  description: The plan as a person reads it.
  returned: for one group or service
  type: list
  elements: dict
"""
