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
  - Waits for the members of a plan that were started on this host. A member is ready when its process lives, its health path
    answers 200, and it listens itself on every port that it needs.
  - A member that can never be ready is recognised at once instead of at the time limit, as far as its process, its ports and its
    log tell - an exit, a port held by another process, a side channel that could not be opened, an engine that died behind its
    API server.
  - The action plugin calls this module in slices of some seconds and shows what changes as it comes. It ends when all members are
    ready or have failed, when the limit has passed, or on all hosts when the members that have failed settle the outcome for the
    whole group (O(give_up)).
  - Failure is data. The task does not fail unless O(strict=true); M(inferops.pd.group_verdict) judges the results of all hosts.
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
    details:
      - Skipped in check mode, since nothing was started.
  diff_mode:
    support: N/A
    details:
      - It changes nothing but the expiry of the group's lock.
  idempotent:
    support: full
options:
  plan:
    description: The plan, as M(inferops.pd.group_plan) returns it. Required; read by the action plugin.
    type: dict
  phase:
    description: Whether to wait for the prefill and decode members, or for the router.
    type: str
    choices: [engines, router]
    default: engines
  limit:
    description: Seconds to wait at most. Left out, the plan's own limit.
    type: float
  give_up:
    description:
      - When the wait ends on all hosts because of members that have failed for good.
      - With V(decided), as soon as they settle the outcome. With readiness C(all) that is the first failure; with
        C(any_per_role) it is a role of which every member has failed. The other members are waited for, and may open the endpoint.
      - With V(first), at the first failure.
    type: str
    choices: [decided, first]
    default: decided
  hold:
    description: Whether to keep the group's lock alive while waiting.
    type: bool
    default: true
  strict:
    description: Whether a member that is not ready fails the task.
    type: bool
    default: false
  slice:
    description: Seconds of one look by the module, at most 30.
    type: int
    default: 10
  explain:
    description: Whether to tell of members that are ready, too, what their logs say is wrong, after requests through them have failed.
    type: bool
    default: false
  members:
    description: Set by the action plugin. The members of this host.
    type: list
    elements: dict
  group:
    description: Set by the action plugin. The group.
    type: str
  runtime:
    description: Set by the action plugin. The runtime of the group.
    type: str
  memory:
    description: Set by the action plugin. What earlier slices have seen.
    type: dict
    default: {}
  holder:
    description: Set by the action plugin. Who holds the group's lock.
    type: dict
seealso:
  - module: inferops.pd.members
  - module: inferops.pd.group_verdict
"""

EXAMPLES = r"""
- name: Wait for the engines of every host
  inferops.pd.members_wait:
    plan: "{{ planned.plan }}"
    phase: engines
  register: pd_waited

- name: Wait at most five minutes and fail if a member is not ready
  inferops.pd.members_wait:
    plan: "{{ planned.plan }}"
    limit: 300
    strict: true
"""

RETURN = r"""
members:
  description: Every member of this host, by id.
  returned: always
  type: dict
  contains:
    state:
      description: C(ready), C(loading), C(failed), or C(unknown) when it could not be looked at.
      type: str
    outcome:
      description: C(ready), C(failed), C(late) (not ready within the limit), C(stopped) (others settled the outcome) or C(unknown).
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
        - The formation that the process carries in its environment which listens on the member's HTTP port, read when the member is ready.
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
stopped:
  description: Why the wait ended early for the whole group, or none.
  returned: always
  type: str
msg:
  description: The outcome on this host, for a person.
  returned: always
  type: str
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._core.base.errors import PdError
from ..module_utils._host.wait import Request, wait
from ..module_utils._runtimes.state import State


def request_of(module: AnsibleModule) -> Request:
    given = module.params
    return Request(
        group=given["group"],
        runtime=given["runtime"],
        members=given["members"],
        seconds=given["slice"],
        memory=given["memory"],
        holder=given["holder"] if given["hold"] else None,
        runtime_options=given["runtime_options"],
        explain=given["explain"],
    )


def argument_spec() -> dict[str, dict[str, object]]:
    """The options, as DOCUMENTATION lists them."""
    return {
        "plan": {"type": "dict"},
        "phase": {"type": "str", "choices": ["engines", "router"], "default": "engines"},
        "limit": {"type": "float"},
        "give_up": {"type": "str", "choices": ["decided", "first"], "default": "decided"},
        "hold": {"type": "bool", "default": True},
        "strict": {"type": "bool", "default": False},
        "slice": {"type": "int", "default": 10},
        "explain": {"type": "bool", "default": False},
        "state_dir": {"type": "path"},
        "runtime_options": {"type": "dict"},
        "members": {"type": "list", "elements": "dict"},
        "group": {"type": "str"},
        "runtime": {"type": "str"},
        "memory": {"type": "dict", "default": {}},
        "holder": {"type": "dict"},
    }


def main() -> None:
    module = AnsibleModule(
        argument_spec=argument_spec(),
        required_together=[("members", "group", "runtime")],
        supports_check_mode=True,
    )
    # None of them: the lock alone is renewed.
    if module.params["members"] is None:
        module.fail_json(msg="members_wait needs its action plugin: give it the plan, and run it from the controller.")
    try:
        module.exit_json(changed=False, **wait(request_of(module), State(module.params["state_dir"])))
    except PdError as exc:
        module.fail_json(msg=f"Waiting for the members of group {module.params['group']}: {exc}")
    except OSError as exc:
        # Whatever else the host's system refuses: its words, and no traceback.
        what = f"{exc.strerror or exc}" + (f": {exc.filename}" if exc.filename else "")
        module.fail_json(msg=f"Waiting for the members of group {module.params['group']}: {what}")


if __name__ == "__main__":
    main()
