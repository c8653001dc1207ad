# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a container engine says of itself, of containers and of images, under its own names: what is asked for, and of which kind each is.

Docker and Podman differ, and so do their versions: a field of another kind is as if it were not there, and all of them are there."""

from __future__ import annotations

import re
import typing as t

from .._core.base.json_text import Readers, count, fields, mapping, objects, text, texts, whole
from .._core.base.printable import printable

Said = dict[str, t.Any]
# It becomes a part of the path of a call.
_ID = re.compile(r"[0-9A-Za-z]{1,128}")


def _word(value: t.Any) -> str:
    """A text that is shown, or compared with words of ours."""
    return printable(text(value))


def _words(value: t.Any) -> list[str]:
    return [printable(one) for one in texts(value)]


def _id(value: t.Any) -> str:
    return text(value) if _ID.fullmatch(text(value)) else ""


def _there(value: t.Any) -> bool:
    return value is not None


def _labels(value: t.Any) -> dict[str, str]:
    return {name: its for name, its in mapping(value).items() if isinstance(its, str)}


def _object(readers: Readers) -> t.Callable[[t.Any], Said]:
    return lambda value: fields(value, readers)


# GET /info. `BuildahVersion` is Podman's alone.
_INFO: Readers = {
    **dict.fromkeys(("ServerVersion", "DefaultRuntime", "LoggingDriver"), _word),
    "BuildahVersion": _there,
    **dict.fromkeys(("NCPU", "MemTotal"), count),
    "Runtimes": mapping,
    "SecurityOptions": _words,
    "DiscoveredDevices": objects,
}
# GET /containers/json, each.
_ENTRY: Readers = {
    "Id": _id,
    "Names": _words,
    "State": _word,
    "Labels": _labels,
    "HostConfig": _object({"NetworkMode": _word}),
}
# GET /containers/ID/json.
_CONTAINER: Readers = {
    "Id": _id,
    "State": _object(
        {
            **dict.fromkeys(("Status", "StartedAt", "Error"), _word),
            "Pid": count,
            "ExitCode": whole,
            "OOMKilled": bool,
        }
    ),
    "Config": _object({"Labels": _labels, "Env": texts, "Image": _word}),
    "RestartCount": count,
    "LogPath": text,
}
# GET /images/NAME/json.
_IMAGE: Readers = {"Id": _word, "RepoDigests": _words, "Size": count, "Config": _object({"User": text})}
# GET /distribution/NAME/json.
_OFFER: Readers = {"Descriptor": _object({"digest": _word})}


def info(raw: t.Any) -> Said:
    """The engine itself."""
    return fields(raw, _INFO)


def entries(raw: t.Any) -> list[Said]:
    """A list of containers."""
    return [fields(one, _ENTRY) for one in objects(raw)]


def container(raw: t.Any) -> Said:
    """One container, as a look at it tells, with its labels where the list has them. Raises ValueError for what is none."""
    found = fields(raw, _CONTAINER)
    if not found["Id"]:
        raise ValueError("it told of no container")
    return {**found, "Labels": found["Config"]["Labels"]}


def image(raw: t.Any) -> Said:
    """An image that the engine has. Raises ValueError for what is none."""
    found = fields(raw, _IMAGE)
    if not found["Id"]:
        raise ValueError("it told of no image")
    return found


def offered_digest(raw: t.Any) -> str | None:
    """The digest of an image that a registry offers."""
    return fields(raw, _OFFER)["Descriptor"]["digest"] or None
