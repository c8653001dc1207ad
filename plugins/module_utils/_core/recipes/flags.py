# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The flags that an engine has, as data: their spellings, what each takes, and what it is to us. One table an engine, in `_engines/`: what
the engine's parser says stands in a file that a script writes, the classes in one that people write."""

from __future__ import annotations

import difflib
import re
import typing as t
from dataclasses import dataclass, field

from ..base.arguments import normal

# What a flag can be. Several may hold of one: a chat template is a factor, and a path.
#   factor   prefill and decode must say the same of it
#   open     the same, but whether a difference harms cannot be told
#   ruled    compared by a rule of its own
#   size     how many devices or ranks a member has
#   owned    given by the plan, or must not be given at all
#   port, address, path, device   stands for something of the host
#   adapter  LoRA
#   secret   its value is shown to nobody
#   free     the user's, without a say in what we do
CLASSES = (
    "factor",
    "open",
    "ruled",
    "size",
    "owned",
    "port",
    "address",
    "path",
    "device",
    "adapter",
    "secret",
    "free",
)
_SHORT = re.compile(r"-([A-Za-z])(.+)$")


@dataclass(frozen=True)
class Flag:
    """One flag. `names` are its spellings with dashes, its own first; `takes` is one, none, maybe or many values; `default` is None where
    it is none, or no plain word. `classes` are (class, reason)."""

    names: tuple[str, ...]
    takes: str
    group: str
    default: str | None = None
    classes: tuple[tuple[str, str], ...] = ()

    @property
    def name(self) -> str:
        """Its own name, without dashes."""
        return self.names[0].lstrip("-")

    def of(self, *classes: str) -> str | None:
        """The reason by which it is of one of these classes; None when it is of none."""
        return next((reason for found, reason in self.classes if found in classes), None)


@dataclass(frozen=True)
class Conflict:
    """Two flags that an engine does not start with, names without dashes. `until` is the version that takes both, `values` those of `other`
    that it takes all the same."""

    flag: str
    other: str
    why: str
    until: str = ""
    values: tuple[str, ...] = ()


@dataclass(frozen=True)
class FlagTable:
    """The flags of one version of an engine. `since` is the oldest version that was looked at, too: `former` are flags that those versions
    had. `instead` says of flags that are gone, or never were, what does the same. `underscores`: `--a_b` is read as `--a-b`; `dotted`:
    `--a.b` is the key b of the object that `--a` takes."""

    engine: str
    version: str
    since: str
    flags: tuple[Flag, ...]
    former: frozenset[str] = frozenset()
    instead: t.Mapping[str, str] = field(default_factory=dict)
    underscores: bool = False
    dotted: bool = False
    # Flags whose value is the model where nobody writes it, and those of whose values only some make a difference.
    like_the_model: tuple[str, ...] = ()
    only: t.Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    # Variables by name, with their (class, reason); one that is not here is free.
    environment: t.Mapping[str, tuple[tuple[str, str], ...]] = field(default_factory=dict)
    conflicts: tuple[Conflict, ...] = ()
    # A spelling that takes its value without a space: (as written, the flag that it is).
    attached: tuple[tuple[str, str], ...] = ()
    _by_name: dict[str, Flag] = field(default_factory=dict, compare=False, repr=False)
    _read: dict[str, str | None] = field(default_factory=dict, compare=False, repr=False)

    def __post_init__(self) -> None:
        self._by_name.update({name: flag for flag in self.flags for name in flag.names})

    def spelled(self, written: str) -> str | None:
        """The spelling of the table that the engine's parser takes a written one for: itself, with hyphens, or the only one that it begins.
        None where there is none. What follows a dot is not looked at."""
        if written not in self._read:
            self._read[written] = self._spelled(written)
        return self._read[written]

    def _spelled(self, written: str) -> str | None:
        name = written.partition(".")[0] if self.dotted else written
        if self.underscores and name.startswith("--"):
            name = name.replace("_", "-")
        if name in self._by_name:
            return name
        for start, flag in self.attached:
            if name.startswith(start):
                return flag
        begun = [spelling for spelling in self._by_name if spelling.startswith(name)] if len(name) > 1 else []
        if len({id(self._by_name[spelling]) for spelling in begun}) == 1:
            return begun[0]
        short = _SHORT.match(name)
        return f"-{short.group(1)}" if short and not begun and f"-{short.group(1)}" in self._by_name else None

    def flag(self, written: str) -> Flag | None:
        """The flag that a written one is."""
        spelled = self.spelled(written)
        return self._by_name[spelled] if spelled else None

    def named(self, name: str) -> Flag | None:
        """The flag of a name without dashes."""
        return self._by_name.get("--" + name) or self._by_name.get("-" + name)

    def canonical(self, written: str) -> str:
        """The one name, without dashes, by which a written flag is looked at; the other end of an on-off pair keeps its own."""
        spelled = self.spelled(written)
        if spelled is None:
            return normal(written)
        name = spelled.lstrip("-") if spelled.startswith("--no-") else self._by_name[spelled].name
        dot = written.find(".") if self.dotted else -1
        return name if dot < 0 else name + written[dot:]

    def was(self, written: str) -> bool:
        """Whether an older version had it."""
        name = written.partition(".")[0]
        return (name.replace("_", "-") if self.underscores else name).replace("--no-", "--") in self.former

    def variables(self, *classes: str) -> list[tuple[str, str]]:
        """The variables of one of these classes, each with the reason."""
        found = ((name, pair) for name, pairs in self.environment.items() for pair in pairs)
        return [(name, reason) for name, (one, reason) in found if one in classes]

    def nearest(self, written: str) -> str | None:
        """The flag that is most like a written one."""
        name = "--" + normal(written.partition(".")[0])
        found = difflib.get_close_matches(name, [n for n in self._by_name if n.startswith("--")], 1, 0.72)
        return found[0] if found else None

    def begun(self, written: str) -> list[str]:
        """The spellings that a written one begins, where they are several."""
        return [spelling for spelling in self._by_name if len(written) > 2 and spelling.startswith(written)]


def read(table: str, groups: t.Mapping[str, str], classes: t.Iterable[tuple[str, str]]) -> tuple[Flag, ...]:
    """The flags of a written table, with their classes: those of `classes`, rows of (class or class/reason, names without dashes), else
    what its group has."""
    given: dict[str, list[tuple[str, str]]] = {}
    for said, names in classes:
        for name in names.split():
            given.setdefault(name, []).append(_class(said))
    flags, group = [], ""
    for line in table.strip().splitlines():
        if line.startswith("#"):
            group = line[1:].strip()
            continue
        rest, _equals, default = line.partition(" = ")
        words, _bar, takes = rest.partition(" | ")
        spellings = tuple(words.split())
        mine = given.get(spellings[0].lstrip("-"))
        if mine is None and group in groups:
            mine = [_class(groups[group])]
        flags.append(Flag(spellings, takes or "one", group, default or None, tuple(mine or ())))
    return tuple(flags)


def read_variables(rows: t.Iterable[tuple[str, str]]) -> dict[str, tuple[tuple[str, str], ...]]:
    """The classes of variables, of rows like those of flags."""
    found: dict[str, tuple[tuple[str, str], ...]] = {}
    for said, names in rows:
        for name in names.split():
            found[name] = (*found.get(name, ()), _class(said))
    return found


def _class(said: str) -> tuple[str, str]:
    found, _slash, reason = said.partition("/")
    return found, reason
