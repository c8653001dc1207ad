# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What becomes of a group when a node of its cluster is out of sight, lost, started anew or cordoned: no formation ever serves in part."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest
from integration.support_runtime import wait_for
from kube.server import Server
from kube.site import Cluster, cluster
from ports import free_block

pytestmark = pytest.mark.integration


@pytest.fixture
def site(tmp_path: Path, model: Path, api_server: Server) -> t.Iterator[Cluster]:
    """A group with its decode on the second of three nodes, which may be on the third as well."""
    made = cluster(tmp_path / "site", api_server, model, free_block(25), nodes=3)
    _first, *others = made.kubelets
    made.group["roles"]["decode"]["nodes"] = others
    made.write()
    made.play("deploy").ok()
    try:
        yield made
    finally:
        made.stop()


def node_of(site: Cluster, member: str) -> str:
    found = site.namespace.pod(member)
    return str(found.node) if found else ""


def test_a_node_out_of_sight_is_unknown_until_it_is_stated_to_be_lost(site: Cluster) -> None:
    before, gone = site.starts(), node_of(site, "g-decode-0")
    site.kubelets[gone].part()
    assert f"k1/{gone} did not answer and may still run g-decode-0" in site.play("status").out
    assert "nothing of the group is replaced or restarted" in site.play("deploy").ok().out
    assert site.starts() == before
    restart = site.play("restart", pd_group="g")
    assert restart.rc != 0
    assert site.starts() == before

    lost = site.play("deploy", pd_lost_hosts=f"k1/{gone}")
    lost.ok()
    assert node_of(site, "g-decode-0") not in ("", gone)
    assert site.ask()[0] == 200
    # It was not off after all: what it had ends when it is back, and nothing of it is asked meanwhile.
    worker = site.kubelets[gone].worker(site.namespace.namespace, "g-decode-0")
    assert worker is not None
    assert worker.running
    site.kubelets[gone].back()
    wait_for(lambda: not worker.running)
    site.play("deploy").ok()
    assert site.play("status").ok().out.count("RUNNING")


def test_a_node_that_is_back_has_its_members_as_they_were(site: Cluster) -> None:
    before, gone = site.starts(), node_of(site, "g-decode-0")
    site.kubelets[gone].part()
    site.play("deploy")
    site.kubelets[gone].back()
    site.play("deploy").ok()
    assert site.starts() == before
    assert site.ask()[0] == 200


@pytest.mark.parametrize("again", [True, False])
def test_a_node_that_was_started_anew_starts_no_member_by_itself(site: Cluster, again: bool) -> None:
    before, gone = site.starts(), node_of(site, "g-decode-0")
    site.kubelets[gone].reboot(again)
    wait_for(lambda: site.pods.get("g-decode-0") == "exited")
    status = site.play("status")
    assert "decode 0/1" in status.out
    site.play("deploy").ok()
    now = site.starts()
    assert {name for name in now if now[name] != before.get(name)} == {"g-decode-0"}
    assert site.generation() == 1
    assert site.ask()[0] == 200


def test_a_cordoned_node_keeps_what_it_has_and_gets_nobody(site: Cluster) -> None:
    before, shut = site.starts(), node_of(site, "g-decode-0")
    site.api.patch(f"/api/v1/nodes/{shut}", {"spec": {"unschedulable": True}})
    site.play("deploy").ok()
    assert site.starts() == before
    site.play("scale", pd_group="g", pd_decode=2).ok()
    assert node_of(site, "g-decode-1") not in ("", shut)


def test_a_node_is_emptied(site: Cluster) -> None:
    before, node = site.starts(), node_of(site, "g-decode-0")
    loose = site.play("evacuate", pd_host=f"k1/{node}")
    assert f"First run: kubectl cordon {node}" in loose.out
    assert site.starts() == before
    site.api.patch(f"/api/v1/nodes/{node}", {"spec": {"unschedulable": True}})
    run = site.play("evacuate", pd_host=f"k1/{node}")
    run.ok()
    assert f"k1/{node} is empty" in run.out
    assert [one.name for one in site.namespace.pods(node)] == []
    assert "decode 1/1" in site.play("status").ok().out
    unknown = site.play("evacuate", pd_host="k1/nowhere")
    assert "the cluster has no such node" in unknown.out
