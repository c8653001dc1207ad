# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which workloads a run works on, as a person writes it in pd_group or pd_cache.

    selector = names | labels
    names    = name {"," name}                     any of them: a name, a glob (qwen-*), or the word all
    labels   = label {"," label}                   all of them
    label    = KEY "=" VALUE | KEY "!=" VALUE | KEY ["not"] "in" "(" VALUE {"," VALUE} ")"

A list is the same as its entries with commas between them. What has an equals sign or a parenthesis is about labels: no name has either,
and a selector is of one sort. `!=` and `not in` also select what has no such label.

Whatever is written must be there: a name, a glob that matches, a label's key, and each of its values. A slip of the keyboard would
otherwise select nothing, or with `!=` everything."""

from __future__ import annotations

import difflib
import re
import typing as t
from dataclasses import dataclass
from fnmatch import fnmatchcase

from ..base.errors import PdError
from ..base.words import names
from .row import label_value
from .workload import Kind

ALL = "all"
Labels = t.Mapping[str, str]
# How many names a sentence lists, where there may be hundreds.
_MOST = 24
_PARTS = re.compile(r"(?:[^,()]|\([^()]*\))+")
_EQUAL = re.compile(r"([^\s=!()]+)\s*(!=|==?)\s*([^=()]*)")
_IN = re.compile(r"([^\s=!()]+)\s+(not\s+in|notin|in)\s*\(([^()]*)\)")
_FORM = "Write names and globs (qwen-a, kimi-*), or labels that all hold (engine=vllm, site!=fra, site in (fra, ams))"


@dataclass(frozen=True)
class Term:
    """What is asked of one label: that its value is one of these, or with `but` that it is none of them."""

    key: str
    values: tuple[str, ...]
    but: bool = False

    def fits(self, labels: Labels) -> bool:
        return (labels.get(self.key) in self.values) is not self.but

    def __str__(self) -> str:
        if len(self.values) == 1:
            return f"{self.key}{'!=' if self.but else '='}{self.values[0]}"
        return f"{self.key} {'not in' if self.but else 'in'} ({', '.join(self.values)})"


@dataclass(frozen=True)
class Selector:
    """A selector, read: `names` (any of them, globs among them) or `labels` (all of them)."""

    names: tuple[str, ...] = ()
    labels: tuple[Term, ...] = ()

    @property
    def every(self) -> bool:
        """Whether all of the inventory are asked for, by the word."""
        return ALL in self.names

    @property
    def literals(self) -> tuple[str, ...]:
        """The names that are written out."""
        return tuple(name for name in self.names if not _is_glob(name) and name != ALL)


def parse(written: t.Any, variable: str) -> Selector | None:
    """What is written in `variable`, text or a list of texts. None for nothing, which is left to whoever asks: empty text is what a survey
    gives that was not filled in. Raises PdError for what is no selector."""
    if written is None or (isinstance(written, str) and not written.strip()):
        return None
    entries = written if isinstance(written, list) else [written]
    for one in entries:
        if one is None or isinstance(one, (t.Mapping, list)):
            # Not shown: it may be a group's whole spec, secrets included.
            raise PdError(f"{variable}: an entry of the list is no text. {_FORM}.")
    # A survey's text area gives a line for each.
    parts = _split(",".join(",".join(str(one).splitlines()) for one in entries), variable)
    if not parts:
        raise PdError(f"{variable} names nothing: it is a list without entries. Leave it out for every one.")
    terms = [_term(part, variable) for part in parts]
    labels = tuple(term for term in terms if term is not None)
    named = tuple(part for part, term in zip(parts, terms) if term is None)
    if labels and named:
        raise PdError(
            f"{variable}: {named[0]!r} is a name, and {str(labels[0])!r} is about a label: any of several names is taken, and several"
            f" labels must all hold. {_FORM}."
        )
    return Selector(named, labels)


def choose(
    selector: Selector, known: t.Mapping[str, Labels], kind: Kind, others: t.Collection[str] | None = None
) -> list[str]:
    """The names that are selected, in the order of `known`: the inventory's entries with their labels. `others` are further ones, which are
    selected by their names alone: no label of theirs is known, and a glob is not to reach what another inventory deploys. Raises PdError
    where something that is written selects nothing."""
    if selector.labels:
        return _by_labels(selector.labels, known, kind)
    for name in selector.names:
        if name != ALL and name not in known and name not in (others or ()) and not _matching(name, known):
            raise PdError(no_such(name, known, kind, others))
    found = {one for name in selector.names for one in ([*known] if name == ALL else _matching(name, known) or [name])}
    return [
        *(name for name in known if name in found),
        *(n for n in dict.fromkeys(selector.literals) if n not in known),
    ]


def labels_of(entry: t.Any) -> dict[str, str]:
    """The labels of an entry of whatever shape, by its own row of the table of fields; what is none is left out, which a verdict says."""
    written = entry.get("labels") if isinstance(entry, t.Mapping) else None
    pairs = written.items() if isinstance(written, t.Mapping) else ()
    values = {key: label_value(value) for key, value in pairs}
    return {key: value for key, value in values.items() if isinstance(key, str) and value is not None}


def _split(text: str, variable: str) -> list[str]:
    """What stands between commas, those within parentheses apart."""
    if not re.fullmatch(r"[^()]*(\([^()]*\)[^()]*)*", text):
        raise PdError(f"{variable}: {text!r} has a parenthesis without its other half. {_FORM}.")
    return [part.strip() for part in _PARTS.findall(text) if part.strip()]


def _term(part: str, variable: str) -> Term | None:
    """What is asked of a label; None for a name or a glob."""
    if not re.search(r"[=()]", part):
        return None
    equal, listed = _EQUAL.fullmatch(part), _IN.fullmatch(part)
    if equal:
        values, but = [equal[3].strip()], equal[2] == "!="
    elif listed:
        values, but = [one.strip() for one in listed[3].split(",")], listed[2] != "in"
    else:
        values, but = [], False
    found = equal or listed
    if not found or not all(values):
        raise PdError(f"{variable}: {part!r} says nothing of a label. {_FORM}.")
    return Term(found[1], tuple(dict.fromkeys(values)), but)


def _is_glob(name: str) -> bool:
    return any(sign in name for sign in "*?[")


def _matching(name: str, known: t.Iterable[str]) -> list[str]:
    return [one for one in known if one == name or (_is_glob(name) and fnmatchcase(one, name))]


def _by_labels(terms: t.Sequence[Term], known: t.Mapping[str, Labels], kind: Kind) -> list[str]:
    there: dict[str, set[str]] = {}
    for labels in known.values():
        for key, value in labels.items():
            there.setdefault(key, set()).add(value)
    have = "; ".join(f"{key} ({names(sorted(there[key]), _MOST)})" for key in sorted(there)) or "none"
    for term in terms:
        if term.key not in there:
            raise PdError(f"No {kind.noun} has a label {term.key!r}. {nearest(term.key, there)}Labels: {have}.")
        for value in term.values:
            if value not in there[term.key]:
                raise PdError(
                    f"No {kind.noun} has {term.key}={value}. {nearest(value, there[term.key])}Labels: {have}."
                )
    found = [name for name, labels in known.items() if all(term.fits(labels) for term in terms)]
    if not found:
        asked = " and ".join(str(term) for term in terms)
        raise PdError(f"No {kind.noun} has {asked}. Labels: {have}.")
    return found


def no_such(name: str, known: t.Collection[str], kind: Kind, others: t.Collection[str] | None = None) -> str:
    """What is said of a name, or a glob, that is none of these; `others` are those that only hosts know, where these have been asked."""
    asked, others = others is not None, others or ()
    where = f", neither in {kind.entries} nor on the hosts" if asked else f" in {kind.entries}"
    if _is_glob(name):
        head = f"No {kind.noun} of {kind.entries} matches {name!r}."
        head += f" What only hosts know is selected by its name: {names(sorted(others), _MOST)}." if others else ""
    else:
        head = f"There is no {kind.noun} {name!r}{where}."
    there = names(sorted({*known, *others}), _MOST) or f"none; define {kind.entries} in group_vars"
    return f"{head} {nearest(name, (*known, *others))}{kind.short.capitalize()}s: {there}."


def nearest(name: str, there: t.Iterable[str]) -> str:
    """What a name that there is not was meant for, as a sentence; empty where none is near."""
    near = difflib.get_close_matches(name, sorted(there), 1, 0.6)
    return f"Did you mean {near[0]!r}? " if near else ""
