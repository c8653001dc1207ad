# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Containers as people write them: the words of `docker run`, a service of a compose file, a container of a Kubernetes manifest.
What of it is a member's is read; of the rest each thing is noted, with who does it."""

from __future__ import annotations

import re
import shlex
import typing as t
from dataclasses import dataclass, field

from ..base.values import integer
from .launch import Note, Outcome, Variable
from .script import statements

_HOST_NETWORK = "members always use the host's network"
_SHM = "/dev/shm of a container is 16 GiB, or half of a smaller host's memory"
_RIGHTS = "containers get the rights that their engine and its transport need"
_NAME = "members get their names from the group"
_PORTS = "members use the host's network, and ports are the plan's"
_RESTART = "how a member is started again is the recipe's"
# Keys of compose and flags of `docker run` (without dashes, - as _), and what becomes of them.
KEYS: dict[str, tuple[Outcome, str]] = {
    **dict.fromkeys(("network_mode", "network", "net", "networks", "hostnetwork"), ("recipe", _HOST_NETWORK)),
    **dict.fromkeys(("shm_size",), ("recipe", _SHM)),
    **dict.fromkeys(("ipc",), ("recipe", _SHM)),
    **dict.fromkeys(("cap_add", "privileged", "ulimits", "ulimit", "security_opt", "group_add"), ("recipe", _RIGHTS)),
    **dict.fromkeys(("container_name", "name", "hostname", "h"), ("recipe", _NAME)),
    **dict.fromkeys(("ports", "p", "publish", "expose", "p_"), ("recipe", _PORTS)),
    **dict.fromkeys(("restart",), ("recipe", _RESTART)),
    **dict.fromkeys(("healthcheck", "health_cmd"), ("recipe", "members are asked as their engine needs it")),
    **dict.fromkeys(("depends_on", "links"), ("recipe", "the order of a group's life is the plan's")),
    **dict.fromkeys(("runtime", "gpus", "deploy"), ("recipe", "which GPUs a member has is the plan's")),
    **dict.fromkeys(
        ("rm", "d", "detach", "it", "i", "t", "tty", "interactive", "stdin_open", "init",
         "pull", "platform", "stop_grace_period"),
        ("recipe", "how a container is run is the runtime's"),
    ),
    **dict.fromkeys(
        ("logging", "log_opt", "log_driver", "labels", "label", "l", "profiles", "stop_signal"),
        ("dropped", "the spec has no such key"),
    ),
    **dict.fromkeys(("env_file",), ("decide", "files of variables are not read: write what is in it under env, and secrets under secrets")),
    **dict.fromkeys(("build",), ("decide", "no image is built: write the image, by digest")),
    **dict.fromkeys(
        ("user", "u", "working_dir", "w", "workdir", "pid", "cpus", "m", "memory", "mem_limit", "cpuset_cpus", "cpuset_mems",
         "userns", "tmpfs"),
        ("dropped", "the spec has no such key for an engine"),
    ),
}  # fmt: skip
_BOOLEAN = {
    "rm",
    "d",
    "detach",
    "it",
    "i",
    "t",
    "tty",
    "interactive",
    "privileged",
    "init",
    "read_only",
    "P",
    "dit",
    "itd",
    "ti",
    "td",
}


@dataclass(frozen=True)
class Container:
    """What a container is made of, as far as a member has it. `gpus` None: it does not say."""

    image: str | None
    command: tuple[str, ...]
    env: tuple[Variable, ...] = ()
    mounts: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    gpus: int | None = None
    notes: tuple[Note, ...] = field(default=())


class _Reading:
    """What is collected while a container is read."""

    def __init__(self, line: int) -> None:
        self.line = line
        self.env: list[Variable] = []
        self.mounts: list[str] = []
        self.devices: list[str] = []
        self.notes: list[Note] = []
        self.entrypoint: list[str] = []
        self.gpus: int | None = None

    def note(self, what: str, outcome: Outcome, why: str) -> None:
        self.notes.append(Note("", self.line, what, outcome, why))

    def known(self, what: str, key: str) -> None:
        """A key that needs no more than its line in the table."""
        outcome, why = KEYS.get(key.lower(), ("dropped", "the spec has no such key"))
        self.note(what, outcome, why)

    def variable(self, text: str) -> None:
        name, equals, value = text.partition("=")
        self.env.append(Variable(name, value if equals else None, self.line))

    def mount(self, text: str, what: str) -> None:
        source, target, options = [*text.split(":", 2), "", ""][:3]
        if source.startswith("/") and target.startswith("/") and "$" not in text:
            self.mounts.append(text)
            self.note(what, "taken", f"mounts: {source}:{target}" + (f":{options}" if options else ""))
        else:
            self.note(
                what,
                "decide",
                "mounts are absolute paths of the hosts: write such a one at engine.mounts if it is needed",
            )

    def device(self, text: str) -> None:
        # GPUs, and what RDMA needs, a container gets by itself.
        if re.match(r"/dev/(nvidia|infiniband|davinci|kfd|dri|hisi)", text):
            self.note("device", "recipe", "GPUs and RDMA devices are given by the runtime")
        else:
            self.devices.append(text)
            self.note("device", "taken", f"devices: {text}")

    def done(self, image: str | None, command: t.Sequence[str]) -> Container:
        words = (*self.entrypoint, *command)
        made = (tuple(self.env), tuple(self.mounts), tuple(self.devices), self.gpus, tuple(self.notes))
        return Container(image, words, *made)


def gpu_count(text: str) -> int | None:
    """How many cards "0,1,2", "device=0,1" or "4" names; None for all of them, or none that is told."""
    ids = re.sub(r"[\"']|device=|devices=", "", text).strip()
    if re.fullmatch(r"\d+(,\d+)+|GPU-[\w-]+(,GPU-[\w-]+)*|device:.*", ids):
        return len(ids.split(","))
    return 1 if ids.isdigit() and ("device" in text or len(ids) == 1) else None


def of_run(words: t.Sequence[str], line: int) -> Container:
    """The words behind `docker run`."""
    reading, at = _Reading(line), 0
    while at < len(words) and words[at].startswith("-"):
        flag, equals, value = words[at].partition("=")
        key = flag.lstrip("-").replace("-", "_")
        if not equals and key not in _BOOLEAN:
            if not flag.startswith("--") and len(key) > 1 and key[0] in "evpwumlh":
                key, value = key[0], words[at][2:]
            else:
                at += 1
                value = words[at] if at < len(words) else ""
        at += 1
        _of_flag(reading, flag, key, value)
    image = words[at] if at < len(words) else None
    return reading.done(image, words[at + 1 :])


def _of_flag(reading: _Reading, flag: str, key: str, value: str) -> None:
    if key in ("e", "env"):
        reading.variable(value)
    elif key in ("v", "volume"):
        reading.mount(value, flag)
    elif key == "mount":
        parts = dict(part.partition("=")[::2] for part in value.split(","))
        source, target = parts.get("source") or parts.get("src", ""), parts.get("target") or parts.get("dst", "")
        reading.mount(f"{source}:{target}" + (":ro" if "readonly" in parts or "ro" in parts else ""), flag)
    elif key == "device":
        reading.device(value)
    elif key == "entrypoint":
        reading.entrypoint = shlex.split(value) if value else []
    elif key == "gpus":
        reading.gpus = gpu_count(value)
        reading.known(flag, "gpus")
    else:
        reading.known(flag, key)


def of_service(service: t.Mapping[str, t.Any], line: int = 0) -> Container:
    """A service of a compose file, or a container of a Kubernetes manifest (`command` and `args` there)."""
    reading = _Reading(line)
    args = service.get("args")
    command = _words(service.get("command"))
    if args is not None:
        reading.entrypoint, command = command, _words(args)
    elif service.get("entrypoint"):
        reading.entrypoint = _words(service.get("entrypoint"))
    for key, value in service.items():
        key = str(key)
        if key in ("image", "command", "args", "entrypoint", "name"):
            continue
        if key in ("environment", "env"):
            _environment(reading, value)
        elif key in ("volumes",):
            for one in _list(value):
                reading.mount(_volume(one), key)
        elif key == "devices":
            for one in _list(value):
                reading.device(str(one))
        else:
            if key in ("deploy", "gpus", "resources"):
                reading.gpus = _reserved(value)
            reading.known(key, "deploy" if key == "resources" else key)
    image = service.get("image")
    return reading.done(_defaulted(str(image)) if image else None, [_defaulted(word) for word in command])


def _environment(reading: _Reading, value: t.Any) -> None:
    if isinstance(value, t.Mapping):
        for name, one in value.items():
            text = {True: "1", False: "0"}.get(one, one) if isinstance(one, bool) else one
            reading.env.append(Variable(str(name), None if text is None else _defaulted(str(text)), reading.line))
    for one in value if isinstance(value, list) else ():
        if isinstance(one, t.Mapping):
            given = one.get("value")
            reading.env.append(Variable(str(one.get("name")), None if given is None else str(given), reading.line))
        else:
            reading.variable(_defaulted(str(one)))


def _volume(one: t.Any) -> str:
    if isinstance(one, t.Mapping):
        return f"{one.get('source', '')}:{one.get('target', '')}" + (":ro" if one.get("read_only") else "")
    return _defaulted(str(one))


def _list(value: t.Any) -> list[t.Any]:
    return value if isinstance(value, list) else []


def _words(value: t.Any) -> list[str]:
    """A command as compose reads it: a list, or a line that a shell would split."""
    if isinstance(value, list):
        return [str(one) for one in value]
    if value is None:
        return []
    found = statements(str(value).replace("$$", "$"))
    return list(found[0].words) if len(found) == 1 and not found[0].env else ["sh", "-c", str(value)] if found else []


def _defaulted(text: str) -> str:
    """Compose fills in the defaults of its variables, and makes one dollar of two."""
    return re.sub(r"\$\{[A-Za-z_]\w*:?-([^{}]*)\}", r"\1", text).replace("$$", "$")


def _is_count(value: t.Any) -> bool:
    number = integer(value)
    return number is not None and number >= 0


def _reserved(value: t.Any) -> int | None:
    """How many cards a service reserves: by count, or by their ids; those of Kubernetes by `nvidia.com/gpu`."""
    if isinstance(value, t.Mapping):
        for key, one in value.items():
            if key in ("count", "nvidia.com/gpu", "amd.com/gpu", "huawei.com/Ascend910") and _is_count(one):
                return integer(one)
            if key == "device_ids" and isinstance(one, list):
                return len(one)
        value = list(value.values())
    found = [_reserved(one) for one in value if isinstance(one, (t.Mapping, list))] if isinstance(value, list) else []
    return next((number for number in found if number is not None), None)
