# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The life of a group in a cluster, led by the playbooks: a real API server, stand-in engines, a stand-in for kubelet that runs them."""

from __future__ import annotations

import threading
import typing as t
from pathlib import Path

import pytest
from integration.support_runtime import wait_for
from kube.server import Server
from kube.site import Cluster, cluster
from ports import free_block

from ansible_collections.inferops.pd.plugins.module_utils._core.cluster import names

pytestmark = pytest.mark.integration
ALL = ["g-decode-0", "g-prefill-0", "g-router-0"]


@pytest.fixture
def site(tmp_path: Path, model: Path, api_server: Server) -> t.Iterator[Cluster]:
    made = cluster(tmp_path / "site", api_server, model, free_block(25))
    try:
        yield made
    finally:
        made.stop()


def test_what_a_check_shows(site: Cluster) -> None:
    run = site.play("deploy", "--check", "--diff")
    run.ok()
    assert site.pods == {}


def test_from_nothing_to_nothing(site: Cluster) -> None:
    run = site.play("deploy", "--diff").ok()
    assert f"Endpoint: http://127.0.1.1:{site.port} (model tiny)" in run.out
    assert "1 of 1 pairs move the KV cache and answer right" in run.out
    assert site.pods == dict.fromkeys(ALL, "running")
    assert site.served_by() == ["g-router-0"]
    assert site.ask()[0] == 200
    before = site.starts()

    again = site.play("deploy").ok()
    assert again.changed == 0, again.out
    assert site.starts() == before
    status = site.play("status").ok()
    assert "g: RUNNING" in status.out, status.out

    # A member that somebody deletes is replaced in its formation; the others go on.
    site.api.delete(site.namespace.path("pods", "g-decode-0"))
    wait_for(lambda: "g-decode-0" not in site.pods)
    down = site.play("status")
    assert "decode 0/1" in down.out, down.out
    site.play("deploy").ok()
    now = site.starts()
    assert {name for name in ALL if now[name] != before[name]} == {"g-decode-0"}
    assert site.generation() == 1

    # What the spec says next waits for a restart, and that stops all before anything starts.
    site.env(STANDIN_LOAD="0.2")
    pending = site.play("deploy").ok()
    assert "pending" in pending.out.lower()
    assert site.starts() == now
    site.play("restart", pd_group="g").ok()
    assert site.generation() == 2
    assert not set(site.starts().values()) & set(now.values())
    assert site.ask()[0] == 200

    site.play("scale", pd_group="g", pd_decode=2).ok()
    assert sorted(site.pods) == sorted([*ALL, "g-decode-1"])
    site.play("scale", pd_group="g", pd_decode=1, pd_allow_scale_down="true").ok()
    assert sorted(site.pods) == ALL

    site.play("remove", pd_group="g").ok()
    assert site.pods == {}
    assert site.left() == {}
    assert site.play("remove", pd_group="g").ok().changed == 0


class Errands:
    """Which kinds of errands go while this is open."""

    def __init__(self, site: Cluster) -> None:
        self.site, self.kinds = site, set[str]()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Errands:
        self._thread.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        path = self.site.namespace.path("pods")
        while not self._over.wait(0.1):
            found = self.site.api.listed(path, labelSelector=names.ERRAND)
            self.kinds |= {one["metadata"]["labels"][names.ERRAND] for one in found}


def test_a_life_where_members_are_reached_by_errands_alone(site: Cluster) -> None:
    """Whoever carries out for the cluster may be where no member's address leads: it speaks to the API and to nobody else."""
    site.hosts["k1"]["pd_cluster"]["reach"] = "errand"
    site.write()
    with Errands(site) as errands:
        first = site.play("deploy").ok()
        assert "1 of 1 pairs move the KV cache and answer right" in first.out
        assert site.ask()[0] == 200
        assert "g: RUNNING" in site.play("status").ok().out
        again = site.play("deploy").ok()
        assert again.changed == 0, again.out
        site.play("scale", pd_group="g", pd_decode=2).ok()
        down = site.play("scale", pd_group="g", pd_decode=1, pd_allow_scale_down="true").ok()
        assert "was not asked" not in down.out
    assert errands.kinds == {"look", "router", "proof", "peers", "leave"}
    assert sorted(site.pods) == ALL
    site.play("remove", pd_group="g").ok()
    assert site.left() == {}
