# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One AWX for all tests of this folder, with the example's objects in it. One that is up already is used, and left."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
import time
import typing as t
import uuid
from dataclasses import dataclass
from pathlib import Path

import pytest
from awx import instance, project
from awx.client import Client
from integration.conftest import model  # noqa: F401
from support import ROOT, Run, run

ORGANIZATION = "Serving"
OPERATOR = "olga"


@dataclass
class Lab:
    """An AWX that has the objects of inferops.pd, and what they are about."""

    admin: Client
    fleet: project.Fleet
    folder: Path
    objects: t.Callable[..., Run]
    # The first run of the objects' playbook.
    first: Run

    def operator(self) -> Client:
        """Somebody who is told by the objects to operate, by a token."""
        user = self.admin.find("users", OPERATOR)
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
        used = found or instance.make()
    try:
        yield Client(used.url, "admin", used.password)
    finally:
        if found is None:
            shutil.copytree(used.folder / "log", instance.BUILT / "log", dirs_exist_ok=True)
            with told(request.config, "AWX down"):
                used.down()


@pytest.fixture(scope="session")
def lab(awx: Client, model: Path, request: pytest.FixtureRequest) -> t.Iterator[Lab]:  # noqa: F811
    # Not in pytest's own folder, to which it is the only one that has the way: an AWX that is left up goes on with these.
    folder = Path(tempfile.mkdtemp(prefix="pd-awx-project-"))
    archive = project.build(folder)
    fleet = project.make(folder / "project", archive, model, folder / "states")

    def objects(*words: str, **extra: t.Any) -> Run:
        given = [word for name, value in extra.items() for word in ("-e", f"{name}={value}")]
        # Into the environment of ansible-playbook, as a person does: awx.awx reads these.
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("CONTROLLER_HOST", awx.url)
            patch.setenv("CONTROLLER_USERNAME", "admin")
            patch.setenv("CONTROLLER_PASSWORD", password_of(awx))
            patch.setenv("ANSIBLE_COLLECTIONS_PATH", f"{ROOT}/.build/collections:{instance.BUILT}/awx/collections")
            return run(["ansible-playbook", *OBJECTS, *words, *given], 900)

    try:
        with told(request.config, "objects, the first time"):
            first = objects()
        yield Lab(awx, fleet, folder / "project", objects, first)
    finally:
        fleet.clean()
        shutil.rmtree(folder, ignore_errors=True)
