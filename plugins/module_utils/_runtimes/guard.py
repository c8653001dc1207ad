# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The guard of a start: what a member's start script looks at before it becomes the member, whoever started it.

A runtime starts a crashed member again within seconds, and knows nothing of its group. By then the group may have been formed anew, the
model exchanged under its path, the state directory copied to another machine: what would start is something else than its peers, and would
serve."""

from __future__ import annotations

import os
import re
import typing as t
from dataclasses import dataclass

from .._core.work.member import Part
from .._probes import executables, model
from .state import State, make_dirs

# EX_CONFIG, which systemd and supervisord are told not to restart.
REFUSED = 78
# What the one line on the log begins with.
SAID = "inferops.pd: not started: "
MACHINE = "/etc/machine-id"
_LONGEST = 1000


@dataclass(frozen=True)
class Files:
    """Files that must be what they were. `stamp` is that of _probes/model.py."""

    what: str
    paths: tuple[str, ...]
    stamp: str
    folder: bool = False


@dataclass(frozen=True)
class Guard:
    """What must be as it was when the member was created; what is not known is not looked at. `place` is the directory of the formation's
    file, as the script sees it."""

    formation: str | None = None
    place: str = ""
    machine: str | None = None
    files: tuple[Files, ...] = ()


def directory(state: State, group: str) -> str:
    """Where the record's formation stands as one line of text. Containers get it bound, whoever they run as: nothing in it is secret."""
    return os.path.join(state.group_dir(group), "guard")


def make_directory(state: State, group: str) -> str:
    path = directory(state, group)
    make_dirs(path)
    os.chmod(path, 0o755)
    return path


def of_host(state: State, label: t.Mapping[str, t.Any], part: Part, program: str) -> Guard:
    """The guard of a member that runs on the host itself."""
    found = [model_files(label, part), _engine_files(part.executable or program)]
    return Guard(
        formation(label),
        directory(state, label["group"]),
        machine_id(),
        tuple(files for files in found if files),
    )


def formation(label: t.Mapping[str, t.Any]) -> str | None:
    return str(label["formation"]) if label.get("formation") else None


def machine_id(path: str = MACHINE) -> str | None:
    """What tells this installation of an operating system from every other; None where the host has nothing of the kind."""
    try:
        with open(path, encoding="ascii", errors="replace") as stream:
            text = stream.readline().strip()
    except OSError:
        return None
    return text if re.fullmatch(r"[0-9a-f]{32}", text) else None


def model_files(label: t.Mapping[str, t.Any], part: Part, through: model.Through | None = None) -> Files | None:
    """The model of an engine. A router reads none."""
    path = os.path.normpath(part.model or "")
    if label.get("role") == "router" or not os.path.isabs(path):
        return None
    place = through(path) if through else path
    stamp = model.stamp([path], through) if place and os.path.isdir(place) else None
    return Files(f"the files of its model in {path}", (path,), stamp, folder=True) if stamp else None


def _engine_files(executable: str) -> Files | None:
    paths = executables.files(executable)
    stamp = model.stamp(paths) if paths else None
    return Files(f"the files of its program ({paths[0]} and its package)", tuple(paths), stamp) if stamp else None


def stamped(label: t.Mapping[str, t.Any], guard: Guard) -> dict[str, t.Any]:
    """The label with what its guard compares: identity.stamp is that of the model, as model facts have it, and identity.engine_stamp that
    of the engine, as executable facts have it."""
    known = {key: value for key, value in (label.get("identity") or {}).items() if key not in ("stamp", "engine_stamp")}
    for files in guard.files:
        known["stamp" if files.folder else "engine_stamp"] = files.stamp
    return {**label, "identity": known}


def refusal(lines: t.Sequence[str]) -> str | None:
    """Why a start was refused, if that is what a log ends with."""
    if not lines or not lines[-1].startswith(SAID):
        return None
    return lines[-1][len("inferops.pd: ") :][:_LONGEST]


# -- the text of the script ----------------------------------------------------------------------------------------------------------


def quote(value: str) -> str:
    """A value in single quotes: to a shell nothing in it has a meaning, newlines included."""
    return "'" + value.replace("'", "'\\''") + "'"


def render(guard: Guard, code: int, first: str) -> str:
    """Shell text that ends the script with status `code` where something differs. `first` is a shell condition: this is the first start.

    Every name in it begins with _pd_: in a container the user's variables are there already."""
    head = f"""_pd_refuse() {{
    printf '%s\\n' "{SAID}$1"
    exit {code}
}}
# The first line of file $1; empty when it cannot be read.
_pd_read() {{
    _pd_got=
    {{ read -r _pd_got < "$1"; }} 2>/dev/null || :
}}
"""
    return head + _formation(guard) + _machine(guard) + _files(guard.files, first)


def _formation(guard: Guard) -> str:
    if not guard.formation:
        return ""
    path = os.path.join(guard.place, "formation")
    why = f"its group has been formed anew without it (it is of formation {guard.formation}, the group of "
    return "# What serves together is of one formation.\n" + _compared(
        path, guard.formation, why, "none that can be read", "); deploy the group again, which replaces it"
    )


def _machine(guard: Guard) -> str:
    if not guard.machine:
        return ""
    why = f"this is another machine than the one that it was created on (machine-id {guard.machine}, and here it is "
    todo = "); give each host a state directory of its own, then deploy the group again"
    return _compared(MACHINE, guard.machine, why, "none", todo)


def _compared(path: str, wanted: str, why: str, nothing: str, todo: str) -> str:
    """Refuse unless the first line of a file is as wanted; the sentence names what it is instead."""
    return (
        f"_pd_read {quote(path)}\n"
        f"""[ "$_pd_got" = {quote(wanted)} ] || _pd_refuse {quote(why)}"${{_pd_got:-{nothing}}}"{quote(todo)}\n"""
    )


def _files(every: t.Sequence[Files], first: str) -> str:
    """A host or image without the two programs gets its first start, which its creation vouches for, and no other."""
    if not every:
        return ""
    lacking = "stat or sha256sum are lacking here, so nobody can tell whether the files of the model and of the engine are still the same"
    checks = "".join(_check(files) for files in every)
    return f"""# Started again on other files, it would be another engine than its peers.
if {{ stat -L -c %Y -- / && echo | sha256sum; }} >/dev/null 2>&1; then
{checks}elif {first}; then
    echo "inferops.pd: {lacking}; it is started once, and not again"
else
    _pd_refuse "{lacking}; install coreutils, then deploy the group again"
fi
"""


def _check(files: Files) -> str:
    if files.folder:
        look = f"cd {quote(files.paths[0])} && stat -L -c '%n %s %Y' -- ./*"
    else:
        look = "stat -L -c '%n %s %Y' -- " + " ".join(quote(path) for path in files.paths)
    return f"""    _pd_got=$({{ LC_ALL=C; export LC_ALL; {look}; }} 2>/dev/null | sha256sum)
    [ "${{_pd_got%% *}}" = {files.stamp} ] || _pd_refuse {quote(_changed(files))}
"""


def _changed(files: Files) -> str:
    return (
        f"{files.what} are not those that it was created with (names, sizes or times differ), so it could be another engine than its peers;"
        " put the former ones back, or restart the group on these"
    )
