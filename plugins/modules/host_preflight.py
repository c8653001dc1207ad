#!/usr/bin/python
# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: host_preflight
short_description: Try on a host what members will need of it and of its peers
version_added: 0.2.0
description:
  - With O(phase=listen) it looks at what facts do not tell (limits, RDMA devices, drivers, proxies, the firewall, disks, what is left on
    GPUs), and listens on the ports that members will get and on one high port, in a process of its own that ends by itself.
  - With O(phase=connect) it connects to every peer that members of this host will talk to, measures what TCP moves between the KV
    interfaces, and whether packets as large as the MTU get through.
  - With O(phase=end) it ends what O(phase=listen) started, where that has not ended by itself.
  - An action plugin of the same name gives each host its part, from the tour that M(inferops.pd.group_preflight) has made and from what the
    hosts registered in the phase before. A host without a part is skipped.
  - It changes nothing on a host.
author:
  - The inferops.pd contributors (@inferops)
extends_documentation_fragment:
  - inferops.pd.attributes
  - inferops.pd.attributes.actiongroup_pd
  - inferops.pd.attributes.action_plugin
  - inferops.pd.attributes.info_module
  - inferops.pd.attributes.platform
options:
  phase:
    description: What to do.
    type: str
    choices: [listen, connect, end]
    required: true
  tour:
    description: Who listens where and who connects to whom, as M(inferops.pd.group_preflight) returns it.
    type: dict
    required: true
  register:
    description: The name under which the hosts registered O(phase=listen).
    type: str
    default: preflight_listening
  seconds:
    description: How long one measurement takes.
    type: float
    default: 1.0
  token:
    description: Filled in by the action plugin, from O(tour). What listeners and callers know each other by.
    type: str
  deadline:
    description: Filled in by the action plugin, from the number of hosts. After how many seconds the listener ends in any case.
    type: float
    default: 60.0
  mark:
    description:
      - Filled in by the action plugin. The name of the listener's process, made of the run, so that a later one knows those of dead runs.
    type: str
    default: pd-preflight
seealso:
  - module: inferops.pd.group_preflight
"""

EXAMPLES = r"""
- name: Look around, and listen for the peers
  inferops.pd.host_preflight:
    phase: listen
    tour: "{{ preflight_planned.tour }}"
  register: preflight_listening

- name: Try the peers
  inferops.pd.host_preflight:
    phase: connect
    tour: "{{ preflight_planned.tour }}"
  register: preflight_connected
"""

RETURN = r"""
listening:
  description: The ports that it listens on, by address, and why not on others.
  returned: with O(phase=listen)
  type: dict
listener:
  description: The process that listens; null where there is nothing to listen on.
  returned: with O(phase=listen)
  type: int
rights:
  description: What a process of this user may do, its C(memlock) limit in bytes (null without one) and whether it has C(ipc_lock).
  returned: with O(phase=listen)
  type: dict
rdma:
  description: Whether programs can use RDMA devices, and whether these reach into the memory of GPUs.
  returned: with O(phase=listen)
  type: dict
drivers:
  description: Versions of GPU drivers by vendor.
  returned: with O(phase=listen)
  type: dict
firewall:
  description: The firewalls that are at work, and whether all of them could be C(seen).
  returned: with O(phase=listen)
  type: dict
proxies:
  description: Proxies in the environment and in that of the container engine, without their passwords.
  returned: with O(phase=listen)
  type: dict
disks:
  description: The room in the directories that members write to, and in that of the model.
  returned: with O(phase=listen)
  type: dict
gpu_processes:
  description: The processes that hold memory of GPUs.
  returned: with O(phase=listen)
  type: list
  elements: dict
peers:
  description: For each peer how many ports were C(tried), which C(failed) and why, and how far off its C(clock) is, in seconds.
  returned: with O(phase=connect)
  type: dict
measured:
  description: What TCP moved to each peer, as C(bytes) and C(seconds), or C(why) it could not be measured.
  returned: with O(phase=connect)
  type: list
  elements: dict
mtu:
  description: For each peer whether packets of the size of both ends' MTU C(passed); null where C(ping) cannot tell.
  returned: with O(phase=connect)
  type: list
  elements: dict
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._host import preflight
from ..module_utils._probes import reach


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "phase": {"type": "str", "choices": ["listen", "connect", "end"], "required": True},
            # The action plugin gives a host's own part of it.
            "tour": {"type": "dict", "required": True},
            "token": {"type": "str", "no_log": True},
            "deadline": {"type": "float", "default": 60.0},
            "mark": {"type": "str", "default": "pd-preflight"},
            "register": {"type": "str", "default": "preflight_listening"},
            "seconds": {"type": "float", "default": 1.0},
        },
        supports_check_mode=True,
    )
    options = module.params
    if options["phase"] == "listen":
        result = preflight.listen(options["tour"], options["token"] or "", options["deadline"], options["mark"])
    elif options["phase"] == "connect":
        result = preflight.connect(options["tour"], options["token"] or "", options["seconds"])
    else:
        pid = options["tour"].get("listener")
        result = {"ended": reach.end(int(pid), options["mark"]) if pid else True}
    module.exit_json(changed=False, **result)


if __name__ == "__main__":
    main()
