#!/usr/bin/python
# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file documents the action plugin of the same name, which runs on the controller.

from __future__ import annotations

DOCUMENTATION = r"""
module: awx_objects
short_description: Tell which objects there are to be in AWX, and what of them there is
version_added: 0.2.0
description:
  - What role awx makes of its variables, an object after the other in the order in which they can be made. Of each it tells what AWX has.
  - It needs the collection C(awx.awx), runs on the controller and changes nothing.
author:
  - The inferops.pd contributors (@inferops)
extends_documentation_fragment:
  - inferops.pd.attributes
  - inferops.pd.attributes.actiongroup_pd
  - inferops.pd.attributes.info_module
options:
  settings:
    description: The variables of role awx, without its prefix. No secret is among them.
    type: dict
    required: true
  own:
    description: What the role has itself, C(every_template), C(templates), C(questions), C(workflow) and C(schedules).
    type: dict
    required: true
  groups:
    description: The names of the groups that surveys offer.
    type: list
    elements: str
    default: []
  rollouts:
    description: The names of the rollouts that surveys offer.
    type: list
    elements: str
    default: []
  state:
    description: V(present) for what is to be made. V(absent) for what is there and to be taken away, in the order in which it can be.
    type: str
    choices: [present, absent]
    default: present
  controller:
    description:
      - Where AWX is and who asks, as the modules of C(awx.awx) take it, with C(controller_host), C(controller_username) and so on.
      - What is left out comes from the environment.
    type: dict
    default: {}
seealso:
  - module: inferops.pd.awx_object
"""

EXAMPLES = r"""
- name: Say which objects there are to be in AWX
  inferops.pd.awx_objects:
    settings:
      organization: Serving
      scm_url: https://git.example.com/serving.git
    own: "{{ own }}"
    groups: [qwen-a, kimi-b]
  register: wanted
"""

RETURN = r"""
objects:
  description:
    - Each object, as M(inferops.pd.awx_object) takes it. No secret is in it.
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: What it is called in messages.
      type: str
    kind:
      description: Which module of C(awx.awx) makes it.
      type: str
    params:
      description: The parameters of that module.
      type: dict
    secrets:
      description: The inputs of a credential whose values are given to M(inferops.pd.awx_object) alone, each with their name there.
      type: dict
    there:
      description: Whether AWX has it.
      type: bool
    same:
      description: Whether nothing is left to do.
      type: bool
    before:
      description: What of it differs, as it is.
      type: dict
    after:
      description: What of it differs, as it is to be.
      type: dict
"""
