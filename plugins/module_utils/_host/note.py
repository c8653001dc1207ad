# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a rollout keeps in the records of its groups, written on one host: a record changes here without a plan, and so only where it is
still what the rollout has read."""

from __future__ import annotations

import time
import typing as t

from .._core.base.checked import DamagedError
from .._core.base.errors import PdError
from .._core.facts import record
from .._runtimes.errors import HostError
from .._runtimes.store import Store
from . import lock

_AGAIN = "Run the rollout again: it goes on from what the records say."
Result = dict[str, t.Any]


def write_notes(
    store: Store,
    notes: t.Mapping[str, t.Mapping[str, t.Any]],
    holder: t.Mapping[str, t.Any],
    check: bool = False,
    now: t.Callable[[], float] = time.time,
) -> dict[str, Result]:
    """By group what became of its note: `changed`, and `serial` and `state` of its record then, or `failed` with `msg`. `notes` has for
    each group its `note` (empty: none is kept any more), and `formation` and `serial` as they were read."""
    return {group: _answer(store, group, wanted, holder, check, now) for group, wanted in notes.items()}


def _answer(
    store: Store,
    group: str,
    wanted: t.Mapping[str, t.Any],
    holder: t.Mapping[str, t.Any],
    check: bool,
    now: t.Callable[[], float],
) -> Result:
    try:
        if check:
            return _written(store, group, wanted, holder, now, check=True)
        with store.lock():
            return _written(store, group, wanted, holder, now, check=False)
    except PdError as exc:
        return {"changed": False, "failed": True, "msg": str(exc)}


def _written(
    store: Store,
    group: str,
    wanted: t.Mapping[str, t.Any],
    holder: t.Mapping[str, t.Any],
    now: t.Callable[[], float],
    check: bool,
) -> Result:
    doing = f"Noting what the rollout does with group {group}"
    try:
        there = store.record(group)
    except DamagedError as exc:
        raise HostError(doing, str(exc), "Deploy the group: its record is written again then.") from exc
    if there is None:
        raise HostError(doing, "there is no record of it here any more", _AGAIN)
    read = record.read(there, f"the record of group {group}")
    before = dict(there.get("rollout") or {})
    after = {key: value for key, value in (wanted.get("note") or {}).items() if value is not None}
    if before == after and read.formation == wanted.get("formation"):
        return {"changed": False, "serial": read.serial, "state": read.state}
    if (read.formation, read.serial) != (wanted.get("formation"), wanted.get("serial")):
        raise HostError(doing, "another run has changed the group since it was looked at", _AGAIN)
    # Refused while another run changes the group: that one writes the record in its end, without this.
    lock.taken(store.group_lock(group), holder, group, now())
    lock.apart(store, group, holder, now())
    written = {key: value for key, value in there.items() if key != "rollout"}
    # A plan that was made on the record before this is out of date, and is refused where it takes its lock.
    written |= {"serial": read.serial + 1, "updated": round(now(), 3), **({"rollout": after} if after else {})}
    if not check:
        store.write_record(group, written)
    return {"changed": True, "serial": read.serial + 1, "state": read.state}
