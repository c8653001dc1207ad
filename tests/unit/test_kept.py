"""The templates of a group as its record keeps them, and back: members are rendered as they were, whatever the spec says by now."""

from __future__ import annotations

import copy
import json
import typing as t

import pytest
from builders import Fleet, Made, catalogue, judge, spec
from unit.test_mode_plans import SPECS
from unit.test_mode_plans import fleet as mode_fleet

from ansible_collections.inferops.pd.plugins.module_utils._core.base.checked import DamagedError
from ansible_collections.inferops.pd.plugins.module_utils._core.facts.record import read
from ansible_collections.inferops.pd.plugins.module_utils._core.template.kept import group_of, template_of
from ansible_collections.inferops.pd.plugins.module_utils._core.template.role import revision_of

HOSTS = {"h1": {"gpus": 4}, "h2": {"gpus": 4}}
CACHED = {"kv_cache": {"provider": "lmcache", "service": "10.0.0.9:50051"}}
IMAGES = ("registry.example/engine@sha256:" + "0" * 64, "registry.example/router:1")
# Beside each mode: what else makes a member what it is.
MORE: dict[str, dict[str, t.Any]] = {
    "containers": {
        "runtime": "docker",
        "engine": {
            "executable": ...,
            "image": IMAGES[0],
            "mounts": ["/models:/models:ro"],
            "secrets": {"HF_TOKEN": "x"},
            "env": {"A": "${member.address}"},
            "devices": ["/dev/infiniband"],
        },
        "prefill": {"extra_env": {"B": "1"}},
        "router": {"executable": ..., "image": "registry.example/router:1", "resources": {"cpu": 2, "memory": "2GiB"}},
    },
    "restart membership": {"router": {"membership": "restart"}},
    "own router": {"router": {"command": ["/opt/mine/route", "--to=${peers.prefill}"]}},
    "cache in the engine": {"kv_cache": {"provider": "in_process", "options": {"size": "8GiB"}}},
    "cache service": CACHED,
    "lease": {"kv_lease": 60, "kv_load_failure_policy": "recompute"},
}


def back(raw: dict[str, t.Any]) -> tuple[t.Any, t.Any]:
    """(the verdict on a spec, the template that is read back from the record of its plan)."""
    verdict = judge(raw)
    assert verdict.template is not None, verdict.findings.to_plain()
    noted = record(raw)
    kept = read(json.loads(json.dumps(noted)), "a record").applied
    assert kept is not None
    group = group_of("demo", kept, None)
    assert group is not None
    template, why = template_of(kept, group, catalogue())
    assert template is not None, why
    return verdict, template


def record(raw: dict[str, t.Any]) -> dict[str, t.Any]:
    """The record of a plan of the spec, whatever its hosts lack."""
    return t.cast("dict[str, t.Any]", Fleet(h1={"gpus": 8}).plan(raw).plan["record"])


RAWS = {
    **{name: spec(mode=name, **copy.deepcopy(one)) for name, one in SPECS.items()},
    **{name: spec(**copy.deepcopy(one)) for name, one in MORE.items()},
}


@pytest.mark.parametrize("name", sorted(RAWS))
def test_what_is_kept_is_the_same_template(name: str) -> None:
    verdict, template = back(RAWS[name])
    assert template.masked() == verdict.template.masked()
    assert template.revision == verdict.template.revision == revision_of(template.masked())
    for role, was in verdict.template.roles.items():
        now = template.roles[role]
        for key in (
            "argv",
            "env",
            "executable",
            "files",
            "gpus",
            "sizes",
            "bands",
            "image",
            "pull",
            "secrets",
            "host_ipc",
        ):
            assert getattr(now, key) == getattr(was, key), (role, key)
        assert (now.mounts, now.devices, dict(now.resources)) == (was.mounts, was.devices, dict(was.resources))
        assert (now.cache.label() if now.cache else None) == (was.cache.label() if was.cache else None)
        mine, theirs = (
            {key: getattr(one, key) for key in ("name", "address", "scope", "given_host", "given_port")}
            if one
            else None
            for one in (now.service, was.service)
        )
        assert mine == theirs
        assert bool(now.without_cache) == bool(was.without_cache)
        if was.without_cache and now.without_cache:
            assert now.without_cache.rendered() == was.without_cache.rendered()
    assert (template.policy, template.membership) == (verdict.template.policy, verdict.template.membership)


def parts(made: Made) -> dict[str, dict[str, t.Any]]:
    """What each member is, without what its label says."""
    return {name: {k: v for k, v in made.part(name).items() if k != "labels"} for name in made.members}


def hosts_of(name: str, raw: dict[str, t.Any]) -> Fleet:
    """Hosts that have all that a spec names."""
    if name in SPECS:
        return mode_fleet(name)
    images = (
        {one: {"exists": True, "id": f"id {one}", "digest": "d"} for one in IMAGES}
        if raw["runtime"] == "docker"
        else {}
    )
    return Fleet(h1={"gpus": 4, "images": images})


@pytest.mark.parametrize("name", sorted(RAWS))
def test_members_come_back_as_they_were(name: str) -> None:
    """Rendered from the record they are what the spec has made of them, on the same hosts and ports."""
    raw = copy.deepcopy(RAWS[name])
    if name in SPECS:
        for role, host in (("prefill", "gpu1"), ("decode", "gpu2"), ("router", "edge")):
            raw["roles"][role]["hosts"] = host
    here = hosts_of(name, raw)
    was = here.deploy(raw)
    lost = [f"{here.name}-decode-0", f"{here.name}-prefill-0"]
    here.kill(*lost)
    made = here.from_record(raw)
    # A router with its peers on its command line is replaced when they go.
    again = [f"{here.name}-router-0"] if made.router["policy"] == "restart" else []
    assert (made.errors, sorted(made.who("replace"))) == ([], [*lost, *again])
    assert parts(made) == parts(was)
    for member, one in was.members.items():
        back = made.members[member]
        for key in ("revision", "probe", "stop", "restart", "address", "kv_address", "url"):
            assert back[key] == one[key], (member, key)
        if member not in lost:
            continue
        mine, theirs = (m["parts"][0]["labels"] for m in (back, one))
        assert {k: v for k, v in mine.items() if k not in ("met", "peers")} == {
            k: v for k, v in theirs.items() if k not in ("met", "peers")
        }


# -- what cannot be read, or carried ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        {"applied": 3},
        {"applied": {"roles": 3}},
        {"applied": {"roles": {"prefill": {}}}},
        {"applied": {"engines": {"prefill": 3}, "roles": {}}},
        {"previous": [1]},
        {"held": {"revision": 7}},
    ],
)
def test_a_damaged_one_is_told_and_is_no_traceback(change: dict[str, t.Any]) -> None:
    with pytest.raises(DamagedError, match="the record of group demo"):
        read({**record(spec()), **change}, "the record of group demo")


def test_a_damaged_record_is_a_finding_of_a_plan() -> None:
    fleet_ = Fleet(**HOSTS)
    fleet_.deploy(spec())
    for facts in fleet_.facts.values():
        for noted in facts["records"].values():
            noted["applied"]["roles"]["prefill"]["bands"] = 3
    made = fleet_.plan(spec())
    assert made.errors == ["state-damaged"]


def test_a_record_of_an_earlier_version_says_that_it_is_not_known() -> None:
    noted = record(spec())
    noted.pop("applied")
    assert read(noted, "a record").applied is None


def test_a_record_repeats_nothing_of_its_members() -> None:
    """It is read and compared by every run: what it keeps of a formation does not grow with it."""
    small, large = (record(spec(prefill={"replicas": n, "gpus": 1})) for n in (1, 4))
    assert len(json.dumps(small["applied"])) == len(json.dumps(large["applied"]))
    assert len(json.dumps(small["applied"])) < 3000


def test_no_value_of_a_secret_is_kept() -> None:
    raw = copy.deepcopy(RAWS["containers"])
    raw["engine"]["secrets"] = {"HF_TOKEN": "hf_verysecret"}
    text = json.dumps(record(raw))
    assert "HF_TOKEN" in text
    assert "verysecret" not in text
