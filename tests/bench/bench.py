"""How runs scale, measured and printed. See run.sh."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
import typing as t
import urllib.request
from collections import Counter
from pathlib import Path

import builders
import life
import rollout
from integration.conftest import Life, spec
from ports import free_block
from support import ROOT, playbook_command

LOAD = 5.0
TICKS = os.sysconf("SC_CLK_TCK")
_TASK = re.compile(r"^TASK \[(.*?)\]", re.M)
_DONE = re.compile(r"^(ok|changed|fatal|failed): \[node\]", re.M)
_CALL = re.compile(r"^Using module file \S*/(?:inferops/pd/|main/|)plugins/modules/(\w+)\.py", re.M)


def table(title: str, head: t.Sequence[str], rows: t.Sequence[t.Sequence[t.Any]]) -> None:
    cells = [list(map(str, head)), *([str(c) for c in row] for row in rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(head))]
    print(f"\n{title}")
    for row in cells:
        print("  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip(), flush=True)


# -- the core ------------------------------------------------------------------------------------------------------------------------


def plans() -> None:
    rows = []
    for hosts, groups in ((10, 1), (100, 1), (1000, 1), (100, 10), (1000, 100)):
        command = [sys.executable, str(ROOT / "tests/bench/fleet.py"), str(hosts), str(groups)]
        told = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        per = told["cpu"] / told["members"] * 1e6
        rows.append([hosts, groups, told["members"], f"{told['cpu']:.2f} s", f"{per:.0f} us", f"{told['rss']:.0f} MB"])
    head = ["hosts", "groups", "members", "CPU", "per member", "peak RSS"]
    table("group_plan's core, all groups of a run on synthetic hosts", head, rows)


def validations() -> None:
    # The catalogue is read once a run.
    known, given = builders.catalogue(), builders.spec()
    builders.validate.validate("demo", given, known)
    count, started = 0, time.process_time()
    while time.process_time() - started < 1.5:
        builders.validate.validate("demo", given, known)
        count += 1
    table("validations of one spec", ["a second"], [[f"{count / (time.process_time() - started):.0f}"]])


def histories() -> None:
    """How fast random walks go over planner, work and verdicts: what 20,000 of them cost."""
    from hypothesis import HealthCheck, Phase, settings
    from hypothesis.stateful import run_state_machine_as_test
    from unit.test_histories import Histories

    steps = 0

    class Counted(Histories):
        def check_invariants(self, *given: t.Any, **named: t.Any) -> None:
            nonlocal steps
            steps += 1
            super().check_invariants(*given, **named)

    walks = 60
    how = settings(
        max_examples=walks, stateful_step_count=25, deadline=None, database=None, derandomize=True,
        phases=[Phase.generate], suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    started = time.process_time()
    run_state_machine_as_test(Counted, settings=how)
    took = time.process_time() - started
    table("histories of formations", ["walks", "steps", "steps a second"], [[walks, steps, f"{steps / took:.0f}"]])


# -- playbooks -----------------------------------------------------------------------------------------------------------------------


def run(site: Life, *words: str) -> tuple[str, float, float]:
    """What the run said, when it began (seconds since boot) and how long it took."""
    began = uptime()
    env = {**os.environ, "ANSIBLE_NOCOLOR": "1"}
    command = [playbook_command(), "-i", str(site.folder / "hosts.yml"), *words]
    done = subprocess.run(
        command, cwd=ROOT, env=env, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False
    )
    took = uptime() - began
    if done.returncode:
        sys.exit(done.stdout[-4000:] + done.stderr[-2000:])
    return done.stdout, began, took


def uptime() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def started(pid: int) -> float:
    """When a process started, in seconds since boot."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]) / TICKS


def counts(folder: Path, model: Path) -> None:
    rows, calls = [], {}
    for each in (1, 8):
        low = free_block(60)
        hosts = {"node": {"pd_port_range": f"{low + 1}-{low + 59}"}}
        roles = {role: {"hosts": "node", "gpus": 0, "replicas": each} for role in ("prefill", "decode")}
        site = Life(folder / f"m{each}", hosts, {"g": spec(model, low, **roles)})
        try:
            out, began, took = run(site, "inferops.pd.deploy", "-vvv")
            called = Counter(_CALL.findall(out))
            launched = min(started(pid) for name, pid in site.pids().items() if "router" not in name) - began
            again, _began, idle = run(site, "inferops.pd.deploy", "-vvv")
        finally:
            site.clean()
        tasks = len(_DONE.findall(out))
        calls[each] = called
        idle_calls = sum(Counter(_CALL.findall(again)).values())
        rows.append(
            [f"{each}P{each}D", len(_TASK.findall(out)), tasks, sum(called.values()), f"{launched:.1f} s", f"{took:.1f} s",
             idle_calls, f"{idle:.1f} s"]
        )  # fmt: skip
    head = [
        "group",
        "tasks",
        "of them run",
        "module calls",
        "to the first launch",
        "in all",
        "calls, unchanged",
        "in all",
    ]
    table("deploy on one host, stand-in engines (a wait calls its module once a slice)", head, rows)
    names = sorted({*calls[1], *calls[8]})
    table("module calls by module", ["module", "1P1D", "8P8D"], [[n, calls[1][n], calls[8][n]] for n in names])


def alone(command: t.Sequence[str], env: t.Mapping[str, str], url: str) -> float:
    """Seconds from a process's start to its first healthy answer, with nothing of ours around it."""
    began = time.monotonic()
    with subprocess.Popen(
        command, env={**os.environ, **env}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    ) as process:
        try:
            while time.monotonic() - began < 300:
                try:
                    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
                    with opener.open(f"{url}/health", timeout=1):
                        return time.monotonic() - began
                except OSError:
                    time.sleep(0.05)
            raise AssertionError(f"{command[0]} did not become ready")
        finally:
            os.killpg(process.pid, 15)


def ready(site: Life, title: str) -> list[t.Any]:
    """A deploy against the slowest engine's own start: the same command, alone on the machine."""
    try:
        _out, began, took = run(site, "inferops.pd.deploy")
        pids = {name: pid for name, pid in site.pids().items() if "router" not in name}
        launched = min(map(started, pids.values())) - began
        name, pid = next(iter(sorted(pids.items())))
        command = Path(f"/proc/{pid}/cmdline").read_text().rstrip("\0").split("\0")
        environ = dict(e.split("=", 1) for e in Path(f"/proc/{pid}/environ").read_text().split("\0") if "=" in e)
        label = json.loads(next(site.state.glob(f"groups/*/members/{name}/label.json")).read_text())
    finally:
        run(site, "inferops.pd.remove", "-e", "pd_group=all")
        site.clean()
    own = alone(command, {k: v for k, v in environ.items() if not k.startswith("INFEROPS_")}, label["url"])
    return [title, f"{launched:.1f} s", f"{took:.1f} s", f"{own:.1f} s", f"{took - own:.1f} s"]


def readiness(folder: Path, model: Path) -> None:
    low = free_block(25)
    site = Life(folder / "ready", {"node": {"pd_port_range": f"{low + 1}-{low + 24}"}}, {"g": spec(model, low)})
    site.env(STANDIN_LOAD=str(LOAD))
    rows = [ready(site, f"stand-in, {LOAD:.0f} s of loading")]
    if os.environ.get("ENGINE") == "1" and (ROOT / ".build/demo/engine/bin/vllm").exists():
        from e2e.conftest import real_group

        low = free_block(25)
        real = real_group()
        real["roles"]["router"]["port"] = low
        hosts = {"node": {"pd_port_range": f"{low + 1}-{low + 24}"}}
        rows.append(ready(Life(folder / "real", hosts, {"real": real}), "real vLLM on the CPU"))
    head = ["engine", "to the first launch", "deploy in all, proof included", "one engine alone", "added"]
    table("time to a proven group of two engines, against the start of one that has the machine for itself", head, rows)


def main() -> None:
    print(f"{os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f}, Python {sys.version.split()[0]}")
    wanted = sys.argv[1:] or ["core", "runs", "fleet", "life"]
    if "core" in wanted:
        plans()
        validations()
        histories()
    with tempfile.TemporaryDirectory(prefix="pd-bench-") as name:
        folder = Path(name)
        model = folder / "model"
        model.mkdir()
        (model / "config.json").write_text('{"model_type": "standin"}')
        if "runs" in wanted:
            counts(folder, model)
            readiness(folder, model)
        if "fleet" in wanted:
            for made in rollout.tables(folder / "fleet", model):
                table(made.title, made.head, made.rows)
        if "life" in wanted:
            table(*life.restarts(folder, model))
            table(*life.scales(folder, model))
    print(f"\nload at the end {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
