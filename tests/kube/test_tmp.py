from __future__ import annotations
import typing as t
from pathlib import Path
import pytest
from kube.server import Server
from kube.site import IMAGE, Cluster, cluster
from ports import free_block
from integration.support_runtime import wait_for

pytestmark = pytest.mark.integration


@pytest.fixture
def site(tmp_path: Path, model: Path, api_server: Server) -> t.Iterator[Cluster]:
    made = cluster(tmp_path / "site", api_server, model, free_block(25))
    try:
        yield made
    finally:
        made.stop()


def test_x(site: Cluster) -> None:

    site.play("deploy").ok()
    site.api.delete(site.namespace.path("pods", "g-decode-0"))
    wait_for(lambda: "g-decode-0" not in site.pods)
    print(site.play("heal").out)
    site.env(STANDIN_LOAD="0.2")
    (site.folder / "group_vars" / "all.yml").write_text(
        "pd_rollouts: {r: {groups: g, waves: [{percent: 100, soak: 2}]}}\n"
    )
    print(site.play("rollout", pd_rollout="r").out)
    print(site.generation())
    site.env(STANDIN_LOAD="0.3")
    (site.folder / "group_vars" / "all.yml").write_text(
        "pd_rollouts: {r: {groups: g, strategy: beside, waves: [{percent: 100, soak: 2}]}}\n"
    )
    print(site.play("rollout", pd_rollout="r").out)
    print(site.play("status").out)
