# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Role awx as users run it, in a copy of examples/awx, over a stand-in of the collection awx.awx: check mode, diff, a second time, what
others have changed, taken away again. What AWX itself does with the same objects is in tests/awx."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import typing as t
from pathlib import Path

import pytest
import yaml
from standin import awx
from support import ROOT, Run, playbook_command

pytestmark = pytest.mark.integration

KINDS = (
    "credentials",
    "execution_environments",
    "inventories",
    "inventory_sources",
    "job_templates",
    "projects",
    "schedules",
)
SECRET = "s3cr3t-of-hf"


class Project:
    """A copy of the example, with an AWX that is a file."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.file = folder / "project", folder / "awx.json"
        shutil.copytree(ROOT / "examples/awx", self.folder)
        self.collections = folder / "collections"
        awx.make(self.collections)
        self.write(
            last=100,
            builtin=["Machine", "Ansible Galaxy/Automation Hub API Token"],
            credentials=[{"id": 1, "name": "Ansible Galaxy"}, {"id": 2, "name": "gpu hosts"}, {"id": 3, "name": "hub"}],
            organizations=[{"id": 4, "name": "Serving", "galaxy_credentials": ["hub"]}],
            teams=[
                {"id": 5 + number, "name": f"serving-{name}", "organization": "Serving"}
                for number, name in enumerate(("operators", "engineers", "leads"))
            ],
            grants=[],
            pushed=[file.name for file in self.folder.glob("*.yml")],
        )

    def read(self) -> dict[str, t.Any]:
        return t.cast("dict[str, t.Any]", json.loads(self.file.read_text()))

    def write(self, **changes: t.Any) -> None:
        there = self.read() if self.file.exists() else {}
        self.file.write_text(json.dumps({**there, **changes}))

    def one(self, endpoint: str, name: str) -> dict[str, t.Any]:
        (found,) = (one for one in self.read()[endpoint] if one["name"] == name)
        return t.cast("dict[str, t.Any]", found)

    def play(self, *words: str, collections: bool = True, **variables: t.Any) -> Run:
        path = [str(ROOT / ".build/collections"), *([str(self.collections)] if collections else [])]
        env = {name: value for name, value in os.environ.items() if name != "ANSIBLE_CONFIG"}
        env |= {
            "ANSIBLE_COLLECTIONS_PATH": os.pathsep.join(path),
            "ANSIBLE_NOCOLOR": "1",
            "CONTROLLER_HOST": str(self.file),
        }
        if not collections:
            env["ANSIBLE_COLLECTIONS_SCAN_SYS_PATH"] = "false"
        extra = self.folder / "more.yml"
        extra.write_text(yaml.safe_dump(variables))
        done = subprocess.run(
            [playbook_command(), "-i", "inventory/hosts.yml", "inferops.pd.awx", "-e", "@objects.yml", "-e", f"@{extra}", *words],
            cwd=self.folder, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300,
            check=False,
        )  # fmt: skip
        return Run(done.returncode, done.stdout)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    return Project(tmp_path_factory.mktemp("awx"))


def touched(run: Run) -> list[str]:
    return [line.partition("(item=")[2].rstrip(")") for line in run.out.splitlines() if line.startswith("changed:")]


def test_without_the_collection_it_says_what_to_install(project: Project) -> None:
    before = project.read()
    told = project.play(collections=False).refused().out
    assert "ansible-galaxy collection install awx.awx" in told
    assert project.read() == before


def test_what_is_named_and_missing_is_told_at_once(project: Project) -> None:
    before = project.read()
    told = " ".join(project.play(awx_credentials=["nope"], awx_approvers={"teams": ["nobody"]}).refused().out.split())
    assert "awx_credentials[0]: AWX has none of credentials with the name nope" in told
    assert "awx_approvers.teams: AWX has none of teams with the name nobody" in told
    assert project.read() == before


def test_check_mode_shows_all_and_makes_nothing(project: Project) -> None:
    before = project.read()
    run = project.play("--check", "--diff").ok()
    assert project.read() == before
    assert "job template pd deploy" in touched(run)
    assert "+playbook: deploy.yml" in run.out


def test_everything_is_made(project: Project) -> None:
    secrets = [{"variable": "vault_hf_token", "label": "Hugging Face token", "value": SECRET}]
    run = project.play("-vv", "--diff", awx_secrets=secrets).ok()
    assert SECRET not in run.out
    made = project.read()
    assert {kind: bool(made.get(kind)) for kind in KINDS} == dict.fromkeys(KINDS, True)
    assert project.one("credentials", "pd secrets")["secrets"] == {"vault_hf_token": SECRET}
    # The braces are AWX's to evaluate.
    injectors = project.one("credential_types", "pd secrets")["injectors"]
    assert injectors == {"extra_vars": {"vault_hf_token": "{{ vault_hf_token }}"}}
    # Those that the organization had stay, and come first.
    assert project.one("organizations", "Serving")["galaxy_credentials"] == ["hub", "Ansible Galaxy"]
    asked = project.one("job_templates", "pd scale")["survey_spec"]["spec"][0]
    assert asked["choices"] == ["qwen3-32b"]
    assert project.one("job_templates", "pd restart")["timeout"] == 7200
    grants = [tuple(one) for one in made["grants"]]
    assert ("serving-operators", "execute", "pd scale") in grants
    assert ("serving-operators", "execute", "pd restart") not in grants
    assert ("serving-leads", "approval", "pd change") in grants


def test_the_second_time_there_is_nothing_to_do(project: Project) -> None:
    before = project.read()
    run = project.play().ok()
    assert (run.changed, touched(run)) == (0, [])
    assert project.read() == before


def test_a_secret_that_is_given_is_written_again_and_said(project: Project) -> None:
    run = project.play(
        awx_secrets=[{"variable": "vault_hf_token", "value": "other", "label": "Hugging Face token"}]
    ).ok()
    assert touched(run) == ["credential pd secrets"]
    assert "its secrets are written again" in run.out
    assert project.one("credentials", "pd secrets")["secrets"] == {"vault_hf_token": "other"}


def test_what_somebody_has_changed_is_shown_and_put_back(project: Project) -> None:
    there = project.read()
    for one in there["job_templates"]:
        if one["name"] == "pd plan":
            one["job_type"] = "run"
    (flow,) = there["workflow_job_templates"]
    whole = list(flow["nodes"])
    flow["nodes"] = whole[:-1]
    project.write(**there)
    run = project.play("--diff").ok()
    assert touched(run) == ["job template pd plan", "workflow job template pd change"]
    assert "-job_type: run" in run.out
    assert "+job_type: check" in run.out
    assert project.one("job_templates", "pd plan")["job_type"] == "check"
    assert project.one("workflow_job_templates", "pd change")["nodes"] == whole


def test_a_playbook_that_awx_has_not_seen_yet_has_the_project_updated(project: Project) -> None:
    mine = {"caches": {"playbook": "mine.yml", "survey": ["pd_cache"]}}
    told = " ".join(project.play(awx_templates=mine).refused().out.split())
    assert "The project's repository has no such file" in told
    project.write(pushed=[*project.read()["pushed"], "mine.yml"])
    run = project.play(awx_templates=mine).ok()
    assert "job template pd caches" in touched(run)
    assert project.one("job_templates", "pd caches")["playbook"] == "mine.yml"


def test_what_is_left_out_is_taken_away(project: Project) -> None:
    run = project.play(awx_templates={"restart": {"timeout": 7200}, "caches": False, "plan": False}).ok()
    names = {one["name"] for one in project.read()["job_templates"]}
    assert not names & {"pd caches", "pd plan"}
    # It needs the plan.
    assert project.read()["workflow_job_templates"] == []
    assert "workflow job template pd change" in touched(run)


def test_all_is_taken_away_but_the_organization_and_what_is_not_ours(project: Project) -> None:
    before = project.read()
    run = project.play("--check", "-e", "pd_awx_state=absent").ok()
    assert "schedule pd heal" in touched(run)
    assert project.read() == before
    run = project.play("-e", "pd_awx_state=absent").ok()
    assert "The organization Serving stays" in run.out
    left = project.read()
    assert [one["name"] for one in left["credentials"]] == ["Ansible Galaxy", "gpu hosts", "hub"]
    assert [kind for kind in KINDS if left.get(kind) and kind != "credentials"] == []
    assert [one["name"] for one in left["organizations"]] == ["Serving"]
    assert project.play("-e", "pd_awx_state=absent").ok().changed == 0
