#!/usr/bin/python
# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file documents the action plugin of the same name, which runs on the controller.

from __future__ import annotations

DOCUMENTATION = r"""
module: mode_info
short_description: List the modes (recipes) and tell which one fits
version_added: 0.1.0
description:
  - A mode is a complete recipe of engine, KV connector and router. This lists every mode that is known, built-in or your own, with whether
    it fits the given engine and GPUs, and the reason when not.
  - It runs on the controller and asks no host.
author:
  - The inferops.pd contributors (@inferops)
extends_documentation_fragment:
  - inferops.pd.attributes
  - inferops.pd.attributes.actiongroup_pd
  - inferops.pd.attributes.info_module
  - inferops.pd.modes
options:
  backend:
    description: The engine, for example V(vLLM). Left out, modes of every engine are available.
    type: str
  vendors:
    description: GPU vendors that the hosts report, for example V(nvidia).
    type: list
    elements: str
    default: []
  vendor:
    description: The vendor chosen for the group, needed on a mixed fleet.
    type: str
seealso:
  - module: inferops.pd.group_validate
"""

EXAMPLES = r"""
- name: Which recipe fits vLLM on NVIDIA GPUs?
  inferops.pd.mode_info:
    backend: vLLM
    vendors: [nvidia]
  register: modes

- name: Show the preferred one, or why there is none
  ansible.builtin.debug:
    msg: "{{ modes.preferred | default(modes.why_none.reason, true) }}"
"""

RETURN = r"""
modes:
  description: Every mode by name.
  returned: success
  type: dict
  contains:
    available:
      description: Whether it fits the engine and the vendor.
      type: bool
    code:
      description: A stable word for why not, V(backend_mismatch) or V(vendor_mismatch).
      type: str
    reason:
      description: The same, for people.
      type: str
    summary:
      description: What the recipe is made of.
      type: str
    membership:
      description: How its router learns of members by default.
      type: str
preferred:
  description: The mode to use when none is named, or null.
  returned: success
  type: str
why_none:
  description: Why no mode is preferred, as a C(code) and a C(reason).
  returned: success
  type: dict
"""
