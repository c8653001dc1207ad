#!/usr/bin/python
# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: group_note
short_description: Keep in the records of groups how far a rollout has come with them
version_added: 0.2.0
description:
  - Writes what a rollout notes of groups into their records on this host, so that a run that goes on, in whatever job, finds it there.
  - An action plugin of the same name reads it from the rollout's folder on the controller. A host that has none of the groups is not
    asked.
  - A record that another run has changed since it was read is left as it is, and so is one of a group that another run has locked.
author:
  - The inferops.pd contributors (@inferops)
extends_documentation_fragment:
  - inferops.pd.runtime.cluster
  - inferops.pd.attributes
  - inferops.pd.attributes.actiongroup_pd
  - inferops.pd.attributes.action_plugin
  - inferops.pd.attributes.platform
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
    details:
      - How far a rollout has come is told by the rollout, and by the status.
  idempotent:
    support: full
options:
  rollout:
    description: The rollout's folder, as M(inferops.pd.rollout_plan) returns it. Only with the action plugin, which needs it.
    type: path
  notes:
    description: Filled in by the action plugin; what is to be written, by group.
    type: dict
    default: {}
  holder:
    description: Filled in by the action plugin; who writes it.
    type: dict
  state_dir:
    description: Where the members of the host are kept, the host variable C(pd_state_dir).
    type: path
seealso:
  - module: inferops.pd.rollout_plan
  - module: inferops.pd.rollout_turn
"""

EXAMPLES = r"""
- name: Keep how far it has come
  inferops.pd.group_note:
    rollout: "{{ rollout_planned.rollout }}"
"""

RETURN = r"""
workloads:
  description: What became of the note of each group.
  returned: when any was written
  type: dict
  contains:
    changed:
      description: Whether its record says another thing now.
      returned: always
      type: bool
    serial:
      description: The number of its record.
      returned: unless it failed
      type: int
    state:
      description: The state of the group as its record has it.
      returned: unless it failed
      type: str
    failed:
      description: Whether it could not be written. The task itself does not fail for it.
      returned: when it failed
      type: bool
    msg:
      description: Why not.
      returned: when it failed
      type: str
"""

import typing as t

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._core.base.errors import PdError
from ..module_utils._host.note import write_notes
from ..module_utils._runtimes.state import State
from ..module_utils._runtimes.store import Store


def store_of(given: t.Mapping[str, t.Any]) -> Store:
    """Where records are kept: on this host, or in the cluster that it stands for."""
    if not given["cluster"]:
        return State(given["state_dir"])
    from ..module_utils._kube.cluster import Cluster

    return Cluster.read(given["cluster"]).open().store


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "rollout": {"type": "path"},
            "notes": {"type": "dict", "default": {}},
            "holder": {"type": "dict"},
            "state_dir": {"type": "path"},
            "cluster": {"type": "str", "no_log": True},
        },
        supports_check_mode=True,
    )
    given = module.params
    holder = given["holder"] or {"who": "unknown"}
    try:
        results = write_notes(store_of(given), given["notes"], holder, module.check_mode)
    except PdError as exc:
        results = {group: {"changed": False, "failed": True, "msg": str(exc)} for group in given["notes"]}
    module.exit_json(changed=any(one["changed"] for one in results.values()), workloads=results)


if __name__ == "__main__":
    main()
