#!/usr/bin/python
# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: group_proof
short_description: Prove that the KV cache of a group really moves, pair by pair
version_added: 0.1.0
description:
  - Compares the formation that each member's own process carries with the group's (O(formations)). Members of two formations accept each
    other and answer wrongly, so that nothing is sent then.
  - Sends real requests and reads the engines' own counters. A group can answer every request with 200 and compute each prompt
    twice, so a status code proves nothing.
  - Through the router it sends a long prompt that no cache has seen and a short one. Through each pair of a prefill and a decode
    member it sends both hops itself, and compares the answer with what the prefill alone gives.
  - A pair is good when decode took all tokens of the prompt from the transfer and computed none again, no failure counter grew, and the
    answer is right. Other traffic may run meanwhile; a measurement that it spoils is repeated.
  - Where the plan's router keeps members that cannot be asked now (C(router.spare)), a request may go to one of them. It is sent again, and
    a router that is not proven then is told as not judged, rather than as wrong; pairs are judged as always.
  - Run it where the router and the members can be reached, best on the router's own host. Proxies of the environment are not used.
author:
  - The inferops.pd contributors (@inferops)
extends_documentation_fragment:
  - inferops.pd.attributes
  - inferops.pd.attributes.actiongroup_pd
attributes:
  check_mode:
    support: full
    details:
      - Sends nothing in check mode.
  diff_mode:
    support: N/A
    details:
      - It changes nothing.
  idempotent:
    support: full
    details:
      - It changes nothing; the requests that it sends are ordinary ones.
options:
  plan:
    description: The plan, as M(inferops.pd.group_plan) returns it.
    type: dict
    required: true
  members:
    description: Ids of the members to prove, for example those that are ready. Left out, all of the plan.
    type: list
    elements: str
  formations:
    description:
      - The formation that the process of each member carries, by id, as M(inferops.pd.members_wait) read it on the member's own host.
        An empty text or null is one that cannot be told.
      - Left out, formations are not compared.
    type: dict
  timeout:
    description: Seconds for one request.
    type: float
    default: 60
  limit:
    description: Seconds for everything.
    type: float
    default: 600
  max_pairs:
    description: How many pairs to measure at most. Every member is in one at least, even when that takes more.
    type: int
    default: 64
  keys:
    description:
      - The keys that members may ask for, each a list by role, the likeliest first. The action plugin takes them from the group's spec.
      - The keys that the router's own process has are tried before these, where the module runs on its host and may look. A secret that was
        changed is in force after a restart only.
    type: json
  api_key:
    description:
      - One key for the router and all members, before all others. It is needed only where the group is in no inventory of this run.
    type: str
seealso:
  - module: inferops.pd.group_plan
"""

EXAMPLES = r"""
- name: Prove that the group does what it is for
  inferops.pd.group_proof:
    plan: "{{ planned.plan }}"
  delegate_to: "{{ planned.plan.router.member.parts[0].host }}"
  run_once: true
  register: proof

- name: Show what was measured
  ansible.builtin.debug:
    msg: "{{ proof.table }}"
  run_once: true
"""

RETURN = r"""
good:
  description: Whether everything is proven.
  returned: always
  type: bool
pairs:
  description: What was measured of each pair.
  returned: always
  type: list
  elements: dict
  contains:
    prefill:
      description: The member that computed the prompt.
      type: str
    decode:
      description: The member that answered.
      type: str
    prompt_tokens:
      description: Length of the prompt.
      type: int
    transferred_tokens:
      description: Tokens of it that decode took from the transfer.
      type: int
    recomputed_tokens:
      description: Tokens of it that decode computed again.
      type: int
    bytes:
      description: Bytes that moved; none while other traffic ran.
      type: float
    seconds:
      description: Seconds of the transfer, by the engine; none while other traffic ran.
      type: float
    gb_per_s:
      description: The two, divided.
      type: float
    text_equal:
      description: Whether decode answered word for word what prefill alone does.
      type: bool
    answer:
      description: The answer.
      type: str
    chat:
      description:
        - How the pair does with a chat. C(equal) where both make the same tokens of it and decode answers; C(differs), and then C(why) says
          what; C(not offered) where neither takes one, a model without a chat template for one.
      type: str
    good:
      description: Whether the pair is proven.
      type: bool
    why:
      description: Why not, or a remark.
      type: str
router:
  description:
    - The requests that went through the router, with their answers. C(judged) is false when they may have gone to members that cannot be
      asked.
  returned: always
  type: dict
why:
  description: The first thing that is not good, in a sentence; empty when all is.
  returned: always
  type: str
group:
  description: The group that was proved.
  returned: always
  type: str
table:
  description: The result as lines for a person.
  returned: always
  type: list
  elements: str
msg:
  description: The same as one text.
  returned: always
  type: str
"""

import json
import typing as t

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._core.base.errors import PdError
from ..module_utils._core.proof.asked import Asked
from ..module_utils._host.proof import Proof
from ..module_utils._probes import credentials


def prove(params: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    asked = Asked.from_plain(params["plan"])
    if params["members"] is not None:
        asked = asked.only(params["members"])
    limits = params["timeout"], params["limit"], params["max_pairs"]
    own = credentials.of_listener(asked.router) if asked.router else ()
    given = json.loads(params["keys"] or "{}")
    return Proof(asked, *limits, keys_of(given, own, params["api_key"]), params["formations"]).run()


def keys_of(given: t.Mapping[str, t.Any], own: t.Sequence[str], first: str | None) -> dict[str, list[str]]:
    """The keys to try for each role: the one that was given, those of the router's own process, and those of the spec: where a secret was
    changed since, the group still runs with what it was started with."""
    return {
        role: list(dict.fromkeys(key for key in (first, *own, *(given.get(role) or ())) if key))
        for role in ("router", "prefill", "decode")
    }


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "plan": {"type": "dict", "required": True},
            "members": {"type": "list", "elements": "str"},
            "formations": {"type": "dict"},
            "timeout": {"type": "float", "default": 60},
            "limit": {"type": "float", "default": 600},
            "max_pairs": {"type": "int", "default": 64},
            # One text, which the action plugin seals.
            "keys": {"type": "json", "no_log": True},
            "api_key": {"type": "str", "no_log": True},
        },
        supports_check_mode=True,
    )
    if module.check_mode:
        module.exit_json(
            changed=False, skipped=True, skip_reason="check mode: nothing is sent", good=True, pairs=[], table=[]
        )
    try:
        result = prove(module.params)
    except PdError as exc:
        module.fail_json(msg=f"Proving the group: {exc}", good=False)
    if not result["good"]:
        module.fail_json(changed=False, **result)
    module.exit_json(changed=False, **result)


if __name__ == "__main__":
    main()
