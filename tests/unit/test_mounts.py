"""Host facts are judged through the mounts of a container: a path inside is another one on the host."""

from __future__ import annotations

import json

import pytest
from builders import MODEL, Fleet, host_facts, judge, only, spec

from ansible_collections.inferops.pd.plugins.module_utils._core.base.mounts import Mounts
from ansible_collections.inferops.pd.plugins.module_utils._core.facts.observed import read_host
from ansible_collections.inferops.pd.plugins.module_utils._core.spec.known import Known
from ansible_collections.inferops.pd.plugins.module_utils._core.work.member import Part
from ansible_collections.inferops.pd.plugins.module_utils._runtimes import docker_bound

IMAGE = "registry.example/engine@sha256:" + "0" * 64


@pytest.mark.parametrize(
    ("mounts", "path", "on_host"),
    [
        (["/data/models:/models:ro"], "/models/m", "/data/models/m"),
        (["/data/models:/models:ro"], "/models", "/data/models"),
        (["/data/models:/models/"], "/models//m/", "/data/models/m"),
        (["/data/models:/models:ro"], "/modelsother/m", "/modelsother/m"),
        (["/data:/models", "/fast/m:/models/m"], "/models/m/config.json", "/fast/m/config.json"),
        (["/models"], "/models/m", "/models/m"),
        (["/data/x:/models"], "/models/../models/./m", "/data/x/m"),
        (["/:/models"], "/models/a/../m", "/m"),
        (["/data:/"], "/models/m", "/data/models/m"),
        (["/:/host"], "/host/srv/m", "/srv/m"),
        ([{"source": "/data", "target": "/models", "mode": "ro"}], "/models/m", "/data/m"),
        ([{"source": "/models"}], "/models/m", "/models/m"),
        (["weights:/models"], "/models/m", None),
        (["/data/${member.id}:/models"], "/models/m", None),
        (["relative"], "/models/m", "/models/m"),
        ([False, None, 7, {}], "/models/m", "/models/m"),
        (["/data:/models"], "Qwen/Qwen3-32B", "Qwen/Qwen3-32B"),
        ([], "/models/m", "/models/m"),
    ],
)
def test_where_a_path_inside_is_on_the_host(mounts, path, on_host):
    assert Mounts(mounts).on_host(path) == on_host


def mounted(*mounts, **changes):
    return spec(runtime="docker", engine={"image": IMAGE, "args": [], "mounts": list(mounts)}, **changes)


def host_with(*paths, **model):
    """Short facts of a host that has the model at each of the paths."""
    facts = {path: {"exists": True, "fingerprint": "abc", **model} for path in paths}
    image = {"exists": True, "digest": "sha256:1", "id": "sha256:1"}
    return {"gpus": 2, "models": facts, "images": {IMAGE: image}}


def group_of(raw):
    found = judge(raw).group
    assert found is not None
    return found


def test_the_host_is_asked_for_the_directory_that_is_mounted():
    assert group_of(mounted("/data/models:/models:ro")).models() == ("/data/models/m",)
    assert group_of(mounted()).models() == (MODEL,)
    other = mounted("/data/models:/models", decode={"hosts": "h1", "mounts": ["/fast:/models"]})
    assert group_of(other).models() == ("/data/models/m", "/fast/m")
    assert group_of(mounted("weights:/models")).models() == ()
    assert group_of(mounted("/srv/${served_model_name}:/models/m")).models() == ("/srv/demo",)


def test_mounts_say_nothing_where_no_container_is():
    assert group_of(spec(engine={"executable": "/e", "mounts": ["/data:/models"]})).models() == (MODEL,)


def test_the_config_is_the_one_that_the_host_has_there():
    raw = mounted("/data/models:/models")
    host = read_host("h1", host_facts(**host_with("/data/models/m", config={"num_experts": 8})))
    assert Known(hosts={"h1": host}).config_of(group_of(raw)) == {"num_experts": 8}


def test_a_model_that_is_mounted_is_there():
    made = Fleet(h1=host_with("/data/models/m")).plan(mounted("/data/models:/models:ro"))
    assert "model-missing" not in made.errors
    part = made.members["demo-prefill-0"]["parts"][0]
    assert part["model"] == MODEL
    assert part["labels"]["source"]["model"] == "/data/models/m"
    assert made.members["demo-prefill-0"]["identity"]["model"] == "abc"


def test_a_model_that_is_missing_where_it_is_mounted_from_names_both_places():
    made = Fleet(h1=host_with(MODEL)).plan(mounted("/data/models:/models:ro"))
    told = only(made.findings, "model-missing")
    assert MODEL in told.message
    assert "/data/models/m on the host, by the mounts of decode and prefill" in told.message


def test_two_hosts_that_mount_different_models_differ():
    fleet = Fleet(h1=host_with("/data/m"), h2=host_with("/data/m", fingerprint="def"))
    made = fleet.plan(mounted("/data:/models", decode={"hosts": "h2"}))
    assert "model-differs" in made.errors


def test_a_model_in_a_volume_is_unverified_and_not_missing():
    made = Fleet(h1=host_with()).plan(mounted("weights:/models"))
    assert "model-missing" not in made.codes
    assert "volume" in only(made.findings, "identity-unverified").hint


def test_the_hosts_own_directory_does_not_hide_what_is_mounted(tmp_path):
    model = tmp_path / "models" / "m"
    model.mkdir(parents=True)
    (model / "config.json").write_text(json.dumps({}))
    part = Part("h1", 0, (), 40000, {}, model=str(model), argv=("serve", str(model)))
    assert docker_bound.models(part) == [(str(model), str(model))]
    over = Part(
        "h1", 0, (), 40000, {}, model=str(model), argv=("serve", str(model)), mounts=(f"/elsewhere:{tmp_path}/models",)
    )
    assert docker_bound.models(over) == []
