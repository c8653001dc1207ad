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
    for check in ("--check", ""):
        run = site.play("deploy", *filter(None, [check]))
        assert run.rc != 0
        assert "g-decode-0 is none of this collection's" in run.out
        assert "nothing was changed" in run.out
    found = site.api.get(site.namespace.path("pods", "g-decode-0"))
    assert found["spec"]["containers"][0]["name"] == "x"
    assert site.left() == {}


def test_a_strangers_service_has_the_name_of_the_endpoint(site: Cluster) -> None:
    service = {"metadata": {"name": "pd-g"}, "spec": {"ports": [{"port": 80}], "selector": {"app": "x"}}}
    site.api.create(site.namespace.path("services"), service)
    run = site.play("deploy")
    assert run.rc != 0
    assert "pd-g is none of this collection's" in run.out
    assert site.api.get(site.namespace.path("services", "pd-g"))["spec"]["selector"] == {"app": "x"}
    assert site.left() == {}


def test_what_the_server_would_refuse_is_told_before_anything_stops(site: Cluster) -> None:
    site.play("deploy").ok()
    before = site.starts()
    site.group["kubernetes"] = {"priority_class": "nobody-has-it"}
    site.write()
    run = site.play("restart", pd_group="g")
    assert run.rc != 0
    assert "no PriorityClass with name nobody-has-it was found" in run.out
    assert site.starts() == before


@pytest.mark.parametrize("torn", [True, False])
def test_a_record_that_somebody_deletes_or_tears_takes_nothing_down(site: Cluster, torn: bool) -> None:
    site.play("deploy").ok()
    before = site.starts()
    path = site.namespace.path("configmaps", "pd-g")
    if torn:
        site.api.patch(path, {"data": {"record": "{torn"}})
    else:
        site.api.delete(path)
    assert "g: RUNNING" in site.play("status").ok().out
    site.play("deploy").ok()
    assert site.starts() == before
    site.env(STANDIN_LOAD="0.2")
    site.play("restart", pd_group="g").ok()
    assert site.generation() == 2
    assert json.loads(site.api.get(path)["data"]["record"])["generation"] == 2


def test_a_record_of_which_no_copy_can_be_read(site: Cluster) -> None:
    site.play("deploy").ok()
    before = site.starts()
    for name in ("pd-g", "pd.g"):
        site.api.patch(site.namespace.path("configmaps", name), {"data": {"record": "{torn"}})
    assert "state_damaged" in site.play("status").out
    run = site.play("deploy")
    assert run.rc != 0
    assert "what there is of the group is not known" in run.out
    assert site.starts() == before


def test_a_label_that_somebody_takes_away(site: Cluster) -> None:
    site.play("deploy").ok()
    before = site.starts()
    site.namespace.note("g-decode-0", **{names.LABEL: None})
    assert "may still run g-decode-0" in site.play("status").out
    run = site.play("deploy")
    assert "whether g-decode-0 runs is not known" in run.out
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
    assert run.rc != 0
    assert "ops@elsewhere pid 7 is changing it" in run.out
    site.play("restart", pd_group="g", pd_break_lock="true").ok()
    assert site.generation() == 2


def test_a_cluster_that_does_not_answer(site: Cluster) -> None:
    site.hosts["k1"]["pd_cluster"]["kubeconfig"] = "/nowhere"
    site.write()
    run = site.play("deploy")
    assert run.rc != 0
    assert "Traceback" not in run.out
    site.hosts["k1"]["pd_cluster"] = {"namespace": "x", "hosst": "y"}
    site.write()
    run = site.play("deploy")
    assert "Did you mean host" in run.out
