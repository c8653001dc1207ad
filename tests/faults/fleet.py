# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Many groups on several hosts, of which some go wrong in one run: who serves then, what the run says, and what it has touched."""

from __future__ import annotations

import json
import os
import re
import typing as t
from pathlib import Path

from faults.case import SECRET, Background, Client, Disturbed, completions
from faults.model import Play
from integration.conftest import interface, spec
from integration.support_runtime import wait_for
from ports import free_block
from support import Run

# A host's members need so many ports, where four of them are engines.
PORTS = 24
# Seconds that an engine loads.
LOAD = "1"


class Fleet(Disturbed):
    """Hosts h1, h2, ... and groups of 1P1D over them, by name."""

    # The port of each group's router, and the folder of files that fail something as long as they are there, as engines see it.
    routers: dict[str, int]
    causes_there: str

    # -- what there is -------------------------------------------------------------------------------------------------------------

    def add(self, name: str, hosts: tuple[str, str, str], **changes: t.Any) -> None:
        """A group with prefill, decode and router on these. `changes` are of its spec, as integration.conftest.spec takes them."""
        for role, host in zip(("prefill", "decode", "router"), hosts):
            changes[role] = {"hosts": host, **changes.get(role, {})}
        self.groups[name] = self.made(self.routers[name], **changes)
        self.groups[name]["engine"]["secrets"] = {"HF_TOKEN": SECRET}
        self.groups[name]["engine"]["env"]["STANDIN_LOAD"] = LOAD

    def made(self, port: int, **changes: t.Any) -> dict[str, t.Any]:
        return spec(self.folder / "model", port, **changes)

    @property
    def causes(self) -> Path:
        return self.folder / "causes"

    def fails(self, name: str, how: str) -> dict[str, t.Any]:
        """The change of a group's spec by which its decode fails while the file NAME of `causes` is there, which it is now."""
        (self.causes / name).touch()
        return {"decode": {"extra_env": {"STANDIN_FAIL": f"{how}:{self.causes_there}/{name}"}}}

    def mend(self, name: str) -> None:
        (self.causes / name).unlink()

    def hosts_of(self, group: str) -> list[str]:
        patterns = {str(role["hosts"]) for role in self.groups[group]["roles"].values()}
        return sorted({host for pattern in patterns for host in pattern.split(":")})

    def first_host(self, group: str) -> str:
        return self.hosts_of(group)[0]

    # -- runs ----------------------------------------------------------------------------------------------------------------------

    def meet(self, play: Play, point: str, do: t.Callable[[], t.Any]) -> Run:
        """The run, to which something is done at that point."""
        run = self.start(play, point)
        self.reached(run)
        do()
        self.go()
        return run.finish()

    def serve_during(self, run: Background, names: t.Collection[str], seconds: float = 240) -> None:
        """Wait until these groups serve, and no other, while the run goes on."""

        def there() -> bool:
            assert run.process.poll() is None, f"the run ended before:\n{run.out.read_text()[-6000:]}"
            return self.serving() == set(names)

        wait_for(there, seconds, f"{sorted(names)} serving")
        assert run.process.poll() is None

    # -- what a user sees ----------------------------------------------------------------------------------------------------------

    def serving(self) -> set[str]:
        """The groups that answer at their routers, by themselves, and that their records say are registered."""
        found = set()
        for name, group in self.groups.items():
            status, pair = Client.ask(
                completions(self.address_of(group["roles"]["router"]["hosts"]), self.routers[name])
            )
            if status == 200 and self.registered(name):
                assert f"group={name} " in pair, f"asked was {name}: {pair}"
                found.add(name)
        return found

    def registered(self, group: str) -> bool:
        """Whether every host that has the group's record says so."""
        records = self.records_of(group)
        return bool(records) and all(record["endpoint"]["registered"] for record in records)

    def touched(self) -> dict[str, dict[str, str]]:
        """By group, what a change of it would not leave as it is: each of its files on each host, and the pid of each member."""
        found: dict[str, dict[str, str]] = {name: {} for name in self.groups}
        for group, file, written in self.files():
            found.setdefault(group, {})[file] = written
        for member, pid in self.running().items():
            found[member.rsplit("-", 2)[0]][member] = str(pid)
        return found

    # -- what hosts of another kind have in their own way --------------------------------------------------------------------------

    def address_of(self, host: str) -> str:
        return str(self.hosts[host]["pd_address"])

    def records_of(self, group: str) -> list[dict[str, t.Any]]:
        files = [file for state in self.states for file in state.glob(f"groups/{group}/record.json")]
        return [json.loads(file.read_text()) for file in files]

    def files(self) -> t.Iterator[tuple[str, str, str]]:
        """The group, the name and the time of each file that a host has of a group; what members say is left out."""
        for state in self.states:
            for file in state.glob("groups/*/**/*"):
                if file.is_file() and file.name != "member.log":
                    yield file.relative_to(state).parts[1], str(file), str(file.stat().st_mtime_ns)

    def lose(self, host: str) -> None:
        self.down(host)

    def lock_of_another(self, group: str) -> None:
        """A run on another machine has the group's lock."""
        self.lock_from_elsewhere(group, self.state_of(self.first_host(group)))

    def unlock(self, group: str) -> None:
        """That run has ended."""
        (self.state_of(self.first_host(group)) / f"groups/{group}/lock.json").unlink()


def make(model: Path, folder: Path, hosts: int, names: t.Sequence[str]) -> Fleet:
    """Hosts of this machine, each with an address, ports and a state folder of its own. The groups are still to be added."""
    low = free_block(len(names) + PORTS * hosts)
    first = low + len(names)
    there = {}
    for number in range(hosts):
        name = f"h{number + 1}"
        there[name] = {
            "ansible_connection": "faulty",
            "pd_kv_interface": interface(),
            "pd_address": f"127.0.0.{number + 2}",
            "pd_port_range": f"{first + PORTS * number}-{first + PORTS * (number + 1) - 1}",
            "pd_state_dir": str(folder / name),
        }
    made = Fleet(folder, there, {})
    made.routers = {name: low + number for number, name in enumerate(names)}
    made.causes.mkdir()
    made.causes_there = str(made.causes)
    os.symlink(model, folder / "model")
    return made


_RESULT = re.compile(r"^(?:ok|changed|included|skipping):.*$", re.M)


def end_of(run: Run) -> str:
    """What the run says after the last thing that went well, as one line of text."""
    return " ".join(_RESULT.split(run.out.partition("\nPLAY RECAP")[0])[-1].split())


def failed_once(run: Run) -> str:
    """What the run says where it fails, which is one task of one host, and the last."""
    run.refused()
    # From ansible-core 2.19 on, the message stands above its result as well.
    failures = re.findall(r"^fatal: \[\S+\]: FAILED! ", run.out, re.M)
    assert len(failures) == 1, f"it failed {len(failures)} times:\n{run.out[-6000:]}"
    assert sum(counts["failed"] for counts in run.recap.values()) == 1, run.recap
    end = end_of(run)
    assert "FAILED! " in end, f"it goes on after its failure:\n{run.out[-6000:]}"
    return end
