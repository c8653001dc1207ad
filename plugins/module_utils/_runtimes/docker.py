# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runtime docker: one container per member, named like it, in Docker or behind Podman's compatible socket.

The truth of a member is its container's labels; the state directory holds what is bound into it, the record of its group and the lock."""

from __future__ import annotations

import calendar
import contextlib
import json
import os
import re
import shutil
import time
import typing as t

from .._core.base.checked import DamagedError
from .._core.base.errors import PdError
from .._core.base.process_words import is_held
from .._core.facts import label as labels
from .._core.work.member import Part
from .._probes import carried, logs
from . import (
    boot,
    docker_bound,
    docker_elsewhere,
    docker_images,
    docker_said,
    docker_spec,
    docker_user,
    gone,
    guard,
    masking,
    script,
)
from .batch import one_by_one
from .docker_api import LOOK_DEADLINE, Api, CallError, UnreachableError
from .docker_host import traits
from .docker_said import Said
from .docker_spec import LABEL, Container, Traits
from .errors import HostError
from .protocol import Admit, Availability, Created, Facts, Live, Wanted
from .state import State, make_dirs, remove_tree, write
from .store import Damaged

REMOVE_WAIT = 30.0
NAME_TAKEN = 409
KEPT_LINES = 4000
_STATES = {"running": "running", "paused": "running", "restarting": "restarting"}
_DRIVER_HINT = (
    "Install the NVIDIA Container Toolkit on the host, then: nvidia-ctk runtime configure --runtime=docker,"
    " and restart the container engine."
)


class DockerAvailability(Availability):
    """`nvidia` is whether containers can get NVIDIA GPUs."""

    version: str | None
    default_runtime: str | None
    nvidia: bool


class Docker:
    """Implements protocol.Driver."""

    name = "docker"

    def __init__(self, state: State, host: str | None = None) -> None:
        self.state = state
        self.api = Api(host)
        self._traits: Traits | None = None
        self._images: dict[str, Said] = {}
        self._logs: dict[str, tuple[tuple[t.Any, ...], list[str]]] = {}

    # -- is it there ---------------------------------------------------------------------------------------------------------------

    def available(self) -> DockerAvailability:
        try:
            info = self._info()
        except HostError as exc:
            return {
                "available": False,
                "why": exc.reason,
                "hint": exc.hint,
                "version": None,
                "default_runtime": None,
                "nvidia": False,
            }
        return {
            "available": True,
            "why": "",
            "hint": "",
            "version": info["ServerVersion"] or None,
            "default_runtime": info["DefaultRuntime"] or None,
            "nvidia": _has_nvidia(info),
        }

    def facts(self, images: t.Sequence[str], /) -> Facts:
        told = self.images(images)
        return {"images": told, "elsewhere": docker_elsewhere.containers(self.api), "available": self.available()}

    def images(self, names: t.Sequence[str]) -> dict[str, dict[str, t.Any]]:
        """Of each image whether it is there, and which it really is. Without an engine nothing is known."""
        try:
            return {name: docker_images.facts(self.api, name) for name in names}
        except HostError as exc:
            return {name: {"exists": None, "id": None, "digest": None, "why": exc.reason} for name in names}

    def _info(self) -> Said:
        doing = f"Asking the container engine at {self.api.url}"
        return docker_said.info(self.api.call(doing, lambda c: c.info(), LOOK_DEADLINE))

    # -- looking -------------------------------------------------------------------------------------------------------------------

    def members(self) -> list[Live]:
        """One call lists all containers of this state directory; each is looked at once more for its pid, its start and its end.

        A member whose container was removed by hand is missing. Containers without a label file are members all the same."""
        files = {label["member"]: label for label in self.state.labels() if label.get("runtime") == self.name}
        try:
            listed = self._listed()
        except UnreachableError:
            if files:
                raise
            return []
        found = {}
        for entry in listed:
            label = _label_of(entry, files)
            if label is not None:
                found[label["member"]] = self._live(label, self._inspect(entry["Id"]))
        lost = [_missing(label) for name, label in files.items() if name not in found]
        return sorted([*found.values(), *lost], key=lambda live: (live["label"]["group"], live["label"]["member"]))

    def damaged(self) -> list[Damaged]:
        """Containers of this state directory that do not say any more which member they are, and that no label file tells of either."""
        files = {label["member"]: label for label in self.state.labels() if label.get("runtime") == self.name}
        try:
            listed = self._listed()
        except UnreachableError:
            return []
        return [_damage(entry) for entry in listed if _label_of(entry, files) is None]

    def _listed(self) -> list[Said]:
        filters = {"label": [f"{LABEL}.state={self.state.root}"]}
        listed = self.api.call("Listing containers", lambda c: c.containers(all=True, filters=filters), LOOK_DEADLINE)
        return [entry for entry in docker_said.entries(listed) if entry["Id"]]

    def _inspect(self, name: str) -> Said | None:
        """A container by name or id; None when there is none."""

        def look(client: t.Any) -> Said:
            return docker_said.container(client.inspect_container(name))

        try:
            return t.cast("Said", self.api.call(f"Looking at container {name}", look, LOOK_DEADLINE))
        except CallError as exc:
            if exc.status == 404:
                return None
            raise

    def _find(self, member: str) -> Said | None:
        """The container of a member: the one of its name, or, if that was renamed, the one with its label."""
        found = self._inspect(member)
        if found is not None and self._is_mine(found):
            return found
        for entry in self._listed():
            if entry["Labels"].get(f"{LABEL}.member") == member:
                return self._inspect(entry["Id"])
        return None

    def _live(self, label: dict[str, t.Any], found: Said | None) -> Live:
        if found is None:
            return _missing(label)
        state = found["State"]
        status = state["Status"] or "exited"
        live: Live = {
            "label": label,
            "state": _STATES.get(status, "exited"),
            "pid": state["Pid"] or None,
            "since": None,
            "restarts": found["RestartCount"] or 0,
            "exit": None,
            "why": "",
            "log": f"docker logs {label['member']}",
        }
        if status in ("running", "paused"):
            live["since"] = epoch(state["StartedAt"])
            live["why"] = "it is paused: docker unpause starts it again" if status == "paused" else ""
            return live
        if status == "created":
            live["why"] = f"it was never started{_said(state)}"
            return live
        live["exit"] = state["ExitCode"]
        if status != "restarting" and boot.since(epoch(state["StartedAt"])):
            live["why"] = boot.told()
            return live
        live["why"] = _end_of(state)
        if live["restarts"]:
            live["why"] += f", started {live['restarts'] + 1} times"
        if status == "restarting":
            live["why"] += "; the container engine starts it again"
        with contextlib.suppress(PdError):
            last = self.logs(label["group"], label["member"], 1)
            refused = guard.refusal(last)
            if refused:
                live["why"] = boot.told() if boot.REFUSED in refused else refused
                return live
            live["log_line"] = last[0][:200] if last else ""
        return live

    def logs(self, group: str, member: str, lines: int) -> list[str]:
        found = self._find(member)
        if found is None:
            return []
        key = (found["Id"], lines, found["State"]["Status"], found["State"]["StartedAt"], *_size_of(found))
        known = self._logs.get(member)
        if known and known[0] == key and len(key) > 4:
            return known[1]
        text = self.api.call(
            f"Reading the log of container {member}",
            lambda c: c.logs(found["Id"], stdout=True, stderr=True, tail=lines),
            LOOK_DEADLINE,
            "It can be read if the log driver is json-file, local or journald.",
            member,
        )
        clean = logs.clean(text.decode("utf-8", "replace"))[-lines:]
        label = _label_of(found) or {}
        values = self._secrets(group, member, label.get("secrets") or (), found)
        clean = masking.masked(clean, values.values())
        self._logs[member] = (key, clean)
        return clean

    def _secrets(self, group: str, member: str, names: t.Collection[str], found: Said) -> dict[str, str]:
        values: dict[str, str] = {}
        for line in found["Config"]["Env"]:
            key, _equals, value = line.partition("=")
            values[key] = value
        with contextlib.suppress(OSError):
            path = os.path.join(self.state.member_dir(group, member), "env")
            with open(path, encoding="utf-8", errors="surrogateescape", newline="") as stream:
                values |= script.parse_env(stream.read())
        return {key: value for key, value in values.items() if key in names}

    def _is_mine(self, found: Said) -> bool:
        return bool(found["Labels"].get(f"{LABEL}.state") == self.state.root)

    # -- creating ------------------------------------------------------------------------------------------------------------------

    def prepare(self, batch: t.Sequence[Wanted]) -> list[str]:
        """Have the images of members here before anything stops. Returns warnings."""
        for image, policy in dict.fromkeys(map(_image_of, batch)):
            docker_images.ensure(self.api, image, policy)
        return []

    def refusals(self, batch: t.Sequence[Wanted]) -> list[str]:
        """What the engine would only say when a container is created or started."""
        if not batch:
            return []
        cpus = self._info()["NCPU"] or 0
        # An engine elsewhere has other files.
        local = self.api.path is not None
        return [why for wanted in batch for why in docker_bound.refusals(wanted, cpus, local)]

    def create(self, batch: t.Sequence[Wanted], admit: Admit) -> list[Created]:
        return one_by_one(batch, admit, self.create_one)

    def create_one(self, wanted: Wanted, label: dict[str, t.Any]) -> list[str]:
        """Create and start one member; what was begun is taken back when that fails. Returns warnings."""
        member, part, secrets = wanted
        name, group = member.id, label["group"]
        missing = sorted(set(part.secrets) - set(secrets))
        if missing:
            raise HostError(
                f"Creating member {name}",
                f"no value was given for its secrets {', '.join(missing)}",
                "Set them in secrets.",
                name,
            )
        script.refuse_held(secrets, name)
        image, policy = _image_of(wanted)
        if image not in self._images:
            # `always` has been done by `prepare`: once more would give members of one run different images.
            policy = "missing" if policy == "always" else policy
            self._images[image] = docker_images.ensure(self.api, image, policy, name)
        found = self._images[image]
        label = {**label, "image": {"id": found["Id"], "digest": docker_images.digest_of(image, found)}}
        directory = self.state.member_dir(group, name)
        with self.state.lock():
            remove_tree(directory)
            self.state.write_label(label)
            try:
                return self._create(wanted, label, image, found)
            except BaseException:
                self._undo(group, name)
                raise

    def _create(self, wanted: Wanted, label: dict[str, t.Any], image: str, found: Said) -> list[str]:
        member, part, secrets = wanted
        name, group = member.id, label["group"]
        directory = self.state.member_dir(group, name)
        user = found["Config"]["User"]
        files = tuple(docker_bound.write_files(directory, part.files))
        bound = (*docker_bound.models(part), *files)
        watched = _guard(label, part, bound)
        label = guard.stamped(label, watched)
        self.state.write_label(label)
        start = os.path.join(directory, "start")
        grace = member.stop.patience
        created = float(label.get("created") or 0)
        write(start, docker_spec.render_start(name, group, created, grace, watched), 0o755)
        shown = guard.make_directory(self.state, group) if watched.formation else None
        # What a shell would hold, or end at, comes to it in the file as secrets do.
        held = {key: str(value) for key, value in part.env.items() if is_held(str(key))}
        env = None
        if secrets or held:
            env = os.path.join(directory, "env")
            write(env, script.render_env({**held, **secrets}))
        private = [path for path, _target in files if path.startswith(directory + os.sep)] + ([env] if env else [])

        def hand_over() -> None:
            if private:
                docker_bound.give(private, docker_user.uid_of(self.api, name, user), name)

        container = Container(image, label, self.state.root, start, env, bound, guard=shown)
        try:
            self._run(wanted, container, hand_over)
        except CallError as exc:
            if not re.search(r"/bin/sh\"?: (stat /bin/sh: )?no such file", exc.said):
                raise
            self._discard(name)
            exposed = dict(secrets)
            self._run(wanted, Container(image, label, self.state.root, None, None, bound, exposed), hand_over)
            told = [f"{name}: image {image} has no /bin/sh, so the member is not restarted when it crashes"]
            if secrets:
                told.append(f"{name}: image {image} has no /bin/sh, so docker inspect shows the member's secrets")
            return told
        return []

    def _run(self, wanted: Wanted, container: Container, hand_over: t.Callable[[], None]) -> None:
        """Create and start it. In between, when the engine can be asked who runs in it, its files are handed over."""
        name = wanted.member.id
        body = docker_spec.render(wanted.member, wanted.part, container, self._traits_now())
        hint = "Correct what it names in the spec, then run again."

        def create() -> None:
            doing = f"Creating container {name}"
            self.api.call(doing, lambda c: c.create_container_from_config(body, name), hint=hint, member=name)

        try:
            create()
        except CallError as exc:
            if exc.status != NAME_TAKEN and "already in use" not in exc.said:
                raise
            self._make_room(name)
            create()
        hand_over()
        try:
            self.api.call(f"Starting container {name}", lambda c: c.start(name), hint=hint, member=name)
        except CallError as exc:
            if "could not select device driver" in exc.said or "unknown or invalid runtime" in exc.said.lower():
                # pylint cannot follow the class to its Exception.
                raise HostError(f"Starting container {name}", exc.said, _DRIVER_HINT, name) from exc  # pylint: disable=bad-exception-cause
            raise

    def _make_room(self, name: str) -> None:
        """A container of our own by that name is a leftover; anybody else's is left alone, and said."""
        found = self._inspect(name)
        if found is None:
            return
        if self._is_mine(found):
            self._discard(name)
            return
        other = found["Labels"].get(f"{LABEL}.state")
        whose = f"it belongs to the members in {other}" if other else f"it runs image {found['Config']['Image']}"
        raise HostError(
            f"Creating member {name}",
            f"there is a container of that name which is not this member: {whose}",
            f"Rename it (docker rename {name} NEW) or remove it, or give the group another name.",
            name,
        )

    def _traits_now(self) -> Traits:
        if self._traits is None:
            self._traits = traits(self._info())
        return self._traits

    def _undo(self, group: str, name: str) -> None:
        """Take back a member that could not be created; what led here is what is told."""
        with contextlib.suppress(HostError):
            found = self._inspect(name)
            if found and self._is_mine(found):
                self._discard(name)
            self.state.delete_member(group, name)

    # -- removing ------------------------------------------------------------------------------------------------------------------

    def remove(self, group: str, member: str, grace: float) -> None:
        found = self._find(member)
        if found is not None:
            self._stop(member, found, grace)
            self._keep_log(group, member)
            self._discard(found["Id"])
        # What the container engine says is believed after the kernel has been asked.
        within = found["Id"] if found is not None else ""
        gone.end(member, [], lambda: gone.of_member(member, self.state.root, None, None, within), 5)
        with self.state.lock():
            self.state.delete_member(group, member)

    def _stop(self, name: str, found: Said, grace: float) -> None:
        """SIGTERM, after the grace SIGKILL; the engine answers when the container has ended, with all of its processes."""
        if found["State"]["Status"] == "paused":
            self.api.call(f"Unpausing container {name}", lambda c: c.unpause(found["Id"]), member=name)
        try:
            self.api.call(
                f"Stopping container {name}",
                lambda c: c.stop(found["Id"], timeout=round(grace) + 2),
                hint="Its processes wait for a device or a file system (state D in ps): its GPUs are not free before they end.",
                member=name,
            )
        except CallError as exc:
            if exc.status not in (304, 404):
                raise

    def _discard(self, name: str) -> None:
        """Delete a container, and see that it is gone: two runs may ask for it at once."""
        deadline = time.monotonic() + REMOVE_WAIT
        while True:
            try:
                self.api.call(
                    f"Removing container {name}", lambda c: c.remove_container(name, v=True, force=True), member=name
                )
            except CallError as exc:
                if exc.status == 404:
                    return
                if exc.status != 409 or time.monotonic() > deadline:
                    raise
            else:
                if self._inspect(name) is None:
                    return
            time.sleep(0.1)

    def _keep_log(self, group: str, member: str) -> None:
        """The end of its log outlives the container, where State keeps logs of members that were removed."""
        with contextlib.suppress(PdError, OSError):
            lines = self.logs(group, member, KEPT_LINES)
            make_dirs(self.state.member_dir(group, member))
            write(self.state.log_path(group, member), "".join(f"{line}\n" for line in lines))

    def sweep(self) -> None:
        with self.state.lock():
            if not any(label.get("runtime") == self.name for label in self.state.labels()):
                self.state.clear()


# -- what the engine says --------------------------------------------------------------------------------------------------------------


# What is given to a member that an earlier version started, after the fact: its container cannot be labelled again.
_GIVEN = ("formation", "adopted", "schema")


def _label_of(entry: Said, files: t.Mapping[str, dict[str, t.Any]] | None = None) -> dict[str, t.Any] | None:
    """The label of a container, of an entry in the list or of an inspected one: its own, with what the member's label file was given since;
    else that of the file. None for one that is damaged."""
    label, _why = _own_label(entry)
    if label is None:
        return (files or {}).get(entry["Labels"].get(f"{LABEL}.member", ""))
    file = (files or {}).get(label["member"]) or {}
    if file.get("adopted") and not label.get("formation"):
        label |= {key: file[key] for key in _GIVEN if key in file}
    return label


def _own_label(entry: Said) -> tuple[dict[str, t.Any] | None, str]:
    """(label, why there is none) of a container."""
    try:
        label = json.loads(entry["Labels"].get(f"{LABEL}.label", ""))
    except (ValueError, RecursionError):
        return None, f"its label {LABEL}.label is no JSON"
    try:
        labels.read(label, f"label {LABEL}.label")
    except DamagedError as exc:
        return None, f"its label {LABEL}.label is damaged: {exc.why}"
    return t.cast("dict[str, t.Any]", label), ""


def _damage(entry: Said) -> Damaged:
    names = entry["Names"] or [entry["Id"]]
    told = (entry["Labels"].get(f"{LABEL}.{key}", "") for key in ("group", "member"))
    group, member = (name if carried.NAME.fullmatch(name) else None for name in told)
    return Damaged(path=f"container {names[0].lstrip('/')}", why=_own_label(entry)[1], group=group, member=member)


def _missing(label: dict[str, t.Any]) -> Live:
    return {
        "label": label,
        "state": "missing",
        "pid": None,
        "since": None,
        "restarts": 0,
        "exit": None,
        "why": "its container is gone: somebody removed it",
        "log": None,
    }


def _end_of(state: Said) -> str:
    code = state["ExitCode"] or 0
    if state["OOMKilled"]:
        return "was ended by the kernel: out of memory"
    if code == 0:
        return "ended with status 0: it was stopped (docker stop, or the container engine went down)" + _said(state)
    if code > 128:
        return (
            f"was ended by signal {code - 128}" + (" (out of memory? see dmesg)" if code == 137 else "") + _said(state)
        )
    return f"exited with status {code}" + _said(state)


def _said(state: Said) -> str:
    return f" ({state['Error']})" if state["Error"] else ""


def epoch(text: str) -> float | None:
    """Seconds of the epoch of a time as the API writes it, "2026-11-29T15:00:00.123456789Z"; None for its zero, and for what is none."""
    match = re.match(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(\.\d+)?(Z|[+-]\d\d:\d\d)", text, re.ASCII)
    if not match or match[1].startswith("0001"):
        return None
    try:
        seconds = calendar.timegm(time.strptime(match[1], "%Y-%m-%dT%H:%M:%S")) + float(match[2] or 0)
    except ValueError:  # a month 13
        return None
    if match[3] != "Z":
        hours, minutes = match[3][1:].split(":")
        seconds -= (int(hours) * 3600 + int(minutes) * 60) * (1 if match[3][0] == "+" else -1)
    return seconds


def _size_of(found: Said) -> tuple[t.Any, ...]:
    """What changes when a container logs, if its log file can be seen: it is read again only then."""
    try:
        told = os.stat(found["LogPath"])
    except (OSError, ValueError):  # ValueError: what no path can hold
        return ()
    return told.st_ino, told.st_size


def _has_nvidia(info: Said) -> bool:
    """Whether containers can get NVIDIA GPUs: a runtime, the hook that dockerd finds on its PATH, or a CDI specification."""
    devices = [str(device.get("ID")) for device in info["DiscoveredDevices"]]
    return bool(
        "nvidia" in info["Runtimes"]
        or any(device.startswith("nvidia.com/gpu") for device in devices)
        or shutil.which("nvidia-container-runtime-hook")
    )


# -- what is bound ---------------------------------------------------------------------------------------------------------------------


def _image_of(wanted: Wanted) -> tuple[str, str]:
    """(image, pull policy) of a member."""
    name, part = wanted.member.id, wanted.part
    if not part.image:
        raise HostError(f"Creating member {name}", "the plan has no image for it", "Set engine.image.", name)
    return part.image, part.pull


def _guard(label: t.Mapping[str, t.Any], part: Part, bound: t.Iterable[tuple[str, str]]) -> guard.Guard:
    """What the start script looks at. An image cannot change, and another machine is another boot, which it knows already."""
    inside = docker_bound.Inside(part, bound, str(label["member"]))
    found = guard.model_files(label, part, inside.place)
    return guard.Guard(guard.formation(label), docker_spec.GUARD, None, (found,) if found else ())
