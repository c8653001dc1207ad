# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What role proof hands to the proof of what each host's wait has read."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import yaml
from support import ROOT, playbook_command, run

pytestmark = [pytest.mark.integration, pytest.mark.floor]
SEEN = {
    "h1": {
        "members": {
            "g-prefill-0": {"state": "ready", "formation": "f1"},
            "g-prefill-1": {"state": "ready", "formation": None},
        }
    },
    "h2": {"members": {"g-decode-0": {"state": "ready"}}},
    "h3": {"skipped": True, "changed": False},
    "h4": {"unreachable": True, "msg": "gone"},
    "h5": None,
}


@pytest.mark.parametrize(
    ("hosts", "told"),
    [
        (list(SEEN), {"g-decode-0": "", "g-prefill-0": "f1", "g-prefill-1": ""}),
        (["h3", "h5"], {}),
    ],
)
def test_the_formations_of_all_hosts_come_together(tmp_path: Path, hosts: list[str], told: dict[str, str]) -> None:
    common = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    inventory = {"all": {"hosts": {h: {"seen": SEEN[h]} if SEEN[h] else {} for h in hosts}, "vars": common}}
    tasks = [
        {"ansible.builtin.set_fact": {"engine_waited": "{{ seen }}"}, "when": "seen is defined"},
        {
            "ansible.builtin.copy": {
                "content": "{{ proof_formations | to_json }}",
                "dest": str(tmp_path / "out"),
                "mode": "0600",
            },
            "vars": yaml.safe_load((ROOT / "roles/proof/vars/main.yml").read_text()),
            "run_once": True,
        },
    ]
    (tmp_path / "hosts.yml").write_text(yaml.safe_dump(inventory))
    (tmp_path / "play.yml").write_text(yaml.safe_dump([{"hosts": "all", "gather_facts": False, "tasks": tasks}]))
    run([playbook_command(), "-i", str(tmp_path / "hosts.yml"), str(tmp_path / "play.yml")], 120).ok()
    assert json.loads((tmp_path / "out").read_text()) == told
