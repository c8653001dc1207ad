"""What holds for every spec, not for chosen ones. A run looks at the same few examples each time; PD_EXAMPLES=5000 looks for new ones."""

from __future__ import annotations

import copy
import json
import os

from builders import ROOT, RUN, Fleet, codes, judge, spec
from hypothesis import HealthCheck, configuration, example, given, settings
from hypothesis import strategies as st

from ansible_collections.inferops.pd.plugins.module_utils._core.base.arguments import Arguments, options, tokens
from ansible_collections.inferops.pd.plugins.module_utils._core.base.errors import PdError
from ansible_collections.inferops.pd.plugins.module_utils._core.base.finding import as_text
from ansible_collections.inferops.pd.plugins.module_utils._core.spec import row
from ansible_collections.inferops.pd.plugins.module_utils._core.spec import spec as core

configuration.set_hypothesis_home_dir(os.path.join(ROOT, ".build", "hypothesis"))
MANY = int(os.environ.get("PD_EXAMPLES", "0"))
quick = settings(
    max_examples=MANY or 25, deadline=None, database=None, derandomize=not MANY, suppress_health_check=list(HealthCheck)
)
few = settings(quick, max_examples=MANY // 10 or 6)

words = st.text(max_size=12) | st.sampled_from(
    ["--", "-tp", "--block-size", "{", "${port}", "${", "'", '"', "\\", "²", "\n"]
)
scalars = st.none() | st.booleans() | st.integers(-5, 9) | st.floats(allow_nan=False) | words
OF_GROUP = row.keys(core.Group, "group")
OF_ROLES = sorted({key for role in core.ROLES for key in row.keys(core.Role, role)})
keys = words | st.sampled_from([*OF_GROUP, *OF_ROLES, *core.ROLES, "provider"])
flat = scalars | st.lists(scalars, max_size=2) | st.dictionaries(keys, scalars, max_size=2)
anything = flat | st.lists(flat, max_size=2) | st.dictionaries(keys, flat, max_size=3)


def lined(key: str):
    """A key of the spec with anything behind it."""
    return st.tuples(st.just(key), anything)


VALUES = (
    "runtime",
    "mode",
    "model",
    "kv_cache",
    "kv_lease",
    "limits",
    "endpoint",
    "vendor",
    "readiness",
    "roles",
    "engine",
)


# -- validation never raises ------------------------------------------------------------------------------------------


@quick
@given(anything)
def test_validation_never_raises_on_anything(raw):
    assert judge(raw).findings.errors


@quick
@given(st.sampled_from(VALUES).flatmap(lined))
@example(("kv_cache", {"provider": [1]}))
@example(("kv_cache", {"provider": {"a": 1}}))
@example(("runtime", ["docker"]))
@example(("kv_lease", float("inf")))
def test_validation_never_raises_on_a_spec_with_anything_in_one_place(change):
    key, value = change
    made = spec()
    made[key] = value
    said(judge(made))


@quick
@given(st.sampled_from([*core.ROLES, "engine"]), st.sampled_from(OF_ROLES).flatmap(lined))
def test_validation_never_raises_on_a_role_with_anything_in_one_place(role, change):
    said(judge(spec(**{role: dict([change])})))


@quick
@given(st.lists(st.text(max_size=20).map(lambda text: f"--{text}") | words, max_size=4))
@example(["--served-model-name a\\"])
@example(["-tp ²"])
@example(["-tp -2"])
@example(["-tp 0"])
@example(["-dp " + "9" * 5000])
def test_validation_never_raises_on_any_args(entries):
    said(judge(spec(prefill={"extra_args": entries}, router={"args": entries})))


def said(verdict) -> None:
    """Every finding can be shown, and the spec too."""
    found = verdict.findings.to_plain()
    json.dumps(found)
    as_text(found)
    if verdict.group is not None:
        json.dumps(verdict.group.to_plain())


# -- pairs ------------------------------------------------------------------------------------------------------------

NAMES = {
    "--max-model-len": ["--max-model-len", "--max_model_len"],
    "--tensor-parallel-size": ["--tensor-parallel-size", "--tensor_parallel_size", "-tp", "--tensor-parallel"],
    "--data-parallel-size": ["--data-parallel-size", "--data_parallel_size", "-dp", "--data_parallel_size"],
    "--dtype": ["--dtype"],
    "--block-size": ["--block-size", "--block_size"],
    "--kv-cache-dtype": ["--kv-cache-dtype", "--kv_cache_dtype"],
}
CHOICES = {
    "--max-model-len": ["1024", "128k", "128K", "auto"],
    "--tensor-parallel-size": ["1", "2", "4"],
    "--data-parallel-size": ["1", "2"],
    "--dtype": ["half", "float16", "bfloat16", "auto"],
    "--block-size": ["16", "32"],
    "--kv-cache-dtype": ["fp8", "auto"],
}
one_flag = st.sampled_from(sorted(CHOICES)).flatmap(
    lambda flag: st.tuples(st.just(flag), st.sampled_from(CHOICES[flag]))
)
flag_lists = st.lists(one_flag, max_size=5)


def written(flags) -> list[str]:
    return [f"{flag}={value}" for flag, value in flags]


@st.composite
def spelled(draw, flags):
    """The same flags in other spellings: other names, an equals sign or a space, several to a line."""
    entries = []
    for flag, value in flags:
        name = draw(st.sampled_from(NAMES[flag]))
        form = draw(st.sampled_from(["=", " ", "'", "line", "two"]))
        if form == "two":
            entries += [name, value]
        elif form == "line" and entries and entries[-1].startswith("-") and " " in entries[-1]:
            entries[-1] += f" {name} {value}"
        else:
            entries.append(f"{name} '{value}'" if form == "'" else f"{name}{'=' if form == '=' else ' '}{value}")
    return entries


def verdict_of(prefill, decode) -> list[str]:
    found = judge(spec(engine={"args": []}, prefill={"args": prefill}, decode={"args": decode})).findings
    return sorted(f"{f.code} {f.factor}" for f in found.items)


@quick
@given(flag_lists)
def test_equal_roles_never_differ(flags):
    assert [
        code for code in verdict_of(written(flags), written(flags)) if not code.startswith("pairing-unverified")
    ] == []


@quick
@given(flag_lists, flag_lists, st.data())
def test_other_spellings_never_change_the_verdict(prefill, decode, data):
    again = data.draw(spelled(prefill)), data.draw(spelled(decode))
    assert verdict_of(*again) == verdict_of(written(prefill), written(decode))


@quick
@given(flag_lists, flag_lists)
def test_only_the_direction_of_tensor_parallelism_knows_which_side_is_which(one, two):
    def found(prefill, decode):
        return [code for code in verdict_of(prefill, decode) if "tensor-parallel" not in code]

    assert found(written(one), written(two)) == found(written(two), written(one))


# -- arguments --------------------------------------------------------------------------------------------------------


@quick
@given(flag_lists, st.data())
def test_every_spelling_has_the_same_last_value(flags, data):
    arguments = Arguments(tokens(data.draw(spelled(flags)), ""))
    for flag, value in dict(flags).items():
        assert arguments.value(NAMES[flag]) == value


@quick
@given(
    st.dictionaries(
        st.text("abc", min_size=1, max_size=3), st.text("a b'\"\\{}", max_size=6) | st.integers(), max_size=3
    )
)
def test_json_stays_whole_however_it_is_written(value):
    text = json.dumps(value)
    quoted = "'" + text.replace("'", "'\\''") + "'"
    for entries in ([f"--o={text}"], [f"--o {text}"], ["--o", text], [f"--o {quoted}"], [f"--o={quoted}"]):
        (option,) = options(tokens(entries, ""))
        assert json.loads(option.value or "") == value


@quick
@given(st.lists(words | st.text("-=ab '\"\\{[${:", max_size=10), max_size=4))
@example(["-\\"])
def test_entries_become_tokens_or_one_sentence(entries):
    try:
        argv = tokens(entries, "here")
    except PdError as told:
        argv = [str(told)]
        if not argv[0].startswith("here["):
            raise
    assert all(isinstance(token, str) for token in argv)
    assert [option for option in options(argv) if option.stop > len(argv)] == []


# -- plans ------------------------------------------------------------------------------------------------------------


@st.composite
def groups(draw):
    """(hosts' GPUs, a spec that may fit on them)."""
    hosts = {f"h{i}": {"gpus": draw(st.integers(0, 4))} for i in range(1, draw(st.integers(1, 4)) + 1)}
    pattern = ":".join(hosts)
    args = draw(st.sampled_from([[], ["-dp 2"], ["-tp 2"]]))
    raw = spec(
        engine={"args": ["--max-model-len=1024", *args]},
        prefill={"hosts": pattern, "replicas": draw(st.integers(1, 3)), "gpus": draw(st.sampled_from([0, ...]))},
        decode={"hosts": pattern, "replicas": draw(st.integers(1, 3)), "gpus": draw(st.sampled_from([0, ...]))},
        router={"hosts": pattern, "membership": draw(st.sampled_from(["dynamic", "restart"]))},
    )
    return hosts, raw


@few
@given(groups())
def test_rendering_and_planning_are_pure(group):
    hosts, raw = group
    fleet, before = Fleet(**hosts), copy.deepcopy(raw)
    facts = copy.deepcopy(fleet.facts)
    one, two = fleet.plan(raw, run=RUN), fleet.plan(raw, run=RUN)
    assert one.plan == two.plan
    assert one.verdict.template.masked() == two.verdict.template.masked()
    assert (raw, fleet.facts) == (before, facts)


@few
@given(groups())
def test_what_is_planned_never_overlaps(group):
    hosts, raw = group
    made = Fleet(**hosts).plan(raw)
    taken = []
    for member in made.plan["members"]:
        part = member["parts"][0]
        taken.append((part["host"], part["port"]))
        taken += [(part["host"], b["base"] + i) for b in part["ports"].values() for i in range(b["count"])]
        taken += [(part["host"], gpu) for gpu in part["gpus"]]
    assert len(taken) == len(set(taken))


@few
@given(groups(), st.sampled_from(["deploy", "restart", "scale"]))
def test_a_plan_that_was_carried_out_leaves_nothing_to_do(group, action):
    hosts, raw = group
    fleet = Fleet(**hosts)
    made = fleet.plan(raw)
    if made.errors:
        assert set(made.errors) <= {"does-not-fit"}
        return
    fleet.apply(made)
    if action != "deploy":
        again = fleet.plan(raw, action, counts={"prefill": 1} if action == "scale" else {})
        assert not again.errors
        fleet.apply(again)
    after = fleet.plan(
        raw, *(["scale"] if action == "scale" else []), counts={"prefill": 1} if action == "scale" else {}
    )
    assert (after.plan["changed"], after.plan["steps"], after.plan["diff"]) == (False, [], [])
    assert after.plan["pending"] is False


@few
@given(groups(), st.lists(st.integers(0, 6), max_size=3))
def test_whatever_dies_is_brought_back_by_one_deploy(group, victims):
    hosts, raw = group
    fleet = Fleet(**hosts)
    made = fleet.plan(raw)
    if made.errors:
        return
    fleet.apply(made)
    alive = sorted(made.members)
    fleet.kill(*{alive[i % len(alive)] for i in victims})
    fleet.apply(fleet.plan(raw))
    assert fleet.status(raw)["state"] == "running"
    assert fleet.plan(raw).plan["changed"] is False


@few
@given(groups())
def test_a_secret_is_nowhere(group):
    hosts, raw = group
    raw["engine"]["secrets"] = {"TOKEN": "s3cr3t-value"}
    made = Fleet(**hosts).plan(raw)
    assert "s3cr3t-value" not in json.dumps([made.plan, made.findings.to_plain(), made.verdict.template.masked()])


def test_codes_are_words_of_the_documentation():
    """A code becomes an anchor: lower case and hyphens."""
    assert all(code == code.lower() and " " not in code for code in codes(judge({}).findings))
