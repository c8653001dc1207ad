# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An inventory of what runs: the hosts of an inventory, grouped by the members that they report."""

from __future__ import annotations

DOCUMENTATION = r"""
name: members
short_description: Group hosts by the prefill/decode members that run on them
version_added: 0.1.0
description:
  - Asks the hosts of another inventory what runs on them, with M(inferops.pd.host_facts) over their own connections, and groups them by it.
  - Groups are C(pd_GROUP), C(pd_GROUP_ROLE) and C(pd_role_ROLE), characters that no group name may have replaced by an underscore. A host
    that runs several members is in several groups.
  - Every host with a member gets C(pd_members), a list of its members with id, group, stand, role, state, url and generation.
  - A member whose file on the host is damaged is told, and left out; the others of the host stay.
  - Use it beside the inventory it asks, C(-i hosts.yml -i members.pd.yml), so that connection variables are known.
author:
  - The inferops.pd contributors (@inferops)
extends_documentation_fragment:
  - ansible.builtin.constructed
  - ansible.builtin.inventory_cache
options:
  plugin:
    description: The name of this plugin.
    type: str
    required: true
    choices: [inferops.pd.members]
  source:
    description: The inventory to ask, a path relative to this file.
    type: str
    required: true
  hosts:
    description: Which of its hosts to ask.
    type: str
    default: all
  state_dir:
    description: Where the collection keeps its state on the hosts, where that is not the default.
    type: str
  timeout:
    description: Seconds for all hosts together.
    type: int
    default: 120
  only_ready:
    description: Leave out members that do not answer.
    type: bool
    default: false
"""

EXAMPLES = r"""
# members.pd.yml
plugin: inferops.pd.members
source: hosts.yml
keyed_groups:
  - prefix: generation
    key: pd_members | map(attribute='generation') | unique
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import typing as t

from ansible.errors import AnsibleParserError
from ansible.plugins.inventory import BaseInventoryPlugin, Cacheable, Constructable

from ..module_utils._core.base.checked import Checked, DamagedError
from ..module_utils._core.base.printable import printable
from ..module_utils._core.facts import label as labels
from ..module_utils._core.facts.stands import name_of

_UNSAFE = re.compile(r"[^A-Za-z0-9_]")
_SHOWN = ("group", "role", "index", "revision", "generation", "formation", "url", "port", "gpus")


class InventoryModule(BaseInventoryPlugin, Constructable, Cacheable):
    NAME = "inferops.pd.members"

    def verify_file(self, path: str) -> bool:
        """Files of this plugin end in pd.yml."""
        return bool(super().verify_file(path)) and path.endswith(("pd.yml", "pd.yaml"))

    def parse(self, inventory: t.Any, loader: t.Any, path: str, cache: bool = True) -> None:
        super().parse(inventory, loader, path, cache)
        self._read_config_data(path)
        key = self.get_cache_key(path)
        use = bool(self.get_option("cache") and cache)
        members: dict[str, list[dict[str, t.Any]]] | None = None
        if use:
            try:
                members = self._cache[key]
            except KeyError:
                members = None
        if members is None:
            members = self._ask(path)
            if self.get_option("cache"):
                self._cache[key] = members
        self._fill(members)

    def _ask(self, path: str) -> dict[str, list[dict[str, t.Any]]]:
        """The members of each host, as the hosts say."""
        source = os.path.join(os.path.dirname(os.path.abspath(path)), self.get_option("source"))
        if not os.path.exists(source):
            raise AnsibleParserError(f"{path}: source: there is no inventory {source}.")
        beside = os.path.join(os.path.dirname(sys.executable), "ansible-playbook")
        program = beside if os.path.exists(beside) else shutil.which("ansible-playbook")
        if program is None:
            raise AnsibleParserError(f"{path}: ansible-playbook is not on PATH, so the hosts cannot be asked.")
        with tempfile.TemporaryDirectory() as folder:
            play, answers = os.path.join(folder, "ask.yml"), os.path.join(folder, "answers")
            os.mkdir(answers)
            with open(play, "w", encoding="utf-8") as handle:
                json.dump(self._play(answers), handle)
            self._run([program, "-i", source, play], path)
            return self._answers(answers)

    def _answers(self, folder: str) -> dict[str, list[dict[str, t.Any]]]:
        """The members by host, of a folder with a file of each host's name."""
        found: dict[str, list[dict[str, t.Any]]] = {}
        for name in sorted(os.listdir(folder)):
            found[name] = []
            try:
                found[name] = self._members(name, os.path.join(folder, name))
            except DamagedError as exc:
                self._warn(name, f"{exc.where} is damaged ({exc.why}), and left out.")
        return found

    def _play(self, answers: str) -> list[dict[str, t.Any]]:
        """A play that asks every host and puts each answer into a file of the host's name. JSON is YAML."""
        facts = {"state_dir": self.get_option("state_dir")} if self.get_option("state_dir") else {}
        return [
            {
                "hosts": self.get_option("hosts"),
                "gather_facts": False,
                "tasks": [
                    {"inferops.pd.host_facts": facts, "register": "asked"},
                    {
                        "ansible.builtin.copy": {
                            "content": "{{ {'members': asked.ansible_facts.pd_host.members,"
                            " 'damaged': asked.ansible_facts.pd_host.damaged} | to_json }}",
                            "dest": answers + "/{{ inventory_hostname }}",
                            "mode": "0600",
                        },
                        "delegate_to": "localhost",
                        "vars": {"ansible_connection": "local", "ansible_python_interpreter": sys.executable},
                        "become": False,
                    },
                ],
            }
        ]

    def _run(self, command: list[str], path: str) -> None:
        environment = {**os.environ, "ANSIBLE_DEPRECATION_WARNINGS": "False"}
        try:
            done = subprocess.run(  # pylint: disable=ansible-bad-function  # a deadline, which run_command has not
                command,
                env=environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=self.get_option("timeout"),
                check=False,
            )
        except subprocess.TimeoutExpired as exc:
            raise AnsibleParserError(
                f"{path}: the hosts did not answer within {self.get_option('timeout')} s."
            ) from exc
        # Hosts that fail or do not answer are left out: an inventory of what runs cannot say more of them.
        if done.returncode not in (0, 2, 4):
            raise AnsibleParserError(f"{path}: asking the hosts failed: {(done.stderr or done.stdout).strip()[:400]}")

    def _members(self, host: str, file: str) -> list[dict[str, t.Any]]:
        """The members in a host's answer. What cannot be believed of it is told, and the rest stays."""
        with open(file, encoding="utf-8") as handle:
            told = Checked(json.load(handle), f"what {host} says")
        for one in told.each("damaged"):
            self._warn(host, f"{one.text('path')} is damaged: {one.text('why')}.")
        found = []
        for raw in told.items("members", 100_000):
            try:
                member = self._member(Checked(raw, "a member"))
            except DamagedError as exc:
                self._warn(host, f"{exc.where} is damaged ({exc.why}), and left out.")
                continue
            if member["ready"] or not self.get_option("only_ready"):
                found.append(member)
        return found

    def _member(self, told: Checked) -> dict[str, t.Any]:
        """One member as the inventory has it. Raises DamagedError."""
        label = labels.read(told.raw.get("label"), f"the label of {told.within('label').said('member') or 'a member'}")
        shown = {key: getattr(label, key) for key in _SHOWN}
        ready = told.raw.get("ready") is True
        about = {"id": label.member, "state": told.text("state"), "ready": ready, **shown, "gpus": list(label.gpus)}
        # By what its user calls it, whatever it stands as.
        return {**about, "group": name_of(label.group), "stand": label.group}

    def _warn(self, host: str, text: str) -> None:
        self.display.warning(f"{self.NAME}: {host}: {printable(text)}")

    def _fill(self, members: t.Mapping[str, list[dict[str, t.Any]]]) -> None:
        strict = self.get_option("strict")
        inventory: t.Any = self.inventory
        for host, found in members.items():
            if not found:
                continue
            inventory.add_host(host)
            inventory.set_variable(host, "pd_members", found)
            for member in found:
                names = (member["group"], f"{member['group']}_{member['role']}", f"role_{member['role']}")
                for name in names:
                    group = inventory.add_group(f"pd_{_UNSAFE.sub('_', str(name))}")
                    inventory.add_host(host, group=group)
            variables = {"pd_members": found}
            self._set_composite_vars(self.get_option("compose"), variables, host, strict=strict)
            self._add_host_to_composed_groups(self.get_option("groups"), variables, host, strict=strict)
            self._add_host_to_keyed_groups(self.get_option("keyed_groups"), variables, host, strict=strict)
