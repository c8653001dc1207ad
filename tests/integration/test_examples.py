# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What users copy is read by Ansible as they would: the inventory of three hosts with its settings, and every play that a page shows."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
import yaml
from support import ROOT, playbook_command

pytestmark = pytest.mark.integration

EXAMPLE = ROOT / "examples" / "three-hosts"
PAGES = sorted([*ROOT.glob("roles/*/README.md"), *ROOT.glob("docs/*.md"), ROOT / "README.md"])


def in_example(*words: str, folder: Path = EXAMPLE) -> str:
    """Called in the folder of an example, as the guide says: its ansible.cfg counts."""
    collections = str(ROOT / ".build/collections")
    env = {name: value for name, value in os.environ.items() if name != "ANSIBLE_CONFIG"}
    done = subprocess.run(
        [playbook_command(), *words], cwd=folder, env={**env, "ANSIBLE_COLLECTIONS_PATH": collections},
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_inventory_to_copy_is_valid_and_its_playbook_is_read() -> None:
    assert "qwen3-32b: valid" in in_example("inferops.pd.validate")
    assert "install-engine.yml" in in_example("--syntax-check", "install-engine.yml")


def test_the_project_for_awx_is_valid_and_its_playbooks_are_read() -> None:
    folder = ROOT / "examples" / "awx"
    inventory = ("-i", "inventory/hosts.yml")
    assert "qwen3-32b: valid" in in_example(*inventory, "validate.yml", "-e", "vault_hf_token=any", folder=folder)
    files = sorted(file.name for file in folder.glob("*.yml") if file.name != "objects.yml")
    assert len(files) > 10
    told = in_example(*inventory, "--syntax-check", *files, folder=folder)
    assert [name for name in files if f"playbook: {name}" not in told] == []


def plays_of(page: Path) -> list[str]:
    """The yaml blocks of a page that are plays."""
    blocks = re.findall(r"^```yaml\n(.*?)^```", page.read_text(), re.M | re.S)
    read = [(block, yaml.safe_load(block)) for block in blocks if "${" not in block]
    return [
        block
        for block, told in read
        if isinstance(told, list) and told and isinstance(told[0], dict) and "hosts" in told[0]
    ]


@pytest.mark.parametrize(
    "page", [page for page in PAGES if plays_of(page)], ids=lambda page: str(page.relative_to(ROOT))
)
def test_every_play_that_a_page_shows_is_read(page: Path, tmp_path: Path) -> None:
    for number, play in enumerate(plays_of(page)):
        file = tmp_path / f"play-{number}.yml"
        file.write_text(play)
        in_example("--syntax-check", str(file))
