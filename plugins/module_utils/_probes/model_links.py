# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Links in a model's folder. Whoever writes that folder is seldom root, who reads it: by a link nobody gets to see what he may not read."""

from __future__ import annotations

import os
import pwd
import stat
import typing as t

_HOPS = 40


def leads_to(path: str) -> str | None:
    """The regular file that a path is, or that a link at it leads to; None for anything else, and for a link that is not to be followed.

    A link is followed into the `blobs` of its own Hugging Face cache; else, at each hop, where it was made by root, by whoever looks, by
    the owner of the file, or by somebody who may read it anyway."""
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
    own = {0, os.geteuid(), found.st_uid}
    try:
        return place if all(uid in own or _may_read(uid, place) for uid in makers) else None
    except OSError:
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


def _may_read(uid: int, place: str) -> bool:
    """Whether a user may read a file, by the modes of it and of the folders above it."""
    groups = _groups(uid)
    folders, above = [], os.path.dirname(place)
    while above not in folders:
        folders.append(above)
        above = os.path.dirname(above)
    return _has(uid, groups, os.stat(place), 4) and all(_has(uid, groups, os.stat(folder), 1) for folder in folders)


def _has(uid: int, groups: t.Collection[int], found: os.stat_result, right: int) -> bool:
    """Whether a mode gives a user a right: 4 to read, 1 to look into."""
    shift = 6 if found.st_uid == uid else 3 if found.st_gid in groups else 0
    return bool(found.st_mode >> shift & right)


def _groups(uid: int) -> frozenset[int]:
    try:
        user = pwd.getpwuid(uid)
        return frozenset(os.getgrouplist(user.pw_name, user.pw_gid))
    except (KeyError, OSError):
        return frozenset()
