#!/usr/bin/python
# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: members
short_description: Carry out one phase of a plan on a host
version_added: 0.1.0
description:
  - Creates and removes the members of workloads on one host, as the plan of M(inferops.pd.group_plan) says. All that one phase has to do
    there for all workloads of a wave is one call, and they do it side by side. What one fails of takes nothing from the others, and
    is told in RV(workloads).
  - An action plugin of the same name reads the run's folder on the controller and hands each host its own slices, and the secrets of
    its members apart from them. A host that has nothing to do in a phase is not asked.
  - The first phase of a run refuses a plan that was made on another state of the host, and takes the group's lock. A port or a GPU that is
    taken meanwhile is told for the member that wanted it; the others are still tried.
  - A member that was removed is gone with every process that it started, or its workload fails and says what is left.
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
  diff_mode:
    support: none
    details:
      - What a run does is shown once, by M(inferops.pd.group_plan).
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
  phase:
    description:
      - V(prepare) gets the images of the members that are to be created, for a runtime that needs any, before anything stops.
      - V(lock) takes the group's lock and does nothing else, on the first host of the plan before any other one. A plan that rests on
        what is no more is refused here.
      - V(unlock) gives the lock back, where another host has refused it.
      - V(deregister) says in the group's record that its endpoint is out of service, before hooks are told so.
      - V(drain) gives what runs in the engines time to end, once clients are sent elsewhere and before their router stops.
      - V(leave) takes members that will stop out of a router that can be told so, on the router's host.
      - V(router_stop) removes the router where the plan does not keep it.
      - V(stop) removes the other members that leave. On a deploy or scale they finish their requests first, marked as draining.
      - V(start) creates prefill and decode members, or the instances of a cache service; one that is there but down is replaced. Beside
        members of another formation nothing starts. Members that an earlier version started get the formation.
      - V(undo) stops what this run has created of members that did not come up.
      - V(router) creates or replaces the router, and where it can be told its peers, has it know them.
      - V(endpoint) writes the group's record and releases the lock.
      - V(forget) deletes what is left of the group on the host.
    type: str
    choices: [prepare, lock, unlock, deregister, drain, leave, router_stop, stop, start, undo, router, endpoint, forget]
  secrets:
    description:
      - Values of secret environment variables, by workload and role. They are written to a file that only the member's user can read,
        nowhere else. Left out, the action plugin takes them from C(pd_groups) and C(pd_caches).
    type: dict
  break_lock:
    description: Take a group's lock even if another run holds it.
    type: bool
    default: false
  orders:
    description:
      - Filled in by the action plugin. What is to be done for each workload, each with C(plan) (the slice of this host) and C(phase).
        Beside them C(registered) (V(yes), V(no) or V(keep)), C(state), C(why) and C(lift) are for V(endpoint) and V(forget), C(hooks)
        for V(endpoint), and C(router) and C(peers) (options of M(inferops.pd.router_peers)) for V(leave) and V(router).
    type: list
    elements: dict
    default: []
  sealed:
    description: Filled in by the action plugin. Values of secrets by workload and member, as one text of JSON.
    type: str
  keys:
    description:
      - Filled in by the action plugin. The key that the members of each role ask for, by workload, which a router may need to look at them.
    type: json
  holder:
    description: Filled in by the action plugin. Who holds the locks, C(run) (a nonce of the run), C(who), C(ttl), C(process) and C(dead).
    type: dict
seealso:
  - module: inferops.pd.group_plan
  - module: inferops.pd.host_facts
  - module: inferops.pd.members_wait
"""

EXAMPLES = r"""
- name: Stop what leaves
  inferops.pd.members:
    run: "{{ pd_planned.run }}"
    wave: 1
    phase: stop

- name: Start what comes
  inferops.pd.members:
    run: "{{ pd_planned.run }}"
    wave: 1
    phase: start
"""

RETURN = r"""
workloads:
  description: What became of each workload, by its name.
  returned: always
  type: dict
  contains:
    ok:
      description: Whether all went well.
      returned: always
      type: bool
    failed:
      description: Whether something did not. The task itself does not fail for it.
      returned: when it failed
      type: bool
    msg:
      description: What did not go well, and why.
      returned: when it failed
      type: str
    phase:
      description: The phase that was carried out.
      returned: always
      type: str
    group:
      description: The workload's name.
      returned: always
      type: str
    changed:
      description: Whether anything of it changed.
      returned: always
      type: bool
    created:
      description: Ids of the members that were created.
      returned: unless nothing was done
      type: list
      elements: str
      sample: [qwen3-32b-prefill-0]
    removed:
      description: Ids of the members that were removed. One that was replaced is in both lists.
      returned: unless nothing was done
      type: list
      elements: str
    adopted:
      description: Ids of the members that an earlier version started and that were taken over.
      returned: unless nothing was done
      type: list
      elements: str
    kept:
      description: Ids of the group's members on this host that were left as they are.
      returned: unless nothing was done
      type: list
      elements: str
    failed_members:
      description: For each member that could not be created or removed, the reason.
      returned: unless nothing was done
      type: dict
    drained:
      description: For each member that was stopped before it had finished its requests, what was left.
      returned: unless nothing was done
      type: dict
    logs:
      description: For each member that was removed, where its last log is. It is kept until the group is forgotten.
      returned: unless nothing was done
      type: dict
    doubts:
      description:
        - For each member that has logged that its answers may be wrong, the C(line), its C(meaning), the C(advice) and the C(count) of
          such lines since its start. Told by the phase V(endpoint), after the proof has sent requests.
      returned: unless nothing was done
      type: dict
    images:
      description: What the host has of the images of members that are to be created. Told by the phase V(prepare).
      returned: unless nothing was done
      type: dict
    lock:
      description: The group's lock as this run holds it.
      returned: unless nothing was done
      type: dict
      sample: {run: "5f0c...", who: "ops@deploy pid 4711", since: 1789000000.0, expires: 1789000300.0}
    waited:
      description: What the wait for a router that was started has seen, as M(inferops.pd.members_wait) tells it.
      returned: when a router was started
      type: dict
    peers:
      description: What became of the router's peers, as M(inferops.pd.router_peers) tells it.
      returned: when a router was told of any
      type: dict
"""

import json
import typing as t
from dataclasses import replace

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._core.base.errors import PdError
from ..module_utils._core.base.plain import reading
from ..module_utils._host.members import PHASES, World
from ..module_utils._host.orders import Call, Host, refused_all, run_orders
from ..module_utils._runtimes.state import State


def argument_spec() -> dict[str, dict[str, object]]:
    """The options, as DOCUMENTATION lists them."""
    return {
        "run": {"type": "path"},
        "wave": {"type": "int", "default": 0},
        "round": {"type": "int"},
        # What is undone is stopped: the action tells the host so.
        "phase": {"type": "str", "choices": [*PHASES, "undo"]},
        "secrets": {"type": "dict", "no_log": True},
        "break_lock": {"type": "bool", "default": False},
        "orders": {"type": "list", "elements": "dict", "default": []},
        "sealed": {"type": "str", "no_log": True},
        "keys": {"type": "json", "no_log": True},
        "holder": {"type": "dict"},
        "runtime_options": {"type": "dict"},
        "state_dir": {"type": "path"},
        "cluster": {"type": "str", "no_log": True},
    }


def call_of(module: AnsibleModule) -> Call:
    """What the options say for all orders."""
    given = module.params
    with reading("Option sealed or keys", "Both are filled in by the action plugin."):
        return Call(
            holder=given["holder"] or {"who": "unknown"},
            break_lock=given["break_lock"],
            check=module.check_mode,
            secrets=json.loads(given["sealed"] or "{}"),
            keys=json.loads(given["keys"] or "{}"),
        )


def host_of(given: t.Mapping[str, t.Any]) -> Host:
    """Who carries the orders out: this host, or the cluster that it stands for."""
    if not given["cluster"]:
        return Host.here(State(given["state_dir"]), given["runtime_options"])
    from ..module_utils._kube.cluster import Cluster
    from ..module_utils._kube.reach import ByErrand, from_here

    cluster = Cluster.read(given["cluster"])
    opened = cluster.open()
    # Which ports of a node are free the scheduler sees; nobody here can.
    world = World(busy=lambda _ports: {})
    by_errand = ByErrand(opened.namespace) if cluster.by_errand else None
    if by_errand:
        world = replace(world, drain=by_errand.drain)
    register = by_errand.register if by_errand else from_here
    return Host(opened.store, lambda _name: opened.driver, world, (opened.driver.name,), register)


def main() -> None:
    module = AnsibleModule(argument_spec=argument_spec(), supports_check_mode=True)
    orders: list[dict[str, t.Any]] = module.params["orders"]
    try:
        results = run_orders(orders, call_of(module), host_of(module.params))
    except PdError as exc:
        results = refused_all(orders, exc)
    warnings = [text for one in results.values() for text in one.pop("warnings")]
    for warning in dict.fromkeys(warnings):
        module.warn(warning)
    # What fails is one workload's own, and is told to who asks for it; the task has done what it could.
    module.exit_json(changed=any(one["changed"] for one in results.values()), workloads=results)


if __name__ == "__main__":
    main()
