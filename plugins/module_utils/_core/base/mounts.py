# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a spec mounts, as a map: a path inside of a container is one of the host's, and a host is asked about its own.

The text of a mount is read as the runtime reads it (_runtimes/docker_spec.py); one that it refuses is no mount here."""

from __future__ import annotations

import typing as t


class Mounts:
    """The mounts of a role: text SOURCE:TARGET[:MODE], or {source, target}. A source that is no path names a volume."""

    def __init__(self, mounts: t.Iterable[t.Any]) -> None:
        self._sources: dict[str, str] = {}
        for source, target in map(_sides, mounts):
            if source and target.startswith("/"):
                self._sources[normal(target)] = source

    def target_of(self, path: str) -> str | None:
        """The mount that a path inside lies in, by its target: the innermost. None where the path is in none."""
        at = normal(path)
        while at not in self._sources:
            if at in ("/", ""):
                return None
            at = at.rpartition("/")[0] or ("/" if at.startswith("/") else "")
        return at

    def within(self, folder: str) -> list[str]:
        """The targets that are a folder, or lie in it."""
        return [target for target in self._sources if f"{target}/".startswith(f"{normal(folder)}/")]

    def on_host(self, path: str) -> str | None:
        """Where a path inside is on the host: as it stands where it is in no mount, and None in a volume, or where the source is known only
        once a member is placed (a placeholder)."""
        target = self.target_of(path)
        if target is None:
            return path
        source = self._sources[target]
        if not source.startswith("/") or "${" in source:
            return None
        return normal(f"{source}/{normal(path)[len(target) :]}")


def normal(path: str) -> str:
    """A path without empty parts, dots, and ways back."""
    parts: list[str] = []
    for part in path.split("/"):
        if part == ".." and parts and parts[-1] != "..":
            parts.pop()
        elif part == ".." and path.startswith("/"):
            continue
        elif part not in ("", "."):
            parts.append(part)
    return ("/" if path.startswith("/") else "") + "/".join(parts)


def _sides(mount: t.Any) -> tuple[str, str]:
    if isinstance(mount, t.Mapping):
        source = str(mount.get("source") or "")
        return source, str(mount.get("target") or source)
    source, _colon, rest = str(mount).partition(":")
    return source, rest.partition(":")[0] or source
