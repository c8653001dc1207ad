# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A group lives with the rights of the Role that is printed, and no more; and what is missing of them is told before anything begins."""

from __future__ import annotations

import json
import subprocess
import typing as t
from pathlib import Path

import pytest
import yaml
from kube.server import Server
from kube.site import Cluster, cluster
from ports import free_block

pytestmark = pytest.mark.integration
USER = "deployer"
SECRET = "hunter2-hunter2"


@pytest.fixture
def site(tmp_path: Path, model: Path, api_server: Server) -> t.Iterator[Cluster]:
    """Runs of it are those of a user without any right of its own."""
    made = cluster(tmp_path / "site", api_server, model, free_block(25))
    made.hosts["k1"]["pd_cluster"]["kubeconfig"] = str(api_server.kubeconfig(USER))
    made.group["engine"]["secrets"] = {"HF_TOKEN": SECRET}
    made.write()
    try:
        yield made
    finally:
        made.stop()


def printed(site: Cluster) -> list[dict[str, t.Any]]:
    """The objects that validate prints."""
    out = site.play("validate", pd_show_rbac="true").ok().out
    text = (
        out[out.index("# For k1") : out.index("TASK [Validate the specs]", out.index("# For k1"))]
        if "# For k1" in out
        else ""
    )
    return [one for one in yaml.safe_load_all(text) if isinstance(one, dict)]


def apply(site: Cluster, objects: t.Iterable[dict[str, t.Any]]) -> None:
    """As an administrator does, for the test's user in place of the account."""
    group = "/apis/rbac.authorization.k8s.io/v1"
    for one in objects:
        where = f"/namespaces/{one['metadata']['namespace']}" if one["metadata"].get("namespace") else ""
        kind = f"{one['kind'].lower()}s"
        path = f"/api/v1{where}/{kind}" if one["kind"] == "ServiceAccount" else f"{group}{where}/{kind}"
        if "subjects" in one:
            one = {**one, "subjects": [{"kind": "User", "name": USER, "apiGroup": "rbac.authorization.k8s.io"}]}
        site.api.create(path, one)


def test_a_life_with_the_printed_rights_alone(site: Cluster) -> None:
    refused = site.play("deploy")
    assert refused.rc != 0
    assert "Traceback" not in refused.out
    apply(site, printed(site))
    first = site.play("deploy", "--diff").ok()
    assert SECRET not in first.out
    assert site.play("deploy").ok().changed == 0
    assert "g: RUNNING" in site.play("status").ok().out
    site.env(STANDIN_LOAD="0.2")
    site.play("restart", pd_group="g").ok()
    site.play("scale", pd_group="g", pd_decode=2).ok()
    every = json.dumps([one.pod for one in site.namespace.pods()])
    assert SECRET not in every
    events = site.api.listed(site.namespace.path("events"))
    assert SECRET not in json.dumps(events)
    processes = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    assert SECRET not in processes
    site.play("remove", pd_group="g").ok()
    assert site.left() == {}


def test_what_is_missing_is_told_at_once(site: Cluster) -> None:
    objects = printed(site)
    role = next(one for one in objects if one["kind"] == "Role")
    for rule in role["rules"]:
        if rule["resources"] == ["pods"]:
            rule["verbs"].remove("delete")
        if rule["resources"] == ["leases"]:
            rule["verbs"].remove("create")
    apply(site, objects)
    run = site.play("deploy")
    assert run.rc != 0
    assert "may not delete pods, create leases.coordination.k8s.io there" in run.out
    assert "pd_show_rbac=true" in run.out
    assert site.left() == {}
    # Who only looks needs none of them.
    site.play("status").ok()
