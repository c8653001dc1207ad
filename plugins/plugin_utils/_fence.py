# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The fence command, a user's: reading it, filling in its placeholders, and running it on the controller under a deadline."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import signal
import subprocess
import tempfile
import typing as t
from dataclasses import dataclass

from ..module_utils._core.base.errors import PdError
from ..module_utils._core.base.placeholders import PLACEHOLDER
from ..module_utils._core.base.printable import printable
from ..module_utils._core.plan.value import Lost

NAMES = ("host", "address", "machine", "group")
_VARIABLE = re.compile(r"vars\.([A-Za-z_][A-Za-z0-9_]*)")
# What is read of the end of an output, and what is shown of its last line.
TAIL, LINE = 4096, 200
# Shorter ones are no secrets, and would blot out half of a line.
SHORTEST_SECRET = 4
HIDDEN = "********"


@dataclass(frozen=True)
class Command:
    """One host's command. `shown` is `argv` for people: what comes from a host's variables stays a placeholder in it."""

    host: str
    argv: list[str]
    shown: str
    values: tuple[str, ...]


@dataclass(frozen=True)
class Ended:
    """How it ended. `problem` is empty when it has fenced its host."""

    problem: str
    line: str


def read_command(raw: t.Any) -> list[str]:
    """The argv as written, [] when there is none. Raises PdError for what is no list of words."""
    if raw in (None, "", []):
        return []
    if isinstance(raw, str):
        try:
            words = shlex.split(raw)
        except ValueError:
            words = raw.split()
        told = ", ".join(f"'{word}'" for word in words[:6]) + (", ..." if len(words) > 6 else "")
        raise PdError(
            f"The fence command is text, and no shell reads it. Write it as a list, a word an entry: [{told}]; on the command line as"
            ' -e \'{"pd_fence_command": ["...", "..."]}\'.'
        )
    if not isinstance(raw, list):
        raise PdError("The fence command is no list. Write its program and its arguments as a list, a word an entry.")
    for at, word in enumerate(raw):
        if isinstance(word, bool) or not isinstance(word, (str, int, float)):
            raise PdError(f"The fence command's entry {at} is {word!r}, which is no word. Quote it.")
    argv = [str(word) for word in raw]
    if not argv[0].strip():
        raise PdError("The fence command begins with an empty word. Its first entry is the program.")
    if any("\0" in word for word in argv):
        raise PdError("The fence command has a NUL character in it, which no program can be given.")
    return argv


def read_environment(raw: t.Any) -> dict[str, str]:
    """The variables that it gets beside the controller's own. Values are never shown."""
    found: dict[str, str] = {}
    for name, value in (raw or {}).items():
        if value is None or isinstance(value, (bool, dict, list)):
            raise PdError(f"The fence command's environment: {name} is no text. Quote its value.")
        if not name or "=" in name or "\0" in name or "\0" in str(value):
            raise PdError(f"The fence command's environment: {name!r} cannot be a variable.")
        found[str(name)] = str(value)
    return found


def command_for(
    argv: t.Sequence[str],
    lost: Lost,
    group: str,
    variable: t.Callable[[str, str], t.Any],
    environment: t.Mapping[str, str],
) -> Command:
    """The command of one lost host. `variable(host, name)` is a variable of it, None when it has none. Raises PdError for a placeholder
    without a value, and for a secret of the environment that stands in the argv, where everybody on the machine could read it."""
    host = lost.host
    known = {"host": host, "group": group, "address": lost.address, "machine": lost.machine}
    secret: list[str] = []

    def fill(found: re.Match[str], show: bool) -> str:
        name = found.group(1)
        if name is None:
            return "${"  # $${ is how a brace is written that is none
        its = _VARIABLE.fullmatch(name)
        if its is None and name not in NAMES:
            told = ", ".join(f"${{{one}}}" for one in NAMES)
            raise PdError(f"The fence command: {found.group()} is not known. There are {told} and ${{vars.NAME}}.")
        value = variable(host, its.group(1)) if its else known[name]
        if value in (None, "") or isinstance(value, (bool, dict, list)):
            why = f"variable {its.group(1)} of {host} is no text" if its else f"the {name} of {host} is not known"
            raise PdError(f"The fence command: {found.group()} has no value: {why}. Nothing was run.")
        if its:
            secret.append(str(value))
        return found.group() if its and show else str(value)

    made = [PLACEHOLDER.sub(lambda m: fill(m, False), word) for word in argv]
    shown = shlex.join([PLACEHOLDER.sub(lambda m: fill(m, True), word) for word in argv])
    for at, word in enumerate(made):
        for name, value in environment.items():
            if len(value) >= SHORTEST_SECRET and value in word:
                raise PdError(
                    f"The fence command's entry {at} has the value of {name} in it, which every user of this machine could read while it"
                    f" runs. Let the program read {name} from its environment."
                )
    return Command(host, made, shown, tuple({*secret, *environment.values()}))


def run(command: Command, environment: t.Mapping[str, str], seconds: float) -> Ended:
    """Run it without a shell and without input. At its deadline it and what it has started are killed."""
    # A file, no pipe: what it leaves behind may keep that open for ever.
    with tempfile.TemporaryFile() as output:
        try:
            process = subprocess.Popen(
                command.argv,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, **environment},
                start_new_session=True,
            )
        except (OSError, ValueError) as exc:
            return Ended(f"cannot be run: {getattr(exc, 'strerror', None) or exc}", "")
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
        return Ended(problem, _last_line(output, command.values))


def _last_line(output: t.IO[bytes], secrets: t.Sequence[str]) -> str:
    """The last line that says something, printable, bounded, and without a value that is nobody's to see."""
    output.seek(0, os.SEEK_END)
    output.seek(max(0, output.tell() - TAIL))
    text = output.read(TAIL).decode("utf-8", "replace")
    # Before lines are taken: a secret may have a line break in it. The longest first: one may be a part of another.
    for secret in sorted((s for s in secrets if len(s) >= SHORTEST_SECRET), key=len, reverse=True):
        text = text.replace(secret, HIDDEN)
    lines = [line for line in (printable(line, LINE) for line in text.splitlines()) if line]
    return lines[-1] if lines else ""
