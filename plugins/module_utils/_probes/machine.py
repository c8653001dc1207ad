# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The identity of this machine and of a state folder: it tells one host under two names, or two hosts with one folder."""

from __future__ import annotations

import os
import re
import stat
import typing as t

from . import small_file

# systemd writes "uninitialized" while a machine boots for the first time.
_MACHINE_ID = re.compile(r"[0-9a-f]{32}")
UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_LIMIT = 128


def machine(root: str = "") -> dict[str, str | None]:
    """{id, boot, netns}, each None where it cannot be read: a container may have no machine-id, and its image's is no machine's."""
    return {
        # A link on some systems (to /var/lib/dbus/machine-id); root alone can set it.
        "id": _matching(f"{root}/etc/machine-id", _MACHINE_ID, follow=True),
        "boot": _matching(f"{root}/proc/sys/kernel/random/boot_id", UUID),
        "netns": namespace("self", f"{root}/proc"),
    }


def state(path: str) -> dict[str, str | None]:
    """{dir, id, device, place} of a state folder. `id` is what the folder itself says, the same under every name and on every machine that
    it is mounted on; `device`, its device and inode, is the same under every name on one machine, and so is `place`, which is there before
    the folder is: the nearest folder above it that exists, and the rest of the path. Looking creates nothing."""
    there, rest = path, ""
    while device(there) is None and there not in ("", "/"):
        there, rest = os.path.dirname(there), os.path.join(os.path.basename(there), rest)
    return {
        "dir": path,
        "id": _matching(os.path.join(path, "id"), UUID),
        "device": device(path),
        "place": f"{device(there)}/{rest}".rstrip("/"),
    }


def device(path: str) -> str | None:
    """Device and inode of a folder, as "DEVICE:INODE"; None when there is none that can be looked at."""
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return None
    return f"{found.st_dev}:{found.st_ino}" if stat.S_ISDIR(found.st_mode) else None


def namespace(pid: int | str, proc: str = "/proc") -> str | None:
    """The network namespace of a process, "net:[4026531840]"; None when it is gone, or not ours to look at."""
    try:
        return os.readlink(f"{proc}/{pid}/ns/net")
    except OSError:
        return None


def _matching(path: str, form: t.Pattern[str], follow: bool = False) -> str | None:
    found = (small_file.text(path, _LIMIT, follow) or "").lower()
    return found if form.fullmatch(found) else None
