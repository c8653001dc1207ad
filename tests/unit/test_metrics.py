"""Prometheus text as engines write it."""

from __future__ import annotations

import tracemalloc

import pytest

from ansible_collections.inferops.pd.plugins.module_utils._core.base.errors import PdError
from ansible_collections.inferops.pd.plugins.module_utils._probes.metrics import LONGEST, MOST, Selector, parse

# A real page of vLLM 0.32, shortened.
PAGE = """\
# HELP vllm:prompt_tokens_by_source_total Number of prompt tokens by source.
# TYPE vllm:prompt_tokens_by_source_total counter
vllm:prompt_tokens_by_source_total{engine="0",model_name="tiny",source="local_compute"} 18.0
vllm:prompt_tokens_by_source_total{engine="0",model_name="tiny",source="local_cache_hit"} 0.0
vllm:prompt_tokens_by_source_total{engine="0",model_name="tiny",source="external_kv_transfer"} 779.0
vllm:prompt_tokens_by_source_total{engine="1",model_name="tiny",source="external_kv_transfer"} 1.0
vllm:prompt_tokens_by_source_created{engine="0",model_name="tiny",source="external_kv_transfer"} 1.7959e+09
vllm:nixl_bytes_transferred_bucket{engine="0",le="+Inf",model_name="tiny"} 1.0
vllm:nixl_bytes_transferred_sum{engine="0",model_name="tiny"} 1.6384e+06
vllm:kv_cache_usage_perc{engine="0",model_name="tiny"} NaN
process_open_fds 31.0
with_time 4 1700000000000
quoted{path="C:\\\\x",text="a \\"b\\", c=\\"}\\"\\n"} 7
this is no sample
broken{a="b 1
"""


@pytest.mark.parametrize(
    ("selector", "total"),
    [
        ('vllm:prompt_tokens_by_source{source="external_kv_transfer"}', 780.0),
        ('vllm:prompt_tokens_by_source_total{source="external_kv_transfer"}', 780.0),
        ('vllm:prompt_tokens_by_source{source="external_kv_transfer",engine="1"}', 1.0),
        ('vllm:prompt_tokens_by_source{ source = "local_compute" , }', 18.0),
        ("vllm:prompt_tokens_by_source", 798.0),
        ("vllm:nixl_bytes_transferred_sum", 1638400.0),
        ("process_open_fds", 31.0),
        ("process_open_fds_total", 31.0),
        ("with_time", 4.0),
        ("quoted", 7.0),
        ("vllm:no_such_metric", None),
        ('vllm:prompt_tokens_by_source{source="no_such"}', None),
        ("vllm:kv_cache_usage_perc", None),
        ("broken", None),
    ],
)
def test_total(selector: str, total: float | None) -> None:
    assert parse(PAGE).total(selector) == total


def test_labels_are_unescaped() -> None:
    assert parse(PAGE).find("quoted") == [({"path": "C:\\x", "text": 'a "b", c="}"\n'}, 7.0)]


@pytest.mark.parametrize("text", ["", "{a='b'}", "name{", 'name{a="b"', "name{a=b}", "1name", "name trailing"])
def test_what_is_no_selector_is_said(text: str) -> None:
    with pytest.raises(PdError, match="no metric selector"):
        Selector.parse(text)


def test_an_empty_page_has_nothing() -> None:
    assert parse("").find("x") == []
    assert parse("").total("x") is None


@pytest.mark.parametrize(
    "noise",
    ["a 1\n", 'a{b="c"} 1\n', "x", "\\", " ", 'a{b="\n', "a{", "a 1\x0b", "\n", 'a{b="' + "c" * 9000 + '"} 1\n'],
    ids=["tiny", "labelled", "line", "escapes", "spaces", "open", "braces", "tabs", "empty", "long"],
)
def test_a_page_of_any_size_is_read_for_what_is_asked(noise: str) -> None:
    """Eight MiB of something else; the reader once kept a value for each line of it."""
    page = noise * (8 * 2**20 // len(noise)) + '\nwanted{source="x"} 7\n'
    tracemalloc.start()
    try:
        assert parse(page).total('wanted{source="x"}') == 7.0
        assert tracemalloc.get_traced_memory()[1] < 2**20
    finally:
        tracemalloc.stop()


def test_of_one_name_there_is_a_bound_and_a_sample_has_a_length() -> None:
    assert parse("a 1\n" * (2 * MOST)).total("a") == MOST
    assert parse('a{b="' + "c" * 2 * LONGEST + '"} 1\na 2\n').total("a") == 2.0
