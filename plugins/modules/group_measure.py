#!/usr/bin/python
# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: group_measure
short_description: Read what engines and routers of groups have counted
version_added: 0.2.0
description:
  - Reads, from the metrics of the engines and routers of this host, how many requests they have had, how many of these failed, and how long
    the first tokens took. The gate of a rollout compares them before and after a change.
  - An action plugin of the same name finds the members of a rollout's turn on the host, and knows which metrics each kind has. A host
    without any of them is not asked.
  - What a member does not count is told by the name of the metric. A member that does not answer is told as that; the task does not fail.
author:
  - The inferops.pd contributors (@inferops)
extends_documentation_fragment:
  - inferops.pd.attributes
  - inferops.pd.attributes.actiongroup_pd
  - inferops.pd.attributes.action_plugin
  - inferops.pd.attributes.info_module
  - inferops.pd.attributes.platform
options:
  rollout:
    description: The rollout's folder, as M(inferops.pd.rollout_plan) returns it. Only with the action plugin, which needs it.
    type: path
  register:
    description: The variable under which the results of M(inferops.pd.host_facts) of this run are. Only with the action plugin.
    type: str
    default: pd_facts
  workloads:
    description:
      - Filled in by the action plugin. By group the members to read, each with its C(id), its C(role), the C(url) of its metrics, and what
        is read there. C(requests) and C(errors) are metrics of which the sum counts; C(first_token) is a histogram, or null; C(late) says
        that a counter appears with its first use.
    type: dict
    default: {}
seealso:
  - module: inferops.pd.rollout_turn
"""

EXAMPLES = r"""
- name: Read the counters of engines and routers
  inferops.pd.group_measure:
    rollout: "{{ rollout_planned.rollout }}"
"""

RETURN = r"""
workloads:
  description: What was read of each group.
  returned: when any was
  type: dict
  contains:
    members:
      description:
        - What each member has counted since it started, by its id. Its C(role), C(requests) and C(errors), and in C(ttft) how many first
          tokens came within so many seconds, by the upper bound of each bucket.
        - C(missing) are metrics that it does not have, C(why) says why nothing could be read.
      returned: always
      type: dict
      sample:
        demo-router:
          role: router
          requests: 412
          errors: 1
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._core.base.errors import PdError
from ..module_utils._core.base.plain import reading
from ..module_utils._host.measure import measure


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "rollout": {"type": "path"},
            "register": {"type": "str", "default": "pd_facts"},
            "workloads": {"type": "dict", "default": {}},
        },
        supports_check_mode=True,
    )
    try:
        with reading("workloads", "Give the rollout, and run group_measure from the controller."):
            found = measure(module.params["workloads"])
    except PdError as exc:
        module.fail_json(msg=str(exc))
    module.exit_json(changed=False, workloads=found)


if __name__ == "__main__":
    main()
