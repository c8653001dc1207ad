# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Prometheus text, read just far enough: samples by name and labels, and their sum."""

from __future__ import annotations

import math
import re
import typing as t
from dataclasses import dataclass

from .._core.base.errors import PdError

_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_LABEL = re.compile(r'\s*([a-zA-Z_][a-zA-Z0-9_]*)\s*=\s*"((?:[^"\\]|\\.)*)"\s*,?')
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
    """One scrape."""

    def __init__(self, samples: t.Iterable[tuple[str, dict[str, str], float]]) -> None:
        self._by_name: dict[str, list[tuple[dict[str, str], float]]] = {}
        for name, labels, value in samples:
            self._by_name.setdefault(name, []).append((labels, value))

    def find(self, selector: str | Selector) -> list[tuple[dict[str, str], float]]:
        """The samples that a selector means. A counter is found with and without the suffix that Prometheus clients add."""
        wanted = Selector.parse(selector) if isinstance(selector, str) else selector
        name = wanted.name
        names = [name, name[: -len("_total")] if name.endswith("_total") else f"{name}_total"]
        samples = next((self._by_name[n] for n in names if n in self._by_name), [])
        return [(s, v) for s, v in samples if all(s.get(k) == w for k, w in wanted.labels.items())]

    def total(self, selector: str | Selector) -> float | None:
        """The sum over the samples that a selector means; None when the server has no such metric."""
        found = self.find(selector)
        return sum(value for _labels_, value in found) if found else None

    def __len__(self) -> int:
        return sum(len(samples) for samples in self._by_name.values())


def parse(text: str) -> Metrics:
    """A page of metrics. Lines that are none are passed over: one bad exporter line must not hide the rest."""
    samples = (_sample(line) for line in text.splitlines() if line and not line.startswith("#"))
    return Metrics(sample for sample in samples if sample)


def _sample(line: str) -> tuple[str, dict[str, str], float] | None:
    found = _NAME.match(line)
    if not found:
        return None
    rest = line[found.end() :]
    labels: dict[str, str] = {}
    if rest.startswith("{"):
        labels, used = _labels(rest[1:])
        if not rest[1 + used :].lstrip().startswith("}"):
            return None
        rest = rest[1 + used :].lstrip()[1:]
    words = rest.split()
    try:
        value = float(words[0])
    except (IndexError, ValueError):
        return None
    # NaN is an exporter's "nothing seen yet": it would spoil every sum.
    return (found.group(), labels, value) if not math.isnan(value) else None


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
