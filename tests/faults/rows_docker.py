# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Groups in containers."""

from __future__ import annotations

import typing as t

from faults.case import Case
from faults.model import DEPLOY, NONE, RESTART, Fault, only, scale

if t.TYPE_CHECKING:
    from faults.case_docker import DockerCase

ALL = only("prefill", "decode", "router")
NAME = "there is a container of that name which is not this member"


def of(case: Case) -> DockerCase:
    return t.cast("DockerCase", case)


def remove_container(case: Case) -> None:
    of(case).engine.docker("rm", "-f", "g-decode-0")


def stranger(name: str) -> t.Callable[[Case], None]:
    def do(case: Case) -> None:
        from docker_engine import IMAGE

        of(case).engine.docker("run", "-d", "--network", "none", "--name", name, IMAGE, "sleep", "600")

    return do


def stranger_goes(name: str) -> t.Callable[[Case], None]:
    def lift(case: Case) -> None:
        engine = of(case).engine
        assert engine.inspect(name)["State"]["Running"], "a stranger was touched"
        engine.docker("rm", "-f", name)

    return lift


def stop_daemon(case: Case) -> None:
    of(case).engine.stop()
    case.undo.append(lambda: of(case).engine.answers() or of(case).engine.start())


def start_daemon(case: Case) -> None:
    of(case).engine.start()


def same_image(case: Case) -> None:
    """What an operator does: the second host gets the very image of the first."""
    from docker_engine import IMAGE

    first, second = of(case).engines
    file = case.folder / "image.tar"
    first.docker("save", "-o", str(file), IMAGE)
    second.docker("load", "-i", str(file))


def row(name: str, kind: str, do: t.Callable[[Case], None], *words: t.Any, **how: t.Any) -> Fault:
    return Fault(name, kind, do, *words, topology="docker", needs=("root", "docker"), **how)


ROWS = [
    # Both engines imported the same files, at different times: one tag, two digests.
    Fault(
        "one-tag-is-two-images", "another-image", lambda case: None, topology="dockers", formed=False, needs=("root", "docker", "nic"),
        told=(r"sha256:\w+.{0,400}sha256:\w+",), runs=NONE, lift=same_image,
    ),
    row("container-removed", "container-removed", remove_container, fails=False, told=(r"g-decode-0",), runs=ALL),
    row(
        "container-removed-in-a-restart", "container-removed", remove_container, RESTART, at="before:router_stop", edit=True, fails=None,
    ),
    row(
        "strangers-container", "stranger", stranger("g-decode-0"), formed=False, told=(NAME,), lift=stranger_goes("g-decode-0"),
    ),
    row(
        "strangers-container-and-a-scale", "stranger", stranger("g-decode-1"), scale(decode=2), fails=False, told=(NAME,),
        runs=ALL | {"g-decode-1"}, lift=stranger_goes("g-decode-1"), heal=(scale(decode=2), scale(decode=1)),
    ),
    row("docker-is-down", "docker-stops", stop_daemon, told=(r"systemctl start docker",), lift=start_daemon),
    row(
        "docker-stops-before-the-members-stop", "docker-stops", stop_daemon, RESTART, at="before:router_stop", edit=True,
        told=(r"systemctl start docker",), lift=start_daemon,
    ),
    row(
        "docker-stops-before-members-start", "docker-stops", stop_daemon, RESTART, at="before:start", edit=True,
        told=(r"systemctl start docker",), lift=start_daemon,
    ),
    row(
        "docker-stops-while-members-load", "docker-stops", stop_daemon, at="before:wait", formed=False,
        told=(r"systemctl start docker",), lift=start_daemon, heal=(DEPLOY,),
    ),
]  # fmt: skip
