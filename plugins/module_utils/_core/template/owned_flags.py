# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Owned flags: those that the plan derives for every member.

One rule for a group's roles and for cache services: a user's line that says what is derived anyway is dropped, any other value is refused,
and where nothing is derived (a command of the user's own) nothing is owned."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ..base.arguments import Arguments, Option
from ..base.finding import Findings
from .pasted import same

Pasted = list[tuple[str, str]]


@dataclass(frozen=True)
class Told:
    """What is said of a flag that is not the user's to set: where it is written, why, and what to write instead."""

    place: str
    why: str
    instead: t.Callable[[str], str]
    roles: t.Sequence[str] = ()


def every(_derived: Option) -> bool:
    """All that is derived is owned."""
    return True


def without_owned(
    argv: t.Sequence[str],
    derived: t.Sequence[str],
    told: Told,
    findings: Findings,
    owned: t.Callable[[Option], bool] = every,
    read: t.Callable[[t.Sequence[str]], Arguments] = Arguments,
) -> tuple[list[str], Pasted]:
    """(the user's argv without owned lines, the lines pasted back that the plan must look at again). `owned` says which of the derived
    flags are: the others are defaults, over which the user's stands. `read` reads an argv as its program does."""
    mine = {option.name: option for option in read(derived).options if owned(option)}
    kept: list[str] = []
    pasted: Pasted = []
    at = 0
    for option in read(argv).options:
        kept += argv[at : option.start]
        at = option.stop
        its = mine.get(option.name)
        if its is None:
            kept += argv[option.start : option.stop]
        elif same(option, its):
            if its.value and "${" in its.value:
                pasted.append((option.text, its.text))
        else:
            findings.error(
                "owned-flag",
                f"{told.place}: {option.text} is not yours to set: {told.why} ({its.text}).",
                f"Remove it.{told.instead(option.name)}",
                told.roles,
            )
    return [*kept, *argv[at:]], pasted
