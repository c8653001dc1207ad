# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The part of the host that a container sees: the directories of its model, its files, and where a path inside leads."""

from __future__ import annotations

import os
import re
import stat
import typing as t

from .._core.base.mounts import Mounts
from .._core.base.plain import Plain
from .._core.base.values import number
from .._core.runtimes.container import INSIDE
from .._core.work.member import Part
from .._probes import model_links
from . import docker_spec
from .errors import HostError
from .protocol import Wanted
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
    """(source, target) of the directories of models that the command names, each at the same path inside: engines compare that text. What
    links in them lead to is bound where the container looks for it: the blobs of their Hugging Face cache, else each file alone."""
    found: dict[str, str] = {}
    for path in _model_folders(part):
        found[path] = os.path.realpath(path)
        home = model_links.blobs(path)
        for _link, target, file in _links(path):
            if file is None or _within(target, path) or _within(target, INSIDE):
                continue
            folder = os.path.dirname(target)
            if home and os.path.dirname(file) == os.path.realpath(home) and folder not in found:
                found[folder] = os.path.realpath(home)
            elif folder not in found:
                found[target] = file
    return [(source, target) for target, source in found.items()]


def unfollowed(part: Part) -> list[str]:
    """Links in the models' folders that a container gets nothing of, though they lead to a file."""
    return [
        link
        for path in _model_folders(part)
        for link, _target, file in _links(path)
        if file is None and os.path.isfile(link)
    ]


def _model_folders(part: Part) -> list[str]:
    words = [str(word) for word in part.argv]
    paths = [part.model] if part.model else []
    paths += [value for word in words for value in (word, word.partition("=")[2]) if value.startswith("/")]
    # What the user mounts there is meant, and not what the host has under the same name.
    mine = Mounts(part.mounts)
    normal = [p for p in dict.fromkeys(map(os.path.normpath, paths)) if p != "/" and not mine.target_of(p)]
    return [p for p in normal if any(os.path.isfile(os.path.join(p, name)) for name in _MODEL_FILES)]


def _links(folder: str) -> t.Iterator[tuple[str, str, str | None]]:
    """(link, where the container looks for what it leads to, the file that this is on the host or None) of the links in a folder."""
    for entry in sorted(os.scandir(folder), key=lambda one: one.name):
        if entry.is_symlink():
            target = os.path.normpath(os.path.join(folder, os.readlink(entry.path)))
            yield entry.path, target, model_links.leads_to(entry.path)


def _within(path: str, folder: str) -> bool:
    return path.startswith(folder.rstrip("/") + "/")


def write_files(directory: str, files: t.Iterable[Plain]) -> t.Iterator[tuple[str, str]]:
    """(source, target) of a member's files: those of the host where they are, those with content written beside its label."""
    for count, file in enumerate(files):
        target = os.path.normpath(file["path"])
        if not os.path.isabs(target):
            target = os.path.join(INSIDE, target)
        if file.get("host_path"):
            yield str(file["host_path"]), target
            continue
        make_dirs(os.path.join(directory, "files"))
        path = os.path.join(directory, "files", f"{count}-{os.path.basename(target)}")
        mode = file.get("mode") or 0o600
        numeric = isinstance(mode, int) or re.fullmatch(r"0?[0-7]{3}", str(mode))
        write(path, str(file["content"]), (int(mode, 8) if isinstance(mode, str) else int(mode)) if numeric else 0o600)
        yield path, target


def give(paths: t.Iterable[str], uid: int, member: str) -> None:
    """Let the image's user read files that only their owner may; root reads them anyway. Raises HostError where this user cannot give
    files away."""
    for path in paths if uid else ():
        found = os.stat(path)
        if found.st_uid == uid or found.st_mode & stat.S_IROTH:
            continue
        try:
            os.chown(path, uid, -1)
        except OSError as exc:
            raise HostError(
                f"Giving {path} to user {uid} of the image",
                f"user {os.geteuid()} may not ({exc.strerror}), and the member could not read it",
                "Use become, or an image that runs as that user.",
                member,
            ) from exc


def refusals(wanted: Wanted, cpus: int, local: bool) -> t.Iterator[str]:
    """What of a member's container is not on this host. `cpus` is how many CPUs the engine has, 0 when it does not say; only with `local`
    are paths those of this host."""
    name, part = wanted.member.id, wanted.part
    limit = number(part.limits.get("cpu"))
    if limit and cpus and limit > cpus:
        yield f"{name}: resources.cpu is {limit:g}, and this host has {cpus} CPUs"
    paths = [("files", str(file["host_path"])) for file in part.files if file.get("host_path")]
    for mount in part.mounts:
        found = docker_spec.parse_mount(mount, name)
        if found["Type"] == "bind":
            paths.append(("mounts", found["Source"]))
    paths += [("devices", docker_spec.parse_device(device, name)["PathOnHost"]) for device in part.devices]
    for link in unfollowed(part) if local else ():
        yield (
            f"{name}: {link} leads to {os.path.realpath(link)}, which whoever made the link may not read, so no container gets to see it;"
            " put a copy there, or let that user read the file"
        )
    for key, path in paths if local else ():
        if is_absent(path):
            yield f"{name}: {path} of its {key} is not on this host"


def is_absent(path: str) -> bool:
    """Whether there is nothing at a path; not where this user may only not look."""
    try:
        os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False
    return False
