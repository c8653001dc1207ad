# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""External commands, each with a deadline, and nothing of its failure hidden."""

from __future__ import annotations

import os
import shutil
import subprocess
import typing as t

from .._core.base.printable import printable

# Tools for devices and networks are there, and not always on the PATH of a plain ssh session.
PLACES = (
    "/usr/local/sbin",
    "/usr/sbin",
    "/sbin",
    "/usr/local/bin",
    "/usr/bin",
    "/bin",
    "/opt/rocm/bin",
    "/usr/local/Ascend/driver/tools",
)


class Said(t.NamedTuple):
    """What a command said. `error` is empty when it succeeded."""

    out: str
    error: str


def find(name: str) -> str | None:
    return shutil.which(name) or shutil.which(name, path=os.pathsep.join(PLACES))


def run(argv: t.Sequence[str], timeout: float = 5.0) -> Said | None:
    """Run a command; None when this host has no such command."""
    program = find(argv[0])
    if program is None:
        return None
    try:
        done = subprocess.run(  # pylint: disable=ansible-bad-function
            [program, *argv[1:]],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=timeout,
            check=False,
            env={**os.environ, "LC_ALL": "C"},
        )
    except subprocess.TimeoutExpired:
        return Said("", f"{argv[0]} gave no answer within {timeout:g} s")
    except OSError as exc:
        return Said("", f"{argv[0]}: {exc.strerror}")
    out = done.stdout.decode("utf-8", "replace")
    said = printable(done.stderr or done.stdout)
    return Said(out, "" if done.returncode == 0 else f"{argv[0]} failed with {done.returncode}: {said}")
