# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What one run over a whole fleet costs the controller: real playbooks, over a connection that costs nothing. See run.sh."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
import typing as t
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import builders
import tally
import yaml
from integration.conftest import Life, interface, spec
from ports import free_block
from released import unpack
from support import ROOT, playbook_command

BENCH = ROOT / "tests" / "bench"
OLD = "22a08ae"
# Of the old version's groups only so many are deployed, and the time of all is reckoned from these: OLD_GROUPS=50 deploys them all.
OLD_GROUPS = int(os.environ.get("OLD_GROUPS", "2"))
ENGINE_LOAD = 10.0
Row = list[t.Any]


@dataclass(frozen=True)
class Cost:
    """What a run cost: seconds of CPU of the controller's processes without those that made the answers, and of the clock; the largest
    process in MB; the module calls, (module, host) each."""

    cpu: float
    wall: float
    rss: float
    tasks: list[tally.Task]
    calls: list[tuple[str, str]]

    def called(self, module: str) -> int:
        return sum(name == module for name, _host in self.calls)

    @property
    def a_host(self) -> int:
        """How many tasks ran on the host that ran most."""
        return max(tally.by_host(self.tasks).values())


class Fleet:
    """An inventory of synthetic hosts with nothing on them, and of groups, each on hosts of its own that lie side by side. With `some` it
    has only so many of the groups."""

    def __init__(
        self, folder: Path, hosts: int, groups: int, prefill: int = 1, decode: int = 1, some: int | None = None
    ) -> None:
        self.folder = folder
        self.names = [f"h{number:04}" for number in range(hosts)]
        self.groups = {}
        each = hosts // groups
        for number in range(groups if some is None else some):
            mine = ":".join(self.names[number * each : (number + 1) * each])
            self.groups[f"g{number:03}"] = builders.spec(
                prefill={"hosts": mine, "replicas": prefill},
                decode={"hosts": mine, "replicas": decode},
                router={"hosts": mine, "port": 20000 + number},
            )
        self._write()

    def _write(self) -> None:
        facts = self.folder / "facts"
        facts.mkdir(parents=True)
        for number, name in enumerate(self.names):
            there = f"{number // 250}.{number % 250}.1"
            kv = {"names": ["eth1"], "address": f"11.{there}", "rdma_devices": []}
            host = builders.host_facts(number + 1, gpus=8, address=f"10.{there}", kv_interface=kv)
            told = {
                "changed": False,
                "ansible_facts": {"pd_host": {"hidden": "", "elsewhere": [], "digest": "0", **host}},
            }
            (facts / f"{name}.json").write_text(json.dumps(told))
        common = {
            "ansible_connection": "canned",
            "ansible_python_interpreter": "/usr/bin/python3",
            "pd_groups": self.groups,
        }
        inventory = {"all": {"hosts": dict.fromkeys(self.names), "vars": common}}
        (self.folder / "hosts.yml").write_text(yaml.safe_dump(inventory))

    def run(self, *words: str, collections: Path | None = None) -> Cost:
        """Run a playbook with these words over it, by the collection below `collections` or by this one; it must succeed."""
        calls, counted = self.folder / "calls", self.folder / "tally.json"
        calls.write_bytes(b"")
        environment = {
            **os.environ,
            "ANSIBLE_NOCOLOR": "1",
            **tally.environment(counted),
            "ANSIBLE_CONNECTION_PLUGINS": str(BENCH / "plugins" / "connection"),
            "ANSIBLE_HOME": str(self.folder / "home"),
            "PYTHONPATH": str(ROOT / "tests"),
            "PD_CANNED_FACTS": str(self.folder / "facts"),
            "PD_CANNED_CALLS": str(calls),
        }
        if collections:
            environment["ANSIBLE_COLLECTIONS_PATH"] = str(collections)
        command = [playbook_command(), "-i", str(self.folder / "hosts.yml"), *words]
        said = self.folder / "said"
        begun = time.monotonic()
        with said.open("w") as out:
            run = subprocess.Popen(command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
            # With all that it has waited for: its workers.
            _pid, status, used = os.wait4(run.pid, 0)
        wall = time.monotonic() - begun
        run.returncode = os.waitstatus_to_exitcode(status)
        if run.returncode:
            sys.exit(f"{' '.join(words)} on {len(self.names)} hosts failed:\n{said.read_text()[-6000:]}")
        lines = [line.split() for line in calls.read_text().splitlines()]
        return Cost(
            cpu=used.ru_utime + used.ru_stime - sum(int(spent) for _module, _host, spent in lines) / 1e9,
            wall=wall,
            rss=used.ru_maxrss / 1024,
            tasks=tally.read(counted),
            calls=[(module, host) for module, host, _spent in lines],
        )


# -- the tables ------------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Table:
    """What is printed of a measure; and of it in `short` what is measured, what is wanted, and what was found."""

    title: str
    head: list[str]
    rows: list[Row]
    short: list[tuple[str, str, str]]


def checks(folder: Path, hosts: int = 150, groups: int = 50) -> Table:
    """A check run over a whole fleet, by this version and by the old one."""
    new = Fleet(folder / "checks", hosts, groups).run("inferops.pd.deploy", "--check")
    few = Fleet(folder / "old", hosts, groups, some=OLD_GROUPS)
    old = few.run("inferops.pd.deploy", "--check", collections=unpack.collections(OLD, folder))
    times = groups / OLD_GROUPS
    reckoned = "" if times == 1 else f", {OLD_GROUPS} groups times {times:g}"
    part = f"{new.cpu / old.cpu / times:.3f}"
    rows: list[Row] = [
        ["this one", new.called("host_facts"), new.a_host, f"{new.cpu:.0f} s", f"{new.wall:.0f} s", part],
        [
            OLD + reckoned, f"{old.called('host_facts') * times:.0f}", f"{old.a_host * times:.0f}",
            f"{old.cpu * times:.0f} s", f"{old.wall * times:.0f} s", "1",
        ],
    ]  # fmt: skip
    what = f"{groups} groups on {hosts} hosts"
    return Table(
        f"deploy --check of {what}",
        ["version", "host_facts calls", "tasks on a host", "controller CPU", "in all", "CPU, of the old one's"],
        rows,
        [
            (f"host_facts calls, {what}", f"{hosts}", f"{new.called('host_facts')}"),
            (f"deploy --check of {what}, CPU against {OLD}", "a tenth", part),
        ],
    )


def waves(folder: Path, counts: t.Sequence[int] = (1, 50), places: int = 3) -> Table:
    """First deploys of one group and of many: what a host is asked to do."""
    rows, tasks = [], []
    for groups in counts:
        cost = Fleet(folder / f"wave{groups}", groups * places, groups).run("inferops.pd.deploy")
        calls = Counter(module for module, _host in cost.calls)
        told = ", ".join(f"{name} {count}" for name, count in sorted(calls.items()))
        rows.append([groups, groups * places, cost.a_host, f"{cost.cpu:.1f} s", f"{cost.wall:.1f} s", told])
        tasks.append(str(cost.a_host))
    measure = f"tasks on a host, first deploy of {' and '.join(map(str, counts))} groups"
    return Table(
        "first deploy in one wave",
        ["groups", "hosts", "tasks on a host", "controller CPU", "in all", "module calls"],
        rows,
        [(measure, "equal", ", ".join(tasks))],
    )


def phases(folder: Path, sizes: t.Sequence[int] = (100, 400), places: int = 4) -> Table:
    """The same fleet, larger: groups of 2P2D on four hosts each. What each task of a first deploy costs the controller."""
    costs = [Fleet(folder / f"phases{size}", size, size // places, 2, 2).run("inferops.pd.deploy") for size in sizes]
    spent = [_by_phase(cost) for cost in costs]
    rows, worst = [], 0.0
    for name in dict.fromkeys(name for one in spent for name in one):
        cpu = [one.get(name, 0.0) for one in spent]
        # A task of one host costs next to nothing: its growth is noise.
        grows = cpu[-1] / cpu[0] if cpu[0] and cpu[-1] >= 1 else 0.0
        worst = max(worst, grows)
        rows.append([name, *(f"{one:.2f} s" for one in cpu), f"{grows:.1f}" if grows else ""])
    in_all = f"{costs[-1].cpu / costs[0].cpu:.1f}"
    rows.append(["in all", *(f"{cost.cpu:.1f} s" for cost in costs), in_all])
    rows.append(["peak RSS of a process", *(f"{cost.rss:.0f} MB" for cost in costs), ""])
    measure = f"controller CPU of a first deploy, {sizes[0]} and {sizes[-1]} hosts"
    wanted, found = f"times {sizes[-1] / sizes[0]:g}, as hosts", f"times {in_all}, a phase at most {worst:.1f}"
    return Table(
        f"controller CPU of a first deploy by task, a group of 2P2D on each {places} hosts",
        ["task", *(f"{size} hosts" for size in sizes), "times"],
        rows,
        [(measure, wanted, found)],
    )


def _by_phase(cost: Cost) -> dict[str, float]:
    """Seconds of CPU by what a task is called, whichever group it names."""
    found: dict[str, float] = {}
    for task in cost.tasks:
        name = re.sub(r"^inferops\.pd\.\w+ : |(\bg\d{3}(, )?)+|\d+ workloads", "", task.name).strip()
        found[name] = found.get(name, 0.0) + task.cpu
    return found


def planned(folder: Path, hosts: int = 1000, groups: int = 100, members: int = 8000) -> Table:
    """The plan of a large fleet: in the core, and as a run makes it, with facts read, the plan written and told."""
    command = [sys.executable, str(BENCH / "fleet.py"), str(hosts), str(groups)]
    core = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    each = members // groups // 2
    cost = Fleet(folder / "planned", hosts, groups, each, each).run(str(BENCH / "plan.yml"))
    (plan,) = (task for task in cost.tasks if task.action == "inferops.pd.group_plan")
    rows: list[Row] = [["the core alone", f"{core['cpu']:.1f} s", "", f"{core['rss']:.0f} MB"]]
    some = (task for task in cost.tasks if task.cpu >= 1 or task is plan)
    rows += [[task.name.rpartition(" : ")[2], f"{task.cpu:.1f} s", f"{task.wall:.1f} s", ""] for task in some]
    rows.append(["the largest process", "", "", f"{cost.rss:.0f} MB"])
    what = f"plan of {members} members in {groups} groups on {hosts} hosts"
    return Table(
        what,
        ["task", "controller CPU", "in all", "peak RSS"],
        rows,
        [
            (f"{what}, the core", "3 s, 200 MB", f"{core['cpu']:.1f} s, {core['rss']:.0f} MB"),
            ("the same through group_plan", "30 s", f"{plan.wall:.1f} s, CPU {plan.cpu:.1f} s"),
        ],
    )


def forming(folder: Path, model: Path, counts: t.Sequence[int] = (1, 8)) -> Table:
    """Real runs with stand-in engines on two hosts that are this machine: how much longer several groups take to form than one."""
    took = []
    for groups in counts:
        site = _pairs(folder / f"forming{groups}", model, groups)
        try:
            begun = time.monotonic()
            site.play("deploy").ok()
            took.append(time.monotonic() - begun)
        finally:
            site.clean()
    times = f"{took[-1] / took[0]:.2f}"
    what = f"on two hosts, engines load for {ENGINE_LOAD:.0f} s"
    return Table(
        f"forming groups of 1P1D {what}",
        ["groups", "in all", "times"],
        [[groups, f"{wall:.1f} s", f"{wall / took[0]:.2f}"] for groups, wall in zip(counts, took)],
        [(f"forming {counts[-1]} groups {what}, against {counts[0]}", "times 2", f"times {times}")],
    )


def _pairs(folder: Path, model: Path, groups: int) -> Life:
    """Groups with the prefill on one host and the decode on the other."""
    width = 20 * groups
    low = free_block(groups + 2 * width)
    hosts = {
        f"h{number}": {
            "pd_address": f"127.0.0.{number + 1}", "pd_kv_interface": interface(), "pd_state_dir": str(folder / f"state{number}"),
            "pd_port_range": f"{low + groups + (number - 1) * width}-{low + groups + number * width - 1}",
        } for number in (1, 2)
    }  # fmt: skip
    roles = {"prefill": {"hosts": "h1"}, "decode": {"hosts": "h2"}, "router": {"hosts": "h1"}}
    specs = {f"g{number}": spec(model, low + number, **roles) for number in range(groups)}
    for one in specs.values():
        one["engine"]["env"]["STANDIN_LOAD"] = str(ENGINE_LOAD)
    return Life(folder, hosts, specs)


def tables(folder: Path, model: Path) -> t.Iterator[Table]:
    """All of them, and at last what they say in short."""
    measures: list[t.Callable[[], Table]] = [
        lambda: checks(folder),
        lambda: waves(folder),
        lambda: phases(folder),
        lambda: planned(folder),
    ]
    # A group that spans hosts cannot have its KV cache on lo.
    if interface():
        measures.append(lambda: forming(folder, model))
    short: list[Row] = []
    for measure in measures:
        made = measure()
        short += [list(row) for row in made.short]
        yield made
    yield Table("a fleet, in short", ["measure", "want", "found"], short, [])
