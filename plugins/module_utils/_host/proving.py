# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The proofs of several groups, side by side: each sends requests to its own members, and most of a proof is waiting for answers."""

from __future__ import annotations

import typing as t
from concurrent.futures import ThreadPoolExecutor

from .._core.base.errors import PdError
from .._core.base.plain import Plain
from .._core.proof.asked import Asked
from .._probes import credentials
from .failure import told
from .proof import Proof, Result

# Engines of one host answer more slowly when they all are asked at once.
SIDE_BY_SIDE = 8
# Of one request and of a whole proof, in seconds; and how many pairs are measured.
TIMEOUT, LIMIT, MAX_PAIRS = 60.0, 600.0, 64
_WAY_OUT = "The action plugin gives each group once, with its plan."

# By workload: the keys of each role, the likeliest first.
KeysOf = t.Mapping[str, t.Mapping[str, t.Sequence[str]]]


def prove_all(workloads: t.Sequence[Plain], keys: KeysOf, api_key: str | None = None) -> dict[str, Result]:
    """The result of each, by its name. One that cannot be proven is `failed`, as one whose proof fell over; nothing is raised but for what
    is no list of workloads.

    Each is {group, plan, members, formations, timeout, limit, max_pairs}: `limit` counts from when its own proof begins."""
    names = [str(one.get("group") or "") for one in workloads]
    if "" in names or len(set(names)) < len(names):
        raise PdError(f"Reading option workloads: it names {names}. {_WAY_OUT}")
    if not names:
        return {}
    with ThreadPoolExecutor(max_workers=min(SIDE_BY_SIDE, len(names))) as pool:
        proofs = pool.map(lambda name, one: _alone(name, one, keys.get(name) or {}, api_key), names, workloads)
        return dict(zip(names, proofs))


def keys_of(given: t.Mapping[str, t.Any], own: t.Sequence[str], first: str | None) -> dict[str, list[str]]:
    """The keys to try for each role: the one that was given, those of the router's own process, and those of the spec: where a secret was
    changed since, the group still runs with what it was started with."""
    return {
        role: list(dict.fromkeys(key for key in (first, *own, *(given.get(role) or ())) if key))
        for role in ("router", "prefill", "decode")
    }


def _alone(name: str, one: Plain, keys: t.Mapping[str, t.Any], api_key: str | None) -> Result:
    """The result of one proof, whatever becomes of it: the others must not fall with it."""
    try:
        found = _prove(one, keys, api_key)
    except Exception as exc:  # noqa: BLE001 - a fault of this code, too, is the workload's own
        why = told(f"Proving group {name}", exc)
        found = {"good": False, "why": why, "msg": why, "router": None, "pairs": [], "table": [why]}
    return {**found, "changed": False, "failed": not found["good"], "group": name}


def _prove(one: Plain, keys: t.Mapping[str, t.Any], api_key: str | None) -> Result:
    asked = Asked.from_plain(one.get("plan") or {})
    if one.get("members") is not None:
        asked = asked.only(one["members"])
    own = credentials.of_listener(asked.router) if asked.router else ()
    timeout, limit = float(one.get("timeout") or TIMEOUT), float(one.get("limit") or LIMIT)
    pairs = int(one.get("max_pairs") or MAX_PAIRS)
    return Proof(asked, timeout, limit, pairs, keys_of(keys, own, api_key), one.get("formations")).run()
