"""What is thrown at the product: values of JSON that are odd, and good values with something odd in one place."""

from __future__ import annotations

import copy
import os
import typing as t

from hypothesis import configuration
from hypothesis import strategies as st

configuration.set_hypothesis_home_dir(
    os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", ".build", "hypothesis")
)

Json = t.Any


def _deep(levels: int) -> Json:
    value: Json = []
    for _level in range(levels):
        value = [value]
    return value


# What has been found to slip past a reader, and what is of the wrong kind everywhere.
ODD: list[Json] = [
    *(
        "${" * 8000,
        '--x={"a":' * 2000,
        "--x {" * 3000,
        "--kv-transfer-config=" + "[" * 5000,
        "--hf-overrides " + '{"a":' * 3000,
    ),
    *(None, True, False, 0, -1, 1, 70_000, 2**31, 2**63, 10**30, 0.5, -0.0, 1e308, float("inf"), float("nan")),
    *("", " ", "²", "٣", "0", "-1", "1e999", "true", "\n", "\t", "\x1b[31m", "\u202e", "\x00", "\udcff", "a" * 9000),
    *(
        "..",
        "/",
        "../../etc",
        "a/b",
        "${port}",
        "${",
        "{{ x }}",
        "{%",
        "http://",
        "http://[",
        "tcp://x:y",
        "http://h:99999",
    ),
    *("40000-40063", "1-0", "--", "-tp", "'", '"', "\\", "$(id)", "all", "h1", "h2", "GPU-1-0", "prefill", "router"),
    *({}, [], [None], [[]], {"a": 1}, {"": ""}, [""], ["x", 1], _deep(60), {"base": 40000, "count": 100_000_000}),
    *({"base": "40000", "count": []}, {"port": 1, "ports": [0]}, [{"url": 7}], [{"id": None}], {"x": {"y": {"z": []}}}),
]
odd = st.sampled_from(ODD) | st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)


def places(value: Json, at: tuple[t.Any, ...] = ()) -> list[tuple[t.Any, ...]]:
    """The way to every value within one."""
    found = [at] if at else []
    inner: t.Iterable[tuple[t.Any, Json]] = ()
    if isinstance(value, dict):
        inner = value.items()
    elif isinstance(value, list):
        inner = enumerate(value)
    for key, one in inner:
        found += places(one, (*at, key))
    return found


def put(value: Json, at: tuple[t.Any, ...], change: t.Callable[[t.Any, t.Any], None]) -> None:
    for key in at[:-1]:
        value = value[key]
    change(value, at[-1])


@st.composite
def spoilt(draw: t.Any, *good: Json) -> Json:
    """One of some good values, with one to three places changed: another value, none, or one more."""
    value = copy.deepcopy(draw(st.sampled_from(good)) if len(good) > 1 else good[0])
    for _time in range(draw(st.integers(1, 3))):
        ways = places(value)
        if not ways:
            return copy.deepcopy(draw(odd))
        at = ways[draw(st.integers(0, len(ways) - 1))]
        what = draw(st.sampled_from(["replace", "replace", "replace", "delete", "add", "twice"]))
        new = copy.deepcopy(draw(odd)) if what in ("replace", "add") else None

        def change(within: t.Any, key: t.Any, what: str = what, new: t.Any = new) -> None:
            if what == "replace":
                within[key] = new
            elif what == "delete":
                del within[key]
            elif isinstance(within, list):
                within.append(copy.deepcopy(within[key]) if what == "twice" else new)
            else:
                within[f"{key}-too"] = copy.deepcopy(within[key]) if what == "twice" else new

        put(value, at, change)
    return value


# By name, so that what hypothesis prints of a strategy stays short.
HUGE = {
    "deep list": "[" * 100_000,
    "deep object": '{"a":' * 50_000,
    "long number": "9" * 100_000,
    "long text": '"' + "a" * 100_000 + '"',
    "wide list": "[" + "0," * 50_000 + "0]",
}
huge = st.sampled_from(sorted(HUGE)).map(lambda name: HUGE[name])
# Text as logs and pages have it: known beginnings, over and over.
PIECES = [
    *(
        "ERROR 11-29 15:01:51 [a.py:1] ",
        "WARNING ",
        "INFO ",
        "E1129 15:01:51.000000 7 x.cpp:1] ",
        "(EngineCore pid=31) ",
        "\n",
        "\r",
        " ",
    ),
    *(
        "\x1b[31m",
        "\x1b]0;",
        "\x07",
        "Traceback (most recent call last):\n",
        "ValueError: ",
        "Mooncake transfer failed, ret: -1",
        "{",
        "}",
    ),
    *(
        "Failed to register ",
        "No such file or directory: '",
        "/",
        "Potentially invalid KV blocks",
        "zmq.error.",
        "2026-11-29T15:01:51Z ",
    ),
    *(
        'a{b="',
        '"} 1\n',
        "a 1\n",
        "vllm:x_total",
        " NaN",
        " 1e999",
        "# HELP a\n",
        "\\",
        "x" * 500,
        "\u202e",
        "\ufeff",
        "²",
        "\udcff",
    ),
]
noise = st.lists(st.sampled_from(PIECES) | st.text(max_size=10), max_size=40).map("".join) | st.tuples(
    st.sampled_from(PIECES), st.integers(1, 20_000)
).map(lambda pair: (pair[0] * pair[1])[:100_000])
