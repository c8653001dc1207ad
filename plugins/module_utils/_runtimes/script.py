# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A member's start script and environment: two files that an operator can read and start by hand: `env` (0600) and `run` (0700)."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import typing as t

from .._core.base.process_words import VARIABLE, is_held
from .errors import HostError
from .guard import quote

_LINE = re.compile(r"^(?:export|set --) ([A-Za-z_][A-Za-z0-9_]*)='((?:[^']|'\\'')*)'(?: \"\$@\")?$", re.M)


def render_env(env: t.Mapping[str, t.Any]) -> str:
    """A file for the shell's `.` that exports every variable. One that a shell holds itself becomes a word for `env`, before those in "$@".

    Raises HostError for what no environment can hold."""
    lines = ["# Environment of this member, secrets included: for its owner only."]
    for name in sorted(env):
        value = str(env[name])
        if not VARIABLE.fullmatch(name):
            raise HostError(
                f"Writing variable {name!r}",
                "it is no name of an environment variable",
                "Use letters, digits and _ only.",
            )
        if "\0" in value:
            raise HostError(f"Writing variable {name}", "its value holds a NUL character", "Remove it.")
        lines.append(f'set -- {name}={quote(value)} "$@"' if is_held(name) else f"export {name}={quote(value)}")
    return "\n".join(lines) + "\n"


def parse_env(text: str) -> dict[str, str]:
    """What render_env wrote, read back."""
    return {match[1]: match[2].replace("'\\''", "'") for match in _LINE.finditer(text)}


def refuse_held(secrets: t.Iterable[str], member: str) -> None:
    """A secret never becomes a word of a command, which everybody may read."""
    held = sorted(name for name in secrets if is_held(name))
    if held:
        raise HostError(
            f"Creating member {member}",
            f"shells hold variable {held[0]} for themselves, so no secret of that name can be passed on",
            "Give the secret another name.",
            member,
        )


def render_run(
    member: str,
    group: str,
    directory: str,
    argv: t.Sequence[str],
    markers: t.Mapping[str, str] | None = None,
    guard: str = "",
) -> str:
    """The script that becomes the member. `guard` is text that ends it where it must not start. `markers` are the variables by which every
    process of the member is known: what an earlier start left behind is ended first, since it holds the member's ports (measured: vLLM's
    engine process outlives a killed API server)."""
    for token in argv:
        if "\0" in token:
            raise HostError(f"Writing the command of {member}", "an argument holds a NUL character", "Remove it.")
    words = " \\\n    ".join(shlex.quote(str(token)) for token in argv)
    return f"""#!/bin/sh
# Member {member} of group {group}, written by the Ansible collection inferops.pd.
# To start it by hand, stop it first (it holds its ports), then: sh {shlex.quote(os.path.join(directory, "run"))}
# Edits are lost when the member is created again.
cd {shlex.quote(directory)} || exit 1
{guard}{_NOTE}{_sweep(markers)}set --
. ./env
exec ${{1:+/usr/bin/env}} "$@" {words}
"""


# Which process this is: a pid alone is another one's after a boot, or some hours later.
_NOTE = """_pd_boot= _pd_stat= _pd_ticks=
{ read -r _pd_boot < /proc/sys/kernel/random/boot_id; read -r _pd_stat < /proc/$$/stat; } 2>/dev/null
_pd_started() { [ $# -lt 20 ] || _pd_ticks=${20}; }
_pd_started ${_pd_stat##*) }
echo "$(date +%s) $$ ${_pd_boot:--} ${_pd_ticks:--}" >> starts
"""


def _sweep(markers: t.Mapping[str, str] | None) -> str:
    """Only what this user runs: anybody can give a process of his own the variables of a member."""
    leftover = "".join(
        f" | xargs -r grep -lzxF {shlex.quote(f'{name}={value}')} 2>/dev/null"
        for name, value in (markers or {}).items()
    )
    if not leftover:
        return ""
    return f"""# What outlived an earlier start of this member holds its ports.
for _pd_left in $(ls -d /proc/[0-9]*/environ 2>/dev/null{leftover}); do
    _pd_left=${{_pd_left#/proc/}} && _pd_left=${{_pd_left%/environ}}
    [ -O "/proc/$_pd_left" ] && kill -KILL "$_pd_left" 2>/dev/null && echo "ended process $_pd_left of an earlier start"
done
"""


def resolve(argv: t.Sequence[str], executable: str | None, path: str | None = None) -> str:
    """The program that argv[0] means: a path as it is, a bare name beside `executable`, else on PATH. Raises HostError without one."""
    if not argv:
        raise HostError("Reading the command", "it is empty", "Set command, or leave it to the mode.")
    name = str(argv[0])
    places = [name] if "/" in name else []
    if not places and executable and "/" in executable:
        places.append(os.path.join(os.path.dirname(executable), name))
    for place in places:
        if os.path.isfile(place) and os.access(place, os.X_OK):
            return place
    found = None if "/" in name else shutil.which(name, path=path)
    if found is None:
        looked = places[0] if places else f"{name} on PATH"
        raise HostError(
            f"Looking for {looked}", "it is not there, or not executable", "Install it, or set executable to its path."
        )
    return os.path.abspath(found)
