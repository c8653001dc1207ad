# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A stand-in for `podman` as ansible-runner calls it: `podman run ... IMAGE COMMAND`, without a container.

An image is a folder with a Python environment: $STANDIN_IMAGES/NAME, where NAME is the image's with its / and : as _, else
$STANDIN_IMAGES/jobs. The command runs in a mount namespace of its own, where the volumes are bound to the places at which podman would
mount them (/runner is the folder of the job), and has the environment that podman would give it. It has no process namespace: what it
starts on this machine lives on, as it would on a host. $STANDIN_CONTAINERS has a file of each container, by its name, with its pid.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import typing as t
from dataclasses import dataclass, field
from pathlib import Path

CLONE_NEWNS = 0x00020000
# Of podman's options, those that take a value as the next word.
WITH_VALUE = {
    "-v", "--volume", "-w", "--workdir", "-e", "--env", "--env-file", "--name", "--network", "--user", "--pull", "--security-opt",
    "--group-add", "--userns", "--authfile", "--cap-add", "--ipc", "--pid", "--entrypoint", "--label",
}  # fmt: skip


@dataclass
class Container:
    """What `podman run` is told."""

    name: str = ""
    workdir: str = "/"
    volumes: list[list[str]] = field(default_factory=list)
    env: dict[str, str] = field(default_factory=dict)

    def take(self, option: str, value: str) -> None:
        if option in ("-v", "--volume"):
            self.volumes.append(value.split(":"))
        elif option in ("-w", "--workdir"):
            self.workdir = value
        elif option == "--name":
            self.name = value
        elif option in ("-e", "--env"):
            key, given, text = value.partition("=")
            self.env[key] = text if given else os.environ.get(key, "")
        elif option == "--env-file":
            pairs = (line.partition("=") for line in Path(value).read_text(encoding="utf-8").splitlines())
            self.env.update((key, text) for key, given, text in pairs if given)


def pid_file(name: str) -> Path:
    return Path(os.environ["STANDIN_CONTAINERS"]) / name


def parse(words: list[str]) -> tuple[Container, str, list[str]]:
    """The container, its image, and its command."""
    made = Container()
    while words and words[0].startswith("-"):
        option, joined, value = words.pop(0).partition("=")
        if option in WITH_VALUE and not joined:
            value = words.pop(0)
        made.take(option, value)
    return made, words[0], words[1:]


def image_folder(image: str) -> Path:
    images = Path(os.environ["STANDIN_IMAGES"])
    own = images / image.replace("/", "_").replace(":", "_")
    return own if own.is_dir() else images / "jobs"


def unshare_mounts() -> None:
    # os.unshare is there from Python 3.12 on.
    if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNS):
        number = ctypes.get_errno()
        raise OSError(number, f"unshare: {os.strerror(number)}")
    subprocess.run(["mount", "--make-rprivate", "/"], check=True)


def bind(source: str, target: str) -> None:
    if Path(source).is_dir():
        Path(target).mkdir(parents=True, exist_ok=True)
    elif not Path(target).exists():
        Path(target).touch()
    subprocess.run(["mount", "--bind", source, target], check=True)


def run(words: list[str]) -> t.NoReturn:
    container, image, command = parse(words)
    base = {
        "PATH": f"{image_folder(image)}/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "HOME": "/runner",
        "TERM": "xterm",
        "LANG": "C.UTF-8",
        "container": "podman",
    }
    # The command takes the place of this process.
    pid_file(container.name or f"unnamed-{os.getpid()}").write_text(str(os.getpid()))
    unshare_mounts()
    for source, target, *_options in container.volumes:
        bind(source, target)
    os.chdir(container.workdir)
    os.execvpe(command[0], command, {**base, **container.env})


def end(names: list[str]) -> None:
    for file in map(pid_file, names):
        with contextlib.suppress(OSError, ValueError):  # it has ended
            os.kill(int(file.read_text()), signal.SIGTERM)
        file.unlink(missing_ok=True)


def main() -> None:
    verb, *words = sys.argv[1:] or [""]
    if verb == "--version":
        print("podman version 4.3.1")
    elif verb == "run":
        run(words)
    elif verb in ("rm", "kill", "stop"):
        end([word for word in words if not word.startswith("-")])
    # Of images, logins and what is left of containers there is nothing to do.


if __name__ == "__main__":
    main()
