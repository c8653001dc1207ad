# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A private Docker engine for tests: own data, own socket, no bridge and no firewall rules, so that it changes nothing on the machine."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import time
import typing as t
from pathlib import Path

if t.TYPE_CHECKING:
    import pytest

HERE = Path(__file__).parent / "docker"
IMAGE, BARE = "pd-test:1", "pd-test-bare:1"
START, STOP = 30, 30


class NoEngineError(Exception):
    """Why there can be none here."""


class Engine:
    """One dockerd over a directory of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.socket = folder / "docker.sock"
        self.url = f"unix://{self.socket}"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, and wait until it answers. Raises NoEngineError."""
        path = os.pathsep.join([str(HERE), os.environ["PATH"], "/usr/sbin", "/usr/local/sbin"])
        program = shutil.which("dockerd", path=path)
        if program is None:
            raise NoEngineError("there is no dockerd")
        clamp = HERE / "runc-clamp"
        command = [
            program, "--data-root", self.folder / "data", "--exec-root", self.folder / "exec", "--pidfile", self.folder / "pid",
            "--host", self.url, "--bridge", "none", "--iptables=false", "--ip-forward=false", "--ip-masq=false", "--ip6tables=false",
            "--add-runtime", f"clamp={clamp}", "--default-runtime", "clamp", "--log-level", "warn",
            "--exec-opt", "native.cgroupdriver=cgroupfs",
        ]  # fmt: skip
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / "dockerd.log").open("ab") as log:
            self._process = subprocess.Popen(
                [str(word) for word in command],
                env={**os.environ, "PATH": path},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        deadline = time.monotonic() + START
        while not self.answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.stop()
                raise NoEngineError(
                    "dockerd does not start: " + " | ".join((self.folder / "dockerd.log").read_text().splitlines()[-3:])
                )
            time.sleep(0.1)

    def answers(self) -> bool:
        return self.socket.exists() and self.docker("version", check=False).returncode == 0

    def stop(self, number: int = signal.SIGTERM) -> None:
        """Stop it, or kill it."""
        if self._process is None:
            return
        self._process.send_signal(number)
        self._process.wait(STOP)
        self._process = None

    def freeze(self, frozen: bool) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGSTOP if frozen else signal.SIGCONT)

    def docker(self, *words: str, check: bool = True, **options: t.Any) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["docker", "-H", self.url, *words], check=check, capture_output=True, text=True, timeout=60, **options
        )

    def inspect(self, name: str) -> dict[str, t.Any]:
        return t.cast("dict[str, t.Any]", json.loads(self.docker("inspect", name).stdout)[0])

    def names(self) -> list[str]:
        return sorted(self.docker("ps", "-a", "--format", "{{.Names}}").stdout.split())

    def import_image(self, name: str, *words: str) -> None:
        """Make the image from this machine's own files."""
        tar = subprocess.Popen([str(HERE / "image.sh"), *words], stdout=subprocess.PIPE)
        with tar:
            subprocess.run(
                ["docker", "-H", self.url, "import", "-", name],
                check=True,
                stdin=tar.stdout,
                capture_output=True,
                timeout=120,
            )
        assert tar.returncode == 0

    def end(self) -> None:
        """Remove every container, stop the engine, and delete its data."""
        if self._process is not None:
            self.freeze(False)
            names = self.names()
            if names:
                self.docker("rm", "-f", *names, check=False)
        self.stop()
        for line in Path("/proc/mounts").read_text().splitlines():
            place = line.split()[1]
            if place.startswith(f"{self.folder}/"):
                subprocess.run(["umount", "-l", place], check=False)
        shutil.rmtree(self.folder, ignore_errors=True)


def engine(folder: Path) -> Engine:
    """An engine that runs and has the images. Raises NoEngineError with the reason."""
    if os.geteuid() != 0:
        raise NoEngineError("only root can run a Docker engine")
    if not shutil.which("docker"):
        raise NoEngineError("there is no docker command")
    ready = subprocess.run([str(HERE / "setup.sh")], capture_output=True, text=True, timeout=400, check=False)
    if ready.returncode:
        raise NoEngineError(ready.stderr.strip().splitlines()[-1] if ready.stderr.strip() else "setup.sh failed")
    made = Engine(folder)
    made.start()
    made.import_image(IMAGE)
    made.import_image(BARE, "bare")
    return made


@contextlib.contextmanager
def registry(folder: Path, port: int) -> t.Iterator[str]:
    """A real registry on this machine: its address. Raises NoEngineError where it cannot be had."""
    done = subprocess.run(
        [str(HERE / "setup.sh"), "registry", str(folder)], capture_output=True, text=True, timeout=120, check=False
    )
    if done.returncode:
        raise NoEngineError(f"there is no docker-registry: {done.stderr.strip()[-200:]}")
    settings = folder / "registry.yml"
    storage = f"storage: {{filesystem: {{rootdirectory: {folder}/images}}}}"
    settings.write_text(f"version: 0.1\nlog: {{level: error}}\n{storage}\nhttp: {{addr: 127.0.0.1:{port}}}\n")
    process = subprocess.Popen(
        [folder / "usr/bin/docker-registry", "serve", settings], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        yield f"127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(10)


def fixture_engine(tmp_path_factory: pytest.TempPathFactory) -> t.Iterator[Engine]:
    """What test modules make their fixture of: an engine for the module, or a skip that says why there is none."""
    import pytest

    try:
        made = engine(tmp_path_factory.mktemp("docker"))
    except NoEngineError as exc:
        pytest.skip(str(exc))
    yield made
    made.end()
