# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The life of a group in a cluster, led by the playbooks: a real API server, stand-in engines, a stand-in for kubelet that runs them."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest
from kube.server import Server
from kube.site import Cluster, cluster
from ports import free_block

pytestmark = pytest.mark.integration


@pytest.fixture
def site(tmp_path: Path, model: Path, api_server: Server) -> t.Iterator[Cluster]:
    made = cluster(tmp_path / "site", api_server, model, free_block(25))
    yield made
    made.stop()


def test_what_a_check_shows(site: Cluster) -> None:
    run = site.play("deploy", "--check", "--diff")
    run.ok()
    assert site.pods == {}


def test_from_nothing_to_nothing(site: Cluster) -> None:
    run = site.play("deploy", "--diff")
    print(run.out)
    for name, one in site.kubelets.items():
        for worker in one.workers():
            print(name, worker.log.read_text()[-2000:] if worker.log.exists() else "")
    run.ok()
