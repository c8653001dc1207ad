# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Compares two ways to apply the members of one host: one call of inferops.pd.members, and community.docker.docker_container in a loop.

    docker_compare.py [MEMBERS]     16 unless told otherwise

Both are ansible-playbook runs on this machine against the same private Docker engine, with containers of the same settings; counted is the
CPU of ansible-playbook and of all that it started, without the engine's own. The start of ansible-playbook, measured by an empty play, is
given apart. Without the collection community.docker (it comes with PyPI's package ansible) there is nothing to compare."""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import typing as t
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TESTS))

import planned  # noqa: E402
from docker_engine import IMAGE, Engine, NoEngineError, engine  # noqa: E402
from integration.support_runtime import member, orders, slice_of  # noqa: E402
from ports import free_ports  # noqa: E402

ROOT = TESTS.parent
GOAL = 10.0
# A member that listens where it should, and costs nothing.
PROGRAM = "import socket,sys,time\ns=socket.create_server(('127.0.0.1',int(sys.argv[1])))\ntime.sleep(3600)"


class Cost(t.NamedTuple):
    cpu: float
    wall: float
    changed: int


def ansible_playbook() -> str:
    beside = Path(sys.executable).with_name("ansible-playbook")
    return str(beside) if beside.exists() else str(shutil.which("ansible-playbook"))


def has_community_docker(environment: dict[str, str]) -> bool:
    command = [
        ansible_playbook().replace("-playbook", "-galaxy"),
        "collection",
        "list",
        "community.docker",
        "--format",
        "json",
    ]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, cwd=ROOT)
    return done.returncode == 0 and "community.docker" in done.stdout


def play(folder: Path, tasks: list[dict[str, t.Any]], environment: dict[str, str]) -> Cost:
    """Run the tasks on one host, and count."""
    book = folder / "play.json"
    book.write_text(json.dumps([{"hosts": "h1", "gather_facts": False, "tasks": tasks}]))
    inventory = folder / "hosts.yml"
    variables = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    inventory.write_text(json.dumps({"all": {"hosts": {"h1": variables}}}))
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    done = subprocess.run(
        [ansible_playbook(), "-i", str(inventory), str(book)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )
    wall, after = time.monotonic() - begun, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise SystemExit(f"ansible-playbook failed:\n{done.stdout[-3000:]}{done.stderr[-1000:]}")
    changed = int(done.stdout.rpartition("changed=")[2].split()[0])
    return Cost(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, wall, changed)


def our_task(members: list[dict[str, t.Any]], state: Path, url: str, create: bool) -> dict[str, t.Any]:
    """What the role does with a plan. Of members that run, a plan says to create none."""
    plan = {**slice_of("bench", members, create=None if create else []), "runtime": "docker"}
    arguments = orders("start", plan, state_dir=str(state), runtime_options={"docker": {"host": url}})
    return {"name": "Start the members", "pd_module": {"module": "inferops.pd.members", "arguments": arguments}}


def their_task(members: list[dict[str, t.Any]], url: str) -> dict[str, t.Any]:
    """What a playbook would write for the same containers. Each finds its own by name; nothing guards ports, plans or groups."""
    items = [
        {
            "name": f"their-{one.id}",
            "argv": list(one.leader.argv),
            "env": dict(one.leader.env),
            "labels": {key: str(value) for key, value in one.leader.labels.items()},
        }
        for one in map(planned.member, members)
    ]
    arguments = {
        "docker_host": url,
        "name": "{{ item.name }}",
        "image": IMAGE,
        "pull": False,
        "entrypoint": ["python3"],
        "command": "{{ item.argv[1:] }}",
        "env": "{{ item.env }}",
        "labels": "{{ item.labels }}",
        "network_mode": "host",
        "ipc_mode": "private",
        "capabilities": ["IPC_LOCK"],
        "ulimits": ["memlock:-1:-1"],
        "shm_size": "1G",
        "restart_policy": "on-failure",
        "restart_retries": 3,
        "log_driver": "json-file",
        "log_options": {"max-size": "50m", "max-file": "3"},
        "stop_timeout": 32,
        "state": "started",
    }
    return {"name": "Start the containers", "community.docker.docker_container": arguments, "loop": items}


def compare(count: int, docker: Engine, folder: Path, environment: dict[str, str]) -> None:
    ports = free_ports(2 * count)
    made = [
        member(
            "bench",
            "decode",
            number,
            port,
            image=IMAGE,
            attempts=3,
            env={"A": "1"},
            argv=["python3", "-c", PROGRAM, str(port)],
        )
        for number, port in enumerate(ports)
    ]
    theirs = their_task(made[count:], docker.url)
    empty = min(play(folder, [{"ansible.builtin.debug": {"msg": ""}}], environment).cpu for _time in range(2))
    print(f"{count} members on one host; CPU seconds, {empty:.2f} s of each for the start of ansible-playbook")
    print(f"{'':24}{'CPU':>8}{'without start':>15}{'wall':>8}")
    for what in ("created", "applied again"):
        costs = {}
        ours = our_task(made[:count], folder / "state", docker.url, what == "created")
        for name, task in (("inferops.pd.members", ours), ("docker_container, loop", theirs)):
            cost = play(folder, [task], environment)
            costs[name] = cost
            print(f"{name:24}{cost.cpu:8.2f}{cost.cpu - empty:15.2f}{cost.wall:8.2f}  {what}, changed={cost.changed}")
        mine, other = costs["inferops.pd.members"], costs["docker_container, loop"]
        net = (other.cpu - empty) / max(mine.cpu - empty, 0.01)
        print(f"ratio: {other.cpu / mine.cpu:.1f} with the start, {net:.1f} without (goal: {GOAL:.0f})\n")


def main() -> int:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 16
    environment = {**os.environ, "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"), "ANSIBLE_NOCOLOR": "1"}
    environment["ANSIBLE_ACTION_PLUGINS"] = str(TESTS / "plugins" / "action")
    if not has_community_docker(environment):
        print("docker_compare: skipped, the collection community.docker is not installed here (pip install ansible)")
        return 0
    with tempfile.TemporaryDirectory(prefix="pd-bench-") as name:
        try:
            docker = engine(Path(name, "docker"))
        except NoEngineError as exc:
            print(f"docker_compare: skipped, {exc}")
            return 0
        try:
            compare(count, docker, Path(name), environment)
        finally:
            docker.end()
    return 0


if __name__ == "__main__":
    sys.exit(main())
