#!/usr/bin/python
# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file documents the action plugin of the same name, which runs on the controller.

from __future__ import annotations

DOCUMENTATION = r"""
module: convert
short_description: Make the spec of a group of the command lines that one has
version_added: 0.2.0
description:
  - Reads text that starts prefill, decode and router, C(vllm serve) lines, C(python -m sglang.launch_server), scripts with several of
    them, C(docker run) lines, compose files, Kubernetes manifests and systemd units, and returns the spec of a group that does the same.
  - It says of each flag and variable what became of it. It is in the spec, the recipe does it already, it is left out, or a person must
    decide; of the last two, why.
  - No value of a secret is in the result. Secrets become O(ignore:secrets) of the spec, each with a variable of the inventory that
    its value is to be put into.
  - The spec is judged as M(inferops.pd.group_validate) does it.
  - It runs on the controller, asks no host, runs nothing of the text, and changes nothing but O(dest).
author:
  - The inferops.pd contributors (@inferops)
extends_documentation_fragment:
  - inferops.pd.attributes
  - inferops.pd.attributes.actiongroup_pd
  - inferops.pd.modes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
    details:
      - Of O(dest).
  idempotent:
    support: full
options:
  name:
    description: The name of the group.
    type: str
    required: true
  prefill:
    description: The text that starts a prefill member.
    type: str
  decode:
    description: The text that starts a decode member.
    type: str
  router:
    description: The text that starts the router.
    type: str
  all:
    description: A text that starts all of them, such as a compose file. Whose a command is, is told by its flags, else by its name.
    type: str
  src:
    description: The same texts as files of the controller.
    type: dict
    default: {}
    suboptions:
      prefill:
        description: The file that starts a prefill member.
        type: str
      decode:
        description: The file that starts a decode member.
        type: str
      router:
        description: The file that starts the router.
        type: str
      all:
        description: A file that starts all of them.
        type: str
  hosts:
    description: The host patterns of the roles, where they are known.
    type: dict
    default: {}
    suboptions:
      prefill:
        description: The pattern of prefill.
        type: str
      decode:
        description: The pattern of decode.
        type: str
      router:
        description: The pattern of the router.
        type: str
  mode:
    description: The mode to take. Left out, it is the one that moves the KV cache as the text does.
    type: str
  dest:
    description:
      - The file to write the group into, for example C(group_vars/all/qwen.yml). Its folder must be there.
      - A file that something else has written, or that was edited since, is left alone.
    type: str
  force:
    description: Replace O(dest) whatever it is.
    type: bool
    default: false
  show:
    description: Print what became of each line.
    type: bool
    default: false
seealso:
  - module: inferops.pd.group_validate
"""

EXAMPLES = r"""
- name: Make a spec of two command lines
  inferops.pd.convert:
    name: qwen3
    prefill: |
      CUDA_VISIBLE_DEVICES=0 vllm serve /models/Qwen3-32B --port 8100 --max-model-len 32768 \
        --kv-transfer-config '{"kv_connector":"NixlConnector","kv_role":"kv_producer"}'
    decode: |
      CUDA_VISIBLE_DEVICES=1 vllm serve /models/Qwen3-32B --port 8200 --max-model-len 32768 \
        --kv-transfer-config '{"kv_connector":"NixlConnector","kv_role":"kv_consumer"}'
    hosts: {prefill: prefill_nodes, decode: decode_nodes, router: router_nodes}
  register: converted

- name: Write the spec of a compose file into the inventory
  inferops.pd.convert:
    name: qwen3
    src: {all: compose.yml}
    dest: group_vars/all/qwen3.yml
"""

RETURN = r"""
spec:
  description: The entry of C(pd_groups).
  returned: always
  type: dict
yaml:
  description: The spec as the file has it, with what is to decide above it.
  returned: always
  type: str
notes:
  description: What became of each line, in the order of the text, role by role.
  returned: always
  type: list
  elements: dict
  contains:
    role:
      description: Whose it is; empty for the group.
      type: str
    line:
      description: The line of the text; 0 for what stands in none.
      type: int
    what:
      description: The flag, variable or key.
      type: str
    outcome:
      description: V(taken), V(recipe) (it is done already), V(dropped) or V(decide).
      type: str
    why:
      description: What it is in the spec, or why it is not there.
      type: str
findings:
  description: What M(inferops.pd.group_validate) says of the spec.
  returned: always
  type: list
  elements: dict
valid:
  description: Whether no finding is an error.
  returned: always
  type: bool
dest:
  description: The file.
  returned: with O(dest)
  type: str
"""
