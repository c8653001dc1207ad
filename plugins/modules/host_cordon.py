#!/usr/bin/python
# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: host_cordon
short_description: Keep new members off a host, or let them come again
version_added: 0.2.0
description:
  - Writes a mark into the folder of the host in which its members are kept, under the host's lock. What runs there stays; no plan seats a
    member there as long as the mark is there, and a plan that was made before is refused.
  - The host variable C(pd_cordoned) does the same from the inventory. Both are told by M(inferops.pd.host_facts) and C(inferops.pd.status).
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
  state:
    description: Whether the mark is there. One that is there already keeps who set it and when.
    type: str
    choices: [present, absent]
    default: present
  why:
    description: What people are told beside it. Left out, a mark that is there keeps its own.
    type: str
  by:
    description: Who sets it. Left out, the user and machine that run the playbook.
    type: str
  state_dir:
    description: Where the members of the host are kept, the host variable C(pd_state_dir).
    type: path
seealso:
  - module: inferops.pd.host_facts
  - module: inferops.pd.hosts_evacuated
"""

EXAMPLES = r"""
- name: Seat nobody here, since a disk is on its way out
  inferops.pd.host_cordon:
    why: disk is to be exchanged

- name: Take members again
  inferops.pd.host_cordon:
    state: absent
"""

RETURN = r"""
cordon:
  description: The mark that is there now, or would be. Null where there is none.
  returned: always
  type: dict
  sample:
    by: ops@control
    since: 1790000000.0
    why: disk is to be exchanged
"""

import contextlib
import time
import typing as t

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._core.base.errors import PdError
from ..module_utils._core.facts.cordon import mark
from ..module_utils._runtimes.state import State


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            "why": {"type": "str"},
            "by": {"type": "str"},
            "state_dir": {"type": "path"},
        },
        supports_check_mode=True,
    )
    given = module.params
    try:
        state = State(given["state_dir"])
        # Whoever plans a seat here looks for the mark under the same lock. A check leaves nothing behind, not even that.
        with contextlib.nullcontext() if module.check_mode else state.lock():
            before = state.cordon()
            after = None
            if given["state"] == "present":
                after = wanted(before, given["by"] or "", given["why"], time.time())
            if before != after and not module.check_mode:
                state.write_cordon(after)
    except PdError as exc:
        module.fail_json(msg=str(exc))
    module.exit_json(changed=before != after, cordon=after, diff={"before": _told(before), "after": _told(after)})


def wanted(before: dict[str, t.Any] | None, by: str, why: str | None, now: float) -> dict[str, t.Any]:
    """The mark as it is to be: one that is there stays, but for another reason."""
    if before is not None and why in (None, before.get("why")):
        return before
    return dict(mark(by, now, why or ""))


def _told(found: dict[str, t.Any] | None) -> str:
    return "".join(f"{key}: {found[key]}\n" for key in ("by", "why") if found.get(key)) if found else ""


if __name__ == "__main__":
    main()
