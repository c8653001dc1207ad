# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The part of the host that a container sees: the directories of its model, its files, and where a path inside leads."""

from __future__ import annotations

import contextlib
import os
import re
import typing as t

from .._core.base.mounts import Mounts
from .._core.base.plain import Plain
from .._core.work.member import Part
from . import docker_spec
from .state import make_dirs, write

_MODEL_FILES = ("config.json", "params.json")
_HOPS = 40


class Inside:
    """Paths of a container that come from the host, by what is bound into it: a user's mount replaces ours at the same place."""

    def __init__(self, part: Part, bound: t.Iterable[tuple[str, str]], member: str) -> None:
        self._sources: dict[str, str | None] = {target: source for source, target in bound}
        for mount in (docker_spec.parse_mount(mount, member) for mount in part.mounts):
            target = os.path.normpath(mount["Target"])
            self._sources[target] = mount["Source"] if mount["Type"] == "bind" else None

    def place(self, path: str) -> str | None:
        """Where a path inside is on the host, links followed as the container follows them; None for one that is not of the host."""
        path = os.path.normpath(path)
        for _hop in range(_HOPS):
            found = self._one(path)
            if found is None or not os.path.islink(found):
                return found
            path = os.path.normpath(os.path.join(os.path.dirname(path), os.readlink(found)))
        return None

    def _one(self, path: str) -> str | None:
        target = path
        while target not in self._sources:
            if target == "/":
                return None
            target = os.path.dirname(target)
        source = self._sources[target]
        return None if source is None else os.path.normpath(os.path.join(source, os.path.relpath(path, target)))


def models(part: Part) -> list[tuple[str, str]]:
    """Directories of models that the command names, each at the same path inside: engines compare that text. A folder of links, as
    Hugging Face's cache has them, needs what these point to."""
    words = [str(word) for word in part.argv]
    paths = [part.model] if part.model else []
    paths += [value for word in words for value in (word, word.partition("=")[2]) if value.startswith("/")]
    # What the user mounts there is meant, and not what the host has under the same name.
    mine = Mounts(part.mounts)
    found: dict[str, str] = {}
    for path in dict.fromkeys(os.path.normpath(p) for p in paths):
        if (
            path == "/"
            or mine.target_of(path)
            or not any(os.path.isfile(os.path.join(path, name)) for name in _MODEL_FILES)
        ):
            continue
        found[path] = os.path.realpath(path)
        for entry in os.scandir(path):
            if entry.is_symlink():
                folder = os.path.dirname(os.path.realpath(entry.path))
                if not any(folder == there or folder.startswith(there + os.sep) for there in found.values()):
                    found[folder] = folder
    return [(source, target) for target, source in found.items()]


def write_files(directory: str, files: t.Iterable[Plain], user: str) -> t.Iterator[tuple[str, str]]:
    """(source, target) of a member's files: those of the host where they are, those with content written beside its label."""
    for number, file in enumerate(files):
        target = os.path.normpath(file["path"])
        if not os.path.isabs(target):
            target = os.path.join(docker_spec.INSIDE, target)
        if file.get("host_path"):
            yield str(file["host_path"]), target
            continue
        make_dirs(os.path.join(directory, "files"))
        path = os.path.join(directory, "files", f"{number}-{os.path.basename(target)}")
        mode = file.get("mode") or 0o600
        numeric = isinstance(mode, int) or re.fullmatch(r"0?[0-7]{3}", str(mode))
        write(path, str(file["content"]), (int(mode, 8) if isinstance(mode, str) else int(mode)) if numeric else 0o600)
        give(path, user)
        yield path, target


def give(path: str, user: str) -> None:
    """Let the image's user read a file that only its owner may. An image that names its user by a word is looked up inside alone."""
    number, _colon, _group = user.partition(":")
    if number.isdigit() and int(number) != os.geteuid():
        with contextlib.suppress(PermissionError):
            os.chown(path, int(number), -1)
