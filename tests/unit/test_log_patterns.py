"""A log is whatever a process wrote. No expression that reads one may repeat without a bound, and the longest line costs about what an
ordinary one does."""

from __future__ import annotations

import re
import time
import typing as t
import warnings

import pytest

from ansible_collections.inferops.pd.plugins.module_utils._core.watch import readiness, symptom
from ansible_collections.inferops.pd.plugins.module_utils._engines.symptoms import BY_BACKEND
from ansible_collections.inferops.pd.plugins.module_utils._host import watch
from ansible_collections.inferops.pd.plugins.module_utils._probes import logs
from ansible_collections.inferops.pd.plugins.module_utils._probes.symptoms import SYMPTOMS as GENERIC
from ansible_collections.inferops.pd.plugins.module_utils._routers.symptoms import SYMPTOMS as ROUTER

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    import sre_parse  # the parser's name on Python 3.10, and still there under a warning on later ones
    from sre_constants import MAXREPEAT

ROWS = {row.name: row for table in (*BY_BACKEND.values(), GENERIC, ROUTER) for row in table}
READERS = {
    f"{module.__name__.rpartition('.')[2]}.{name}": value
    for module in (symptom, readiness, logs, watch)
    for name, value in vars(module).items()
    if isinstance(value, re.Pattern)
}
PATTERNS: dict[str, re.Pattern[str]] = {**READERS, **{name: row.pattern for name, row in ROWS.items()}}
# Steps that one place of a line may cost.
MOST_STEPS = 1_000_000
LONG = 64 * 1024


def steps(parsed: t.Any) -> float:
    """How many ways there are to match: the product of all repeats of a sequence, the most of alternatives."""
    total = 1.0
    for kind, value in parsed:
        name = str(kind)
        if name in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
            _least, most, inner = value
            total *= float("inf") if most == MAXREPEAT else max(1, most) * steps(inner)
        elif name == "BRANCH":
            total *= max(steps(one) for one in value[1])
        elif name == "SUBPATTERN":
            total *= steps(value[-1])
        elif name in ("ASSERT", "ASSERT_NOT"):
            total *= steps(value[1])
    return total


def test_the_measure_sees_what_it_is_for() -> None:
    assert steps(sre_parse.parse("a.*b")) == float("inf")
    assert steps(sre_parse.parse("(?:a|b{1,9}){0,9}c{0,9}")) == 9 * 9 * 9


@pytest.mark.parametrize("name", PATTERNS)
def test_every_pattern_is_bounded(name: str) -> None:
    pattern = PATTERNS[name]
    assert steps(sre_parse.parse(pattern.pattern, pattern.flags)) <= MOST_STEPS


def words(pattern: str) -> list[str]:
    """The literal pieces of a pattern: what an adversary begins again and again."""
    plain = re.sub(r"\\[dswSDWb]|\{\d+,?\d*\}|\(\?[:!=]|\[[^\]]*\]|[()?^$+*]", "\0", pattern).replace("\\", "")
    return [piece for part in plain.split("|") for piece in part.split("\0") if piece.strip()]


def adversaries(name: str) -> list[str]:
    """Lines of 64 KiB that begin what the pattern looks for, over and over, and never end it."""
    made = []
    for piece in words(PATTERNS[name].pattern)[:6]:
        made += [piece * (LONG // len(piece)), piece + "x" * LONG, f"{piece} " * (LONG // (len(piece) + 1))]
    return [line[:LONG] for line in made]


def read(text: str) -> None:
    """All that is done to a log, with every row there is."""
    lines, rows = logs.clean(text), tuple(ROWS.values())
    for fatal in (False, True):
        symptom.diagnose(lines, rows, fatal_only=fatal)
    symptom.spoiled(lines, rows)
    symptom.last_line(lines)
    watch.since_start(lines, 0.0)


ORDINARY = "(EngineCore pid=31) WARNING 11-29 15:15:30 [core.py:112] 12 running, 3 waiting, KV cache 41.2 % used\n"


def cost(text: str) -> float:
    started = time.process_time()
    read(text)
    return time.process_time() - started


def searched(texts: t.Iterable[tuple[str, str]]) -> float:
    started = time.process_time()
    for name, text in texts:
        for line in logs.clean(text):
            PATTERNS[name].search(line)
    return time.process_time() - started


def test_no_pattern_has_a_line_that_it_is_slow_at() -> None:
    """A multiple, and a wide one: what grew with the square of a line's length took 26 s for one of 64 KiB."""
    hostile = [(name, line) for name in PATTERNS for line in adversaries(name)]
    ordinary = [(name, ORDINARY * (symptom.HEAD // len(ORDINARY))) for name, _line in hostile]
    assert searched(hostile) < 100 * searched(ordinary)


@pytest.mark.parametrize(
    "text",
    ["\x1b]" * 32768, "\x1b[0" * 21000, "a." * 32768, "A" * 65536 + ": ", "(" * 65536, "\r" * 65536, "(a" * 30000],
)
def test_lines_that_once_took_long(text: str) -> None:
    assert cost(text) < 20 * cost(ORDINARY * (LONG // len(ORDINARY)))


def test_both_ends_of_a_long_line_are_looked_at() -> None:
    late = "config={" + "x" * 70_000 + "} RuntimeError: NIXL is not available"
    found = symptom.diagnose(logs.clean(late), tuple(ROWS.values()))
    assert found is not None
    assert found.symptom is not None
    assert found.symptom.name == "nixl not installed"
    assert len(found.line) < 5000
