#!/usr/bin/python
# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file documents the action plugin of the same name, which runs on the controller.

from __future__ import annotations

DOCUMENTATION = r"""
module: group_verdict
short_description: Reach a verdict on each workload of a wave from what all its hosts said
version_added: 0.1.0
description:
  - Judges, for each group and each cache service of a wave by itself, what the hosts of its plan said in a phase, and decides whether it
    goes on. One that fails takes nothing from the others. It gets no more orders, but to give its locks back.
  - A host of a plan that said nothing did not answer and counts as bad, which no expression over registered results notices by itself.
  - What the hosts said is read from the run's folder, where M(inferops.pd.members), M(inferops.pd.members_wait) and
    M(inferops.pd.group_proof) have put it. How far each workload has come is kept there, too.
  - A cache service is judged as a group is. It is good when every instance of the plan answers; there is no router, endpoint or proof.
  - It runs on the controller, once for all hosts, and changes nothing on any. A bad verdict fails no task but the last one,
    O(phase=close), which tells all that failed.
author:
  - The inferops.pd contributors (@inferops)
extends_documentation_fragment:
  - inferops.pd.attributes
  - inferops.pd.attributes.actiongroup_pd
  - inferops.pd.attributes.info_module
options:
  run:
    description: The run's folder, as M(inferops.pd.group_plan) returns it.
    type: path
    required: true
  wave:
    description: Which wave of the run, from 0. For O(phase=close) it is not asked.
    type: int
    default: 0
  round:
    description: Which round of renewal or of retirement of the wave, by its number, for the phases of one. Left out, what is in none.
    type: int
  phase:
    description:
      - V(open), before a wave that is not the first. A group whose cache service has failed in this run is not begun, and after a restart
        that failed nothing is.
      - V(prepare), after images were fetched. Good means that all hosts have them, and the same.
      - V(lock), after the locks were taken. Good means that every host of the plan has said yes to it.
      - V(withdraw), after hooks were told that clients go elsewhere. Good means that none may still send requests, so that members may
        stop.
      - V(leave), after members were taken out of the router. Good means that it has let them go, so that they may stop.
      - V(router_stop), after the router was stopped. Good means that it is gone and every host answers, so that engines may stop.
      - V(stop), after members were stopped. Good means that each is seen to be gone, so that members may start.
      - V(forget), after a group or a service was forgotten. Good means that nothing is left of it.
      - V(start), after the engines were started and waited for. Good means that the router may start.
      - V(renewal), the same after a round of renewal, and after the last one.
      - V(settle), after router and proof. It puts together what is to be written of each.
      - V(announce), after hooks were told of what serves. It puts together what is written of each, and what of the endpoint follows.
      - V(final), after it was written. Good means that a group serves, its router has its peers, and the proof was good.
      - V(close), at the end of the run, once. It tells what failed, one workload below the other, and fails the task if anything has.
    type: str
    choices: [open, prepare, lock, withdraw, leave, router_stop, stop, forget, start, renewal, settle, announce, final, close]
    required: true
  stops:
    description: Whether what this run has started is stopped again where the verdict on it is bad.
    type: bool
    default: false
  fail_on_locked:
    description:
      - Whether a group that another run is at fails the run where it was to be healed. Left to itself it is skipped, and the next run
        heals it. Everything else than V(heal) fails in any case.
    type: bool
    default: false
    version_added: 0.2.0
  fails:
    description: For O(phase=close), whether the task fails when anything has failed. If not, it is only told, and returned.
    type: bool
    default: true
    version_added: 0.2.0
seealso:
  - module: inferops.pd.group_plan
  - module: inferops.pd.members
  - module: inferops.pd.members_wait
"""

EXAMPLES = r"""
- name: Decide which routers may start
  inferops.pd.group_verdict:
    run: "{{ planned.run }}"
    wave: 0
    phase: start
  register: course
  run_once: true

- name: Tell what failed, and fail if anything has
  inferops.pd.group_verdict:
    run: "{{ planned.run }}"
    phase: close
  run_once: true
"""

RETURN = r"""
good:
  description: Whether no workload of the wave, or for O(phase=close) of the run, has failed.
  returned: always
  type: bool
going:
  description: The workloads of the wave that go on.
  returned: unless O(phase=close)
  type: list
  elements: str
serves:
  description: Whether any of them may start its router, or tell it of its members.
  returned: unless O(phase=close)
  type: bool
restores:
  description: Whether any has ended before anything stopped, so that hooks are given its endpoint again.
  returned: unless O(phase=close)
  type: bool
undoes:
  description: Whether what the run has started of any is to be stopped again.
  returned: unless O(phase=close)
  type: bool
retires:
  description: Whether members of any may stop whose place others have taken.
  returned: unless O(phase=close)
  type: bool
unproven:
  description: Whether a proof was sent for any, and was not good.
  returned: unless O(phase=close)
  type: bool
left:
  description: The workloads that the others did not wait for. They are taken up in another pass.
  returned: unless O(phase=close)
  type: list
  elements: str
locked:
  description: The workloads that have failed and whose locks are to be given back.
  returned: unless O(phase=close)
  type: list
  elements: str
msg:
  description: Which workloads failed, in a line. Above it stands what failed where and why of each, what runs on, and what to do next.
  returned: for O(phase=close), when any failed
  type: str
failed_members:
  description: Of the one workload of a run, the members that are not ready, by id, with C(host), C(outcome) and C(symptom).
  returned: for O(phase=close), when the run has one workload and it failed for its members
  type: dict
unreachable_hosts:
  description: Of the one workload of a run, the hosts of its plan that did not answer.
  returned: for O(phase=close), when the run has one workload and any did not answer
  type: list
  elements: str
workloads:
  description:
    - By name, of each that failed, C(good), and C(failed_members) and C(unreachable_hosts) as above. C(untouched) is one that
      was not begun, C(refused) one whose plan was refused.
  returned: for O(phase=close), when the run has several workloads and any failed
  type: dict
"""
