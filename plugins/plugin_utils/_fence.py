# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The fence command, a user's: reading it, filling in its placeholders, and running it on the controller under a deadline."""

from __future__ import annotations

import re
import shlex
import typing as t
from dataclasses import dataclass

from ..module_utils._core.base.errors import PdError
from ..module_utils._core.base.placeholders import PLACEHOLDER
from ..module_utils._core.plan.value import Lost
from . import _command
from ._command import SHORTEST_SECRET, Ended

NAMES = ("host", "address", "machine", "group")
_VARIABLE = re.compile(r"vars\.([A-Za-z_][A-Za-z0-9_]*)")


@dataclass(frozen=True)
class Command:
    """One host's command. `shown` is `argv` for people: what comes from a host's variables stays a placeholder in it."""

    host: str
    argv: list[str]
    shown: str
    values: tuple[str, ...]


def read_command(raw: t.Any) -> list[str]:
    """The argv as written, [] when there is none. Raises PdError for what is no list of words."""
    return _command.read(raw, "The fence command", "pd_fence_command")


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
    """Run it. How it ended."""
    return _command.run(command.argv, environment, seconds, command.values)
