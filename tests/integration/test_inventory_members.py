# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The inventory plugin inferops.pd.members: hosts grouped by what runs on them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from integration.conftest import Life
from support import playbook_command, run

pytestmark = pytest.mark.integration


def inventory(site: Life, **options: str) -> dict[str, object]:
    """What ansible-inventory makes of the plugin's file. Options beside `source` are the plugin's."""
    file = site.folder / "members.pd.yml"
    file.write_text(
        yaml.safe_dump(
            {"plugin": "inferops.pd.members", "source": "hosts.yml", "state_dir": str(site.state), **options}
        )
    )
    command = Path(playbook_command()).with_name("ansible-inventory")
    done = run([str(command), "-i", str(file), "--list"], 120)
    assert done.rc == 0, done.out
    # What hosts say is no template: ansible-inventory marks it so.
    return json.loads(
        done.out[done.out.index("{") : done.out.rindex("}") + 1], object_hook=lambda o: o.get("__ansible_unsafe", o)
    )


def test_hosts_are_grouped_by_what_runs_on_them(site: Life) -> None:
    assert "pd_g" not in inventory(site)
    site.play("deploy").ok()
    found = inventory(site)
    assert {"pd_g", "pd_g_prefill", "pd_g_decode", "pd_g_router", "pd_role_decode"} <= set(found)
    assert found["pd_g_prefill"] == {"hosts": ["node"]}
    members = found["_meta"]["hostvars"]["node"]["pd_members"]
    assert sorted(m["id"] for m in members) == ["g-decode-0", "g-prefill-0", "g-router-0"]
    assert all(m["ready"] for m in members)


def test_a_damaged_label_is_told_and_the_other_members_stay(site: Life) -> None:
    site.play("deploy").ok()
    label = site.state / "groups" / "g" / "members" / "g-decode-0" / "label.json"
    label.write_text(json.dumps({**json.loads(label.read_text()), "generation": "many"}))
    found = inventory(site)
    told = {m["id"] for m in found["_meta"]["hostvars"]["node"]["pd_members"]}
    assert {"g-prefill-0", "g-router-0"} <= told
    assert found["pd_g_prefill"] == {"hosts": ["node"]}
    command = Path(playbook_command()).with_name("ansible-inventory")
    said = " ".join(run([str(command), "-i", str(site.folder / "members.pd.yml"), "--list"], 120).out.split())
    assert f"node: {label} is damaged: generation is no number" in said


def test_a_source_that_is_not_there_is_said(site: Life) -> None:
    file = site.folder / "members.pd.yml"
    file.write_text(yaml.safe_dump({"plugin": "inferops.pd.members", "source": "none.yml"}))
    command = Path(playbook_command()).with_name("ansible-inventory")
    done = run([str(command), "-i", str(file), "--list"], 60)
    assert "there is no inventory" in done.out
    assert "Traceback" not in done.out
