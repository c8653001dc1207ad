# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The life of a group in containers, led by the playbooks: stand-in engines and a stand-in router in an image of this machine's Python."""

from __future__ import annotations

import json
import os
import signal
import typing as t
from pathlib import Path

import pytest
from docker_engine import IMAGE, Engine, fixture_engine
from integration.conftest import STANDIN, Life, spec
from integration.support_runtime import wait_for
from ports import free_block

pytestmark = pytest.mark.integration
pytest.importorskip("docker.api.client", reason="the Python library docker is not installed")
engine = pytest.fixture(scope="module")(fixture_engine)
ALL = ["g-decode-0", "g-prefill-0", "g-router-0"]


class Fleet(Life):
    """A site whose members are containers."""

    engine: Engine

    def started(self) -> dict[str, str]:
        """When each running container was started."""
        found = (self.engine.inspect(name) for name in self.engine.names())
        return {f["Name"].lstrip("/"): f["State"]["StartedAt"] for f in found if f["State"]["Running"]}


@pytest.fixture
def site(tmp_path: Path, model: Path, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> t.Iterator[Fleet]:
    # pd_docker_host is for inventories; this is for whoever runs docker by hand as well.
    monkeypatch.setenv("DOCKER_HOST", engine.url)
    low = free_block(25)
    mounts = [f"{STANDIN}:/standin:ro"]
    group = spec(
        model,
        low,
        runtime="docker",
        engine={
            "image": IMAGE,
            "executable": "/standin/vllm",
            "mounts": mounts,
            "secrets": {"HF_TOKEN": "hunter2-hunter2"},
        },
        router={"executable": "/standin/vllm-router", "mounts": mounts},
    )
    host = {"pd_port_range": f"{low + 1}-{low + 24}", "pd_docker_host": engine.url}
    made = Fleet(tmp_path / "site", {"node": host}, {"g": group})
    made.port, made.engine = low, engine
    yield made
    names = engine.names()
    if names:
        engine.docker("rm", "-f", *names)
    made.clean()


def test_from_check_to_nothing(site: Fleet) -> None:
    check = site.play("deploy", "--check", "--diff").ok()
    assert "+ [start] create g-prefill-0 on node" in check.out
    assert check.changed > 0
    assert site.untouched()
    assert site.engine.names() == []

    run = site.play("deploy", "--diff").ok()
    assert f"Endpoint: http://127.0.0.1:{site.port} (model tiny)" in run.out
    assert "hunter2" not in run.out
    before = site.started()
    assert sorted(before) == ALL
    assert site.ask()[0] == 200
    for name in ALL:
        assert "hunter2" not in json.dumps(site.engine.inspect(name))

    again = site.play("deploy", "--diff").ok()
    assert again.changed == 0
    assert site.started() == before

    site.play("scale", pd_group="g", pd_decode=2).ok()
    grown = site.started()
    assert sorted(grown) == sorted([*ALL, "g-decode-1"])
    assert before.items() <= grown.items(), "what served goes on untouched"
    site.play("restart", pd_group="g").ok()
    after = site.started()
    assert sorted(after) == sorted([*ALL, "g-decode-1"])
    assert not set(after.values()) & set(before.values())
    assert site.record()["generation"] == 2

    site.play("remove", pd_group="g").ok()
    assert site.engine.names() == []
    assert site.untouched()


def test_a_restart_on_another_runtime_leaves_nothing_of_the_first(site: Fleet) -> None:
    site.play("deploy").ok()
    before = site.started()
    group = site.group
    group["runtime"] = "supervisor"
    group["engine"] = {"executable": str(STANDIN / "vllm"), "env": group["engine"]["env"]}
    group["roles"]["router"]["executable"] = str(STANDIN / "vllm-router")
    for role in group["roles"].values():
        role.pop("mounts", None)
    site.write()
    assert "pending" in site.play("deploy").ok().out
    assert site.started() == before
    site.play("restart", pd_group="g").ok()
    assert site.engine.names() == []
    assert sorted(site.pids()) == ALL
    assert site.ask()[0] == 200
    assert site.play("deploy").ok().changed == 0
    site.play("remove", pd_group="g").ok()
    assert site.untouched()


def test_a_model_is_looked_at_where_it_is_mounted_from(site: Fleet, model: Path) -> None:
    """The path of the spec is the container's alone: the host has the model elsewhere."""
    inside = f"/weights-of-the-test/{model.name}"
    site.group["model"] = inside
    site.group["engine"]["mounts"].append(f"{model.parent}/none:/weights-of-the-test:ro")
    site.write()
    told = " ".join(site.play("deploy").refused().out.split())
    assert (
        f"{inside} ({model.parent}/none/{model.name} on the host, by the mounts of decode and prefill) is not there"
        in told
    )
    assert site.engine.names() == []

    site.group["engine"]["mounts"][-1] = f"{model.parent}:/weights-of-the-test:ro"
    site.write()
    site.play("deploy").ok()
    assert sorted(site.started()) == ALL
    member = site.engine.inspect("g-prefill-0")
    assert [m["Destination"] for m in member["Mounts"] if m["Source"] == str(model.parent)] == ["/weights-of-the-test"]
    assert site.ask()[0] == 200
    assert site.play("deploy").ok().changed == 0
    assert not site.play("status").ok().out.count("identity_moved")


def test_what_goes_wrong_around_a_running_group(site: Fleet) -> None:
    site.play("deploy").ok()
    before = site.started()
    # The recipe has three restarts for a crash: the container engine does the first by itself.
    pid = site.engine.inspect("g-decode-0")["State"]["Pid"]
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: site.engine.inspect("g-decode-0")["RestartCount"] == 1, 15, "a restart")
    # A container that somebody removed is a lost member: status says it, deploy replaces it, and it alone.
    site.engine.docker("rm", "-f", "g-prefill-0")
    assert "its container is gone" in " ".join(site.play("status").ok().out.split())
    site.play("deploy").ok()
    now = site.started()
    assert sorted(now) == ALL
    assert now["g-router-0"] == before["g-router-0"]
    assert now["g-prefill-0"] != before["g-prefill-0"]

    # A dead engine: the host is unknown, and nothing is changed.
    record = site.record()
    site.engine.stop()
    try:
        told = " ".join(site.play("deploy").refused().out.split())
        assert "systemctl start docker" in told
        assert site.record() == record
    finally:
        site.engine.start()
    assert site.started() == {}, "nothing starts with the container engine"
    site.play("deploy").ok()
    assert sorted(site.started()) == ALL
    assert site.ask()[0] == 200


def test_what_is_refused_before_anything_starts(site: Fleet) -> None:
    site.engine.docker("create", "--name", "g-prefill-0", IMAGE, "sleep", "9")
    told = " ".join(site.play("deploy").refused().out.split())
    assert "there is a container of that name which is not this member" in told
    assert site.engine.names() == ["g-decode-0", "g-prefill-0"]
    assert not site.engine.inspect("g-prefill-0")["State"]["Running"]
