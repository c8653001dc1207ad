# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The observation of a host: everything that a plan reads of it, in one look."""

from __future__ import annotations

import os
import platform
import socket
import sys
import time
import typing as t
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field

from .. import _runtimes
from .._core.base.errors import PdError
from .._core.base.printable import printable
from .._core.facts import applied, observed
from .._core.facts.kv_interface import PLANES, names_of
from .._core.runtimes.table import ON_HOSTS
from .._probes import carried, elsewhere, executables, gpus, health, machine, model, network, ports, rdma, reach, space
from .._probes.deadline import Look
from .._probes.logs import TAIL_LINES
from .._runtimes.protocol import Driver, Live, TellsDamage
from .._runtimes.state import State
from . import hidden
from .wait import ENGINE_ROLES, doomed, doubts, ended

# A member that does not answer within this is not ready; the look as a whole must stay short.
HEALTH_TIMEOUT = 1.0
# Models and engines may be on a file system whose server is gone: all looks at files together take no longer than this.
FILES_TIMEOUT = 30.0


@dataclass
class Request:
    """What to look at. `state_given` is whether the inventory names the state folder (pd_state_dir); `controller`, of `runs.living`, says
    which runs may still need what they have left here; `kept`: also at what records here keep of formations."""

    ports: str = observed.DEFAULT_PORT_RANGE
    kv_interface: t.Sequence[str] = ()
    interface_plane: str = "data"
    address: str | None = None
    gpus: t.Sequence[t.Any] | None = None
    models: t.Sequence[str] = ()
    executables: t.Sequence[str] = ()
    runtimes: t.Sequence[str] = ON_HOSTS
    runtime_options: t.Mapping[str, t.Any] | None = None
    images: t.Sequence[str] = ()
    groups: t.Sequence[str] | None = None
    kept: bool = False
    state_given: bool = False
    controller: t.Mapping[str, t.Any] | None = None
    warnings: list[str] = field(default_factory=list)


def observe(request: Request, state: State) -> dict[str, t.Any]:
    """The pd_host fact. Slow looks run side by side."""
    low, high = observed.parse_range(request.ports, "pd_port_range")
    if request.controller and request.controller.get("machine"):
        reach.end_left(str(request.controller["machine"]), frozenset(request.controller.get("marks") or ()))
    place = hidden.Place(state.root, request.state_given, os.geteuid())
    # What is kept there is somebody else's: all else of the host is told, and the whole of it says that this is not all.
    blind = hidden.unreadable(place)
    # Members of a runtime that nobody asked about hold ports and GPUs all the same.
    names = dict.fromkeys([*request.runtimes, *(() if blind else _runtimes.used(state))])
    drivers = {name: _runtimes.driver(name, state, request.runtime_options) for name in names}
    sources = [] if blind else _sources(state, request.kept)
    files = _Files(
        models=_asked(request.models, sources, "model"),
        executables=_asked(request.executables, sources, "executable"),
    )
    with ThreadPoolExecutor(max_workers=8) as pool:
        wanted_gpus = pool.submit(gpus.find, request.gpus)
        on_gpus = pool.submit(space.users)
        interfaces = pool.submit(network.interfaces)
        listeners = pool.submit(ports.listening)
        images = _asked(request.images, sources, "image")
        told = {name: pool.submit(driver.facts, images) for name, driver in drivers.items()}
        members = [] if blind else [live for driver in drivers.values() for live in driver.members()]
        found = interfaces.result()
        address = network.http_address(found, (request.address or "").strip() or None)
        devices, problems = wanted_gpus.result()
        request.warnings += problems
        kernel = ports.kernel_ranges()
        said = {name: one.result() for name, one in told.items()}
        containers = [container for one in said.values() for container in one["elsewhere"]]
        return {
            "address": address,
            **_kv_interfaces(request, found, address),
            "interfaces": [i.plain() for i in found],
            "rdma_devices": rdma.devices(),
            "gpus": devices,
            "gpu_tools": gpus.tools() if request.gpus is None else None,
            "gpu_processes": _strangers(request, state, devices, members, on_gpus.result()),
            "ports": {
                "range": f"{low}-{high}",
                "used": [listener.plain() for listener in listeners.result()],
                **kernel,
                "exposed": ports.exposed(low, high, kernel),
            },
            "members": _members(members, drivers, state, listeners.result()),
            "images": {image: its for one in said.values() for image, its in one["images"].items()},
            "runtimes": {name: dict(one["available"]) for name, one in said.items()},
            "machine": machine.machine(),
            "hidden": blind or hidden.hidden(place, containers),
            "elsewhere": _elsewhere(request, state, containers),
            **_kept(request, state, drivers, bool(blind)),
            **files.told(request),
            "hostname": socket.gethostname(),
            "python": {"version": platform.python_version(), "executable": sys.executable},
        }


def _kv_interfaces(
    request: Request, found: t.Sequence[network.Interface], address: str | None
) -> dict[str, dict[str, t.Any]]:
    """The interface for the plane that was asked about, and that of each: groups of one run may be of modes that need another one."""
    names = names_of(request.kv_interface)
    planes = {plane: network.choose(found, names, plane, address).to_plain() for plane in PLANES}
    return {"kv_interface": planes[request.interface_plane], "kv_interfaces": planes}


def _kept(request: Request, state: State, drivers: t.Mapping[str, Driver], blind: bool) -> dict[str, t.Any]:
    """What the state folder says beside its members; nothing of one that cannot be read."""
    told: dict[str, t.Any] = {"state_dir": state.root, "state": machine.state(state.root)}
    if blind:
        nothing: dict[str, t.Any] = {
            "records": {},
            "holds": [],
            "locks": {},
            "damaged": [],
            "digests": {},
            "cordon": None,
        }
        return {**told, **nothing, "held": {}}
    labels, records = state.labels(), state.records()
    mine = [one for one in drivers.values() if isinstance(one, TellsDamage)]
    return {
        **told,
        "records": {g: r for g, r in records.items() if request.groups is None or g in request.groups},
        "holds": state.holds(),
        "locks": state.group_locks(),
        "cordon": state.cordon(),
        "damaged": [dict(one._asdict()) for look in (state, *mine) for one in look.damaged()],
        "held": observed.held(labels),
        "digests": {
            group: observed.digest_of_group(group, labels, records.get(group))
            for group in sorted({label["group"] for label in labels} | set(records))
        },
    }


class _Files:
    """The looks at models and executables, begun at once. One that gives no answer is told as not there, with the reason."""

    def __init__(self, models: t.Iterable[str], executables: t.Iterable[str]) -> None:
        self.end = time.monotonic() + FILES_TIMEOUT
        self.models = {path: Look(model.facts, path) for path in models}
        self.executables = {path: Look(_executable, path) for path in executables}

    def told(self, request: Request) -> dict[str, t.Any]:
        nothing = {"exists": False, "why": f"looking at it gave no answer within {FILES_TIMEOUT:g} s"}
        no_model = {**nothing, "fingerprint": None, "config": None, "weights": None}
        no_executable = {**nothing, "path": None, "version": None, "distribution": None}
        return {
            "models": {path: self._one(path, look, no_model, request) for path, look in self.models.items()},
            "executables": {
                path: self._one(path, look, no_executable, request) for path, look in self.executables.items()
            },
        }

    def _one(
        self, path: str, look: Look[dict[str, t.Any]], otherwise: dict[str, t.Any], request: Request
    ) -> dict[str, t.Any]:
        try:
            return look.result(self.end - time.monotonic())
        except TimeoutError:
            request.warnings.append(
                f"{path}: looking at it gave no answer within {FILES_TIMEOUT:g} s. Is it on a network file system whose server is gone?"
            )
        except (OSError, ValueError, RecursionError) as exc:
            return {**otherwise, "why": f"it cannot be read ({exc})"}
        return otherwise


def _executable(path: str) -> dict[str, t.Any]:
    return dict(executables.facts(path))


def _elsewhere(request: Request, state: State, containers: t.Sequence[elsewhere.Container]) -> list[dict[str, t.Any]]:
    """The members of other state folders. These are other users', and may be where nothing answers."""
    try:
        return Look(elsewhere.find, state.root, containers).result(FILES_TIMEOUT)
    except TimeoutError:
        request.warnings.append("looking at members of other state folders gave no answer: what they hold is not known")
    return []


def _strangers(
    request: Request,
    state: State,
    devices: t.Sequence[t.Mapping[str, t.Any]],
    members: t.Sequence[Live],
    on_gpus: tuple[list[dict[str, t.Any]], str],
) -> list[dict[str, t.Any]]:
    """Who is on the GPUs and is no member of ours."""
    apps, problem = on_gpus
    if problem and devices:
        request.warnings.append(problem)
    if not apps:
        return []
    ours = {str(gpu) for live in members if live["state"] in observed.ALIVE for gpu in live["label"].get("gpus") or ()}
    known = {str(live["label"].get("member")) for live in members if not live.get("unlabelled")}
    return space.strangers(apps, gpus.names(devices), state.root, ours, known=known)


def _sources(state: State, kept: bool) -> list[t.Mapping[str, t.Any]]:
    """Where all is that the members here were started from; with `kept` also what records keep, and could be started again."""
    found = [label.get("source") or {} for label in state.labels()]
    records = state.records().values() if kept else ()
    return found + [source for record in records for source in applied.sources(record)]


def _asked(wanted: t.Sequence[str], sources: t.Sequence[t.Mapping[str, t.Any]], key: str) -> list[str]:
    """What a plan asks about, and what the members here were started from: whether that has changed since is told by status as well."""
    return list(dict.fromkeys([*wanted, *(str(source[key]) for source in sources if source.get(key))]))


def _members(
    members: t.Sequence[Live],
    drivers: t.Mapping[str, Driver],
    state: State,
    listeners: t.Sequence[ports.Listener],
) -> list[dict[str, t.Any]]:
    """The members with what they answer, all asked at once. One whose side channel is closed is not ready, as when it started."""
    if not members:
        return []
    listening = {one.port for one in listeners}
    with ThreadPoolExecutor(max_workers=min(64, 2 * len(members))) as pool:
        asked: list[tuple[Live, Future[str], Future[tuple[list[dict[str, t.Any]] | None, str]]]] = [
            (live, pool.submit(_unready, live), pool.submit(registered, live)) for live in members
        ]
        told = [
            _member(live, unready.result() or _closed(live, listening), registered.result())
            for live, unready, registered in asked
        ]
    for member in told:
        member |= _serving(member, listeners)
        if state.draining(member["label"]["group"], member["label"]["member"]):
            member["draining"] = True
    for member in told:
        mark_stuck(member, drivers)
        doubt = _doubt(member, drivers)
        if doubt:
            member["doubt"] = doubt
    return told


def _serving(member: t.Mapping[str, t.Any], listeners: t.Sequence[ports.Listener]) -> dict[str, str | None]:
    """{formation, listener_member}: what the process that listens on the member's HTTP port carries, whatever its label says."""
    label = member["label"]
    port = label.get("port") if member["state"] == "running" else None
    return carried.serving(port if isinstance(port, int) else None, listeners, [str(label.get("address"))])


def _member(live: Live, unready: str, registry: tuple[list[dict[str, t.Any]] | None, str]) -> dict[str, t.Any]:
    told: dict[str, t.Any] = {**live, "ready": not unready}
    if unready and live["state"] == "running":
        told["why"] = "; ".join(filter(None, [live["why"], unready]))
    if live["label"]["role"] == "router":
        told["registered"], told["registered_why"] = registry
    return told


def _doubt(member: t.Mapping[str, t.Any], drivers: t.Mapping[str, Driver]) -> dict[str, t.Any] | None:
    """What the log of one that serves says of its answers. A log that cannot be read says nothing."""
    label = member["label"]
    driver = drivers.get(label.get("runtime") or "")
    if driver is None or not member["ready"] or label["role"] not in ENGINE_ROLES:
        return None
    try:
        return doubts(member, driver.logs(label["group"], label["member"], TAIL_LINES))
    except PdError:
        return None


def mark_stuck(member: dict[str, t.Any], drivers: t.Mapping[str, Driver]) -> None:
    """A process that lives and will never serve counts as down, so that a plan replaces it. Of one that has ended, or ends over and over,
    the reason is told that its log has."""
    label = member["label"]
    driver = drivers.get(label.get("runtime") or "")
    if member["state"] == "missing" or member["ready"] or driver is None:
        return
    try:
        lines = driver.logs(label["group"], label["member"], TAIL_LINES)
    except PdError:
        return
    alive = member["state"] in observed.ALIVE
    why = doomed(member, lines) if alive else ""
    if why:
        # The reason is what its log says: how the log ends belongs to the reason of before.
        member |= {"state": "stuck", "why": why, "log_line": ""}
    elif not alive or member.get("restarts"):
        found = ended(member, lines)
        if found:
            member |= {"why": "; ".join(filter(None, [member["why"], found])), "log_line": ""}


def _unready(live: Live) -> str:
    """Why a member does not serve; empty when it does."""
    if not live["label"].get("url"):
        return live["why"] or "where it answers is not known"
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


def registered(live: Live) -> tuple[list[dict[str, t.Any]] | None, str]:
    """The peers that a router knows, read over its API; None when that cannot be read, and why."""
    label = live["label"]
    if label["role"] != "router" or live["state"] != "running" or not (label.get("dialect") and label.get("url")):
        return None, ""
    from .. import _routers

    dialect, why = _routers.dialect(label["dialect"]), ""
    # One that is busy, or has just been started, gets a second try: what cannot be read is told of the whole group.
    for timeout in (HEALTH_TIMEOUT, 3 * HEALTH_TIMEOUT):
        try:
            peers = dialect.list(label["url"], timeout)
        except PdError as exc:
            why = printable(exc)
        else:
            return [{key: peer[key] for key in ("url", "worker_type", "healthy")} for peer in peers], ""
    return None, why
