#!/usr/bin/python
# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: router_peers
short_description: Make a router know exactly the members that a group has
version_added: 0.1.0
description:
  - Reads the worker registry of a running router, removes the members that it should not have, adds those that it lacks, and reads
    the registry back until it says so. An answer to a call proves nothing - one router queues, another accepts a member that is
    down.
  - It fails when the router keeps a member that it should not have, and adds nothing beside such a one. Members of two formations
    of a group accept each other, and answer wrongly.
  - Run it where the router's address can be reached, best on the router's own host. Proxies of the environment are not used.
author:
  - The inferops.pd contributors (@inferops)
extends_documentation_fragment:
  - inferops.pd.attributes
  - inferops.pd.attributes.actiongroup_pd
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
  idempotent:
    support: full
options:
  url:
    description: Base URL of the router.
    type: str
    required: true
  dialect:
    description: Whose registry it is, as the mode's file says it.
    type: str
    required: true
  model:
    description: The served model name. vllm-router files a member under it, and answers 503 to everything without.
    type: str
    required: true
  peers:
    description: The members that it is to know.
    type: list
    elements: dict
    default: []
    suboptions:
      member:
        description: Id of the member, for messages.
        type: str
      role:
        description: Its role.
        type: str
        choices: [prefill, decode]
        required: true
      url:
        description: Base URL of the member.
        type: str
        required: true
      ports:
        description: Its bands of ports by name, each with C(base) and C(count). sglang-router is told the base of C(bootstrap).
        type: dict
        default: {}
      address:
        description: Its address. Not used here; the plan's peers have it.
        type: str
      port:
        description: Its port. Not used here; the plan's peers have it.
        type: int
  remove:
    description: URLs of members that must not be in the registry. They are removed whatever O(exclusive) says.
    type: list
    elements: str
    default: []
  spare:
    description:
      - URLs of members whose host does not answer now. They may serve, so that they are neither removed nor counted as RV(stale), and not
        added where they are not. One that is in O(remove) is removed.
    type: list
    elements: str
    default: []
  only_remove:
    description: Whether to do nothing but remove O(remove), which comes before members are stopped.
    type: bool
    default: false
  exclusive:
    description: Whether to remove members that are in none of the lists. Otherwise they are reported as RV(stale) only, and fail nothing.
    type: bool
    default: true
  manage:
    description:
      - Whether to change the registry. With V(false) it is read and compared only, for a router whose members are fixed at its
        start. One that has more of them than it should fails the task, since only another router can be rid of it.
    type: bool
    default: true
  timeout:
    description: Seconds for everything.
    type: float
    default: 30
  settle:
    description:
      - Seconds to wait for wanted members that the router itself finds unhealthy. It looks at them only every so often, and sends nothing
        to a member that has come back before it has looked.
    type: float
    default: 30
  keys:
    description:
      - The key that the members of each role ask for, by role. sglang-router reads a member's model and sizes with it; vllm-router has
        it from its own environment (C(OPENAI_API_KEY)).
      - A router that asks for a key itself is shown the one that its own process has, where the module runs on its host and may look.
    type: json
seealso:
  - module: inferops.pd.group_plan
"""

EXAMPLES = r"""
- name: Make the router know the members of the plan
  inferops.pd.router_peers:
    url: "{{ planned.plan.router.member.url }}"
    dialect: "{{ planned.plan.router.dialect }}"
    model: "{{ planned.plan.router.model }}"
    peers: "{{ planned.plan.router.peers }}"

- name: Take a member out before it is stopped
  inferops.pd.router_peers:
    url: http://10.0.0.9:8000
    dialect: vllm-router
    model: qwen3-32b
    remove: ["http://10.0.0.3:40000"]
    only_remove: true
"""

RETURN = r"""
added:
  description: URLs that were added, or would be in check mode.
  returned: always
  type: list
  elements: str
removed:
  description: URLs that were removed, or would be in check mode.
  returned: always
  type: list
  elements: str
confirmed:
  description: Wanted URLs that the registry holds with the right role, by its own list.
  returned: always
  type: list
  elements: str
missing:
  description: Wanted URLs that it does not hold.
  returned: always
  type: list
  elements: str
stale:
  description: URLs in it that are not wanted and still there. They fail the task, unless O(exclusive) says otherwise.
  returned: always
  type: list
  elements: str
spared:
  description: URLs of O(spare) that are in it.
  returned: always
  type: list
  elements: str
unhealthy:
  description: Confirmed URLs that the router itself finds unhealthy at the moment.
  returned: always
  type: list
  elements: str
msg:
  description: What was done, or why it could not be.
  returned: always
  type: str
"""

import json

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._routers.registration import register

PEER = {
    "member": {"type": "str"},
    "role": {"type": "str", "choices": ["prefill", "decode"], "required": True},
    "url": {"type": "str", "required": True},
    "ports": {"type": "dict", "default": {}},
    "address": {"type": "str"},
    "port": {"type": "int"},
}


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "url": {"type": "str", "required": True},
            "dialect": {"type": "str", "required": True},
            "model": {"type": "str", "required": True},
            "peers": {"type": "list", "elements": "dict", "default": [], "options": PEER},
            "remove": {"type": "list", "elements": "str", "default": []},
            "spare": {"type": "list", "elements": "str", "default": []},
            "only_remove": {"type": "bool", "default": False},
            "exclusive": {"type": "bool", "default": True},
            "manage": {"type": "bool", "default": True},
            "timeout": {"type": "float", "default": 30},
            "settle": {"type": "float", "default": 30},
            # One text, which the action plugin seals.
            "keys": {"type": "json", "no_log": True},
        },
        supports_check_mode=True,
    )
    result = register({**module.params, "keys": json.loads(module.params["keys"] or "{}")}, module.check_mode)
    for warning in result.pop("warnings", []):
        module.warn(warning)
    if result.pop("failed"):
        module.fail_json(**result)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
