# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A preflight on one host: look at what members need beside facts, listen on what they will listen on, and try the peers.

It changes nothing: the listeners end by themselves."""

from __future__ import annotations

import contextlib
import re
import socket
import time
import typing as t
from concurrent.futures import ThreadPoolExecutor

from .._probes import command, firewall, reach, rights, space

MAX_THREADS = 32
# An ICMP echo's headers, which -s leaves out.
_HEADERS = {False: 28, True: 48}
_LARGEST = 16000
Task = t.Mapping[str, t.Any]


def listen(task: Task, token: str, seconds: float, name: str) -> dict[str, t.Any]:
    """Listen for the peers in a process apart of that name, and look around."""
    # First: a process with threads is none to fork.
    listener = reach.Listener(token, task.get("expect") or (), seconds)
    bound = listener.bind(task.get("ports") or {}, task.get("high") or ())
    pid = listener.detach(name)
    with ThreadPoolExecutor(max_workers=4) as pool:
        walls = pool.submit(firewall.firewall)
        apps = pool.submit(space.on_gpus)
        return {
            "listening": bound.plain(),
            "listener": pid,
            "rights": rights.rights(),
            "rdma": rights.rdma(),
            "drivers": rights.drivers(),
            "proxies": firewall.proxies(),
            "disks": {path: space.room(path) for path in dict.fromkeys(task.get("disks") or ())},
            "shm": space.room("/dev/shm"),
            "not_here": {a: why for a in task.get("addresses") or () for why in [not_here(a)] if why},
            "firewall": walls.result(),
            "gpu_processes": apps.result(),
            # The last word: what comes after it is the way back.
            "time": time.time(),
        }


def not_here(address: str) -> str:
    """Why a member could not listen on an address of this host; empty when it can."""
    try:
        found = {str(info[4][0]) for info in socket.getaddrinfo(address, None, type=socket.SOCK_STREAM)}
    except OSError as exc:
        return f"it is looked up here and not found ({exc.strerror or exc})"
    for ip in sorted(found):
        try:
            with socket.socket(reach.family(ip), socket.SOCK_STREAM) as probe:
                probe.bind((ip, 0))
        except OSError:
            return (
                "no interface of the host has it"
                if ip == address
                else f"it is looked up here as {ip}, which no interface has"
            )
        if ip != address and ip.startswith("127."):
            return f"it is looked up here as {ip} (/etc/hosts), which peers do not reach"
    return ""


# -- trying the peers -----------------------------------------------------------------------------------------------------------------


def connect(task: Task, token: str, seconds: float) -> dict[str, t.Any]:
    """Try every peer, then measure to some, and tell all of them that this host is done."""
    peers = task.get("connect") or ()
    attempts = [
        (peer["name"], place["address"], port, token if place["ours"] else None, place.get("source"))
        for peer in peers
        for place in peer["places"]
        for port in place["ports"]
    ]
    paths = [(peer["name"], path) for peer in peers for path in peer.get("paths") or ()]
    with ThreadPoolExecutor(max_workers=min(MAX_THREADS, len(attempts) + len(paths) + 1)) as pool:
        tried = [(a, pool.submit(reach.try_port, *a[1:])) for a in attempts]
        walked = [(name, path, pool.submit(_walk, path)) for name, path in paths]
        found = _by_peer([(a, future.result()) for a, future in tried])
        mtu = [{"peer": name, "address": path["address"], **future.result()} for name, path, future in walked]
    measured = []
    for pair in task.get("measure") or ():
        own = (pair["own"]["address"], pair["own"]["port"]) if pair.get("own") else None
        place = (pair["address"], pair["port"])
        reached = not any(f["address"] == pair["address"] for f in found.get(pair["peer"], {}).get("failed", ()))
        told = reach.bandwidth(own, place, token, seconds) if reached else {"why": "not reached"}
        measured.append({"peer": pair["peer"], "address": pair["address"], **told})
    done([(p["address"], p["port"]) for p in task.get("tell") or ()], token, str(task.get("name") or ""))
    return {"peers": found, "mtu": mtu, "measured": measured}


def _by_peer(tried: t.Iterable[tuple[t.Any, dict[str, t.Any]]]) -> dict[str, dict[str, t.Any]]:
    found: dict[str, dict[str, t.Any]] = {}
    for (name, address, port, _token, _source), told in tried:
        peer = found.setdefault(name, {"tried": 0, "failed": [], "clock": None, "within": None})
        peer["tried"] += 1
        if told.get("why"):
            peer["failed"].append({"address": address, "port": port, "kind": told["kind"], "why": told["why"]})
        elif "clock" in told and (peer["within"] is None or told["within"] < peer["within"]):
            peer["clock"], peer["within"] = round(told["clock"], 3), round(told["within"], 3)
    return found


def _walk(path: Task) -> dict[str, t.Any]:
    """Whether packets as large as both ends' MTU get through: {mtu, passed, answers}. `passed` is None where ping cannot tell."""
    address, mtu = path["address"], int(path["mtu"])
    size = mtu - _HEADERS[":" in address]
    if mtu > _LARGEST or command.find("ping") is None:
        return {"mtu": mtu, "passed": None}
    source = ["-I", path["source"]] if path.get("source") else []
    argv = ["ping", "-n", "-c", "2", "-i", "0.2", "-W", "1", *source]
    large = command.run([*argv, "-M", "do", "-s", str(size), address])
    if large and not large.error:
        return {"mtu": mtu, "passed": True}
    limit = re.search(r"mtu\s*=?\s*(\d+)", large.out + large.error if large else "")
    small = command.run([*argv, address])
    answers = bool(small and not small.error)
    return {"mtu": mtu, "passed": False if answers else None, "limit": int(limit[1]) if limit else None}


def done(places: t.Iterable[tuple[str, int]], token: str, name: str) -> None:
    """Tell listeners that `name` needs them no more. One that cannot be told is ended on its own host."""
    for address, port in places:
        with contextlib.suppress(OSError):
            reach.ask(address, port, token, f"DONE {name}")
