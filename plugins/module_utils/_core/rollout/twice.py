# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A group that stands twice (facts/stands.py), as a person reads it: the one that serves, and what a rollout has formed beside it."""

from __future__ import annotations

import typing as t

from ..base.finding import Findings
from ..facts.stands import Stands
from .note import IN_HAND


def in_hand(note: t.Mapping[str, t.Any]) -> bool:
    """Whether a rollout has still to decide between the two, by its note as the record keeps it."""
    return note.get("state") in IN_HAND


def told(stands: Stands, note: t.Mapping[str, t.Any]) -> str:
    """What a group that stands twice is told to be: which of the two is which, and who takes the other one away."""
    both = f"{stands.serves} is the group, and {stands.twin} stands beside it"
    if not in_hand(note) and stands.told:
        return f"{both}, and hooks may send clients to it: the next deploy tells them of {stands.serves}, and the one after it removes it"
    if not in_hand(note):
        return f"{both}: it is what was left, and the next deploy, restart or run of the rollout removes it"
    name, state = str(note.get("rollout")), note.get("state")
    return f"{both} until rollout {name} is done with it (it is {state}): {ways_out(name)}"


def ways_out(rollout: str) -> str:
    """How it comes to stand once again, in words that follow a colon."""
    run = f"ansible-playbook inferops.pd.rollout -e pd_rollout={rollout}"
    return f"{run} goes on, and with -e pd_rollout_abort=true the one that is not the group is removed"


def say_twice(name: str, stands: Stands, note: t.Mapping[str, t.Any], findings: Findings) -> None:
    """Why nobody but the rollout changes it now."""
    rollout = str(note.get("rollout"))
    if not in_hand(note):
        findings.error(
            "group-stands-twice",
            f"{name} stands twice: {stands.serves} is the group, and hooks may send clients to {stands.twin}, which stands beside it. A"
            " change of one of them now could leave clients with neither.",
            f"ansible-playbook inferops.pd.deploy -e pd_group={name} tells the hooks of {stands.serves}; run this again then.",
        )
        return
    findings.error(
        "group-stands-twice",
        f"{name} stands twice: {stands.serves} is the group, {stands.twin} stands beside it, and rollout {rollout} is not done with it"
        f" ({note.get('state')}). A change of one of them now could leave clients with neither.",
        f"{ways_out(rollout)}.",
    )
