#!/usr/bin/python
# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: endpoint_hooks
short_description: Give endpoints to what clients use, and take them away
version_added: 0.2.0
description:
  - Tells the hooks of C(pd_endpoint_hooks) that are on a host about the endpoints of groups, as the plan of M(inferops.pd.group_plan) says.
    All that one phase has to tell there for all groups of a wave is one call; the groups of one hook are one change of its files, one
    check and one reload.
  - A server of HAProxy is drained and set over its runtime API where the hook has a socket; the file says the same, for its next start.
    What the runtime API cannot be told is reloaded, and looked at after it.
  - An action plugin of the same name reads the run's folder on the controller. Hooks of kind V(tasks) are the role's to carry out
    (RV(tasks)), and what became of them is told with O(ended). A host without hooks is not asked.
author:
  - The inferops.pd contributors (@inferops)
extends_documentation_fragment:
  - inferops.pd.attributes
  - inferops.pd.attributes.actiongroup_pd
  - inferops.pd.attributes.action_plugin
  - inferops.pd.attributes.platform
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
  idempotent:
    support: full
options:
  run:
    description: The run's folder, as M(inferops.pd.group_plan) returns it. Only with the action plugin, which needs it.
    type: path
  wave:
    description: Which wave of the run, from 0.
    type: int
    default: 0
  phase:
    description:
      - V(withdraw) takes the endpoints of groups that stop from their hooks, before anything stops.
      - V(restore) gives back what was taken from hooks by a run that ended before anything stopped.
      - V(announce) gives endpoints that serve to their hooks, and takes those away that do not, or whose groups have dropped the hook.
    type: str
    choices: [withdraw, restore, announce]
  ended:
    description:
      - What became of a hook of kind V(tasks), in place of telling any, C(hook), C(group), and C(msg) where it failed.
    type: dict
  acts:
    description: Filled in by the action plugin. What each hook is asked about a group.
    type: list
    elements: dict
    default: []
seealso:
  - module: inferops.pd.group_plan
  - module: inferops.pd.members
"""

EXAMPLES = r"""
- name: Have clients sent elsewhere
  inferops.pd.endpoint_hooks:
    run: "{{ pd_planned.run }}"
    wave: 0
    phase: withdraw

- name: Say that own tasks are done
  inferops.pd.endpoint_hooks:
    run: "{{ pd_planned.run }}"
    wave: 0
    phase: announce
    ended: {hook: own, group: qwen3-32b}
"""

RETURN = r"""
workloads:
  description: What became of each group, by its name.
  returned: always
  type: dict
  contains:
    ok:
      description: Whether all of its hooks here did what they were told.
      returned: always
      type: bool
    failed:
      description: Whether one did not. The task itself does not fail for it.
      returned: when it failed
      type: bool
    msg:
      description: What did not go well, and why.
      returned: when it failed
      type: str
    changed:
      description: Whether a file or a running process changed.
      returned: always
      type: bool
    hooks:
      description: Of each hook whether it is C(ok), and C(msg) where it is not.
      returned: always
      type: dict
tasks:
  description: Hooks of kind V(tasks) that the role is to carry out, each with C(hook), C(group), C(file) and C(endpoint).
  returned: with the action plugin
  type: list
  elements: dict
"""

import typing as t

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._core.base.errors import PdError
from ..module_utils._core.hooks.hook import Act
from ..module_utils._host.endpoint_hooks import carry_out


def argument_spec() -> dict[str, dict[str, object]]:
    """The options, as DOCUMENTATION lists them."""
    return {
        "run": {"type": "path"},
        "wave": {"type": "int", "default": 0},
        "phase": {"type": "str", "choices": ["withdraw", "restore", "announce"]},
        "ended": {"type": "dict"},
        "acts": {"type": "list", "elements": "dict", "default": []},
    }


def main() -> None:
    module = AnsibleModule(argument_spec=argument_spec(), supports_check_mode=True)
    raw: list[dict[str, t.Any]] = module.params["acts"]
    try:
        results, diffs = carry_out([Act.from_plain(one) for one in raw], module.check_mode)
    except PdError as exc:
        module.fail_json(msg=str(exc))
    for warning in dict.fromkeys(text for one in results.values() for text in one.pop("warnings")):
        module.warn(warning)
    # What fails is one group's own, and is told to who asks for it; the task has done what it could.
    module.exit_json(changed=any(one["changed"] for one in results.values()), workloads=results, diff=diffs)


if __name__ == "__main__":
    main()
