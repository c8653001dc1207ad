# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""examples/healing in use: an alert as Alertmanager sends it reaches a real ansible-rulebook, which heals the group that it names."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import typing as t
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from integration import support_runtime
from integration.conftest import Life
from integration.test_playbooks_heal import ALL, end
from support import ROOT

pytestmark = [pytest.mark.integration, pytest.mark.apart]
# It needs a Java runtime and an environment of its own, which the test environments have not: PD_ANSIBLE_RULEBOOK names one.
RULEBOOK = os.environ.get("PD_ANSIBLE_RULEBOOK") or shutil.which("ansible-rulebook")


def post(port: int, token: str, status: str, group: str) -> int:
    """What Alertmanager sends of the alerts of one group. The status of the answer, 0 where there is none."""
    alert = {"status": status, "labels": {"alertname": "MemberDown", "pd_group": group}, "annotations": {}}
    body = {
        "version": "4",
        "status": status,
        "receiver": "heal",
        "groupLabels": {"pd_group": group},
        "commonLabels": {"alertname": "MemberDown", "pd_group": group},
        "alerts": [alert],
    }
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {token}"}
    request = urllib.request.Request(f"http://127.0.0.1:{port}/alertmanager", json.dumps(body).encode(), headers)
    try:
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=10) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as exc:
        return exc.code
    except OSError:
        return 0


@pytest.mark.skipif(not RULEBOOK, reason="no ansible-rulebook here: PD_ANSIBLE_RULEBOOK=/path/to/ansible-rulebook")
def test_an_alert_heals_the_group_that_it_names(make_site: t.Callable[..., Life], tmp_path: Path) -> None:
    site = make_site()
    site.play("deploy").ok()
    before, port = site.pids(), site.port + 7
    inventory = tmp_path / "inventory"
    inventory.mkdir()
    shutil.copy(site.folder / "hosts.yml", inventory)
    book = tmp_path / "heal.rulebook.yml"
    book.write_text((ROOT / "examples/healing/heal.rulebook.yml").read_text().replace("port: 5001", f"port: {port}"))
    environment = {**os.environ, "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"), "PD_HEAL_TOKEN": "let"}
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"
    log = tmp_path / "rulebook.log"
    command = [str(RULEBOOK), "-r", str(book), "-i", str(inventory), "-E", "PD_HEAL_TOKEN"]
    with log.open("w") as told:
        running = subprocess.Popen(command, env=environment, cwd=ROOT, stdout=told, stderr=subprocess.STDOUT)
    try:
        support_runtime.wait_for(lambda: post(port, "another", "firing", "g") == 401, 120, "the rulebook to listen")
        end(site, "g-decode-0")
        assert post(port, "let", "resolved", "g") == 200
        assert "g-decode-0" not in site.pids()
        assert post(port, "let", "firing", "g") == 200
        support_runtime.wait_for(lambda: site.pids().keys() >= ALL, 180, "the member to come back")
        support_runtime.wait_for(lambda: site.lock() is None and site.ask()[0] == 200, 120, "the end of the run")
    finally:
        running.terminate()
        running.wait(30)
    after = site.pids()
    assert {name for name in ALL if after[name] != before[name]} == {"g-decode-0"}, log.read_text()[-3000:]
