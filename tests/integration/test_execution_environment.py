# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An execution environment of the collection: ansible-builder takes from it what meta/execution-environment.yml says, and in an environment
of that and Ansible alone, the oldest and the newest, the playbooks run as AWX runs them. The image itself is built by nobody here."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import typing as t
from pathlib import Path

import pytest
import yaml
from integration.conftest import Life
from support import ROOT, Run

from ansible_collections.inferops.pd.plugins.module_utils._core.spec.variables import KNOWN, MEANT_EMPTY

pytestmark = [pytest.mark.integration, pytest.mark.xdist_group("execution-environment")]

COLLECTIONS = ROOT / ".build/collections"


def environment(name: str) -> Path:
    """The programs of an environment, which is made where it is not there yet."""
    made = subprocess.run([ROOT / "tests/env/venv.sh", name], capture_output=True, text=True, check=False)
    if made.returncode:
        pytest.fail(f"tests/env/venv.sh {name}\n{made.stdout}{made.stderr}", pytrace=False)
    return ROOT / ".build/venv" / name / "bin"


def requirements(file: str) -> set[str]:
    lines = (ROOT / "meta" / file).read_text().splitlines()
    return {line for line in lines if line.strip() and not line.startswith("#")}


def without_source(lines: t.Iterable[str]) -> set[str]:
    return {line.split("  # from collection")[0].strip() for line in lines if not line.startswith("#") and line.strip()}


def test_the_builder_takes_what_the_collection_says(tmp_path: Path) -> None:
    programs = environment("builder")
    (page,) = [text for text in _blocks(ROOT / "docs/playbooks.md") if "base_image" in text]
    definition, context = tmp_path / "execution-environment.yml", tmp_path / "context"
    definition.write_text(page)
    create = [programs / "ansible-builder", "create", "-f", definition, "-c", context]
    made = subprocess.run(create, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stdout + made.stderr
    assert "inferops.pd" in (context / "_build/requirements.yml").read_text()
    # What the build of the image does with the collection in it, by the script that it would run.
    script = [programs / "python", context / "_build/scripts/introspect.py", "introspect", COLLECTIONS]
    pip, system = tmp_path / "pip.txt", tmp_path / "bindep.txt"
    subprocess.run(
        [*script, "--write-pip", pip, "--write-bindep", system], check=True, capture_output=True, timeout=120
    )
    assert without_source(pip.read_text().splitlines()) == requirements("ee-requirements.txt")
    assert without_source(system.read_text().splitlines()) == requirements("ee-bindep.txt")


def _blocks(page: Path) -> list[str]:
    return [part.split("```")[0] for part in page.read_text().split("```yaml\n")[1:]]


def _unsafe(value: t.Any) -> str:
    """As AWX writes it: any text is marked."""
    if isinstance(value, list):
        return f"[{', '.join(map(_unsafe, value))}]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_unsafe(key)}: {_unsafe(one)}" for key, one in value.items()) + "}"
    return f"!unsafe {json.dumps(value)}" if isinstance(value, str) else json.dumps(value)


def as_awx(programs: Path, project: Path, site: Life, name: str, *words: str, **extra: t.Any) -> Run:
    """A playbook that is run as AWX does: by a file of the project that imports it, over an inventory that is a script, with variables in a
    file that nobody evaluates, and without a configuration of ours."""
    project.mkdir(exist_ok=True)
    (project / f"{name}.yml").write_text(yaml.safe_dump([{"import_playbook": f"inferops.pd.{name}"}]))
    whole = yaml.safe_load((site.folder / "hosts.yml").read_text())["all"]
    told = {
        "all": {"hosts": [], "children": ["nodes"], "vars": whole["vars"]},
        "nodes": {"hosts": list(whole["hosts"])},
        # Hosts have a Python of their own.
        "_meta": {
            "hostvars": {h: {**its, "ansible_python_interpreter": sys.executable} for h, its in whole["hosts"].items()}
        },
    }
    script = project / "hosts"
    script.write_text(f"#!/bin/sh\ncat <<'INVENTORY'\n{json.dumps(told)}\nINVENTORY\n")
    script.chmod(0o700)
    given = project / "extravars"
    lines = [f"{key}: {_unsafe(value)}\n" for key, value in extra.items()]
    given.write_text("".join(lines))
    env = {key: value for key, value in os.environ.items() if not key.startswith(("ANSIBLE_", "PYTHON"))}
    env |= {
        "PATH": f"{programs}{os.pathsep}{env['PATH']}",
        "HOME": str(project),
        "ANSIBLE_COLLECTIONS_PATH": str(COLLECTIONS),
        "ANSIBLE_NOCOLOR": "1",
        # An image may have no time zones.
        "PYTHONTZPATH": "",
    }
    command = ["ansible-playbook", *words, "--forks=5", "-i", str(script), "-e", f"@{given}", f"{name}.yml"]
    done = subprocess.run(command, cwd=project, env=env, capture_output=True, text=True, timeout=300, check=False)
    return Run(done.returncode, done.stdout + done.stderr)


# What a survey gives of which nobody answered a question. (Entries are none of a survey.)
UNANSWERED = {
    name: ("", None)[number % 2]
    for number, name in enumerate(KNOWN)
    if name
    not in (*MEANT_EMPTY, "pd_groups", "pd_caches", "pd_address", "pd_state_dir", "pd_port_range", "pd_kv_interface")
}


@pytest.mark.parametrize("name", ["ee", "ee-floor"])
def test_playbooks_run_in_what_is_made_from_it_alone(name: str, site: Life, tmp_path: Path) -> None:
    programs = environment(name)
    # A mode of one's own is checked against its schema, which needs what the collection asks for.
    modes = str(ROOT / "examples" / "modes")
    told = as_awx(programs, tmp_path / "project", site, "validate", pd_modes_path=modes, pd_group="").ok()
    assert "g: valid" in told.out
    told = as_awx(programs, tmp_path / "project", site, "deploy", "--check", "--diff", **UNANSWERED).ok()
    # As without any of it, and on another controller.
    assert digest(told) == digest(site.play("deploy", "--check"))
    assert site.pids() == {}
    zone = "import zoneinfo, jsonschema; print(zoneinfo.ZoneInfo('Europe/Berlin'))"
    asked = subprocess.run(
        [programs / "python", "-c", zone], env={"PYTHONTZPATH": ""}, capture_output=True, check=False
    )
    assert asked.returncode == 0, asked.stderr


def digest(run: Run) -> str:
    (found,) = re.findall(r"-e pd_plan_digest=([0-9a-f]{64})", run.ok().out)
    return str(found)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (
            {"awx_job_template_name": "pd deploy", "awx_workflow_job_name": "pd deploy"},
            "This job is one slice of 'pd deploy'",
        ),
        ({"pd_lost_hosts": ["{{ which }}"]}, "pd_lost_hosts[0]: the double braces in it were not evaluated."),
        ({"pd_expected_hosts": {"nodes": "node-[01:02]"}}, "node-01, node-02 are not in the inventory"),
    ],
)
def test_what_awx_gives_and_nothing_can_be_made_of_is_refused(
    given: dict[str, t.Any], says: str, site: Life, tmp_path: Path
) -> None:
    site.group["roles"] = {name: {**role, "hosts": "nodes"} for name, role in site.group["roles"].items()}
    site.write()
    done = as_awx(environment("ee"), tmp_path / "project", site, "deploy", "--check", **given)
    assert done.rc != 0, done.out
    assert says in " ".join(done.out.split())
