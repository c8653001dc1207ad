"""A spec as a user writes it: shape, keys, counts, and what each role inherits."""

from __future__ import annotations

import json
from dataclasses import dataclass

import pytest
from builders import ENGINE, ROUTER, cases, check_findings, codes, judge, only, spec, spec_of

from ansible_collections.inferops.pd.plugins.module_utils._core.base.finding import as_text
from ansible_collections.inferops.pd.plugins.module_utils._core.rules.validate import below
from ansible_collections.inferops.pd.plugins.module_utils._core.spec import fields, row
from ansible_collections.inferops.pd.plugins.module_utils._core.spec import spec as core


@pytest.mark.parametrize("row", [*cases("spec"), *cases("rules"), *cases("written")])
def test_findings(row):
    check_findings(judge(spec_of(row)).findings.items, row["findings"])


# -- the table of fields ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class WithNice(core.Role):
    """The table with a row more: what a new field takes."""

    nice: int | None = row.row(
        row.integer(0, 19), "engine", *row.ROLES, default=None, inherited_by=row.ROLES, revision="where set"
    )


def test_a_row_of_the_table_is_all_that_a_field_takes(monkeypatch):
    before = judge(spec())
    monkeypatch.setattr(core, "Role", WithNice)
    unset, verdict = judge(spec()), judge(spec(engine={"nice": "5"}, decode={"nice": 7}))
    assert codes(verdict.findings) == []
    assert [role.nice for role in verdict.group.roles.values()] == [5, 7, 5]
    assert [verdict.group.to_plain()["roles"][name]["nice"] for name in core.ROLES] == [5, 7, 5]
    assert [verdict.template.roles[name].masked()["nice"] for name in core.ROLES] == [5, 7, 5]
    assert verdict.template.revision != before.template.revision
    # What does not write it is what it was before there was such a field.
    assert unset.template.revision == before.template.revision
    assert unset.group.to_plain() == before.group.to_plain()
    assert "from 0 to 19" in only(judge(spec(decode={"nice": 99})).findings, "bad-value").message
    assert "Did you mean 'nice'?" in only(judge(spec(decode={"nise": 9})).findings, "unknown-key").hint


@pytest.mark.parametrize("table", fields.TABLES)
def test_every_row_is_of_a_known_place_and_has_a_default_that_may_be_shown(table):
    for one in row.rows(fields.TABLES[table]).values():
        assert one.at
        assert set(one.at) <= set(row.PLACES)
        assert set(one.inherited_by) <= set(row.ROLES)
        assert not one.inherited_by or "engine" in one.at, one.key
        json.dumps(row.plain(one.default))


# -- inheritance ------------------------------------------------------------------------------------------------------


def role(name: str, **changes):
    verdict = judge(spec(**changes))
    assert verdict.group is not None
    return verdict.group.roles[name]


ENGINE_FIELDS = {
    "version": ("0.31", "0.32"),
    "image": ("one@sha256:1", "two@sha256:2"),
    "executable": ("/a/vllm", "/b/vllm"),
    "command": (["/a", "serve"], ["/b", "serve"]),
    "args": (["--seed=1"], ["--seed=2"]),
    "env": ({"A": "1"}, {"B": "2"}),
    "mounts": (["/a:/a"], ["/b:/b"]),
    "devices": (["/dev/a"], ["/dev/b"]),
}


def plain(value):
    return list(value) if isinstance(value, tuple) else value


@pytest.mark.parametrize("field", ENGINE_FIELDS)
def test_a_field_left_out_is_inherited_and_one_written_replaces_it_whole(field):
    of_engine, of_role = ENGINE_FIELDS[field]
    changes = {"engine": {field: of_engine}, "decode": {field: of_role}}
    assert plain(getattr(role("prefill", **changes), field)) == of_engine
    assert plain(getattr(role("decode", **changes), field)) == of_role


@pytest.mark.parametrize(("field", "empty"), [("args", []), ("env", {}), ("mounts", []), ("devices", [])])
def test_an_empty_list_or_dictionary_replaces_what_would_be_inherited(field, empty):
    inherited = ENGINE_FIELDS[field][0]
    assert plain(getattr(role("prefill", engine={field: inherited}, prefill={field: empty}), field)) == empty


def test_null_is_the_same_as_not_written():
    assert role("prefill", engine={"args": ["--seed=1"]}, prefill={"args": None}).args == ("--seed=1",)


def test_no_secrets_replace_those_of_the_engine():
    changes = {"engine": {"secrets": {"HF_TOKEN": "t"}}, "decode": {"secrets": {}}}
    assert role("prefill", **changes).secrets == ("HF_TOKEN",)
    assert role("decode", **changes).secrets == ()
    assert core.secrets_of(spec(**changes), "prefill") == {"HF_TOKEN": "t"}
    assert core.secrets_of(spec(**changes), "decode") == {}


def test_extra_args_and_extra_env_add_to_what_is_inherited():
    prefill = role(
        "prefill",
        engine={"args": ["--seed=1"], "env": {"A": "1", "B": "1"}},
        prefill={"extra_args": ["--seed=2"], "extra_env": {"B": "2"}},
    )
    assert prefill.args == ("--seed=1", "--seed=2")
    assert prefill.env == {"A": "1", "B": "2"}


def test_extra_args_add_to_a_roles_own_too():
    assert role("prefill", prefill={"args": [], "extra_args": ["--seed=2"]}).args == ("--seed=2",)


def test_the_router_inherits_image_and_env_and_never_the_engines_args():
    router = role(
        "router",
        engine={"image": "one@sha256:1", "env": {"A": "1"}, "args": ["--seed=1"], "mounts": ["/a:/a"]},
    )
    assert (router.image, dict(router.env)) == ("one@sha256:1", {"A": "1"})
    assert (router.args, router.mounts, router.version, router.command) == ((), (), None, None)
    assert router.executable == ROUTER


def test_what_a_spec_leaves_out():
    verdict = judge(spec())
    group = verdict.group
    assert group is not None
    assert (group.served_model_name, group.readiness, group.kv_load_failure_policy) == ("demo", "any_per_role", "fail")
    assert group.limits == {"start": 1800, "stop": 30, "drain": 60}
    assert (group.roles["prefill"].replicas, group.roles["prefill"].gpus) == (1, None)


def test_the_runtime_is_docker_unless_written():
    assert judge(spec(runtime=...)).group.runtime == "docker"


def test_env_values_become_text():
    env = role("prefill", prefill={"env": {"A": 1, "B": 0.5, "C": True, "D": None, "E": "x"}}).env
    assert env == {"A": "1", "B": "0.5", "C": "1", "D": "", "E": "x"}


def test_the_spec_in_results_says_what_each_role_has():
    shown = judge(spec(engine={"secrets": {"HF_TOKEN": "hf_very_secret"}})).group.to_plain()
    assert shown["roles"]["prefill"]["executable"] == ENGINE
    assert shown["roles"]["prefill"]["args"] == ["--max-model-len=32768"]
    assert shown["roles"]["decode"]["secrets"] == ["HF_TOKEN"]
    assert json.loads(json.dumps(shown)) == shown


# -- names ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["demo", "a", "qwen3-32b", "team.a-1", "a" * 48])
def test_names_of_groups(name):
    assert "bad-group-name" not in codes(judge(spec(), name=name).findings)


@pytest.mark.parametrize("name", ["", "Demo", "-a", "a-", "a b", "a/b", "a_b", "a" * 49, "demo\n", "../x"])
def test_names_that_no_group_can_have(name):
    assert only(judge(spec(), name=name).findings, "bad-group-name").severity == "error"


@pytest.mark.parametrize("name", ["A\n", "A=B", "1A", "", "A B"])
def test_names_that_no_environment_variable_can_have(name):
    assert codes(judge(spec(prefill={"env": {name: "1"}})).findings) == ["bad-value"]


# -- secrets ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "secrets",
    [
        {"HF_TOKEN": "hunter2"},
        {"HF_TOKEN": ["hunter2"]},
        {"HF-TOKEN": "hunter2"},
        ["HF_TOKEN=hunter2"],
        "HF_TOKEN=hunter2",
        [{"HF_TOKEN": "hunter2"}],
    ],
    ids=str,
)
@pytest.mark.parametrize("place", ["engine", "prefill", "router"])
def test_no_finding_repeats_a_secret(secrets, place):
    findings = judge(spec(**{place: {"secrets": secrets}})).findings.to_plain()
    assert "hunter2" not in json.dumps(findings)


@pytest.mark.parametrize("engine", [[{"secrets": {"HF_TOKEN": "hunter2"}}], "secrets: hunter2"], ids=str)
def test_no_finding_repeats_a_secret_of_an_engine_that_is_no_dictionary(engine):
    assert "hunter2" not in json.dumps(judge(spec(engine=engine)).findings.to_plain())


# -- counts beyond reason ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", ["9" * 5000, "1000000000", 10**9], ids=["5000 digits", "text", "number"])
def test_a_count_beyond_reason_is_refused(count):
    """A slip of the finger must not make a plan of a thousand million members."""
    assert codes(judge(spec(prefill={"replicas": count})).findings) == ["bad-value"]


# -- as text ----------------------------------------------------------------------------------------------------------


def test_findings_are_shown_worst_first_with_what_to_do():
    found = judge(spec(engine={"version": "0.1"}, prefill={"replica": 1})).findings.to_plain()
    assert [f["severity"] for f in found] == ["error", "warning", "warning"]
    lines = as_text(found).splitlines()
    assert lines[0] == "- ERROR unknown-key: pd_groups.demo.roles.prefill.replica: there is no such key."
    assert lines[1] == "    Did you mean 'replicas'?"
    assert found[0]["link"].endswith("docs/findings.md#unknown-key")


@pytest.mark.parametrize(
    ("fail_on", "fails"), [("error", False), ("unverified", False), ("warning", True), ("never", False)]
)
def test_fail_on_is_the_mildest_severity_that_fails(fail_on, fails):
    assert judge(spec(engine={"version": "0.1"})).findings.fails(fail_on) is fails


@pytest.mark.parametrize(
    ("version", "known", "is_below"),
    [
        ("0.27.0", ">=0.27.1", True),
        ("v0.27.0", ">=0.27.1", True),
        ("0.27.1", ">=0.27.1", False),
        ("0.27", ">=0.27.1", True),
        ("0.28", ">=0.27.1", False),
        ("1", ">=0.27.1", False),
        ("0.9.9", ">= 0.27", True),
        ("0.27.0rc1", ">=0.27.1", False),
        ("nightly", ">=0.27.1", False),
        ("0.1", "any", False),
    ],
)
def test_a_version_is_below_a_floor_only_when_it_is_certain(version, known, is_below):
    assert below(version, known) is is_below
