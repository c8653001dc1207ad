# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What only a node itself can tell: looked at before a plan, by Pods that are gone after it."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest
from kube.server import Server
from kube.site import IMAGE, Cluster, cluster
from ports import free_block

pytestmark = pytest.mark.integration


@pytest.fixture
def site(tmp_path: Path, model: Path, api_server: Server) -> t.Iterator[Cluster]:
    made = cluster(tmp_path / "site", api_server, model, free_block(25))
    try:
        yield made
    finally:
        made.stop()


def test_models_of_nodes_are_compared(site: Cluster) -> None:
    """Both nodes are this machine, so that the model is the same; and then it is not there."""
    check = site.play("deploy", "--check").ok()
    assert "has no fingerprint" not in check.out
    assert "was not looked at" not in check.out
    assert site.pods == {}
    site.group["model"] = "/models/nowhere"
    site.write()
    gone = site.play("deploy", "--check")
    assert gone.rc != 0
    assert "model: /models/nowhere is not there on" in gone.out
    assert site.left().keys() <= {"configmaps"}


def test_a_node_without_the_image_is_told_as_what_nobody_has_looked_at(site: Cluster) -> None:
    for one in site.kubelets.values():
        one.images.pop(IMAGE)
        one.report()
    check = site.play("deploy", "--check").ok()
    assert "has no fingerprint" in check.out
    assert site.left() == {}
