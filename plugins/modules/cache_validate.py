#!/usr/bin/python
# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file documents the action plugin of the same name, which runs on the controller.

from __future__ import annotations

DOCUMENTATION = r"""
module: cache_validate
short_description: Judge the cache services of the inventory, all reasons at once
version_added: 0.2.0
description:
  - This is M(inferops.pd.group_validate) with O(inferops.pd.group_validate#module:kind=cache).
  - Reads C(pd_caches) and every C(pd_caches_*), merged, and judges one service or all of them. No host is asked.
  - It runs on the controller and changes nothing.
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
      - "Which services: names, globs or labels, as text with commas or as a list (see docs/playbooks.md)."
      - Left out, empty text, or V(all), every one.
    type: raw
  named:
    description: Whether the name must be given; V(all) is one.
    type: bool
    default: false
  fail_on:
    description: The mildest severity that fails the task. With V(never) a service that has left the inventory is no error.
    type: str
    choices: [error, warning, never]
    default: error
seealso:
  - module: inferops.pd.group_validate
  - module: inferops.pd.cache_plan
"""

EXAMPLES = r"""
- name: Are the services sound?
  inferops.pd.cache_validate:
  register: caches
  run_once: true
"""

RETURN = r"""
names:
  description: The services that the collection deploys, of those that were asked for.
  returned: always
  type: list
  elements: str
  sample: [store-a]
services:
  description:
    - By name, its findings, the service with its kind's defaults, the groups that use it, and what M(inferops.pd.host_facts) is to
      look at.
  returned: always
  type: dict
findings:
  description: What is to be said, the worst first; as in M(inferops.pd.group_validate).
  returned: always
  type: list
  elements: dict
"""
