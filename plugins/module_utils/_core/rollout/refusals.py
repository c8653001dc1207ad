# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What refuses a rollout before anything of it is done: each reason a finding, all of them at once."""

from __future__ import annotations

import typing as t

from ..base.errors import PdError
from ..base.finding import Findings
from ..base.words import about, by_number
from .draw import Waves, draw, selected
from .moments import lasting
from .next_turn import not_running, step_seconds
from .note import conflict
from .spec import VARIABLE, Rollout
from .standing import Fleet, Standing

# How many groups a sentence names.
_MOST = 8
# Of a group that the rollout has in its hands it is next_turn that decides, from what it sees.
_IN_HAND = ("changing", "soaking", "not judged", "failed", "returned")
_DONE = ("passed", "skipped", "aborted")


def refuse(rollout: Rollout, fleet: Fleet, findings: Findings, release: t.Collection[str] = ()) -> Waves:
    """Who is in which wave, empty where that cannot be told. What keeps the rollout from going on becomes findings; `fleet` is as of
    next_turn, `release` as of Run. Of one that has begun only the groups that it has still to begin with are looked at."""
    try:
        waves = draw(rollout, fleet)
        every = selected(rollout, fleet)
    except PdError as exc:
        findings.error("rollout-selects-nothing", str(exc), "Write names, globs or labels of groups of the inventory.")
        return {}
    notes = {name: fleet[name].note for name in every}
    mine = {name for name, note in notes.items() if note is not None and note.of(rollout.name, rollout.digest)}
    _waves(rollout, waves, every, bool(mine), findings)
    _labels(rollout, fleet, every, findings)
    for name in every:
        note = notes[name]
        _taken(name, rollout, fleet, findings)
        ours = note is not None and note.rollout == rollout.name
        if not (ours and note is not None and note.state in _IN_HAND) and not (
            name in mine and note and note.state in _DONE
        ):
            _group(name, rollout, fleet, waves, findings, held=name not in release)
    return waves


def _waves(rollout: Rollout, waves: Waves, every: t.Sequence[str], begun: bool, findings: Findings) -> None:
    """Waves without a group, of a rollout that has not begun; and groups without a wave."""
    where = f"{VARIABLE}.{rollout.name}"
    for wave in rollout.waves if not begun else ():
        if wave.number in waves.values():
            continue
        if wave.percent is not None:
            message = f"{wave.percent} percent of {len(every)} groups are no more than the waves before it have"
            hint = "Raise its percent, or remove the wave."
        else:
            message = "its groups are in a wave before it, or are none that the rollout selects"
            hint = f"Name groups that {where}.groups selects, or remove the wave."
        findings.error("rollout-empty-wave", f"{where}.waves[{wave.number - 1}]: it has no group: {message}.", hint)
    left = [name for name in every if name not in waves]
    if left:
        findings.error(
            "rollout-left-out",
            f"{where}: {about(left, 'is', _MOST)} selected, and in no wave.",
            "End the waves with {percent: 100}, or select fewer groups.",
        )


def _labels(rollout: Rollout, fleet: Fleet, every: t.Sequence[str], findings: Findings) -> None:
    """Labels that waves go by: a group without one would be counted nowhere."""
    for wave in rollout.waves:
        for label in wave.labels:
            without = [name for name in every if label not in fleet[name].labels]
            if without:
                findings.error(
                    "rollout-label",
                    f"{VARIABLE}.{rollout.name}.waves[{wave.number - 1}]: {about(without, 'has', _MOST)} no label {label!r}, by which"
                    " the wave is spread or limited.",
                    f"Write labels: {{{label}: ...}} in pd_groups.{without[0]}"
                    + (" and the others." if len(without) > 1 else "."),
                )


def _taken(name: str, rollout: Rollout, fleet: Fleet, findings: Findings) -> None:
    group = fleet[name]
    if group.damaged:
        findings.error(
            "rollout-note-damaged",
            f"{name}: what its record says of a rollout cannot be read: {group.damaged}",
            f"Give up what it says: -e pd_rollout={rollout.name} -e pd_rollout_abort=true writes it anew.",
        )
    taken = conflict(group.note, rollout.name)
    if taken:
        findings.error(
            "rollout-overlap", f"{name}: {taken.partition('; ')[0]}.", f"{taken.partition('; ')[2].capitalize()}."
        )


def _group(name: str, rollout: Rollout, fleet: Fleet, waves: Waves, findings: Findings, held: bool) -> None:
    """What keeps a group from being changed when its turn comes."""
    group = fleet[name]
    if group.silent:
        findings.error(
            "rollout-silent",
            f"{name}: {about(group.silent, 'does not answer', _MOST)}, and what runs there is not known.",
            f"Bring {by_number(group.silent, 'it', 'them')} back, or take the group out of the rollout (by a label).",
        )
    elif not group.running:
        findings.error(
            "rollout-not-running",
            f"{name}: {not_running(name, group).partition(': ansible-playbook')[0]}.",
            f"ansible-playbook inferops.pd.deploy -e pd_group={name} brings it back; or take it out of the rollout.",
        )
    if group.held and held:
        findings.error(
            "rollout-held", f"{name}: it is held: {group.held}.", f"-e pd_release={name} lets it be changed again."
        )
    if not group.pending:
        return
    if rollout.beside:
        _beside(name, group, findings)
    elif rollout.on_failure == "return" and group.no_return:
        findings.error(
            "rollout-no-return",
            f"{name}: what it runs now could not be started again: {group.no_return}.",
            "Restore what is missing; or write on_failure: hold, which leaves a group that failed as it is.",
        )
    _fits(name, rollout, fleet, waves, findings)


def _beside(name: str, group: Standing, findings: Findings) -> None:
    """What keeps a group from being formed beside itself."""
    if group.no_hook:
        findings.error(
            "rollout-beside-hooks",
            f"{name}: strategy beside gives its endpoint to another router, and {group.no_hook}.",
            f"Write pd_groups.{name}.endpoint.hooks (docs/endpoints.md) and deploy it; or write strategy: restart.",
        )
    if group.no_room:
        findings.error(
            "rollout-beside-room",
            f"{name}: there is no room for a second formation beside the one that serves: {group.no_room}",
            "Free what it lacks, or add hosts to its patterns; leave roles.router.port out, since hooks tell clients where the router is;"
            " or write strategy: restart, with an outage of this group.",
        )


def _fits(name: str, rollout: Rollout, fleet: Fleet, waves: Waves, findings: Findings) -> None:
    """A step that is longer than the window would never begin."""
    if rollout.window is None or name not in waves:
        return
    takes = step_seconds(fleet[name], rollout.wave(waves[name]))
    if takes > rollout.window.seconds:
        findings.error(
            "rollout-window",
            f"{VARIABLE}.{rollout.name}.window: it is open for {lasting(rollout.window.seconds)}, and the step of {name} takes about"
            f" {lasting(takes)}, its soak included.",
            "Open it for longer, or shorten the soak; one of more than 30 minutes is not waited for, and may end at any time.",
        )
