# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# This module util is PRIVATE to the collection.
"""Observing a host: everything that a plan reads of it, in one look."""

from __future__ import annotations

import platform
import socket
import sys
import typing as t
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field

from .. import _runtimes
from .._core import observed
from .._core.errors import PdError
from .._probes import executables, gpus, health, model, network, ports
from .._probes.logs import TAIL_LINES
from .._runtimes.protocol import Live, Runtime
from .._runtimes.state import State
from .wait import doomed

# A member that does not answer within this is not ready; the look as a whole must stay short.
HEALTH_TIMEOUT = 1.0


@dataclass
class Request:
    """What to look at."""

    ports: str = observed.DEFAULT_PORT_RANGE
    kv_interface: t.Sequence[str] = ()
    interface_plane: str = "data"
    address: str | None = None
    gpus: t.Sequence[t.Any] | None = None
    models: t.Sequence[str] = ()
    executables: t.Sequence[str] = ()
    runtimes: t.Sequence[str] = _runtimes.NAMES
    supervisord: str | None = None
    docker_host: str | None = None
    scope: str | None = None
    images: t.Sequence[str] = ()
    groups: t.Sequence[str] | None = None
    warnings: list[str] = field(default_factory=list)


def observe(request: Request, state: State) -> dict[str, t.Any]:
    """The pd_host fact. Slow looks run side by side."""
    low, high = observed.parse_range(request.ports, "pd_port_range")
    # Members of a runtime that nobody asked about hold ports and GPUs all the same.
    names = dict.fromkeys([*request.runtimes, *_runtimes.used(state)])
    runtimes = {
        name: _runtimes.runtime(name, state, request.supervisord, request.docker_host, request.scope) for name in names
    }
    with ThreadPoolExecutor(max_workers=8) as pool:
        wanted_gpus = pool.submit(gpus.find, request.gpus)
        interfaces = pool.submit(network.interfaces)
        listeners = pool.submit(ports.listening)
        sources = [label.get("source") or {} for label in state.labels()]
        models = {path: pool.submit(model.facts, path) for path in _asked(request.models, sources, "model")}
        images = pool.submit(_runtimes.images, runtimes, _asked(request.images, sources, "image"))
        members = [live for runtime in runtimes.values() for live in runtime.members()]
        found = interfaces.result()
        address = network.http_address(found, request.address)
        devices, problems = wanted_gpus.result()
        request.warnings += problems
        kernel = ports.kernel_ranges()
        return {
            "address": address,
            "kv_interface": network.choose(found, request.kv_interface, request.interface_plane, address),
            "interfaces": [i.plain() for i in found],
            "gpus": devices,
            "ports": {
                "range": f"{low}-{high}",
                "used": [listener.plain() for listener in listeners.result()],
                **kernel,
                "exposed": ports.exposed(low, high, kernel),
            },
            "members": _members(members, runtimes, state, {one.port for one in listeners.result()}),
            "records": {g: r for g, r in state.records().items() if request.groups is None or g in request.groups},
            "models": {path: future.result() for path, future in models.items()},
            "executables": {
                path: executables.facts(path) for path in _asked(request.executables, sources, "executable")
            },
            "images": images.result(),
            "runtimes": {name: dict(runtime.available()) for name, runtime in runtimes.items()},
            "state_dir": state.root,
            "digest": observed.digest(_runtimes.labels(state)),
            "hostname": socket.gethostname(),
            "python": {"version": platform.python_version(), "executable": sys.executable},
        }


def _asked(wanted: t.Sequence[str], sources: t.Sequence[t.Mapping[str, t.Any]], key: str) -> list[str]:
    """What a plan asks about, and what the members here were started from: whether that has changed since is told by status as well."""
    return list(dict.fromkeys([*wanted, *(str(source[key]) for source in sources if source.get(key))]))


def _members(
    members: t.Sequence[Live], runtimes: t.Mapping[str, Runtime], state: State, listening: t.Collection[int]
) -> list[dict[str, t.Any]]:
    """The members with what they answer, all asked at once. One whose side channel is closed is not ready, as when it started."""
    if not members:
        return []
    with ThreadPoolExecutor(max_workers=min(64, 2 * len(members))) as pool:
        asked: list[tuple[Live, Future[str], Future[list[dict[str, t.Any]] | None]]] = [
            (live, pool.submit(_unready, live), pool.submit(_registered, live)) for live in members
        ]
        told = [
            _member(live, unready.result() or _closed(live, listening), registered.result())
            for live, unready, registered in asked
        ]
    for member in told:
        if state.draining(member["label"]["group"], member["label"]["member"]):
            member["draining"] = True
    for member in told:
        _mark_stuck(member, runtimes)
    return told


def _member(live: Live, unready: str, registered: list[dict[str, t.Any]] | None) -> dict[str, t.Any]:
    told: dict[str, t.Any] = {**live, "ready": not unready}
    if unready and live["state"] == "running":
        told["why"] = "; ".join(filter(None, [live["why"], unready]))
    if live["label"]["role"] == "router":
        told["registered"] = registered
    return told


def _mark_stuck(member: dict[str, t.Any], runtimes: t.Mapping[str, Runtime]) -> None:
    """A process that lives and will never serve counts as down, so that a plan replaces it."""
    label = member["label"]
    runtime = runtimes.get(label.get("runtime") or "")
    if member["state"] not in observed.ALIVE or member["ready"] or runtime is None:
        return
    try:
        why = doomed(member, runtime.logs(label["group"], label["member"], TAIL_LINES))
    except PdError:
        return
    if why:
        member |= {"state": "stuck", "why": why}


def _unready(live: Live) -> str:
    """Why a member does not serve; empty when it does."""
    if live["state"] != "running":
        return live["why"] or live["state"]
    label = live["label"]
    try:
        status, why = health.ask(label["url"], label.get("health"), HEALTH_TIMEOUT)
    except PdError as exc:
        return str(exc)
    what = health.asked(label)
    asked = f"GET {what}" if what.startswith("http") else what
    if status is None:
        return f"{asked}: {why}"
    return "" if 200 <= status < 300 else f"{asked} answered {status}"


def _closed(live: Live, listening: t.Collection[int]) -> str:
    """Which of a member's own ports nobody listens on; empty when all are open."""
    wanted = (live["label"].get("probe") or {}).get("listening") or ()
    closed = [f"{port['port']} ({port['name']})" for port in wanted if port["port"] not in listening]
    return f"nobody listens on {', '.join(closed)}" if closed else ""


def _registered(live: Live) -> list[dict[str, t.Any]] | None:
    """The peers that a router knows, read over its API; None when that cannot be read."""
    label = live["label"]
    if label["role"] != "router" or live["state"] != "running" or not label.get("dialect"):
        return None
    from .. import _routers

    try:
        peers = _routers.dialect(label["dialect"]).list(label["url"], HEALTH_TIMEOUT)
    except PdError:
        return None
    return [{key: peer[key] for key in ("url", "worker_type", "healthy")} for peer in peers]
