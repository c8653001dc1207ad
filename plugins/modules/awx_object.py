#!/usr/bin/python
# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file documents the action plugin of the same name, which runs on the controller.

from __future__ import annotations

DOCUMENTATION = r"""
module: awx_object
short_description: Make one object in AWX, or take it away
version_added: 0.2.0
description:
  - Runs the module of C(awx.awx) that there is for the object, and says in one sentence what AWX refuses.
  - It runs on the controller.
author:
  - The inferops.pd contributors (@inferops)
extends_documentation_fragment:
  - inferops.pd.attributes
  - inferops.pd.attributes.actiongroup_pd
attributes:
  check_mode:
    support: full
    details:
      - An object that stands on another one which is not there yet is told as changed.
  diff_mode:
    support: full
    details:
      - What AWX does not show, secrets and who may do what, is in no diff.
  idempotent:
    support: partial
    details:
      - A secret that has a value is written each time, since AWX does not show the one that it has.
options:
  object:
    description: The object, as M(inferops.pd.awx_objects) returns it.
    type: dict
    required: true
  values:
    description: Secrets, by name. They are in no result, and one that has no value here stays what it is in AWX.
    type: dict
    default: {}
  controller:
    description: Where AWX is and who asks, as for M(inferops.pd.awx_objects).
    type: dict
    default: {}
seealso:
  - module: inferops.pd.awx_objects
"""

EXAMPLES = r"""
- name: Make them so
  inferops.pd.awx_object:
    object: "{{ item }}"
  loop: "{{ wanted.objects }}"
  loop_control:
    label: "{{ item.name }}"
"""

RETURN = r"""
id:
  description: Its number in AWX.
  returned: where AWX has it
  type: int
"""
