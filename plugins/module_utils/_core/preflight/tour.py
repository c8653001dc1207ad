# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The tour of a preflight: from the plan, where each host listens, whom it connects to, and to whom it measures. Pure: made once, on the
controller; what the listeners got is put in when it is known."""

from __future__ import annotations

import re
import typing as t

from ..facts.observed import Host
from ..plan.value import Plan
from ..recipes.mode import Mode
from ..spec.spec import ENGINE_ROLES

# Pairs of hosts between which bandwidth is measured. Each takes a second of two hosts' whole network.
MAX_PAIRS = 16
OTHER = {"prefill": "decode", "decode": "prefill"}


def announced(mode: Mode) -> set[str]:
    """The bands that a router tells of, with the members' URLs: their peers go there by the address of HTTP, not by the KV interface's."""
    tokens = [
        token
        for m in (mode.router.memberships.values() if mode.router else ())
        for some in m.peers.values()
        for token in some
    ]
    return {match[1] for token in tokens for match in re.finditer(r"peer\.ports\.(\w+)", token)}


def make(
    plan: Plan, hosts: t.Mapping[str, Host], told: t.Collection[str] = (), max_pairs: int = MAX_PAIRS
) -> dict[str, t.Any]:
    """{hosts: {name: part}, pairs, left_out}. A part is what a host listens on, and whom it tries; `told` are the bands of `announced`."""
    roles, places = _places(plan, told)
    parts: dict[str, dict[str, t.Any]] = {}
    for name, mine in roles.items():
        host = hosts[name]
        engines = sorted(mine & set(ENGINE_ROLES))
        parts[name] = {
            "name": name,
            "roles": sorted(mine),
            "addresses": sorted(_addresses(host)),
            "ports": {address: sorted(ports) for address, ports in places[name].items()},
            "high": [a for a in dict.fromkeys((host.kv_address, host.address)) if a] if engines else [],
            "peers": _peers(name, roles),
            "served": sorted(p for m in host.members if m.group == plan.group and m.alive for p in m.ports),
            "kv_address": host.kv_address,
            "address": host.address,
            "mtu": host.kv.mtu,
            "disks": [host.state_dir] if host.state_dir else [],
        }
    for name, part in parts.items():
        part["expect"] = sorted({name, *(other for other, theirs in parts.items() if name in theirs["peers"])})
    every = _pairs(roles)
    return {"hosts": parts, "pairs": every[:max_pairs], "left_out": len(every[max_pairs:])}


def _addresses(host: Host) -> set[str]:
    return {a for a in (host.address, host.kv_address) if a}


def _places(plan: Plan, told: t.Collection[str]) -> tuple[dict[str, set[str]], dict[str, dict[str, set[int]]]]:
    """The roles of each host, and the ports on which its members are reached, by address."""
    roles: dict[str, set[str]] = {}
    places: dict[str, dict[str, set[int]]] = {}
    for member in plan.members:
        http, kv = member.address, member.kv_address or member.address
        for part in member.parts:
            roles.setdefault(part.host, set()).add(member.role)
            mine = places.setdefault(part.host, {})
            if http:
                mine.setdefault(http, set()).add(part.port)
            for name, band in part.ports.items():
                for address in filter(None, {kv, http} if name in told else {kv}):
                    mine.setdefault(address, set()).update(range(band["base"], band["base"] + band["count"]))
    return roles, places


def _peers(name: str, roles: t.Mapping[str, set[str]]) -> list[str]:
    """The hosts that members of this host connect to: a prefill's are those of decode, and the other way round; a router's are all."""
    wanted = {OTHER[role] for role in roles[name] if role in OTHER} | (
        set(ENGINE_ROLES) if "router" in roles[name] else set()
    )
    return [other for other, theirs in roles.items() if other != name and theirs & wanted]


def _pairs(roles: t.Mapping[str, set[str]]) -> list[list[str]]:
    """Every pair of a prefill's and a decode's host, in an order in which the first ones touch every host."""
    prefill = [n for n, mine in roles.items() if "prefill" in mine]
    decode = [n for n, mine in roles.items() if "decode" in mine]
    found = [[p, decode[(i + shift) % len(decode)]] for shift in range(len(decode)) for i, p in enumerate(prefill)]
    cover: list[list[str]] = []
    seen: set[str] = set()
    for p, d in found:
        if p != d and not {p, d} <= seen:
            cover.append([p, d])
            seen |= {p, d}
    return cover + [pair for pair in found if pair[0] != pair[1] and pair not in cover]


# -- when all listen --------------------------------------------------------------------------------------------------------------------


def attempts(
    tour: t.Mapping[str, t.Any], name: str, listening: t.Mapping[str, t.Mapping[str, t.Any]]
) -> dict[str, t.Any]:
    """What host `name` tries, given what each host's listener got, see `mark_live`."""
    hosts = tour["hosts"]
    mine = tour["hosts"][name]
    engine = set(mine["roles"]) & set(ENGINE_ROLES)
    own = listening.get(name) or {}
    here = hosts[name]
    # A router's host listens on its own port alone.
    mine_too = [*(own.get("random") or {}).items(), *((a, p[0]) for a, p in (own.get("ports") or {}).items() if p)]
    connect, tell = [], [{"address": a, "port": p} for a, p in mine_too[:1]]
    for peer in mine["peers"]:
        got, there = listening.get(peer), hosts[peer]
        if got is None:
            continue
        pair = bool(engine & {OTHER[r] for r in tour["hosts"][peer]["roles"] if r in OTHER})
        places = []
        for address, port in got["random"].items():
            if pair:
                places.append(_place(address, [port], True, here, there))
        for address, ports in tour["hosts"][peer]["ports"].items():
            if not pair and address != there["address"]:
                continue
            bound = set(got["ports"].get(address) or ())
            live = {r["port"] for r in got["refused"] if r["address"] == address and r.get("live")}
            places += [
                _place(address, sorted(bound & set(ports)), True, here, there),
                _place(address, sorted(live & set(ports)), False, here, there),
            ]
        paths = []
        if pair and here["kv_address"] and there["kv_address"] and here["mtu"] and there["mtu"]:
            paths = [
                {"address": there["kv_address"], "mtu": min(here["mtu"], there["mtu"]), "source": here["kv_address"]}
            ]
        connect.append({"name": peer, "places": [p for p in places if p["ports"]], "paths": paths})
        tell += [{"address": a, "port": p} for a, p in list(got["random"].items())[:1]]
    return {"name": name, "connect": connect, "measure": _measures(tour, name, listening), "tell": tell}


def _place(
    address: str, ports: list[int], ours: bool, here: t.Mapping[str, t.Any], there: t.Mapping[str, t.Any]
) -> dict[str, t.Any]:
    # From KV interface to KV interface, as the engines do it: a route may lead there by another one.
    return {
        "address": address,
        "ports": ports,
        "ours": ours,
        "source": here["kv_address"] if address == there["kv_address"] else None,
    }


def _measures(
    tour: t.Mapping[str, t.Any], name: str, listening: t.Mapping[str, t.Mapping[str, t.Any]]
) -> list[dict[str, t.Any]]:
    """From the prefill's KV interface to the decode's: the way that the KV cache goes."""
    hosts, found = tour["hosts"], []
    for prefill, decode in tour["pairs"]:
        there = hosts[decode]["kv_address"] or hosts[decode]["address"]
        port = ((listening.get(decode) or {}).get("random") or {}).get(there)
        if prefill != name or not port:
            continue
        here = hosts[name]["kv_address"] or hosts[name]["address"]
        mine = ((listening.get(name) or {}).get("random") or {}).get(here)
        found.append(
            {
                "peer": decode,
                "address": there,
                "port": port,
                "own": {"address": here, "port": mine} if mine else None,
            }
        )
    return found


def mark_live(
    tour: t.Mapping[str, t.Any], listening: t.Mapping[str, t.Mapping[str, t.Any]]
) -> dict[str, dict[str, t.Any]]:
    """What the listeners got, with `live` on the ports that they could not get because a member of the group serves there."""
    marked: dict[str, dict[str, t.Any]] = {}
    for name, got in listening.items():
        served = set(tour["hosts"][name]["served"])
        refused = [{**r, "live": r["code"] == "EADDRINUSE" and r["port"] in served} for r in got.get("refused") or ()]
        marked[name] = {"random": got.get("random") or {}, "ports": got.get("ports") or {}, "refused": refused}
    return marked


def all_told(tour: t.Mapping[str, t.Any], connected: t.Mapping[str, t.Mapping[str, t.Any]]) -> bool:
    """Whether every host has reached all that it was to tell: then the listeners have ended by themselves."""
    return all(
        "peers" in connected.get(name, {}) and not any(peer["failed"] for peer in connected[name]["peers"].values())
        for name in tour["hosts"]
    )


def deadline(tour: t.Mapping[str, t.Any], forks: int, seconds: float) -> float:
    """After how many seconds a listener ends by itself: hosts come in batches, and each measurement waits for two hosts to be free."""
    busiest = max((sum(1 for pair in tour["pairs"] if name in pair) for name in tour["hosts"]), default=0)
    batches = -(-len(tour["hosts"]) // max(1, forks))
    return 20 + 10 * batches + (seconds + 0.5) * 2 * busiest
