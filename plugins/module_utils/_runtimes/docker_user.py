# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who the processes of an image are: its USER may be a name, which the image's own /etc/passwd alone explains."""

from __future__ import annotations

import functools
import io
import os
import re
import tarfile
import typing as t

from .docker_api import LOOK_DEADLINE, Api
from .errors import HostError

PASSWD = "/etc/passwd"
# More than any image's; what is longer is not read.
_LIMIT = 4 * 2**20
_HOPS = 4
# The kernel counts no further; the last number stands for nobody.
_USERS = 2**32 - 1


def uid_of(api: Api, container: str, user: str) -> int:
    """The number of the user that a created container runs as. `user` is its image's: NAME or UID, with a group behind a colon or not.
    Raises HostError where the image does not say who that is."""
    name = user.partition(":")[0]
    number = _number(name or "0")
    if number is not None:
        return number
    for line in _file(api, container, PASSWD).splitlines():
        fields = line.split(":")
        number = _number(fields[2]) if len(fields) > 2 and fields[0] == name else None
        if number is not None:
            return number
    raise HostError(
        f"Looking for user {name} of container {container}",
        f"its image runs as that user, and its {PASSWD} has none of that name",
        "Build the image with USER and a number.",
        container,
    )


def _number(text: str) -> int | None:
    """The number of a user; None for what is none."""
    return int(text) if re.fullmatch(r"[0-9]{1,10}", text) and int(text) < _USERS else None


def _file(api: Api, container: str, path: str) -> str:
    """A small file of a container; empty when there is none. Links are followed within the container."""
    for _hop in range(_HOPS):
        look = functools.partial(_first, container=container, path=path)
        member, content = api.call(f"Reading {path} of container {container}", look, LOOK_DEADLINE)
        if member is None or not member.issym():
            return t.cast("bytes", content).decode("utf-8", "replace")
        path = os.path.normpath(os.path.join(os.path.dirname(path), member.linkname))
    return ""


def _first(client: t.Any, container: str, path: str) -> tuple[tarfile.TarInfo | None, bytes]:
    """What the engine packs at a path: its entry, and what is in it. Nothing of it is written anywhere."""
    chunks, size = [], 0
    for chunk in client.get_archive(container, path)[0]:
        chunks.append(chunk)
        size += len(chunk)
        if size > _LIMIT:
            return None, b""
    with tarfile.open(fileobj=io.BytesIO(b"".join(chunks))) as archive:
        entry = archive.next()
        stream = archive.extractfile(entry) if entry is not None and entry.isreg() else None
        return entry, stream.read() if stream is not None else b""
