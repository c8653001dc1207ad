"""The tables of the engines' flags: every flag has a class, and every row of the classes is of a flag."""

from __future__ import annotations

import pytest

from ansible_collections.inferops.pd.plugins.module_utils._core.recipes.flags import CLASSES
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
