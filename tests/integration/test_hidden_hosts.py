# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hosts seen by a user who is not the one that deployed: module host_facts as Ansible runs it, as that user, on files of its own."""

from __future__ import annotations

import json
import os
import pwd
import shlex
import shutil
import subprocess
import sys
import tempfile
import typing as t
from pathlib import Path

import planned
import pytest
from integration import support_runtime as support

from ansible_collections.inferops.pd.plugins.module_utils._runtimes import systemd_unit

NOBODY = "nobody"
PYTHON = "/usr/bin/python3"


def _can() -> str:
    """Why these cannot run here; empty when they can."""
    if os.geteuid() != 0:
        return "only root can become somebody else"
    if not all(shutil.which(program) for program in ("unshare", "su", "mount")) or not os.path.exists(PYTHON):
        return "there is no unshare, su, mount or system Python"
    done = subprocess.run(["unshare", "-m", "true"], capture_output=True, check=False)
    return "" if done.returncode == 0 else "no mount namespaces here"


pytestmark = [pytest.mark.integration, pytest.mark.skipif(bool(_can()), reason=_can() or "-")]


def facts(before: str = "true", as_root: bool = False, **options: t.Any) -> dict[str, t.Any]:
    """pd_host as nobody sees it, with /var/lib and the system's units empty but for what the commands `before` make."""
    become = [] if as_root else ["-b", "--become-user", NOBODY, "-e", "ansible_become_flags='-s /bin/sh'"]
    command = [
        sys.executable, "-m", "ansible", "adhoc", "localhost", *become, "--become-method", "su", "-m", "inferops.pd.host_facts",
        "-e", f"ansible_python_interpreter={PYTHON}", "-a", json.dumps({"runtimes": ["supervisor"], "gpus": [], **options}),
    ]  # fmt: skip
    script = (
        "mkdir -p /etc/systemd/system && mount -t tmpfs x /var/lib && mount -t tmpfs x /etc/systemd/system && chmod 755 /var/lib"
        f" && {before} && exec {shlex.join(command)}"
    )
    env = {
        **os.environ,
        "ANSIBLE_CONFIG": os.path.join(support.ROOT, "ansible.cfg"),
        "ANSIBLE_LOAD_CALLBACK_PLUGINS": "1",
        "ANSIBLE_STDOUT_CALLBACK": "ansible.builtin.oneline",
        "ANSIBLE_LOCALHOST_WARNING": "0",
        "ANSIBLE_INVENTORY_UNPARSED_WARNING": "0",
    }
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", script],
        cwd=support.ROOT, capture_output=True, text=True, timeout=180, env=env, check=False,
    )  # fmt: skip
    line = next((text for text in done.stdout.splitlines() if "=> {" in text), None)
    assert line is not None, f"{done.stdout}\n{done.stderr}"
    told = json.loads(line[line.index("=> {") + 3 :])
    assert not told.get("failed"), told
    return t.cast("dict[str, t.Any]", told["ansible_facts"]["pd_host"])


@pytest.fixture
def open_folder() -> t.Iterator[Path]:
    """A folder that everybody may look into: pytest's own are for root alone, and each pytest that starts makes sure of it."""
    path = Path(tempfile.mkdtemp(prefix="pd-hidden-", dir="/tmp"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


@pytest.fixture
def folder(open_folder: Path) -> Path:
    """A state folder of root's with a member."""
    member = open_folder / "state/groups/g/members/g-prefill-0"
    member.mkdir(parents=True)
    label = {"group": "g", "member": "g-prefill-0", "role": "prefill", "index": 0, "revision": "r", "generation": 1}
    (member / "label.json").write_text(json.dumps({**label, "runtime": "supervisor", "url": "http://127.0.0.1:1"}))
    (open_folder / "state").chmod(0o700)
    return open_folder / "state"


def test_a_host_without_members_can_be_judged_by_anybody() -> None:
    told = facts()
    assert (told["hidden"], told["members"]) == ("", [])
    assert told["state"]["device"] is None
    assert told["machine"]["netns"]


def test_members_of_the_system() -> None:
    told = facts("mkdir -m 700 /var/lib/inferops-pd")
    assert "members of the system are kept in /var/lib/inferops-pd, and user nobody looks into" in told["hidden"]
    assert "Run with become (ansible_become: true), or as user root; " in told["hidden"]
    assert (told["members"], told["records"]) == ([], {})
    assert facts("mkdir -m 700 /var/lib/inferops-pd", as_root=True)["hidden"] == ""
    assert facts("mkdir -m 700 /var/lib/inferops-pd", state_dir="/tmp/pd-of-nobody")["hidden"] == ""


def test_a_unit_of_the_system() -> None:
    made = planned.member({"id": "g-prefill-0"})
    text = systemd_unit.render(made, made.leader, "g", "/srv/pd/x", "/srv/pd", user=False)
    told = facts(f"echo {shlex.quote(text)} > /etc/systemd/system/inferops-pd-g-prefill-0.service")
    assert "unit inferops-pd-g-prefill-0.service belongs to the members in /srv/pd" in told["hidden"]


def test_a_state_folder_of_somebody_else(folder: Path) -> None:
    told = facts(state_dir=str(folder))
    assert told["hidden"] == (
        f"{folder} belongs to user root, and user nobody may not read it. Run with become (ansible_become: true), or as user root."
    )
    assert (told["members"], told["records"], told["state"]["id"]) == ([], {}, None)
    assert told["ports"]["used"] is not None
    assert [m["label"]["member"] for m in facts(state_dir=str(folder), as_root=True)["members"]] == ["g-prefill-0"]


def test_a_state_folder_whose_members_are_somebody_elses(folder: Path) -> None:
    folder.chmod(0o755)
    told = facts(state_dir=str(folder))
    assert f"{folder} belongs to user root, and Ansible is user nobody here." in told["hidden"]
    # Made for this user by root, and root has run there once.
    os.chown(folder, pwd.getpwnam(NOBODY).pw_uid, -1)
    (folder / "groups").chmod(0o700)
    assert (
        f"{folder}/groups belongs to user root, and user nobody may not read it."
        in facts(state_dir=str(folder))["hidden"]
    )


def test_a_state_folder_behind_one_that_is_somebody_elses(folder: Path) -> None:
    told = facts(state_dir=str(folder / "inner"))
    assert f"user nobody may not look into {folder}, where {folder}/inner would be." in told["hidden"]


def test_a_state_folder_that_root_made_for_this_user(open_folder: Path) -> None:
    made = open_folder / "made"
    made.mkdir()
    made.chmod(0o777)
    told = facts(state_dir=str(made))
    assert (told["hidden"], told["members"]) == ("", [])
