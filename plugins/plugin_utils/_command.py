# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A user's own command, run on the controller under a deadline."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
import tempfile
import typing as t
from dataclasses import dataclass

from ..module_utils._core.base.errors import PdError
from ..module_utils._core.base.printable import printable

# What is read of the end of an output, and what is shown of a line of it.
TAIL, LINE = 4096, 200
# Shorter ones are no secrets, and would blot out half of a line.
SHORTEST_SECRET = 4
HIDDEN = "********"


@dataclass(frozen=True)
class Ended:
    """How it ended. `problem` is empty when it has done what it was to do; `lines` are the last that say something."""

    problem: str
    lines: tuple[str, ...] = ()

    @property
    def line(self) -> str:
        return self.lines[-1] if self.lines else ""


def read(raw: t.Any, what: str, variable: str) -> list[str]:
    """The argv as written, [] when there is none. `what` begins a sentence, `variable` is where it is written. Raises PdError for what is
    no list of words."""
    if raw in (None, "", []):
        return []
    if isinstance(raw, str):
        try:
            words = shlex.split(raw)
        except ValueError:
            words = raw.split()
        told = ", ".join(f"'{word}'" for word in words[:6]) + (", ..." if len(words) > 6 else "")
        raise PdError(
            f"{what} is text, and no shell reads it. Write it as a list, a word an entry: [{told}]; on the command line as"
            f""" -e '{{"{variable}": ["...", "..."]}}'."""
        )
    if not isinstance(raw, list):
        raise PdError(f"{what} is no list. Write its program and its arguments as a list, a word an entry.")
    for at, word in enumerate(raw):
        if isinstance(word, bool) or not isinstance(word, (str, int, float)):
            raise PdError(f"{what}'s entry {at} is {word!r}, which is no word. Quote it.")
    argv = [str(word) for word in raw]
    if not argv[0].strip():
        raise PdError(f"{what} begins with an empty word. Its first entry is the program.")
    if any("\0" in word for word in argv):
        raise PdError(f"{what} has a NUL character in it, which no program can be given.")
    return argv


def run(
    argv: t.Sequence[str], environment: t.Mapping[str, str], seconds: float, secrets: t.Sequence[str] = ()
) -> Ended:
    """Run it without a shell and without input. At its deadline it and what it has started are killed."""
    # A file, no pipe: what it leaves behind may keep that open for ever.
    with tempfile.TemporaryFile() as output:
        try:
            process = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, **environment},
                start_new_session=True,
            )
        except (OSError, ValueError) as exc:
            return Ended(f"cannot be run: {getattr(exc, 'strerror', None) or exc}")
        try:
            code = process.wait(seconds)
            problem = "" if code == 0 else f"was killed by signal {-code}" if code < 0 else f"ended with {code}"
        except subprocess.TimeoutExpired:
            problem = f"did not end within {seconds:g} s, and was killed"
        finally:
            if process.poll() is None:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        return Ended(problem, _last_lines(output, secrets))


def _last_lines(output: t.IO[bytes], secrets: t.Sequence[str]) -> tuple[str, ...]:
    """The last lines that say something, printable, bounded, and without a value that is nobody's to see."""
    output.seek(0, os.SEEK_END)
    output.seek(max(0, output.tell() - TAIL))
    text = output.read(TAIL).decode("utf-8", "replace")
    # Before lines are taken: a secret may have a line break in it. The longest first: one may be a part of another.
    for secret in sorted((s for s in secrets if len(s) >= SHORTEST_SECRET), key=len, reverse=True):
        text = text.replace(secret, HIDDEN)
    return tuple(line for line in (printable(line, LINE) for line in text.splitlines()) if line)
