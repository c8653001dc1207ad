# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What one runtime is, as data: its traits, which rules and plans ask instead of its name, and its options."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from .accepts import NOTHING, Accepts

Gpus = t.Literal["variable", "devices", "count"]
Chooser = t.Literal["plan", "runtime"]


@dataclass(frozen=True)
class Traits:
    """What a runtime does with members. Whoever needs to know asks for one of these, never for a runtime's name.

    containers   Members have a file system, an environment and a /dev/shm of their own. What a spec mounts is bound into them; of what
                 Ansible's user has on the host they inherit nothing.
    images       Members are made from images, which must be on their host, or be pulled, before anything stops.
    program      Where a role's command is looked for when the spec gives none: in the image, or on the host.
    gpus         How a member comes to its GPUs: their ids in the vendor's environment variable, their ids as devices of its container, or
                 a count, of which the runtime decides which ones.
    files        The folder in which a member finds its own files; "." is the one that it is started in.
    user_limits  Members have the resource limits of the user that starts them, locked memory among them; the runtime sets none.
    ports        Who chooses a member's ports: the plan, from the host's range, or the runtime.
    places       Who chooses a member's host: the plan, or the runtime.
    pods         Members are Pods of a cluster: an inventory host is the cluster, its nodes are the hosts of the plan.
    address      Whose address a member is reached at: its host's, or one of its own."""

    containers: bool
    images: bool
    program: t.Literal["image", "host"]
    gpus: Gpus
    files: str = "."
    user_limits: bool = False
    ports: Chooser = "plan"
    places: Chooser = "plan"
    pods: bool = False
    address: t.Literal["host", "member"] = "host"


@dataclass(frozen=True)
class Option:
    """One option of a runtime: `name` under its runtime in `runtime_options`, and the keyword that its driver takes; `variable` is the host
    variable that users set. A path may begin with ~ or hold variables of the host's environment."""

    name: str
    variable: str
    description: tuple[str, ...]
    type: t.Literal["str", "path"] = "str"
    default: str | None = None
    choices: tuple[str, ...] = ()


@dataclass(frozen=True)
class Runtime:
    """What runs members, by name. The code that acts on a host is its driver."""

    name: str
    traits: Traits
    options: tuple[Option, ...] = ()
    accepts: Accepts = NOTHING
