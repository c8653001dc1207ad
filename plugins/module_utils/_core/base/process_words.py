# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What can be a word of a command line or a variable of an environment, whatever runs it: the kernel's rules, and the shells'."""

from __future__ import annotations

import math
import re
import typing as t

# The name of a variable, as every shell takes it.
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# Bytes of one word, and of one NAME=value: the kernel's MAX_ARG_STRLEN, its closing NUL left out. Beyond it nothing is executed.
LONGEST = 128 * 1024 - 1
# Bytes of all of them: a quarter of the stack that a process gets where nobody has set another (8 MiB), less what a host adds itself.
ALL_WORDS = 2 * 2**20 - 128 * 1024
# Names that a shell cannot export as they are: it ends (UID in bash, OPTIND in dash), or puts a value of its own there (measured with dash,
# bash and busybox). The start scripts hand them to `env` instead, as they do what would be a variable of the scripts themselves.
_HELD = re.compile(
    r"_|_pd_.*|BASH.*|UID|EUID|PPID|OPTIND|RANDOM|SRANDOM|SECONDS|LINENO|SHELLOPTS|SHLVL|GROUPS|FUNCNAME|DIRSTACK|HISTCMD|EPOCH.*|IFS|PWD"
    r"|OLDPWD|PS1|PS4|POSIXLY_CORRECT"
)


def is_held(name: str) -> bool:
    """Whether a shell holds a variable of that name for itself."""
    return bool(_HELD.fullmatch(name))


def unfit(value: t.Any, place: str) -> t.Iterator[tuple[str, str]]:
    """(place, what is wrong) of every text and number in a value that nothing can be started with. `place` is the value's own; of a text
    only its place is told, for it may be a secret."""
    if isinstance(value, t.Mapping):
        for key, item in value.items():
            wrong = _wrong(key)
            if wrong:
                yield place, f"one of its keys {wrong}"
            else:
                yield from unfit(item, f"{place}.{key}")
    elif isinstance(value, (list, tuple)):
        for number, item in enumerate(value):
            yield from unfit(item, f"{place}[{number}]")
    else:
        wrong = _wrong(value)
        if wrong:
            yield place, f"the value {wrong}"


def _wrong(value: t.Any) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        return "is no number that can be written down (NaN or infinite)"
    if not isinstance(value, str):
        return ""
    if "\0" in value:
        return "holds a NUL character, at which every command line, path and variable ends"
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        return "holds half of a UTF-16 pair, which no text that is sent or written can"
    return ""
