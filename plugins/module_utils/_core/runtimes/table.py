# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""All runtimes, a row each: the one place, beside the drivers themselves, where their names stand."""

from __future__ import annotations

import typing as t

from ..base.errors import PdError
from . import container
from .accepts import CPUS, MEMORY, Accepts
from .traits import Option, Runtime, Traits

# The first one is a spec's default.
RUNTIMES: tuple[Runtime, ...] = (
    Runtime(
        "docker",
        Traits(containers=True, images=True, program="image", gpus="devices", files=container.INSIDE),
        (
            Option(
                "host",
                "pd_docker_host",
                (
                    "Where the container engine listens, for example C(unix:///run/podman/podman.sock).",
                    "The default is E(DOCKER_HOST), then C(unix:///var/run/docker.sock).",
                ),
            ),
        ),
        Accepts(CPUS, MEMORY, container.image, container.mount, container.device),
    ),
    Runtime(
        "systemd",
        Traits(containers=False, images=False, program="host", gpus="variable"),
        (
            Option(
                "scope",
                "pd_scope",
                (
                    "Whose units members are; the default is V(system), which needs root.",
                    "V(user) are those of the user that Ansible is there, who must linger.",
                ),
                default="system",
                choices=("system", "user"),
            ),
        ),
        Accepts(CPUS, MEMORY),
    ),
    Runtime(
        "supervisor",
        Traits(containers=False, images=False, program="host", gpus="variable", user_limits=True),
        (
            Option(
                "supervisord",
                "pd_supervisord",
                (
                    "The path of C(supervisord).",
                    "The default is the one beside the Python that Ansible uses there, then the one on C(PATH).",
                ),
                type="path",
            ),
        ),
    ),
    Runtime(
        "kubernetes",
        Traits(
            containers=True,
            images=True,
            program="image",
            gpus="count",
            files=container.INSIDE,
            pods=True,
        ),
        (),
        Accepts(CPUS, MEMORY, container.image, container.mount),
    ),
)
NAMES = tuple(one.name for one in RUNTIMES)
DEFAULT = NAMES[0]
# Those that run members on the inventory host itself, beside those of which it stands for a cluster.
ON_HOSTS = tuple(one.name for one in RUNTIMES if not one.traits.pods)
# What started members of which neither record nor label says it: the first versions had no other.
UNNOTED = "supervisor"
_BY_NAME = {one.name: one for one in RUNTIMES}


def runtime_of(name: str) -> Runtime:
    """The row of that name; PdError when there is none."""
    try:
        return _BY_NAME[name]
    except KeyError:
        raise PdError(f"There is no runtime {name!r}. Runtimes: {', '.join(NAMES)}.") from None


def traits_of(name: str) -> Traits:
    """The traits of the runtime of that name; PdError when there is none."""
    return runtime_of(name).traits


def without_images() -> tuple[str, ...]:
    """The runtimes that need no image."""
    return tuple(one.name for one in RUNTIMES if not one.traits.images)


def variables() -> t.Iterator[str]:
    """The host variables that are options of runtimes."""
    return (option.variable for one in RUNTIMES for option in one.options)
