#!/usr/bin/python
# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file documents the action plugin of the same name, which runs on the controller.

from __future__ import annotations

DOCUMENTATION = r"""
module: cache_plan
short_description: Compute what a run would do to a cache service, as one value
version_added: 0.2.0
description:
  - This is M(inferops.pd.group_plan) with O(inferops.pd.group_plan#module:kind=cache).
  - Computes the plan of one cache service of C(pd_caches) from its spec and from what the hosts said in this run. The plan has the shape of
    a group's. It is written to a folder of the run (RV(run)), from which M(inferops.pd.members), M(inferops.pd.members_wait) and
    M(inferops.pd.group_verdict) carry it out.
  - An instance that runs is kept, also when its spec has changed, which is then pending. One that is down is started again at its ports.
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
    description: The service, an entry of C(pd_caches) or C(pd_caches_*).
    type: str
    required: true
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
    description:
      - V(deploy) starts what is missing or down.
      - V(restart) stops every instance and starts it on the current spec.
      - V(remove) takes the service down. It is refused while members that run use it.
    type: str
    choices: [deploy, restart, remove]
    default: deploy
  lost_hosts:
    description: Hosts that do not answer and that you state are fenced. Their instances count as gone.
    type: list
    elements: str
    default: []
  fail_on:
    description: The mildest severity that fails the task.
    type: str
    choices: [error, warning, never]
    default: error
seealso:
  - module: inferops.pd.group_plan
  - module: inferops.pd.cache_validate
  - module: inferops.pd.host_facts
  - module: inferops.pd.members
"""

EXAMPLES = r"""
- name: Ask every host what there is
  inferops.pd.host_facts:
    executables: [/opt/mooncake/bin/mooncake_master]
  register: pd_facts

- name: Compute the plan, once
  inferops.pd.cache_plan:
    name: store-a
  register: planned
  run_once: true
"""

RETURN = r"""
run:
  description: The folder of the run, as M(inferops.pd.group_plan) returns it.
  returned: always
  type: str
waves:
  description: What is done, as M(inferops.pd.group_plan) returns it. One wave, or none where nothing is to be done.
  returned: always
  type: list
  elements: dict
stay:
  description: The inventory hosts that have a part in it.
  returned: always
  type: list
  elements: str
plan:
  description: The plan, in the shape of M(inferops.pd.group_plan)'s, with members of role C(cache).
  returned: always
  type: dict
  contains:
    cache:
      description: The service, its kind, who uses it, and what its clients do when it restarts.
      type: dict
    clients_restart:
      description: Whether the groups that use the service must be restarted after this run.
      type: bool
    pending:
      description: Whether the spec differs from what runs.
      type: bool
    members:
      description: Every instance that there is afterwards, fully rendered.
      type: list
      elements: dict
    steps:
      description: What is done, in order, with the phase, the member, the host and the reason.
      type: list
      elements: dict
findings:
  description: What is to be said, the worst first; as in M(inferops.pd.group_validate).
  returned: always
  type: list
  elements: dict
diff:
  description: The plan as a person reads it.
  returned: always
  type: list
  elements: dict
"""
