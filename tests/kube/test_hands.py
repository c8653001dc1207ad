# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What somebody else does to a group's objects, and what its runs say of that."""

from __future__ import annotations

import json
import time
import typing as t
from pathlib import Path

import pytest
from kube.server import Server
from kube.site import IMAGE, Cluster, cluster
from ports import free_block

from ansible_collections.inferops.pd.plugins.module_utils._core.cluster import names

pytestmark = pytest.mark.integration


@pytest.fixture
def site(tmp_path: Path, model: Path, api_server: Server) -> t.Iterator[Cluster]:
    made = cluster(tmp_path / "site", api_server, model, free_block(25))
    try:
        yield made
    finally:
        made.stop()


def test_a_strangers_pod_has_the_name_of_a_member(site: Cluster) -> None:
    pod = {"containers": [{"name": "x", "image": IMAGE, "command": ["sleep", "600"]}], "hostNetwork": True}
    site.api.create(site.namespace.path("pods"), {"metadata": {"name": "g-decode-0"}, "spec": pod})
    run = site.play("deploy")
    print(run.out)
    assert run.rc != 0
    assert "a Pod of this name is there already" in run.out
    found = site.api.get(site.namespace.path("pods", "g-decode-0"))
    assert found["spec"]["containers"][0]["name"] == "x"


def test_a_strangers_service_has_the_name_of_the_endpoint(site: Cluster) -> None:
    site.api.create(
        site.namespace.path("services"),
        {"metadata": {"name": "pd-g"}, "spec": {"ports": [{"port": 80}], "selector": {"app": "x"}}},
    )
    run = site.play("deploy")
    print(run.out)
    assert run.rc != 0
    assert "is none of this collection's" in run.out
    assert site.api.get(site.namespace.path("services", "pd-g"))["spec"]["selector"] == {"app": "x"}


def test_a_record_that_somebody_deletes_takes_nothing_down(site: Cluster) -> None:
    site.play("deploy").ok()
    before = site.starts()
    site.api.delete(site.namespace.path("configmaps", "pd-g"))
    assert site.starts() == before
    assert site.ask()[0] == 200
    status = site.play("status")
    print(status.out)
    check = site.play("deploy", "--check")
    print(check.out)


def test_a_record_that_cannot_be_read(site: Cluster) -> None:
    site.play("deploy").ok()
    before = site.starts()
    site.api.patch(site.namespace.path("configmaps", "pd-g"), {"data": {"record": "{torn"}})
    status = site.play("status")
    print(status.out)
    run = site.play("deploy")
    print(run.out)
    assert site.starts() == before


def test_a_label_that_somebody_takes_away(site: Cluster) -> None:
    site.play("deploy").ok()
    before = site.starts()
    site.namespace.note("g-decode-0", **{names.LABEL: None})
    status = site.play("status")
    print(status.out)
    run = site.play("deploy")
    print(run.out)
    assert site.starts() == before


def test_another_run_holds_the_lock(site: Cluster) -> None:
    site.play("deploy").ok()
    held = {
        "run": "theirs",
        "who": "ops@elsewhere pid 7",
        "since": 1.0,
        "expires": time.time() + 600,
        "process": {"pid": 7, "machine": "x"},
    }
    body = {
        "metadata": {
            "name": "pd-g",
            "labels": names.labels("g"),
            "annotations": {f"{names.DOMAIN}/lock": json.dumps(held)},
        },
        "spec": {"holderIdentity": "ops@elsewhere"},
    }
    site.api.create(site.namespace.path("coordination.k8s.io/v1/leases"), body)
    run = site.play("restart", pd_group="g")
    print(run.out)
    assert run.rc != 0
    assert "ops@elsewhere pid 7 is changing it" in run.out
    site.play("restart", pd_group="g", pd_break_lock="true").ok()
    assert site.generation() == 2


def test_a_cluster_that_does_not_answer(site: Cluster) -> None:
    site.hosts["k1"]["pd_cluster"]["kubeconfig"] = "/nowhere"
    site.write()
    run = site.play("deploy")
    print(run.out)
    assert run.rc != 0
    assert "Traceback" not in run.out
    site.hosts["k1"]["pd_cluster"] = {"namespace": "x", "hosst": "y"}
    site.write()
    run = site.play("deploy")
    print(run.out)
    assert "Did you mean host" in run.out
