# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The folder of a run: its plan, written once, and what became of it so far. It is in the temporary folder that the workers of one
ansible-playbook share, which is its user's alone and goes with it. No task is given a plan, and no result repeats one: with hundreds of
members that is what a controller would spend its time on.

index.json            the waves, and which workloads are refused
plans/NAME.json       each plan, whole
shared/NAME.json      what all hosts of a plan read (NAME+ROUND: of a round)
waits/WAVE.json       the hosts of a wave that wait for engines, and for how long at most
own/WAVE/HOST.json    what one host reads beside it, of all workloads of a wave
said/WAVE/STEP/HOST.json   what it said of each in a step
courses/WAVE/NAME.json     how far each workload has come
silent/HOST           why a host is not asked again"""

from __future__ import annotations

import os
import shutil
import tempfile
import typing as t
from dataclasses import dataclass, field
from urllib.parse import quote

from ansible import constants

from ..module_utils._core.base.errors import PdError
from ..module_utils._core.course.course import Course
from ..module_utils._core.course.judge import STEPS, Said
from ..module_utils._core.course.parcel import Parcel, split
from ..module_utils._core.plan.value import RETIRES, Plan
from ._files import name_of, read_json, write_json

Result = dict[str, t.Any]
# The number of a step that comes after every round of renewal, and before those of retirement.
AGAIN = RETIRES - 1


@dataclass
class Index:
    """`waves` are names of workloads, in the order in which they go; `rounds` how many rounds of renewal each wave has at most; `needs` the
    services that a group cannot do without; `refused` what a person is told of each that is not carried out; `halts`: after a wave that
    failed none follows."""

    waves: list[list[str]]
    rounds: list[int]
    needs: dict[str, list[str]] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    halts: bool = False


class RunFolder:
    def __init__(self, path: str) -> None:
        self.path = path

    @classmethod
    def create(cls, index: Index, plans: t.Mapping[str, Plan]) -> RunFolder:
        """Write what is known when the plan is made: `plans` are those of all workloads that are in a wave."""
        folder = cls(tempfile.mkdtemp(prefix="pd-run-", dir=vars(constants)["DEFAULT_LOCAL_TMP"]))
        try:
            folder._write_all(index, plans)
        except OSError as exc:
            shutil.rmtree(folder.path, ignore_errors=True)
            raise PdError(
                f"The plan cannot be written to {folder.path}: {exc.strerror or exc}. Make room there, or name another folder: local_tmp in"
                " ansible.cfg, ANSIBLE_LOCAL_TEMP."
            ) from exc
        return folder

    def _write_all(self, index: Index, plans: t.Mapping[str, Plan]) -> None:
        self._write(vars(index), "index.json")
        for number, names in enumerate(index.waves):
            own: dict[str, dict[str, t.Any]] = {}
            waits: dict[str, t.Any] = {"hosts": [], "longest": 0.0}
            rounds: dict[tuple[str, int], dict[str, t.Any]] = {}
            for name in names:
                plan = plans[name]
                self._write(plan.to_plain(), "plans", f"{_file(name)}.json")
                shared, mine = split(plan)
                self._write(shared, "shared", f"{_file(name)}.json")
                waits["hosts"] += shared["waits"]
                waits["longest"] = max(waits["longest"], shared["limit"])
                for host, what in mine.items():
                    own.setdefault(host, {})[name] = what
                for at in plan.rounds:
                    shared, mine = split(plan, at)
                    self._write(shared, "shared", f"{_file(name)}+{at}.json")
                    for host, what in mine.items():
                        rounds.setdefault((host, at), {})[name] = what
            self._write({**waits, "hosts": sorted(set(waits["hosts"]))}, "waits", f"{number}.json")
            for host, what in own.items():
                self._write(what, "own", str(number), f"{_file(host)}.json")
            for (host, at), what in rounds.items():
                self._write(what, "own", str(number), f"{_file(host)}+{at}.json")

    # -- the plan ------------------------------------------------------------------------------------------------------------------

    def index(self) -> Index:
        found = self._read("index.json")
        if not isinstance(found, dict):
            raise PdError(
                f"There is no plan in {self.path}. It is what group_plan returned as `run`, and lives as long as its ansible-playbook."
            )
        return Index(**found)

    def names(self, wave: int) -> list[str]:
        """The workloads of a wave. Raises PdError for a wave that there is none of."""
        waves = self.index().waves
        if not 0 <= wave < len(waves):
            raise PdError(f"The plan in {self.path} has no wave {wave}: there are {len(waves)}.")
        return waves[wave]

    def plan(self, name: str) -> Plan:
        found = self._read("plans", f"{_file(name)}.json")
        if found is None:
            raise PdError(f"The plan in {self.path} has no workload {name!r}.")
        return Plan.from_plain(found)

    def parcels(self, wave: int, host: str, number: int | None = None) -> dict[str, Parcel]:
        """What a host carries out in a wave, by workload; with a `number`, in that round of renewal."""
        suffix = "" if number is None else f"+{number}"
        own = self._read("own", str(wave), f"{_file(host)}{suffix}.json") or {}
        shared = {name: self._read("shared", f"{_file(name)}{suffix}.json") for name in own}
        return {name: Parcel.of(shared[name], what, host) for name, what in own.items()}

    def waits(self, wave: int) -> tuple[list[str], float]:
        """(the inventory hosts of a wave that wait for engines, for how many seconds each of them at most)."""
        found = self._read("waits", f"{wave}.json") or {}
        return list(found.get("hosts") or ()), float(found.get("longest") or 0)

    def hosts(self, wave: int) -> list[str]:
        """The inventory hosts that have a part in a wave."""
        return sorted(
            {
                host
                for name in self.names(wave)
                for shared in [self._read("shared", f"{_file(name)}.json")]
                for host in (*shared["order"], *shared["hook_hosts"])
            }
        )

    # -- what became of it ---------------------------------------------------------------------------------------------------------

    def say(self, wave: int, step: str, host: str, results: t.Mapping[str, Result]) -> None:
        """Keep what a host said of each workload in a step, beside what it said of others in it."""
        place = ("said", str(wave), step, f"{_file(host)}.json")
        self._write({**(self._read(*place) or {}), **results}, *place)

    def said(self, wave: int) -> dict[str, Said]:
        """What was said in a wave, by workload, step and host."""
        base = os.path.join(self.path, "said", str(wave))
        steps = sorted(os.listdir(base) if os.path.isdir(base) else [], key=place_of)
        found: dict[str, dict[str, dict[str, Result]]] = {}
        for step in steps:
            for file in sorted(os.listdir(os.path.join(base, step))):
                told = self._read("said", str(wave), step, file) or {}
                for name, result in told.items():
                    found.setdefault(name, {}).setdefault(step, {})[name_of(file)] = result
        return t.cast("dict[str, Said]", found)

    def said_by(self, wave: int, step: str, host: str) -> dict[str, Result]:
        return self._read("said", str(wave), step, f"{_file(host)}.json") or {}

    def courses(self, wave: int, names: t.Iterable[str] | None = None) -> dict[str, Course]:
        """How far these workloads of a wave have come, or all of it. A host asks for its own: what is known of members at the end of a wave
        is as much as there are members, and each host would read it in each phase."""
        found = {}
        for name in self.names(wave) if names is None else names:
            raw = self._read("courses", str(wave), f"{_file(name)}.json")
            found[name] = Course(name) if raw is None else Course.from_plain(raw)
        return found

    def write_courses(self, wave: int, courses: t.Mapping[str, Course]) -> None:
        for name, course in courses.items():
            self._write(course.to_plain(), "courses", str(wave), f"{_file(name)}.json")

    def silent(self, host: str) -> str:
        """Why a host is not asked any more in this run; empty while it is."""
        return str(self._read("silent", _file(host)) or "")

    def note_silent(self, host: str, why: str) -> None:
        self._write(why, "silent", _file(host))

    # -- files ---------------------------------------------------------------------------------------------------------------------

    def _write(self, value: t.Any, *place: str) -> None:
        write_json(value, self.path, *place)

    def _read(self, *place: str) -> t.Any:
        return read_json(self.path, *place)


def _file(name: str) -> str:
    return quote(name, safe="")


def place_of(step: str) -> tuple[int, int]:
    """Where a step comes among those of a wave."""
    name, _dot, number = step.partition(".")
    return int(number or 0), STEPS.index(name)
