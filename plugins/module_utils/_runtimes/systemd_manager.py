# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The connection to systemd: its manager, of the system or of this user, and its journal. Every call has a deadline."""

from __future__ import annotations

import glob
import os
import subprocess
import threading
import time

from .._core.base.printable import printable
from .._probes import command, logs
from .errors import HostError

DEADLINE = 20.0
# Of the journal as of a log file, the end is enough, and a member's lines can be long.
MOST_BYTES = 1024 * 1024


class Manager:
    """systemd of the system, or with `user` that of this user."""

    def __init__(self, user: bool) -> None:
        self.user = user
        self._reload = threading.Lock()
        self._reloaded = 0.0

    @property
    def runtime_dir(self) -> str:
        return f"/run/user/{os.geteuid()}"

    def call(self, *words: str, doing: str, member: str | None = None, timeout: float = DEADLINE) -> str:
        """What systemctl says; a HostError when it fails or is silent."""
        said = self._run(
            ["systemctl", *(["--user"] if self.user else []), "--no-pager", "--no-ask-password", *words], timeout
        )
        if said.error:
            raise HostError(doing, said.error, self._hint(said.error), member)
        return said.out

    def try_call(self, *words: str) -> None:
        """The same where nothing depends on it."""
        self._run(
            ["systemctl", *(["--user"] if self.user else []), "--no-pager", "--no-ask-password", *words], DEADLINE
        )

    def answers(self) -> str:
        """Why systemd does not answer; empty when it does."""
        return self._run(["systemctl", *(["--user"] if self.user else []), "show", "--property=Version"], 5).error

    def reload(self) -> None:
        """Have systemd read its unit files again. Threads that ask for it at once share one."""
        wanted = time.monotonic()
        with self._reload:
            if self._reloaded > wanted:
                return
            began = time.monotonic()
            self.call("daemon-reload", doing="Having systemd read its units again", timeout=60)
            self._reloaded = began

    def journal(self, identifier: str, since: float | None, lines: int) -> list[str]:
        """The last lines that a service has written, from `since` on, without what systemd says about it."""
        # Newest first: asked for the last lines since a time, journalctl gives the first ones since then.
        words = ["journalctl", "--quiet", "--no-pager", "--output=cat", "--all", "--reverse", f"--lines={lines}"]
        words += [f"--since=@{since:.3f}"] if since else []
        # By its identifier: the unit of what wrote and ended at once may be unknown to journald.
        said = self._run([*words, f"SYSLOG_IDENTIFIER={identifier}", f"_UID={os.geteuid()}"], DEADLINE)
        if said.error:
            raise HostError(f"Reading the journal of {identifier}", said.error, "See journalctl --verify.")
        return logs.clean(said.out[:MOST_BYTES])[::-1]

    def journal_readable(self) -> bool:
        """Whether this user can read what its services log: root can, and who may read the system's journal, or has one of its own (which
        only a persistent journal has, and for people)."""
        if os.geteuid() == 0:
            return True
        names = ("system.journal", f"user-{os.geteuid()}.journal")
        places = [f"{root}/log/journal/*/{name}" for root in ("/var", "/run") for name in names]
        return any(os.access(path, os.R_OK) for place in places for path in glob.glob(place))

    def _run(self, argv: list[str], timeout: float) -> command.Said:
        program = command.find(argv[0])
        if program is None:
            return command.Said("", f"there is no {argv[0]} here")
        own = {"XDG_RUNTIME_DIR": self.runtime_dir} if self.user else {}
        env = {**os.environ, "LC_ALL": "C", "SYSTEMD_COLORS": "0", **own}
        try:
            done = subprocess.run(  # pylint: disable=ansible-bad-function
                [program, *argv[1:]],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=timeout,
                check=False,
                env=env,
            )
        except subprocess.TimeoutExpired:
            return command.Said("", f"{argv[0]} {argv[-1]} gave no answer within {timeout:g} s")
        except OSError as exc:
            return command.Said("", f"{argv[0]}: {exc.strerror}")
        out = done.stdout.decode("utf-8", "replace")
        if done.returncode == 0:
            return command.Said(out, "")
        said = printable(done.stderr or done.stdout, 400)
        return command.Said(out, f"{argv[0]} said: {said or f'exit status {done.returncode}'}")

    def _hint(self, error: str) -> str:
        if "bus" in error or "no answer" in error:
            return "systemd does not answer. See `systemctl is-system-running` and `journalctl -b -u dbus` on the host."
        return "See `journalctl -b _PID=1` on the host." if not self.user else "See `journalctl --user -b` on the host."


def cgroup_processes(path: str) -> set[int]:
    """The pids in a unit's cgroup and below it, wherever this host has its hierarchies."""
    found: set[int] = set()
    if not path.strip("/"):
        return found
    for root in ("/sys/fs/cgroup", "/sys/fs/cgroup/unified", "/sys/fs/cgroup/systemd"):
        for folder, _folders, files in os.walk(root + path):
            if "cgroup.procs" in files:
                try:
                    with open(os.path.join(folder, "cgroup.procs"), encoding="ascii") as stream:
                        found |= {int(line) for line in stream}
                except OSError:
                    continue
    return found


def locked_memory(pid: int) -> str:
    """The limits of a process, as the kernel tells them."""
    try:
        with open(f"/proc/{pid}/limits", encoding="ascii") as stream:
            return stream.read()
    except OSError:
        return ""
