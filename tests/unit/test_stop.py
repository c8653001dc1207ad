"""`limits.stop: 0` is an answer: a member that leaves is killed within a second, not after the default."""

from __future__ import annotations

import pytest
from builders import Fleet, spec

from ansible_collections.inferops.pd.plugins.module_utils._core.work.member import Member, Stop
from ansible_collections.inferops.pd.plugins.module_utils._runtimes import docker_spec


@pytest.mark.parametrize(("grace", "seconds"), [(0, 0), (0.0, 0), (None, 30), (7, 7)])
def test_nothing_said_is_not_nothing(grace, seconds):
    assert Stop(grace).patience == seconds
    assert Stop.from_plain({"grace": grace}).patience == seconds


@pytest.mark.parametrize(("stop", "seconds"), [(0, 2), (30, 32), (7, 9)])
def test_a_container_is_given_what_the_spec_says(stop, seconds):
    image = "registry.example/engine@sha256:" + "0" * 64
    fleet = Fleet(h1={"gpus": 2, "images": {image: {"exists": True}}})
    made = fleet.plan(spec(runtime="docker", engine={"image": image}, limits={"stop": stop}))
    member = Member.from_plain(made.members["demo-prefill-0"])
    container = docker_spec.Container(image, member.leader.labels, "/state", "/start")
    assert docker_spec.render(member, member.leader, container, docker_spec.Traits())["StopTimeout"] == seconds
    assert f"sleep {max(1, stop)} &&" in docker_spec.render_start("m", "g", 1.0, member.stop.patience)
