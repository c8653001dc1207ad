# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kinds of errands: what each does with its order. A new kind is a line of the table.

Keys of members are in `secrets`, never in an order: `lent` has those of processes by their URL, since a Pod may not look into another
one's."""

from __future__ import annotations

import typing as t
from concurrent.futures import ThreadPoolExecutor

from .._core.base.errors import PdError
from .._core.base.plain import Plain
from .._core.base.printable import printable
from .._host import preflight, proving
from .._host.drain import drain
from .._probes import credentials
from .._routers import dialect
from .._routers.registration import register
from . import look

# Members that are drained at a time.
AT_ONCE = 32
# Of a question to a router.
_TIMEOUT = 9.0


def carry_out(kind: str, order: Plain, secrets: Plain) -> dict[str, t.Any]:
    """Do it. Raises PdError with what the errand's caller is to be told."""
    found = KINDS.get(kind)
    if found is None:
        raise PdError(f"{kind!r} is no kind of errand. Known: {', '.join(sorted(KINDS))}.")
    for url, keys in (secrets.get("lent") or {}).items():
        credentials.lend(str(url), [str(one) for one in keys])
    return found(order, secrets)


def _router(order: Plain, secrets: Plain) -> dict[str, t.Any]:
    """`order`: {peers: what router_peers is asked, check}. Members are registered and read back: {peers: its result}. `secrets.keys`: of
    each role."""
    return {"peers": register({**order["peers"], "keys": secrets.get("keys")}, bool(order.get("check")))}


def _peers(order: Plain, _secrets: Plain) -> dict[str, t.Any]:
    """`order`: {routers: {url, dialect} each}. Whom each knows: {registered: {peers, or None with why} each}."""
    routers = list(order.get("routers") or ())
    with ThreadPoolExecutor(max_workers=max(1, min(AT_ONCE, len(routers)))) as pool:
        return {"registered": list(pool.map(_known, routers))}


def _known(router: Plain) -> dict[str, t.Any]:
    try:
        return {"peers": dialect(str(router["dialect"])).list(str(router["url"]), _TIMEOUT)}
    except PdError as exc:
        return {"peers": None, "why": printable(exc)}


def _leave(order: Plain, secrets: Plain) -> dict[str, t.Any]:
    """`order`: {peers: as of router, or none, members: [{label, seconds, upstream}]}. Taken out of the router, and then drained side by
    side: {peers, left: by member what it still had, "" for nothing}. Where they could not be taken out, nobody is waited for."""
    result = _router(order, secrets) if order.get("peers") else {}
    members = list(order.get("members") or ())
    if not members or (result and result["peers"].get("failed")):
        return {**result, "left": {}}
    with ThreadPoolExecutor(max_workers=min(AT_ONCE, len(members))) as pool:
        left = pool.map(lambda one: drain(one["label"], float(one["seconds"]), one.get("upstream") or ()), members)
        return {**result, "left": {str(one["label"]["member"]): why for one, why in zip(members, left)}}


def _proof(order: Plain, secrets: Plain) -> dict[str, t.Any]:
    """`order`: {workloads: as group_proof is given them}. `secrets`: {keys: by workload and role, api_key}."""
    return {"workloads": proving.prove_all(order["workloads"], secrets.get("keys") or {}, secrets.get("api_key"))}


def _listen(order: Plain, _secrets: Plain) -> dict[str, t.Any]:
    """`order`: {task: as of a preflight, token, seconds, name}. What it answers is said while it listens (run.py): the Pod is there until
    its peers have tried it, or until it is deleted."""
    return preflight.listen(order["task"], str(order["token"]), float(order["seconds"]), str(order["name"]))


def _connect(order: Plain, _secrets: Plain) -> dict[str, t.Any]:
    """`order`: {task: as of a preflight, token, seconds}. Tries the peers that listen by now."""
    return preflight.connect(order["task"], str(order["token"]), float(order["seconds"]))


# What goes on once the answer is said: the key of the process in it.
GOES_ON = "listener"
KINDS: dict[str, t.Callable[[Plain, Plain], dict[str, t.Any]]] = {
    "look": look.look,
    "router": _router,
    "peers": _peers,
    "leave": _leave,
    "proof": _proof,
    "listen": _listen,
    "connect": _connect,
}
