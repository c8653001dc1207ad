# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who is in which wave. Named groups first; a percentage is of all groups of the rollout, each wave with those before it, and is spread
over the values of a label of the groups. The same rollout over the same groups draws the same; what has a note keeps its wave, whoever
comes or goes, and who comes later is in no wave that is over."""

from __future__ import annotations

import hashlib
import math
import typing as t

from ..base.errors import PdError
from ..base.order import natural
from ..spec import selector
from ..spec.workload import GROUP
from .spec import VARIABLE, Rollout, Wave
from .standing import Fleet

Waves = t.Mapping[str, int]


def selected(rollout: Rollout, fleet: Fleet) -> list[str]:
    """The groups of a rollout, as people count them. Raises PdError where something that is written selects nothing."""
    return sorted(_choose(f"{VARIABLE}.{rollout.name}.groups", rollout.groups, fleet), key=natural)


def draw(rollout: Rollout, fleet: Fleet) -> Waves:
    """The wave of each group of a rollout, in the order of the waves and, within one, in that in which they are changed. A group that is in
    no wave is not there. Raises PdError as `selected` does."""
    names = selected(rollout, fleet)
    kept = _kept(rollout, fleet, names)
    begun = max(kept.values(), default=1)
    found = dict(kept)
    for wave in rollout.waves:
        mine = _named(rollout, wave, fleet, names) if wave.groups else _share(rollout, wave, fleet, names, found)
        for name in mine:
            found.setdefault(name, max(wave.number, begun))
    order = {name: (number, _chance(rollout, name), name) for name, number in found.items()}
    return {name: found[name] for name in sorted(found, key=order.__getitem__)}


def _choose(where: str, what: selector.Selector, fleet: Fleet) -> list[str]:
    try:
        return selector.choose(what, {name: one.labels for name, one in fleet.items()}, GROUP)
    except PdError as exc:
        raise PdError(f"{where}: {exc}") from exc


def _kept(rollout: Rollout, fleet: Fleet, names: t.Iterable[str]) -> dict[str, int]:
    """The waves that notes of this rollout say."""
    notes = {name: fleet[name].note for name in names}
    digest = rollout.digest
    return {
        name: min(note.wave, len(rollout.waves))
        for name, note in notes.items()
        if note is not None and note.of(rollout.name, digest)
    }


def _named(rollout: Rollout, wave: Wave, fleet: Fleet, names: t.Sequence[str]) -> list[str]:
    """The groups of the rollout that a wave names. One that the rollout does not select is none of it, which refusals tell."""
    if wave.groups is None:
        return []
    where = f"{VARIABLE}.{rollout.name}.waves[{wave.number - 1}].groups"
    named = set(_choose(where, wave.groups, fleet))
    return [name for name in names if name in named]


def _share(rollout: Rollout, wave: Wave, fleet: Fleet, names: t.Sequence[str], found: Waves) -> list[str]:
    """Those that a wave of a percentage needs, beside those that are in a wave up to it, rounded up: from each value of the label that it
    is spread by in turn, the value first of which there are the fewest so far."""
    before = [name for name in names if found.get(name, wave.number + 1) <= wave.number]
    wanted = math.ceil(len(names) * (wave.percent or 0) / 100) - len(before)
    left = sorted((name for name in names if name not in found), key=lambda name: (_chance(rollout, name), name))
    drawn: list[str] = []
    taken: dict[str, int] = {}
    for name in before:
        taken[_value(wave, fleet, name)] = taken.get(_value(wave, fleet, name), 0) + 1
    while left and len(drawn) < wanted:
        # min is stable: of values that have as many, the one whose next group was drawn first.
        name = min(left, key=lambda one: taken.get(_value(wave, fleet, one), 0))
        left.remove(name)
        drawn.append(name)
        taken[_value(wave, fleet, name)] = taken.get(_value(wave, fleet, name), 0) + 1
    return drawn


def _value(wave: Wave, fleet: Fleet, name: str) -> str:
    return fleet[name].labels.get(wave.spread_by, "") if wave.spread_by else ""


def _chance(rollout: Rollout, name: str) -> str:
    """What a draw goes by: by chance, and always the same."""
    return hashlib.sha256(f"{rollout.digest} {name}".encode()).hexdigest()
