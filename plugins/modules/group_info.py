#!/usr/bin/python
# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file documents the action plugin of the same name, which runs on the controller.

from __future__ import annotations

DOCUMENTATION = r"""
module: group_info
short_description: Tell the state of groups and cache services
version_added: 0.1.0
description:
  - The state of one group, or of every group that the inventory or the hosts know, from the hosts' facts of this run.
  - States are V(pending), V(partial), V(running) and V(error). Being below the wanted ratio is a mark beside the state.
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
      - "Which groups: names, globs or labels, as text with commas or as a list (see docs/playbooks.md)."
      - Left out, empty text, or V(all), every group is told.
    type: raw
  spec:
    description: The spec. Left out, it is the entry O(name) of C(pd_groups) and C(pd_groups_*).
    type: dict
  hosts:
    description: Facts by host name. Left out, what the hosts of the play registered under the name O(register) is read.
    type: dict
  register:
    description: >-
      The name under which the hosts registered their facts; of several looks several, with commas between them, of which the last counts.
    type: str
    default: pd_facts
  show:
    description: Print the table for people as well.
    type: bool
    default: false
  fail_unless_running:
    description: Fail when a group that is told is not running, for monitoring.
    type: bool
    default: false
seealso:
  - module: inferops.pd.host_facts
"""

EXAMPLES = r"""
- name: Ask every host what there is
  inferops.pd.host_facts:
  register: pd_facts

- name: Tell the state of every group
  inferops.pd.group_info:
    show: true
  register: status
  run_once: true

- name: Fail when a group does not serve
  ansible.builtin.assert:
    that: status.groups.values() | rejectattr('state', 'equalto', 'running') | length == 0
  run_once: true
"""

RETURN = r"""
groups:
  description: The state of each group by name.
  returned: always
  type: dict
  contains:
    state:
      description: V(pending), V(partial), V(running) or V(error).
      type: str
    message:
      description: Why it is not running.
      type: str
    roles:
      description: Per role the numbers RV(ignore:ready), RV(ignore:desired), RV(ignore:running), RV(ignore:down), RV(ignore:unknown).
      type: dict
    marks:
      description: What is to be known beside the state, each with its reason.
      type: list
      elements: dict
    pending:
      description: Whether the spec differs from what the members run.
      type: bool
    pending_diff:
      description: The difference, a line a fact.
      type: list
      elements: str
    members:
      description: Every member with its host, its condition (C(state)), pid, ports and log.
      type: list
      elements: dict
    endpoint:
      description: The address for clients, and whether it is registered.
      type: dict
    router:
      description: The router's policy and the peers that it has; null where its own list of them cannot be read.
      type: dict
    locality:
      description:
        - The share of prefill-decode pairs that are on one host, from 0 to 1. Their KV crosses no network.
        - Null where there is no pair.
      type: float
    stand:
      description: The name that hosts know it by (docs/rollouts.md); members, records and locks are called by it.
      type: str
    twin:
      description: What stands beside it while a rollout has not decided between the two, with its C(stand), C(state) and C(members).
      type: dict
      returned: when there is any
    rollout:
      description: How far a rollout has come with the group, its C(name), C(wave), C(state) and C(why), and all of it as a line (C(told)).
      type: dict
      returned: when one has, or had, the group
cordoned:
  description: By host that was looked at and that no member comes to, who has set that (C(by)), when (C(since)) and C(why).
  returned: always
  type: dict
caches:
  description:
    - The state of each cache service by name; beside one group, of those that it uses. It has the keys of RV(groups) but for the router
      and the endpoint, and these.
  returned: always
  type: dict
  contains:
    state:
      description:
        - V(absent) for one that was never deployed, V(partial), V(running), V(error), or V(external) for one that somebody else runs.
        - V(unknown) when no host of its instances has answered.
      type: str
    provider:
      description: Its kind.
      type: str
    users:
      description: The groups of which a living member serves with it, whatever their specs say now.
      type: list
      elements: str
    wanted_by:
      description: The groups whose specs name it and of which no living member serves with it yet.
      type: list
      elements: str
    left_by:
      description: Those of RV(caches.users) whose specs no longer name it.
      type: list
      elements: str
    all_answered:
      description: Whether every host of the play gave facts. When not, a group of RV(caches.wanted_by) may be a user.
      type: bool
    pending:
      description: Whether the spec differs from what runs.
      type: bool
    instances:
      description: Every instance, as RV(groups.members) has members, with the address that its clients use.
      type: list
      elements: dict
table:
  description: The same as lines for a terminal.
  returned: always
  type: list
  elements: str
silent:
  description: Hosts of the play that gave no facts.
  returned: always
  type: list
  elements: str
"""
