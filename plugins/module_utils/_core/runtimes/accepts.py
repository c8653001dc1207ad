# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a runtime takes of what a spec writes, as data: what it would refuse is refused before anything stops."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ..base.errors import PdError


class UnfitError(PdError):
    """A value that the runtime does not take. `why` goes on after the value, `todo` is what to write instead."""

    def __init__(self, why: str, todo: str) -> None:
        super().__init__(f"{why}. {todo}")
        self.why, self.todo = why, todo


@dataclass(frozen=True)
class Bounds:
    """From `least` to `most`, both included, with what stands behind the two in words."""

    least: float
    most: float
    below: str
    above: str


# Reads a value as the spec writes it; raises UnfitError for one that the runtime would refuse.
Judge = t.Callable[[t.Any], t.Any]


@dataclass(frozen=True)
class Accepts:
    """What of a spec a runtime carries out, and in which form. What it has no use for is None: it is ignored, and that is said.

    cpu, memory    The bounds of `resources`, in CPUs and in bytes.
    image          A reference to an image.
    mount, device  One entry of `mounts` or `devices`."""

    cpu: Bounds | None = None
    memory: Bounds | None = None
    image: Judge | None = None
    mount: Judge | None = None
    device: Judge | None = None


NOTHING = Accepts()
# Above it are more CPUs than a kernel can have (CONFIG_NR_CPUS), and more memory than one can address.
_MOST_CPUS = 8192
_MOST_MEMORY = 2**52
# Below it no program starts: the kernel ends it while it loads, or the runtime refuses (Docker does below 6 MiB).
_LEAST_MEMORY = 6 * 2**20
CPUS = Bounds(
    0.01,
    _MOST_CPUS,
    "the kernel deals out CPU time in slices of a millisecond, of 100 milliseconds each",
    "no kernel has that many CPUs",
)
MEMORY = Bounds(_LEAST_MEMORY, _MOST_MEMORY, "nothing starts in less than 6MiB", "no kernel has that much memory")
