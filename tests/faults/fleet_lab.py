# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A fleet of systemd units on hosts of the lab, over real ssh."""

from __future__ import annotations

import json
import shlex
import typing as t
from pathlib import Path

from faults.case_lab import PORT, STATE, LabHosts, lab_spec, share
from faults.fleet import Fleet
from integration.conftest import HELD_ELSEWHERE
from lab.fixture import Lab


class LabFleet(LabHosts, Fleet):
    """The same, asked by ssh."""

    def made(self, port: int, **changes: t.Any) -> dict[str, t.Any]:
        return lab_spec(port, **changes)

    @property
    def causes(self) -> Path:
        return self.lab.share / "causes"

    def address_of(self, host: str) -> str:
        return self.lab.address(host)

    def records_of(self, group: str) -> list[dict[str, t.Any]]:
        look = f"cat {STATE}/groups/{group}/record.json 2>/dev/null; true"
        said = [self.lab.ssh(host, look, check=False) for host in self.hosts_of(group)]
        return [json.loads(text) for text in said if text]

    def files(self) -> t.Iterator[tuple[str, str, str]]:
        for host in self.hosts:
            look = f"cd {STATE}/groups && find . -type f ! -name member.log -printf '%P %T@\\n'; true"
            said = self.lab.ssh(host, look, check=False)
            for line in said.splitlines():
                file, written = line.rsplit(" ", 1)
                yield file.partition("/")[0], f"{host}:{file}", written

    def lose(self, host: str) -> None:
        self.cut_off(host)

    def lock_of_another(self, group: str) -> None:
        lock = f"{STATE}/groups/{group}/lock.json"
        self.lab.ssh(self.first_host(group), f"echo {shlex.quote(json.dumps(HELD_ELSEWHERE))} > {lock}")

    def unlock(self, group: str) -> None:
        self.lab.ssh(self.first_host(group), f"rm {STATE}/groups/{group}/lock.json")

    def clean(self) -> None:
        super().clean()
        for file in self.causes.iterdir():
            file.unlink()


def make(lab: Lab, folder: Path, hosts: int, names: t.Sequence[str]) -> LabFleet:
    """So many hosts of the lab. The groups are still to be added."""
    lab.grow(hosts)
    share(lab)
    made = LabFleet.__new__(LabFleet)
    made.lab = lab
    made.__init__(folder, {f"h{number + 1}": {} for number in range(hosts)}, {})  # type: ignore[misc]
    made.routers = {name: PORT + number for number, name in enumerate(names)}
    made.causes.mkdir(exist_ok=True)
    made.causes_there = "/srv/lab/causes"
    return made
