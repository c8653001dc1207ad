#!/usr/bin/python
# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: members_wait
short_description: Wait until the members of a host are ready, or say why they will not be
version_added: 0.1.0
description:
  - Waits for the members that a wave of a run has started on this host, those of all its workloads at once. A member is ready when its
    process lives, its health path answers 200, and it listens itself on every port that it needs.
  - A member that can never be ready is recognised at once instead of at the time limit, as far as its process, its ports and its
    log tell - an exit, a port held by another process, a side channel that could not be opened, an engine that died behind its
    API server.
  - The action plugin calls this module in slices of some seconds and shows what changes as it comes. A workload is waited for until all
    of its members here are ready or have failed, its own limit has passed, or, on all hosts, those that have failed settle its outcome.
    With readiness C(all) that is the first failure; with C(any_per_role) it is a role of which every member has failed, and the others
    are waited for. A workload takes nothing from the others.
  - The wait ends when that is so of every workload, or when one that is complete on all hosts has waited for the others long enough
    (O(patience)). Those are left, and waited for in a second pass with what is left of their limits.
  - Failure is data. The task does not fail for a member; M(inferops.pd.group_verdict) judges what all hosts have said.
  - The locks of the run are kept alive meanwhile, of workloads that are waited for and of those that are not any more. A host that has
    ended its wait extends them by what the others may still take.
author:
  - The inferops.pd contributors (@inferops)
extends_documentation_fragment:
  - inferops.pd.runtime.cluster
  - inferops.pd.attributes
  - inferops.pd.attributes.actiongroup_pd
  - inferops.pd.attributes.action_plugin
  - inferops.pd.attributes.platform
  - inferops.pd.runtime
attributes:
  check_mode:
    support: full
    details:
      - Skipped in check mode, since nothing was started.
  diff_mode:
    support: N/A
    details:
      - It changes nothing but the expiry of locks.
  idempotent:
    support: full
options:
  run:
    description: The run's folder, as M(inferops.pd.group_plan) returns it. Only with the action plugin, which needs it.
    type: path
  wave:
    description: Which wave of the run, from 0. Workloads of one wave go through the phases together.
    type: int
    default: 0
  round:
    description: Which round of renewal of the wave, from 0. Left out, what is not renewed.
    type: int
  limit:
    description: Seconds to wait at most for each workload. Left out, its plan's own limit.
    type: float
  patience:
    description:
      - For how many seconds a workload that is ready on all of its hosts waits for the others of the wave.
      - Left out, until each of them is ready, has failed, or was waited for up to its limit.
    type: float
  slice:
    description: Seconds of one look by the module, at most 30.
    type: int
    default: 10
  again:
    description: Whether this is one more look, whose word on each member is the last.
    type: bool
    default: false
  explain:
    description: Whether to tell of members that are ready, too, what their logs say is wrong, after requests through them have failed.
    type: bool
    default: false
  workloads:
    description:
      - Filled in by the action plugin. The workloads of this host, each with C(group), C(runtime), C(members) (with none of them its lock
        alone is renewed) and C(memory), what earlier slices have seen.
    type: list
    elements: dict
  holder:
    description: Filled in by the action plugin. Who holds the locks.
    type: dict
seealso:
  - module: inferops.pd.members
  - module: inferops.pd.group_verdict
"""

EXAMPLES = r"""
- name: Wait for the engines of a wave
  inferops.pd.members_wait:
    run: "{{ pd_planned.run }}"
    wave: 1

- name: Wait for them, and let those that are ready wait two minutes for the others
  inferops.pd.members_wait:
    run: "{{ pd_planned.run }}"
    wave: 1
    patience: 120
"""

RETURN = r"""
workloads:
  description: What was seen of each workload on this host, by its name.
  returned: always
  type: dict
  contains:
    members:
      description: Every member of it on this host, by id.
      returned: always
      type: dict
      contains:
        state:
          description: C(ready), C(loading), C(failed), or C(unknown) when it could not be looked at.
          type: str
        outcome:
          description:
            - C(ready), C(failed), C(late) (not ready within the limit), C(left) (the others go on without it for now), C(stopped) (others
              settled the outcome) or C(unknown).
          type: str
        why:
          description: Why it is not ready.
          type: str
        advice:
          description: What to do.
          type: str
        symptom:
          description: What its log shows, with the line, or none.
          type: dict
        log_line:
          description: The line of its log that says why, or the last that it logged.
          type: str
        log:
          description: Path of its log on the host.
          type: str
        pid:
          description: Its process.
          type: int
        elapsed:
          description: Seconds since its process was started.
          type: float
        formation:
          description:
            - The formation that the process carries in its environment which listens on the member's HTTP port, read when the member is
              ready.
            - Null while it is not, when an earlier version started it, and when that cannot be read.
          type: str
        listener_member:
          description: The id of the member that this process belongs to, read the same way.
          type: str
    ready:
      description: Ids of the members that are ready.
      returned: always
      type: list
      elements: str
    not_ready:
      description: Why each other member is not, by id.
      returned: always
      type: dict
    left:
      description: Whether it was still loading when the others went on, so that it is to be waited for in a second pass.
      returned: always
      type: bool
    stopped:
      description: Why the wait for it ended early on all hosts, or none.
      returned: always
      type: str
    elapsed:
      description: Seconds that it was waited for, in all passes.
      returned: always
      type: float
    limit:
      description: Seconds that it is waited for at most, in all passes.
      returned: always
      type: float
    msg:
      description: The outcome on this host, for a person.
      returned: always
      type: str
"""

import typing as t

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._core.base.errors import PdError
from ..module_utils._host.failure import told
from ..module_utils._host.wait import Drivers, Request, wait_for_all
from ..module_utils._runtimes import driver
from ..module_utils._runtimes.state import State
from ..module_utils._runtimes.store import Store


def requests_of(given: dict[str, t.Any]) -> list[Request]:
    return [
        Request(
            group=one["group"],
            runtime=one["runtime"],
            members=one.get("members") or (),
            seconds=given["slice"],
            memory=one.get("memory") or {},
            holder=given["holder"],
            explain=given["explain"],
        )
        for one in given["workloads"]
    ]


def argument_spec() -> dict[str, dict[str, object]]:
    """The options, as DOCUMENTATION lists them."""
    return {
        "run": {"type": "path"},
        "wave": {"type": "int", "default": 0},
        "round": {"type": "int"},
        "limit": {"type": "float"},
        "patience": {"type": "float"},
        "slice": {"type": "int", "default": 10},
        "again": {"type": "bool", "default": False},
        "explain": {"type": "bool", "default": False},
        "state_dir": {"type": "path"},
        "runtime_options": {"type": "dict"},
        "workloads": {"type": "list", "elements": "dict"},
        "holder": {"type": "dict"},
        "cluster": {"type": "str", "no_log": True},
    }


def runtimes_of(given: t.Mapping[str, t.Any]) -> tuple[Store, Drivers]:
    """(where members are noted, who runs them): on this host, or in the cluster that it stands for."""
    if not given["cluster"]:
        state = State(given["state_dir"])
        return state, lambda name: driver(name, state, given["runtime_options"])
    from ..module_utils._kube.cluster import Cluster

    cluster = Cluster.read(given["cluster"]).open()
    return cluster.store, lambda _name: cluster.driver


def main() -> None:
    module = AnsibleModule(argument_spec=argument_spec(), supports_check_mode=True)
    if module.params["workloads"] is None:
        module.fail_json(
            msg="members_wait needs its action plugin: give it the run and the wave, and run it from the controller."
        )
    try:
        found = wait_for_all(requests_of(module.params), *runtimes_of(module.params))
    except PdError as exc:
        module.fail_json(msg=f"Waiting for members: {exc}")
    doing = "Waiting for the members of group"
    module.exit_json(
        changed=False,
        workloads={
            group: {"failed": True, "msg": told(f"{doing} {group}", one)} if isinstance(one, Exception) else one
            for group, one in found.items()
        },
    )


if __name__ == "__main__":
    main()
