# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The surveys of job templates: questions as AWX takes them, with choices from the inventory."""

from __future__ import annotations

import difflib
import typing as t
from dataclasses import dataclass

from ..base.errors import PdError
from ..base.plain import Plain
from ..base.words import names

# What AWX has a question have at least; a default is left out where it is empty, by AWX itself.
_EVERY: Plain = {"question_description": "", "required": False, "default": ""}
# Where the choices of a question come from.
_ALL = "all"


@dataclass(frozen=True)
class Choices:
    """What the inventory has: the names of its groups and of its rollouts, in its order."""

    groups: tuple[str, ...] = ()
    rollouts: tuple[str, ...] = ()

    def of(self, source: str, place: str) -> tuple[str, ...]:
        """The choices that a question takes from `source`; empty where there are none."""
        table = {
            "groups": self.groups,
            "groups and all": (_ALL, *self.groups),
            "rollouts": self.rollouts,
        }
        if source not in table:
            raise PdError(f"{place}: choices_from: {source!r} is none of {names(table)}.")
        return table[source]


def survey(asked: t.Sequence[str | Plain], questions: Plain, choices: Choices, place: str) -> dict[str, t.Any]:
    """What awx.awx takes as survey_spec. `asked` are the variables of `questions`, or questions that are laid over these; `place` is the
    key of them as a user wrote it."""
    made = [_question(one, questions, choices, f"{place}[{at}]") for at, one in enumerate(asked)]
    return {"name": "", "description": "", "spec": made}


def _question(asked: str | Plain, questions: Plain, choices: Choices, place: str) -> dict[str, t.Any]:
    own: Plain = {"variable": asked} if isinstance(asked, str) else asked
    variable = str(own.get("variable") or "")
    if not variable:
        raise PdError(f"{place} has no variable: write the name of the variable that the answer is of.")
    if variable not in questions and "type" not in own:
        near = difflib.get_close_matches(variable, questions, 1, 0.6)
        meant = f"Did you mean {near[0]}? " if near else ""
        raise PdError(
            f"{place}: there is no question for {variable}. {meant}One of your own has a question_name and a type."
        )
    made = {"question_name": variable, **_EVERY, **questions.get(variable, {}), **own}
    source = made.pop("choices_from", None)
    if source is not None and made["type"] == "multiplechoice":
        found = choices.of(str(source), place)
        # A list of nothing has no answer.
        made |= {"choices": list(found)} if found else {"type": "text", "min": 0, "max": 1024}
    return made
