# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What role awx makes is what AWX takes: each object against the arguments of its module, each survey against AWX's rules, and both against
the playbooks and variables of the collection. tests/awx/argument_specs.py writes the table of arguments from AWX's own source."""

from __future__ import annotations

import copy
import functools
import json
import re
import typing as t
from pathlib import Path

import pytest
import yaml
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from support import ROOT

from ansible_collections.inferops.pd.plugins.module_utils._core.awx.objects import (
    Object,
    Wanted,
    needs,
    objects,
    to_remove,
)
from ansible_collections.inferops.pd.plugins.module_utils._core.awx.survey import Choices
from ansible_collections.inferops.pd.plugins.module_utils._core.awx.there import (
    KINDS,
    difference,
    graph,
    graph_there,
    identity,
    query,
)
from ansible_collections.inferops.pd.plugins.module_utils._core.base.errors import PdError
from ansible_collections.inferops.pd.plugins.module_utils._core.spec.variables import KNOWN

ROLE, EXAMPLE = ROOT / "roles/awx", ROOT / "examples/awx"
TABLE = json.loads((ROOT / "tests/awx/argument_specs.json").read_text(encoding="utf-8"))["modules"]
FLEET = Choices(("qwen-a", "kimi-b"), ("vllm-0.33",))
PEOPLE = {
    "operators": {"teams": ["ops"], "users": ["ann"]},
    "changers": {"teams": ["engineers"]},
    "approvers": {"users": ["ann"]},
}


@functools.cache
def _parsed(path: Path) -> t.Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def read(path: Path) -> t.Any:
    return copy.deepcopy(_parsed(path))


def own() -> dict[str, t.Any]:
    """What the role has itself, as its tasks hand it on."""
    found = read(ROLE / "vars/main.yml")
    return {
        "every_template": found["awx_every_template"],
        "templates": found["awx_own_templates"],
        "questions": found["awx_questions"],
        "workflow": found["awx_own_workflow"],
        "schedules": found["awx_own_schedules"],
    }


def wanted(choices: Choices = FLEET, **given: t.Any) -> Wanted:
    """The role's defaults, with the example's values over them."""
    defaults = {name[len("awx_") :]: value for name, value in read(ROLE / "defaults/main.yml").items()}
    example = {name[len("awx_") :]: value for name, value in read(EXAMPLE / "objects.yml").items()}
    settings = {**defaults, **example, **given}
    secrets = {one["variable"]: one.get("label", "") for one in settings["secrets"]}
    return Wanted({**settings, "secrets": secrets}, own(), choices)


EVERYTHING = {
    "full": wanted(**PEOPLE, instance_groups=["gpus"], scm_credential="git"),
    "galaxy": wanted(
        galaxy_url="https://hub.example.com/", galaxy_auth_url="https://sso.example.com/", galaxy_token_given=True
    ),
    "bare": wanted(
        Choices(), image="", secrets=[], credentials=[], operators={}, changers={}, approvers={}, schedules={}
    ),
    "thinned": wanted(templates={"plan": False, "remove": False}, schedules={"heal": False}),
}


def found(made: t.Iterable[Object], kind: str) -> dict[str, Object]:
    return {one.label: one for one in made if one.kind == kind}


def surveys(one: Wanted) -> dict[str, list[dict[str, t.Any]]]:
    return {
        each.label: each.params["survey_spec"]["spec"]
        for each in objects(one)
        if "survey_spec" in each.params
    }  # fmt: skip


# -- what modules take ------------------------------------------------------------------------------------------------------------


def refused(kind: str, params: t.Mapping[str, t.Any]) -> list[str]:
    """What awx.awx would say of the parameters of one of its modules. Text is no number and no switch here: no parameter of ours is meant
    to be made into one."""
    spec = TABLE[kind]
    said = ArgumentSpecValidator(spec).validate(copy.deepcopy(dict(params))).error_messages
    kinds: dict[str, t.Any] = {"int": int, "bool": bool, "str": str, "dict": dict, "list": list}
    for name, value in params.items():
        wants = kinds.get((spec.get(name) or {}).get("type", "str"))
        if name in spec and wants and (not isinstance(value, wants) or (wants is int and isinstance(value, bool))):
            said.append(f"{name}: {value!r} is no {wants.__name__}")
    return list(said)


@pytest.mark.parametrize("settings", EVERYTHING)
def test_every_object_is_what_its_module_takes(settings):
    made = objects(EVERYTHING[settings])
    assert made
    assert {one.label: said for one in made if (said := refused(one.kind, one.params))} == {}


@pytest.mark.parametrize(
    ("kind", "params", "says"),
    [
        ("job_template", {"name": "x", "ask_limits": True}, "Supported parameters include"),
        ("job_template", {"name": "x", "job_type": "dry"}, "one of"),
        ("job_template", {"name": "x", "forks": "many"}, "forks"),
        ("job_template", {"name": "x", "credentials": "ssh"}, "credentials"),
        ("job_template", {}, "missing required"),
        ("role", {"role": "launch"}, "one of"),
    ],
)
def test_what_a_module_does_not_take_is_seen(kind, params, says):
    assert any(says in one for one in refused(kind, params))


def test_the_table_has_every_kind():
    assert set(TABLE) == set(KINDS)


NODE = {"identifier", "unified_job_template", "related", "extra_data"}


def test_nodes_have_what_awx_reads_of_them():
    (flow,) = found(objects(EVERYTHING["full"]), "workflow_job_template").values()
    nodes = flow.params["workflow_nodes"]
    assert {key for node in nodes for key in node} <= NODE
    assert {key for node in nodes for key in node.get("related", {})} <= {
        "success_nodes",
        "failure_nodes",
        "always_nodes",
    }
    identifiers = [node["identifier"] for node in nodes]
    assert len(identifiers) == len(set(identifiers))
    assert {one["identifier"] for node in nodes for each in node.get("related", {}).values() for one in each} <= set(
        identifiers
    )
    assert {node["unified_job_template"]["type"] for node in nodes} == {"job_template", "workflow_approval"}


@pytest.mark.parametrize("settings", EVERYTHING)
def test_what_an_object_stands_on_is_made_before_it_or_named_by_the_user(settings):
    one = EVERYTHING[settings]
    there = {str(each.query.get("name")) for each in needs(one)}
    for each in objects(one):
        if each.gone:
            continue
        p = each.params
        stands = [
            p.get(key) for key in ("organization", "project", "source_project", "inventory", "execution_environment")
        ]
        stands += [p.get("default_environment"), p.get("credential"), p.get("unified_job_template")]
        stands += [
            *p.get("credentials", ()),
            *p.get("job_templates", ()),
            *p.get("workflows", ()),
            *p.get("galaxy_credentials", ()),
        ]
        assert {str(name) for name in stands if name} <= there, each.label
        there.add(each.label)


# -- surveys ----------------------------------------------------------------------------------------------------------------------

TYPES = {"text": str, "textarea": str, "multiplechoice": str, "integer": int, "float": (float, int)}


def unusable(question: dict[str, t.Any]) -> str | None:
    """Why AWX would refuse a question, or would not give its default to who launches without an answer."""
    for key, kind in (("type", str), ("question_name", str), ("variable", str), ("required", bool)):
        if not isinstance(question.get(key), kind):
            return f"{key} is no {kind.__name__}"
    if question["type"] not in TYPES:
        return f"{question['type']} is no type"
    for key in ("min", "max"):
        if not isinstance(question.get(key, 0), int):
            return f"{key} is no number"
    default, choices = question.get("default", ""), question.get("choices")
    if (question["type"] == "multiplechoice") != bool(choices):
        return "choices"
    if choices and not all(isinstance(one, str) and one.strip() for one in choices):
        return "a choice is no text"
    if default == "":
        return None
    if not isinstance(default, TYPES[question["type"]]) or isinstance(default, bool):
        return "the default is of another type"
    if choices and default not in choices:
        return "the default is none of the choices"
    size = len(default) if isinstance(default, str) else default
    if not question.get("min", size) <= size <= question.get("max", size):
        return "the default is out of bounds"
    return "required, with a default: a launch without an answer is refused" if question["required"] else None


@pytest.mark.parametrize("settings", EVERYTHING)
def test_every_question_is_one_that_awx_takes(settings):
    asked = surveys(EVERYTHING[settings])
    assert asked
    bad = [(label, one["variable"], why) for label, spec in asked.items() for one in spec if (why := unusable(one))]
    assert bad == []
    for label, spec in asked.items():
        variables = [one["variable"] for one in spec]
        assert len(variables) == len(set(variables)) > 0, label
        assert set(variables) <= set(KNOWN), label


@pytest.mark.parametrize(
    "wrong",
    [
        {"type": "choice"},
        {"required": "yes"},
        {"choices": ["a"], "default": "b"},
        {"choices": []},
        {"choices": [1], "default": ""},
        {"required": True, "default": "keep"},
        {"type": "integer", "choices": None, "default": "2"},
        {"type": "integer", "choices": None, "min": 3, "default": 2},
    ],
)
def test_a_bad_question_is_seen(wrong):
    good = {
        "variable": "x",
        "question_name": "X",
        "type": "multiplechoice",
        "choices": ["keep"],
        "default": "keep",
        "required": False,
    }
    assert unusable(good) is None
    assert unusable({**good, **wrong}) is not None


def readers() -> dict[str, set[str]]:
    """Which playbooks read each variable, as docs/playbooks.md says it."""
    rows, last = {}, ""
    for line in (ROOT / "docs/playbooks.md").read_text(encoding="utf-8").splitlines():
        if not line.startswith("| `pd_"):
            continue
        names, where = line.split("|")[1:3]
        last = last if where.strip() == "the same" else where
        rows.update({name: {one.strip() for one in last.split(",")} for name in re.findall(r"`(pd_\w+)`", names)})
    return rows


def test_what_a_survey_asks_for_is_read_by_its_playbook():
    where = readers()
    for name, one in wanted().templates.items():
        playbook = one["playbook"].removesuffix(".yml")
        for asked in one["survey"]:
            variable = asked if isinstance(asked, str) else asked["variable"]
            assert where[variable] & {"all", playbook}, (name, variable)


def test_choices_are_the_inventorys():
    asked = {label: {one["variable"]: one for one in spec} for label, spec in surveys(wanted()).items()}
    assert asked["pd deploy"]["pd_group"]["choices"] == ["all", "qwen-a", "kimi-b"]
    assert asked["pd scale"]["pd_group"]["choices"] == ["qwen-a", "kimi-b"]
    assert asked["pd rollout"]["pd_rollout"]["choices"] == ["vllm-0.33"]
    # A name that is to be typed is no slip of a mouse, and what has left the inventory is in no list.
    assert asked["pd remove"]["pd_group"]["type"] == "text"


def test_without_groups_the_answer_is_text():
    asked = {label: {one["variable"]: one for one in spec} for label, spec in surveys(wanted(Choices())).items()}
    assert asked["pd scale"]["pd_group"]["type"] == "text"
    assert "choices" not in asked["pd scale"]["pd_group"]
    assert asked["pd deploy"]["pd_group"]["choices"] == ["all"]


# -- the project ------------------------------------------------------------------------------------------------------------------


def wrapped() -> dict[str, str]:
    """The playbook of the collection that each file of the example's project is."""
    plays = {file.name: read(file) for file in EXAMPLE.glob("*.yml") if file.name != "objects.yml"}
    return {name: play[0]["import_playbook"] for name, play in plays.items() if "import_playbook" in play[0]}


# What no job of AWX is for: one reads and writes files of a user's machine, the other makes AWX's own objects.
ELSEWHERE = {"convert", "awx"}


def test_the_project_has_a_file_for_each_playbook():
    there = {file.stem for file in (ROOT / "playbooks").glob("*.yml")} - ELSEWHERE
    assert wrapped() == {f"{name}.yml": f"inferops.pd.{name}" for name in there}


def test_awx_finds_the_playbooks_of_the_project():
    """It lists files that have one of these at the start of a line, and takes no other."""
    begins = re.compile(r"^\s*(?:- )?(?:hosts|(?:ansible\.builtin\.)?import_playbook):", re.M)
    for one in wanted().templates.values():
        assert begins.search((EXAMPLE / one["playbook"]).read_text(encoding="utf-8")), one["playbook"]
    (project,) = found(objects(wanted()), "project").values()
    assert set(project.playbooks) == {one["playbook"] for one in wanted().templates.values()}


def test_the_secrets_of_the_example_are_those_that_its_inventory_reads():
    text = (EXAMPLE / "inventory/group_vars/all/pd.yml").read_text(encoding="utf-8")
    assert set(re.findall(r"{{ (vault_\w+) }}", text)) == {
        one["variable"] for one in read(EXAMPLE / "objects.yml")["awx_secrets"]
    }


# -- what must hold in AWX --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("settings", EVERYTHING)
def test_no_job_is_sliced_or_beside_itself_or_asked_at_launch(settings):
    for label, one in found(objects(EVERYTHING[settings]), "job_template").items():
        if one.gone:
            continue
        assert one.params["job_slice_count"] == 1, label
        assert one.params["allow_simultaneous"] is False, label
        assert one.params["forks"] == 50, label
        assert {name: value for name, value in one.params.items() if name.startswith("ask_") and value} == {}


def test_a_plan_changes_nothing():
    plan = found(objects(wanted()), "job_template")["pd plan"].params
    assert (plan["job_type"], plan["diff_mode"], plan["playbook"]) == ("check", True, "deploy.yml")
    assert plan["ask_job_type_on_launch"] is False


def test_a_secret_is_in_no_object():
    made = objects(
        wanted(
            secrets=[{"variable": "vault_hf_token", "value": "s3cr3t"}],
            galaxy_url="https://x/",
            galaxy_token_given=True,
        )
    )
    assert "s3cr3t" not in repr(made)
    assert found(made, "credential")["pd secrets"].secrets == {"vault_hf_token": "vault_hf_token"}
    assert found(made, "credential")["pd galaxy"].secrets == {"token": "awx_galaxy_token"}
    kind = found(made, "credential_type")["pd secrets"].params
    assert kind["injectors"] == {"extra_vars": {"vault_hf_token": "{{ vault_hf_token }}"}}
    assert [one["secret"] for one in kind["inputs"]["fields"]] == [True]


def may(settings: Wanted, kind: str, actor: str, role: str = "execute", state: str = "present") -> set[str]:
    return {
        name.removeprefix("pd ")
        for one in found(objects(settings), "role").values()
        if one.params.get(kind) == [actor] and one.params["role"] == role and one.params["state"] == state
        for name in (*one.params.get("job_templates", ()), *one.params.get("workflows", ()))
    }


def test_operators_may_scale_and_not_restart():
    one = wanted(**PEOPLE)
    operates = {"validate", "preflight", "plan", "scale", "status", "heal"}
    changes = {"deploy", "restart", "rollout", "evacuate", "remove"}
    assert may(one, "teams", "ops") == operates
    assert may(one, "teams", "engineers") == operates | changes | {"change"}
    assert may(one, "users", "ann") == operates
    assert may(one, "users", "ann", "approval") == {"change"}
    assert may(one, "users", "ann", "read") == {"plan"}
    # What somebody was granted before and is not to have any more is taken back.
    assert may(one, "teams", "ops", state="absent") == changes | {"not changed", "change"}
    assert may(one, "teams", "engineers", state="absent") == {"not changed"}
    assert may(one, "teams", "ops", "approval", "absent") == {"change"}


def test_a_workflow_that_changed_nothing_does_not_end_well():
    """AWX takes for handled what failed and has a successor; so each way from a failure must end in one that fails and has none."""
    nodes = {one["identifier"]: one for one in own()["workflow"]["nodes"]}
    failures = [after for one in nodes.values() for after in one.get("failure", ())]
    assert failures
    for at in failures:
        while nodes[at].get("always"):
            (at,) = nodes[at]["always"]
        assert nodes[at]["template"] == "not changed"
    # Between the plan and what carries it out stands no other job, which would be held to the digest.
    assert nodes["plan"]["success"] == ["approve"]
    assert nodes["approve"]["success"] == ["apply"]


# -- what users lay over it --------------------------------------------------------------------------------------------------------


def test_a_users_templates_are_laid_over_ours_key_by_key():
    extra = {"playbook": "caches.yml", "survey": ["pd_cache"], "who": "operators"}
    made = wanted(
        templates={"restart": {"timeout": 5, "survey": ["pd_group"]}, "remove": False, "caches": extra}, **PEOPLE
    )
    jobs = found(objects(made), "job_template")
    assert (jobs["pd restart"].params["timeout"], jobs["pd restart"].params["playbook"]) == (5, "restart.yml")
    assert [one["variable"] for one in jobs["pd restart"].params["survey_spec"]["spec"]] == ["pd_group"]
    assert jobs["pd remove"].gone
    assert jobs["pd caches"].params["playbook"] == "caches.yml"
    assert "caches" in may(made, "teams", "ops")


def test_what_is_left_out_is_taken_away_before_what_it_needs():
    made = objects(wanted(templates={"plan": False}, schedules={"heal": False}))
    gone = [(one.kind, one.label) for one in made if one.gone and one.kind != "credential"]
    assert gone == [("schedule", "pd heal"), ("workflow_job_template", "pd change"), ("job_template", "pd plan")]
    assert found([one for one in made if not one.gone], "workflow_job_template") == {}


def test_what_is_not_asked_for_any_more_is_taken_away():
    made = objects(wanted(secrets=[], image="", galaxy_url=""))
    gone = [(one.kind, one.label) for one in made if one.gone]
    assert gone == [
        ("credential", "pd secrets"),
        ("credential_type", "pd secrets"),
        ("credential", "pd galaxy"),
        ("execution_environment", "pd environment"),
    ]
    assert not any(one.gone for one in objects(wanted(galaxy_url="https://x/")))
    for one in made:
        assert not one.gone or refused(one.kind, {**identity(one.kind, one.params), "state": "absent"}) == []


def test_all_is_taken_away_again_but_the_organization():
    made = to_remove(wanted(**PEOPLE))
    kinds = list(dict.fromkeys(one.kind for one in made if not one.gone))
    assert kinds == [
        "schedule",
        "workflow_job_template",
        "job_template",
        "inventory_source",
        "inventory",
        "project",
        "credential",
        "credential_type",
        "execution_environment",
    ]
    every = {(one.kind, one.label) for one in objects(wanted(**PEOPLE)) if one.kind not in ("organization", "role")}
    assert {(one.kind, one.label) for one in made} == every
    for one in made:
        assert refused(one.kind, {**identity(one.kind, one.params), "state": "absent"}) == []
    # Also what was left out, and no run has taken away since.
    assert ("job_template", "pd plan") in {
        (one.kind, one.label) for one in to_remove(wanted(templates={"plan": False}))
    }


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"organization": ""}, "awx_organization is not given"),
        ({"scm_url": ""}, "awx_scm_url is not given"),
        ({"environment": "there"}, "awx_image and awx_environment are both given"),
        ({"templates": {"mine": {}}}, "awx_templates.mine has no playbook"),
        ({"templates": {"deploy": {"who": "anybody"}}}, "awx_templates.deploy.who: 'anybody' is none of"),
        ({"templates": {"deploy": True}}, "awx_templates.deploy: True is neither a dictionary nor false"),
        ({"templates": {"deploy": {"survey": ["pd_gruop"]}}}, "Did you mean pd_group?"),
        (
            {"templates": {"deploy": {"survey": [{"question_name": "X"}]}}},
            "awx_templates.deploy.survey[0] has no variable",
        ),
        ({"templates": {"status": False}}, "awx_schedules.status.template: 'status' is none of"),
        ({"schedules": {"mine": {"template": "nope"}}}, "awx_schedules.mine.template: 'nope' is none of"),
        ({"operators": {"team": ["x"]}}, "awx_operators.team: there are teams and users"),
    ],
)
def test_what_cannot_be_meant_is_one_sentence(given, says):
    with pytest.raises(PdError, match=re.escape(says)):
        objects(wanted(**given))


def test_what_must_be_there_names_its_key():
    told = [one.missing() for one in needs(wanted(**PEOPLE, environment="ours", image=""))]
    assert any(one.startswith("awx_credentials[0]: ") and "gpu hosts" in one for one in told)
    assert any(one.startswith("awx_operators.teams: ") and " ops" in one for one in told)
    assert any(one.startswith("awx_galaxy_credential: ") and "installs nothing" in one for one in told)
    assert any(one.startswith("awx_environment: ") for one in told)
    assert needs(wanted(**{role: {} for role in PEOPLE}, credentials=[], galaxy_credential="", image="x")) == []


# -- what AWX has -----------------------------------------------------------------------------------------------------------------


def test_an_object_is_found_by_its_name_where_it_belongs():
    one = found(objects(wanted()), "inventory_source")["pd inventory"]
    assert query(one.kind, one.params) == {
        "name": "pd inventory",
        "inventory__name": "pd inventory",
        "inventory__organization__name": "Serving",
    }


THERE = {
    "name": "pd deploy",
    "forks": 5,
    "organization": 7,
    "project": 3,
    "summary_fields": {
        "organization": {"name": "Serving"},
        "project": {"name": "pd project"},
        "credentials": [{"name": "gpu hosts"}],
    },
}


def test_what_differs_is_told_by_parameter():
    params = {
        "name": "pd deploy",
        "forks": 50,
        "organization": "Serving",
        "project": "pd project",
        "credentials": ["gpu hosts"],
    }
    differs = difference({**params, "state": "present"}, THERE)
    assert (differs.before, differs.after, differs.whole, differs.none) == ({"forks": 5}, {"forks": 50}, True, False)
    assert difference({**params, "forks": 5}, THERE).none
    # What AWX does not show may differ: its module has to be asked.
    assert not difference({**params, "forks": 5, "instance_groups": ["a"]}, THERE).none
    assert not difference(params, None).none
    assert difference({"survey_spec": {"a": 1}}, {}, {"a": 1}).none
    assert difference({"survey_spec": {"a": 1}}, {}, {"a": 2}).after == {"survey_spec": {"a": 1}}


def test_a_secret_that_awx_hides_is_no_difference():
    there = {"credential_type": 1, "inputs": {"url": "https://x/", "token": "$encrypted$"}}
    assert difference({"inputs": {"url": "https://x/"}}, there).none
    assert difference({"inputs": {"url": "https://y/"}}, there).after == {"inputs": {"url": "https://y/"}}


def listed(nodes: list[dict[str, t.Any]]) -> list[dict[str, t.Any]]:
    """The nodes of a workflow, as AWX lists those that it has made of them."""
    numbers = {node["identifier"]: 100 + at for at, node in enumerate(nodes)}
    made = []
    for node in nodes:
        job, related = node["unified_job_template"], node.get("related", {})
        kind = {"workflow_approval": "workflow_approval"}.get(job["type"], "job")
        shown = {"name": job["name"], "description": job.get("description", ""), "unified_job_type": kind}
        if kind == "workflow_approval":
            shown["timeout"] = job["timeout"]
        after = {
            key: [numbers[one["identifier"]] for one in related.get(key, ())]
            for key in ("success_nodes", "failure_nodes", "always_nodes")
        }
        made.append(
            {
                "id": numbers[node["identifier"]],
                "identifier": node["identifier"],
                "extra_data": node.get("extra_data", {}),
                "summary_fields": {"unified_job_template": shown},
                **after,
            }
        )
    return made


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ((0, "extra_data"), {"pd_group": "x"}),
        ((1, "summary_fields", "unified_job_template", "timeout"), 5),
        ((1, "summary_fields", "unified_job_template", "name"), "Go?"),
        ((2, "summary_fields", "unified_job_template", "name"), "pd restart"),
        ((1, "failure_nodes"), []),
        ((0, "success_nodes"), [102]),
    ],
)
def test_a_graph_that_somebody_has_changed_is_another_one(path, value):
    (flow,) = found(objects(wanted()), "workflow_job_template").values()
    nodes = flow.params["workflow_nodes"]
    there: t.Any = listed(nodes)
    assert graph_there(there) == graph(nodes)
    at = there
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    assert graph_there(there) != graph(nodes)
