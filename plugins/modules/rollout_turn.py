#!/usr/bin/python
# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file documents the action plugin of the same name, which runs on the controller.

from __future__ import annotations

DOCUMENTATION = r"""
module: rollout_turn
short_description: Say what comes next of a rollout, and keep what has become of it
version_added: 0.2.0
description:
  - A run of a rollout is turns. Each begins with a look at hosts; this module says what comes next, from what the records of the groups say
    and from nothing else. So a run goes on where another one has ended, on whatever controller.
  - A turn is five calls of it at most, by O(phase). In between, M(inferops.pd.group_measure) reads counters, M(inferops.pd.group_note)
    writes what is kept, and role C(group) restarts groups.
author:
  - The inferops.pd contributors (@inferops)
extends_documentation_fragment:
  - inferops.pd.attributes
  - inferops.pd.attributes.actiongroup_pd
attributes:
  check_mode:
    support: full
  diff_mode:
    support: N/A
    details:
      - It changes nothing.
  idempotent:
    support: full
options:
  rollout:
    description: The folder of this run, as M(inferops.pd.rollout_plan) returned it.
    type: path
    required: true
  phase:
    description:
      - V(next) says what comes next.
      - V(measured) says what is to be kept of it, with what was measured; of a group whose soak is over that is the verdict.
      - V(noted) says what is done now. Where what is to be kept could not be, that is the end.
      - V(soak) waits, for half an hour at most.
      - V(end) tells how all groups stand, and fails where there is something to see to.
    type: str
    choices: [next, measured, noted, soak, end]
    default: next
  run:
    description: The folder of the run that a turn before has made of role C(group), for O(phase=next).
    type: path
  register:
    description: The name under which the hosts registered their facts.
    type: str
    default: pd_facts
seealso:
  - module: inferops.pd.rollout_plan
  - module: inferops.pd.group_note
  - module: inferops.pd.group_measure
"""

EXAMPLES = r"""
- name: Say what is next
  inferops.pd.rollout_turn:
    rollout: "{{ planned.rollout }}"
    register: facts
  register: turn
  run_once: true
"""

RETURN = r"""
do:
  description: What kind of turn it is; V(note), V(change), V(soak), V(judge), V(return), V(point), V(clear) or V(end).
  returned: success
  type: str
names:
  description: The groups that it is about.
  returned: success
  type: list
  elements: str
number:
  description: The how manieth turn of this run it is.
  returned: with O(phase=noted)
  type: int
told:
  description: The same for a person.
  returned: with O(phase=next) and O(phase=noted)
  type: str
measures:
  description: The hosts on which is measured first.
  returned: with O(phase=next)
  type: list
  elements: str
notes:
  description: The hosts on which something is to be kept.
  returned: with O(phase=measured)
  type: list
  elements: str
action:
  description: What of role C(group) is done with RV(workloads), V(restart) or V(deploy).
  returned: with O(phase=noted)
  type: str
workloads:
  description: Its groups, or stands of them, and the services that they use, for role C(group).
  returned: with O(phase=noted)
  type: list
  elements: dict
hosts:
  description: Their hosts.
  returned: with O(phase=noted)
  type: list
  elements: str
to:
  description: What each of its groups is restarted onto, for a return.
  returned: with O(phase=noted)
  type: dict
seen:
  description: The groups, and the services that they use, that are looked at before the next turn.
  returned: with O(phase=noted)
  type: list
  elements: dict
look:
  description: The hosts that are looked at before the next turn.
  returned: with O(phase=noted)
  type: list
  elements: str
gate:
  description: The rollout, where its gate has a command.
  returned: with O(phase=noted)
  type: str
groups:
  description: How far it has come with each group.
  returned: with O(phase=end)
  type: dict
go_on:
  description: When it can go on, in seconds of the epoch.
  returned: with O(phase=end)
  type: float
"""
