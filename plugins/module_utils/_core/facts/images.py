# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Images by name, on the hosts of a group: a tag may be another image on each."""

from __future__ import annotations

import typing as t

# An image as a host's facts or a container's label have it: {id, digest}, each of which may be unknown.
Image = t.Mapping[str, t.Any]
_SHOWN = 19


def kinds(found: t.Iterable[tuple[str, Image]]) -> list[list[tuple[str, Image]]]:
    """(host, image) by image. Two are one by their digest or by their id: one that was loaded from a file has no digest, one that is not on
    its host yet has no id. One of which neither is known, or nothing that could be compared, makes no kind of its own."""
    kinds_: list[list[tuple[str, Image]]] = []
    for host, image in found:
        if not name_of(image):
            continue
        mine = next((kind for kind in kinds_ if any(_same(image, other) for _host, other in kind)), None)
        mine = mine or next(
            (kind for kind in kinds_ if not any(_comparable(image, other) for _host, other in kind)), None
        )
        if mine is None:
            kinds_.append([(host, image)])
        else:
            mine.append((host, image))
    return kinds_


def name_of(image: Image) -> str:
    """What an image is told by: its digest, which a registry knows, else its id."""
    return str(image.get("digest") or image.get("id") or "")


def listed(kinds_: t.Iterable[t.Sequence[tuple[str, Image]]]) -> str:
    """Which image where, for a person."""
    lines = [
        f"{name_of(kind[0][1])[:_SHOWN]} on {', '.join(sorted({host for host, _image in kind}))}" for kind in kinds_
    ]
    return "; ".join(sorted(lines))


def _same(one: Image, other: Image) -> bool:
    return any(one.get(key) and one.get(key) == other.get(key) for key in ("digest", "id"))


def _comparable(one: Image, other: Image) -> bool:
    return any(one.get(key) and other.get(key) for key in ("digest", "id"))
