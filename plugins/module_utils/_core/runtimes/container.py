# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Images, mounts and devices as container engines take them: one reading of each, for who judges a spec and for who creates containers.

The rules are those of Docker's own code (distribution/reference, volume/mounts, opts), which Podman's compatible socket shares."""

from __future__ import annotations

import re
import typing as t
from dataclasses import dataclass

from ..base.mounts import normal
from ..base.values import boolean
from .accepts import UnfitError

# Where a container finds what the collection brings: the start script, the secrets, files of a mode.
INSIDE = "/run/inferops-pd"
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")

# -- images ----------------------------------------------------------------------------------------------------------------------------

_PART = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_LABEL = r"(?:[A-Za-z0-9]|[A-Za-z0-9][A-Za-z0-9-]*[A-Za-z0-9])"
_REGISTRY = rf"(?:{_LABEL}(?:\.{_LABEL})*|\[[0-9a-fA-F:]+\])(?::[0-9]+)?"
_NAME = re.compile(rf"(?:{_REGISTRY}/)?{_PART}(?:/{_PART})*")
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
_DIGEST = re.compile(r"[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}")
# Hex digits of the digests that registries use.
_WIDTHS = {"sha256": 64, "sha384": 96, "sha512": 128}
_ID = re.compile(r"(sha256:)?[0-9a-f]{64}")
_LONGEST_NAME = 255
_IMAGE_ADVICE = "Write REPOSITORY:TAG, or better REPOSITORY@sha256: and 64 hex digits, without spaces."


def image(text: str) -> str:
    """A reference to an image. Raises UnfitError for what is none."""
    if _ID.fullmatch(text):
        return text
    head, at, digest = text.partition("@")
    name, colon, tag = head.rpartition(":")
    if not colon or "/" in tag:
        name, tag = head, ""
    if at and not _is_digest(digest):
        raise UnfitError("has no digest behind its @", _IMAGE_ADVICE)
    if colon and name != head and not _TAG.fullmatch(tag):
        raise UnfitError("has no tag behind its colon", _IMAGE_ADVICE)
    if name != name.lower() and _NAME.fullmatch(name.lower()) and not _NAME.fullmatch(name):
        raise UnfitError("has capital letters in its repository", "Write it in lower case, as registries have it.")
    if not _NAME.fullmatch(name) or len(name) > _LONGEST_NAME:
        raise UnfitError("is no reference to an image", _IMAGE_ADVICE)
    return text


def _is_digest(text: str) -> bool:
    algorithm, _colon, digits = text.partition(":")
    wanted = _WIDTHS.get(algorithm)
    return bool(_DIGEST.fullmatch(text)) and (wanted is None or bool(re.fullmatch(f"[0-9a-f]{{{wanted}}}", digits)))


# -- mounts ----------------------------------------------------------------------------------------------------------------------------

_MODES = frozenset({"ro", "rw", "z", "Z"})
_VOLUME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]+")
_MOUNT_ADVICE = (
    "Write SOURCE:TARGET or SOURCE:TARGET:ro, or {source, target, mode}: the source is an absolute path or the name of a volume, the target"
    " an absolute path in the container, the mode ro or rw."
)
# What lxcfs lays over single files below /proc; all else there is refused.
_IN_PROC = frozenset(
    f"/proc/{name}"
    for name in ("cpuinfo", "diskstats", "meminfo", "stat", "swaps", "uptime", "loadavg", "slabinfo", "net/dev")
)


@dataclass(frozen=True)
class Mount:
    """`source` is a path of the host, or the name of a volume."""

    source: str
    target: str
    read_only: bool

    @property
    def volume(self) -> bool:
        return not self.source.startswith("/")

    @property
    def place(self) -> str:
        """Where it is in the container, as the engine compares places."""
        return normal(self.target)


def mount(value: t.Any) -> Mount:
    """A mount of the spec: text as `docker run -v` reads it, or {source, target, mode or read_only}. Raises UnfitError."""
    source, target, words = _mount_of_mapping(value) if isinstance(value, t.Mapping) else _mount_of_text(value)
    if not source:
        raise UnfitError("has no source", _MOUNT_ADVICE)
    if words - _MODES or {"ro", "rw"} <= words or {"z", "Z"} <= words:
        raise UnfitError(f"has the mode {','.join(sorted(words))}", _MOUNT_ADVICE)
    if not target.startswith("/"):
        raise UnfitError("has no absolute path in the container", _MOUNT_ADVICE)
    if _CONTROL.search(source + target):
        raise UnfitError("has a control character in a path", _MOUNT_ADVICE)
    if not source.startswith("/") and not _VOLUME.fullmatch(source):
        raise UnfitError(
            "has a source that is neither an absolute path nor a volume's name (~ and . are not expanded)",
            _MOUNT_ADVICE,
        )
    _check_target(normal(target))
    return Mount(source, target, "ro" in words)


def _mount_of_mapping(value: t.Mapping[str, t.Any]) -> tuple[str, str, set[str]]:
    _known(value, ("source", "target", "mode", "read_only"), _MOUNT_ADVICE)
    source, target = _text(value.get("source")), _text(value.get("target"))
    only = value.get("read_only")
    told = boolean(only) if only is not None else False
    if told is None:
        raise UnfitError("has a read_only that is neither true nor false", _MOUNT_ADVICE)
    mode = _text(value.get("mode")) or ("ro" if told else "rw")
    return source, target or source, set(mode.split(","))


def _mount_of_text(value: t.Any) -> tuple[str, str, set[str]]:
    if not isinstance(value, str):
        raise UnfitError("is no text", _MOUNT_ADVICE)
    source, colon, rest = value.partition(":")
    target, _colon, mode = rest.partition(":")
    return source, target if colon else source, set((mode or "rw").split(","))


def _check_target(target: str) -> None:
    if target == "/":
        raise UnfitError("would take the place of the whole container", "Mount it below a folder of its own.")
    if target == "/proc" or (target.startswith("/proc/") and target not in _IN_PROC):
        raise UnfitError("is below /proc, where container engines mount nothing", "Mount it elsewhere.")


# -- devices ---------------------------------------------------------------------------------------------------------------------------

_DEVICE_ADVICE = "Write the device's path on the host, for example /dev/infiniband, or SOURCE:TARGET:rwm, or {source, target, permissions}."


@dataclass(frozen=True)
class Device:
    source: str
    target: str
    rights: str


def device(value: t.Any) -> Device:
    """A device of the spec: text as `docker run --device` reads it, or {source, target, permissions}. Raises UnfitError."""
    if isinstance(value, t.Mapping):
        _known(value, ("source", "target", "permissions"), _DEVICE_ADVICE)
        source, rights = _text(value.get("source")), _text(value.get("permissions")) or "rwm"
        target = _text(value.get("target")) or source
    elif isinstance(value, str):
        source, *rest = value.split(":")
        target = rest.pop(0) if rest and rest[0].startswith("/") else source
        rights = rest.pop(0) if rest else "rwm"
        if rest:
            raise UnfitError("has more than three parts", _DEVICE_ADVICE)
    else:
        raise UnfitError("is no text", _DEVICE_ADVICE)
    if not source.startswith("/") or not target.startswith("/"):
        raise UnfitError("has no absolute path", _DEVICE_ADVICE)
    if _CONTROL.search(source + target):
        raise UnfitError("has a control character in a path", _DEVICE_ADVICE)
    if not re.fullmatch(r"[rwm]{1,3}", rights):
        raise UnfitError(f"has the rights {rights!r}, which are not some of r, w and m", _DEVICE_ADVICE)
    return Device(source, target, rights)


def _known(value: t.Mapping[str, t.Any], keys: t.Collection[str], todo: str) -> None:
    unknown = sorted(str(key) for key in value if key not in keys)
    if unknown:
        raise UnfitError(f"has a key {unknown[0]!r}, which there is not", todo)


def _text(value: t.Any) -> str:
    """Text of a mapping; a number is none, and empty is not there."""
    return value if isinstance(value, str) else ""
