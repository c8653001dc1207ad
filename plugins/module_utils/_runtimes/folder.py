# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A member's own directory on a host without containers: environment, files, the script that becomes it, and when it was started."""

from __future__ import annotations

import contextlib
import os
import pwd
import re
import typing as t

from .._core.base.plain import Plain
from .._core.work.member import Part
from .._probes import processes
from . import guard, masking, script
from .errors import HostError
from .protocol import Wanted
from .state import State, make_dirs, write

# "epoch pid boot ticks", the last two - where /proc did not say; an earlier version wrote the first two alone.
_START = re.compile(r"([0-9]{1,12}) ([0-9]{1,10})(?: ([0-9a-f-]{1,40}) ([0-9]{1,20}|-))?", re.ASCII)


class Start(t.NamedTuple):
    """One start of a member, as its `run` noted it. `boot` and `ticks` tell its process from a later one of that pid."""

    pid: int
    since: float
    boot: str | None = None
    ticks: int | None = None

    @classmethod
    def of(cls, found: re.Match[str]) -> Start:
        since, pid, boot, ticks = found.groups()
        known = bool(boot and ticks and ticks.isdigit())
        return cls(int(pid), float(since), boot if known else None, int(ticks) if known else None)

    def process(self, table: t.Mapping[int, processes.Process]) -> processes.Process | None:
        """The very process that was started, if it is there."""
        found = table.get(self.pid)
        same = found is not None and found.start == self.ticks and self.boot == processes.boot_id()
        return found if same else None


def not_here(batch: t.Iterable[Wanted]) -> list[str]:
    """What of members is not on this host, where they are processes of it: their programs, and files that a mode takes from it."""
    found = []
    for member, part, _secrets in batch:
        try:
            script.resolve(part.argv, part.executable)
        except HostError as exc:
            found.append(f"{member.id}: {exc}".rstrip("."))
        for file in part.files:
            if file.get("host_path") and not os.path.exists(file["host_path"]):
                found.append(f"{member.id}: {file['host_path']} is not there, which the mode needs on every host")
    return found


class Folder:
    """The directory of one member. What it holds is written before the member is started, and read by whoever looks for it later."""

    def __init__(self, state: State, group: str, member: str) -> None:
        self.state, self.group, self.member = state, group, member
        self.path = state.member_dir(group, member)

    def write(self, part: Part, label: t.Mapping[str, t.Any], secrets: t.Mapping[str, str]) -> dict[str, t.Any]:
        """Write `env` (0600), `run` (0700), the member's own files, and its label with what its start compares, which is returned."""
        program = script.resolve(part.argv, part.executable)
        script.refuse_held(secrets, self.member)
        env = self._environment(part, label, program, secrets)
        self._write_files(part.files)
        write(os.path.join(self.path, "env"), script.render_env(env))
        markers = {key: env[key] for key in (processes.MEMBER, processes.STATE)}
        watched = guard.of_host(self.state, label, part, program)
        text = script.render_run(
            self.member,
            self.group,
            self.path,
            [program, *part.argv[1:]],
            markers,
            guard.render(watched, guard.REFUSED, "[ ! -s starts ]"),
        )
        write(os.path.join(self.path, "run"), text, 0o700)
        told = guard.stamped(label, watched)
        self.state.write_label(told)
        return told

    def _environment(
        self, part: Part, label: t.Mapping[str, t.Any], program: str, secrets: t.Mapping[str, str]
    ) -> dict[str, str]:
        missing = sorted(set(part.secrets) - set(secrets))
        if missing:
            raise HostError(
                f"Creating member {self.member}",
                f"no value was given for its secrets {', '.join(missing)}",
                "Set them in secrets.",
                self.member,
            )
        folder = os.path.dirname(program)
        path = os.environ.get("PATH", "/usr/bin:/bin")
        user = pwd.getpwuid(os.geteuid())
        own = {
            "PATH": path if folder in path.split(":") else f"{folder}:{path}",
            # Engines keep what they compile below it; a system service has none.
            "HOME": user.pw_dir,
            "USER": user.pw_name,
            "LOGNAME": user.pw_name,
            # Engines set process titles, which would overwrite the environment that a member is known by.
            "SPT_NOENV": "1",
        }
        mine = {processes.MEMBER: self.member, processes.STATE: self.state.root, processes.GROUP: self.group}
        if guard.formation(label):
            mine[processes.FORMATION] = str(label["formation"])
        return {**own, **{k: str(v) for k, v in part.env.items()}, **secrets, **mine}

    def _write_files(self, files: t.Iterable[Plain]) -> None:
        for file in files:
            if file.get("host_path"):
                # What a container would get bound is simply there; without it the engine answers, and wrongly.
                if not os.path.exists(file["host_path"]):
                    raise HostError(
                        f"Looking for {file['host_path']} of member {self.member}",
                        "it is not there",
                        "The mode needs it on every host.",
                        self.member,
                    )
                continue
            path = os.path.normpath(os.path.join(self.path, file["path"]))
            if os.path.isabs(file["path"]) or not path.startswith(self.path + os.sep):
                raise HostError(
                    f"Writing {file['path']} of member {self.member}",
                    "without containers, files of a member are in its own directory",
                    "Give a relative path: the member is started in that directory.",
                    self.member,
                )
            make_dirs(os.path.dirname(path))
            mode = file.get("mode") or 0o600
            write(path, str(file["content"]), int(mode, 8) if isinstance(mode, str) else int(mode))

    def starts(self) -> list[Start]:
        """Each time the member was started. Lines that no `run` wrote are left out."""
        return [Start.of(found) for found in map(_START.fullmatch, self._read("starts").splitlines()) if found]

    def masked(self, lines: t.Iterable[str], label: t.Mapping[str, t.Any] | None) -> list[str]:
        """Lines of its log with the values of its secrets made unreadable."""
        names = (label or {}).get("secrets") or ()
        told = script.parse_env(self._read("env")) if names else {}
        return masking.masked(lines, [told[name] for name in names if name in told])

    def _read(self, name: str) -> str:
        with (
            contextlib.suppress(OSError),
            open(os.path.join(self.path, name), encoding="utf-8", errors="surrogateescape", newline="") as stream,
        ):
            return stream.read()
        return ""
