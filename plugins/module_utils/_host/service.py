# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A router in service: in the call that started it, it is seen to answer and to know its peers. Clients wait for just this, and a module
call of its own for each step would add a second or two to every outage. Members that leave it are taken out of it here as well."""

from __future__ import annotations

import typing as t

from .._routers.registration import register
from .._runtimes.protocol import Driver
from .._runtimes.store import Store
from . import lock
from .members import Order
from .wait import Request, wait

# A router answers within a second or two; for one that takes longer the controller waits, and tells how it goes.
PATIENCE = 5


# Does what router_peers is asked, {check} or for good, if that may be; its result.
Register = t.Callable[[t.Mapping[str, t.Any], bool, t.Callable[[], None]], dict[str, t.Any]]


def see_to_router(order: Order, store: Store, driver: Driver, tell: Register | None = None) -> dict[str, t.Any]:
    """Wait for the router that was started, if one was, and do the registration that is asked for; `driver` runs it, and `tell` speaks to
    it. The run must hold the group's lock whenever a peer is added or removed.

    The result has `waited`, what the wait saw, and `peers`, what router_peers would tell; neither when the time for it has not come."""
    result: dict[str, t.Any] = {}
    group = order.share.group
    if order.router and not order.check:
        asked = Request(group, driver.name, order.router, PATIENCE)
        result["waited"] = wait(asked, store, lambda _runtime: driver)
        if any(seen["state"] != "ready" for seen in result["waited"]["members"].values()):
            return result
    if order.peers:

        def may_change() -> None:
            with store.lock():
                lock.check(store, group, order.holder)

        result["peers"] = (tell or register)({**order.peers, "keys": order.keys}, order.check, may_change)
    return result
