# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The ports that the kernel keeps from outgoing connections (net.ipv4.ip_local_reserved_ports, for IPv6 as well): read, merged, written."""

from __future__ import annotations

import contextlib
import glob
import os
import tempfile
import typing as t

NAME = "net.ipv4.ip_local_reserved_ports"
Span = tuple[int, int]
FOLDERS = ("/etc/sysctl.d", "/run/sysctl.d", "/usr/lib/sysctl.d")


def path(proc: str = "/proc") -> str:
    return f"{proc}/sys/{NAME.replace('.', '/')}"


def parse(text: str) -> list[Span]:
    """ "40000-40063,50000" as spans."""
    found = []
    for word in filter(None, (w.strip() for w in text.replace("\n", ",").split(","))):
        low, _dash, high = word.partition("-")
        with contextlib.suppress(ValueError):
            found.append((int(low), int(high or low)))
    return found


def merge(*groups: t.Iterable[Span]) -> list[Span]:
    """All spans, sorted; those that touch are one."""
    merged: list[Span] = []
    for low, high in sorted(span for group in groups for span in group):
        if merged and low <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(high, merged[-1][1]))
        else:
            merged.append((low, high))
    return merged


def without(spans: t.Iterable[Span], span: Span) -> list[Span]:
    """The spans less what of them is within another one."""
    left: list[Span] = []
    for low, high in merge(spans):
        left += [(a, b) for a, b in ((low, min(high, span[0] - 1)), (max(low, span[1] + 1), high)) if a <= b]
    return left


def elsewhere(file: str, folders: t.Sequence[str] = FOLDERS) -> list[Span]:
    """What the files of sysctl beside this one reserve."""
    files = [path for folder in folders for path in sorted(glob.glob(os.path.join(glob.escape(folder), "*.conf")))]
    others = [path for path in (*files, "/etc/sysctl.conf") if os.path.realpath(path) != os.path.realpath(file)]
    return merge(*(saved(path) or () for path in others))


def text_of(spans: t.Iterable[Span]) -> str:
    return ",".join(f"{low}-{high}" if low != high else str(low) for low, high in spans)


def covers(spans: t.Iterable[Span], span: Span) -> bool:
    return any(low <= span[0] and span[1] <= high for low, high in merge(spans))


def saved(file: str) -> list[Span] | None:
    """What a file of sysctl.d sets; None when it does not set it."""
    try:
        with open(file, encoding="utf-8") as stream:
            lines = [line.partition("=") for line in stream if not line.lstrip().startswith(("#", ";"))]
    except OSError:
        return None
    values = [value for name, _equals, value in lines if name.strip().lstrip("-").replace("/", ".") == NAME]
    return parse(values[-1]) if values else None


def write_kernel(spans: t.Sequence[Span], proc: str = "/proc") -> None:
    """Raises OSError."""
    with open(path(proc), "w", encoding="ascii") as stream:
        stream.write(text_of(spans) + "\n")


def write_file(file: str, spans: t.Sequence[Span]) -> None:
    """Keep it over a boot. Raises OSError."""
    os.makedirs(os.path.dirname(file), exist_ok=True)
    handle, name = tempfile.mkstemp(dir=os.path.dirname(file), prefix=".inferops-pd-")
    try:
        with os.fdopen(handle, "w", encoding="ascii") as stream:
            stream.write(
                f"# Written by inferops.pd: ports of members, kept from outgoing connections.\n{NAME} = {text_of(spans)}\n"
            )
        os.chmod(name, 0o644)
        os.replace(name, file)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise
