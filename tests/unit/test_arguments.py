"""Every spelling of a flag is one flag; the last one wins; JSON stays whole; numbers are read as the engine reads them."""

from __future__ import annotations

import pytest
from builders import cases

from ansible_collections.inferops.pd.plugins.module_utils._core.base import placeholders
from ansible_collections.inferops.pd.plugins.module_utils._core.base.arguments import (
    Arguments,
    is_flag,
    options,
    read_integer,
    read_json_object,
    tokens,
)
from ansible_collections.inferops.pd.plugins.module_utils._core.base.errors import PdError
from ansible_collections.inferops.pd.plugins.module_utils._engines import vllm


@pytest.mark.parametrize("row", cases("arguments"))
def test_entries_become_an_argv(row):
    assert tokens(row["entries"], "roles.prefill.args") == row["argv"]


@pytest.mark.parametrize("row", cases("unreadable"))
def test_unreadable_entries_are_one_sentence(row):
    with pytest.raises(PdError) as told:
        tokens(row["entries"], "roles.prefill.args")
    assert str(told.value).startswith("roles.prefill.args[0]: ")
    assert row["says"] in str(told.value)
    # What it is may be a secret.
    assert row["entries"][0] not in str(told.value)


@pytest.mark.parametrize(
    "entries",
    [
        ["--tensor-parallel-size=4"],
        ["--tensor-parallel-size 4"],
        ["--tensor-parallel-size", "4"],
        ["--tensor_parallel_size=4"],
        ["--tensor_parallel_size 4"],
        ["--tensor-parallel_size=4"],
        ["-tp 4"],
        ["-tp=4"],
        ["-tp", "4"],
        ["--tp 4"],
        ["--tp=4 --seed 1"],
    ],
)
def test_each_spelling_of_a_size_is_known(entries):
    arguments = Arguments(tokens(entries, ""))
    assert vllm.ENGINE.sizes(arguments, None)[:4] == (4, 1, 1, 4)


@pytest.mark.parametrize(
    ("entries", "value"),
    [
        (["--tp 2", "--tensor-parallel-size=4"], "4"),
        (["--tensor-parallel-size=4", "-tp 2"], "2"),
        (["--tensor_parallel_size 4 --tp=8 -tp 1"], "1"),
        (["--tp 4", "--tp"], "4"),  # a flag without a value does not undo an earlier one
    ],
)
def test_the_last_spelling_wins(entries, value):
    assert Arguments(tokens(entries, "")).value(vllm.ENGINE.names("tensor_parallel_size")) == value


def test_a_toggle_is_what_was_said_last():
    def said(*entries: str) -> bool | None:
        return Arguments(tokens(entries, "")).toggle("enable-thing", "no-enable-thing")

    assert said() is None
    assert said("--enable-thing") is True
    assert said("--enable_thing --no-enable_thing") is False
    assert said("--no-enable-thing", "--enable-thing") is True


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("131072", 131072),
        ("128k", 128000),  # lower case is decimal, as in vLLM
        ("128K", 131072),
        ("1M", 1048576),
        ("1m", 1000000),
        ("25.6k", 25600),
        ("1G", 2**30),
        ("-1", -1),
        (" 4096 ", 4096),
        ("1.5K", None),  # vLLM refuses a fraction of a binary unit
        ("auto", None),
        ("", None),
        ("2.0", None),
        ("4x", None),
        ("9" * 5000, None),
    ],
)
def test_integers_are_read_as_the_engine_reads_them(text, number):
    assert read_integer(text, vllm.ENGINE.units) == number


@pytest.mark.parametrize("token", ["--seed", "-tp", "-O3", "--a=b", "-tp=4"])
def test_a_dash_starts_a_flag(token):
    assert is_flag(token)


@pytest.mark.parametrize("token", ["-", "--", "-1", "-0.5", "4", "", "a-b"])
def test_numbers_and_separators_are_no_flags(token):
    assert not is_flag(token)


def test_values_after_the_first_stay_with_their_flag():
    (prefill, decode) = options(["--prefill", "http://a:1", "8998", "--decode", "http://b:2"])
    assert (prefill.value, decode.value) == ("http://a:1 8998", "http://b:2")
    assert (prefill.start, prefill.stop) == (0, 3)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": 1}', {"a": 1}),
        ('{"port": ${ports.kv_side_channel}}', {"port": 0}),
        ('{"host": "${member.address}"}', {"host": "${member.address}"}),
        ("[1]", None),
        ("{", None),
        ("", None),
    ],
)
def test_json_objects_may_hold_placeholders(text, value):
    assert read_json_object(text) == value


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 50_000, "${" * 30_000, '{"a": ' + "${" * 30_000])
def test_what_nobody_means_is_read_to_its_end(text):
    """Nested deeper than Python goes, or with placeholders that begin and never end: no traceback, and not the square of its length."""
    assert read_json_object(text) is None
    assert tokens([f"--x={text}"], "args")
    assert placeholders.names(text) == []
