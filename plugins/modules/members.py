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
  - Creates and removes the members of a group on one host, as the plan of M(inferops.pd.group_plan) says, all of one phase in one call.
  - An action plugin of the same name takes the whole plan on the controller and hands each host its own slice, and the secrets of
    its members apart from it.
  - The first phase of a run refuses a plan that was made on another state of the host, and takes the group's lock. A port or a GPU that is
    taken meanwhile is told for the member that wanted it; the others are still tried.
  - A member that was removed is gone with every process that it started, or the module fails and says what is left.
author:
  - The inferops.pd contributors (@inferops)
extends_documentation_fragment:
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
  plan:
    description: The plan, or what the action plugin makes of it, the slice of this host.
    type: dict
    required: true
  phase:
    description:
      - V(prepare) gets the images of the members that are to be created, for a runtime that needs any, before anything stops.
      - V(lock) takes the group's lock and does nothing else, on the first host of the plan before any other one. A plan that rests on
        what is no more is refused here.
      - V(unlock) gives the lock back, where another host has refused it.
      - V(router_stop) removes the router where the plan does not keep it.
      - V(stop) removes the other members that leave. On a deploy or scale they finish their requests first, marked as draining.
      - V(start) creates prefill and decode members, or the instances of a cache service; one that is there but down is replaced. Beside
        members of another formation nothing starts. Members that an earlier version started get the formation.
      - V(router) creates or replaces the router.
      - V(endpoint) writes the group's record and releases the lock.
      - V(forget) deletes what is left of the group on the host.
    type: str
    required: true
    choices: [prepare, lock, unlock, router_stop, stop, start, router, endpoint, forget]
  secrets:
    description:
      - Values of secret environment variables. They are written to a file that only the member's user can read, nowhere else.
      - Given to the action plugin by role; it hands them on by member. Left out there, it takes them from C(pd_groups).
    type: dict
  sealed:
    description: Values of secrets by member, as one text of JSON. The action plugin makes it of O(secrets).
    type: str
  holder:
    description: Who holds the group's lock, C(run) (a nonce of the run), C(who) and C(ttl). The action plugin sets it.
    type: dict
  break_lock:
    description: Take the group's lock even if another run holds it.
    type: bool
    default: false
  registered:
    description: Whether the endpoint is registered, for the record. Only with O(phase=endpoint).
    type: str
    choices: ["yes", "no", keep]
    default: "no"
  state:
    description: The group's state, for the record. Only with O(phase=endpoint).
    type: str
    default: partial
  why:
    description: Why the endpoint is not registered, for the record, which status tells it from. Only with O(phase=endpoint).
    type: str
    default: ""
  proven:
    description: The name that the result of M(inferops.pd.group_proof) is registered under. For the action plugin.
    type: str
  lift:
    description: Whether the router is seen to name nobody that is gone, so that ports which were held for it are free again.
    type: bool
    default: false
  routed:
    description: The names that results of the router's phases are registered under. For the action plugin.
    type: list
    elements: str
    default: []
  strict:
    description: Whether a member that failed fails the task. When not, RV(ok) says it. For the action plugin.
    type: bool
    default: true
  undo:
    description: Whether the phase is about what this run started, so that a run which failed can free it again. For the action plugin.
    type: bool
    default: false
  started:
    description: >-
      The names that the results of O(phase=start) are registered under; with O(undo) what they created goes. For the action plugin.
    type: list
    elements: str
    default: []
  ready:
    description: Ids of the members that are ready. With O(phase=router) only these become peers. For the action plugin.
    type: list
    elements: str
    default: []
  early:
    description: With O(phase=router), whether this is before members stop and start. For the action plugin.
    type: bool
    default: false
  waited:
    description:
      - The names that the results of M(inferops.pd.members_wait) are registered under, the last of which holds. For the action plugin.
    type: list
    elements: str
    default: []
  router:
    description: The router that is waited for after it was started. Only with O(phase=router). For the action plugin.
    type: list
    elements: dict
    default: []
  keys:
    description:
      - The key that the members of each role ask for, which a router may need to look at them. For the action plugin, which takes it
        from the group's spec.
    type: json
  peers:
    description: What is registered with the router once it answers, as options of M(inferops.pd.router_peers). For the action plugin.
    type: dict
seealso:
  - module: inferops.pd.group_plan
  - module: inferops.pd.host_facts
  - module: inferops.pd.members_wait
"""

EXAMPLES = r"""
- name: Stop what leaves
  inferops.pd.members:
    plan: "{{ pd_plan.plan }}"
    phase: stop

- name: Start what comes
  inferops.pd.members:
    plan: "{{ pd_plan.plan }}"
    phase: start
"""

RETURN = r"""
created:
  description: Ids of the members that were created.
  returned: always
  type: list
  elements: str
  sample: [qwen3-32b-prefill-0]
removed:
  description: Ids of the members that were removed. One that was replaced is in both lists.
  returned: always
  type: list
  elements: str
adopted:
  description: Ids of the members that an earlier version started and that were taken over.
  returned: always
  type: list
  elements: str
kept:
  description: Ids of the group's members on this host that were left as they are.
  returned: always
  type: list
  elements: str
failed_members:
  description: For each member that could not be created or removed, the reason.
  returned: always
  type: dict
drained:
  description: For each member that was stopped before it had finished its requests, what was left.
  returned: always
  type: dict
logs:
  description: For each member that was removed, where its last log is. It is kept until the group is forgotten.
  returned: always
  type: dict
doubts:
  description:
    - For each member that has logged that its answers may be wrong, the C(line), its C(meaning), the C(advice) and the C(count) of such
      lines since its start. Told by the phase V(endpoint), after the proof has sent requests.
  returned: always
  type: dict
lock:
  description: The group's lock as this run holds it.
  returned: always
  type: dict
  sample: {run: "5f0c...", who: "ops@deploy pid 4711", since: 1789000000.0, expires: 1789000300.0}
ok:
  description: Whether every member succeeded.
  returned: always
  type: bool
"""

import json
import typing as t

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._core.base.errors import PdError
from ..module_utils._core.runtimes.table import NAMES, UNNOTED
from ..module_utils._core.work.share import Share
from ..module_utils._host.members import PHASES, Order, Work
from ..module_utils._runtimes import driver, used
from ..module_utils._runtimes.masking import masked
from ..module_utils._runtimes.state import State


def argument_spec() -> dict[str, dict[str, object]]:
    """The options, as DOCUMENTATION lists them."""
    return {
        "plan": {"type": "dict", "required": True},
        "phase": {"type": "str", "choices": list(PHASES), "required": True},
        "secrets": {"type": "dict", "no_log": True},
        "sealed": {"type": "str", "no_log": True},
        "holder": {"type": "dict"},
        "break_lock": {"type": "bool", "default": False},
        "registered": {"type": "str", "choices": ["yes", "no", "keep"], "default": "no"},
        "state": {"type": "str", "default": "partial"},
        "why": {"type": "str", "default": ""},
        "proven": {"type": "str"},
        "strict": {"type": "bool", "default": True},
        "undo": {"type": "bool", "default": False},
        "started": {"type": "list", "elements": "str", "default": []},
        "lift": {"type": "bool", "default": False},
        "routed": {"type": "list", "elements": "str", "default": []},
        "ready": {"type": "list", "elements": "str", "default": []},
        "early": {"type": "bool", "default": False},
        "waited": {"type": "list", "elements": "str", "default": []},
        "router": {"type": "list", "elements": "dict", "default": []},
        "peers": {"type": "dict"},
        "keys": {"type": "json", "no_log": True},
        "runtime_options": {"type": "dict"},
        "state_dir": {"type": "path"},
    }


def order_of(module: AnsibleModule, share: Share) -> Order:
    """What the options ask for."""
    given = module.params
    return Order(
        share=share,
        phase=given["phase"],
        holder=given["holder"] or {"who": "unknown"},
        secrets=json.loads(given["sealed"]) if given["sealed"] else given["secrets"] or {},
        break_lock=given["break_lock"],
        registered=None if given["registered"] == "keep" else given["registered"] == "yes",
        state=given["state"],
        why=given["why"],
        lift=given["lift"],
        check=module.check_mode,
    )


def hide(result: dict[str, t.Any], secrets: t.Mapping[str, t.Mapping[str, str]]) -> None:
    """Take values of secrets out of the texts of a result that are not this collection's own words: a container engine may repeat what it
    was given."""
    values = [value for one in secrets.values() for value in one.values()]
    result["warnings"] = masked(result["warnings"], values)
    told = result["failed_members"]
    result["failed_members"] = dict(zip(told, masked(told.values(), values)))


def serve(module: AnsibleModule, state: State) -> dict[str, t.Any]:
    """See a router through to its first request. The other phases need nothing of what looks at members."""
    from ..module_utils._host.service import bring_into_service

    given = module.params
    how = {"group": given["plan"]["group"], "runtime": given["plan"].get("runtime") or UNNOTED}
    how["runtime_options"] = given["runtime_options"]
    return bring_into_service(
        given["router"],
        given["peers"],
        how,
        state,
        module.check_mode,
        given["holder"],
        json.loads(given["keys"] or "{}"),
    )


def main() -> None:
    module = AnsibleModule(argument_spec=argument_spec(), supports_check_mode=True)
    phase, group = module.params["phase"], module.params["plan"].get("group")
    try:
        share = Share.from_plain(module.params["plan"])
        state = State(module.params["state_dir"])
        how = module.params["runtime_options"]
        chosen = driver(share.runtime or UNNOTED, state, how)
        there = {*used(state, share.group), *(name for here in share.hosts.values() for name in here.runtimes)}
        others = sorted((there & set(NAMES)) - {chosen.name})
        work = Work(order_of(module, share), state, chosen, [driver(name, state, how) for name in others])
        result = work.run()
        if phase == "router" and not result["failed_members"]:
            result |= serve(module, state)
    except PdError as exc:
        module.fail_json(msg=f"Phase {phase} of group {group}: {exc}", changed=False)
    except OSError as exc:
        # Whatever else the host's system refuses: its words, and no traceback.
        what = f"{exc.strerror or exc}" + (f": {exc.filename}" if exc.filename else "")
        module.fail_json(msg=f"Phase {phase} of group {group}: {what}", changed=False)
    hide(result, work.order.secrets)
    for warning in result.pop("warnings"):
        module.warn(warning)
    if result["failed_members"] and module.params["strict"]:
        reasons = " ".join(result["failed_members"].values())
        module.fail_json(msg=f"Phase {phase} of group {group} on {work.host}: {reasons}", ok=False, **result)
    module.exit_json(ok=not result["failed_members"], **result)


if __name__ == "__main__":
    main()
