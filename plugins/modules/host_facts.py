#!/usr/bin/python
# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: host_facts
short_description: Tell what a plan needs to know of a host
version_added: 0.1.0
description:
  - Looks once at a host, in less than a second, and returns it as the fact C(pd_host) for M(inferops.pd.group_plan) and
    M(inferops.pd.group_info).
  - It sees the network interfaces and which of them the KV cache travels over, the GPUs, the ports in use, the members that run
    there with their state, the records of their groups, models and executables.
  - Members are those of the user that it runs as. Run it as the user who deploys. Where it is seen that others belong to somebody else,
    C(hidden) says so, since such a host is not what it looks like.
  - It changes and creates nothing. What an interrupted preflight of the same controller has left listening is ended.
author:
  - The inferops.pd contributors (@inferops)
extends_documentation_fragment:
  - inferops.pd.attributes
  - inferops.pd.attributes.actiongroup_pd
  - inferops.pd.attributes.action_plugin
  - inferops.pd.attributes.facts_module
  - inferops.pd.attributes.platform
  - inferops.pd.runtime
options:
  ports:
    description: The range that members get their ports from, the host variable C(pd_port_range).
    type: str
    default: 40000-40063
  kv_interface:
    description:
      - The interface that the KV cache travels over, or several (rails), the host variable C(pd_kv_interface). Names may also be
        separated by commas, as C(-e) gives them.
      - Left out, the one interface that other hosts can reach is used. Several are refused in the fact, with their names.
      - V(lo) is used only when named here.
    type: list
    elements: str
    default: []
  interface_plane:
    description: What the mode needs of it. With V(control) only handshakes use it, and the interface of O(address) is right.
    type: str
    choices: [data, control]
    default: data
  address:
    description: Where members of this host serve HTTP, the host variable C(pd_address). The default is the address of the default route.
    type: str
  gpus:
    description:
      - The GPUs, the host variable C(pd_gpus), as ids or as dictionaries with the keys C(id), C(model) and C(vendor).
      - Left out, C(nvidia-smi), C(rocm-smi) or C(npu-smi) is asked.
    type: list
    elements: raw
  models:
    description: Directories of models to look at.
    type: list
    elements: str
    default: []
  executables:
    description: Commands to look for, as paths or names, each with its version.
    type: list
    elements: str
    default: []
  runtimes:
    description: The runtimes to look at. Left out, all of them.
    type: list
    elements: str
  images:
    description: >-
      Images to look for, where a runtime has any. Of one that is not there, its registry is asked whether it would give it.
    type: list
    elements: str
    default: []
  pods:
    description:
      - Of a host that stands for a cluster (C(pd_cluster)), which C(nodes) are looked at, as selectors, and the C(settings) of the Pods
        that do it. Left out, no Pod is started, and of nodes only that is told which the API knows.
    type: dict
  groups:
    description: Return the records of these groups only. Members of all groups are always returned, since they hold ports and GPUs.
    type: list
    elements: str
  kept:
    description:
      - Whether to look also at the models, executables and images that the records here keep of formations, of the one that runs and of
        the last one before it that was proven. Whoever starts their members again asks for it.
    type: bool
    default: false
    version_added: 0.2.0
  controller:
    description:
      - Which runs of this controller live. The action plugin says so.
      - A listener that a preflight of a run which has died has left here is ended. Of another controller's nothing is known.
    type: dict
seealso:
  - module: inferops.pd.group_plan
  - module: inferops.pd.members
"""

EXAMPLES = r"""
- name: Look at the hosts
  inferops.pd.host_facts:
    ports: "{{ pd_port_range | default(omit) }}"
    kv_interface: "{{ [pd_kv_interface] | flatten if pd_kv_interface is defined else omit }}"
    models: [/models/Qwen3-32B]
    executables: [/opt/vllm/bin/vllm]

- name: Show where the KV cache would travel
  ansible.builtin.debug:
    msg: "{{ ansible_facts.pd_host.kv_interface }}"
"""

RETURN = r"""
ansible_facts:
  description: The facts.
  returned: always
  type: dict
  contains:
    pd_host:
      description: What the host says.
      returned: always
      type: dict
      contains:
        address:
          description: Where members serve HTTP.
          returned: always
          type: str
          sample: 10.0.0.7
        kv_interface:
          description:
            - The interface of the KV cache, C(names), C(address) and C(rdma_devices), with the C(candidates) and the C(reason).
            - Also C(mtu), C(speed) in Mb/s and, of RoCE, C(gid_index), each null where it is not known.
            - When there is none, or it cannot be told, C(error) says so.
          returned: always
          type: dict
          sample:
            names: [eth2]
            address: 10.1.0.7
            rdma_devices: ["mlx5_0:1"]
            candidates: [eth0, eth2]
            reason: pd_kv_interface names it
            error:
        kv_interfaces:
          description:
            - The same for each plane that O(interface_plane) may name, V(data) and V(control). A run of several groups looks once, and each
              takes what its mode needs.
          returned: always
          type: dict
        interfaces:
          description: All interfaces with their addresses, the C(networks) of these, and RDMA devices.
          returned: always
          type: list
          elements: dict
        rdma_devices:
          description: The RDMA devices by name, also those that belong to no interface.
          returned: always
          type: list
          elements: str
          sample: [mlx5_0, mlx5_1]
        gpus:
          description: The GPUs, each with C(id), C(model) and C(vendor).
          returned: always
          type: list
          elements: dict
        gpu_processes:
          description:
            - The processes that hold memory of a GPU and belong to no member of this state directory, each with the C(gpu) (its id as in
              C(gpus)), C(pid) and C(command). Such a GPU is not free.
            - They are read with C(nvidia-smi) and C(npu-smi); processes on AMD GPUs are not seen.
          returned: always
          type: list
          elements: dict
          sample:
            - gpu: "3"
              pid: 4711
              command: python3.12
        ports:
          description:
            - The C(range), the TCP ports that are C(used) with who holds them, the kernel's C(ephemeral) range and the C(reserved) ports.
            - C(exposed) counts the ports of the range that an outgoing connection could sit on when a member is started.
          returned: always
          type: dict
        members:
          description:
            - The members on this host, of every group, with their C(label), C(state) (running, restarting, exited or missing), whether
              they are C(ready), C(why) not, and for a router the peers that are C(registered) with it.
            - Of one that has ended also the last line of its log, C(log_line).
            - Of one that serves and has logged that its answers may be wrong, C(doubt) with the C(line), its C(meaning), the C(advice) and
              the C(count) of such lines.
            - C(formation) and C(listener_member) are the formation and the id that the process carries in its environment which listens on
              the member's HTTP port. They are null when an earlier version started it, and when that cannot be read.
          returned: always
          type: list
          elements: dict
        elsewhere:
          description:
            - Members of other state directories of this machine, found by what their processes carry and by the labels of containers.
            - Each has C(state_dir), C(member), C(group), C(owner) (the user), and the C(gpus) and C(ports) of its label, as far as that can
              be read. Members in another network namespace have no ports here.
          returned: always
          type: list
          elements: dict
          sample:
            - state_dir: /home/ops/.local/state/inferops-pd
              member: try-prefill-0
              group: try
              owner: ops
              gpus: ["0"]
              ports: [40000, 40001]
        hidden:
          description:
            - Why this host cannot be judged as the user that Ansible is there, and what to do; empty when it can be.
            - The state directory belongs to somebody else; or without O(state_dir), for a user who is not root, the system's state
              directory, a unit or a container of other members is there.
          returned: always
          type: str
        machine:
          description:
            - Which machine this is, by its machine C(id), the C(boot) and the network namespace, C(netns). Each is null where it cannot be
              read.
          returned: always
          type: dict
          sample:
            id: 0f3b6e0c5d7a4b0f9a6f3d1f5d0c2b1a
            boot: 5a1c9c2e-7d52-4b8f-9a55-0f6f0d6f4c11
            netns: "net:[4026531840]"
        records:
          description: The record of each group.
          returned: always
          type: dict
        holds:
          description: The ports that a router may still name after their member has gone, of all groups.
          returned: always
          type: list
          elements: dict
        cordon:
          description: Why no new member comes to this host, with who has set that (C(by)) and when (C(since)). Null where they may.
          returned: always
          type: dict
        damaged:
          description:
            - Files of the state directory that could not be read, each with its C(path), C(why), and the C(group) and C(member) that it
              belongs to. The rest is told all the same.
          returned: always
          type: list
          elements: dict
        models:
          description: For each model whether it C(exists), its C(fingerprint) and its C(config).
          returned: always
          type: dict
        executables:
          description: For each command whether it C(exists), its C(path) and C(version).
          returned: always
          type: dict
        images:
          description:
            - For each image of O(images) whether it C(exists), its C(id) and its C(digest) in the registry that it came from.
            - Of one that is missing, whether it is C(pullable), and C(why) not. Without a container engine C(exists) is null.
          returned: always
          type: dict
        runtimes:
          description:
            - For each runtime whether it is C(available), C(why) not, and a C(hint).
            - Of docker also its C(version), its C(default_runtime), and whether containers can get NVIDIA GPUs, C(nvidia).
          returned: always
          type: dict
        state_dir:
          description: The directory that was looked at.
          returned: always
          type: str
        state:
          description:
            - The same directory as C(dir), with the C(id) that it has under whatever name and on whatever machine, and its C(device) and
              inode. Both are null where there is none yet.
          returned: always
          type: dict
          sample:
            dir: /var/lib/inferops-pd
            id: 3c0f8f0e-3b5f-4a53-8d43-4f1f6a1b2c3d
            device: "2049:131074"
        held:
          description:
            - One value by workload for its members here and what they hold. M(inferops.pd.members) refuses a plan that takes places beside
              others, and was made on other values of theirs than there are by then.
          returned: always
          type: dict
        hostname:
          description: The host's own name.
          returned: always
          type: str
        python:
          description: The Python that Ansible uses there.
          returned: always
          type: dict
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._core.base.errors import PdError
from ..module_utils._core.runtimes.table import ON_HOSTS
from ..module_utils._host.observe import Request, observe
from ..module_utils._runtimes.state import State


def argument_spec() -> dict[str, dict[str, object]]:
    """The options, as DOCUMENTATION lists them."""
    return {
        "ports": {"type": "str", "default": "40000-40063"},
        "kv_interface": {"type": "list", "elements": "str", "default": []},
        "interface_plane": {"type": "str", "choices": ["data", "control"], "default": "data"},
        "address": {"type": "str"},
        "gpus": {"type": "list", "elements": "raw"},
        "models": {"type": "list", "elements": "str", "default": []},
        "executables": {"type": "list", "elements": "str", "default": []},
        "runtimes": {"type": "list", "elements": "str"},
        "runtime_options": {"type": "dict"},
        "images": {"type": "list", "elements": "str", "default": []},
        "pods": {"type": "dict"},
        "state_dir": {"type": "path"},
        "groups": {"type": "list", "elements": "str"},
        "kept": {"type": "bool", "default": False},
        "controller": {"type": "dict"},
    }


def main() -> None:
    module = AnsibleModule(argument_spec=argument_spec(), supports_check_mode=True)
    options = {key: value for key, value in module.params.items() if key not in ("state_dir", "pods")}
    options["runtimes"] = ON_HOSTS if options["runtimes"] is None else options["runtimes"]
    request = Request(**options, state_given=module.params["state_dir"] is not None)
    try:
        host = observe(request, State(module.params["state_dir"]))
    except PdError as exc:
        module.fail_json(msg=f"Looking at the host failed. {exc}")
    except OSError as exc:
        # Whatever else the host's system refuses: its words, and no traceback.
        what = f"{exc.strerror or exc}" + (f": {exc.filename}" if exc.filename else "")
        module.fail_json(msg=f"Looking at the host failed. {what}")
    for warning in request.warnings:
        module.warn(warning)
    module.exit_json(changed=False, ansible_facts={"pd_host": host})


if __name__ == "__main__":
    main()
