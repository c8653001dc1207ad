"""The tables of the engines' flags: every flag has a class, and every row of the classes is of a flag."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from builders import ROOT, judge, spec

from ansible_collections.inferops.pd.plugins.module_utils._core.recipes.flags import CLASSES
from ansible_collections.inferops.pd.plugins.module_utils._core.rules import stands_for
from ansible_collections.inferops.pd.plugins.module_utils._engines import registry, sglang_classes, vllm_classes

TABLES = {"vLLM": vllm_classes, "SGLang": sglang_classes}


@pytest.mark.parametrize("engine", TABLES)
def test_every_flag_has_a_class(engine):
    assert [flag.name for flag in TABLES[engine].FLAGS.flags if not flag.classes] == []


@pytest.mark.parametrize("engine", TABLES)
def test_every_class_is_one_of_the_list(engine):
    assert {found for flag in TABLES[engine].FLAGS.flags for found, _reason in flag.classes} <= set(CLASSES)


@pytest.mark.parametrize("engine", TABLES)
def test_rows_name_flags_that_there_are_and_say_one_thing_of_each(engine):
    module = TABLES[engine]
    flags = {flag.name for flag in module.FLAGS.flags}
    said = [(row, name) for row, names in module.CLASSES for name in names.split()]
    assert [name for _row, name in said if name not in flags] == []
    assert len(said) == len(set(said))
    alone = {"free", "ruled", "size", "factor", "open", "owned"}
    mine = {name: [row.partition("/")[0] for row, other in said if other == name] for _row, name in said}
    assert {name: rows for name, rows in mine.items() if len(alone & set(rows)) > 1} == {}
    assert set(module.GROUPS) <= {flag.group for flag in module.FLAGS.flags}


@pytest.mark.parametrize("engine", TABLES)
def test_every_spelling_of_an_option_is_a_flag(engine):
    made = registry.by_backend(engine)
    own = {name for names in made.spellings.values() for name in names}
    assert {name for name in own if made.flags.named(name.partition(".")[0]) is None} == set()


@pytest.mark.parametrize(
    ("engine", "line", "gpus", "world", "attention"),
    [
        ("vLLM", "-tp 4 --prefill-context-parallel-size 2", 8, 8, 4),
        ("vLLM", "-tp 2 -dp 2 -pp 2 -pcp 2", 16, 16, 2),
        ("vLLM", "-tp 4 -dcp 4", 4, 4, 4),
        ("SGLang", "--tp-size 8 --attn-dp-size 2", 8, 16, 4),
        ("SGLang", "--tp-size 8 --attn-cp-size 2", 8, 8, 4),
        ("SGLang", "--tp-size 8 --dp-size 8 --enable-dp-attention", 8, 64, 1),
        ("SGLang", "--tp-size 4 --dcp-size 4", 4, 4, 4),
    ],
)
def test_sizes_of_a_context(engine, line, gpus, world, attention):
    made = registry.by_backend(engine)
    sizes = made.sizes(made.arguments(line.split()), None)
    assert (sizes.gpus, sizes.world, sizes.attention) == (gpus, world, attention)


@pytest.mark.parametrize(("stages", "told"), [(1, None), (2, 2)])
def test_a_connector_speaks_of_stages_where_there_are_several(stages, told):
    raw = spec(mode="vllm-ascend-mooncake", vendor="ascend", prefill={"extra_args": [f"-pp {stages}"]})
    template = judge(raw).template
    for role in template.roles["prefill"], template.roles["decode"]:
        connector = next(word for word in role.argv if word.startswith("--kv-transfer-config="))
        text = connector.partition("=")[2].replace("${ports.kv_port:json}", "0")
        extra = json.loads(text)["kv_connector_extra_config"]
        assert extra["prefill"].get("pp_size") == told
        assert "pp_size" not in extra["decode"]


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("-tp", "tensor-parallel-size"),
        ("--tensor_parallel", "tensor-parallel-size"),
        ("-n2", "nnodes"),
        ("-O3", "optimization-level"),
        ("-cc.mode", "compilation-config.mode"),
        ("--attention_config.backend", "attention-config.backend"),
        ("--no-enable-prefix-caching", "no-enable-prefix-caching"),
        ("--device-memory-utilization", "gpu-memory-utilization"),
        ("--who-knows_this", "who-knows-this"),
    ],
)
def test_spellings_of_vllm(written, name):
    assert vllm_classes.FLAGS.canonical(written) == name


# -- what stands for something of the host -----------------------------------------------------------------------------

OF_HOST = {"port", "address", "device"}
# The classes that a flag of each kind has, where it is not the plan's to give.
FITTING = {
    "cards within": {"device"},
    "first card": {"device"},
    "card step": {"device"},
    "RDMA": {"device"},
    "port": {"port"},
    "HOST:PORT": {"port", "address"},
    "endpoint": {"port", "address"},
    "endpoints, ranks": {"port", "address"},
    "endpoints": {"port", "address"},
    "connector": {"port"},
    "address": {"address"},
}
OF_VARIABLE = {
    **FITTING,
    "cards": {"device"},
    "interfaces": {"address"},
}
OF_RECIPES = {"prometheus-port", "http-port", "http-metadata-server-port", "metrics-port", "rpc-port"}
PORT = re.compile(r"--([\w-]+)=\$\{port")


def classes_of(pairs):
    return {found for found, _reason in pairs}


@pytest.mark.parametrize(("name", "kind"), stands_for.FLAGS.items())
def test_what_stands_for_something_is_a_flag_with_that_class(name, kind):
    found = [module.FLAGS.named(name) for module in TABLES.values() if module.FLAGS.named(name)]
    assert bool(found) == (name not in OF_RECIPES)
    for flag in found:
        assert flag.name == name
        assert FITTING[kind] <= classes_of(flag.classes) or flag.of("owned")


def test_ports_of_routers_and_of_cache_servers_are_those_of_their_recipes():
    recipes = [path for folder in ("routers", "caches") for path in Path(ROOT, "pd_modes", folder).glob("*.yml")]
    told = {name.replace("_", "-") for path in recipes for name in PORT.findall(path.read_text())}
    assert told >= OF_RECIPES
    assert {name for name in told if stands_for.FLAGS.get(name) != "port"} == set()


@pytest.mark.parametrize("engine", TABLES)
def test_what_a_flag_stands_for_is_known_or_harmless(engine):
    ours = {flag.name for flag in TABLES[engine].FLAGS.flags if classes_of(flag.classes) & OF_HOST}
    assert ours - {*stands_for.FLAGS, *stands_for.HARMLESS} == set()


def test_what_is_harmless_is_a_flag_of_the_host_and_stands_for_nothing():
    ours = {
        flag.name for module in TABLES.values() for flag in module.FLAGS.flags if classes_of(flag.classes) & OF_HOST
    }
    assert set(stands_for.HARMLESS) <= ours
    assert set(stands_for.HARMLESS) & set(stands_for.FLAGS) == set()


@pytest.mark.parametrize("engine", TABLES)
def test_variables_stand_for_what_their_class_says(engine):
    for name, pairs in TABLES[engine].FLAGS.environment.items():
        found = classes_of(pairs) & OF_HOST
        kind = stands_for.VARIABLES.get(name)
        if found or kind:
            assert found == OF_VARIABLE.get(kind, {"device"}), name
