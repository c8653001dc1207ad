# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One AWX for all tests of this folder, with the example's objects in it. One that is up already is used, and left."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import time
import typing as t
import uuid
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from awx import instance, project
from awx.client import Client, Object
from support import ROOT, Run, playbook_command, run

OPERATOR = "olga"
TOKEN = "s3cr3t-of-the-tests"


@dataclass(repr=False)
class Lab:
    """An AWX that has the objects of inferops.pd, and what they are about."""

    admin: Client
    fleet: project.Fleet
    objects: Objects
    # The first run of the objects' playbook.
    first: Run

    def operator(self) -> Client:
        """Somebody who is told by the objects to operate, by a token."""
        (user,) = self.admin.all(f"/api/v2/users/?username={OPERATOR}")
        password = uuid.uuid4().hex
        self.admin.call("PATCH", user["url"], {"password": password})
        own = Client(self.admin.url, OPERATOR, password)
        made = own.call("POST", f"/api/v2/users/{user['id']}/personal_tokens/", {"scope": "write"})
        return Client(self.admin.url, token=made["token"])

    def deployed(self, group: str) -> dict[str, int]:
        """Have a group serve, by a job; its members."""
        job = self.admin.run("pd deploy", extra_vars={"pd_group": group})
        assert job["status"] == "successful", self.admin.stdout(job)[-6000:]
        assert self.fleet.serves(group)
        return self.fleet.members(group)


@contextlib.contextmanager
def told(config: pytest.Config, what: str) -> t.Iterator[None]:
    """Say on screen how long something took."""
    start = time.monotonic()
    yield
    capture = config.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled():
        print(f"\n{what}: {time.monotonic() - start:.1f} s", flush=True)


@pytest.fixture(scope="session")
def awx(request: pytest.FixtureRequest) -> t.Iterator[Client]:
    if not (instance.BUILT / "jobs").exists():
        pytest.fail("tests/awx/setup.sh has not been run; `make test-awx` does", pytrace=False)
    found = instance.running()
    with told(request.config, "AWX up"):
        used = found or instance.make(owner=os.getpid())
    try:
        yield Client(used.url, "admin", used.password)
    finally:
        if found is None:
            with told(request.config, "AWX down"):
                instance.end(used)


def new_organization(admin: Client) -> None:
    """What the example takes for granted: the machine's credential, and the teams, of which one has a member."""
    made = ensure(admin, "organizations", "Serving")
    machine = admin.find("credential_types", "Machine")
    ensure(admin, "credentials", "gpu hosts", organization=made["id"], credential_type=machine["id"])
    for team in ("serving-operators", "serving-engineers", "serving-leads"):
        ensure(admin, "teams", team, organization=made["id"])
    if not admin.all(f"/api/v2/users/?username={OPERATOR}"):
        user = admin.call("POST", "/api/v2/users/", {"username": OPERATOR, "password": uuid.uuid4().hex})
        admin.call("POST", f"{made['url']}users/", {"id": user["id"]})
        admin.call("POST", f"{admin.find('teams', 'serving-operators')['url']}users/", {"id": user["id"]})


def ensure(admin: Client, kind: str, name: str, **more: t.Any) -> Object:
    try:
        return admin.find(kind, name)
    except LookupError:
        return admin.call("POST", f"/api/v2/{kind}/", {"name": name, **more})


class Objects:
    """The playbook that makes the objects, as a person runs it: the example's file, and what is another here."""

    def __init__(self, admin: Client, fleet: project.Fleet, folder: Path) -> None:
        self.admin, self.fleet = admin, fleet
        self.values = folder / "here.yml"
        here = {
            "awx_scm_url": f"file://{fleet.project}",
            "awx_secrets": [{"variable": project.SECRET, "label": "Hugging Face token", "value": TOKEN}],
            # A test has it run; none is to begin by itself in the middle of others.
            "awx_schedules": {name: {"enabled": False} for name in ("status", "heal")},
        }
        self.values.write_text(yaml.safe_dump(here))
        self.values.chmod(0o600)

    def __call__(self, *words: str) -> Run:
        command = [playbook_command(), "-i", str(self.fleet.folder / "hosts.yml"), "inferops.pd.awx"]
        command += ["-e", f"@{self.fleet.project}/objects.yml", "-e", f"@{self.values}", *words]
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("CONTROLLER_HOST", self.admin.url)
            patch.setenv("CONTROLLER_USERNAME", self.admin.user)
            patch.setenv("CONTROLLER_PASSWORD", self.admin.password)
            patch.setenv("ANSIBLE_COLLECTIONS_PATH", f"{ROOT}/.build/collections:{instance.BUILT}/awx/collections")
            return run(command, 900)


@pytest.fixture(scope="session")
def lab(awx: Client, model: Path, request: pytest.FixtureRequest) -> t.Iterator[Lab]:
    folder = Path(tempfile.mkdtemp(prefix="pd-awx-project-"))
    fleet = project.make(folder / "project", project.build(folder), model, folder / "states")
    try:
        new_organization(awx)
        objects = Objects(awx, fleet, folder)
        with told(request.config, "objects, the first time"):
            first = objects()
        yield Lab(awx, fleet, objects, first)
    finally:
        fleet.clean()
        shutil.rmtree(folder, ignore_errors=True)
