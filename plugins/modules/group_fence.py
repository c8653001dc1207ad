#!/usr/bin/python
# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file documents the action plugin of the same name, which runs on the controller.

from __future__ import annotations

DOCUMENTATION = r"""
module: group_fence
short_description: Fence hosts that are stated to be lost, with a command of your own
version_added: 0.1.0
description:
  - Runs a command on the controller, once for each host that a plan takes for lost and that had members of the group. What was a
    statement (C(pd_lost_hosts)) becomes a fact, before anything of the group stops or starts.
  - It runs without a shell and without input, has a deadline of its own, and has failed when it does not end with 0. With O(plan) that
    fails the task. With O(run) it ends the group whose host could not be fenced, and takes nothing from the others of the wave.
    M(inferops.pd.group_verdict) tells it at the end of the run.
  - Without a command, or when no such host is known, it is skipped, and the plan says what is taken on trust.
author:
  - The inferops.pd contributors (@inferops)
extends_documentation_fragment:
  - inferops.pd.attributes
  - inferops.pd.attributes.actiongroup_pd
attributes:
  check_mode:
    support: full
    details:
      - Runs nothing in check mode, and returns what it would run.
  diff_mode:
    support: N/A
    details:
      - What it changes is outside of what is known here.
  idempotent:
    support: partial
    details:
      - The command runs again for a host that is still stated to be lost. Fencing a host twice must do no harm.
options:
  run:
    description: The run's folder, as M(inferops.pd.group_plan) returns it. It or O(plan) is needed.
    type: path
    version_added: 0.2.0
  wave:
    description: Which wave of the run, from 0. The lost hosts of all its groups are fenced.
    type: int
    default: 0
    version_added: 0.2.0
  plan:
    description:
      - The plan of one group, as M(inferops.pd.group_plan) returns it. Its C(fence) is a list of the lost hosts that had members, each with
        C(host), C(machine) (its machine-id), C(address) and C(members).
    type: dict
  command:
    description:
      - The command as a list, its program first. Text is refused, as no shell would read it.
      - Filled in are C(${host}), C(${address}), C(${machine}) and C(${group}), and, by C(${vars.NAME}), a variable of the lost host.
        Another placeholder is an error, and so is one without a value. C($${) is how C(${) itself is written.
      - It is shown when it runs and when it fails, values of C(${vars.NAME}) left out. Give secrets in O(env).
    type: raw
  timeout:
    description: Seconds that one run of it may take. Then it is killed with all that it has started, and has failed.
    type: float
    default: 60
  env:
    description:
      - Variables that it gets beside the environment of C(ansible-playbook), for secrets. They are shown nowhere; a command line that has
        the value of one in it is refused.
    type: dict
    default: {}
seealso:
  - module: inferops.pd.group_plan
"""

EXAMPLES = r"""
- name: Power off what is stated to be lost
  inferops.pd.group_fence:
    run: "{{ planned.run }}"
    wave: 0
    command: [ipmitool, -I, lanplus, -H, "${vars.bmc_address}", -U, fence, -E, chassis, power, "off"]
    env:
      IPMI_PASSWORD: "{{ vault_bmc_password }}"
    timeout: 30
  run_once: true
"""

RETURN = r"""
fenced:
  description: The hosts for which the command has ended with 0.
  returned: always
  type: list
  elements: str
commands:
  description: What was run, or would be in check mode, a text for each host. Values of host variables are left out.
  returned: always
  type: list
  elements: str
host:
  description: The host whose command failed.
  returned: with O(plan), on failure
  type: str
msg:
  description: What was done, or why it failed, with the last line that the command said.
  returned: with O(plan)
  type: str
"""
