# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a person is told of a rollout: its waves, for a preview and for the report at the end, and what the state of a group says of it."""

from __future__ import annotations

import typing as t

from ..base.printable import fit
from ..base.words import by_number, counted, names
from .draw import Waves
from .moments import clock, lasting
from .note import STATES, Note
from .spec import Gate, Rollout, Wave
from .standing import Fleet, Standing

# Hosts, and lines of what changes, that are told of one group.
_MOST_HOSTS = 8
_MOST_LINES = 12


def line(note: Note) -> str:
    """What the state of a group says of the rollout that has its note: which, which wave, how far, and why."""
    told = f"rollout {note.rollout}, wave {note.wave}: it {STATES[note.state]}"
    if note.state == "soaking" and note.soak_ends is not None:
        told += f" until {clock(note.soak_ends)}"
    elif note.since:
        told += f", since {clock(note.since)}"
    told += f" ({note.why})" if note.why else ""
    told += "; paused" if note.paused and not note.ended else ""
    return fit(told)


def table(rollout: Rollout, fleet: Fleet, waves: Waves) -> list[str]:
    """The rollout in lines: a head, then each wave with its groups; of one that has something to change its hosts, what changes, and how
    long it will be out."""
    lines = [_head(rollout, waves)]
    for wave in rollout.waves:
        mine = [name for name, number in waves.items() if number == wave.number]
        lines.append(f"  wave {wave.number}: {counted(len(mine), 'group')}{_how(wave)}")
        width = max(map(len, mine), default=0)
        for name in mine:
            lines += _group(name.ljust(width), fleet[name], rollout)
    return [fit(one) for one in lines]


def _head(rollout: Rollout, waves: Waves) -> str:
    told = f"rollout {rollout.name} ({rollout.digest}): {counted(len(waves), 'group')} in {counted(len(rollout.waves), 'wave')}"
    told += ", each group formed beside what serves" if rollout.beside else ""
    told += f", on failure {rollout.on_failure}"
    told += f" with at most {rollout.max_failed} failed" if rollout.on_failure == "continue" else ""
    told += f", window {rollout.window.told()}" if rollout.window else ""
    gate = _gate(rollout.gate)
    return told + (f"\n  gate: {gate}" if gate else "\n  gate: that a group runs and is proven, nothing is measured")


def _gate(gate: Gate) -> str:
    told = [f"at most {gate.errors:.3g} of the requests fail"] if gate.errors is not None else []
    if gate.ttft_p95 is not None:
        told.append(f"the first token comes within {gate.ttft_p95:g} times what it took before (p95)")
    told += [f"at least {counted(gate.min_requests, 'request')}"] if gate.counts and gate.min_requests else []
    told += [f"{gate.command[0]} ends well"] if gate.command else []
    return ", ".join(told)


def _how(wave: Wave) -> str:
    told = [f"soak {lasting(wave.soak)}"] if wave.soak else []
    told += [f"{wave.parallel} at a time"] if wave.parallel > 1 else []
    told += [f"spread by {wave.spread_by}"] if wave.spread_by else []
    limits = [f"{label} {count}" for label, count in wave.max_unavailable.items()]
    told += [f"at most out: {', '.join(limits)}"] if limits else []
    return f" ({'; '.join(told)})" if told else ""


def _group(name: str, group: Standing, rollout: Rollout) -> list[str]:
    note = group.note if group.note is not None and group.note.of(rollout.name, rollout.digest) else None
    where = f" on {names(group.hosts, _MOST_HOSTS)}" if group.hosts else ""
    state = f"it {STATES[note.state]}" + (f" ({note.why})" if note.why else "") if note else ""
    if group.pending and (note is None or note.state in ("planned", "held", "changing")):
        about = "" if group.outage is not None else ", as no start of it is known"
        will = f"out for about {lasting(group.estimate)}{about}"
        if rollout.beside:
            will = f"formed beside what serves, in about {lasting(group.estimate)}{about}; not out"
        state = f"{will}; {state}" if state else will
    elif not group.pending and note is None:
        state = "nothing to change"
    state += f"; {group.twin.stand} stands beside it" if group.twin else ""
    lines = [f"    {name}  {state}{where}"]
    return lines + _changes(group.what if group.pending else ())


def _changes(what: t.Sequence[str]) -> list[str]:
    more = len(what) - _MOST_LINES
    told = [f"        {one}" for one in what[:_MOST_LINES]]
    return told + ([f"        and {more} more {by_number(more, 'line', 'lines')}"] if more > 0 else [])
