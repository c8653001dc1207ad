# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A local process that finds files where a container would: this machine's root, with other folders laid over some of its places.

The process is number 1 of a PID namespace of its own, so that nothing that it started outlives it, and has the machine's network."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
import typing as t
from pathlib import Path

# What a container has none of the machine's of.
_OWN = ("/run",)


class Mount(t.NamedTuple):
    source: Path
    target: str
    read_only: bool = False


class Rooted:
    """A process that is being started. `started` turns true when the command itself runs, not before: until then a signal would be lost."""

    def __init__(
        self,
        folder: Path,
        words: t.Sequence[str],
        env: t.Mapping[str, str],
        mounts: t.Sequence[Mount],
        cwd: str,
        log: Path,
    ) -> None:
        root, self._mark = folder / "root", folder / "started"
        root.mkdir(parents=True)
        script = folder / "start"
        script.write_text(_script(root, mounts, self._mark, words, cwd))
        with log.open("ab") as out:
            self._process = subprocess.Popen(
                ["unshare", "--mount", "--pid", "--fork", "--kill-child", "/bin/sh", str(script)],
                env=dict(env), stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True,
            )  # fmt: skip

    @property
    def started(self) -> bool:
        return self._mark.exists()

    @property
    def pid(self) -> int | None:
        """Process 1 of the namespace, as this machine counts; None when it is over."""
        try:
            words = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text().split()
        except OSError:
            return None
        return int(words[0]) if words else None

    def poll(self) -> int | None:
        """Its status, negative for a signal; None while it runs."""
        return self._process.poll()

    def send(self, number: signal.Signals) -> None:
        pid = self.pid
        if pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def kill(self) -> None:
        """End it and all that it has started. Returns when it is over."""
        self.send(signal.SIGKILL)
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(10)


def _script(root: Path, mounts: t.Sequence[Mount], mark: Path, words: t.Sequence[str], cwd: str) -> str:
    """A root of its own: a tmpfs in which each entry of / is mounted, and a folder that has to gain a place is such a tmpfs again."""
    opened = {"/", *_OWN}
    for mount in mounts:
        if not Path(mount.target).exists():
            opened |= {str(one) for one in Path(mount.target).parents if one.exists()}
    lines = ["set -e", "mount --make-rprivate /", f"mount -t tmpfs tmpfs {shlex.quote(str(root))}"]
    for folder in sorted(opened, key=lambda one: one.count("/") + len(one)):
        for entry in () if folder in _OWN else sorted(Path(folder).iterdir()):
            if str(entry) != "/proc":
                lines += _entry(root, entry, str(entry) in opened)
    lines += [f"mkdir {root}/proc", f"mount -t proc proc {root}/proc"]
    for mount in sorted(mounts, key=lambda one: one.target.count("/")):
        place, source = shlex.quote(f"{root}{mount.target}"), shlex.quote(str(mount.source))
        made = f"mkdir -p {place}" if mount.source.is_dir() else f"mkdir -p $(dirname {place}) && touch {place}"
        lines.append(f"[ -e {place} ] || {{ {made}; }}")
        lines.append(f"mount --bind {source} {place}")
        if mount.read_only:
            lines.append(f"mount -o remount,bind,ro {place}")
    # The command is looked for by the PATH that it is given, inside of the root.
    lines += [
        f": > {shlex.quote(str(mark))}",
        f"exec chroot {shlex.quote(str(root))} /usr/bin/env -C {shlex.quote(cwd)} -- {shlex.join(words)}",
    ]
    return "\n".join(lines)


def _entry(root: Path, entry: Path, is_opened: bool) -> list[str]:
    source, place = shlex.quote(str(entry)), shlex.quote(f"{root}{entry}")
    if entry.is_symlink():
        return [f"cp -P {source} {place}"]
    if is_opened:
        return [f"mkdir -p {place}"]
    if entry.is_dir():
        return [f"mkdir -p {place}", f"mount --rbind {source} {place}"]
    return [f": > {place}", f"mount --bind {source} {place} || :"]
