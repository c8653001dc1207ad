# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which nodes of a cluster a role may have: a label selector as kubectl takes it, or names of nodes.

    selector = term {"," term}                     all of them hold
    term     = KEY "=" VALUE | KEY "==" VALUE | KEY "!=" VALUE | KEY ["not"] "in" "(" VALUE {"," VALUE} ")" | KEY | "!" KEY
    names    = a list of names of nodes

`!=` and `notin` also select what has no such label, as kubectl does."""

from __future__ import annotations

import re
import typing as t
from dataclasses import dataclass

from ..base.errors import PdError

Labels = t.Mapping[str, str]
_TERMS = re.compile(r"(?:[^,()]|\([^()]*\))+")
_KEY = r"(?:[a-z0-9](?:[-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_VALUE = r"(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?"
_EQUAL = re.compile(rf"({_KEY})\s*(!=|==?)\s*({_VALUE})")
_IN = re.compile(rf"({_KEY})\s+(not\s*in|in)\s*\(([^()]*)\)")
_THERE = re.compile(rf"(!?)\s*({_KEY})")
_WAY_OUT = (
    "Write labels that all hold, as kubectl takes them (pool=h100,zone in (a, b),!spot), or a list of names of nodes."
)


@dataclass(frozen=True)
class Term:
    """What is asked of one label: one of `values`, any value where there are none; with `but` that it is not so."""

    key: str
    values: tuple[str, ...] = ()
    but: bool = False

    def fits(self, labels: Labels) -> bool:
        has = labels.get(self.key) in self.values if self.values else self.key in labels
        return has is not self.but

    def __str__(self) -> str:
        if not self.values:
            return f"{'!' if self.but else ''}{self.key}"
        if len(self.values) == 1:
            return f"{self.key}{'!=' if self.but else '='}{self.values[0]}"
        return f"{self.key} {'notin' if self.but else 'in'} ({','.join(self.values)})"


@dataclass(frozen=True)
class Nodes:
    """The nodes that are meant: `names`, or all whose labels fit all `terms`; with neither every node."""

    names: tuple[str, ...] = ()
    terms: tuple[Term, ...] = ()

    def meant(self, name: str, labels: Labels) -> bool:
        return name in self.names if self.names else all(term.fits(labels) for term in self.terms)

    def to_plain(self) -> t.Any:
        """As it may be written again."""
        return list(self.names) if self.names else ",".join(map(str, self.terms))


EVERY = Nodes()


def parse(written: t.Any, where: str) -> Nodes:
    """A selector, or a list of names. Raises PdError that names `where`."""
    if written is None or written == "":
        return EVERY
    if isinstance(written, (list, tuple)):
        wrong = [one for one in written if not isinstance(one, str) or not one.strip()]
        if wrong or not written:
            raise PdError(f"{where}: {wrong[0]!r} is no name of a node." if wrong else f"{where}: the list is empty.")
        return Nodes(names=tuple(dict.fromkeys(one.strip() for one in written)))
    if not isinstance(written, str):
        raise PdError(f"{where}: {written!r} is no selector of nodes. {_WAY_OUT}")
    terms = [term.strip() for term in _TERMS.findall(written)]
    if written.count(",") != sum(term.count(",") for term in terms) + len(terms) - 1:
        raise PdError(f"{where}: {written!r} has a comma or a parenthesis too many. {_WAY_OUT}")
    return Nodes(terms=tuple(_term(term, where) for term in terms))


def _term(text: str, where: str) -> Term:
    equal, within, there = _EQUAL.fullmatch(text), _IN.fullmatch(text), _THERE.fullmatch(text)
    if equal:
        return Term(equal[1], (equal[3],), equal[2] == "!=")
    if within:
        values = tuple(value.strip() for value in within[3].split(","))
        if all(re.fullmatch(_VALUE, value) for value in values):
            return Term(within[1], values, within[2].startswith("not"))
    elif there:
        return Term(there[2], (), bool(there[1]))
    raise PdError(f"{where}: {text!r} is no term of a selector of nodes. {_WAY_OUT}")
