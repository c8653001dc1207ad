# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Executables on this host: whether a command can be run, and which version of which
distribution it is, read without running or importing it."""

from __future__ import annotations

import glob
import os
import re
import shutil
import typing as t

from .._core.base.printable import printable
from .model import stamp

# Looked for when the command is a bare interpreter (python -m ...).
ENGINES = ("vllm", "sglang")
_LAYOUTS = (
    "lib/python3*/site-packages",
    "lib64/python3*/site-packages",
    "lib/python3*/dist-packages",
    "lib/python3/dist-packages",
)
_PYTHON = re.compile(r"(?:^|/)(?:python|pypy)[0-9.]*$")


def facts(name: str) -> dict[str, t.Any]:
    """{exists, path, version, distribution, stamp}. A bare name is looked up on PATH."""
    path = _path(name)
    if path is None:
        told = {"path": name if "/" in name else None, "version": None, "distribution": None, "stamp": None}
        return {"exists": False, **told}
    info = _installed(path)
    distribution, version = _metadata(info) if info else (None, None)
    return {
        "exists": True,
        "path": os.path.abspath(path),
        "version": version,
        "distribution": distribution,
        "stamp": stamp(files(name)),
    }


def files(name: str) -> list[str]:
    """The files by which it is told whether a command is still the one that it was: itself, and what its distribution was installed as."""
    path = _path(name)
    if path is None:
        return []
    info = _installed(path)
    own = [os.path.join(info, part) for part in ("METADATA", "RECORD")] if info else []
    return [os.path.abspath(path), *(part for part in own if os.path.isfile(part))]


def _path(name: str) -> str | None:
    path = name if "/" in name else shutil.which(name)
    return path if path and os.path.isfile(path) and os.access(path, os.X_OK) else None


def _installed(path: str) -> str | None:
    """The dist-info of the distribution that a command belongs to."""
    command = os.path.basename(path)
    wanted = ENGINES if _PYTHON.search(path) else ()
    for site in _sites(path):
        for info in sorted(glob.glob(os.path.join(glob.escape(site), "*.dist-info"))):
            name = _named(info)[0]
            if name.lower() in wanted or (not wanted and _offers(info, command)):
                return info
    return None


def _named(info: str) -> tuple[str, str]:
    name, _dash, version = os.path.basename(info)[: -len(".dist-info")].rpartition("-")
    return name, version


def _offers(info: str, command: str) -> bool:
    """Whether a distribution installed a command: as an entry point, or as a script of its own (RECORD)."""
    points = _head(os.path.join(info, "entry_points.txt"), 65536)
    if re.search(rf"^{re.escape(command)}\s*=", points, re.M):
        return True
    return not points and f"/bin/{command}," in _head(os.path.join(info, "RECORD"), 4 * 1024 * 1024)


def _metadata(info: str) -> tuple[str, str]:
    """(distribution, version), as the distribution itself writes them."""
    name, version = _named(info)
    head = _head(os.path.join(info, "METADATA"), 8192)
    told = re.search(r"^Version:\s*(\S+)", head, re.M)
    called = re.search(r"^Name:\s*(\S+)", head, re.M)
    return printable(called[1] if called else name, 100), printable(told[1] if told else version, 100)


def _sites(path: str) -> list[str]:
    """The site-packages that a command's interpreter uses: of the interpreter in its first line, and of the directory that it is in."""
    roots = []
    interpreter = path if _PYTHON.search(path) else _interpreter(path)
    if interpreter:
        roots.append(os.path.dirname(os.path.dirname(interpreter)))
    for place in (path, os.path.realpath(path)):
        roots.append(os.path.dirname(os.path.dirname(os.path.abspath(place))))
    found: list[str] = []
    for root in dict.fromkeys(roots):
        for pattern in _LAYOUTS:
            found += [
                p
                for p in sorted(glob.glob(os.path.join(glob.escape(root), pattern)))
                if os.path.realpath(p) not in found
            ]
    return found


def _interpreter(path: str) -> str | None:
    """The Python of a script's first lines; pip and uv write `#!/bin/sh` and an exec line where the path is too long for a shebang."""
    lines = _head(path, 4096).splitlines()
    if not lines or not lines[0].startswith("#!"):
        return None
    words: t.Sequence[str] = lines[0][2:].split()
    if words and os.path.basename(words[0]) == "sh" and len(lines) > 1:
        words = [w.strip("'\"") for w in lines[1].split() if _PYTHON.search(w.strip("'\""))]
    return words[0] if words and _PYTHON.search(words[0]) and words[0].startswith("/") else None


def _head(path: str, limit: int) -> str:
    try:
        with open(path, "rb") as stream:
            return stream.read(limit).decode("utf-8", "replace")
    except OSError:
        return ""
