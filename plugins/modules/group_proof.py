#!/usr/bin/python
# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: group_proof
short_description: Prove that the KV cache of groups really moves, pair by pair
version_added: 0.1.0
description:
  - Compares the formation that each member's own process carries with the group's. Members of two formations accept each
    other and answer wrongly, so that nothing is sent then.
  - Sends real requests and reads the engines' own counters. A group can answer every request with 200 and compute each prompt
    twice, so a status code proves nothing.
  - Through the router it sends a long prompt that no cache has seen and a short one. Through each pair of a prefill and a decode
    member it sends both hops itself, and compares the answer with what the prefill alone gives.
  - A pair is good when decode took all tokens of the prompt from the transfer and computed none again, no failure counter grew, and the
    answer is right. Other traffic may run meanwhile; a measurement that it spoils is repeated.
  - Where the plan's router keeps members that cannot be asked now (C(router.spare)), a request may go to one of them. It is sent again, and
    a router that is not proven then is told as not judged, rather than as wrong; pairs are judged as always.
  - The groups of a wave whose routers are on one host are proven there side by side. What is wrong with one takes nothing from the
    others; the task does not fail for it, and M(inferops.pd.group_verdict) judges it.
  - It runs where the router and the members can be reached, on the router's own host. Proxies of the environment are not used.
author:
  - The inferops.pd contributors (@inferops)
extends_documentation_fragment:
  - inferops.pd.runtime.cluster
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
  run:
    description: The run's folder, as M(inferops.pd.group_plan) returns it. Only with the action plugin, which needs it.
    type: path
  wave:
    description: Which wave of the run, from 0. Workloads of one wave go through the phases together.
    type: int
    default: 0
  timeout:
    description: Seconds for one request.
    type: float
    default: 60
  limit:
    description: Seconds for everything, of each group.
    type: float
    default: 600
  max_pairs:
    description: How many pairs of each group to measure at most. Every member is in one at least, even when that takes more.
    type: int
    default: 64
  api_key:
    description:
      - One key for the routers and all members, before all others. It is needed only where a group is in no inventory of this run.
    type: str
  workloads:
    description:
      - Filled in by the action plugin. The groups to prove here, each with C(group), C(plan) (what of the plan is asked), C(members) (ids
        of those to prove, left out all of the plan) and C(formations) (what the process of each member carries, by id, as
        M(inferops.pd.members_wait) read it on its own host; an empty text or null is one that cannot be told; left out, they are not
        compared). C(timeout), C(limit) and C(max_pairs) of one are instead of those above.
    type: list
    elements: dict
  keys:
    description:
      - Filled in by the action plugin, from the specs. The keys that members may ask for, by workload, each a list by role, the likeliest
        first.
      - The keys that a router's own process has are tried before these, where the module runs on its host and may look. A secret that was
        changed is in force after a restart only.
    type: json
seealso:
  - module: inferops.pd.group_plan
"""

EXAMPLES = r"""
- name: Prove that the groups of a wave do what they are for
  inferops.pd.group_proof:
    run: "{{ pd_planned.run }}"
    wave: 1
"""

RETURN = r"""
workloads:
  description: What was found of each group, by its name.
  returned: always
  type: dict
  contains:
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
            - How the pair does with a chat. C(equal) where both make the same tokens of it and decode answers; C(differs), and then
              C(why) says what; C(not offered) where neither takes one, a model without a chat template for one.
          type: str
        good:
          description: Whether the pair is proven.
          type: bool
        why:
          description: Why not, or a remark.
          type: str
    router:
      description:
        - The requests that went through the router, with their answers. C(judged) is false when they may have gone to members that
          cannot be asked.
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
from ..module_utils._host import proving

LIMITS = ("timeout", "limit", "max_pairs")


def workloads_of(params: t.Mapping[str, t.Any]) -> list[dict[str, t.Any]]:
    """What is to be proven, each with the limits that are said for all."""
    return [{**{name: params[name] for name in LIMITS}, **one} for one in params["workloads"] or ()]


def prover_of(given: t.Mapping[str, t.Any]) -> t.Callable[..., dict[str, t.Any]]:
    """From where it is proven: from this host, or beside the members of a cluster that it does not reach."""
    if given["cluster"]:
        from ..module_utils._kube.cluster import Cluster

        cluster = Cluster.read(given["cluster"])
        if cluster.by_errand:
            from ..module_utils._kube.reach import ByErrand

            return ByErrand(cluster.open().namespace).prove_all
    return proving.prove_all


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "run": {"type": "path"},
            "wave": {"type": "int", "default": 0},
            "timeout": {"type": "float", "default": proving.TIMEOUT},
            "limit": {"type": "float", "default": proving.LIMIT},
            "max_pairs": {"type": "int", "default": proving.MAX_PAIRS},
            "api_key": {"type": "str", "no_log": True},
            "workloads": {"type": "list", "elements": "dict"},
            # One text, which the action plugin seals.
            "keys": {"type": "json", "no_log": True},
            "cluster": {"type": "str", "no_log": True},
        },
        supports_check_mode=True,
    )
    given = module.params
    if given["workloads"] is None:
        module.fail_json(
            msg="group_proof needs its action plugin: give it the run and the wave, and run it from the controller."
        )
    if module.check_mode:
        module.exit_json(changed=False, skipped=True, skip_reason="check mode: nothing is sent", workloads={})
    try:
        found = prover_of(given)(workloads_of(given), json.loads(given["keys"] or "{}"), given["api_key"])
    except PdError as exc:
        module.fail_json(msg=str(exc))
    module.exit_json(changed=False, workloads=found)


if __name__ == "__main__":
    main()
