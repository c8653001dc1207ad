# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Counts and lists of names in sentences: one replica, two replicas; h2 was, h2, h3 were."""

from __future__ import annotations

import typing as t


def counted(number: int, noun: str, plural: str = "") -> str:
    """A count with its noun: "1 replica", "2 replicas"; `plural` where it is not the noun with an s."""
    return f"{number} {noun if number == 1 else plural or noun + 's'}"


# How many hosts a sentence names, where there may be hundreds.
MOST_HOSTS = 8


def names(found: t.Iterable[object], most: int = 0) -> str:
    """Names in a row; with `most`, as many as that and how many more there are."""
    every = [str(one) for one in found]
    if not most or len(every) <= most:
        return ", ".join(every)
    return f"{', '.join(every[:most])} and {len(every) - most} more"


def by_number(found: t.Sized | int, one: str, many: str) -> str:
    """The word for one of them, or for several: by_number(hosts, "was", "were")."""
    return one if (found if isinstance(found, int) else len(found)) == 1 else many


# How a sentence about one goes on, and about several.
_VERBS = {
    "answers": "answer",
    "does": "do",
    "has": "have",
    "is": "are",
    "lives": "live",
    "runs": "run",
    "says": "say",
    "was": "were",
}


def about(found: t.Sequence[str], said: str, most: int = 0) -> str:
    """A sentence about some, given how it goes on about one: about(["h2", "h3"], "was left out") is "h2, h3 were left out". `most` as of
    `names`."""
    verb = _first(said)
    return f"{names(found, most)} {by_number(found, verb, _VERBS.get(verb, verb))}{said[len(verb) :]}"


def is_about(name: str, text: str) -> bool:
    """Whether a text is a sentence about a name that `about` could say of several."""
    return text.startswith(f"{name} ") and _first(text[len(name) + 1 :]) in {*_VERBS, "did", "gave"}


def _first(text: str) -> str:
    return text.partition(" ")[0].rstrip(",;:.")
