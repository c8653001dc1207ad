#!/usr/bin/python
# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file documents the action plugin of the same name, which runs on the controller.

from __future__ import annotations

DOCUMENTATION = r"""
module: group_verdict
short_description: Reach one verdict for a group or a cache service from the results of all its hosts
version_added: 0.1.0
description:
  - Judges what every host of a plan said in a phase and decides for the group, or the service, as a whole whether the run may go on.
  - A host of the plan without a result did not answer and counts as bad, which no expression over registered results notices by itself.
  - A cache service is judged as a group is. It is good when every instance of the plan answers; there is no router, endpoint or proof.
  - It runs on the controller, once, and changes nothing.
author:
  - The inferops.pd contributors (@inferops)
extends_documentation_fragment:
  - inferops.pd.attributes
  - inferops.pd.attributes.actiongroup_pd
  - inferops.pd.attributes.info_module
options:
  plan:
    description: The plan, as M(inferops.pd.group_plan) or M(inferops.pd.cache_plan) returns it.
    type: dict
    required: true
  phase:
    description:
      - V(start), after the engines were started and waited for. Good means that the router may start.
      - V(router_stop), after the router was stopped. Good means that it is gone and every host answers, so that engines may stop.
      - V(stop), after members were stopped. Good means that each is seen to be gone, so that members may start.
      - V(final), at the end. Good means that the group serves, its router has its peers, and the proof was good.
    type: str
    choices: [start, router_stop, stop, final]
    required: true
  register:
    description:
      - The names under which the hosts of the play registered their results, of M(inferops.pd.members),
        M(inferops.pd.members_wait) and, for O(phase=final), M(inferops.pd.group_proof), in the order of the tasks. What was
        skipped is left out.
    type: list
    elements: str
  of_router:
    description:
      - Those of O(register) that only the router's host has for this plan. Another host may hold one of the plan before.
      - Of all others, those of the plan's hosts are read.
    type: list
    elements: str
    default: []
  results:
    description: The same results by host name, a result or a list of them for each.
    type: dict
  readiness:
    description:
      - When the endpoint may open. With V(any_per_role), as soon as each role has a ready member; with V(all), when all members are.
      - Left out, what the plan says.
    type: str
    choices: [any_per_role, all]
  stops:
    description: Whether you stop the members when the verdict is bad. Only the message depends on it.
    type: bool
    default: false
  fail:
    description: Whether a bad verdict fails the task, with the whole message.
    type: bool
    default: false
seealso:
  - module: inferops.pd.members_wait
"""

EXAMPLES = r"""
- name: Decide whether the router may start
  inferops.pd.group_verdict:
    plan: "{{ planned.plan }}"
    phase: start
    register: [engine_started, engine_waited]
  register: verdict
  run_once: true

- name: Stop here when members that had to go are still there
  inferops.pd.group_verdict:
    plan: "{{ planned.plan }}"
    phase: stop
    register: [engine_stopped]
    fail: true
  run_once: true
"""

RETURN = r"""
good:
  description: Whether the run may go on.
  returned: always
  type: bool
complete:
  description: Whether nothing is missing.
  returned: always
  type: bool
ready:
  description: Ids of the ready engine members, by role.
  returned: always
  type: dict
ready_members:
  description: The same ids as one list.
  returned: always
  type: list
  elements: str
failed_members:
  description: Why each other member is not ready, by id, with its host, what to do, and the path of its log.
  returned: always
  type: dict
unreachable_hosts:
  description: Hosts of the plan that gave no result.
  returned: always
  type: list
  elements: str
problems:
  description: What hosts refused as a whole, by host.
  returned: always
  type: dict
msg:
  description: The verdict for a person - what failed where and why, what stays running, and what to do next.
  returned: always
  type: str
"""
