# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = """
name: canned
type: connection
short_description: Answers modules as a host would with which all goes well, and runs nothing
version_added: 0.1.0
description:
  - For measuring what a run costs the controller. All that Ansible does for a task is done up to here, the module is built and packed too.
  - The environment says where things are, E(PD_CANNED_FACTS) the folder with the answer of each host to C(host_facts), a file each, and
    E(PD_CANNED_CALLS) the file that gets a line for each call.
author:
  - The inferops.pd contributors (@inferops)
extends_documentation_fragment:
  - connection_pipelining
options:
  host:
    description: The host's name.
    vars:
      - name: inventory_hostname
"""

import ast
import json
import os
import time
import typing as t

from ansible.plugins.connection import ConnectionBase
from bench.answers import answer

# How a packed module carries what it is called with: the keywords of its main function, one a line (ansible-core 2.19 and later).
NAME, PARAMS = b"\nmodule_fqn=", b"\nparams="


class Connection(ConnectionBase):
    transport = "canned"
    has_pipelining = True

    def _connect(self) -> Connection:
        self._connected = True
        return self

    def close(self) -> None:
        self._connected = False

    def exec_command(self, cmd: str, in_data: bytes | None = None, sudoable: bool = True) -> tuple[int, bytes, bytes]:
        begun = time.process_time_ns()
        host = str(self.get_option("host"))
        if not in_data:
            raise AssertionError(f"{host}: a command that is no module: {cmd}")
        module = keyword(in_data, NAME).rpartition(".")[2]
        if module == "host_facts":
            with open(os.path.join(os.environ["PD_CANNED_FACTS"], f"{host}.json"), "rb") as stream:
                said = stream.read()
        else:
            said = json.dumps(answer(module, json.loads(keyword(in_data, PARAMS))["ANSIBLE_MODULE_ARGS"])).encode()
        self._note(module, host, time.process_time_ns() - begun)
        return 0, said, b""

    def _note(self, module: str, host: str, spent: int) -> None:
        """A line in one write: those of many workers stay whole."""
        with open(os.environ["PD_CANNED_CALLS"], "ab", buffering=0) as stream:
            stream.write(f"{module} {host} {spent}\n".encode())

    def put_file(self, in_path: str, out_path: str) -> None:
        raise AssertionError(f"a file is sent, {in_path}: pipelining is off")

    def fetch_file(self, in_path: str, out_path: str) -> None:
        raise AssertionError(f"a file is fetched, {in_path}")


def keyword(packed: bytes, name: bytes) -> t.Any:
    """The value of one keyword in the call that ends a packed module."""
    start = packed.rindex(name) + len(name)
    return ast.literal_eval(packed[start : packed.index(b"\n", start)].decode().rstrip(","))
