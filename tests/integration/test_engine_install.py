# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The entry point `install` of the roles engine and cache, with a distribution that is small: from a folder of wheels, without an index."""

from __future__ import annotations

import subprocess
import sys
import typing as t
from pathlib import Path

import pytest
import yaml
from support import Run, playbook_command, run

pytestmark = pytest.mark.integration


def install(folder: Path, version: str, role_name: str = "engine") -> Run:
    wanted: dict[str, dict[str, t.Any]] = {
        "engine": {"package": "sniffio", "version": version},
        "cache": {"packages": [f"sniffio=={version}"], "args": "--no-deps"},
    }
    common = {"path": str(folder / role_name), "python": sys.executable, "wheels": str(folder / "wheels")}
    variables = {f"{role_name}_install_{key}": value for key, value in {**wanted[role_name], **common}.items()}
    role = {"name": f"inferops.pd.{role_name}", "tasks_from": "install"}
    play = [
        {
            "hosts": "localhost",
            "connection": "local",
            "gather_facts": False,
            "vars": {"ansible_python_interpreter": sys.executable, **variables},
            "tasks": [{"name": "Install", "ansible.builtin.include_role": role}],
        }
    ]
    (folder / "play.yml").write_text(yaml.safe_dump(play))
    return run([playbook_command(), "-i", "localhost,", str(folder / "play.yml")], 300)


def test_an_engine_of_a_stated_version_is_installed_once(tmp_path: Path) -> None:
    wheels = tmp_path / "wheels"
    for version in ("1.3.0", "1.3.1"):
        pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", str(wheels), f"sniffio=={version}"]
        subprocess.run(pip, check=True, timeout=120)
    assert install(tmp_path, "1.3.0").ok().changed == 1
    assert install(tmp_path, "1.3.0").ok().changed == 0
    assert install(tmp_path, "1.3.1").ok().changed == 1
    said = subprocess.run(
        [tmp_path / "engine/bin/python", "-m", "pip", "list"], capture_output=True, text=True, check=True
    )
    assert "1.3.1" in said.stdout
    # A cache service: beside the engine, in an environment of its own.
    assert install(tmp_path, "1.3.0", "cache").ok().changed == 1
    assert install(tmp_path, "1.3.0", "cache").ok().changed == 0
    assert (tmp_path / "cache/bin/python").exists()
