# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A router in service: in the call that started it, it is seen to answer and to know its peers. Clients wait for just this, and a module
call of its own for each step would add a second or two to every outage."""

from __future__ import annotations

import typing as t

from .._routers.registration import register
from .._runtimes.state import State
from . import lock
from .wait import Request, wait

# A router answers within a second or two; for one that takes longer the controller waits, and tells how it goes.
PATIENCE = 5


def bring_into_service(
    router: t.Sequence[t.Mapping[str, t.Any]],
    peers: t.Mapping[str, t.Any] | None,
    how: t.Mapping[str, t.Any],
    state: State,
    check: bool,
    holder: t.Mapping[str, t.Any] | None = None,
    keys: t.Mapping[str, str] | None = None,
) -> dict[str, t.Any]:
    """Wait for `router`, a list of the one that was started or of none, and do the registration `peers`. `how` names group and runtime,
    with its options; `holder` is the run, which must hold the group's lock whenever a peer is added or removed; `keys` are
    those that the members of each role ask for.

    The result has `waited`, what the wait saw, and `peers`, what router_peers would tell; neither when the time for it has not come."""
    result: dict[str, t.Any] = {}
    if router and not check:
        waited = wait(Request(members=router, seconds=PATIENCE, **how), state)
        result["waited"] = waited
        if any(seen["state"] != "ready" for seen in waited["members"].values()):
            return result
    if peers:

        def may_change() -> None:
            if holder:
                with state.lock():
                    lock.check(state, str(how["group"]), holder)

        result["peers"] = register({**peers, "keys": keys}, check, may_change)
    return result
