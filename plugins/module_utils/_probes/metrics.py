# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Prometheus text, read just far enough: samples by name and labels, and their sum. A page is whatever a process answers: only
the lines of what is asked for are read, none longer than a sample is, and of one name no more than an engine has."""

from __future__ import annotations

import itertools
import math
import re
import typing as t
from dataclasses import dataclass

from .._core.base.errors import PdError

_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_LABEL = re.compile(r'\s*([a-zA-Z_][a-zA-Z0-9_]*)\s*=\s*"((?:[^"\\]|\\.)*)"\s*,?')
# Characters of a sample's line, and samples of one name.
LONGEST = 8192
MOST = 10_000
_ESCAPES = {"\\\\": "\\", '\\"': '"', "\\n": "\n"}


@dataclass(frozen=True)
class Selector:
    """A name, and the labels that a sample must have: `vllm:prompt_tokens_by_source{source="external_kv_transfer"}`."""

    name: str
    labels: t.Mapping[str, str]

    @classmethod
    def parse(cls, text: str) -> Selector:
        """Raises PdError for what is no selector."""
        found = _NAME.match(text.strip())
        rest = text.strip()[found.end() :] if found else ""
        if not found or (rest and not (rest.startswith("{") and rest.endswith("}"))):
            raise PdError(f'{text!r} is no metric selector. Write it as name or name{{label="value"}}.')
        labels, used = _labels(rest[1:-1]) if rest else ({}, 0)
        if rest and rest[1:-1][used:].strip():
            raise PdError(f'{text!r} is no metric selector. Write it as name or name{{label="value"}}.')
        return cls(found.group(), labels)


class Metrics:
    """One scrape. Lines that are no samples are passed over: one bad exporter line must not hide the rest."""

    def __init__(self, page: str) -> None:
        self._page = page

    def find(self, selector: str | Selector) -> list[tuple[dict[str, str], float]]:
        """The samples that a selector means. A counter is found with and without the suffix that Prometheus clients add."""
        wanted = Selector.parse(selector) if isinstance(selector, str) else selector
        name = wanted.name
        names = [name, name[: -len("_total")] if name.endswith("_total") else f"{name}_total"]
        samples = next(filter(None, map(self._of, names)), [])
        return [(s, v) for s, v in samples if all(s.get(k) == w for k, w in wanted.labels.items())]

    def total(self, selector: str | Selector) -> float | None:
        """The sum over the samples that a selector means; None when the server has no such metric."""
        found = self.find(selector)
        return sum(value for _labels_, value in found) if found else None

    def _of(self, name: str) -> list[tuple[dict[str, str], float]]:
        """The samples of one name."""
        lines = re.finditer(rf"^{re.escape(name)}(?=[{{ \t])([^\n]{{1,{LONGEST}}})$", self._page, re.M)
        samples = (_sample(line[1]) for line in lines)
        return list(itertools.islice((sample for sample in samples if sample), MOST))


def parse(text: str) -> Metrics:
    """A page of metrics."""
    return Metrics(text)


def _sample(rest: str) -> tuple[dict[str, str], float] | None:
    """What follows the name of a sample."""
    labels: dict[str, str] = {}
    if rest.startswith("{"):
        labels, used = _labels(rest[1:])
        if not rest[1 + used :].lstrip().startswith("}"):
            return None
        rest = rest[1 + used :].lstrip()[1:]
    words = rest.split(maxsplit=1)
    try:
        value = float(words[0])
    except (IndexError, ValueError):
        return None
    # NaN is an exporter's "nothing seen yet": it would spoil every sum.
    return (labels, value) if not math.isnan(value) else None


def _labels(text: str) -> tuple[dict[str, str], int]:
    """The labels at the start of `text`, and how many characters they take."""
    labels: dict[str, str] = {}
    used = 0
    while True:
        found = _LABEL.match(text, used)
        if not found:
            return labels, used
        labels[found[1]] = re.sub(r'\\[\\"n]', lambda m: _ESCAPES[m.group()], found[2])
        used = found.end()
