"""A group returns to what ran before and was proven, is held there, and goes on when it is released."""

from __future__ import annotations

import copy
import typing as t

import pytest
from builders import ENGINE, MODEL, Fleet, Made, catalogue, only, spec

from ansible_collections.inferops.pd.plugins.module_utils._core.base.finding import Findings
from ansible_collections.inferops.pd.plugins.module_utils._core.facts import applied
from ansible_collections.inferops.pd.plugins.module_utils._core.plan.hosts import Hosts
from ansible_collections.inferops.pd.plugins.module_utils._core.plan.situation import Reality, Situation
from ansible_collections.inferops.pd.plugins.module_utils._core.plan.source import FromRecord, no_return
from ansible_collections.inferops.pd.plugins.module_utils._core.rules.validate import Catalogue
from ansible_collections.inferops.pd.plugins.module_utils._core.spec.spec import parse

HOSTS = {"h1": {"gpus": 4}, "h2": {"gpus": 4}}
ROLES = {"prefill": {"hosts": "h1", "gpus": 1}, "decode": {"hosts": "h2", "gpus": 1}}


def of(length: int, **more: t.Any) -> dict[str, t.Any]:
    """A spec; each length is another revision."""
    roles = {role: {**one, **more.pop(role, {})} for role, one in ROLES.items()}
    return spec(engine={"executable": ENGINE, "args": [f"--max-model-len={length}"]}, **roles, **more)


def ran(*lengths: int, unproven: t.Collection[int] = ()) -> Fleet:
    """A group that was deployed with the first spec, and restarted onto each of the others."""
    fleet = Fleet(**copy.deepcopy(HOSTS))
    for number, length in enumerate(lengths):
        made = fleet.plan(of(length), "restart" if number else "deploy")
        assert not made.errors, made.findings.to_plain()
        fleet.carry_out(made, unproven=["demo"] if length in unproven else [])
    return fleet


def noted(fleet: Fleet) -> dict[str, t.Any]:
    return t.cast("dict[str, t.Any]", fleet.facts["h1"]["records"]["demo"])


def back(fleet: Fleet, raw: t.Any, to: str = "previous", **more: t.Any) -> Made:
    return fleet.from_record(raw, "restart", to=to, **more)


def lengths(made: Made) -> set[str]:
    return {word for m in made.members.values() for word in m["parts"][0]["argv"] if "max-model-len" in word}


# -- what is kept --------------------------------------------------------------------------------------------------------------------------


def test_what_was_proven_is_kept_when_another_takes_its_place() -> None:
    fleet = ran(4096)
    first = noted(fleet)
    assert "previous" not in first
    assert first["applied"]["proven"]["generation"] == 1
    assert first["applied"]["identity"]["decode"] == {"engine": "0.32.0", "model": "abc123"}
    fleet.apply(fleet.plan(of(8192), "restart"))
    kept = noted(fleet)["previous"]
    assert (kept["revision"], kept["generation"], kept["desired"]) == (
        first["revision"],
        1,
        {"prefill": 1, "decode": 1},
    )
    assert kept["templates"] == first["templates"]
    assert kept["applied"]["proven"] == {
        "generation": 1,
        "formed": first["formed"],
        "identity": first["applied"]["identity"],
    }
    assert "previous" not in kept


def test_what_was_never_proven_pushes_nothing_out() -> None:
    fleet = ran(4096, 8192, 16384, unproven=[8192])
    assert noted(fleet)["previous"]["revision"] == ran(4096).facts["h1"]["records"]["demo"]["revision"]
    fleet = ran(4096, 8192, 16384)
    assert noted(fleet)["previous"]["generation"] == 2


def test_a_restart_onto_the_same_keeps_what_was_before() -> None:
    fleet = ran(4096, 8192)
    before = noted(fleet)["previous"]
    fleet.apply(fleet.plan(of(8192), "restart"))
    assert noted(fleet)["previous"] == before
    assert fleet.status(of(8192))["previous"]["revision"] == before["revision"]
    # Its proof failed this time; the configuration was proven all the same.
    fleet.carry_out(fleet.plan(of(8192), "restart"), unproven=["demo"])
    fleet.apply(fleet.plan(of(16384), "restart"))
    assert noted(fleet)["previous"]["generation"] == 3


def test_what_nobody_proved_is_nothing_to_return_to() -> None:
    fleet = ran(4096, 8192, unproven=[4096])
    made = back(fleet, of(8192))
    assert made.errors == ["nothing-to-return-to"]
    assert made.plan["steps"] == []


def test_an_unchanged_deploy_changes_no_record() -> None:
    fleet = ran(4096, 8192)
    made = fleet.plan(of(8192))
    assert (made.plan["changed"], made.plan["steps"]) == (False, [])


# -- the return ----------------------------------------------------------------------------------------------------------------------------


def test_it_returns_is_proven_and_held() -> None:
    fleet = ran(4096, 8192)
    first = noted(fleet)["previous"]
    made = back(fleet, of(8192))
    assert (made.errors, lengths(made), made.plan["revision"]) == ([], {"--max-model-len=4096"}, first["revision"])
    assert "decode args: --max-model-len=8192 -> 4096" in made.text
    fleet.apply(made)
    after = noted(fleet)
    assert (after["revision"], after["generation"]) == (first["revision"], 3)
    assert after["held"] == {
        "revision": first["revision"],
        "why": "it was returned to what ran before, by test@here",
        "since": 1003.0,
    }
    assert after["applied"]["proven"]["generation"] == 3
    # What was left was proven, too, and can be gone back to.
    assert after["previous"]["generation"] == 2
    assert fleet.status(of(8192))["state"] == "running"


def test_held_a_deploy_shows_what_is_pending_and_a_restart_is_refused() -> None:
    fleet = ran(4096, 8192)
    fleet.apply(back(fleet, of(8192)))
    made = fleet.plan(of(8192))
    assert (made.plan["pending"], made.plan["changed"], made.errors) == (True, False, [])
    refused = fleet.plan(of(8192), "restart")
    told = only(refused.findings, "group-held")
    assert refused.errors == ["group-held"]
    assert "-e pd_release=demo" in told.hint
    assert "held" in {mark["mark"] for mark in fleet.status(of(8192))["marks"]}
    # The edit undone, it is what it is held at.
    assert fleet.plan(of(4096), "restart").errors == []


def test_released_it_goes_onto_its_spec() -> None:
    fleet = ran(4096, 8192)
    fleet.apply(back(fleet, of(8192)))
    fleet.apply(fleet.plan(of(16384), "restart", release=True))
    assert "held" not in noted(fleet)
    assert fleet.plan(of(16384)).plan["pending"] is False


def test_a_deploy_releases_as_well_and_restarts_nothing() -> None:
    fleet = ran(4096, 8192)
    fleet.apply(back(fleet, of(8192)))
    made = fleet.apply(fleet.plan(of(8192), release=True))
    assert (made.plan["changed"], made.who("create"), made.plan["pending"]) == (True, [], True)
    assert "held" not in noted(fleet)


def test_a_lost_member_of_a_held_group_comes_back_as_it_is_held() -> None:
    fleet = ran(4096, 8192)
    fleet.apply(back(fleet, of(8192)))
    fleet.kill("demo-decode-0")
    made = fleet.apply(fleet.plan(of(8192)))
    assert made.who("replace") == ["demo-decode-0"]
    assert lengths(made) == {"--max-model-len=4096"}


def test_a_held_group_of_which_nothing_runs_forms_as_it_is_held() -> None:
    fleet = ran(4096, 8192)
    fleet.apply(back(fleet, of(8192)))
    fleet.kill("demo-prefill-0", "demo-decode-0", "demo-router-0")
    made = fleet.apply(fleet.plan(of(8192)))
    assert (made.errors, lengths(made), made.plan["generation"]) == ([], {"--max-model-len=4096"}, 4)
    assert noted(fleet)["held"]
    assert fleet.plan(of(8192)).plan["pending"] is True


def test_as_it_runs_it_restarts_while_a_change_is_pending() -> None:
    fleet = ran(4096)
    made = fleet.apply(back(fleet, of(8192), to="applied"))
    assert (lengths(made), made.plan["generation"]) == ({"--max-model-len=4096"}, 2)
    assert "held" not in noted(fleet)
    assert "previous" not in noted(fleet)


def test_its_spec_may_be_what_is_wrong() -> None:
    fleet = ran(4096, 8192)
    for raw in ({"mode": 3}, None, {**of(8192), "nonsense": True}):
        assert back(fleet, raw).errors == []


def test_it_returns_with_the_counts_that_it_had() -> None:
    fleet = Fleet(**copy.deepcopy(HOSTS))
    fleet.apply(fleet.plan(of(4096, decode={"replicas": 2})))
    fleet.apply(fleet.plan(of(8192, decode={"replicas": 1}), "restart"))
    made = back(fleet, of(8192, decode={"replicas": 1}))
    assert made.plan["desired"]["decode"] == 2


# -- what cannot be returned to is known before anything stops ---------------------------------------------------------------------------


def image(fleet: Fleet, name: str, **facts: t.Any) -> None:
    for one in fleet.facts.values():
        one.setdefault("images", {})[name] = {
            "exists": True,
            "id": f"sha256:id-{name}",
            "digest": f"sha256:{name}",
            **facts,
        }


def contained(tag: str, pull: str = "never") -> dict[str, t.Any]:
    engine = {"image": tag, "pull": pull, "mounts": ["/models:/models"]}
    router = {"hosts": "h1", "port": 8000, "image": "router", "executable": ..., "pull": pull}
    return spec(runtime="docker", engine={**engine, "executable": ...}, router=router, **ROLES)


def in_containers(pull: str = "never") -> Fleet:
    fleet = Fleet(**copy.deepcopy(HOSTS))
    for name in ("one", "two", "router"):
        image(fleet, name)
    fleet.deploy(contained("one", pull))
    fleet.apply(fleet.plan(contained("two", pull), "restart"))
    return fleet


def test_an_image_that_is_gone_and_is_not_pulled() -> None:
    fleet = in_containers()
    assert back(fleet, contained("two")).errors == []
    fleet.facts["h2"]["images"]["one"] = {"exists": False, "pullable": True}
    assert back(fleet, contained("two")).errors == ["image-missing"]


def test_an_image_that_its_registry_gives_is_fetched_and_is_the_same() -> None:
    fleet = in_containers("missing")
    gone = {"exists": False, "pullable": True, "id": None}
    fleet.facts["h2"]["images"]["one"] = {**gone, "digest": "sha256:one"}
    assert back(fleet, contained("two")).errors == []
    fleet.facts["h2"]["images"]["one"] = {**gone, "digest": "sha256:newer"}
    assert "sha256:newer" in only(back(fleet, contained("two")).findings, "return-differs").message


@pytest.mark.parametrize(
    ("facts", "told"),
    [
        ({"models": {MODEL: {"exists": True, "fingerprint": "another"}}}, "model fingerprint (another)"),
        ({"executables": {ENGINE: {"exists": True, "version": "0.33.0"}}}, "engine version (0.33.0)"),
    ],
)
def test_another_model_or_engine_than_it_was(facts: dict[str, dict[str, t.Any]], told: str) -> None:
    fleet = ran(4096, 8192)
    for one in fleet.facts.values():
        for key, its in facts.items():
            one[key] |= its
    made = back(fleet, of(8192))
    assert set(made.errors) == {"return-differs"}
    assert all(told in f.message and "Nothing was stopped" in f.message for f in made.findings.errors)
    # A restart onto the spec adopts what is there, as ever.
    assert fleet.plan(of(8192), "restart").errors == []


def test_a_secret_whose_name_is_gone() -> None:
    fleet = Fleet(**copy.deepcopy(HOSTS))
    old = of(4096)
    old["engine"]["secrets"] = {"HF_TOKEN": "x", "API_KEY": "y"}
    fleet.deploy(old)
    fleet.apply(fleet.plan(of(8192), "restart"))
    told = only(back(fleet, of(8192)).findings, "applied-not-carried")
    assert "secrets API_KEY, HF_TOKEN, which its spec does not give any more" in told.message
    both = of(8192)
    both["engine"]["secrets"] = {"HF_TOKEN": "z", "API_KEY": "y"}
    assert back(fleet, both).errors == []


def test_hosts_that_its_counts_do_not_fit() -> None:
    fleet = Fleet(h1={"gpus": 4}, h2={"gpus": 2})
    fleet.apply(fleet.plan(of(4096, decode={"replicas": 2})))
    fleet.apply(fleet.plan(of(8192, decode={"replicas": 1}), "restart"))
    fleet.facts["h2"]["gpus"] = fleet.facts["h2"]["gpus"][:1]
    assert back(fleet, of(8192)).errors == ["does-not-fit"]


def test_a_mode_that_cannot_carry_it() -> None:
    fleet = ran(4096, 8192)
    full = catalogue()
    made = back(fleet, of(8192), catalogue=Catalogue({}, full.engine))
    assert "mode vllm-nixl is not there any more" in only(made.findings, "applied-not-carried").message


def test_without_a_record_it_is_not_known() -> None:
    assert back(Fleet(**HOSTS), of(4096)).errors == ["applied-unknown"]
    fleet = ran(4096, 8192)
    for one in fleet.facts.values():
        one["records"]["demo"].pop("applied")
        one["records"]["demo"].pop("previous")
    assert "did not keep" in only(back(fleet, of(8192)).findings, "applied-unknown").message


def test_whether_it_could_return_is_known_before_a_change() -> None:
    fleet = ran(4096)

    def why(to: t.Any = "applied", raw: t.Any = None) -> str:
        group = parse("demo", raw or of(8192), Findings())
        reality = Reality(Hosts(fleet.hosts()), fleet.run())
        asked = FromRecord("demo", "restart", to, {"prefill": ["h1"], "decode": ["h2"]}, reality, catalogue(), group)
        return no_return(asked, Situation.of("demo", fleet.hosts(), (), ()))

    assert why() == ""
    assert why("previous") == "no configuration before this one was proven"
    fleet.facts["h2"]["models"][MODEL]["fingerprint"] = "another"
    assert why() == "model fingerprint on h2: abc123 -> another"
    noted(fleet)["applied"].pop("proven")
    assert why() == "no proof of it was good"


def test_hosts_look_at_what_their_records_keep() -> None:
    fleet = in_containers()
    found = applied.sources(noted(fleet))
    assert {one.get("image") for one in found} == {"one", "two", "router"}
    assert {one.get("model") for one in found} == {MODEL, None}
    for odd in (
        {},
        {"applied": 3},
        {"applied": {"roles": [1]}},
        {"previous": {"applied": {"roles": {"a": {"source": 1}}}}},
    ):
        assert applied.sources(odd) == []
