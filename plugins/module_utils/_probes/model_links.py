# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Links in a model's folder. Whoever writes that folder is seldom root, who reads it: by a link nobody gets to see what he may not read."""

from __future__ import annotations

import os
import stat
import typing as t

_HOPS = 40


def leads_to(path: str) -> str | None:
    """The regular file that a path is, or that a link at it leads to; None for anything else, and for a link that is not to be followed.

    A link is followed into the `blobs` of its own Hugging Face cache; else, at each hop, where it was made by root, by whoever looks or by
    the owner of the file, or where everybody may read the file."""
    try:
        place = os.path.realpath(path)
        found = os.stat(place)
        if not stat.S_ISREG(found.st_mode):
            return None
        makers = {os.lstat(hop).st_uid for hop in _hops(path)}
    except (OSError, ValueError):
        return None
    home = blobs(os.path.dirname(path))
    if home and os.path.dirname(place) == os.path.realpath(home):
        return place
    if makers <= {0, os.geteuid(), found.st_uid} or _open_to_all(place, found.st_mode):
        return place
    return None


def blobs(folder: str) -> str | None:
    """The folder of blobs of the Hugging Face cache that a snapshot is of (models--x/snapshots/REVISION beside models--x/blobs); None for
    another folder."""
    above, _slash, _revision = os.path.realpath(folder).rpartition("/")
    repository, _slash, name = above.rpartition("/")
    found = os.path.join(repository, "blobs")
    return found if name == "snapshots" and os.path.isdir(found) and not os.path.islink(found) else None


def _hops(path: str) -> t.Iterator[str]:
    """Every link on the way from a path, itself included."""
    for _hop in range(_HOPS):
        if not os.path.islink(path):
            return
        yield path
        path = os.path.join(os.path.realpath(os.path.dirname(path)), os.readlink(path))


def _open_to_all(place: str, mode: int) -> bool:
    if not mode & stat.S_IROTH:
        return False
    folder = os.path.dirname(place)
    while True:
        if not os.stat(folder).st_mode & stat.S_IXOTH:
            return False
        if folder == os.path.dirname(folder):
            return True
        folder = os.path.dirname(folder)
